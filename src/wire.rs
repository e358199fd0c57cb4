//! The root list as the protocol writes it.
//!
//! Goes in: the JSON of a `roots/list` result (MCP 2024-11-05 to 2026-07-28, schema `ListRootsResult`). Comes out: the entries with
//! their URIs as text, untrusted. What is true after: nothing; a URI is parsed and judged when the list is resolved.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a client answers to `roots/list`. Unknown fields are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The roots, in the client's order; the first is where relative requests begin.
    pub roots: Vec<RootEntry>,
    /// Protocol metadata, kept as it came.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
}

/// One entry of a root list. The schema calls it `Root`; here [`Root`](crate::Root) is an entry that was resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RootEntry {
    /// The root's URI. The protocol wants `file://`; clients send others, too.
    pub uri: String,
    /// A name to show; `null` and absent are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Protocol metadata, kept as it came.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
}

impl ListRootsResult {
    /// A root list of these URIs, without names.
    pub fn from_uris<S: Into<String>>(uris: impl IntoIterator<Item = S>) -> Self {
        let roots = uris.into_iter().map(|uri| RootEntry { uri: uri.into(), ..RootEntry::default() }).collect();
        Self { roots, meta: None }
    }
}

/// The most entries of a root list: a workspace with a thousand projects is large, ten times that is an attack or an accident.
pub const ROOT_LIST_ENTRIES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_clients_send_and_keeps_metadata() {
        let json = r#"{"roots":[{"uri":"file:///a","name":null,"extra":1},{"uri":"file:///b","name":"B","_meta":{"k":[1]}}],"nextCursor":null,"_meta":{"m":true}}"#;
        let list: ListRootsResult = serde_json::from_str(json).unwrap();
        assert_eq!(
            list.roots.iter().map(|root| (root.uri.as_str(), root.name.as_deref())).collect::<Vec<_>>(),
            [("file:///a", None), ("file:///b", Some("B"))]
        );
        let printed = serde_json::to_string(&list).unwrap();
        assert_eq!(
            printed,
            r#"{"roots":[{"uri":"file:///a"},{"uri":"file:///b","name":"B","_meta":{"k":[1]}}],"_meta":{"m":true}}"#
        );
    }
}
