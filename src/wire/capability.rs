//! What a client says that it can do.
//!
//! Goes in: the JSON of its capabilities, of either era. Comes out: whether it has roots, and tells of changes. What is true after:
//! roots that are missing here were not declared at all, in no form.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// What a client declares about itself, as far as roots go: `params.capabilities` of `initialize`, or since 2026-07-28 the metadata
/// of each request under [`META_KEY`](Self::META_KEY). Everything else in there is ignored.
///
/// Those that can not be read are an error, and not "no roots", which can open the allowed directories: refuse such an `initialize`.
///
/// ```
/// # use mcp_roots_guard::{ClientCapabilities, RootsCapability};
/// let read = |json| serde_json::from_str::<ClientCapabilities>(json);
/// assert_eq!(read(r#"{"roots":{"listChanged":true},"sampling":{}}"#)?.roots, Some(RootsCapability::announcing()));
/// assert_eq!(read(r#"{"roots":{}}"#)?.roots, Some(RootsCapability::silent()));
/// assert_eq!(read(r#"{"sampling":{}}"#)?.roots, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClientCapabilities {
    /// Whether the client has roots; absent and `null` are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
}

impl ClientCapabilities {
    /// Where a request of 2026-07-28 holds them in its `_meta`.
    pub const META_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
}

/// Only the field that matters is read, so that no other can spoil it.
impl<'de> Deserialize<'de> for ClientCapabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(deserializer)?;
        let roots = object.get("roots").filter(|roots| !roots.is_null()).map(RootsCapability::from_declared);
        Ok(Self { roots })
    }
}

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
        ] {
            assert_eq!(again::<ClientCapabilities>(json), expected, "{json}");
        }
        for (json, expected) in [("[]", "{}"), (r#"{"listChanged":true}"#, r#"{"listChanged":true}"#), ("null", "")] {
            assert_eq!(again::<RootsCapability>(json), expected, "{json}");
        }
    }
}
