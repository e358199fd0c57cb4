//! The client that is charged for what all clients share: slots and child processes.

use std::sync::Arc;

use crate::events::SessionId;

/// The client that is charged for a job or a child process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Account {
    /// An authenticated principal.
    // One pointer wide, because each cached snapshot has an account.
    Principal(Arc<String>),
    /// A connection or a session of a client without a key.
    Connection(SessionId),
    /// All other callers: stateless requests without a key or a connection, and
    /// [`Boundary::resolve`](crate::Boundary::resolve).
    Anonymous,
}
