//! Errors, with messages that tell the reader what to correct.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::{fmt, io};

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::limits::QUOTED_CHARS;

mod codes;

#[allow(unreachable_pub, reason = "for `internals`")]
pub use codes::Code;
pub use codes::ErrorKind;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or a failure. Its text is safe to show to the sender of the request.
///
/// `Display` writes `OPERATION "REQUEST": REASON`, or only the reason if the error concerns no
/// request. The operation is the one that refused it: `check` for a request that was checked first,
/// and otherwise, such as in one step, that of the method. The request is quoted as it was sent,
/// escaped and shortened. Reasons that must not be distinguishable have the same text.
///
/// `Display`, `Debug` and every `source` contain only the request, fixed text, the value of a
/// limit, and the message of an operating system error. A server can add roots
/// ([`name_roots_in_refusals`](crate::BoundaryBuilder::name_roots_in_refusals)), the output of a
/// program (`ChildOutput::into_stdout`) and text of its own ([`with_outcome`](Self::with_outcome)).
///
/// ```
/// # use guarded_fs::{Access, ErrorKind, Roots};
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
/// let refused = roots.read("../secret.txt", 1 << 20).unwrap_err();
/// assert_eq!(refused.to_string(), r#"read "../secret.txt": not inside the allowed directories"#);
/// match refused.kind() {
///     ErrorKind::NotFound => { /* offer to create it */ }
///     ErrorKind::OutsideRoots => { /* whether or not it exists */ }
///     _ => {}
/// }
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(thiserror::Error)]
struct Inner {
    code: Code,
    operation: &'static str,
    request: Option<String>,
    /// The destination, or the target of a symlink, quoted.
    destination: Option<String>,
    /// The path to blame.
    blamed: PathRole,
    /// Static, so that only the limit can be inserted.
    text: &'static str,
    /// Replaces `{}` in the text.
    limit: Option<u64>,
    /// What the failed operation has done, or how a program ended.
    outcome: Option<String>,
    operator_detail: Option<String>,
    root: Option<usize>,
    #[source]
    cause: Option<io::Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PathRole {
    Source,
    Destination,
    /// The target of a symlink.
    Target,
}

impl Error {
    /// Creates an error of the caller's own, like [`io::Error::new`], for a library that is built
    /// on this one or an application. The text is shown to the sender of the request. It should say
    /// what was wrong and what to do instead, without a full stop. Give several codes the same kind
    /// if callers need not distinguish them.
    ///
    /// ```
    /// use guarded_fs::{Error, ErrorKind};
    ///
    /// const TURN_ENDED: ErrorKind = ErrorKind::Other("turn_ended");
    ///
    /// let error = Error::new(TURN_ENDED, "turn_cancelled", "the user cancelled the turn");
    /// assert_eq!((error.kind(), error.code()), (TURN_ENDED, "turn_cancelled"));
    /// assert_eq!(error.to_string(), "the user cancelled the turn");
    /// ```
    #[must_use]
    pub fn new(kind: ErrorKind, code: &'static str, text: &'static str) -> Self {
        Code::Custom { kind, name: code, text }.into()
    }

    /// The kind of the error, for callers to match on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.reason().kind()
    }

    /// The exact reason in snake case, such as `bad_escape`, for logs, tests, and programs that
    /// read `data.code` in an error response. [`ErrorKind`] lists the codes of each kind.
    ///
    /// Codes may be added, and a minor release may give a failure a more exact code of the same
    /// kind, so match on the [kind](Self::kind).
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.reason().as_str()
    }

    /// The number that the operating system reported, like
    /// [`io::Error::raw_os_error`](std::io::Error::raw_os_error).
    ///
    /// A failure that the guard finds without a system call has the number of the call that would
    /// report it (Unix only). Refusals that are the guard's alone, such as `outside_roots` and
    /// `protected`, have none.
    ///
    /// | code | number |
    /// | --- | --- |
    /// | `not_found` | `ENOENT` |
    /// | `permission_denied` | `EACCES` |
    /// | `not_a_directory` | `ENOTDIR` |
    /// | `is_a_directory` | `EISDIR` |
    /// | `already_exists` | `EEXIST` |
    /// | `directory_not_empty` | `ENOTEMPTY` |
    /// | `too_many_links` | `ELOOP` |
    /// | `too_long` | `ENAMETOOLONG` |
    /// | `cross_device` | `EXDEV` |
    /// | `read_only` | `EROFS` |
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        let reported = self.0.cause.as_ref().and_then(io::Error::raw_os_error);
        reported.or_else(|| number_of(self.reason()))
    }

    /// Whether the system refused the arguments of a call (`EINVAL`).
    pub(crate) fn is_invalid_input(&self) -> bool {
        self.0.cause.as_ref().is_some_and(|it| it.kind() == io::ErrorKind::InvalidInput)
    }

    #[inline]
    pub(crate) fn reason(&self) -> Code {
        self.0.code
    }

    /// The operation and its request, quoted but for the quotes.
    pub(crate) fn operation(&self) -> Option<(&'static str, &str)> {
        Some((self.0.operation, unquoted(self.0.request.as_deref()?)))
    }

    pub(crate) fn destination(&self) -> Option<&str> {
        self.0.destination.as_deref().map(unquoted)
    }

    /// What only the operator may see, such as the target of a symlink or the affected root. Write
    /// it to the server's log, never to a response.
    #[must_use]
    pub fn operator_detail(&self) -> Option<&str> {
        self.0.operator_detail.as_deref()
    }

    /// Copies what does not concern the request.
    pub(crate) fn repeated(&self) -> Self {
        let mut again = Self::from(self.0.code).with_text(self.0.text);
        again.0.limit = self.0.limit;
        let number = self.0.cause.as_ref().and_then(io::Error::raw_os_error);
        again.0.cause = number.map(io::Error::from_raw_os_error);
        again.0.operator_detail.clone_from(&self.0.operator_detail);
        again
    }

    /// Makes this an error of another program, which no operation mistakes for its own.
    pub(crate) fn into_custom(mut self) -> Self {
        let (kind, name, text) = (self.kind(), self.code(), self.0.text);
        self.0.code = Code::Custom { kind, name, text };
        self
    }

    /// An error about a limit that the caller chose, which replaces `{}` in the text.
    pub(crate) fn over(code: Code, text: &'static str, limit: impl TryInto<u64>) -> Self {
        let mut error = Self::from(code).with_text(text);
        error.0.limit = Some(limit.try_into().unwrap_or(u64::MAX));
        error
    }

    pub(crate) fn too_large(limit: u64) -> Self {
        Self::over(Code::TooLarge, "larger than {} bytes", limit)
    }

    pub(crate) fn with_text(mut self, text: &'static str) -> Self {
        self.0.text = text;
        self
    }

    pub(crate) fn with_text_of(self, cause: &Self) -> Self {
        self.with_text(cause.0.text)
    }

    pub(crate) fn of_destination(mut self) -> Self {
        self.0.blamed = PathRole::Destination;
        self
    }

    pub(crate) fn is_of_destination(&self) -> bool {
        self.0.blamed == PathRole::Destination
    }

    pub(crate) fn of_target(mut self) -> Self {
        self.0.blamed = PathRole::Target;
        self
    }

    /// Like [`with_request`](Self::with_request), for an operation with a destination.
    pub(crate) fn between(mut self, operation: &'static str, from: &OsStr, to: &OsStr) -> Self {
        if self.0.request.is_none() {
            self.0.destination = Some(quoted(to));
        }
        self.with_request(operation, from)
    }

    /// Adds the operation and the request to the text, quoted, escaped and shortened, unless they
    /// are there already.
    #[must_use]
    pub fn with_request(mut self, operation: &'static str, request: &OsStr) -> Self {
        if self.0.request.is_none() {
            self.0.operation = operation;
            self.0.request = Some(quoted(request));
        }
        self
    }

    /// Sets what only the operator may see ([`operator_detail`](Self::operator_detail)).
    #[must_use]
    pub fn with_operator_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.operator_detail = Some(detail.into());
        self
    }

    /// Adds to the text, after the reason and a semicolon, what the failed operation has done, how
    /// a program ended, or what to do instead. Earlier additions are kept. The sender of the
    /// request sees it: quote what is not the caller's own, and name nothing that the sender does
    /// not know.
    #[must_use]
    pub fn with_outcome(mut self, outcome: String) -> Self {
        self.0.outcome = Some(match self.0.outcome {
            Some(first) => first + "; " + &outcome,
            None => outcome,
        });
        self
    }

    /// The path of this root may have to be verified.
    pub(crate) fn in_root(mut self, root: usize) -> Self {
        self.0.root = Some(root);
        self
    }

    pub(crate) fn root(&self) -> Option<usize> {
        self.0.root
    }

    pub(crate) fn caused_by(mut self, cause: io::Error) -> Self {
        self.0.cause = Some(cause);
        self
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Self(Box::new(Inner {
            code,
            operation: "",
            request: None,
            destination: None,
            blamed: PathRole::Source,
            text: code.text(),
            limit: None,
            outcome: None,
            operator_detail: None,
            root: None,
            cause: None,
        }))
    }
}

/// An [`io::Error`] that contains an error of this crate becomes that error again. Common
/// operating system errors have their own kind, and so has text that is not UTF-8
/// ([`BufRead::lines`](std::io::BufRead::lines)). All others are [`ErrorKind::Io`].
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let cause = match error.downcast::<Self>() {
            Ok(own) => return own,
            Err(cause) => cause,
        };
        let code = match cause.kind() {
            io::ErrorKind::NotFound => Code::NotFound,
            io::ErrorKind::PermissionDenied => Code::PermissionDenied,
            io::ErrorKind::NotADirectory => Code::NotADirectory,
            io::ErrorKind::IsADirectory => Code::IsADirectory,
            io::ErrorKind::AlreadyExists => Code::AlreadyExists,
            io::ErrorKind::DirectoryNotEmpty => Code::DirectoryNotEmpty,
            io::ErrorKind::CrossesDevices => Code::CrossDevice,
            io::ErrorKind::ReadOnlyFilesystem => Code::ReadOnly,
            _ if is_name_too_long(&cause) => Code::TooLong,
            io::ErrorKind::InvalidData if cause.to_string() == STD_NOT_UTF8 => Code::NotUtf8,
            _ => Code::Io,
        };
        Self::from(code).caused_by(cause)
    }
}

/// For code that expects what [`std::fs`] returns. An [`io::Error`] has either a number or a text of
/// its own, so:
///
/// - An error with a [number](Error::raw_os_error) becomes the system's error: its number, kind and
///   message. The operation and the path are lost. Programs that compare the number or the kind,
///   such as web servers that answer 404, work as with `std::fs`.
/// - A refusal without one, such as `outside_roots`, becomes the [inner
///   error](io::Error::get_ref), with its text. Its kind is
///   [`InvalidInput`](io::ErrorKind::InvalidInput) for a request that is wrong by its text alone,
///   [`InvalidData`](io::ErrorKind::InvalidData), [`Unsupported`](io::ErrorKind::Unsupported), or
///   [`PermissionDenied`](io::ErrorKind::PermissionDenied).
/// - So does an error that says what was done, such as that of a change set which ended in the
///   middle. Its kind is the system's.
///
/// To tell a model the path and the reason, keep the [`Error`].
///
/// ```
/// # use std::io;
/// # use guarded_fs::{Access, Error, Roots};
/// # let work = tempfile::tempdir().unwrap();
/// # let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
/// let missing = io::Error::from(roots.open("missing.txt").unwrap_err());
/// assert_eq!(missing.kind(), io::ErrorKind::NotFound);
/// # #[cfg(unix)]
/// assert_eq!(missing.raw_os_error(), Some(2)); // ENOENT
///
/// let refused = io::Error::from(roots.open("../x").unwrap_err());
/// assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
/// assert_eq!(refused.to_string(), r#"open "../x": not inside the allowed directories"#);
/// # Ok::<(), Error>(())
/// ```
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let system = error.raw_os_error().map(Self::from_raw_os_error);
        let system = match system {
            Some(system) if error.0.outcome.is_none() => return system,
            system => system.as_ref().or(error.0.cause.as_ref()).map(Self::kind),
        };
        let kind = match (system, error.kind()) {
            (Some(kind), _) => kind,
            (None, ErrorKind::NotUtf8) => io::ErrorKind::InvalidData,
            // What the guard finds without a system call has no number on Windows.
            (None, ErrorKind::NotFound) => io::ErrorKind::NotFound,
            (None, ErrorKind::AlreadyExists) => io::ErrorKind::AlreadyExists,
            (None, ErrorKind::NotADirectory) => io::ErrorKind::NotADirectory,
            (None, ErrorKind::IsADirectory) => io::ErrorKind::IsADirectory,
            (None, ErrorKind::DirectoryNotEmpty) => io::ErrorKind::DirectoryNotEmpty,
            (None, ErrorKind::Unsupported) => io::ErrorKind::Unsupported,
            (None, ErrorKind::InvalidPath | ErrorKind::InvalidUri | ErrorKind::InvalidInput) => {
                io::ErrorKind::InvalidInput
            }
            (None, _) => io::ErrorKind::PermissionDenied,
        };
        Self::new(kind, error)
    }
}

/// Serializes as a map of the [`code`](Error::code) and the `text` of `Display`, for programs that
/// send errors as JSON without MCP.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("code", self.code())?;
        map.serialize_entry("text", &format_args!("{self}"))?;
        map.end()
    }
}

#[cfg(unix)]
fn number_of(code: Code) -> Option<i32> {
    use rustix::io::Errno;
    let number = match code {
        Code::NotFound => Errno::NOENT,
        Code::PermissionDenied => Errno::ACCESS,
        Code::NotADirectory => Errno::NOTDIR,
        Code::IsADirectory => Errno::ISDIR,
        Code::AlreadyExists => Errno::EXIST,
        Code::DirectoryNotEmpty => Errno::NOTEMPTY,
        Code::TooManyLinks => Errno::LOOP,
        Code::TooLong => Errno::NAMETOOLONG,
        Code::CrossDevice => Errno::XDEV,
        Code::ReadOnly => Errno::ROFS,
        _ => return None,
    };
    Some(number.raw_os_error())
}

/// On Windows, several numbers mean that there is no such file, depending on the call.
#[cfg(not(unix))]
fn number_of(_: Code) -> Option<i32> {
    None
}

/// The message with which `BufRead::lines` and `Read::read_to_string` fail.
const STD_NOT_UTF8: &str = "stream did not contain valid UTF-8";

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Of the operating system's error, the copy has the [number](Error::raw_os_error).
impl Clone for Error {
    fn clone(&self) -> Self {
        let Inner { request, destination, outcome, .. } = &*self.0;
        let (operation, blamed, root) = (self.0.operation, self.0.blamed, self.0.root);
        let (request, destination) = (request.clone(), destination.clone());
        let outcome = outcome.clone();
        let again = self.repeated().0;
        Self(Box::new(Inner { operation, request, destination, blamed, outcome, root, ..*again }))
    }
}

/// Contains only the code and the text of `Display`, and so no operator details.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.reason())
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.as_str())
    }
}

/// Rust 1.85 has no stable `io::ErrorKind` for this, so the kind of the system's number is
/// compared.
fn is_name_too_long(error: &io::Error) -> bool {
    #[cfg(unix)]
    let too_long = io::Error::from(rustix::io::Errno::NAMETOOLONG);
    // ERROR_FILENAME_EXCED_RANGE
    #[cfg(windows)]
    let too_long = io::Error::from_raw_os_error(206);
    error.kind() == too_long.kind()
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(request) = &self.request {
            write!(f, "{} {request}", self.operation)?;
            if let Some(destination) = &self.destination {
                write!(f, " to {destination}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(match (self.blamed, self.code) {
            (PathRole::Source, _) => "",
            (PathRole::Destination, Code::AlreadyExists) => "destination ",
            (PathRole::Destination, _) => "destination: ",
            (PathRole::Target, _) => "target: ",
        })?;
        match self.limit.and_then(|limit| Some((limit, self.text.split_once("{}")?))) {
            Some((limit, (before, after))) => write!(f, "{before}{limit}{after}")?,
            None => f.write_str(self.text)?,
        }
        // The system's message for the error number, without text that other code added.
        match self.cause.as_ref().and_then(io::Error::raw_os_error) {
            Some(number) if self.text == Code::Io.text() => {
                write!(f, ": {}", io::Error::from_raw_os_error(number))?;
            }
            _ => {}
        }
        self.outcome.iter().try_for_each(|outcome| write!(f, "; {outcome}"))
    }
}

/// Quotes untrusted text for a message: lossy, escaped and limited to [`QUOTED_CHARS`].
pub(crate) fn quoted(text: &OsStr) -> String {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') & !matches!(byte, b'"' | b'\\');
    let bytes = text.as_encoded_bytes();
    let start = bytes.get(..QUOTED_CHARS).unwrap_or(bytes);
    // Refused requests are frequent, and nearly all are plain text. The fold has no early exit, so
    // that several bytes are compared at once.
    let are_plain = start.iter().fold(true, |all, byte| all & is_plain(byte));
    if let (true, Ok(plain)) = (are_plain, std::str::from_utf8(start)) {
        let more = if start.len() < bytes.len() { "…" } else { "" };
        return ["\"", plain, more, "\""].concat();
    }
    let text = text.to_string_lossy();
    let mut shown: String = text.chars().take(QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Removes the quotes. The text stays escaped.
pub(crate) fn unquoted(quoted: &str) -> &str {
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn io_error_has_the_kind_of_its_cause_or_of_the_refusal() {
        let kind = |error: Error| io::Error::from(error).kind();
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(kind(full.into()), io::ErrorKind::StorageFull);
        assert_eq!(kind(Code::NotFound.into()), io::ErrorKind::NotFound);
        assert_eq!(kind(Code::Empty.into()), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Code::OutsideRoots.into()), io::ErrorKind::PermissionDenied);
        let number = |error: Error| io::Error::from(error).raw_os_error();
        assert_eq!(number(io::Error::from_raw_os_error(28).into()), Some(28));
        assert_eq!(number(Code::OutsideRoots.into()), None);
        let reported = || io::Error::from_raw_os_error(28);
        let half = io::Error::from(Error::from(reported()).with_outcome("1 of 2".to_owned()));
        assert_eq!(half.kind(), reported().kind());
        assert!(half.to_string().ends_with("; 1 of 2"), "{half}");
        assert_eq!(kind(Code::NotUtf8.into()), io::ErrorKind::InvalidData);
        #[cfg(unix)]
        assert_eq!(number(Code::NotADirectory.into()), Some(20));
        let refused = Error::from(io::Error::from(Error::from(Code::OutsideRoots)));
        assert_eq!(refused.reason(), Code::OutsideRoots);
    }

    #[test]
    fn error_has_the_number_that_the_system_reported_or_would_report() {
        let full = Error::from(io::Error::from_raw_os_error(28));
        assert_eq!(full.raw_os_error(), Some(28));
        assert_eq!(full.repeated().raw_os_error(), Some(28));
        assert_eq!(Error::from(Code::OutsideRoots).raw_os_error(), None);
        assert_eq!(Error::from(io::Error::other("x")).raw_os_error(), None);
    }

    /// The documented table, and the reverse: the system's error has the same code.
    #[cfg(unix)]
    #[test]
    fn each_documented_number_becomes_its_code_again() {
        let lines = include_str!("error.rs").lines();
        let rows = lines
            .filter_map(|line| line.strip_prefix("    /// | `"))
            .filter_map(|line| line.strip_suffix("` |")?.split_once("` | `"));
        let rows: Vec<_> = rows.collect();
        for &code in Code::ALL {
            let row = rows.iter().find(|(name, _)| *name == code.as_str());
            let error = Error::from(code);
            assert_eq!(row.is_some(), error.raw_os_error().is_some(), "{code}");
            if let Some(number) = error.raw_os_error().filter(|_| code != Code::TooManyLinks) {
                let system = Error::from(io::Error::from_raw_os_error(number));
                assert_eq!((system.reason(), system.raw_os_error()), (code, Some(number)));
            }
        }
        assert_eq!(rows.len(), 10);
    }

    #[test]
    fn code_names_are_unique_snake_case_and_texts_have_no_full_stop() {
        for (index, code) in Code::ALL.iter().enumerate() {
            let name = code.as_str();
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
            assert!(!code.text().ends_with('.'), "{name}: {}", code.text());
            assert_eq!(
                Code::ALL.iter().position(|other| other.as_str() == name),
                Some(index),
                "{name}"
            );
        }
    }

    #[test]
    fn text_contains_the_request_and_never_the_operator_detail() {
        let error = Error::from(Code::OutsideRoots)
            .with_operator_detail("points to /etc/shadow")
            .with_request("open", OsStr::new("a\n\u{7}\"b"));
        let expected = format!(r#"open "a\n\u{{7}}\"b": {}"#, Code::OutsideRoots.text());
        assert_eq!(error.to_string(), expected);
        assert_eq!(format!("{error:?}"), format!("Error(outside_roots: {error})"));
        assert_eq!(error.operator_detail(), Some("points to /etc/shadow"));
        assert!(error.source().is_none());
    }

    #[test]
    fn long_request_is_shortened_and_the_innermost_caller_names_it() {
        let error = Error::from(Code::TooLong)
            .with_request("check", OsStr::new(&"x".repeat(5000)))
            .with_request("open", OsStr::new("y"));
        let expected = format!("check \"{}…\": {}", "x".repeat(QUOTED_CHARS), Code::TooLong.text());
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn os_error_shows_the_system_message_and_no_added_text() {
        let text = |cause: io::Error| {
            Error::from(cause).with_request("write", OsStr::new("f")).to_string()
        };
        let full = || io::Error::from_raw_os_error(28);
        let write = |code: Code| format!(r#"write "f": {}"#, code.text());
        assert_eq!(text(full()), format!("{}: {}", write(Code::Io), full()));
        let added = io::Error::other("/srv/secret");
        assert_eq!(text(added), write(Code::Io));
        // A specific kind has its own text.
        let denied = io::ErrorKind::PermissionDenied.into();
        assert_eq!(text(denied), write(Code::PermissionDenied));
    }

    #[test]
    fn text_of_a_code_contains_its_constant_limit() {
        use crate::limits::{
            CHANGES, LINK_HOPS, NAME_BYTES, PATH_BYTES, ROOT_LIST_ENTRIES, WALK_DEPTH,
        };
        for (code, limits) in [
            (Code::TooLong, &[PATH_BYTES - 1, NAME_BYTES][..]),
            (Code::TooManyLinks, &[LINK_HOPS]),
            (Code::TooManyRoots, &[ROOT_LIST_ENTRIES]),
            (Code::TooDeep, &[WALK_DEPTH]),
            (Code::TooManyChanges, &[CHANGES]),
        ] {
            let text = Error::from(code).to_string();
            for limit in limits {
                let limit = limit.to_string();
                let is_named = text.split(' ').any(|word| word.trim_end_matches(',') == limit);
                assert!(is_named, "{limit}: {text}");
            }
        }
    }

    #[test]
    fn io_error_is_the_source_of_the_error() {
        let error = Error::from(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.reason(), Code::NotFound);
        assert!(error.source().is_some());
    }
}
