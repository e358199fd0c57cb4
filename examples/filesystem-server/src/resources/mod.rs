//! Files as resources: listed, read, completed and watched.
//!
//! Goes in: requests of `resources/*`, `completion/complete` and `subscriptions/listen`. Comes out: what lies in the roots in force for
//! the request, under the `file:` URIs that the guard gives. What is true after: whatever was told or read was allowed by the roots of
//! that request, and a notification by the roots that were known when it was sent.
//!
//! | | in | bounded by |
//! | --- | --- | --- |
//! | the list, by pages | `list`, `cursor` | [`list::PAGE`], and 100,000 entries that are looked at for a page |
//! | content, and a directory's entries | `read` | [`LIMIT`](crate::tools::LIMIT), [`entry::ENTRIES`] |
//! | the templates, and completions of their `path` | `complete` | 100 values, as the protocol has it |
//! | subscriptions of both eras | `subscription`, `sessions`, `listen`, `watch` | [`subscription::SUBSCRIPTIONS`], [`listen::LISTENS`], [`watch::PLACES`] |

pub(crate) mod complete;
mod cursor;
pub(crate) mod entry;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod read;
pub(crate) mod sessions;
mod subscription;
mod watch;

pub(crate) use sessions::Resources;
