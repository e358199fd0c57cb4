//! The identity of a client of the stateless era, from the server and never from the wire.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use ::rmcp::model::Extensions;

use crate::workers::Account;

/// Identifies a client: an authenticated principal, or a connection that is one client.
///
/// A key has two effects. In the stateless era (2026-07-28), a list that a client sent with one
/// request is used for its other requests too, for [a short
/// time](crate::GuardBuilder::time_to_live_keyed); without a key, the client is asked within each
/// request. And a session that began with a key serves only requests with that key.
///
/// The server adds the key to a request's extensions before rmcp handles the request: over HTTP as
/// an extension of the HTTP request, in the layer that authenticates; on stdio with
/// [`GuardedTransport::one_client`](crate::rmcp::GuardedTransport::one_client). Requests with equal
/// keys share roots, so each user must have a different key, and so must each program that a user
/// runs (an access token's client identifier distinguishes them). Never derive it from something
/// that a client chooses, such as its `mcp-session-id`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientKey(Account);

impl ClientKey {
    /// The key of an authenticated principal. An empty name gives a new key that equals no other.
    #[must_use]
    pub fn principal(name: &str) -> Self {
        if name.is_empty() { Self::connection() } else { Self(Account::Principal(name.into())) }
    }

    /// A key that equals no other.
    pub(crate) fn connection() -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        // Defence: connections-have-different-keys
        Self(Account::Connection(CONNECTIONS.fetch_add(1, Ordering::Relaxed)))
    }

    /// The key in a request's extensions: in its own, or in those of its HTTP request.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        #[cfg(feature = "rmcp-http")]
        if let Some(key) =
            extensions.get::<::http::request::Parts>().and_then(|parts| parts.extensions.get())
        {
            return Some(key);
        }
        extensions.get()
    }

    /// The account that its requests are charged to.
    pub(crate) fn account(&self) -> &Account {
        &self.0
    }
}

/// Does not print the name, which may be private.
impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_principal_equals_no_other() {
        assert!(ClientKey::principal("") != ClientKey::principal(""));
        assert!(ClientKey::principal("a") == ClientKey::principal("a"));
    }
}
