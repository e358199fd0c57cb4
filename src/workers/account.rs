//! Who is charged for what clients share.
//!
//! Places to work in, directory handles and the memory of grants are limited for each account, so
//! that what one client uses up costs that client alone.

#[cfg(feature = "rmcp")]
use std::sync::Arc;

use crate::events::SessionId;

/// Who is charged for a piece of work, an open directory or a remembered grant.
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
    /// A session of a client that bears no key.
    Session(SessionId),
    /// Everyone else: requests of the stateless era without a key, and
    /// [`Boundary::resolve`](crate::Boundary::resolve).
    Anonymous,
}
