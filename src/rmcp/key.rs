//! The identity of a client, which the server supplies and which is never read from the wire.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::rmcp::model::Extensions;

use crate::account::Account;

/// Identifies a client, which is an authenticated principal or a connection with a single client.
///
/// A key has two effects. In the session era, a session that began with a key serves only requests
/// with that key. In the stateless era (2026-07-28), if the server sets a
/// [duration](crate::GuardBuilder::time_to_live_keyed), a list that a client sent with one request
/// is kept for those of its requests in which it cannot be asked. Without that duration, a list is
/// used only for the request that carries it.
///
/// The server adds the key to a request's extensions before rmcp handles the request. Over HTTP,
/// the authentication layer adds it as an extension of the HTTP request. On stdio,
/// [`Guard::wrap_one_client`](crate::Guard::wrap_one_client) adds it.
///
/// Requests with equal keys count as one client, so each user must have a different key. Each
/// program that a user runs must have a different key too; the client identifier of an access token
/// distinguishes programs. Never derive a key from a value that a client chooses, such as its
/// `mcp-session-id`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientKey(Account);

impl ClientKey {
    /// Returns the key of an authenticated principal. An empty name gives a new key that equals no
    /// other.
    #[must_use]
    pub fn principal(name: &str) -> Self {
        if name.is_empty() {
            Self::connection()
        } else {
            Self(Account::Principal(Arc::new(name.to_owned())))
        }
    }

    /// A key that equals no other.
    pub(crate) fn connection() -> Self {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        Self(Account::Connection(CONNECTIONS.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns the key in the extensions of a request's HTTP request, if there is one, and
    /// otherwise the key in the request's own extensions.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        super::http_extension(extensions).or_else(|| extensions.get())
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

    #[test]
    fn debug_of_a_key_does_not_show_the_principal() {
        assert_eq!(format!("{:?}", ClientKey::principal("alice")), "ClientKey { .. }");
    }
}
