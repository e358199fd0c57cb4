//! The bounds of this crate and the public ones of the crates that it re-exports, each with its
//! source or the reason for its value. They limit the CPU time and memory that an input can use:
//! what is too large or too costly is refused.

use std::time::Duration;

#[doc(inline)]
pub use guarded_fs::limits::*;
#[cfg(feature = "process")]
#[doc(inline)]
pub use guarded_process::limits::*;

// Root lists.

/// The maximum number of pages in a root list. A hundred pages of a hundred entries hold
/// [`ROOT_LIST_ENTRIES`], and each page costs a round trip, so clients have no reason to send
/// smaller ones.
pub const ROOT_LIST_PAGES: usize = 100;

/// The maximum length, in bytes, of an incoming message that [`Observer`](crate::Observer) parses:
/// twice [`ROOT_LIST_BYTES`], so that a response with the longest list is not mistaken for a
/// change. A longer message counts as one. SDKs have similar limits for a line (rust-mcp-sdk: 16
/// MiB).
pub const MESSAGE_BYTES: usize = 16 << 20;

/// How many characters of a malformed entry are kept for the operator's log.
pub(crate) const MALFORMED_CHARS: usize = 160;

/// How many characters of a client's or handler's error are kept for the operator's log.
pub(crate) const FAILURE_CHARS: usize = 1024;

/// How many roots, and how many rejected entries, of a list are logged individually.
pub(crate) const ENTRIES_LOGGED: usize = 20;

/// How long a client's list is used if one of its entries was resolved through a symlink or could
/// not be resolved. Then it is resolved again, so a user who switches a symlink or mounts a disk
/// waits no longer than this.
pub const SYMLINKED_LIST_TTL: Duration = Duration::from_secs(5);

// Sessions.

/// The maximum number of concurrent sessions of a guard. At less than two KiB each, they take 200
/// MiB. A server with more clients needs more processes.
pub const SESSIONS: usize = 100_000;

/// The default for [`GuardBuilder::fetch_limit`](crate::GuardBuilder::fetch_limit). A client
/// normally answers from memory. If it has to ask its user, the sender of the request hardly waits
/// longer.
pub const FETCH_LIMIT: Duration = Duration::from_secs(5);

/// The default for [`GuardBuilder::time_to_live`](crate::GuardBuilder::time_to_live). A change
/// whose notification is lost takes effect within an hour, and asking once an hour costs little.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);

/// The maximum for each duration in a [`GuardBuilder`](crate::GuardBuilder). moka accepts at most a
/// thousand years.
pub(crate) const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The maximum number of bytes of cached snapshots: enough for [`SESSIONS`] with a few roots each,
/// or for about fifty clients with the longest list. The oldest snapshot is evicted first, so
/// clients with long lists can cause other clients' lists to be requested again.
pub(crate) const CACHE_BYTES: u64 = 512 << 20;

/// The bytes of a cached snapshot without its roots and its list, as measured.
pub(crate) const CACHE_ENTRY_BYTES: usize = 900;

/// How many times a call repeats a fetch because the roots changed before the response arrived. An
/// ordinary client does not change its roots during each of five fetches.
pub(crate) const FETCH_RETRIES: u32 = 4;

/// How long a client is not asked again after a failure. It doubles with each consecutive one.
pub(crate) const BACK_OFF: Duration = Duration::from_secs(1);

/// The longest back-off. A client that has recovered is asked again within half a minute.
pub(crate) const BACK_OFF_MOST: Duration = Duration::from_secs(30);

/// A leader that has not finished this long after its time limit is no longer being polled.
pub(crate) const STALLED: Duration = Duration::from_millis(250);

// Slots.

/// The default for [`GuardBuilder::slots`](crate::GuardBuilder::slots). Many operations can wait
/// for slow disks and networks at once, and a waiting thread costs little.
pub const SLOTS: usize = 256;

/// The most slots. A process can have about ten thousand threads (`kernel.threads-max`, `pids.max`
/// of containers), and each slot may use two.
pub(crate) const MOST_SLOTS: usize = 4096;

/// How many jobs of one client may wait: sixteen for each slot that a client has by default. A
/// model does not make that many calls before it reads a result.
pub(crate) const QUEUED_EACH: usize = 1024;

/// How long a job runs before it lends its slot to a client that has none, and how long a job may
/// wait for a thread. An operation rarely takes longer, even while a disk spins up or a network is
/// congested.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The number of slots for resolving lists. This takes milliseconds, so all are taken only if that
/// many clients use a filesystem that hangs.
pub(crate) const RESOLUTIONS: usize = 64;
