//! What a client declares that it can do.
//!
//! [`ClientCapabilities`] is read from JSON, of either era, or said by the server's author. A client that
//! declares no roots may be served the allowed directories, so that must never be what a failure
//! looks like: there is no value for capabilities that are missing or malformed, and no default.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// What a client declares about itself, as far as roots go: `params.capabilities` of `initialize`,
/// or since 2026-07-28 the metadata of each request under [`META_KEY`](Self::META_KEY). A session
/// begins with it ([`Guard::session`](crate::Guard::session)).
///
/// | what came | is |
/// | --- | --- |
/// | an object without `roots`, or with `null` there | [`without_roots`](Self::without_roots) |
/// | an object with anything else in `roots` | [`with_roots`](Self::with_roots) |
/// | an object that holds the capabilities, or lies in them: `params`, the whole message, `roots` | an error |
/// | something else, or nothing: both eras demand an object | an error |
///
/// Answer it with invalid parameters (-32602), and begin no session. A client without roots
/// may be served the allowed directories, and a client that sent something unreadable must not be
/// taken for one. So there is no value of this type for it, and no default that an `.ok()` or an
/// `.unwrap_or_default()` would lead to:
///
/// ```compile_fail,E0277
/// # use mcp_roots_guard::ClientCapabilities;
/// let declared: ClientCapabilities = serde_json::from_str("5").unwrap_or_default();
/// ```
///
/// ```compile_fail,E0308
/// # use mcp_roots_guard::{ClientCapabilities, Guard, Session};
/// fn begin(guard: &Guard) -> mcp_roots_guard::Result<Session> {
///     guard.session(serde_json::from_str::<ClientCapabilities>("5").ok())
/// }
/// ```
///
/// ```
/// # use mcp_roots_guard::{ClientCapabilities, RootsCapability};
/// let read = |json| serde_json::from_str::<ClientCapabilities>(json);
/// let announcing = r#"{"roots":{"listChanged":true},"sampling":{}}"#;
/// assert_eq!(read(announcing)?.roots(), Some(RootsCapability::announcing()));
/// assert_eq!(read(r#"{"roots":{}}"#)?.roots(), Some(RootsCapability::silent()));
/// assert_eq!(read(r#"{"sampling":{}}"#)?, ClientCapabilities::without_roots());
/// assert!(read("null").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ClientCapabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    roots: Option<RootsCapability>,
}

impl ClientCapabilities {
    /// Where a request of 2026-07-28 holds them in its `_meta`.
    pub const META_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

    /// Those of a client that has roots.
    #[must_use]
    pub const fn with_roots(roots: RootsCapability) -> Self {
        Self { roots: Some(roots) }
    }

    /// Those of a client that said it has no roots. It is never asked for any, and
    /// [`WithoutClientRoots`](crate::WithoutClientRoots) says what is in force for it.
    #[must_use]
    pub const fn without_roots() -> Self {
        Self { roots: None }
    }

    /// Whether the client has roots, and if so, whether it announces changes.
    #[must_use]
    pub const fn roots(&self) -> Option<RootsCapability> {
        self.roots
    }
}

/// Only the field that matters is read, so that no other can spoil it.
impl<'de> Deserialize<'de> for ClientCapabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(deserializer)?;
        // Taken for capabilities, it would declare nothing, which is the widest grant.
        if let Some(field) = ELSEWHERE.iter().find(|field| object.contains_key(**field)) {
            return Err(D::Error::custom(format_args!("not capabilities: they have no field `{field}`")));
        }
        let roots = object.get("roots").filter(|roots| !roots.is_null()).map(RootsCapability::from_declared);
        Ok(Self { roots })
    }
}

/// Fields of the message around capabilities, and of the capability in them. No revision has a
/// capability of these names.
const ELSEWHERE: [&str; 6] = ["jsonrpc", "params", "capabilities", "protocolVersion", "clientInfo", "listChanged"];

/// That a client has roots, and whether it tells of changes.
///
/// Any JSON but `null` declares them: to a client without, the allowed directories may be served, so what is malformed must not
/// pass for absent. Changes are announced only where `listChanged` is `true` and nothing else: a client that does not tell is
/// asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct RootsCapability {
    /// Whether the client sends [`RootsListChanged`](crate::RootsListChanged).
    #[serde(rename = "listChanged", skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

impl RootsCapability {
    /// Of a client that tells when its roots change.
    #[must_use]
    pub const fn announcing() -> Self {
        Self { list_changed: true }
    }

    /// Of a client that does not tell.
    #[must_use]
    pub const fn silent() -> Self {
        Self { list_changed: false }
    }

    fn from_declared(roots: &Value) -> Self {
        Self { list_changed: roots.get("listChanged") == Some(&Value::Bool(true)) }
    }
}

impl<'de> Deserialize<'de> for RootsCapability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Err(D::Error::custom("null declares no roots")),
            roots => Ok(Self::from_declared(&roots)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::again;
    use super::*;

    #[test]
    fn capabilities() {
        for (json, expected) in [
            ("{}", "{}"),
            (r#"{"roots":null}"#, "{}"),
            (r#"{"Roots":{},"sampling":7,"experimental":{"roots":{}}}"#, "{}"),
            (r#"{"roots":{}}"#, r#"{"roots":{}}"#),
            (r#"{"roots":{"listChanged":true,"more":1},"sampling":null}"#, r#"{"roots":{"listChanged":true}}"#),
            (r#"{"roots":{"listChanged":false}}"#, r#"{"roots":{}}"#),
            (r#"{"roots":{"listChanged":null}}"#, r#"{"roots":{}}"#),
            (r#"{"roots":{"listChanged":"true"}}"#, r#"{"roots":{}}"#),
            (r#"{"roots":{"listChanged":1}}"#, r#"{"roots":{}}"#),
            (r#"{"roots":{"listchanged":true}}"#, r#"{"roots":{}}"#),
            (r#"{"roots":[true]}"#, r#"{"roots":{}}"#),
            (r#"{"roots":true}"#, r#"{"roots":{}}"#),
            (r#"{"roots":false}"#, r#"{"roots":{}}"#),
            (r#"{"roots":"no"}"#, r#"{"roots":{}}"#),
            (r#"{"roots":0}"#, r#"{"roots":{}}"#),
            ("[null]", ""),
            ("null", ""),
            ("7", ""),
            (r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{"roots":{}}}}"#, ""),
            (r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{}}"#, ""),
            (r#"{"capabilities":{"roots":{}}}"#, ""),
            (r#"{"listChanged":true}"#, ""),
        ] {
            assert_eq!(again::<ClientCapabilities>(json), expected, "{json}");
        }
        for (json, expected) in [("[]", "{}"), (r#"{"listChanged":true}"#, r#"{"listChanged":true}"#), ("null", "")] {
            assert_eq!(again::<RootsCapability>(json), expected, "{json}");
        }
    }
}
