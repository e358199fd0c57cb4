//! Parsing of requests: [`Location`], whose bytes are resolved and used without being decoded or
//! trimmed again.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::error::{Code, Error, Result, quoted};
use crate::limits::{PATH_BYTES, URI_BYTES};
#[cfg(not(windows))]
use crate::path::escapes::{after_scheme, decode, split_host};
#[cfg(unix)]
use crate::path::index::Origin;
use crate::path::index::PathIndex;
use crate::path::names::components;
#[cfg(unix)]
use crate::path::names::drive;

/// A parsed request: the path that it names.
///
/// Two locations are equal if they contain the same path, whether written as a path or a URI.
///
/// Text is parsed by [`parse`](Self::parse). A [`Path`] is used unchanged, even if it looks like a
/// URI or is not UTF-8. On Windows, it must be valid Unicode and follows the same rules as text.
///
/// Use it as the type of a path in a tool's arguments. It deserializes from a string and, with the
/// feature `schemars`, has a JSON schema. A forgotten check does not compile, because a location is
/// not a path:
///
/// ```compile_fail
/// # use guarded_fs::Location;
/// #[derive(serde::Deserialize)]
/// struct ReadFile {
///     path: Location,
/// }
///
/// fn read(args: ReadFile) -> std::io::Result<String> {
///     std::fs::read_to_string(args.path)
/// }
/// ```
///
/// ```
/// # use guarded_fs::{Access, Location, Result, Roots};
/// # #[derive(serde::Deserialize)]
/// # struct ReadFile {
/// #     path: Location,
/// # }
/// fn read(roots: &Roots, args: ReadFile) -> Result<String> {
///     roots.read_to_string(args.path, 1 << 20)
/// }
/// # let args: ReadFile = serde_json::from_str(r#"{ "path": "Cargo.toml" }"#).unwrap();
/// # assert!(read(&Roots::from_dirs(["."], Access::ReadOnly)?, args)?.contains("guarded-fs"));
/// # let none = serde_json::from_str::<ReadFile>(r#"{ "path": "" }"#).err().unwrap();
/// # assert!(none.to_string().starts_with("parse \"\": "), "{none}");
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Clone)]
pub struct Location {
    /// Shared, because a `CheckedPath` keeps its request.
    path: Arc<OsStr>,
    /// The request as it was sent, if it differs.
    sent: Option<Arc<str>>,
}

/// Writes the request as it was sent, quoted, escaped and shortened as in error texts: for people
/// and models, not for use as a path.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(self.sent()))
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a request can be made from. Only this crate implements it:
///
/// | type | meaning |
/// | --- | --- |
/// | `&str`, `String`, `&String` | text, for [`Location::parse`] |
/// | [`&Path`](Path), [`PathBuf`], `&PathBuf`, [`&OsStr`](OsStr), [`OsString`], `&OsString` | a path, used unchanged |
/// | [`Location`], `&Location` | an already parsed request |
pub trait IntoLocation: sealed::Sealed + TryInto<Location, Error: Into<Error>> {}

mod sealed {
    pub trait Sealed {}
}

impl IntoLocation for Location {}
impl sealed::Sealed for Location {}

impl Location {
    /// Parses a request, without I/O:
    ///
    /// | text | meaning |
    /// | --- | --- |
    /// | `file:` in any case, and a path | a URI (RFC 8089), decoded once, with dot segments removed (RFC 3986, 5.2.4) |
    /// | `SCHEME://`, with a scheme of two letters or more | a foreign URI, which is refused |
    /// | anything else | a path, used byte for byte |
    ///
    /// A path is not trimmed or percent-decoded, and `~` and variables are not expanded. Its dot
    /// segments are resolved later, on the filesystem. A request that is invalid on every
    /// filesystem is refused with a kind that names the problem.
    ///
    /// On Windows, a path may use either separator. Its `..` components are removed from the text,
    /// as Windows itself does. A path is refused if Windows would interpret it differently:
    /// relative to the current directory of a drive, as a device or a stream, with trailing dots
    /// removed, or as an 8.3 short name.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`](crate::ErrorKind::InvalidPath) (`empty`, `nul`),
    /// [`TooLong`](crate::ErrorKind::TooLong). For URIs, also
    /// [`InvalidUri`](crate::ErrorKind::InvalidUri) (`foreign_scheme`) and the errors of
    /// [`from_uri`](Self::from_uri). On Windows, also `InvalidPath` (`drive_relative`,
    /// `device_path`, `reserved_name`, `stream`, `trailing_dot`, `short_name`, `invalid_name`) and
    /// [`NotUtf8`](crate::ErrorKind::NotUtf8).
    ///
    /// ```
    /// # #[cfg(windows)] fn main() {}
    /// # #[cfg(not(windows))] fn main() -> Result<(), guarded_fs::Error> {
    /// # use guarded_fs::{ErrorKind, Location};
    /// assert_eq!(Location::parse("file:///srv/a%20b")?, Location::parse("/srv/a b")?);
    /// assert_ne!(Location::parse("docs/a%20b")?, Location::parse("docs/a b")?);
    /// let foreign = Location::parse("https://example.com/");
    /// assert_eq!(foreign.unwrap_err().kind(), ErrorKind::InvalidUri);
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let parsed =
            if is_uri(text) { Self::of_uri(text) } else { Self::checked(OsStr::new(text)) };
        parsed.map_err(|error| error.with_request("parse", OsStr::new(text)))
    }

    pub(crate) fn from_path(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().as_os_str();
        Self::checked(path).map_err(|error| error.with_request("parse", path))
    }

    /// Parses a `file:` URI. Paths are refused.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`](crate::ErrorKind::InvalidPath) (`not_absolute`, `nul`, `empty`),
    /// [`InvalidUri`](crate::ErrorKind::InvalidUri) (`foreign_scheme`, `foreign_host`, `query`,
    /// `fragment`, `bad_escape`, `encoded_separator`, `dropped_character`),
    /// [`TooLong`](crate::ErrorKind::TooLong). On Windows, where the host of a URI is the server of
    /// a share, also the Windows errors of [`parse`](Self::parse).
    pub fn from_uri(text: &str) -> Result<Self> {
        let parsed = match text {
            "" => Err(Code::Empty.into()),
            _ if is_uri(text) => Self::of_uri(text),
            _ => Err(Code::NotAbsolute.into()),
        };
        parsed.map_err(|error| error.with_request("parse", OsStr::new(text)))
    }

    /// The path that the request names. No roots have allowed it, so do not open it.
    #[must_use]
    pub fn as_unchecked_path(&self) -> &Path {
        Path::new(&self.path)
    }

    pub(crate) fn as_os_str(&self) -> &OsStr {
        &self.path
    }

    pub(crate) fn sent(&self) -> &OsStr {
        self.sent.as_deref().map_or(&self.path, OsStr::new)
    }

    /// A path below this one, for errors.
    pub(crate) fn join(&self, path: &Path) -> Self {
        match self.as_unchecked_path() {
            here if here == Path::new(".") => Self::of_place(path),
            here => Self::of_place(&here.join(path)),
        }
    }

    /// The path by which a request can name the entry `below` this directory, whose canonical path
    /// is `canonical`.
    pub(crate) fn entry(&self, below: PathBuf, canonical: impl FnOnce() -> PathBuf) -> PathBuf {
        let (mut has_colon, mut has_backslash) = (false, false);
        for byte in below.as_os_str().as_encoded_bytes() {
            has_colon |= *byte == b':';
            has_backslash |= *byte == b'\\';
        }
        let here = self.as_unchecked_path();
        if cfg!(unix) && has_backslash {
            // Below an alias of Windows, a backslash would separate names.
            canonical().join(below)
        } else if here.as_os_str() == "." && !has_colon {
            below
        } else {
            // Without the directory, a text with a colon could be a URI or an alias.
            here.join(below)
        }
    }

    pub(crate) fn of_place(path: &Path) -> Self {
        Self { path: path.as_os_str().into(), sent: None }
    }

    /// Replaces backslashes after a declared Windows alias, where they separate names as well.
    #[cfg(unix)]
    pub(crate) fn with_separators(self, index: &PathIndex) -> Self {
        if index.declared(&self.path, Origin::Request).is_none() {
            return self;
        }
        match drive::with_slashes(&self.path) {
            Cow::Borrowed(_) => self,
            Cow::Owned(path) => {
                let sent = self.sent().to_str().map(Arc::from);
                Self { path: path.into(), sent }
            }
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn with_separators(self, _: &PathIndex) -> Self {
        self
    }

    fn of_uri(text: &str) -> Result<Self> {
        if text.len() > URI_BYTES {
            return Err(Error::over(Code::TooLong, "the URI is longer than {} bytes", URI_BYTES));
        }
        Ok(Self { sent: Some(text.into()), ..Self::checked(&read_uri(text)?)? })
    }

    fn checked(path: &OsStr) -> Result<Self> {
        let bytes = path.as_encoded_bytes();
        match bytes.len() {
            0 => Err(Code::Empty.into()),
            // The kernel's PATH_MAX includes the terminating NUL.
            PATH_BYTES.. => Err(Code::TooLong.into()),
            _ if bytes.contains(&0) => Err(Code::Nul.into()),
            _ => {
                let normalized = normal(path)?;
                let is_other = cfg!(windows) && *normalized != *path;
                let sent = if is_other { path.to_str().map(Arc::from) } else { None };
                Ok(Self { path: (*normalized).into(), sent })
            }
        }
    }
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Location {}

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

impl<'de> Deserialize<'de> for Location {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

macro_rules! try_from {
    ($($type:ty, $with:expr;)*) => {
        $(impl TryFrom<$type> for Location {
            type Error = Error;
            fn try_from(value: $type) -> Result<Self> {
                #[allow(clippy::redundant_closure_call)]
                ($with)(value)
            }
        }

        impl IntoLocation for $type {}
        impl sealed::Sealed for $type {}
        )*
    };
}

// Strings are parsed. Paths are used unchanged.
try_from! {
    &str, Location::parse;
    &String, |text: &String| Location::parse(text);
    String, |text: String| Location::parse(&text);
    &Path, Location::from_path;
    &PathBuf, Location::from_path;
    PathBuf, Location::from_path;
    &OsStr, Location::from_path;
    &OsString, Location::from_path;
    OsString, Location::from_path;
    &Location, |location: &Location| Ok(location.clone());
}

/// Whether a text has a scheme (RFC 3986, 3.1). A single letter is a Windows drive.
fn is_uri(text: &str) -> bool {
    // Most requests are paths, for which the search stops at the first slash.
    let end = text.bytes().position(|b| !(b.is_ascii_alphanumeric() || b"+-.".contains(&b)));
    let Some((scheme, rest)) = end.and_then(|end| text.split_at_checked(end)) else { return false };
    match rest.strip_prefix(':') {
        Some(_) if scheme.eq_ignore_ascii_case("file") => true,
        Some(rest) => {
            scheme.len() >= 2
                && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && rest.starts_with("//")
        }
        None => false,
    }
}

#[cfg(not(windows))]
#[expect(clippy::unnecessary_wraps, reason = "on Windows, some paths are refused")]
fn normal(path: &OsStr) -> Result<Cow<'_, OsStr>> {
    Ok(Cow::Borrowed(path))
}

#[cfg(windows)]
fn normal(path: &OsStr) -> Result<Cow<'_, OsStr>> {
    let text = path.to_str().ok_or(Code::NotUtf8)?;
    Ok(Cow::Owned(crate::path::names::windows::path(text)?.into()))
}

#[cfg(windows)]
fn read_uri(text: &str) -> Result<OsString> {
    Ok(crate::path::names::windows::uri(text)?.into())
}

/// The decoded path of a `file:` URI. `tests/properties/location.rs` compares it with the `url`
/// crate.
#[cfg(not(windows))]
fn read_uri(text: &str) -> Result<OsString> {
    let (host, path) = split_host(after_scheme(text, |_| false)?);
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return Err(Code::ForeignHost.into());
    }
    if !path.starts_with('/') {
        return Err(Code::NotAbsolute.into());
    }
    let decoded = remove_dots(&decode(path, b"/")?);
    // Some software writes a share on another host as `file:////host/share` (RFC 8089, E.3.2).
    // `file:///.//host/share` is equivalent.
    if path.starts_with("//") || decoded.as_encoded_bytes().starts_with(b"//") {
        return Err(Code::ForeignHost.into());
    }
    Ok(decoded)
}

/// Removes dot segments (RFC 3986, 5.2.4).
#[cfg(not(windows))]
fn remove_dots(path: &[u8]) -> OsString {
    let mut output: Vec<&[u8]> = Vec::new();
    let mut directory = false;
    for segment in path.split(|&byte| byte == b'/').skip(1) {
        directory = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => drop(output.pop()),
            _ => output.push(segment),
        }
    }
    // A path that ended in a dot segment names a directory, so keep a trailing slash.
    if directory {
        output.push(b"");
    }
    let mut bytes = Vec::with_capacity(path.len());
    for segment in output {
        bytes.push(b'/');
        bytes.extend(segment);
    }
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// A `file:` URI (RFC 8089), which [`Location`] parses to the same path.
#[cfg(unix)]
pub(crate) fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    percent_encode(path.as_os_str().as_encoded_bytes(), &mut uri);
    uri
}

/// A drive is the first name of the path, and the server of a share is the host.
#[cfg(windows)]
pub(crate) fn file_uri(path: &Path) -> String {
    use std::path::{Component, Prefix};
    let mut uri = "file://".to_owned();
    let mut encode = |prefix: &str, name: &OsStr| {
        uri.push_str(prefix);
        percent_encode(name.as_encoded_bytes(), &mut uri);
    };
    for component in path.components() {
        match component {
            Component::Prefix(prefix) => match prefix.kind() {
                Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
                    encode(&format!("/{}:", char::from(letter)), OsStr::new(""));
                }
                Prefix::UNC(server, share) | Prefix::VerbatimUNC(server, share) => {
                    encode("", server);
                    encode("/", share);
                }
                _ => return String::new(),
            },
            Component::Normal(name) => encode("/", name),
            _ => {}
        }
    }
    // The root of a drive.
    if path.file_name().is_none() {
        uri.push('/');
    }
    uri
}

/// Escapes everything that a URI's path cannot contain (`pchar`, RFC 3986, 3.3).
fn percent_encode(path: &[u8], uri: &mut String) {
    for &byte in path {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*'
            | b'+' | b',' | b';' | b'=' | b':' | b'@' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
}

/// A hint for a missing path whose text the sender may have expected to be expanded.
pub(crate) fn unexpanded(path: &OsStr) -> Option<&'static str> {
    // The escapes of printable ASCII characters.
    let is_escape =
        |bytes: &[u8]| matches!(bytes, [b'%', b'2'..=b'7', digit] if digit.is_ascii_hexdigit());
    components(path).find_map(|(name, _)| match name.as_encoded_bytes() {
        b"~" => Some("~ is not expanded, so write the full path"),
        name if name.eq_ignore_ascii_case(b"file:") => {
            Some("write a path here instead of a file: URI")
        }
        name if name.windows(3).any(is_escape) => {
            Some("percent escapes are decoded only in file: URIs, and only once")
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_path_written_as_a_uri_is_read_as_the_same_path_also_by_the_url_crate() {
        use std::os::unix::ffi::OsStrExt as _;
        let of_byte = |byte: u8| [b"/a/".as_slice(), &[byte, b'x', byte]].concat();
        let bytes = (1..=u8::MAX).filter(|byte| !b"./".contains(byte)).map(of_byte);
        for path in bytes.chain([b"/".to_vec(), b"/a/b c/%41".to_vec(), b"/\xff\xc3\xa9".to_vec()])
        {
            let path = Path::new(OsStr::from_bytes(&path));
            let uri = file_uri(path);
            assert_eq!(Location::from_uri(&uri).unwrap().as_unchecked_path(), path, "{uri}");
            let peer = url::Url::parse(&uri).unwrap();
            assert_eq!(peer.as_str(), uri, "nothing is repaired");
            assert_eq!(peer.to_file_path().unwrap(), path, "{uri}");
        }
    }

    #[test]
    fn uri_of_the_maximum_length_is_parsed_and_a_longer_one_is_refused() {
        let drive = if cfg!(windows) { "C:/" } else { "" };
        let uri = |bytes: usize, name: &str| {
            let name = format!("{drive}{name}");
            format!(
                "file:///{drive}{}{}",
                "./".repeat((bytes - 8 - name.len()) / 2),
                &name[drive.len()..]
            )
        };
        let (longest, longer) = if cfg!(windows) { ("a", "aa") } else { ("aa", "aaa") };
        let (longest, longer) = (uri(12_320, longest), uri(12_321, longer));
        assert_eq!((longest.len(), longer.len()), (12_320, 12_321));
        let expected = if cfg!(windows) { r"C:\a" } else { "/aa" };
        assert_eq!(Location::from_uri(&longest).unwrap().as_unchecked_path(), Path::new(expected));
        assert_eq!(Location::from_uri(&longer).unwrap_err().reason(), Code::TooLong);
    }
}
