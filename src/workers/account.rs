//! Accounts for resources that clients share.
//!
//! Places, directory handles and the memory of grants are limited for each account, so that a
//! client that uses up its share affects only itself.

#[cfg(feature = "rmcp")]
use std::sync::Arc;

use crate::events::SessionId;

/// The client that is charged for a job, an open directory or a remembered grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    /// The server's own configuration.
    Operator,
    /// An authenticated principal.
    #[cfg(feature = "rmcp")]
    Principal(Arc<str>),
    /// A connection that is one client.
    #[cfg(feature = "rmcp")]
    Connection(u64),
    /// A session of a client without a key.
    Session(SessionId),
    /// Everyone else: requests of the stateless era without a key, and
    /// [`Boundary::resolve`](crate::Boundary::resolve).
    Anonymous,
}
