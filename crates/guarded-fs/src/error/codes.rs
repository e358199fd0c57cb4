//! The table of errors: kind, code and text.

use std::fmt;

macro_rules! errors {
    ($(
        $(#[doc = $about:literal])+
        $kind:ident {$(
            $(#[doc = $doc:literal])*
            $code:ident = $name:literal, $text:literal;
        )+}
    )+) => {
        /// The kind of an [`Error`](crate::Error), for callers to match on. Each kind lists its
        /// [codes](crate::Error::code), the exact reasons.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {$(
            $(#[doc = $about])+
            ///
            /// Codes:
            ///
            $(#[doc = errors!(@item $name $($doc)*)])+
            $kind,
        )+
            /// A kind that another library or an application [defines](crate::Error::new).
            Other(&'static str),
        }

        /// The exact reason.
        #[allow(dead_code, reason = "some codes are used only on one system")]
        #[allow(missing_docs, reason = "each code has its text")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($($code,)+)+
            /// The reason of an error that was made with [`Error::new`](crate::Error::new).
            Custom { kind: ErrorKind, name: &'static str, text: &'static str },
        }

        impl Code {
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$($(Self::$code,)+)+];

            pub(crate) const fn kind(self) -> ErrorKind {
                match self {
                    $($(Self::$code)|+ => ErrorKind::$kind,)+
                    Self::Custom { kind, .. } => kind,
                }
            }

            /// Whether another process has removed or replaced what was there.
            pub(crate) const fn is_replaced(self) -> bool {
                matches!(self, Self::NotFound | Self::NotADirectory | Self::Changed)
            }

            /// The name of the code, such as `outside_roots`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$code => $name,)+)+
                    Self::Custom { name, .. } => name,
                }
            }

            pub(crate) const fn text(self) -> &'static str {
                match self {
                    $($(Self::$code => $text,)+)+
                    Self::Custom { text, .. } => text,
                }
            }
        }
    };
    (@item $name:literal) => { concat!("* `", $name, "`") };
    (@item $name:literal $first:literal $($doc:literal)*) => {
        concat!("* `", $name, "`:", $first $(, "\n ", $doc)*)
    };
}

// Each row has the code, its name and its text. The text contains the limit if the limit is a
// constant. For a limit that the caller chose, see `Error::over`.
errors! {
    /// The text is not a path, or has a form that is refused. On Windows, that includes what the
    /// system would read as another name ([`Location::parse`](crate::Location::parse)).
    InvalidPath {
        Empty = "empty", "the path is empty; write . for the directory itself";
        /// A NUL byte, literal or as `%00`.
        Nul = "nul", "the path contains a NUL byte";
        /// A URI without an absolute path; or text that is neither an absolute path nor a URI,
        /// where one is required.
        NotAbsolute = "not_absolute", "not an absolute path or file: URI";
        /// An absolute path or a URI where a relative path is required.
        NotRelative = "not_relative", "the path must be relative to the directory";
        /// On Windows, a path relative to the current drive or directory, such as `\x` or `C:x`.
        DriveRelative = "drive_relative",
            "the path is relative to a drive; use a full path that begins with a drive letter";
        /// On Windows, a path that names a device, or a volume by anything but its drive letter:
        /// `\\.\`, a volume GUID, or `\\?\` with anything but a drive or a share.
        DevicePath = "device_path",
            "the path names a device or a volume; use a path that begins with a drive letter";
        /// On Windows, the name of a device, such as `NUL`, `COM1` or `CON.txt`.
        ReservedName = "reserved_name", "a name in the path is reserved for a device";
        /// On Windows, a name with a colon, such as `a.txt:s`.
        Stream = "stream", "a name in the path contains a colon, which would refer to a stream";
        /// On Windows, a name that ends in a dot or a space.
        TrailingDot = "trailing_dot",
            "a name in the path ends in a dot or a space, which the system may remove";
        /// On Windows, a name that could be the 8.3 form of another, such as `PROGRA~1`.
        ShortName = "short_name",
            "a name in the path looks like an 8.3 short name; use the long name";
        /// On Windows, a name with a control character or one of `< > " | ? *`.
        InvalidName = "invalid_name",
            "a name in the path contains a control character or one of < > \" | ? *";
        /// A path that ends in `.` or `..`, where an entry must be named (rmdir(2), rename(2)).
        DotName = "dot_name", "the path ends in . or ..; name the entry itself";
    }

    /// The text is not a `file:` URI, or has a form that is refused.
    InvalidUri {
        /// A scheme other than `file:`.
        ForeignScheme = "foreign_scheme", "only paths and file: URIs are accepted";
        /// A URI that names another host (RFC 8089), or has four slashes.
        ForeignHost = "foreign_host",
            "the URI names another host; write file:/// followed by the path";
        Query = "query", "the URI contains a query; write ? as %3F";
        Fragment = "fragment", "the URI contains a fragment; write # as %23";
        /// A `%` without two hexadecimal digits after it (RFC 3986, 2.1).
        BadEscape = "bad_escape", "the URI contains an invalid percent escape; write % as %25";
        EncodedSeparator = "encoded_separator",
            "the URI contains a percent-encoded path separator; write the separator itself";
        /// A character that a URL parser would drop or change: a tab, a newline, a backslash, a
        /// leading or trailing space, or a `|` in place of a drive's colon.
        DroppedCharacter = "dropped_character",
            "the URI contains a character that must be percent-encoded: a tab, newline, \
             backslash, | or a leading or trailing space";
    }

    /// The text is not a [`ContentHash`](crate::ContentHash).
    InvalidVersion {
        InvalidVersion = "invalid_version",
            "not the version of a file; use the version from an earlier response unchanged";
    }

    /// The text, or the path that it resolves to, is longer than
    /// [`PATH_BYTES`](crate::limits::PATH_BYTES), a name in it than
    /// [`NAME_BYTES`](crate::limits::NAME_BYTES), or a URI than
    /// [`URI_BYTES`](crate::limits::URI_BYTES); or resolving takes too many steps.
    TooLong {
        TooLong = "too_long",
            "the path is longer than 4095 bytes, or a name in it is longer than 255 bytes";
    }

    /// The file to which the request leads is outside every root. The error is the same whether or
    /// not it exists.
    OutsideRoots {
        OutsideRoots = "outside_roots", "not inside the allowed directories";
    }

    /// A name in the path does not exist.
    NotFound {
        NotFound = "not_found", "no such file or directory";
    }

    /// A name is not a directory, although another name or a slash follows it, or the operation
    /// requires a directory.
    NotADirectory {
        NotADirectory = "not_a_directory", "not a directory";
    }

    /// The request names a directory where a file is required. One that ends in a slash or in `/.`
    /// names a directory, whether or not there is one.
    IsADirectory {
        IsADirectory = "is_a_directory", "is a directory";
    }

    /// The operating system denied access.
    PermissionDenied {
        PermissionDenied = "permission_denied", "permission denied";
    }

    /// Resolving the path, or an entry of a root list, takes too many steps.
    TooCostly {
        /// More than [`LOOKUPS`](crate::limits::LOOKUPS) look-ups or, for an entry of a root list,
        /// too many with those of the entries before it.
        TooCostly = "too_costly", "the path takes too many look-ups to resolve";
        /// More than [`LINK_HOPS`](crate::limits::LINK_HOPS) symlinks.
        TooManyLinks = "too_many_links", "the path goes through more than 40 symbolic links";
    }

    /// The root's name leads to no directory now, or to a file or symlink instead. The root is
    /// served again as soon as there is a directory.
    RootUnavailable {
        RootUnavailable = "root_unavailable",
            "there is no directory at the path of the root, or something else is there";
    }

    /// The boundary or the operation does not allow this type of file.
    ForbiddenFile {
        /// A FIFO, a socket, a device or a file of a proc filesystem; or a symlink, if the entry
        /// itself was requested.
        SpecialFile = "special_file", "not a regular file";
        NotASymlink = "not_a_symlink", "not a symbolic link";
        /// The file has several names, which the policy refuses.
        HardLinked = "hard_linked", "the file has more than one hard link";
        /// The path crosses a mount point, which the policy or the operation refuses.
        MountCrossing = "mount_crossing", "the path crosses into another mounted filesystem";
    }

    /// The name already exists.
    AlreadyExists {
        AlreadyExists = "already_exists", "already exists";
    }

    /// The directory is not empty.
    DirectoryNotEmpty {
        DirectoryNotEmpty = "directory_not_empty", "the directory is not empty";
    }

    /// The server [protects](crate::BoundaryBuilder::protect) the name, or a name in the directory
    /// to be renamed or removed. The error is the same whether or not the name exists.
    Protected {
        Protected = "protected", "protected: the server allows only reading it";
    }

    /// The root is read-only.
    ReadOnly {
        ReadOnly = "read_only", "the directory is read-only";
    }

    /// The operation would create, remove, rename or replace a root, or a directory that contains
    /// one.
    RootItself {
        RootItself = "root_itself",
            "a root itself cannot be created, removed, renamed or replaced";
    }

    /// The content of a file, or the text of a root list, is larger than the limit.
    TooLarge {
        TooLarge = "too_large", "larger than the limit";
    }

    /// A walk, a removal or a search for protected names has reached its limit of entries or
    /// memory. What it returned or removed before is incomplete.
    TooManyEntries {
        TooManyEntries = "too_many_entries", "too many entries";
    }

    /// Directories are nested deeper than [`WALK_DEPTH`](crate::limits::WALK_DEPTH).
    TooDeep {
        TooDeep = "too_deep", "nested more than 128 directories deep";
    }

    /// There are more allowed directories, or entries of a root list, than
    /// [`ROOT_LIST_ENTRIES`](crate::limits::ROOT_LIST_ENTRIES).
    TooManyRoots {
        TooManyRoots = "too_many_roots", "the root list has more than 10000 entries";
    }

    /// There are more than [`CHANGES`](crate::limits::CHANGES) changes in one
    /// [`ChangeSet`](crate::ChangeSet).
    TooManyChanges {
        TooManyChanges = "too_many_changes", "more than 64 changes in one set";
    }

    /// The content is not UTF-8, but text was requested.
    NotUtf8 {
        NotUtf8 = "not_utf8", "not UTF-8 text";
    }

    /// Two paths name the same file or directory, possibly by different names.
    Overlap {
        /// The source and the destination of a copy.
        SameFile = "same_file", "source and destination are the same file";
        /// Two entries of a root list, or two configured directories.
        Duplicate = "duplicate", "another entry puts the same directory in force";
    }

    /// A rename or a hard link between different filesystems or, for a hard link, different roots.
    CrossDevice {
        DifferentRoots = "different_roots", "source and destination are in different roots";
        CrossDevice = "cross_device", "source and destination are on different filesystems";
    }

    /// The operating system does not support the operation or the attribute.
    Unsupported {
        Unsupported = "unsupported", "this system does not support the operation";
    }

    /// The file changed in the meantime, and is not the one that the caller expected.
    Changed {
        /// Another process kept changing the path. The operation can safely be retried.
        Changed = "changed", "the path changed while it was used; try again";
        /// The file does not have the required [`ContentHash`](crate::ContentHash). Read it again.
        Modified = "modified", "the file was modified since it was read; read it again";
    }

    /// The roots were [stopped](crate::Roots::stoppable).
    Stopped {
        Stopped = "stopped", "stopped";
    }

    /// The server's own code used this crate incorrectly, or the requested changes contradict each
    /// other.
    InvalidInput {
        /// Two changes of a [`ChangeSet`](crate::ChangeSet) affect the same file, or one affects a
        /// directory that contains the other's file.
        ConflictingChanges = "conflicting_changes",
            "another change of the same set affects this file or a directory that contains it; make \
             one of the two changes in another set";
        /// The place is the target of a symlink that was followed, which
        /// [`CheckedPath::entry`](crate::CheckedPath::entry) refuses.
        FollowedSymlink = "followed_symlink",
            "the path ends at a symlink, which is not removed, renamed or linked by following it";
        /// Options that contradict each other, or have no effect.
        InvalidOptions = "invalid_options", "the options are incompatible";
    }

    /// The configuration is invalid: see [`BoundaryBuilder::build`](crate::BoundaryBuilder::build).
    InvalidConfiguration {
        NoDirectories = "no_directories", "no allowed directory is configured";
        /// A read-only directory would be writable, also by a path of a confinement.
        AccessConflict = "access_conflict",
            "a read-only directory would be writable";
        /// A pattern is empty, too long, or contains `.`, `..`, an empty name, or a wildcard before
        /// the last name; or no pattern matches an exempt name.
        InvalidPattern = "invalid_pattern", "the pattern is invalid";
        InvalidAlias = "invalid_alias",
            "an alias must be an absolute path in which no name is . or .. alone";
        AliasConflict = "alias_conflict",
            "the alias would hide another directory, or overlaps another allowed directory or alias";
    }

    /// An entry of a root list grants nothing, or a configured directory cannot be allowed.
    RootRejected {
        /// The path goes through a symlink that a tool may have created.
        ThroughLink = "through_link",
            "the path goes through a symbolic link inside an allowed directory";
    }

    /// Any other error of the operating system. See its `source`.
    Io {
        Io = "io", "input or output failed";
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
