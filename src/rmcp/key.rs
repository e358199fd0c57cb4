//! The identity of a client, which the server supplies and which is never read from the wire.

use std::fmt;
use std::sync::Arc;

use ::rmcp::model::Extensions;

use crate::session::Guard;

/// Identifies a client: an authenticated principal.
///
/// In the session era, a session that began with a key serves only requests with that key. In both
/// eras, requests with equal keys share the slots of one client. Nothing else is kept by key.
///
/// Your authentication layer adds the key as an extension of the HTTP request, before rmcp handles
/// it. A connection that this guard [wraps](crate::Guard::wrap), such as stdio, needs none: it is
/// one client.
///
/// Each user must have a different key, and so must each program that a user runs; the client
/// identifier of an access token distinguishes programs. Never derive a key from a value that a
/// client chooses, such as its `mcp-session-id`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientKey(Arc<str>);

impl ClientKey {
    /// The key of an authenticated principal. An empty name gives a new key that equals no other.
    #[must_use]
    pub fn principal(name: &str) -> Self {
        if name.is_empty() {
            Self(Guard::next_share())
        } else {
            Self(format!("principal {name}").into())
        }
    }

    /// The key in the extensions of a request's HTTP request, or otherwise in the request's own
    /// extensions.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        super::http_extension(extensions).or_else(|| extensions.get())
    }

    /// The share that its requests are charged to.
    pub(crate) fn share(&self) -> &Arc<str> {
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
