//! The client that is charged for what all clients share: slots, child processes and cached lists.

use std::sync::Arc;

use crate::events::SessionId;

/// The client that is charged for a job, a child process or a cached list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Account {
    /// An authenticated principal.
    // One pointer wide, because each cached snapshot has an account.
    Principal(Arc<String>),
    /// A connection that belongs to a single client.
    Connection(u64),
    /// A session of a client without a key.
    Session(SessionId),
    /// All other callers: stateless requests without a key, and
    /// [`Boundary::resolve`](crate::Boundary::resolve).
    Anonymous,
}
