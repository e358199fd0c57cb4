//! Files as resources: `resources/*`, `completion/complete` and `subscriptions/listen`.
//!
//! Resources are identified by the `file:` URIs that the guard provides. A response contains only
//! files that are allowed by the roots of its request. A notification is sent only if the roots
//! known at that time allow the file.
//!
//! | feature | module | limits |
//! | --- | --- | --- |
//! | list, in pages | `list` | [`list::PAGE`], 100,000 entries in one directory |
//! | content, directory entries | `read` | [`LIMIT`](crate::tools::LIMIT), [`entry::ENTRIES`] |
//! | templates, completion of `path` | `complete` | 100 values, set by the protocol |
//! | subscriptions, of a session or of one request | `subscription` | 64 |
//! | `resources/subscribe`, `subscriptions/listen` | `notify` | |

pub(crate) mod complete;
pub(crate) mod entry;
pub(crate) mod list;
pub(crate) mod notify;
pub(crate) mod read;
mod subscription;

pub(crate) use notify::Resources;
