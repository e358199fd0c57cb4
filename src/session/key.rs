//! Who a client of the stateless era is: a key from the server, never from the wire.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use ::rmcp::model::Extensions;

use crate::workers::Account;

/// Who a client is, said by the server: an authenticated principal, or a connection that is one client.
///
/// It does two things. In the stateless era (2026-07-28), a list that a client told counts for its other requests too, for
/// [a short time](crate::GuardBuilder::time_to_live_keyed); without a key, each request is asked in. And a session that began with a
/// key serves requests with that key only.
///
/// The server puts it into a request's extensions, before rmcp handles it: over HTTP as an extension of the HTTP request, by the layer that
/// authenticates; on stdio by [`GuardedTransport::one_client`](crate::rmcp::GuardedTransport::one_client). Requests with equal keys share
/// roots, so it must be another for each user, and for each of the programs that one user runs (an access token's client identifier tells
/// them apart). It must not be anything that a client chooses, such as its `mcp-session-id`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientKey(Account);

impl ClientKey {
    /// The key of an authenticated principal. An empty name is nobody's, and its key equals no other, itself made anew included.
    #[must_use]
    pub fn principal(name: &str) -> Self {
        if name.is_empty() { Self::connection() } else { Self(Account::Principal(name.into())) }
    }

    /// A key that nobody else has.
    pub(crate) fn connection() -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        Self(Account::Connection(CONNECTIONS.fetch_add(1, Ordering::Relaxed)))
    }

    /// The key that a request bears: in its own extensions, or in those of its HTTP request.
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

    /// Who is charged for what its requests use.
    pub(crate) fn account(&self) -> &Account {
        &self.0
    }
}

/// Not who it is: that may be nobody's business where it is printed.
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
