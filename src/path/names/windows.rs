//! The rules of Windows for paths and names, as functions of text.
//!
//! Goes in: a path or a `file:` URI as text. Comes out: its normal form, which is `C:\a\b`, `\\server\share\a` or a relative `a\b`, `..\a`,
//! `.`; or why it is refused. What is true after: a normal form has no separator but `\`, no `.` or `..` but leading ones of a
//! relative path, and no name that Windows would read as anything but a file of just that name; and its own normal form is
//! itself. No I/O is done here, and nothing of an operating system is used, so that `tests/invariants/windows.rs` proves it anywhere.
//!
//! | text | is |
//! | --- | --- |
//! | `C:\a`, `c:/a` | a path from a drive's top |
//! | `\\server\share\a`, `//server/share/a` | a path from a share's top |
//! | `\\?\C:\a`, `\\?\UNC\server\share\a` | the same, if each name stands as it is |
//! | `a\b`, `..\a` | relative |
//! | `C:a`, `C:`, `\a` | relative to what only the process knows: refused |
//! | any other `\\?\`; `\\.\`, `\??\`; `\\server` | no file's path: refused |

use std::borrow::Cow;
use std::net::Ipv4Addr;

use super::{Code, decode};

/// The normal form of a path.
///
/// `..` is removed with the name before it, as Windows defines it, and goes no higher than the top of a drive or share. Each name is
/// looked at first, also one that `..` removes. A path that ended in a separator, `.` or `..` names a directory, and keeps one `\`
/// after its last name; `.` and a last `..` that stays have none.
pub(crate) fn path(text: &str) -> Result<String, Code> {
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
    let (top, rest) = top(&text)?;
    let mut kept: Vec<&str> = Vec::new();
    let mut is_directory = false;
    for segment in rest.split(SEPARATORS) {
        is_directory = matches!(segment, "" | "." | "..");
        match segment {
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if top.is_empty() => kept.push(segment),
            "" | "." | ".." => {}
            _ => {
                name(segment)?;
                kept.push(segment);
            }
        }
    }
    let is_dots = kept.last().is_none_or(|last| *last == "..");
    let end = if is_directory && !is_dots { r"\" } else { "" };
    match (top.as_str(), kept.is_empty()) {
        ("", true) => Ok(".".into()),
        _ => Ok(format!("{top}{}{end}", kept.join(r"\"))),
    }
}

/// The normal form of the absolute path that a `file:` URI names.
///
/// What a URL parser would repair is refused by name first. The path must begin with a drive; or there is a host, a server, and the
/// path begins with its share; and `..` goes no higher. `file://d:\a` and `file://d:/a` are what some clients write of `d:\a`, and what
/// the URL Standard makes of them ("file host state"): that is taken as it is.
pub(crate) fn uri(text: &str) -> Result<String, Code> {
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(Code::ForeignScheme);
    }
    if text.contains('\0') {
        return Err(Code::Nul);
    }
    let unescaped = rest.strip_prefix("//").filter(|rest| is_from_drive(rest));
    // URL Standard, "basic URL parser", steps 1 to 3: surrounding control characters and spaces, and tabs and newlines anywhere.
    let is_dropped = text.ends_with(|c| c <= ' ') || text.contains(['\t', '\n', '\r']);
    if is_dropped || (unescaped.is_none() && text.contains('\\')) {
        return Err(Code::DroppedCharacter);
    }
    if text.contains('#') {
        return Err(Code::Fragment);
    }
    if text.contains('?') {
        return Err(Code::Query);
    }
    match unescaped {
        // Nobody knows whether it was meant as an escape.
        Some(unescaped) if unescaped.contains('%') => Err(Code::BadEscape),
        Some(unescaped) => path(unescaped),
        None => path(&uri_path(rest)?),
    }
}

/// A name as the file system compares it: each character in its upper case, if that is one character, and the lower case of that is
/// the same again.
///
/// So the table of NTFS has it, by UTF-16 units, and so none beyond U+FFFF; but `ı` is no `I` there, nor `µ` a Greek letter. It has `ς` as
/// `Σ`. It may hold apart what Unicode made a pair of after it was written, and names that differ in such characters are one name here.
pub(crate) fn key(name: &str) -> Cow<'_, str> {
    if name.chars().all(|c| upper(c) == c) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().map(upper).collect())
}

/// Whether a normal form begins at a drive or share.
pub(crate) fn is_absolute(normal: &str) -> bool {
    is_from_drive(normal) || is_from_share(normal)
}

/// The names of a normal form, `.` and `..` among them, each with the rest that follows it. The first of an absolute path is its
/// volume: `C:` or `\\server\share`.
pub(crate) fn components(normal: &str) -> impl Iterator<Item = (&str, &str)> {
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

/// The volume of a normal form, if it has one, and the rest.
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

/// The plain form of what follows `\\?\`: Windows takes that as it is, so what it would read otherwise in a plain path is refused.
fn verbatim(rest: &str) -> Result<String, Code> {
    let (plain, names) = match rest.split_once('\\') {
        Some((drive, names)) if is_drive(drive) => (rest.to_owned(), names),
        Some((share, names)) if share.eq_ignore_ascii_case("UNC") => (format!(r"\\{names}"), names),
        _ => return Err(Code::DevicePath),
    };
    // Only the last may be empty: a separator ends the path.
    let is_changed = |(from_end, name): (usize, &str)| {
        (name.is_empty() && from_end > 0) || matches!(name, "." | "..") || name.contains('/')
    };
    if names.split('\\').rev().enumerate().any(is_changed) {
        return Err(Code::InvalidName);
    }
    Ok(plain)
}

/// The top of a path as its normal form writes it, nothing if it is relative, and what follows.
fn top(text: &str) -> Result<(String, &str), Code> {
    let from = |start: usize| text.get(start..).unwrap_or_default();
    match text.as_bytes() {
        _ if is_from_share(text) => share(from(2)),
        // The object manager's own prefix: "\??\" is where the names of drives are.
        [b'\\' | b'/', b'?', b'?', b'\\' | b'/', ..] => Err(Code::DevicePath),
        [b'\\' | b'/', ..] => Err(Code::DriveRelative),
        [letter, ..] if is_from_drive(text) => Ok((format!(r"{}:\", char::from(letter.to_ascii_uppercase())), from(3))),
        [letter, b':', ..] if letter.is_ascii_alphabetic() => Err(Code::DriveRelative),
        _ => Ok((String::new(), text)),
    }
}

/// The top of a path that has two separators before this.
fn share(text: &str) -> Result<(String, &str), Code> {
    let (server, rest) = text.split_once(SEPARATORS).unwrap_or((text, ""));
    let (share, rest) = rest.split_once(SEPARATORS).unwrap_or((rest, ""));
    let is_device = NO_DISKS.iter().any(|name| share.eq_ignore_ascii_case(name));
    if matches!(server, "" | "." | "?") || share.is_empty() || is_device {
        return Err(Code::DevicePath);
    }
    characters(server)?;
    characters(share)?;
    Ok((format!(r"\\{server}\{share}\"), rest))
}

/// Whether this can only name a file or directory of just this name.
fn name(name: &str) -> Result<(), Code> {
    characters(name)?;
    match name {
        _ if is_reserved(name) => Err(Code::ReservedName),
        _ if is_short(name) => Err(Code::ShortName),
        _ => Ok(()),
    }
}

/// Whether the characters of a name are those of a file's.
fn characters(name: &str) -> Result<(), Code> {
    match name {
        _ if name.contains(|c| c < ' ' || r#"<>"|?*"#.contains(c)) => Err(Code::InvalidName),
        _ if name.contains(':') => Err(Code::Stream),
        _ if name.ends_with(['.', ' ']) => Err(Code::TrailingDot),
        _ if name.encode_utf16().count() > NAME_UNITS => Err(Code::TooLong),
        _ => Ok(()),
    }
}

/// Whether a device has this name in every directory: also with an extension, and with spaces before that.
fn is_reserved(name: &str) -> bool {
    let base = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let port = base.split_at_checked(3).filter(|(of, _)| PORTS.iter().any(|port| of.eq_ignore_ascii_case(port)));
    let mut number = port.map(|(_, number)| number.chars()).into_iter().flatten();
    let is_port = matches!((number.next(), number.next()), (Some('0'..='9' | '¹' | '²' | '³'), None));
    is_port || DEVICES.iter().any(|device| base.eq_ignore_ascii_case(device))
}

/// Whether this could be the alias that a file system gave a longer name: `PROGRA~1`, `TEXTFI~2.TXT`.
fn is_short(name: &str) -> bool {
    let (base, extension) = name.split_once('.').unwrap_or((name, ""));
    let number = base.rsplit_once('~').map_or("", |(_, number)| number);
    let is_number = (1..=6).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    is_number && base.chars().count() <= 8 && extension.chars().count() <= 3 && !extension.contains('.')
}

/// The path that a URI names by what follows its scheme, decoded once, its dot segments removed as RFC 3986 has it.
fn uri_path(rest: &str) -> Result<String, Code> {
    let (host, path) = match rest.strip_prefix("//") {
        None => ("", rest),
        Some(rest) => rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, "")),
    };
    // As the URL Standard's host parser decodes it; no other escape is one of a server.
    let host = &*host.replace("%24", "$");
    let is_local = host.is_empty() || host.eq_ignore_ascii_case("localhost");
    if !is_local && !is_server(host) {
        return Err(Code::ForeignHost);
    }
    if !path.starts_with('/') {
        return Err(Code::NotAbsolute);
    }
    let decoded = String::from_utf8(decode(path, b"/\\")?).map_err(|_| Code::NotUtf8)?;
    // Where no name precedes, they remove nothing (RFC 3986, 5.2.4).
    let is_dots = |segment: &&str| matches!(*segment, "." | "..");
    let mut segments = decoded.split('/').skip(1).skip_while(is_dots).peekable();
    let first = segments.next().unwrap_or_default();
    let top = match (first, segments.peek()) {
        // Four slashes are how some write another host's share (RFC 8089, E.3.2), and `file:///.//host/share` comes to the same.
        ("", Some(_)) => return Err(Code::ForeignHost),
        _ if !is_local => format!(r"\\{host}\{first}"),
        (drive, Some(_)) if is_drive(drive) => drive.to_owned(),
        // A URL parser takes it for a drive.
        (drive, _) if matches!(drive.as_bytes(), [b'a'..=b'z' | b'A'..=b'Z', b'|']) => {
            return Err(Code::DroppedCharacter);
        }
        _ => return Err(Code::DriveRelative),
    };
    let above = if is_local { Code::DriveRelative } else { Code::DevicePath };
    let mut kept: Vec<&str> = Vec::new();
    let mut is_directory = false;
    for segment in segments {
        is_directory = is_dots(&segment);
        match segment {
            // By RFC 3986 this leaves the drive or share. The URL Standard stays in a drive that is not escaped, and Windows in both.
            ".." if kept.pop().is_none() => return Err(above),
            "." | ".." => {}
            // Empty ones count, unlike those of a path.
            "" => kept.push(segment),
            _ => {
                name(segment)?;
                kept.push(segment);
            }
        }
    }
    let end = if is_directory { r"\" } else { "" };
    Ok(format!(r"{top}\{}{end}", kept.join(r"\")))
}

/// Whether a URI's host can be a server, and is none that a URL parser would change: one that ends in a number is an address of IPv4 to it
/// (URL Standard, "ends in a number checker").
fn is_server(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with(|c: char| c.is_ascii_digit())
        && (last.bytes().all(|b| b.is_ascii_digit()) || last.get(..2).is_some_and(|x| x.eq_ignore_ascii_case("0x")));
    // `wsl$` is where Windows has its Linux.
    host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._$".contains(&b))
        && (!is_number || host.parse::<Ipv4Addr>().is_ok())
}

/// Whether this is a letter and a colon.
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
        (Some(upper), None) if c <= '\u{ffff}' && (c == 'ς' || upper.to_lowercase().eq([c])) => upper,
        _ => c,
    }
}

const SEPARATORS: [char; 2] = ['\\', '/'];

/// What Windows hands on as it is ("Naming Files, Paths, and Namespaces", Win32 file namespaces).
const VERBATIM: &str = r"\\?\";

/// Shares of every server that are no disks: "Pipe Names" and "Mailslot Names" of Win32; `ipc$` is where SMB has the pipes.
const NO_DISKS: &[&str] = &["pipe", "mailslot", "ipc$"];

/// Names of devices: "Naming Files, Paths, and Namespaces", naming conventions; `CONIN$` and `CONOUT$` are those of the console, and
/// `CLOCK$` that of MS-DOS.
const DEVICES: &[&str] = &["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"];

/// Names of devices with one digit after them, also one of the superscript digits of ISO 8859-1.
const PORTS: &[&str] = &["COM", "LPT"];

/// The longest name in UTF-16 units: `lpMaximumComponentLength` of NTFS (GetVolumeInformation).
const NAME_UNITS: usize = 255;
