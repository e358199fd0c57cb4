//! Every bound in this crate, with its source or the reason for its value.
//!
//! These bounds limit the CPU time and memory that an input can use. A request or a root list that
//! is too large or too costly is refused.

use std::time::Duration;

// Requests.

/// The maximum length of a path in bytes: Linux's PATH_MAX, which includes the terminating NUL
/// (`limits.h`; path_resolution(7)).
pub const PATH_BYTES: usize = 4096;

/// The maximum length of a name in a path: Linux's NAME_MAX (`limits.h`). The limits of macOS and
/// Windows have the same value.
pub const NAME_BYTES: usize = 255;

/// The maximum length of a `file:` URI in bytes. It allows three bytes for each byte of the longest
/// path, because each may be percent-encoded, and 32 bytes for the scheme and the host.
pub const URI_BYTES: usize = 3 * PATH_BYTES + 32;

/// The maximum number of symlinks followed for one request: Linux's MAXSYMLINKS
/// (path_resolution(7)).
pub const LINK_HOPS: usize = 40;

/// The maximum number of components walked for one request, including those of symlink targets:
/// four times as many as the longest path has. Linux bounds only the number of symlinks, which does
/// not bound the time.
pub(crate) const RESOLVE_STEPS: usize = 4 * PATH_BYTES / 2;

/// The maximum number of look-ups for one request, or for one entry of a root list. This is one and
/// a half times the number of names in the longest path ([`PATH_BYTES`]). It allows 75 names in
/// each symlink of a chain of 40 ([`LINK_HOPS`]). At two to three microseconds each, the look-ups
/// take less than 10 ms. A request that needs more is refused with
/// [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`).
pub const LOOKUPS: usize = 3072;

/// The number of names in a kernel walk that are charged as one look-up.
#[cfg(target_os = "linux")]
pub(crate) const NAMES_PER_LOOKUP: usize = 16;

/// How many times an operation is retried if another process changed its path while it was used.
/// Each change and each attempt takes at least one system call, so only a process that does nothing
/// else can win the race 16 times in a row.
pub(crate) const CHANGED_RETRIES: usize = 16;

/// How long an operation is retried if its path keeps changing. An attempt usually takes
/// microseconds, but can take much longer on a slow filesystem.
pub(crate) const CHANGED_RETRY_TIME: Duration = Duration::from_millis(20);

/// The maximum number of attempts of a kernel walk that fails with EAGAIN because of a concurrent
/// rename. After that, a walk through open descriptors is used, which never looks up `..`.
#[cfg(target_os = "linux")]
pub(crate) const OPENAT2_RETRIES: usize = 32;

/// How long a kernel walk is retried. A single walk through 40 long symlinks can take 10 ms, so
/// limiting the number of attempts is not enough.
#[cfg(target_os = "linux")]
pub(crate) const OPENAT2_RETRY_TIME: Duration = Duration::from_millis(2);

/// The maximum number of directories that a cursor keeps open. Few symlinks lead up by more levels
/// than this, and such a symlink requires a walk from the root's directory. The number is small
/// because many resolutions can run at once, and a process is commonly limited to 1,024
/// descriptors.
pub(crate) const CURSOR_HANDLES: usize = 8;

/// The maximum number of roots that a refusal names, so that it stays short.
pub(crate) const ROOTS_NAMED: usize = 8;

/// The maximum length of a request in an error's text, in characters. This is enough to recognize
/// the request, and fits on one line of a log.
pub(crate) const QUOTED_CHARS: usize = 160;

// Child processes.

/// The default for how long a child process may run ([`crate::ChildCommand::time_limit`]).
pub const CHILD_TIME: Duration = Duration::from_secs(60);

/// The default for how many bytes a child process may write
/// ([`crate::ChildCommand::output_limit`]).
pub const CHILD_OUTPUT: usize = 1 << 20;

/// The maximum number of child processes at once in this server process. A client gets at most two
/// thirds of those that the others leave. Roots without a session count as one client.
pub const CHILDREN: usize = 64;

/// How often a running child process is checked for the end of its request.
pub(crate) const CHILD_TICK: Duration = Duration::from_millis(50);

/// How long a child process that neither reads nor writes can have exited, or exceeded its time,
/// before this is noticed. This limits how often an idle process is looked at.
pub(crate) const CHILD_PAUSE: Duration = Duration::from_millis(20);

/// How soon a child process is looked at again after it has read or written, or has closed its
/// output. It usually exits then.
pub(crate) const CHILD_SHORT_PAUSE: Duration = Duration::from_millis(1);

/// How many bytes of a failed child process's standard error are in the text of the error. A
/// message is at its end, and a model has to read it.
pub(crate) const CHILD_ERROR: usize = 2048;

/// How long a caller waits for a killed child process to end. One that another process traces, or
/// that is in an uninterruptible system call, for example on a hung filesystem, ends later.
pub(crate) const CHILD_KILL: Duration = Duration::from_secs(2);

/// How long after its time limit a child process must have ended. If its start hangs in the kernel,
/// the caller gets an error then.
pub(crate) const CHILD_LATE: Duration = Duration::from_secs(10);

/// How long output is read after a child process has ended or was killed, if a process that it left
/// behind holds the pipe open.
pub(crate) const CHILD_DRAIN: Duration = Duration::from_millis(500);

// Protected names.

/// The maximum number of patterns for protected names in one configuration. This is ten times as
/// many as a list of every known tool's settings would need.
pub(crate) const PROTECTED_PATTERNS: usize = 1_000;

/// The maximum number of names in one of these patterns. A pattern for a single file of a deeply
/// nested project has about ten.
pub(crate) const PATTERN_NAMES: usize = 16;

// Root lists.

/// The maximum number of entries of a root list. A workspace with a thousand projects is large. Ten
/// times that is an attack or an accident.
pub const ROOT_LIST_ENTRIES: usize = 10_000;

/// The maximum number of bytes in the URIs and names of a root list: 800 for each of
/// [`ROOT_LIST_ENTRIES`].
pub const ROOT_LIST_BYTES: usize = 8_000_000;

/// The maximum number of pages in a root list. A hundred pages of a hundred entries hold
/// [`ROOT_LIST_ENTRIES`]. Each page takes a round trip to the client, so clients have no reason to
/// send smaller ones.
pub const ROOT_LIST_PAGES: usize = 100;

/// The maximum length, in bytes, of an incoming message that [`Observer`](crate::Observer) parses:
/// twice [`ROOT_LIST_BYTES`], so that a response with the longest list is not mistaken for a change.
/// A longer message counts as a change of roots. SDKs have similar limits for a line (rust-mcp-sdk:
/// 16 MiB).
pub const MESSAGE_BYTES: usize = 16 << 20;

/// The maximum time for resolving a list: a hundred times as long as 10,000 entries take on a local
/// filesystem, to allow for filesystems with slow look-ups.
pub(crate) const LIST_TIME: Duration = Duration::from_secs(30);

/// The maximum number of look-ups for resolving one list: forty for each entry of the longest list.
/// Together, the look-ups take less than a second of CPU time.
pub(crate) const LIST_LOOKUPS: usize = 400_000;

/// The bytes of a root or a rejected entry without its texts, and of each name in the index of
/// roots, as measured.
pub(crate) const ROOT_BYTES: usize = 320;
pub(crate) const NODE_BYTES: usize = 64;

/// The maximum number of aliases of one root, in addition to its canonical path. A directory rarely
/// has more than two or three.
pub(crate) const ALIASES: usize = 8;

/// The maximum number of characters of a rejected entry that are kept for the operator's log.
pub(crate) const ENTRY_CHARS: usize = 160;

/// The maximum number of characters of a malformed entry that are kept for the operator's log.
pub(crate) const MALFORMED_CHARS: usize = 160;

/// The maximum number of characters of a client's or handler's error that are kept for the
/// operator's log.
pub(crate) const FAILURE_CHARS: usize = 1024;

/// The maximum number of causes of a handler's error that are logged. An error can be its own
/// source.
pub(crate) const FAILURE_CAUSES: usize = 16;

/// The maximum number of roots, and of rejected entries, of a list that are logged individually. The
/// rest are only counted.
pub(crate) const ENTRIES_LOGGED: usize = 20;

// Names that lead to other directories.

/// The shortest time after which an allowed directory's path is opened again, or a configured path
/// is resolved again. If a deployment replaces a directory, a delay of half a second does not
/// matter.
pub const VERIFY_EVERY: Duration = Duration::from_millis(500);

/// If opening an allowed directory takes longer than this, further requests to it are refused
/// instead of waiting: twenty times as long as on a slow network filesystem.
pub(crate) const OPENING: Duration = Duration::from_secs(2);

/// How long a client's list is used if the filesystem decided about an entry: if the entry was
/// resolved through a symlink or could not be resolved. Then the list is resolved again, and the
/// client is not asked. A user who switches a symlink or mounts a disk waits no longer than this.
pub const SYMLINKED_LIST_TTL: Duration = Duration::from_secs(5);

// Sessions.

/// The maximum number of concurrent sessions of a guard. At less than two KiB each, they take 200
/// MiB. A server with more clients needs more processes.
pub const SESSIONS: usize = 100_000;

/// The default for [`GuardBuilder::fetch_limit`](crate::GuardBuilder::fetch_limit). A client
/// normally answers from memory. If it has to ask its user, the sender of the request is unlikely
/// to wait longer than this.
pub const FETCH_LIMIT: Duration = Duration::from_secs(5);

/// The default for [`GuardBuilder::time_to_live`](crate::GuardBuilder::time_to_live). If a
/// notification is lost, the change still takes effect within an hour, and asking once an hour
/// costs little.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);

/// The maximum for each duration in a [`GuardBuilder`](crate::GuardBuilder). A longer one is
/// treated as this one. moka accepts at most a thousand years.
pub(crate) const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The maximum number of bytes of cached snapshots: enough for [`SESSIONS`] with a few roots each,
/// or for about fifty clients with the longest list. The oldest snapshot is evicted first, and its
/// list is requested again when needed. Clients with long lists can therefore cause other clients'
/// snapshots to be evicted.
pub(crate) const CACHE_BYTES: u64 = 512 << 20;

/// The bytes of a cached snapshot without its roots and its list, as measured.
pub(crate) const CACHE_ENTRY_BYTES: usize = 900;

/// How many times a call repeats a fetch because the client's roots changed before the response
/// arrived. An ordinary client does not change its roots during each of five fetches.
pub(crate) const FETCH_RETRIES: u32 = 4;

/// The first back-off, which is the time after a failure during which the client is not asked
/// again. The back-off doubles with each consecutive failure.
pub(crate) const BACK_OFF: Duration = Duration::from_secs(1);

/// The longest back-off. A client that has recovered is asked again within half a minute.
pub(crate) const BACK_OFF_MOST: Duration = Duration::from_secs(30);

/// A leader that has not finished this long after its time limit counts as stalled, because it is
/// no longer being polled.
pub(crate) const STALLED: Duration = Duration::from_millis(250);

// Slots.

/// The default for [`GuardBuilder::work_at_once`](crate::GuardBuilder::work_at_once). Many
/// operations can wait for slow disks and networks at once, and a waiting thread costs little.
///
/// Work waits for a slot, unless too many operations hang. At most 1,024 calls of one client wait,
/// and further ones are refused ([`BUSY`](crate::kinds::BUSY): `queue_full`). Waiting clients
/// take turns. Work that has started keeps its slot after its request is cancelled, until it checks
/// whether to continue, so long-running work should be bounded. Work that waits for other work of
/// the same client can deadlock if the waiting work occupies all of the client's slots.
pub const WORK: usize = 256;

/// The largest value for [`GuardBuilder::work_at_once`](crate::GuardBuilder::work_at_once). A
/// process can have about ten thousand threads (`kernel.threads-max`, `pids.max` of containers),
/// and each slot may use two.
pub(crate) const MOST_WORK: usize = 4096;

/// How many jobs of one client may wait: sixteen for each slot that a client has by default. A
/// model does not make that many calls before it reads a result.
pub(crate) const QUEUED_EACH: usize = 1024;

/// How long a job runs before it lends its slot to a client that has none, and how long a job may
/// wait for a thread. Even if a disk is spinning up or a network is congested, an operation rarely
/// takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The number of slots for resolving lists. This takes milliseconds, so all slots are taken only if
/// that many clients use a filesystem that hangs.
pub(crate) const RESOLUTIONS: usize = 64;

// Walks, removals and writes.

/// The maximum depth of the directories that a walk or a recursive removal enters. No workspace is
/// 128 directories deep.
pub const WALK_DEPTH: usize = 128;

/// The maximum number of entries that a walk yields by default. This is more than a model can use,
/// and takes about a second of system calls.
pub const WALK_ENTRIES: usize = 100_000;

/// The maximum memory, in bytes, for the entries of the directories that a walk is in, and for the
/// errors of the directories that it skipped. A directory whose entries need more is listed in part,
/// as with [`WALK_ENTRIES`]. While a directory is read, its entries can take twice the memory.
/// [`WALK_ENTRIES`] entries with names of 255 bytes take 27 MiB. On Linux, this bound is therefore
/// reached only by a walk that sets a larger limit in its [`WalkOptions`](crate::WalkOptions), or
/// skips many unreadable directories.
pub const WALK_BYTES: usize = 48 << 20;

/// The maximum size, in bytes, of all the ignore files that a walk reads. The largest in public
/// repositories have a few kilobytes.
pub const IGNORE_BYTES: u64 = 256 << 10;

/// The maximum work of a walk for matching names with ignore rules: about half a minute of processor
/// time. Ignored names are work, although they do not count as entries. A walk of [`WALK_ENTRIES`]
/// paths of 60 bytes can have 5,000 rules without a wildcard, or 300 with one.
pub(crate) const IGNORE_WORK: u64 = 32_000_000_000;

/// The work for each name, whatever the rules are: a walk can look at ten million.
pub(crate) const IGNORE_NAME: u64 = IGNORE_WORK / 10_000_000;

/// The work of comparing a name without a wildcard, or a file extension (`*.o`), with one byte of a
/// path.
pub(crate) const IGNORE_LOOK_UP: u64 = 1;

/// The work of comparing a rule with another wildcard. A rule with several counts as many times as it
/// has bytes.
pub(crate) const IGNORE_WILDCARD: u64 = 16;

/// The maximum size of the regular expressions of a walk's ignore files: the number of rules with
/// wildcards in a file multiplied by their total length, and summed over the files. At up to 32
/// bytes each, matching takes at most about 128 MiB. A file can have 450 such rules of 12 bytes.
pub(crate) const IGNORE_SIZE: u64 = 4_000_000;

/// The approximate overhead of a small allocation, in bytes: 8 bytes and up to 15 for alignment
/// (glibc's malloc), which is about 16 on average.
#[cfg(windows)]
pub(crate) const ALLOCATION: usize = 16;

/// The maximum number of entries that one call removes. Removing this many takes a minute or two of
/// system calls, and no workspace has a tenth as many. The limit ensures that the call ends even if
/// another process keeps adding entries to a directory that takes more than one batch. Another call
/// can continue the removal.
pub(crate) const REMOVED_ENTRIES: usize = 10_000_000;

/// The approximate maximum number of names that a removal holds: about 6 MB at 255 bytes each. The
/// names are read in batches. Each batch takes at most half of the remaining number, which leaves
/// room for the batches of nested directories. If names are protected, the search for them before
/// the removal holds up to [`WALK_ENTRIES`] names.
pub(crate) const REMOVED_NAMES: usize = 20_000;

/// The smallest batch of names, used when the batches of the parent directories take nearly all of
/// [`REMOVED_NAMES`]. One call to getdents64(2) returns more.
pub(crate) const LEAST_BATCH: usize = 16;

/// The number of bytes that a copy transfers at once. Between two pieces, the copy checks whether its
/// request is still active. Even a slow disk transfers this much in about 10 ms.
pub(crate) const COPY_PIECE: u64 = 1 << 20;

/// The maximum number of bytes allocated for a file's content before any of it is read.
pub(crate) const READ_AHEAD: u64 = 1 << 20;

/// The maximum size, in bytes, of a file whose content is compared with a
/// [`ContentHash`](crate::ContentHash): one gigabyte, which takes a few seconds.
pub const COMPARED_BYTES: u64 = 1 << 30;

/// The size of the pieces in which a file is hashed, in bytes: enough that the system calls take
/// little of the time.
pub(crate) const HASHED_PIECE: usize = 64 << 10;

/// The maximum number of changes in a [`ChangeSet`](crate::ChangeSet). Each holds up to three file
/// descriptors until it is committed. A process is commonly limited to 1,024, so five complete sets
/// fit at the same time.
pub const CHANGES: usize = 64;

/// The maximum number of attempts to find a free temporary name. A random 64-bit name is almost
/// certain to be free at the first attempt.
pub(crate) const NAMES_TRIED: usize = 8;

/// The largest extended attribute, in bytes (`XATTR_SIZE_MAX` in linux/limits.h).
#[cfg(target_os = "linux")]
pub(crate) const ACL_BYTES: usize = 65536;
