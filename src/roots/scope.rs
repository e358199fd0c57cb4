//! What a snapshot belongs to.

use std::num::NonZeroU64;

use crate::error::{Error, Result};

/// What a snapshot belongs to: a request or a session of a client. A snapshot from configuration
/// belongs to nobody.
///
/// An implementation must not hold the snapshot, because the snapshot holds it.
pub(crate) trait Scope: Send + Sync {
    /// The number of the client's session, or of the request, in log events.
    fn number(&self) -> NonZeroU64;

    /// Names the share of the client in what all clients share. The child processes of scopes with
    /// the same share are counted together. Empty if the client is unknown.
    fn share(&self) -> &str;

    /// Why the client's list is not known.
    fn failure(&self) -> Option<&Error> {
        None
    }

    /// Returns an error if the snapshot may no longer be used for this.
    fn ensure_usable(&self, _: Use) -> Result<()> {
        Ok(())
    }
}

/// What a snapshot is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// An operation. Every operation asks, so the answer costs next to nothing.
    Operation,
    /// Work that begins, or its next step. Unlike an operation, it is also refused if the request
    /// was cancelled, or if the client has changed its roots since.
    Work,
}
