//! Files as resources: `resources/*`, `completion/complete` and `subscriptions/listen`.
//!
//! Resources are identified by the `file:` URIs that the guard provides. A response contains only
//! files that are allowed by the roots of its request. A notification is sent only if the roots
//! known at that time allow the file.
//!
//! | feature | modules | limits |
//! | --- | --- | --- |
//! | list, in pages | `list`, `cursor` | [`list::PAGE`], 100,000 entries scanned per page |
//! | content, directory entries | `read` | [`LIMIT`](crate::tools::LIMIT), [`entry::ENTRIES`] |
//! | templates, completion of `path` | `complete` | 100 values, set by the protocol |
//! | subscriptions in a session | `sessions`, `subscription` | [`subscription::SUBSCRIPTIONS`] |
//! | stateless subscriptions | `listen`, `subscription` | [`listen::LISTENS`] |

pub(crate) mod complete;
mod cursor;
pub(crate) mod entry;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod read;
pub(crate) mod sessions;
mod subscription;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use sessions::Resources;

/// Locks a mutex, and ignores poisoning: a panic leaves the data in a consistent state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
