//! The capabilities that a client declares.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

/// The part of a client's capabilities that concerns roots. A client sends its capabilities in
/// `params.capabilities` of `initialize` or, since 2026-07-28, in the metadata of each request
/// under [`META_KEY`](Self::META_KEY). [`Guard::session`](crate::Guard::session) requires them.
///
/// | JSON | value |
/// | --- | --- |
/// | an object in which `roots` is absent or `null` | [`WithoutRoots`](Self::WithoutRoots) |
/// | an object in which `roots` is an object whose `listChanged` is exactly `true` | [`WithAnnouncedRoots`](Self::WithAnnouncedRoots) |
/// | an object in which `roots` is anything else | [`WithRoots`](Self::WithRoots) |
/// | an object that contains the capabilities (the message or its `params`), or the value of `roots` | an error |
/// | anything else, or nothing, because both eras require an object | an error |
///
/// If parsing fails, respond with the error "invalid params" (-32602), and do not create a session.
/// A client without roots may be allowed to access the allowed directories, and one that sent
/// malformed capabilities must not be mistaken for it. The type therefore has no default that
/// `.unwrap_or_default()` could return, and a session cannot be created from an `Option`:
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientCapabilities {
    /// The client declared no roots. It is never asked for roots, and
    /// [`ClientRoots`](crate::ClientRoots) determines which are in force for it.
    WithoutRoots,
    /// The client has roots and does not announce changes to them.
    WithRoots,
    /// The client has roots and announces changes to them, with
    /// `notifications/roots/list_changed`.
    WithAnnouncedRoots,
}

impl ClientCapabilities {
    /// The key of the capabilities in the `_meta` of a 2026-07-28 request.
    pub const META_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
}

impl Serialize for ClientCapabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::WithoutRoots => json!({}),
            Self::WithRoots => json!({ "roots": {} }),
            Self::WithAnnouncedRoots => json!({ "roots": { "listChanged": true } }),
        }
        .serialize(serializer)
    }
}

/// Parses only `roots`, so that no other capability can cause an error.
impl<'de> Deserialize<'de> for ClientCapabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(deserializer)?;
        // If this object were read as capabilities, it would declare no roots, which can be the
        // widest grant.
        if let Some(field) = ELSEWHERE.iter().find(|field| object.contains_key(**field)) {
            return Err(D::Error::custom(format_args!(
                "not a capabilities object: unexpected field `{field}`"
            )));
        }
        Ok(match object.get("roots") {
            None | Some(Value::Null) => Self::WithoutRoots,
            Some(roots) if roots.get("listChanged") == Some(&Value::Bool(true)) => {
                Self::WithAnnouncedRoots
            }
            Some(_) => Self::WithRoots,
        })
    }
}

/// Fields of the messages that contain capabilities, and of the roots capability. No revision
/// defines a capability with such a name.
const ELSEWHERE: [&str; 6] =
    ["jsonrpc", "params", "capabilities", "protocolVersion", "clientInfo", "listChanged"];

#[cfg(test)]
mod tests {
    use super::super::again;
    use super::*;

    #[test]
    fn capabilities_are_parsed_as_documented() {
        for (json, expected) in [
            ("{}", "{}"),
            (r#"{"roots":null}"#, "{}"),
            (r#"{"Roots":{},"sampling":7,"experimental":{"roots":{}}}"#, "{}"),
            (r#"{"roots":{}}"#, r#"{"roots":{}}"#),
            (
                r#"{"roots":{"listChanged":true,"more":1},"sampling":null}"#,
                r#"{"roots":{"listChanged":true}}"#,
            ),
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
            (
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{"roots":{}}}}"#,
                "",
            ),
            (r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{}}"#, ""),
            (r#"{"capabilities":{"roots":{}}}"#, ""),
            (r#"{"listChanged":true}"#, ""),
        ] {
            assert_eq!(again::<ClientCapabilities>(json), expected, "{json}");
        }
    }
}
