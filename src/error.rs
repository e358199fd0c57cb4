//! What a refusal says, and to whom.
//!
//! Goes in: what an operation met. Comes out: an [`Error`] with an [`ErrorKind`]. What is true after: the text of an error
//! (`Display`, `Debug`, and every `source`) holds nothing but the request it answers and the kind, so it can be handed to a model;
//! a link's target or another root is told by [`Error::operator_detail`] alone.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fmt;
use std::io;

/// The result of everything here that can be refused.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or a failure. Its text is safe to show to whoever asked.
///
/// `Display` reads `OPERATION "REQUEST": WHY`; the request is quoted escaped and shortened, and the same for every reason that
/// must not be told apart.
///
/// ```
/// # use mcp_roots_guard::{ErrorKind, Roots};
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()])?;
/// let refused = roots.read("../secret.txt", 1 << 20).unwrap_err();
/// assert_eq!(refused.to_string(), r#"read "../secret.txt": not inside the allowed directories"#);
/// match refused.kind() {
///     ErrorKind::NotFound => { /* make it, say */ }
///     ErrorKind::OutsideRoots => { /* whether or not it is there */ }
///     _ => {}
/// }
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Inner>);

#[derive(thiserror::Error)]
#[error("{}{}", prefix(.operation, .request.as_deref()), .kind.text())]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    request: Option<String>,
    operator_detail: Option<String>,
    /// The number of the root that the resolver stood in.
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
            /// Every kind, in the order of the way of a request.
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

kinds! {
    /// The request has no text.
    Empty = "empty", "the path is empty";
    /// A NUL byte, plain or as `%00`.
    Nul = "nul", "the path has a NUL byte";
    /// The text, a name in it or the path it resolves to is longer than [`PATH_BYTES`](crate::PATH_BYTES),
    /// [`NAME_BYTES`](crate::NAME_BYTES) or the resolver's number of steps.
    TooLong = "too_long", "the path is too long";
    /// A URI with another scheme than `file:`.
    ForeignScheme = "foreign_scheme", "only file: URIs and paths are served";
    /// A `file:` URI that names another host (RFC 8089), or has four slashes.
    ForeignHost = "foreign_host", "the URI names another host";
    /// A `file:` URI with a query.
    Query = "query", "the URI has a query; write ? as %3F";
    /// A `file:` URI with a fragment.
    Fragment = "fragment", "the URI has a fragment; write # as %23";
    /// A `%` that two hexadecimal digits do not follow (RFC 3986, 2.1).
    BadEscape = "bad_escape", "the URI has a broken percent escape; write % as %25";
    /// A path separator hidden in a percent escape.
    EncodedSeparator = "encoded_separator", "the URI has an encoded path separator";
    /// A character that a URL parser would drop or change: tab, newline, backslash, surrounding space, a drive's `|`.
    DroppedCharacter = "dropped_character", "the URI has a character that must be percent-encoded";
    /// A URI without an absolute path, or a root or URI that was expected and is none.
    NotAbsolute = "not_absolute", "not an absolute path or file: URI";
    /// On Windows, a path that depends on the process's current drive, or on a drive's current directory: `\x`, `C:x`.
    DriveRelative = "drive_relative", "the path depends on the current drive or its directory; write it in full";
    /// On Windows, a path to devices or past the names of drives: `\\.\`, `\\?\` of anything but a drive or a share, a volume's GUID.
    DevicePath = "device_path", "the path names a device or a volume, not a file by its drive";
    /// On Windows, a name that a device has in every directory: `NUL`, `COM1`, `CON.txt`.
    ReservedName = "reserved_name", "a name on the way is reserved for a device";
    /// On Windows, a name with a colon, which names a stream of a file: `a.txt:s`.
    Stream = "stream", "a name on the way has a colon, which would name a stream";
    /// On Windows, a name that ends in a dot or a space, which the system may drop.
    TrailingDot = "trailing_dot", "a name on the way ends in a dot or a space";
    /// On Windows, a name that could be the short alias of another (8.3): `PROGRA~1`.
    ShortName = "short_name", "a name on the way looks like the short alias of another";
    /// On Windows, a name with a character that no file's name has: a control character, or one of `< > " | ? *`.
    InvalidName = "invalid_name", "a name on the way has a character that no name may have";

    /// What the request really names is in no root. The same whether it exists or not.
    OutsideRoots = "outside_roots", "not inside the allowed directories";
    /// A name on the way, or the last, does not exist.
    NotFound = "not_found", "no such file or directory";
    /// A name on the way, or one with a trailing slash, is no directory.
    NotADirectory = "not_a_directory", "not a directory";
    /// More than [`LINK_HOPS`](crate::LINK_HOPS) links on the way.
    TooManyLinks = "too_many_links", "too many symbolic links on the way";
    /// A root, or a directory that holds one, would be removed, renamed or replaced.
    RootItself = "root_itself", "an allowed directory itself can not be removed, renamed or replaced";
    /// The root is no longer what its name said when it was resolved. Resolve the root list again.
    RootUnavailable = "root_unavailable", "the allowed directory is no longer where it was";
    /// The root may only be read.
    ReadOnly = "read_only", "the directory is read-only";

    /// Another entry of the root list names the same directory.
    Duplicate = "duplicate", "another entry names the same directory";
    /// The root's path runs through a symbolic link that lies inside a root that was granted.
    ThroughLink = "through_link", "the path runs through a link inside a granted root";
    /// An operator directory lies in another one that has other access.
    AccessConflict = "access_conflict", "the directory lies in another one with other access";
    /// An entry of a root list that is not what the protocol says.
    Malformed = "malformed", "the entry is malformed";
    /// No operator directory was configured, and the builder was not told that client roots are all there is.
    NoDirectories = "no_directories", "no directory is configured";
    /// The entries before this one took so long to resolve that this one is not looked at.
    TooCostly = "too_costly", "the root list takes too long to resolve";
    /// More than [`ROOT_LIST_ENTRIES`](crate::ROOT_LIST_ENTRIES) entries.
    TooManyRoots = "too_many_roots", "the root list has too many entries";

    /// The client did not declare roots, and the server serves nothing without
    /// ([`WithoutClientRoots::Deny`](crate::WithoutClientRoots::Deny)); or it has none to tell ([`Answer::Unsupported`](crate::Answer::Unsupported)).
    RootsUnsupported = "roots_unsupported", "the client offers no roots";
    /// The client answered `roots/list` with an error, or with something that is no root list.
    RootsFailed = "roots_failed", "the client's roots could not be had";
    /// The client did not answer `roots/list` in time, or its list took too long to resolve.
    RootsTimedOut = "roots_timed_out", "the client's roots were not told in time";
    /// The client's roots changed each time they were asked for.
    RootsChanging = "roots_changing", "the client's roots keep changing";
    /// The client's roots changed, or were forgotten, and have not been asked for since.
    RootsStale = "roots_stale", "the client's roots have to be asked for again";
    /// A root list in more than [`ROOT_LIST_PAGES`](crate::ROOT_LIST_PAGES) pages.
    TooManyPages = "too_many_pages", "the root list has too many pages";
    /// A root list whose `nextCursor` leads back to a page that was read.
    RepeatedCursor = "repeated_cursor", "the root list repeats a page";
    /// What the server's author wrote to ask for the roots panicked.
    SourcePanicked = "source_panicked", "asking for the client's roots broke down";
    /// The session was closed.
    SessionClosed = "session_closed", "the session is closed";
    /// More than [`SESSIONS`](crate::SESSIONS) sessions at once.
    TooManySessions = "too_many_sessions", "too many sessions at once";
    /// The request belongs to no session of this guard: its transport is not wrapped, or it bears another client's key.
    NoSession = "no_session", "the request belongs to no known session";
    /// The request was cancelled, or its client is gone.
    Cancelled = "cancelled", "the request was cancelled";
    /// Roots of a session were asked for outside a tokio runtime, or in one without a timer.
    NoRuntime = "no_runtime", "there is no runtime with a timer";
    /// The process can not be confined here: another system than Linux, or a kernel without Landlock. Nothing is restricted.
    ConfinementUnavailable = "confinement_unavailable", "process confinement is not available here";
    /// The process has other threads, which this kernel can not confine, or how many it has can not be told. Nothing is restricted.
    ThreadsRunning = "threads_running", "the process may have other threads; confine it before any thread or runtime is started";

    /// Neither a regular file nor a directory: FIFO, socket, device; or a link where the entry itself was asked for.
    SpecialFile = "special_file", "not a regular file";
    /// The file has other names, and the policy refuses such.
    HardLinked = "hard_linked", "the file has more than one hard link";
    /// Another file system is mounted on the way, and the policy or the operation refuses that.
    MountCrossing = "mount_crossing", "another file system is mounted there";
    /// A directory where a file was asked for.
    IsADirectory = "is_a_directory", "is a directory";
    /// The name exists already.
    AlreadyExists = "already_exists", "exists already";
    /// A directory that is not empty.
    DirectoryNotEmpty = "directory_not_empty", "the directory is not empty";
    /// More bytes than the limit that the caller set.
    TooLarge = "too_large", "larger than the limit";
    /// Content that is not UTF-8 where text was asked for.
    NotUtf8 = "not_utf8", "not UTF-8 text";
    /// Directories nested deeper than the limit.
    TooDeep = "too_deep", "nested too deeply";
    /// More entries than the limit.
    TooManyEntries = "too_many_entries", "too many entries";
    /// A rename from one file system to another.
    CrossDevice = "cross_device", "source and destination are on different file systems";
    /// Another process kept changing the path while it was used. Asking again is safe.
    Changed = "changed", "the path changed while it was used";
    /// The operating system denies the access.
    PermissionDenied = "permission_denied", "permission denied";
    /// A path that ends in `.` or `..` names no entry that could be removed or renamed (rmdir(2), rename(2)).
    DotName = "dot_name", "ends in . or .., which is no entry of its own";
    /// An entry is removed or renamed by a proof that was made for another [`Intent`](crate::Intent) than `Entry`, so that links
    /// were followed.
    WrongIntent = "wrong_intent", "was checked for another intent";
    /// Open options that ask for nothing, or for things that exclude each other.
    InvalidOptions = "invalid_options", "these open options do not go together";
    /// Anything else that the operating system says; see `source`.
    Io = "io", "input or output failed";
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Error {
    /// Why.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What only the operator may see: where a link led, which root was meant. For the server's log, never for an answer.
    #[must_use]
    pub fn operator_detail(&self) -> Option<&str> {
        self.0.operator_detail.as_deref()
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, operation: "", request: None, operator_detail: None, root: None, cause: None }))
    }

    /// Names the operation and the request, once: the innermost caller that knows them wins.
    pub(crate) fn at(mut self, operation: &'static str, request: &OsStr) -> Self {
        if self.0.request.is_none() {
            self.0.operation = operation;
            self.0.request = Some(quoted(request));
        }
        self
    }

    pub(crate) fn is_named(&self) -> bool {
        self.0.request.is_some()
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.operator_detail = Some(detail.into());
        self
    }

    /// Remembers the root that the resolver stood in, whose name may have to be verified.
    pub(crate) fn in_root(mut self, root: usize) -> Self {
        self.0.root = Some(root);
        self
    }

    pub(crate) fn root(&self) -> Option<usize> {
        self.0.root
    }

    /// An error whose cause is the operating system's.
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

/// Each `errno` that has a kind of its own; the rest is [`ErrorKind::Io`].
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
            io::ErrorKind::InvalidFilename => ErrorKind::TooLong,
            io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
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

fn prefix(operation: &str, request: Option<&str>) -> String {
    request.map_or_else(String::new, |request| format!("{operation} {request}: "))
}

/// Attacker text for a message: lossy, escaped, and no longer than [`QUOTED_CHARS`].
pub(crate) fn quoted(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    let mut shown: String = text.chars().take(QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Enough of a request to recognise it; a message is one line in a log or a model's context.
const QUOTED_CHARS: usize = 160;

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
        assert_eq!(error.to_string(), format!("check \"{}…\": the path is too long", "x".repeat(QUOTED_CHARS)));
    }

    #[test]
    fn the_operating_systems_cause_is_the_source() {
        let error = Error::from(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.source().is_some());
    }
}
