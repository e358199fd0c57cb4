//! What MCP puts on the wire about roots (2024-11-05 to 2026-07-28).
//!
//! The types here are the JSON of a `roots/list` result, of a client's capabilities, of
//! `notifications/roots/list_changed` and of an error. The URIs are untrusted text. Nothing here
//! grants anything: a URI is parsed and judged when the list is resolved. Unusual JSON is read in
//! the way that serves less: the list has failed, the capability is declared, the change is
//! announced.

mod capability;
mod message;
mod revision;
mod errors;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::error::{Code, Error};
use crate::limits::{MALFORMED_CHARS, ROOT_LIST_BYTES, ROOT_LIST_ENTRIES};
pub use capability::{ClientCapabilities, RootsCapability};
pub use message::{ErrorBody, RootsListChanged};
pub use revision::Revision;

/// A client's answer to `roots/list`. Unknown fields are ignored.
///
/// Anything but an object with a list in `roots` is an error. So is a `nextCursor` that is not a
/// string, because the rest of the list could not be requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ListRootsResult {
    /// The roots, in the client's order. Relative requests start at the first.
    pub roots: Vec<RootEntry>,
    /// The `cursor` of the request for the next page. No published schema has it, but some clients
    /// send it.
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One entry of a root list. The schema calls it `Root`. In this crate, a [`Root`](crate::Root) is
/// an entry that was resolved.
///
/// An entry that breaks the schema is kept as [malformed](Self::is_malformed), and does not affect
/// the others, unless it is JSON that `serde_json` does not read (for example nested deeper than
/// 128).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RootEntry {
    /// The root's URI. The protocol requires `file://`, but clients send others, too.
    pub uri: String,
    /// A name to display. `null` and absent are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip)]
    malformed: bool,
}

impl RootEntry {
    /// Creates an entry without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }

    /// Whether the entry breaks the schema. Its URI is then the JSON that was sent, shortened.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }
}

impl ListRootsResult {
    /// The request that this result answers.
    pub const METHOD: &str = "roots/list";

    /// Creates a list of these URIs, without names.
    pub fn from_uris<S: Into<String>>(uris: impl IntoIterator<Item = S>) -> Self {
        Self { roots: uris.into_iter().map(RootEntry::new).collect(), ..Self::default() }
    }

    /// Checks the list against [`ROOT_LIST_ENTRIES`] and [`ROOT_LIST_BYTES`].
    pub(crate) fn is_bounded(&self) -> crate::Result<()> {
        if self.roots.len() > ROOT_LIST_ENTRIES {
            let detail = format!("{} entries", self.roots.len());
            return Err(Error::new(Code::TooManyRoots).detail(detail));
        }
        let text = |entry: &RootEntry| entry.uri.len() + entry.name.as_ref().map_or(0, String::len);
        match self.roots.iter().map(text).sum::<usize>() {
            0..=ROOT_LIST_BYTES => Ok(()),
            bytes => {
                let text = "the root list is larger than {} bytes";
                let error = Error::over(Code::TooLarge, text, ROOT_LIST_BYTES);
                Err(error.detail(format!("{bytes} bytes of URIs and names")))
            }
        }
    }
}

/// Not derived, because a derived one would read an array as an object, field by field. The same
/// holds for an entry and for an error.
impl<'de> Deserialize<'de> for ListRootsResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Map::deserialize(deserializer)?;
        let Some(Value::Array(entries)) = object.remove("roots") else {
            return Err(D::Error::custom("roots is no list"));
        };
        let next_cursor = match object.remove("nextCursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor),
            Some(_) => return Err(D::Error::custom("nextCursor is no string")),
        };
        Ok(Self { roots: entries.iter().map(entry).collect(), next_cursor })
    }
}

impl<'de> Deserialize<'de> for RootEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Map::deserialize(deserializer)?;
        let (uri, name) = (field(&mut object, "uri")?, field(&mut object, "name")?);
        // Not kept, but an entry whose metadata breaks the schema is malformed.
        field::<Option<Map<String, Value>>, _>(&mut object, "_meta")?;
        Ok(Self { uri, name, malformed: false })
    }
}

/// Takes a field from an object. Absent and `null` are the same.
fn field<T: DeserializeOwned, E: serde::de::Error>(
    object: &mut Map<String, Value>,
    key: &str,
) -> Result<T, E> {
    serde_json::from_value(object.remove(key).unwrap_or_default())
        .map_err(|error| E::custom(format!("{key}: {error}")))
}

fn entry(entry: &Value) -> RootEntry {
    RootEntry::deserialize(entry).unwrap_or_else(|_| {
        let uri = entry.to_string().chars().take(MALFORMED_CHARS).collect();
        RootEntry { uri, malformed: true, ..RootEntry::default() }
    })
}

#[cfg(test)]
/// Parses JSON and prints it again. Empty if it is refused.
fn again<T: Serialize + for<'de> Deserialize<'de>>(json: &str) -> String {
    serde_json::from_str::<T>(json)
        .map_or_else(|_| String::new(), |read| serde_json::to_string(&read).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_clients_send_and_drops_the_rest() {
        let json = concat!(
            r#"{"roots":[{"uri":"file:///a","name":null,"extra":1},"#,
            r#"{"uri":"file:///b","name":"B","_meta":{"k":[1]}}],"#,
            r#""nextCursor":null,"_meta":{"m":true}}"#
        );
        let list: ListRootsResult = serde_json::from_str(json).unwrap();
        assert_eq!(
            list.roots
                .iter()
                .map(|root| (root.uri.as_str(), root.name.as_deref()))
                .collect::<Vec<_>>(),
            [("file:///a", None), ("file:///b", Some("B"))]
        );
        let printed = serde_json::to_string(&list).unwrap();
        assert_eq!(printed, r#"{"roots":[{"uri":"file:///a"},{"uri":"file:///b","name":"B"}]}"#);
    }

    #[test]
    fn a_malformed_entry_spoils_no_other() {
        let json = concat!(
            r#"{"roots":[{"uri":"file:///a"},{"name":"x"},{"uri":7},null,[],["file:///d"],"#,
            r#"{"uri":"file:///b","name":5},{"uri":"file:///c"}]}"#
        );
        let list: ListRootsResult = serde_json::from_str(json).unwrap();
        let entries: Vec<_> =
            list.roots.iter().map(|root| (root.uri.as_str(), root.is_malformed())).collect();
        let expected = [
            ("file:///a", false),
            (r#"{"name":"x"}"#, true),
            (r#"{"uri":7}"#, true),
            ("null", true),
            ("[]", true),
            (r#"["file:///d"]"#, true),
            (r#"{"name":5,"uri":"file:///b"}"#, true),
            ("file:///c", false),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn entries() {
        for (json, expected) in [
            (r#"{"name":null,"uri":"file:///a","malformed":true}"#, r#"{"uri":"file:///a"}"#),
            (r#"{"uri":"file:///a","uri":"file:///b"}"#, r#"{"uri":"file:///b"}"#),
            (r#"["file:///a"]"#, ""),
            (r#"{"uri":null}"#, ""),
            (r#"{"uri":"file:///a","_meta":[]}"#, ""),
        ] {
            assert_eq!(again::<RootEntry>(json), expected, "{json}");
        }
    }

    #[test]
    fn pages() {
        for (json, expected) in [
            (r#"{"roots":[]}"#, r#"{"roots":[]}"#),
            (r#"{"roots":[],"nextCursor":null}"#, r#"{"roots":[]}"#),
            (r#"{"roots":[],"nextCursor":""}"#, r#"{"roots":[],"nextCursor":""}"#),
            (r#"{"nextCursor":"2","x":1,"roots":[]}"#, r#"{"roots":[],"nextCursor":"2"}"#),
            (r#"{"roots":[],"_meta":null}"#, r#"{"roots":[]}"#),
            (r#"{"roots":[],"_meta":7}"#, r#"{"roots":[]}"#),
            (r#"{"roots":[],"_meta":{"k":4.7888281949825167e240}}"#, r#"{"roots":[]}"#),
            (r#"{"roots":[],"nextCursor":2}"#, ""),
            (r#"{"roots":[],"nextCursor":false}"#, ""),
            (r#"{"roots":[],"nextCursor":["2"]}"#, ""),
            (r#"{"roots":{}}"#, ""),
            (r#"{"roots":null}"#, ""),
            ("{}", ""),
            ("[[]]", ""),
            ("null", ""),
        ] {
            assert_eq!(again::<ListRootsResult>(json), expected, "{json}");
        }
        assert_eq!(ListRootsResult::from_uris(["file:///a"]).next_cursor, None);
    }
}
