//! Errors: what went wrong, in words for whoever has to act.
//!
//! An [`Error`] has an [`ErrorKind`], and a text for the model or the person who sent the request.
//! The text (`Display`, `Debug` and every `source`) contains only the request, words of this crate,
//! the number of a limit, and the message of an operating system error. So it can be passed to a
//! model. What only the operator may see, such as the target of a symlink or another root, is in
//! [`Error::operator_detail`].

use crate::limits::QUOTED_CHARS;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::{fmt, io};

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or a failure. Its text is safe to show to whoever sent the request.
///
/// `Display` gives `OPERATION "REQUEST": REASON`. The request is quoted as it was sent, escaped and
/// shortened. The text is the same for all reasons that must not be distinguishable.
///
/// ```
/// # use mcp_roots_guard::{ErrorKind, Roots};
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()])?;
/// let refused = roots.read("../secret.txt", 1 << 20).unwrap_err();
/// assert_eq!(refused.to_string(), r#"read "../secret.txt": not inside the allowed directories"#);
/// match refused.kind() {
///     ErrorKind::NotFound => { /* offer to create it */ }
///     ErrorKind::OutsideRoots => { /* whether or not it exists */ }
///     _ => {}
/// }
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(thiserror::Error)]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    /// Quoted.
    request: Option<String>,
    /// The destination of a rename, quoted.
    destination: Option<String>,
    /// Which end of a rename failed, if it was not the source.
    end: Option<&'static str>,
    /// The reason. Static, so that nothing but the limit can get into it.
    text: &'static str,
    /// Replaces `{}` in the text.
    limit: Option<u64>,
    operator_detail: Option<String>,
    /// The number of the root that the resolver was in.
    root: Option<usize>,
    #[source]
    cause: Option<io::Error>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $text:literal;)*) => {
        /// Why something was refused or failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $kind,)* }

        impl ErrorKind {
            /// Every kind, in the order in which a request can meet them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The kind's name in snake case, as logs and the `check` example print it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$kind => $text,)* }
            }
        }
    };
}

// A text names a limit where it is a constant. Where the caller chose it, see `Error::over`.
kinds! {
    /// The request is an empty text.
    Empty = "empty", "the path is empty";
    /// The text contains a NUL byte, plain or as `%00`.
    Nul = "nul", "the path contains a NUL byte";
    /// The text or the path that it resolves to is longer than [`PATH_BYTES`](crate::limits::PATH_BYTES), a
    /// name in it is longer than [`NAME_BYTES`](crate::limits::NAME_BYTES), a URI is longer than
    /// [`URI_BYTES`](crate::limits::URI_BYTES), or resolving it takes too many steps.
    TooLong = "too_long", "the path is longer than 4095 bytes, or a name in it is longer than 255 bytes";
    /// A URI with another scheme than `file:`.
    ForeignScheme = "foreign_scheme", "only file: URIs and paths are served";
    /// A `file:` URI that names another host (RFC 8089), or has four slashes.
    ForeignHost = "foreign_host", "the URI names another host; write file:/// and then the path";
    /// A `file:` URI with a query.
    Query = "query", "the URI has a query; write ? as %3F";
    /// A `file:` URI with a fragment.
    Fragment = "fragment", "the URI has a fragment; write # as %23";
    /// A `%` that is not followed by two hexadecimal digits (RFC 3986, 2.1).
    BadEscape = "bad_escape", "the URI has a broken percent escape; write % as %25";
    /// A percent-encoded path separator.
    EncodedSeparator = "encoded_separator", "the URI has a percent-encoded path separator; write it as it is";
    /// A character that a URL parser would drop or change: a tab, a newline, a backslash, a
    /// surrounding space, the `|` of a drive.
    DroppedCharacter = "dropped_character", "the URI has a character that must be percent-encoded: a tab, newline, backslash, | or surrounding space";
    /// A URI without an absolute path, or a text that is neither an absolute path nor a URI where a
    /// root or a URI was expected.
    NotAbsolute = "not_absolute", "not an absolute path or file: URI";
    /// On Windows, a path that depends on the process's current drive, or on a drive's current
    /// directory: `\x`, `C:x`.
    DriveRelative = "drive_relative", "the path depends on the current drive or its directory; write it in full";
    /// On Windows, a path that names a device, or a volume by something else than a drive letter:
    /// `\\.\`, `\\?\` with anything but a drive or a share, a volume's GUID.
    DevicePath = "device_path", "the path names a device or a volume; write it with a drive letter";
    /// On Windows, a name that a device has in every directory: `NUL`, `COM1`, `CON.txt`.
    ReservedName = "reserved_name", "a name in the path is reserved for a device";
    /// On Windows, a name with a colon, which names a stream of a file: `a.txt:s`.
    Stream = "stream", "a name in the path has a colon, which would name a stream";
    /// On Windows, a name that ends in a dot or a space, which the system may drop.
    TrailingDot = "trailing_dot", "a name in the path ends in a dot or a space, which the system may drop";
    /// On Windows, a name that could be the short alias of another (8.3): `PROGRA~1`.
    ShortName = "short_name", "a name in the path looks like the short alias of another; write the long name";
    /// On Windows, a name with a character that no file name has: a control character, or one of
    /// `< > " | ? *`.
    InvalidName = "invalid_name", "a name in the path has a control character or one of < > \" | ? *";

    /// What the request really names is in no root. The same whether it exists or not.
    OutsideRoots = "outside_roots", "not inside the allowed directories";
    /// A name in the path, or the last one, does not exist.
    NotFound = "not_found", "no such file or directory";
    /// A name in the path, or one with a trailing slash, is not a directory.
    NotADirectory = "not_a_directory", "not a directory";
    /// More than [`LINK_HOPS`](crate::limits::LINK_HOPS) symlinks to follow.
    TooManyLinks = "too_many_links", "more than 40 symbolic links to follow";
    /// A root, or a directory that contains one, would be removed, renamed or replaced.
    RootItself = "root_itself", "an allowed directory itself cannot be removed, renamed or replaced";
    /// The root's path no longer leads to the directory that was resolved. Resolve the root list
    /// again.
    RootUnavailable = "root_unavailable", "the allowed directory was moved, removed or replaced";
    /// The root may only be read.
    ReadOnly = "read_only", "the directory is read-only";

    /// Another entry of the root list names the same directory.
    Duplicate = "duplicate", "another entry names the same directory";
    /// The root's path goes through a symlink inside a root that was granted.
    ThroughLink = "through_link", "the path goes through a symbolic link inside an allowed directory";
    /// An allowed directory is inside another one that has other access.
    AccessConflict = "access_conflict", "the directory is inside another one that has other access";
    /// An entry of a root list that does not match the protocol's schema.
    Malformed = "malformed", "the entry is malformed";
    /// No allowed directory was configured, and the builder was not told to serve client roots only.
    NoDirectories = "no_directories", "no directory is configured";
    /// Resolving the path takes more than [`LOOKUPS`](crate::limits::LOOKUPS) look-ups; or an entry of a root list
    /// comes after others that took too many, or would be one more directory than is remembered for a
    /// client.
    TooCostly = "too_costly", "the path takes too many look-ups to resolve";
    /// More than [`ROOT_LIST_ENTRIES`](crate::limits::ROOT_LIST_ENTRIES) entries.
    TooManyRoots = "too_many_roots", "the root list has more than 10000 entries";

    /// The client did not declare roots, and the server serves nothing without them
    /// ([`WithoutClientRoots::Deny`](crate::WithoutClientRoots::Deny)); or it has none to list
    /// ([`RootsResponse::Unsupported`](crate::RootsResponse::Unsupported)).
    RootsUnsupported = "roots_unsupported", "the client offers no roots, and this server requires them";
    /// The client answered `roots/list` with an error, or with something that is not a root list.
    RootsFailed = "roots_failed", "the client's roots could not be obtained";
    /// The client did not answer `roots/list` in time, or its list took too long to resolve.
    RootsTimedOut = "roots_timed_out", "the client's roots could not be obtained in time";
    /// The client's roots changed each time that they were requested.
    RootsChanging = "roots_changing", "the client's roots keep changing; try again later";
    /// The client's roots changed, or were forgotten, and have not been requested since.
    RootsStale = "roots_stale", "the client's roots changed or expired; try again";
    /// A root list of more than [`ROOT_LIST_PAGES`](crate::limits::ROOT_LIST_PAGES) pages.
    TooManyPages = "too_many_pages", "the root list has more than 100 pages";
    /// A root list whose `nextCursor` leads back to a page that was read.
    RepeatedCursor = "repeated_cursor", "the root list repeats a page";
    /// The session was closed.
    SessionClosed = "session_closed", "the session is closed";
    /// More than [`SESSIONS`](crate::limits::SESSIONS) sessions at once.
    TooManySessions = "too_many_sessions", "the server has 100000 sessions and takes no more; try again later";
    /// The request belongs to no session of this guard: its transport is not wrapped, or the request
    /// has another client's key.
    NoSession = "no_session", "the request belongs to no known session";
    /// Too many requests of the client wait already. Nothing was done.
    QueueFull = "queue_full", "too many requests of this client are waiting; try again when some are answered";
    /// The request would wait for operations that hang: another one of this client does not finish on
    /// the same device, or all that may run do not; or the system gives no thread. Nothing was done.
    Busy = "busy", "the server is too busy for this now; try again later";
    /// The request was cancelled, or its client is gone.
    Cancelled = "cancelled", "the request was cancelled";
    /// Roots of a session were requested outside a tokio runtime, or in one without a timer.
    NoRuntime = "no_runtime", "no tokio runtime with a timer is running";
    /// The process cannot be confined here: the system is not Linux, or its kernel has no Landlock.
    /// Nothing is restricted.
    ConfinementUnavailable = "confinement_unavailable", "process confinement is not available here";
    /// The process has other threads, which this kernel cannot confine, or the number of threads is
    /// unknown. Nothing is restricted.
    ThreadsRunning = "threads_running", "the process may have other threads; confine it before any thread or runtime is started";

    /// Neither a regular file nor a directory: a FIFO, a socket or a device; or a symlink where the
    /// entry itself was requested.
    SpecialFile = "special_file", "not a regular file";
    /// The file has other names, and the policy refuses such files.
    HardLinked = "hard_linked", "the file has more than one hard link";
    /// Another filesystem is mounted in the path, and the policy or the operation refuses that.
    MountCrossing = "mount_crossing", "another filesystem is mounted there";
    /// A directory where a file was requested.
    IsADirectory = "is_a_directory", "is a directory";
    /// The name exists already.
    AlreadyExists = "already_exists", "already exists";
    /// The directory is not empty.
    DirectoryNotEmpty = "directory_not_empty", "the directory is not empty";
    /// More bytes than the limit that the caller set.
    TooLarge = "too_large", "larger than the limit";
    /// Content that is not UTF-8 where text was requested.
    NotUtf8 = "not_utf8", "not UTF-8 text";
    /// Directories nested deeper than [`WALK_DEPTH`](crate::limits::WALK_DEPTH).
    TooDeep = "too_deep", "nested more than 128 directories deep";
    /// More entries than the limit.
    TooManyEntries = "too_many_entries", "too many entries";
    /// A rename from one filesystem to another.
    CrossDevice = "cross_device", "source and destination are on different filesystems";
    /// Another process kept changing the path while it was used. Trying again is safe.
    Changed = "changed", "the path changed while it was used; try again";
    /// The operating system denies the access.
    PermissionDenied = "permission_denied", "permission denied";
    /// A path that ends in `.` or `..` names no entry that could be removed or renamed (rmdir(2),
    /// rename(2)).
    DotName = "dot_name", "the path ends in . or ..; name the entry itself";
    /// An entry is removed or renamed by a proof that was made for another
    /// [`Intent`](crate::Intent) than `NoFollow`, so that symlinks were followed.
    WrongIntent = "wrong_intent", "was checked for another intent";
    /// Options that request nothing, that exclude each other, or that would have no effect.
    InvalidOptions = "invalid_options", "the open options are incompatible";
    /// Any other error of the operating system; see `source`.
    Io = "io", "input or output failed";
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Error {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What only the operator may see: where a symlink led, which root was meant. For the server's
    /// log, never for an answer.
    #[must_use]
    pub fn operator_detail(&self) -> Option<&str> {
        self.0.operator_detail.as_deref()
    }

    /// As `From`, but a refusal of this crate that was made an [`io::Error`] is itself again.
    #[cfg(feature = "rmcp")]
    pub(crate) fn unwrapped(error: io::Error) -> Self {
        error.downcast::<Self>().unwrap_or_else(Self::from)
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner {
            kind,
            operation: "",
            request: None,
            destination: None,
            end: None,
            text: kind.text(),
            limit: None,
            operator_detail: None,
            root: None,
            cause: None,
        }))
    }

    /// An error about a limit that the caller chose; `{}` in the text stands for it.
    pub(crate) fn over(kind: ErrorKind, text: &'static str, limit: impl TryInto<u64>) -> Self {
        let mut error = Self::new(kind).says(text);
        error.0.limit = Some(limit.try_into().unwrap_or(u64::MAX));
        error
    }

    /// Gives a reason that is more precise than the kind's.
    pub(crate) fn says(mut self, text: &'static str) -> Self {
        self.0.text = text;
        self
    }

    /// Blames the destination of a rename.
    pub(crate) fn of_destination(mut self) -> Self {
        if self.kind() == ErrorKind::AlreadyExists {
            return self.says("destination already exists");
        }
        self.0.end = Some("destination: ");
        self
    }

    /// As [`at`](Self::at), for a rename, which has two requests.
    pub(crate) fn between(mut self, operation: &'static str, from: &OsStr, to: &OsStr) -> Self {
        if self.0.request.is_none() {
            self.0.destination = Some(quoted(to));
        }
        self.at(operation, from)
    }

    /// Whether both have the same text and detail.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.kind() == other.kind()
            && self.operator_detail() == other.operator_detail()
            && self.to_string() == other.to_string()
    }

    /// Bytes of heap that it takes.
    pub(crate) fn heap(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
        let Inner { request, destination, operator_detail, .. } = &*self.0;
        size_of::<Inner>() + text(request) + text(destination) + text(operator_detail)
    }

    /// Names the operation and the request, once: the innermost caller that knows them wins.
    pub(crate) fn at(mut self, operation: &'static str, request: &OsStr) -> Self {
        if self.0.request.is_none() {
            self.0.operation = operation;
            self.0.request = Some(quoted(request));
        }
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.operator_detail = Some(detail.into());
        self
    }

    /// Remembers the root that the resolver was in, whose path may have to be verified.
    pub(crate) fn in_root(mut self, root: usize) -> Self {
        self.0.root = Some(root);
        self
    }

    pub(crate) fn root(&self) -> Option<usize> {
        self.0.root
    }

    /// An error with an error of the operating system as its cause.
    pub(crate) fn io(kind: ErrorKind, cause: io::Error) -> Self {
        let mut error = Self::new(kind);
        error.0.cause = Some(cause);
        error
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

/// Most errors of the operating system have a kind of their own; the others are [`ErrorKind::Io`].
impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Self {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::NotADirectory => ErrorKind::NotADirectory,
            io::ErrorKind::IsADirectory => ErrorKind::IsADirectory,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            io::ErrorKind::DirectoryNotEmpty => ErrorKind::DirectoryNotEmpty,
            io::ErrorKind::CrossesDevices => ErrorKind::CrossDevice,
            io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            _ if is_name_too_long(&cause) => ErrorKind::TooLong,
            _ => ErrorKind::Io,
        };
        Self::io(kind, cause)
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The same text as `Display`, so that `{:?}` in an answer tells no more.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {self})", self.kind())
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())
    }
}

/// Whether the system rejected a name for its length. Rust 1.85 has no name for the `io::ErrorKind`
/// of it, so the kind is taken from the system's own error.
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
        f.write_str(self.end.unwrap_or_default())?;
        match (self.text.split_once("{}"), self.limit) {
            (Some((before, after)), Some(limit)) => write!(f, "{before}{limit}{after}")?,
            _ => f.write_str(self.text)?,
        }
        // The system's message for its number, and nothing that somebody added to it.
        match self.cause.as_ref().and_then(io::Error::raw_os_error) {
            Some(number) if self.text == ErrorKind::Io.text() => {
                write!(f, ": {}", io::Error::from_raw_os_error(number))
            }
            _ => Ok(()),
        }
    }
}

/// Untrusted text for a message: lossy, escaped and at most [`QUOTED_CHARS`] long.
pub(crate) fn quoted(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    let mut shown: String = text.chars().take(QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn names_are_unique_snake_case_and_texts_have_no_full_stop() {
        for (index, kind) in ErrorKind::ALL.iter().enumerate() {
            let name = kind.as_str();
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
            assert!(!kind.text().ends_with('.'), "{name}: {}", kind.text());
            assert_eq!(ErrorKind::ALL.iter().position(|other| other.as_str() == name), Some(index), "{name}");
        }
    }

    #[test]
    fn text_holds_the_request_and_the_kind_and_never_the_operators_detail() {
        let error =
            Error::new(ErrorKind::OutsideRoots).detail("led to /etc/shadow").at("open", OsStr::new("a\n\u{7}\"b"));
        assert_eq!(error.to_string(), r#"open "a\n\u{7}\"b": not inside the allowed directories"#);
        assert_eq!(format!("{error:?}"), format!("Error(outside_roots: {error})"));
        assert_eq!(error.operator_detail(), Some("led to /etc/shadow"));
        assert!(error.source().is_none());
    }

    #[test]
    fn a_long_request_is_shortened_and_the_first_caller_names_it() {
        let error =
            Error::new(ErrorKind::TooLong).at("check", OsStr::new(&"x".repeat(5000))).at("open", OsStr::new("y"));
        let expected = format!("check \"{}…\": {}", "x".repeat(QUOTED_CHARS), ErrorKind::TooLong.text());
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_error_of_the_operating_system_says_its_message_and_nothing_that_was_added() {
        let text = |cause: io::Error| Error::from(cause).at("write", OsStr::new("f")).to_string();
        let full = || io::Error::from_raw_os_error(28);
        assert_eq!(text(full()), format!(r#"write "f": input or output failed: {}"#, full()));
        let added = io::Error::other("/srv/secret");
        assert_eq!(text(added), r#"write "f": input or output failed"#);
        // A kind of its own has its own words.
        assert_eq!(text(io::ErrorKind::PermissionDenied.into()), r#"write "f": permission denied"#);
    }

    #[test]
    fn the_operating_systems_cause_is_the_source() {
        let error = Error::from(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.source().is_some());
    }
}
