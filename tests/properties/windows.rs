//! Windows' rules for paths and names, on every system.
//!
//! The input is any text, read as a path and as a `file:` URI. Properties:
//!
//! - Nothing panics.
//! - A path is read, or refused for the first reason that applies, exactly as by a naive rule that
//!   looks at the pieces between separators.
//! - A normal form is its own normal form.
//! - The kind of separator does not matter. The case of letters changes only the case of the
//!   result.
//! - A URI names the path that the `url` crate reads, if it reads one, or is refused for the first
//!   rule that it breaks.
//! - Every absolute path, written as a URI, is read as the same path.

use std::fmt::Write as _;

use guarded_fs::internals::{Code, windows as rules};
use url::{Host, Url};

use crate::support::rfc3986::{self, is_hex, remove_dots};

/// Checks all properties.
pub(crate) fn hold(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    path(text);
    uri(text);
    name(text);
}

fn path(text: &str) {
    let read = rules::path(text);
    assert_eq!(read, path_by_the_rules(text), "{text:?} by the rules");
    let swapped = swap(text);
    if ![text, &swapped].iter().any(|text| text.starts_with(VERBATIM)) {
        assert_eq!(read, rules::path(&swapped), "{text:?} with the other separators");
    }
    for other in [text.to_ascii_lowercase(), text.to_ascii_uppercase()] {
        let keyed = |read: Result<String, Code>| read.map(|path| rules::key(&path).into_owned());
        assert_eq!(keyed(read.clone()), keyed(rules::path(&other)), "{text:?} in the other case");
    }
    if let Ok(path) = read {
        normal(&path);
    }
}

/// Checks a path in normal form.
fn normal(path: &str) {
    assert_eq!(rules::path(path).as_deref(), Ok(path), "{path:?} is a normal form");
    let components: Vec<_> = rules::components(path).collect();
    let volume = if path.starts_with(r"\\") {
        path.splitn(5, '\\').take(4).collect::<Vec<_>>().join(r"\")
    } else {
        path.split('\\').next().filter(|drive| drive.ends_with(':')).unwrap_or_default().to_owned()
    };
    assert_eq!(rules::is_absolute(path), !volume.is_empty(), "{path:?}");
    let names = path[volume.len()..].split('\\').filter(|name| !name.is_empty());
    let volume = Some(volume.as_str()).filter(|volume| !volume.is_empty());
    let expected: Vec<_> = volume.into_iter().chain(names).collect();
    assert_eq!(components.iter().map(|(name, _)| *name).collect::<Vec<_>>(), expected, "{path:?}");
    for (number, (_, rest)) in components.iter().enumerate() {
        let names: Vec<_> = rest.split('\\').filter(|name| !name.is_empty()).collect();
        assert_eq!(names, expected[number + 1..], "the rest after {number} of {path:?}");
    }
    let other: Vec<_> = rules::components(path).map(|(name, _)| swap(name)).collect();
    let of_other = swap(path);
    assert_eq!(
        rules::components(&of_other).map(|(name, _)| name).collect::<Vec<_>>(),
        other,
        "{of_other:?}"
    );
    if rules::is_absolute(path) {
        let written = write_uri(path);
        // A server name may contain characters that a host name cannot.
        let host = path.strip_prefix(r"\\").and_then(|path| path.split('\\').next());
        if host.is_none_or(|host| is_host(host) && !host.eq_ignore_ascii_case("localhost")) {
            assert_eq!(
                rules::uri(&written).as_deref(),
                Ok(path),
                "{path:?} written as {written:?}"
            );
        } else {
            assert!(rules::uri(&written).is_err(), "{path:?} written as {written:?}");
        }
    }
}

fn uri(text: &str) {
    let read = rules::uri(text);
    assert_eq!(read, uri_by_the_rules(text), "{text:?} by the rules, as a URI");
    let Ok(path) = read else { return };
    normal(&path);
    assert!(rules::is_absolute(&path), "{text:?} is read as {path:?}");
    let by_the_crate = Url::parse(text).ok().filter(|_| from_drive_as_host(text).is_none());
    if let Some(url) = by_the_crate {
        let peer = by_the_url_crate(&url);
        let is_share = path.starts_with(r"\\");
        // The `url` crate converts host names to lower case.
        let (own, peer) = if is_share {
            (path.to_ascii_lowercase(), peer.to_ascii_lowercase())
        } else {
            (path.clone(), peer)
        };
        assert_eq!(rules::path(&peer), Ok(own), "{text:?} as the url crate reads it, {peer:?}");
    }
}

/// Checks a text as a single name, and as names between separators.
fn name(text: &str) {
    let key = rules::key(text);
    assert_eq!(rules::key(&key), key, "the key of {text:?}");
    assert_eq!(key, rules::key(&text.to_ascii_uppercase()), "the key of {text:?}");
    assert_eq!(key.chars().count(), text.chars().count(), "the key of {text:?}");
    for (from, to) in text.chars().zip(key.chars()) {
        assert!(from == to || from.to_uppercase().eq([to]), "the key of {text:?}");
        assert_eq!(from.is_ascii(), to.is_ascii(), "the key of {text:?}");
    }
    let mut names = rules::components(text).skip(usize::from(rules::is_absolute(text)));
    let is_of_text = |(name, rest): (&str, &str)| {
        !name.is_empty() && !name.contains(['\\', '/']) && text.ends_with(&format!("{name}{rest}"))
    };
    assert!(names.all(is_of_text), "the names of {text:?}");
}

/// The path that the `url` crate reads from a URI, percent-decoded and with backslashes.
fn by_the_url_crate(url: &Url) -> String {
    let segments: Vec<_> = url
        .path_segments()
        .unwrap()
        .map(|segment| String::from_utf8(rfc3986::decode(segment)).unwrap())
        .collect();
    match url.host() {
        None => segments.join(r"\"),
        Some(Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_)) => {
            format!(r"\\{}\{}", url.host_str().unwrap(), segments.join(r"\"))
        }
    }
}

/// The normal form of a path, or the first reason to refuse it, determined piece by piece.
fn path_by_the_rules(text: &str) -> Result<String, Code> {
    if text.is_empty() {
        return Err(Code::Empty);
    }
    if text.contains('\0') {
        return Err(Code::Nul);
    }
    let all = text.replace('/', r"\");
    let pieces: Vec<&str> = all.split('\\').collect();
    let (top, names) = match pieces.as_slice() {
        ["", "", "?", rest @ ..] if text.starts_with(VERBATIM) => {
            // In a verbatim path, a slash is not a separator.
            let pieces: Vec<&str> = text.split('\\').skip(3).collect();
            let plain = match pieces.as_slice() {
                [drive, names @ ..] if is_drive(drive) && !names.is_empty() => names,
                [unc, names @ ..] if unc.eq_ignore_ascii_case("unc") && !names.is_empty() => names,
                _ => return Err(Code::DevicePath),
            };
            let (last, middle) = plain.split_last().unwrap();
            let odd = |name: &&str| [".", ".."].contains(name) || name.contains('/');
            if middle.iter().any(|name| name.is_empty() || odd(name)) || odd(last) {
                return Err(Code::InvalidName);
            }
            match rest {
                [drive, names @ ..] if is_drive(drive) => {
                    (format!("{}\\", drive.to_ascii_uppercase()), names.to_vec())
                }
                [_, names @ ..] => share_by_the_rules(names)?,
                [] => unreachable!("matched above"),
            }
        }
        ["", "", rest @ ..] if !rest.is_empty() => share_by_the_rules(rest)?,
        ["", "??", _, ..] => return Err(Code::DevicePath),
        ["", ..] => return Err(Code::DriveRelative),
        [drive, names @ ..] if is_drive(drive) && !names.is_empty() => {
            (format!("{}\\", drive.to_ascii_uppercase()), names.to_vec())
        }
        [first, ..] if first.get(..2).is_some_and(is_drive) => return Err(Code::DriveRelative),
        names => (String::new(), names.to_vec()),
    };
    if let Some(kind) = names.iter().find_map(|name| refusal_of_name(name)) {
        return Err(kind);
    }
    let directory = matches!(names.last(), Some(&"" | &"." | &".."));
    let mut names: Vec<_> = names.into_iter().filter(|name| !["", "."].contains(name)).collect();
    while let Some(at) = names.windows(2).position(|pair| pair[0] != ".." && pair[1] == "..") {
        names.drain(at..at + 2);
    }
    if !top.is_empty() {
        names.retain(|name| *name != "..");
    }
    let ends_in_name = names.last().is_some_and(|last| *last != "..");
    let mut normal = top + &names.join(r"\");
    if directory && ends_in_name {
        normal.push('\\');
    }
    Ok(if normal.is_empty() { ".".to_owned() } else { normal })
}

fn share_by_the_rules<'a>(pieces: &[&'a str]) -> Result<(String, Vec<&'a str>), Code> {
    let [server, share, names @ ..] = pieces else { return Err(Code::DevicePath) };
    let lower = share.to_ascii_lowercase();
    if ["", ".", "?"].contains(server) || ["", "pipe", "mailslot", "ipc$"].contains(&lower.as_str())
    {
        return Err(Code::DevicePath);
    }
    match [server, share].into_iter().find_map(|name| odd_characters(name)) {
        Some(kind) => Err(kind),
        None => Ok((format!("\\\\{server}\\{share}\\"), names.to_vec())),
    }
}

/// Why a name cannot name a file, or could name a different one. Returns `None` for harmless names
/// and for dots.
fn refusal_of_name(name: &str) -> Option<Code> {
    if ["", ".", ".."].contains(&name) {
        return None;
    }
    odd_characters(name).or_else(|| {
        let upper = name.to_ascii_uppercase();
        let mut base: String = upper.chars().take_while(|&c| c != '.').collect();
        while base.ends_with(' ') {
            base.pop();
        }
        let ports = ["COM", "LPT"]
            .iter()
            .flat_map(|port| "0123456789¹²³".chars().map(move |n| format!("{port}{n}")));
        let devices = "CON PRN AUX NUL CONIN$ CONOUT$ CLOCK$".split(' ').map(str::to_owned);
        if devices.chain(ports).any(|device| device == base) {
            return Some(Code::ReservedName);
        }
        let (base, extension) = match *name.split('.').collect::<Vec<_>>() {
            [base] => (base, ""),
            [base, extension] => (base, extension),
            _ => return None,
        };
        let base: Vec<char> = base.chars().collect();
        let digits = base.iter().rev().take_while(|c| c.is_ascii_digit()).count();
        let alias = (1..=6).contains(&digits)
            && base.len() <= 8
            && base.iter().rev().nth(digits) == Some(&'~')
            && extension.chars().count() <= 3;
        alias.then_some(Code::ShortName)
    })
}

fn odd_characters(name: &str) -> Option<Code> {
    let found = |odd: fn(char) -> bool| name.chars().any(odd);
    if found(|c| matches!(c, '\0'..='\x1f' | '<' | '>' | '"' | '|' | '?' | '*')) {
        Some(Code::InvalidName)
    } else if found(|c| c == ':') {
        Some(Code::Stream)
    } else if matches!(name.chars().last(), Some('.' | ' ')) {
        Some(Code::TrailingDot)
    } else if name.chars().map(char::len_utf16).sum::<usize>() >= 256 {
        Some(Code::TooLong)
    } else {
        None
    }
}

/// The path of a URI, or the first rule that it breaks.
fn uri_by_the_rules(text: &str) -> Result<String, Code> {
    let as_host = from_drive_as_host(text);
    let dropped = text.ends_with(|c| c <= ' ') || text.contains(['\t', '\n', '\r']);
    let has_percent = as_host.is_some_and(|path| path.contains('%'));
    first_broken(&[
        (!text.to_ascii_lowercase().starts_with("file:"), Code::ForeignScheme),
        (text.contains('\0'), Code::Nul),
        (dropped || (as_host.is_none() && text.contains('\\')), Code::DroppedCharacter),
        (text.contains('#'), Code::Fragment),
        (text.contains('?'), Code::Query),
        (has_percent, Code::BadEscape),
    ])?;
    if let Some(path) = as_host {
        return path_by_the_rules(path);
    }
    let (host, path) = match text[5..].strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", &text[5..]),
    };
    let host = host.split("%24").collect::<Vec<_>>().join("$");
    let local = ["", "localhost"].contains(&host.to_ascii_lowercase().as_str());
    let escapes = path
        .split('%')
        .skip(1)
        .map(|escape| escape.get(..2).filter(|hex| is_hex(hex)).unwrap_or_default());
    let bad_escape = escapes.into_iter().find_map(|hex| match hex.to_ascii_lowercase().as_str() {
        "" => Some(Code::BadEscape),
        "00" => Some(Code::Nul),
        "2f" | "5c" => Some(Code::EncodedSeparator),
        _ => None,
    });
    first_broken(&[
        (!local && !is_host(&host), Code::ForeignHost),
        (!path.starts_with('/'), Code::NotAbsolute),
        (bad_escape.is_some(), bad_escape.unwrap_or(Code::BadEscape)),
    ])?;
    let decoded = String::from_utf8(rfc3986::decode(path)).map_err(|_| Code::NotUtf8)?;
    let mut path = decoded.as_str();
    while let Some(rest) = after_dots(path) {
        path = rest;
    }
    let path = path.strip_prefix('/').unwrap_or_default();
    let (first, rest) =
        path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let piped = first.len() == 2
        && first.ends_with('|')
        && first.starts_with(|c: char| c.is_ascii_alphabetic());
    first_broken(&[
        (first.is_empty() && rest.is_some(), Code::ForeignHost),
        (local && piped, Code::DroppedCharacter),
        (local && !(is_drive(first) && rest.is_some()), Code::DriveRelative),
    ])?;
    let rest = rest.map_or_else(String::new, |rest| format!("/{rest}"));
    // The depth of a segment below the first one. The loop returns the first broken rule.
    let mut depth = 0;
    for segment in rest.split('/').skip(1) {
        match segment {
            "." => {}
            ".." if depth == 0 && local => return Err(Code::DriveRelative),
            ".." if depth == 0 => return Err(Code::DevicePath),
            ".." => depth -= 1,
            name => match refusal_of_name(name) {
                Some(kind) => return Err(kind),
                None => depth += 1,
            },
        }
    }
    let top = if local { first.to_owned() } else { format!("//{host}/{first}") };
    let rest = remove_dots(&rest);
    path_by_the_rules(&if rest.is_empty() && local { format!("{top}/") } else { top + &rest })
}

fn first_broken(rules: &[(bool, Code)]) -> Result<(), Code> {
    rules.iter().find(|(is_broken, _)| *is_broken).map_or(Ok(()), |(_, kind)| Err(*kind))
}

/// The rest of a path after a leading dot segment.
fn after_dots(path: &str) -> Option<&str> {
    let rest = ["/..", "/."].iter().find_map(|dots| path.strip_prefix(dots))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The rest of a URI with a drive in place of the host: `d:\a` in `file://d:\a`.
fn from_drive_as_host(text: &str) -> Option<&str> {
    let path = text.get(7..).filter(|_| text[..7].eq_ignore_ascii_case("file://"))?;
    let drive = path.get(..2).filter(|drive| is_drive(drive))?;
    path[drive.len()..].starts_with(['\\', '/']).then_some(path)
}

/// Whether a URL parser leaves a host unchanged. If the last label is a number, the parser reads
/// the host as an IPv4 address.
fn is_host(host: &str) -> bool {
    let plain =
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._$".contains(c));
    let last =
        host.trim_end_matches('.').split('.').next_back().unwrap_or_default().to_ascii_lowercase();
    let number =
        last.starts_with("0x") || (!last.is_empty() && last.chars().all(|c| c.is_ascii_digit()));
    let address = host
        .split('.')
        .filter(|part| part.parse::<u8>().is_ok_and(|byte| byte.to_string() == **part));
    plain && (!number || (address.count() == 4 && host.split('.').count() == 4))
}

fn is_drive(text: &str) -> bool {
    text.len() == 2 && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.ends_with(':')
}

fn swap(text: &str) -> String {
    let swapped = |c| match c {
        '/' => '\\',
        '\\' => '/',
        c => c,
    };
    text.chars().map(swapped).collect()
}

/// Percent-encodes every byte except unreserved characters (RFC 3986, section 2.3), and writes each
/// separator as a slash. A server becomes the host.
fn write_uri(path: &str) -> String {
    let mut uri = if path.starts_with(r"\\") { "file:".to_owned() } else { "file:///".to_owned() };
    for byte in path.bytes() {
        match byte {
            b'\\' => uri.push('/'),
            b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => write!(uri, "%{byte:02X}").unwrap(),
        }
    }
    uri
}

const VERBATIM: &str = r"\\?\";
