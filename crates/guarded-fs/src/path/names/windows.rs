//! The Windows rules for paths and names.
//!
//! Every path or `file:` URI is either refused or converted to a normal form: `C:\a\b`,
//! `\\server\share\a`, or a relative `a\b`, `..\a` or `.`. It contains no separator except `\`, and
//! no `.` or `..` except at the start of a relative path. Windows does not reinterpret any of its
//! names, and normalizing it again does not change it. `tests/properties/windows.rs` verifies this
//! on any system.
//!
//! | text | meaning |
//! | --- | --- |
//! | `C:\a`, `c:/a` | an absolute path on a drive |
//! | `\\server\share\a`, `//server/share/a` | an absolute path on a share |
//! | `\\?\C:\a`, `\\?\UNC\server\share\a` | the same, if each name means the same without the prefix |
//! | `a\b`, `..\a` | a relative path |
//! | `C:a`, `C:`, `\a` | relative to the process's current drive or directory: refused |
//! | any other `\\?\`, `\\.\`, `\??\`, `\\server` | not the path of a file: refused |
#![allow(
    unreachable_pub,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "for `internals`"
)]

use std::borrow::Cow;
use std::net::Ipv4Addr;

use crate::error::Code;
use crate::path::escapes;

/// Returns the normal form of a path.
///
/// As Windows defines it, `..` is removed together with the name before it, and has no effect at
/// the top of a drive or share. Each name is checked first, even if `..` removes it. A path that
/// ends in a separator, `.` or `..` names a directory: its normal form ends in `\`, unless it is
/// `.` or ends in `..`.
pub fn path(text: &str) -> Result<String, Code> {
    if text.is_empty() {
        return Err(Code::Empty);
    }
    if text.contains('\0') {
        return Err(Code::Nul);
    }
    let text = match text.strip_prefix(VERBATIM) {
        Some(rest) => Cow::Owned(verbatim(rest)?),
        None => Cow::Borrowed(text),
    };
    let (prefix, rest) = prefix(&text)?;
    let mut names: Vec<&str> = Vec::new();
    let mut is_directory = false;
    for segment in rest.split(SEPARATORS) {
        is_directory = matches!(segment, "" | "." | "..");
        match segment {
            ".." if names.last().is_some_and(|last| *last != "..") => drop(names.pop()),
            ".." if prefix.is_empty() => names.push(segment),
            "" | "." | ".." => {}
            _ => {
                check_name(segment)?;
                names.push(segment);
            }
        }
    }
    let is_dots = names.last().is_none_or(|last| *last == "..");
    let end = if is_directory && !is_dots { r"\" } else { "" };
    match (prefix.as_str(), names.is_empty()) {
        ("", true) => Ok(".".into()),
        _ => Ok(format!("{prefix}{}{end}", names.join(r"\"))),
    }
}

/// Returns the normal form of the absolute path that a `file:` URI names.
///
/// The path must begin with a drive or, if the URI has a host, with a share of that server.
/// Everything that a URL parser would silently repair is refused, and so is a `..` above the drive
/// or share. Some clients write `d:\a` as `file://d:\a` or `file://d:/a`. Both are accepted,
/// because the URL Standard interprets them in the same way ("file host state").
pub fn uri(text: &str) -> Result<String, Code> {
    let is_unescaped = |rest: &str| rest.strip_prefix("//").is_some_and(is_from_drive);
    let rest = escapes::after_scheme(text, is_unescaped)?;
    match rest.get(2..).filter(|_| is_unescaped(rest)) {
        // It is ambiguous whether `%` starts an escape.
        Some(unescaped) if unescaped.contains('%') => Err(Code::BadEscape),
        Some(unescaped) => path(unescaped),
        None => path(&uri_path(rest)?),
    }
}

/// The key by which the filesystem compares a name: each character in uppercase, if that is a
/// single character whose lowercase form is the original one.
///
/// The uppercase table of NTFS works the same way. It maps UTF-16 code units, so characters beyond
/// U+FFFF are unchanged. In that table `ı` is not `I`, `µ` is not a Greek letter, and `ς` equals
/// `Σ`. It may distinguish letters that later versions of Unicode pair, which are equal here.
pub fn key(name: &str) -> Cow<'_, str> {
    if name.chars().all(|c| upper(c) == c) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().map(upper).collect())
}

/// Whether a normal form begins with a drive or a share.
pub fn is_absolute(normal: &str) -> bool {
    is_from_drive(normal) || is_from_share(normal)
}

/// The names of a normal form, including `.` and `..`, each with the rest after it. The volume of
/// an absolute path, `C:` or `\\server\share`, is its first name.
pub fn components(normal: &str) -> impl Iterator<Item = (&str, &str)> {
    let (volume, mut rest) = volume(normal);
    let volume = (!volume.is_empty()).then_some((volume, rest));
    let names = std::iter::from_fn(move || {
        let from = rest.trim_start_matches(SEPARATORS);
        let (name, after) = from.split_at_checked(from.find(SEPARATORS).unwrap_or(from.len()))?;
        rest = after;
        (!name.is_empty()).then_some((name, after))
    });
    volume.into_iter().chain(names)
}

fn volume(normal: &str) -> (&str, &str) {
    let end = if is_from_drive(normal) {
        2
    } else if is_from_share(normal) {
        normal.match_indices(SEPARATORS).nth(3).map_or(normal.len(), |(end, _)| end)
    } else {
        0
    };
    normal.split_at_checked(end).unwrap_or(("", normal))
}

/// The plain form of the text after `\\?\`, which Windows interprets literally, so anything that it
/// would change in a plain path is refused.
fn verbatim(rest: &str) -> Result<String, Code> {
    let (plain, names) = match rest.split_once('\\') {
        Some((drive, names)) if is_drive(drive) => (rest.to_owned(), names),
        Some((share, names)) if share.eq_ignore_ascii_case("UNC") => (format!(r"\\{names}"), names),
        _ => return Err(Code::DevicePath),
    };
    // Only the last name may be empty, if the path ends in a separator.
    let is_changed = |(from_end, name): (usize, &str)| {
        (name.is_empty() && from_end > 0) || matches!(name, "." | "..") || name.contains('/')
    };
    if names.split('\\').rev().enumerate().any(is_changed) {
        return Err(Code::InvalidName);
    }
    Ok(plain)
}

/// Splits off the drive or share in normal form, which is empty for a relative path.
fn prefix(text: &str) -> Result<(String, &str), Code> {
    let from = |start: usize| text.get(start..).unwrap_or_default();
    match text.as_bytes() {
        _ if is_from_share(text) => share(from(2)),
        // The object manager's directory `\??\` contains the names of drives.
        [b'\\' | b'/', b'?', b'?', b'\\' | b'/', ..] => Err(Code::DevicePath),
        [b'\\' | b'/', ..] => Err(Code::DriveRelative),
        [letter, ..] if is_from_drive(text) => {
            Ok((format!(r"{}:\", char::from(letter.to_ascii_uppercase())), from(3)))
        }
        [letter, b':', ..] if letter.is_ascii_alphabetic() => Err(Code::DriveRelative),
        _ => Ok((String::new(), text)),
    }
}

fn share(text: &str) -> Result<(String, &str), Code> {
    let (server, rest) = text.split_once(SEPARATORS).unwrap_or((text, ""));
    let (share, rest) = rest.split_once(SEPARATORS).unwrap_or((rest, ""));
    let is_device = NON_DISK_SHARES.iter().any(|name| share.eq_ignore_ascii_case(name));
    if matches!(server, "" | "." | "?") || share.is_empty() || is_device {
        return Err(Code::DevicePath);
    }
    check_characters(server)?;
    check_characters(share)?;
    Ok((format!(r"\\{server}\{share}\"), rest))
}

/// Checks that Windows can interpret a name only as the file or directory of exactly this name.
fn check_name(name: &str) -> Result<(), Code> {
    check_characters(name)?;
    match name {
        _ if is_reserved(name) => Err(Code::ReservedName),
        _ if is_short(name) => Err(Code::ShortName),
        _ => Ok(()),
    }
}

fn check_characters(name: &str) -> Result<(), Code> {
    match name {
        _ if name.contains(|c| c < ' ' || r#"<>"|?*"#.contains(c)) => Err(Code::InvalidName),
        _ if name.contains(':') => Err(Code::Stream),
        _ if name.ends_with(['.', ' ']) => Err(Code::TrailingDot),
        _ if name.encode_utf16().count() > NAME_UNITS => Err(Code::TooLong),
        _ => Ok(()),
    }
}

/// Whether a device has this name in every directory, whatever its extension and the spaces before
/// that.
fn is_reserved(name: &str) -> bool {
    let base = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let port = base
        .split_at_checked(3)
        .filter(|(of, _)| PORTS.iter().any(|port| of.eq_ignore_ascii_case(port)));
    let mut number = port.map(|(_, number)| number.chars()).into_iter().flatten();
    let is_port =
        matches!((number.next(), number.next()), (Some('0'..='9' | '¹' | '²' | '³'), None));
    is_port || DEVICES.iter().any(|device| base.eq_ignore_ascii_case(device))
}

/// Whether this could be a generated 8.3 short name, such as `PROGRA~1` or `TEXTFI~2.TXT`.
fn is_short(name: &str) -> bool {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let number = base.rsplit_once('~').map_or("", |(_, number)| number);
    let is_number = (1..=6).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    is_number
        && base.chars().count() <= 8
        && extension.chars().count() <= 3
        && !extension.contains('.')
}

/// The path in the text after a URI's scheme, decoded once and without dot segments (RFC 3986).
fn uri_path(rest: &str) -> Result<String, Code> {
    let (host, path) = escapes::split_host(rest);
    // The URL Standard's host parser decodes this escape. A server name needs no other escape.
    let host = &*host.replace("%24", "$");
    let is_local = host.is_empty() || host.eq_ignore_ascii_case("localhost");
    if !is_local && !is_server(host) {
        return Err(Code::ForeignHost);
    }
    if !path.starts_with('/') {
        return Err(Code::NotAbsolute);
    }
    let decoded = String::from_utf8(escapes::decode(path, b"/\\")?).map_err(|_| Code::NotUtf8)?;
    // Leading dot segments have no effect (RFC 3986, 5.2.4).
    let is_dots = |segment: &&str| matches!(*segment, "." | "..");
    let mut segments = decoded.split('/').skip(1).skip_while(is_dots).peekable();
    let first = segments.next().unwrap_or_default();
    let prefix = match (first, segments.peek()) {
        // Some software uses four slashes in the URI of a share on another host (RFC 8089, E.3.2).
        // `file:///.//host/share` is equivalent.
        ("", Some(_)) => return Err(Code::ForeignHost),
        _ if !is_local => format!(r"\\{host}\{first}"),
        (drive, Some(_)) if is_drive(drive) => drive.to_owned(),
        // A URL parser would interpret this name as a drive.
        (drive, _) if matches!(drive.as_bytes(), [b'a'..=b'z' | b'A'..=b'Z', b'|']) => {
            return Err(Code::DroppedCharacter);
        }
        _ => return Err(Code::DriveRelative),
    };
    let above = if is_local { Code::DriveRelative } else { Code::DevicePath };
    let mut names: Vec<&str> = Vec::new();
    let mut is_directory = false;
    for segment in segments {
        is_directory = is_dots(&segment);
        match segment {
            // Such a `..` is refused, because its meaning varies. According to RFC 3986, it leaves
            // the drive or share. According to the URL Standard, it does not leave the drive,
            // unless the drive letter or its colon is percent-encoded. On Windows, it leaves
            // neither a drive nor a share.
            ".." if names.pop().is_none() => return Err(above),
            "." | ".." => {}
            // Unlike in a path, empty segments are significant.
            "" => names.push(segment),
            _ => {
                check_name(segment)?;
                names.push(segment);
            }
        }
    }
    let end = if is_directory { r"\" } else { "" };
    Ok(format!(r"{prefix}\{}{end}", names.join(r"\")))
}

/// Whether a URL parser would leave the name of a server unchanged. It reads a host that ends in a
/// number as an IPv4 address (URL Standard, "ends in a number checker").
fn is_server(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with(|c: char| c.is_ascii_digit())
        && (last.bytes().all(|b| b.is_ascii_digit())
            || last.get(..2).is_some_and(|x| x.eq_ignore_ascii_case("0x")));
    // `wsl$` is the server for the files of the Windows Subsystem for Linux.
    host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._$".contains(&b))
        && (!is_number || host.parse::<Ipv4Addr>().is_ok())
}

fn is_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [b'a'..=b'z' | b'A'..=b'Z', b':'])
}

fn is_from_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [b'a'..=b'z' | b'A'..=b'Z', b':', b'\\' | b'/', ..])
}

fn is_from_share(text: &str) -> bool {
    matches!(text.as_bytes(), [b'\\' | b'/', b'\\' | b'/', ..])
}

fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if c <= '\u{ffff}' && (c == 'ς' || upper.to_lowercase().eq([c])) => {
            upper
        }
        _ => c,
    }
}

const SEPARATORS: [char; 2] = ['\\', '/'];

/// The prefix of Win32 file namespaces ("Naming Files, Paths, and Namespaces").
const VERBATIM: &str = r"\\?\";

/// Shares of every server that are not disks (Win32, "Pipe Names" and "Mailslot Names"). SMB
/// provides the pipes in `ipc$`.
const NON_DISK_SHARES: &[&str] = &["pipe", "mailslot", "ipc$"];

/// Device names ("Naming Files, Paths, and Namespaces", naming conventions). `CONIN$` and `CONOUT$`
/// belong to the console, and `CLOCK$` to MS-DOS.
const DEVICES: &[&str] = &["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"];

/// Device names followed by one digit, which may be a superscript digit of ISO 8859-1.
const PORTS: &[&str] = &["COM", "LPT"];

/// The longest name in UTF-16 code units: NTFS's `lpMaximumComponentLength` (GetVolumeInformation).
const NAME_UNITS: usize = 255;
