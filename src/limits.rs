//! Every bound of this crate, with its source.
//!
//! Each input is bounded in CPU time and memory. A bound that a request or a client hits is a
//! refusal that names it.

use std::time::Duration;

// Requests.

/// The longest path: PATH_MAX of Linux, with its closing NUL (`limits.h`; path_resolution(7)).
pub const PATH_BYTES: usize = 4096;

/// The longest name in a path: NAME_MAX of Linux (`limits.h`); macOS and Windows have the same.
pub const NAME_BYTES: usize = 255;

/// The longest `file:` URI: each byte of the longest path as an escape of three bytes, and room
/// for scheme and host.
pub const URI_BYTES: usize = 3 * PATH_BYTES + 32;

/// The most symlinks followed for one request: MAXSYMLINKS of Linux (path_resolution(7)).
pub const LINK_HOPS: usize = 40;

/// The most components walked for one request, including those of symlinks: four of the longest
/// paths. Linux bounds only the number of symlinks; this bounds the time.
pub(crate) const RESOLVE_STEPS: usize = 4 * PATH_BYTES / 2;

/// The most look-ups for one request, or for one entry of a root list: one and a half times as many
/// as the longest path has names ([`PATH_BYTES`]); each of the 40 symlinks of a chain
/// ([`LINK_HOPS`]) can have 75 names. At two to three microseconds each, that is less than 10 ms. A
/// request that needs more is refused with [`TooCostly`](crate::ErrorKind::TooCostly)
/// (`too_costly`).
pub const LOOKUPS: usize = 3072;

/// Names that the kernel passes in one call for the price of one look-up.
pub(crate) const NAMES_PER_LOOKUP: usize = 16;

/// How often, and for how long, an operation is retried whose path changed while it was used. A
/// change takes a system call, and so does a try: a process that wins 16 times in a row does
/// nothing else. A try usually takes microseconds; the time limit is for slow ones.
pub(crate) const CHANGED_RETRIES: usize = 16;

pub(crate) const CHANGED_RETRY_TIME: Duration = Duration::from_millis(20);

/// How often, and for how long, a walk is repeated after the kernel returned EAGAIN because
/// something was renamed meanwhile. After that the walk through held descriptors decides, which
/// never asks for `..`. One walk through 40 long symlinks can take the kernel 10 ms, so a count
/// alone is not a bound.
#[cfg(target_os = "linux")]
pub(crate) const OPENAT2_RETRIES: usize = 32;

#[cfg(target_os = "linux")]
pub(crate) const OPENAT2_RETRY_TIME: Duration = Duration::from_millis(2);

/// The most directories that a cursor keeps open. A symlink rarely climbs further, and one that
/// does costs a walk from the top. Many resolutions can run at once, and a process may commonly
/// have 1,024 descriptors.
pub(crate) const CURSOR_HANDLES: usize = 8;

/// Characters of a request in an error's text: enough to recognise it on one line of a log.
pub(crate) const QUOTED_CHARS: usize = 160;

// Root lists.

/// The most entries of a root list. A workspace with a thousand projects is large; ten times that
/// is an attack or an accident.
pub const ROOT_LIST_ENTRIES: usize = 10_000;

/// The most bytes of a root list's URIs and names: [`ROOT_LIST_ENTRIES`] of 800 each.
pub const ROOT_LIST_BYTES: usize = 8_000_000;

/// The most pages of a root list. A hundred pages of a hundred entries are [`ROOT_LIST_ENTRIES`];
/// each page takes another round trip to the client, so smaller pages are of no use.
pub const ROOT_LIST_PAGES: usize = 100;

/// The longest time for resolving a list, for filesystems with slow look-ups: a hundred times what
/// 10,000 entries take on a local one.
pub(crate) const LIST_TIME: Duration = Duration::from_secs(30);

/// The most look-ups to resolve one list: forty for each entry of the longest one. Together less
/// than a second of CPU time.
pub(crate) const LIST_LOOKUPS: usize = 400_000;

/// The cost of opening a root, in look-ups.
pub(crate) const ROOT_LOOKUPS: usize = 4;

/// Directories on a trail that cost as much as one look-up. Each takes 32 bytes until the list is
/// resolved.
pub(crate) const TRAIL_PER_LOOKUP: usize = 8;

/// An alias that took more look-ups to resolve is dropped, because each verification would walk it
/// again.
pub(crate) const ALIAS_LOOKUPS: usize = 256;

/// The most aliases of one root besides its canonical path. Each is walked when its names are
/// verified.
pub(crate) const ALIASES: usize = 8;

/// Characters kept of a rejected entry, for the operator's log.
pub(crate) const ENTRY_CHARS: usize = 160;

/// Characters kept of a malformed entry, for the operator's log.
pub(crate) const MALFORMED_CHARS: usize = 160;

/// Characters kept of a client's or a handler's error, for the operator's log.
pub(crate) const FAILURE_CHARS: usize = 1024;

/// The most causes of a handler's error that are logged. An error can be its own cause.
#[cfg(feature = "rmcp")]
pub(crate) const FAILURE_CAUSES: usize = 16;

/// The most rejected roots of a list that are logged one by one; the rest are counted.
pub(crate) const REJECTED_LOGGED: usize = 20;

/// The most directories that are remembered for one client: twice the longest list. Further
/// directories are not granted to the client.
pub(crate) const GRANTED_EACH: usize = 20_000;

/// The most directories that are remembered for all clients, at some 60 bytes each: those of fifty
/// clients that fill their accounts. Clients that cannot be told apart share an account of half of
/// it.
pub(crate) const GRANTED: usize = 1_000_000;

/// Directories that one process holds open for roots; those of further roots are opened on use,
/// and then verified. A quarter of the 1,024 descriptors that a process may commonly have
/// (`RLIMIT_NOFILE`, getrlimit(2)). Roots that are the same directory count once.
pub const HANDLES: usize = 256;

// Verification.

/// A snapshot's names are verified at most once in this time. Nobody notices half a second in a
/// deploy.
pub const VERIFY_EVERY: Duration = Duration::from_millis(500);

/// If a verification has not ended after this time, the next call starts another one.
pub(crate) const VERIFY_STALLED: Duration = Duration::from_secs(60);

/// How long a call waits for the allowed directories to be verified: ten times as long as a slow
/// network filesystem takes.
pub(crate) const VERIFY_LIMIT: Duration = Duration::from_secs(1);

// Sessions.

/// The most sessions of a guard at once. At a KiB each they take 100 MiB; a server with more
/// clients needs more processes.
pub const SESSIONS: usize = 100_000;

/// The default for [`GuardBuilder::fetch_limit`](crate::GuardBuilder::fetch_limit). A client
/// answers from memory. If it has to ask its user, the sender of the request will not wait much
/// longer.
pub const FETCH_LIMIT: Duration = Duration::from_secs(5);

/// The default for [`GuardBuilder::time_to_live`](crate::GuardBuilder::time_to_live). A lost
/// notification takes effect within the hour, and asking once an hour costs nothing.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);

/// The default for [`GuardBuilder::time_to_live_keyed`](crate::GuardBuilder::time_to_live_keyed).
/// Of several calls in a row only the first asks the client, and a withdrawn root is not served
/// for longer than a user takes to notice.
#[cfg(feature = "rmcp")]
pub const TIME_TO_LIVE_KEYED: Duration = Duration::from_secs(5);

/// The default for [`GuardBuilder::time_to_idle`](crate::GuardBuilder::time_to_idle): as long as a
/// user may think about an answer.
pub const TIME_TO_IDLE: Duration = Duration::from_secs(15 * 60);

/// The longest of the times above. moka accepts at most a thousand years.
pub(crate) const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The most bytes of cached snapshots: room for [`SESSIONS`] with a few roots each, or for some
/// fifty clients with the longest list. The least recently used is evicted first, and requested
/// again. Each is counted as if it were not shared, because the others that share it may go first;
/// so clients with long lists cost others a request.
pub(crate) const CACHE_BYTES: u64 = 512 << 20;

/// Bytes that moka takes for an entry besides the snapshot: key, value, two places in its queues
/// and one in its table. Measured.
pub(crate) const CACHE_ENTRY_BYTES: usize = 320;

/// How often a call asks again because the client's roots changed before the answer arrived. A
/// client that changes its roots during each of five fetches does nothing else.
pub(crate) const FETCH_RETRIES: u32 = 4;

/// How long a client is not asked after a failure: at first, and at most, after doubling each
/// time. A client that was fixed is asked again within half a minute.
pub(crate) const BACK_OFF: Duration = Duration::from_secs(1);

pub(crate) const BACK_OFF_MOST: Duration = Duration::from_secs(30);

/// A leader that has not ended this long after its time limit is no longer polled.
pub(crate) const STALLED: Duration = Duration::from_millis(250);

// Threads and queues.

/// The default for [`GuardBuilder::work_at_once`](crate::GuardBuilder::work_at_once). Many slow
/// disks and networks can be waited for at once, and a thread that waits costs little.
///
/// Work waits for a place until its request is cancelled; at most 1,024 requests of one client
/// wait, and further ones are refused ([`Busy`](crate::ErrorKind::Busy): `queue_full`). Waiting
/// clients are served in turns. Work that has begun keeps its place after its request is cancelled,
/// until it checks whether to continue, so long work should be bounded. Work that waits for other
/// work of the same client can deadlock once such work takes all of the client's places.
#[cfg(feature = "rmcp")]
pub const WORK: usize = 256;

/// The most for [`GuardBuilder::work_at_once`](crate::GuardBuilder::work_at_once). A process has
/// some ten thousand threads at most (`kernel.threads-max`, `pids.max` of containers), and up to
/// two threads run for each place.
#[cfg(feature = "rmcp")]
pub(crate) const MOST_WORK: usize = 4096;

/// How many jobs of one account may wait: sixteen for each place that the default gives one
/// account. A model does not make that many calls before it reads an answer.
pub(crate) const QUEUED_EACH: usize = 1024;

/// How many jobs may wait in total, and as many again if each is its account's only one. Each holds
/// a request, which the server holds anyway, and up to a KiB of the guard's memory: 64 MiB.
pub(crate) const QUEUED: usize = 32 * 1024;

/// How long operations on a device may all take before it counts as hung. A disk that spins up or
/// a network that is congested answers at least one of a hundred requests sooner.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How long all operations of an account may take before more of its work is refused instead of
/// waiting for them. Removing a large directory takes some seconds.
pub(crate) const STUCK: Duration = Duration::from_secs(10);

/// Places for resolving lists and verifying roots. Both take milliseconds; as many clients can be
/// resolved at once as hang in a slow filesystem.
pub(crate) const RESOLUTIONS: usize = 64;

/// How many resolutions and verifications that nobody waits for any longer keep only a thread, and
/// no place. They end within milliseconds unless their filesystem hangs.
pub(crate) const ABANDONED: usize = 256;

/// How long a thread without a job is kept: as long as tokio keeps its own.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// How often a thread checks for hung operations while all places are taken: four times within
/// [`PATIENCE`].
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

// Walks, removals and writes.

/// The deepest directory that a walk or a recursive removal enters. No workspace is 128 directories
/// deep.
pub const WALK_DEPTH: usize = 128;

/// The most entries that a walk yields unless the options say otherwise: more than a model can
/// use, and a second of system calls.
pub const WALK_ENTRIES: usize = 100_000;

/// The most bytes of listed entries that a walk holds; a directory with more is listed in part, as
/// with [`WALK_ENTRIES`]. That many entries with names of 255 bytes take 39 MiB, so on Linux only
/// a walk with other [`WalkOptions`](crate::WalkOptions) reaches this bound.
pub const WALK_BYTES: usize = 48 << 20;

/// What an allocator adds to a small allocation: 8 bytes and up to 15 of alignment (glibc's
/// malloc), so about 16.
pub(crate) const ALLOCATION: usize = 16;

/// The most entries that one call removes: a minute or two of system calls, and more than ten times
/// what any workspace has. It bounds the call if another process keeps adding entries; another call
/// continues the removal.
pub(crate) const REMOVED_ENTRIES: usize = 10_000_000;

/// About the most names that a removal holds: some 6 MB with 255 bytes each. A batch takes half of
/// what is left, so that nested directories have room for their batches.
pub(crate) const REMOVED_NAMES: usize = 20_000;

/// The fewest names in a batch, used when the parents of a directory hold nearly all names. One
/// call of getdents64(2) returns more.
pub(crate) const LEAST_BATCH: usize = 16;

/// Bytes reserved for a file's content before any of it is read.
pub(crate) const READ_AHEAD: u64 = 1 << 20;

/// How many temporary names are tried. A random name of 2^64 is practically always free at the
/// first try.
pub(crate) const NAMES_TRIED: usize = 8;

/// The most bytes of an extended attribute (`XATTR_SIZE_MAX` of linux/limits.h).
#[cfg(target_os = "linux")]
pub(crate) const ACL_BYTES: usize = 65536;
