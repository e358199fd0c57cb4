//! Accounts for resources that are shared by all clients.
//!
//! Slots, directory handles and remembered grants are limited for each account, so that a client
//! that exhausts its share affects only itself.

#[cfg(feature = "rmcp")]
use std::sync::Arc;

use crate::events::SessionId;

/// The party that is charged for a job, an open directory or a remembered grant: a client, or the
/// server's own configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    /// The server's own configuration.
    Operator,
    /// An authenticated principal.
    #[cfg(feature = "rmcp")]
    Principal(Arc<str>),
    /// A connection that belongs to a single client.
    #[cfg(feature = "rmcp")]
    Connection(u64),
    /// A session of a client without a key.
    Session(SessionId),
    /// All other callers: stateless requests without a key, and
    /// [`Boundary::resolve`](crate::Boundary::resolve).
    Anonymous,
}
