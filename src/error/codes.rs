//! The table of errors: kind, code, text, and how JSON-RPC answers.
//!
//! This file uses no other module, so that `tests/properties/windows.rs` can include it.

use std::fmt;

macro_rules! errors {
    ($(
        $(#[doc = $about:literal])+
        $kind:ident: $class:ident {$(
            $(#[doc = $doc:literal])*
            $code:ident = $name:literal, $text:literal;
        )+}
    )+) => {
        /// The kind of an [`Error`](crate::Error): what a caller would match on.
        ///
        /// Each kind lists its [codes](crate::Error::code), which are the exact reasons. Match on
        /// the kind, and log the code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {$(
            $(#[doc = $about])+
            ///
            /// Codes:
            ///
            $(#[doc = errors!(@item $name $($doc)*)])+
            $kind,
        )+}

        impl ErrorKind {
            pub(crate) const fn class(self) -> RpcClass {
                match self { $(Self::$kind => RpcClass::$class,)+ }
            }
        }

        /// The exact reason.
        #[allow(dead_code, reason = "some are of one system or one feature")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Code { $($($code,)+)+ }

        impl Code {
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$($(Self::$code,)+)+];

            pub(crate) const fn kind(self) -> ErrorKind {
                match self { $($(Self::$code)|+ => ErrorKind::$kind,)+ }
            }

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $($(Self::$code => $name,)+)+ }
            }

            pub(crate) const fn text(self) -> &'static str {
                match self { $($(Self::$code => $text,)+)+ }
            }
        }
    };
    (@item $name:literal) => { concat!("* `", $name, "`") };
    (@item $name:literal $first:literal $($doc:literal)*) => {
        concat!("* `", $name, "`:", $first $(, "\n ", $doc)*)
    };
}

// Each row: the code, its name and its text. A text names a limit where the limit is a constant;
// for a limit that the caller chose, see `Error::over`.
errors! {
    /// The text is not a path, or its form is one that is refused.
    InvalidPath: InvalidText {
        /// The request is an empty text.
        Empty = "empty", "the path is empty";
        /// The text contains a NUL byte, plain or as `%00`.
        Nul = "nul", "the path contains a NUL byte";
        /// A URI without an absolute path, or a text that is neither an absolute path nor a URI
        /// where a root or a URI was expected.
        NotAbsolute = "not_absolute", "not an absolute path or file: URI";
        /// On Windows, a path that depends on the process's current drive, or on a drive's current
        /// directory: `\x`, `C:x`.
        DriveRelative = "drive_relative",
            "the path depends on the current drive or its directory; write it in full";
        /// On Windows, a path that names a device, or a volume in another way than by its drive
        /// letter: `\\.\`, a volume's GUID, `\\?\` with anything other than a drive or a share.
        DevicePath = "device_path",
            "the path names a device or a volume; write it with a drive letter";
        /// On Windows, a name that a device has in every directory: `NUL`, `COM1`, `CON.txt`.
        ReservedName = "reserved_name", "a name in the path is reserved for a device";
        /// On Windows, a name with a colon, which names a stream of a file: `a.txt:s`.
        Stream = "stream", "a name in the path has a colon, which would name a stream";
        /// On Windows, a name that ends in a dot or a space, which the system may drop.
        TrailingDot = "trailing_dot",
            "a name in the path ends in a dot or a space, which the system may drop";
        /// On Windows, a name that could be the short alias of another (8.3): `PROGRA~1`.
        ShortName = "short_name",
            "a name in the path looks like the short alias of another; write the long name";
        /// On Windows, a name with a character that no file name has: a control character, or one
        /// of `< > " | ? *`.
        InvalidName = "invalid_name",
            "a name in the path has a control character or one of < > \" | ? *";
        /// A path that ends in `.` or `..` names no entry that could be removed or renamed
        /// (rmdir(2), rename(2)).
        DotName = "dot_name", "the path ends in . or ..; name the entry itself";
    }

    /// The text is not a `file:` URI, or its form is one that is refused.
    InvalidUri: InvalidText {
        /// A URI with a scheme other than `file:`.
        ForeignScheme = "foreign_scheme", "only file: URIs and paths are served";
        /// A `file:` URI that names another host (RFC 8089), or has four slashes.
        ForeignHost = "foreign_host",
            "the URI names another host; write file:/// and then the path";
        /// A `file:` URI with a query.
        Query = "query", "the URI has a query; write ? as %3F";
        /// A `file:` URI with a fragment.
        Fragment = "fragment", "the URI has a fragment; write # as %23";
        /// A `%` that is not followed by two hexadecimal digits (RFC 3986, 2.1).
        BadEscape = "bad_escape", "the URI has a broken percent escape; write % as %25";
        /// A percent-encoded path separator.
        EncodedSeparator = "encoded_separator",
            "the URI has a percent-encoded path separator; write it as it is";
        /// A character that a URL parser would drop or change: a tab, a newline, a backslash, a
        /// surrounding space, the `|` of a drive.
        DroppedCharacter = "dropped_character",
            "the URI has a character that must be percent-encoded: a tab, newline, backslash, | \
             or surrounding space";
    }

    /// The text or the path that it resolves to is longer than
    /// [`PATH_BYTES`](crate::limits::PATH_BYTES), a name in it is longer than
    /// [`NAME_BYTES`](crate::limits::NAME_BYTES), a URI is longer than
    /// [`URI_BYTES`](crate::limits::URI_BYTES), or resolving it takes too many steps.
    TooLong: InvalidText {
        TooLong = "too_long",
            "the path is longer than 4095 bytes, or a name in it is longer than 255 bytes";
    }

    /// What the request really names is in no root. The error is the same whether it exists or not.
    OutsideRoots: NotServed {
        OutsideRoots = "outside_roots", "not inside the allowed directories";
    }

    /// A name in the path, or the last one, does not exist.
    NotFound: NotServed {
        NotFound = "not_found", "no such file or directory";
    }

    /// A name in the path, or one with a trailing slash, is not a directory.
    NotADirectory: NotServed {
        NotADirectory = "not_a_directory", "not a directory";
    }

    /// A directory where a file was requested.
    IsADirectory: NotServed {
        IsADirectory = "is_a_directory", "is a directory";
    }

    /// The operating system denies the access.
    PermissionDenied: NotServed {
        PermissionDenied = "permission_denied", "permission denied";
    }

    /// Resolving the path, or an entry of a root list, takes too many steps.
    TooCostly: NotServed {
        /// Resolving the path takes more than [`LOOKUPS`](crate::limits::LOOKUPS) look-ups; or the
        /// entries of a root list before this one took too many, or the entry would be one more
        /// directory than is remembered for a client.
        TooCostly = "too_costly", "the path takes too many look-ups to resolve";
        /// More than [`LINK_HOPS`](crate::limits::LINK_HOPS) symlinks to follow.
        TooManyLinks = "too_many_links", "more than 40 symbolic links to follow";
    }

    /// The root's path no longer leads to the directory that was resolved. Resolve the root list
    /// again.
    RootUnavailable: NotServed {
        RootUnavailable = "root_unavailable",
            "the allowed directory was moved, removed or replaced";
    }

    /// The [`Policy`](crate::Policy), or the operation, does not serve such a file.
    ForbiddenFile: NotServed {
        /// Neither a regular file nor a directory: a FIFO, a socket or a device; or a symlink where
        /// the entry itself was requested.
        SpecialFile = "special_file", "not a regular file";
        /// The file has other names, and the policy refuses such files.
        HardLinked = "hard_linked", "the file has more than one hard link";
        /// Another filesystem is mounted in the path, and the policy or the operation refuses that.
        MountCrossing = "mount_crossing", "another filesystem is mounted there";
    }

    /// The name exists already.
    AlreadyExists: Failure {
        AlreadyExists = "already_exists", "already exists";
    }

    /// The directory is not empty.
    DirectoryNotEmpty: Failure {
        DirectoryNotEmpty = "directory_not_empty", "the directory is not empty";
    }

    /// The root may only be read.
    ReadOnly: Failure {
        ReadOnly = "read_only", "the directory is read-only";
    }

    /// A root, or a directory that contains one, would be removed, renamed or replaced.
    RootItself: Failure {
        RootItself = "root_itself",
            "an allowed directory itself cannot be removed, renamed or replaced";
    }

    /// A file, a directory or a root list is larger than a limit of the caller or the crate.
    LimitExceeded: Failure {
        /// More bytes than the limit that the caller set.
        TooLarge = "too_large", "larger than the limit";
        /// Directories nested deeper than [`WALK_DEPTH`](crate::limits::WALK_DEPTH).
        TooDeep = "too_deep", "nested more than 128 directories deep";
        /// More entries than the limit.
        TooManyEntries = "too_many_entries", "too many entries";
    }

    /// Content that is not UTF-8 where text was requested.
    NotUtf8: Failure {
        NotUtf8 = "not_utf8", "not UTF-8 text";
    }

    /// A rename from one filesystem to another.
    CrossDevice: Failure {
        CrossDevice = "cross_device", "source and destination are on different filesystems";
    }

    /// Another process kept changing the path while it was used. Trying again is safe.
    Changed: Failure {
        Changed = "changed", "the path changed while it was used; try again";
    }

    /// The server's own code called the operation in a way that cannot work.
    InvalidInput: Failure {
        /// The entry to remove or rename was checked with another [`Intent`](crate::Intent) than
        /// `NoFollow`, so that symlinks were followed.
        WrongIntent = "wrong_intent", "was checked for another intent";
        /// Options that request nothing, that exclude each other, or that would have no effect.
        InvalidOptions = "invalid_options", "the open options are incompatible";
    }

    /// The allowed directories of the server's configuration are not usable as they are.
    InvalidConfiguration: Failure {
        /// No allowed directory was configured, and the builder was not told to serve client roots
        /// only.
        NoDirectories = "no_directories", "no directory is configured";
        /// An allowed directory is inside another one that has other access.
        AccessConflict = "access_conflict",
            "the directory is inside another one that has other access";
    }

    /// An entry of a root list grants nothing, or an allowed directory cannot be one.
    RootRejected: Failure {
        /// Another entry of the root list names the same directory.
        Duplicate = "duplicate", "another entry names the same directory";
        /// The root's path goes through a symlink inside a root that was granted.
        ThroughLink = "through_link",
            "the path goes through a symbolic link inside an allowed directory";
        /// An entry of a root list that does not match the protocol's schema.
        Malformed = "malformed", "the entry is malformed";
    }

    /// The client did not declare roots, and the server serves nothing without them
    /// ([`WithoutClientRoots::Deny`](crate::WithoutClientRoots::Deny)); or it has none to list
    /// ([`RootsResponse::Unsupported`](crate::RootsResponse::Unsupported)).
    RootsUnsupported: NoRoots {
        RootsUnsupported = "roots_unsupported",
            "the client offers no roots, and this server requires them";
    }

    /// The client's roots could not be obtained, or there are too many.
    RootsFailed: Failure {
        /// The client answered `roots/list` with an error, or with something that is not a root
        /// list.
        RootsFailed = "roots_failed", "the client's roots could not be obtained";
        /// The client did not answer `roots/list` in time, or its list took too long to resolve.
        RootsTimedOut = "roots_timed_out", "the client's roots could not be obtained in time";
        /// The client's roots changed each time that they were requested.
        RootsChanging = "roots_changing", "the client's roots keep changing; try again later";
        /// More than [`ROOT_LIST_ENTRIES`](crate::limits::ROOT_LIST_ENTRIES) entries.
        TooManyRoots = "too_many_roots", "the root list has more than 10000 entries";
        /// A root list of more than [`ROOT_LIST_PAGES`](crate::limits::ROOT_LIST_PAGES) pages.
        TooManyPages = "too_many_pages", "the root list has more than 100 pages";
        /// A root list whose `nextCursor` leads back to a page that was read.
        RepeatedCursor = "repeated_cursor", "the root list repeats a page";
    }

    /// The client's roots changed, or were forgotten, and have not been requested since.
    RootsStale: Failure {
        RootsStale = "roots_stale", "the client's roots changed or expired; try again";
    }

    /// The session was closed.
    SessionClosed: Failure {
        SessionClosed = "session_closed", "the session is closed";
    }

    /// The request belongs to no session of this guard: its transport is not wrapped, or the
    /// request has another client's key.
    NoSession: Failure {
        NoSession = "no_session", "the request belongs to no known session";
    }

    /// The server does not take the request now. Nothing was done: try again later.
    Busy: Failure {
        /// The request would wait for operations that hang: another operation of this client on the
        /// same device, or all operations that may run at once. Or the system cannot create a
        /// thread.
        Busy = "busy", "the server is too busy for this now; try again later";
        /// Too many requests of the client are waiting.
        QueueFull = "queue_full",
            "too many requests of this client are waiting; try again when some are answered";
        /// More than [`SESSIONS`](crate::limits::SESSIONS) sessions at once.
        TooManySessions = "too_many_sessions",
            "the server has 100000 sessions and takes no more; try again later";
    }

    /// The request was cancelled, or its client is gone.
    Cancelled: Failure {
        Cancelled = "cancelled", "the request was cancelled";
    }

    /// Roots of a session were requested outside a tokio runtime, or in one without a timer.
    NoRuntime: Failure {
        NoRuntime = "no_runtime", "no tokio runtime with a timer is running";
    }

    /// The process cannot be confined. Nothing is restricted.
    ConfinementUnavailable: Failure {
        /// The system is not Linux, or its kernel has no Landlock.
        ConfinementUnavailable = "confinement_unavailable",
            "process confinement is not available here";
        /// The process has other threads, which this kernel cannot confine, or the number of
        /// threads is unknown.
        ThreadsRunning = "threads_running",
            "the process may have other threads; confine it before any thread or runtime is \
             started";
    }

    /// Any other error of the operating system; see `source`.
    Io: Failure {
        Io = "io", "input or output failed";
    }
}

/// How JSON-RPC answers a kind of error: a row of the table of `Error::to_error_body`.
#[derive(Clone, Copy)]
pub(crate) enum RpcClass {
    /// The text cannot name anything.
    InvalidText,
    /// Nothing is served under that name.
    NotServed,
    /// The client offers no roots.
    NoRoots,
    /// Everything else.
    Failure,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
