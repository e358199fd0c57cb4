//! The bounds of this crate, each with its source or the reason for its value. The bounds of a
//! single feature are in its module. A request or a root list that is too large or too costly is
//! refused.

use std::time::Duration;

// Requests.

/// The maximum length of a path in bytes, with the terminating NUL: Linux's PATH_MAX (`limits.h`;
/// path_resolution(7)).
pub const PATH_BYTES: usize = 4096;

/// The maximum length of a name in a path: Linux's NAME_MAX (`limits.h`), with the same value on
/// macOS and Windows.
pub const NAME_BYTES: usize = 255;

/// The maximum length of a `file:` URI in bytes: the longest path with every byte percent-encoded,
/// and 32 bytes for the scheme and the host.
pub const URI_BYTES: usize = 3 * PATH_BYTES + 32;

/// The maximum number of symlinks followed for one request: Linux's MAXSYMLINKS
/// (path_resolution(7)).
pub const LINK_HOPS: usize = 40;

/// The maximum number of components walked for one request, including those of symlink targets:
/// four times as many as the longest path has. A bound on symlinks alone does not bound the time.
pub(crate) const RESOLVE_STEPS: usize = 4 * PATH_BYTES / 2;

/// The maximum number of look-ups for one request, or for one entry of a root list. One that needs
/// more is refused ([`TooCostly`](crate::ErrorKind::TooCostly), `too_costly`).
///
/// This is one and a half times the number of names in the longest path, or 75 names in each of 40
/// symlinks. At two to three microseconds each, the look-ups take less than 10 ms.
pub const LOOKUPS: usize = 3072;

/// How many names of a kernel walk are charged as one look-up.
#[cfg(target_os = "linux")]
pub(crate) const NAMES_PER_LOOKUP: usize = 16;

/// How often an operation is retried if another process changes its path meanwhile. Each change
/// takes a system call, too, so only a process that does nothing else can win 16 times.
pub(crate) const CHANGED_RETRIES: usize = 16;

/// How long an operation is retried. An attempt takes microseconds, but more on a slow filesystem.
pub(crate) const CHANGED_RETRY_TIME: Duration = Duration::from_millis(20);

/// How many times a kernel walk is attempted that fails with EAGAIN because of a concurrent rename.
/// A walk through open descriptors follows, which never looks up `..`.
#[cfg(target_os = "linux")]
pub(crate) const OPENAT2_RETRIES: usize = 32;

/// How long a kernel walk is retried, because a single one through 40 long symlinks can take 10
/// ms.
#[cfg(target_os = "linux")]
pub(crate) const OPENAT2_RETRY_TIME: Duration = Duration::from_millis(2);

/// The maximum number of directories that a cursor keeps open. Few symlinks lead up by more levels,
/// and many resolutions can run at once in a process of commonly 1,024 descriptors.
pub(crate) const CURSOR_HANDLES: usize = 8;

/// The maximum number of roots that a refusal names.
pub(crate) const ROOTS_NAMED: usize = 8;

/// The maximum length of a request in an error's text, in characters: enough to recognize the
/// request, on one line of a log.
pub(crate) const QUOTED_CHARS: usize = 160;

// Protected names.

/// The maximum number of patterns for protected names: ten times as many as for every known tool's
/// settings.
pub(crate) const PROTECTED_PATTERNS: usize = 1_000;

/// The maximum number of names in a pattern. One for a single, deeply nested file has about ten.
pub(crate) const PATTERN_NAMES: usize = 16;

// Root lists.

/// The maximum number of entries of a root list. A thousand projects are a large workspace, and ten
/// times that an attack or an accident.
pub const ROOT_LIST_ENTRIES: usize = 10_000;

/// The maximum number of bytes in the entries of a root list, which in MCP are URIs and names: 800
/// for each of [`ROOT_LIST_ENTRIES`].
pub const ROOT_LIST_BYTES: usize = 8_000_000;

/// The maximum time for resolving a list: a hundred times that of 10,000 entries on a local
/// filesystem, for those with slow look-ups.
pub(crate) const LIST_TIME: Duration = Duration::from_secs(30);

/// The maximum number of look-ups for a list: forty for each entry of the longest, and less than a
/// second of CPU time together.
pub(crate) const LIST_LOOKUPS: usize = 400_000;

/// The measured bytes of a root or rejected entry without its texts, and of a name in the index of
/// roots.
pub(crate) const ROOT_BYTES: usize = 320;
pub(crate) const NODE_BYTES: usize = 64;

/// The maximum number of aliases of a root besides its canonical path. Few have more than three.
pub(crate) const ALIASES: usize = 8;

/// The maximum length of a rejected entry in the operator's log, in characters.
pub(crate) const ENTRY_CHARS: usize = 160;

// Names that lead to other directories.

/// The shortest time after which an allowed directory's path is opened again, or a configured path
/// is resolved again. In a deployment that replaces a directory, half a second does not matter.
pub const VERIFY_EVERY: Duration = Duration::from_millis(500);

/// How long requests to an allowed directory wait while it is opened, before they are refused:
/// twenty times as long as on a slow network filesystem.
pub(crate) const OPENING: Duration = Duration::from_secs(2);

// Walks, removals and writes.

/// The maximum depth of a walk or a recursive removal. No workspace is 128 directories deep.
pub const WALK_DEPTH: usize = 128;

/// The maximum number of entries that a walk yields by default: more than a model can use, in about
/// a second of system calls.
pub const WALK_ENTRIES: usize = 100_000;

/// The maximum memory, in bytes, for the entries of the directories that a walk is in, and for the
/// errors of those that it skipped. While a directory is read, its entries can take twice as much.
/// A directory whose entries need more is listed in part, as with [`WALK_ENTRIES`].
///
/// That many entries with names of 255 bytes take 27 MiB. So on Linux, only a larger limit in
/// [`WalkOptions`](crate::WalkOptions), or many unreadable directories, make a walk reach this
/// bound.
pub const WALK_BYTES: usize = 48 << 20;

/// The maximum size, in bytes, of all ignore files that a walk reads. The largest in public
/// repositories have a few kilobytes.
pub const IGNORE_BYTES: u64 = 256 << 10;

/// The approximate overhead of a small allocation in bytes: 8, and up to 15 for alignment (glibc's
/// malloc).
#[cfg(windows)]
pub(crate) const ALLOCATION: usize = 16;

/// The maximum number of entries that one call removes, so that it ends even if another process
/// keeps adding some. Another call can continue. No workspace has a tenth as many, which take a
/// minute or two of system calls.
pub(crate) const REMOVED_ENTRIES: usize = 10_000_000;

/// The approximate maximum number of names that a removal holds: about 6 MB at 255 bytes each. A
/// batch takes at most half of the remaining number, to leave room for nested directories. The
/// search for protected names before the removal holds up to [`WALK_ENTRIES`] names.
pub(crate) const REMOVED_NAMES: usize = 20_000;

/// The smallest batch of names, if those of the parent directories take nearly all of
/// [`REMOVED_NAMES`]. One call to getdents64(2) returns more.
pub(crate) const LEAST_BATCH: usize = 16;

/// How many bytes a copy transfers between two looks at whether its request is still active. Even a
/// slow disk transfers this much in about 10 ms.
pub(crate) const COPY_PIECE: u64 = 1 << 20;

/// The limit of a read or copy that has none, such as
/// [`roots.read(path, UNLIMITED)`](crate::Roots::read). A file can be larger than the memory, and
/// one that another process keeps extending is read until then. A copy takes no memory, but the disk.
pub const UNLIMITED: u64 = u64::MAX;

/// The maximum number of bytes allocated for a file's content before any of it is read.
pub(crate) const READ_AHEAD: u64 = 1 << 20;

/// The maximum size, in bytes, of a file that is compared with a
/// [`ContentHash`](crate::ContentHash): one gibibyte, which takes a few seconds.
pub const COMPARED_BYTES: u64 = 1 << 30;

/// How many bytes are hashed at once: enough that system calls take little of the time.
pub(crate) const HASHED_PIECE: usize = 64 << 10;

/// The maximum number of changes in a [`ChangeSet`](crate::ChangeSet). While it is committed, each
/// holds up to three file descriptors, so a process with the common limit of 1,024 can commit five
/// complete sets at a time.
pub const CHANGES: usize = 64;

/// The maximum number of bytes that the files of a [`ChangeSet`](crate::ChangeSet) have together,
/// which it keeps in memory until it is committed or dropped: 64 MiB, one for each change.
pub const CHANGE_SET_BYTES: usize = CHANGES << 20;

/// How many temporary names are tried. A random 64-bit name is almost certainly free.
pub(crate) const NAMES_TRIED: usize = 8;

/// The largest extended attribute, in bytes (`XATTR_SIZE_MAX` in linux/limits.h).
#[cfg(target_os = "linux")]
pub(crate) const ACL_BYTES: usize = 65536;
