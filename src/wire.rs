//! The root list as the protocol writes it.
//!
//! Goes in: the JSON of a `roots/list` result (MCP 2024-11-05 to 2026-07-28, schema `ListRootsResult`). Comes out: the entries with
//! their URIs as text, untrusted. What is true after: nothing; a URI is parsed and judged when the list is resolved.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};

/// What a client answers to `roots/list`. Unknown fields are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The roots, in the client's order; the first is where relative requests begin.
    #[serde(deserialize_with = "entries")]
    pub roots: Vec<RootEntry>,
    /// Protocol metadata, kept as it came.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
    /// Next
    #[serde(rename = "nextCursor", default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
/// Cap
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootsCapability {
    /// x
    pub list_changed: bool,
}
impl RootsCapability {
    /// x
    #[must_use]
    pub fn announcing() -> Self {
        Self { list_changed: true }
    }
    /// x
    #[must_use]
    pub fn silent() -> Self {
        Self { list_changed: false }
    }
}
/// x
pub const ROOT_LIST_PAGES: usize = 100;

/// One entry of a root list. The schema calls it `Root`; here [`Root`](crate::Root) is an entry that was resolved.
///
/// One that is not as the schema says is kept as [malformed](Self::is_malformed), and spoils no other, unless it is no JSON that
/// `serde_json` reads (nested deeper than 128, say).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RootEntry {
    /// The root's URI. The protocol wants `file://`; clients send others, too.
    pub uri: String,
    /// A name to show; `null` and absent are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Protocol metadata, kept as it came.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
    #[serde(skip)]
    malformed: bool,
}

impl RootEntry {
    /// An entry without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }

    /// Whether it came as something else than the schema's `Root`; its URI is then the JSON that came, shortened.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }
}

fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RootEntry>, D::Error> {
    let entries = Vec::<Value>::deserialize(deserializer)?.into_iter().map(|entry| {
        RootEntry::deserialize(&entry).unwrap_or_else(|_| {
            let uri = entry.to_string().chars().take(MALFORMED_CHARS).collect();
            RootEntry { uri, malformed: true, ..RootEntry::default() }
        })
    });
    Ok(entries.collect())
}

impl ListRootsResult {
    /// A root list of these URIs, without names.
    pub fn from_uris<S: Into<String>>(uris: impl IntoIterator<Item = S>) -> Self {
        let roots = uris.into_iter().map(RootEntry::new).collect();
        Self { roots, meta: None, next_cursor: None }
    }

    /// Whether it is within [`ROOT_LIST_ENTRIES`] and [`ROOT_LIST_BYTES`].
    pub(crate) fn is_bounded(&self) -> crate::Result<()> {
        if self.roots.len() > ROOT_LIST_ENTRIES {
            let detail = format!("{} entries", self.roots.len());
            return Err(Error::new(ErrorKind::TooManyRoots).detail(detail));
        }
        let text = |entry: &RootEntry| entry.uri.len() + entry.name.as_ref().map_or(0, String::len);
        match self.roots.iter().map(text).sum::<usize>() {
            0..=ROOT_LIST_BYTES => Ok(()),
            bytes => Err(Error::new(ErrorKind::TooLarge).detail(format!("{bytes} bytes of URIs and names"))),
        }
    }
}

/// The most entries of a root list: a workspace with a thousand projects is large, ten times that is an attack or an accident.
pub const ROOT_LIST_ENTRIES: usize = 10_000;

/// The most bytes of a root list's URIs and names: [`ROOT_LIST_ENTRIES`] of 800 each.
pub const ROOT_LIST_BYTES: usize = 8_000_000;

/// What is kept of an entry that is malformed, to recognise it in a log.
const MALFORMED_CHARS: usize = 160;

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

    #[test]
    fn a_malformed_entry_spoils_no_other() {
        let json = r#"{"roots":[{"uri":"file:///a"},{"name":"x"},{"uri":7},null,[],{"uri":"file:///b","name":5},{"uri":"file:///c"}]}"#;
        let list: ListRootsResult = serde_json::from_str(json).unwrap();
        let told: Vec<_> = list.roots.iter().map(|root| (root.uri.as_str(), root.is_malformed())).collect();
        let expected = [
            ("file:///a", false),
            (r#"{"name":"x"}"#, true),
            (r#"{"uri":7}"#, true),
            ("null", true),
            ("[]", true),
            (r#"{"name":5,"uri":"file:///b"}"#, true),
            ("file:///c", false),
        ];
        assert_eq!(told, expected);
        assert!(serde_json::from_str::<ListRootsResult>(r#"{"roots":{}}"#).is_err());
        assert!(serde_json::from_str::<ListRootsResult>("{}").is_err());
    }
}
