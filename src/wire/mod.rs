//! The MCP messages about roots (2024-11-05 to 2026-07-28).
//!
//! The URIs are untrusted text, and none of these types grants access: a URI is parsed and checked
//! when its list is resolved. Malformed JSON is interpreted in the way that grants less: a
//! malformed list as a failure to obtain it, a malformed capability as declared, and a malformed
//! notification as a change of roots.

mod capability;
mod message;
mod revision;
mod errors;

use guarded_fs::{Error, ErrorKind, ListEntry, Location, Result};
use path_clean::PathClean as _;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::limits::{MALFORMED_CHARS, ROOT_LIST_BYTES, ROOT_LIST_ENTRIES};
pub use capability::ClientCapabilities;
pub(crate) use message::Effect;
pub use message::ErrorBody;
pub use revision::Revision;

/// A client's response to `roots/list`. Unknown fields are ignored. Anything except an object with
/// an array in `roots` is an error. So is a `nextCursor` that is not a string, because the rest of
/// the list cannot be requested.
///
/// A [`Guard`](crate::Guard) decides what a list means, including an empty one. A program that
/// obtains lists itself passes its [`roots`](Self::roots) to
/// [`Boundary::narrow`](crate::Boundary::narrow).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ListRootsResult {
    /// The roots, in the client's order. Relative requests are resolved against the first.
    pub roots: Vec<RootEntry>,
    /// The `cursor` for requesting the next page. No published schema has it, but some clients send
    /// it.
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One entry of a root list. The schema calls it `Root`, but in this crate, a [`Root`](crate::Root)
/// is a resolved entry.
///
/// An entry that violates the schema is rejected (`malformed`) without affecting the others, and
/// keeps the JSON that was sent as its URI, shortened. Exception: JSON that `serde_json` cannot
/// parse, such as JSON nested more than 128 levels deep, fails the whole list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RootEntry {
    /// The root's URI. The protocol requires a `file://` URI, but clients also send others.
    pub uri: String,
    /// A display name. `null` is equivalent to absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the entry violates the schema.
    #[serde(skip)]
    malformed: bool,
}

impl ListRootsResult {
    /// The method of the request.
    pub const METHOD: &str = "roots/list";

    /// The method of the notification that a client's roots changed, which does not contain the new
    /// ones ([`Session::list_changed`](crate::Session::list_changed)).
    pub const CHANGED: &str = "notifications/roots/list_changed";

    /// Creates a list from URIs, without names.
    pub fn from_uris<S: Into<String>>(uris: impl IntoIterator<Item = S>) -> Self {
        let entry = |uri: S| RootEntry { uri: uri.into(), ..RootEntry::default() };
        Self { roots: uris.into_iter().map(entry).collect(), ..Self::default() }
    }

    /// Fails if the list exceeds [`ROOT_LIST_ENTRIES`] or [`ROOT_LIST_BYTES`].
    pub(crate) fn ensure_bounded(&self) -> Result<()> {
        if self.roots.len() > ROOT_LIST_ENTRIES {
            let (text, detail) = (TOO_MANY_ENTRIES, format!("{} entries", self.roots.len()));
            return Err(Error::new(ErrorKind::TooManyRoots, "too_many_roots", text)
                .with_operator_detail(detail));
        }
        let text = |entry: &RootEntry| entry.uri.len() + entry.name.as_ref().map_or(0, String::len);
        match self.roots.iter().map(text).sum::<usize>() {
            0..=ROOT_LIST_BYTES => Ok(()),
            bytes => {
                let detail = format!("{bytes} bytes of URIs and names");
                Err(Error::new(ErrorKind::TooLarge, "too_large", TOO_MANY_BYTES)
                    .with_operator_detail(detail))
            }
        }
    }
}

impl RootEntry {
    /// A short text to show for the entry: its name, or else the last name of its path, or else its
    /// URI. It is the client's own text, and says nothing about what the entry grants.
    ///
    /// ```
    /// use mcp_roots_guard::ListRootsResult;
    ///
    /// let list = ListRootsResult::from_uris(["file:///srv/my%20site/./"]);
    /// assert_eq!(list.roots[0].label(), "my site");
    /// ```
    #[must_use]
    pub fn label(&self) -> String {
        if let Some(name) = self.name.as_ref().filter(|name| !name.is_empty()) {
            return name.clone();
        }
        let Ok(location) = Location::from_uri(&self.uri) else { return self.uri.clone() };
        let path = location.as_unchecked_path().clean();
        let last = path.file_name().unwrap_or(dunce::simplified(&path).as_os_str());
        last.to_string_lossy().into_owned()
    }

    /// The entry for [`Boundary::narrow`](crate::Boundary::narrow).
    pub(crate) fn to_list_entry(&self, allows_paths: bool) -> ListEntry<'_> {
        if self.malformed {
            let text = "the entry is malformed";
            let error = Error::new(ErrorKind::RootRejected, "malformed", text);
            ListEntry::rejected(&self.uri, error)
        } else if !is_read_alike(&self.uri) {
            let text = "URL parsers read different paths from the URI; write it without ..";
            let error = Error::new(ErrorKind::InvalidUri, "ambiguous_uri", text);
            ListEntry::rejected(&self.uri, error)
        } else if allows_paths {
            ListEntry::from(&self.uri)
        } else {
            ListEntry::uri(&self.uri)
        }
    }
}

/// Whether the URL parser that most programs use (WHATWG, the `url` crate) reads the same path from
/// a `file:` URI. To that parser, a name such as `c:` is a drive. Text that is not a `file:` URI
/// passes, and is later refused or read as a path. On Windows, the guard itself reads URIs in
/// several notations.
fn is_read_alike(uri: &str) -> bool {
    let Ok(location) = Location::from_uri(uri) else { return true };
    let reread = || Url::parse(uri).ok()?.to_file_path().ok();
    // The client's own software must not mean another directory by its list.
    cfg!(windows) || reread().is_some_and(|path| path == location.as_unchecked_path())
}

/// The entry's URI. A path is rejected.
impl<'a> From<&'a RootEntry> for ListEntry<'a> {
    fn from(entry: &'a RootEntry) -> Self {
        entry.to_list_entry(false)
    }
}

const TOO_MANY_ENTRIES: &str = "the root list has more than 10000 entries";
const TOO_MANY_BYTES: &str = "the root list is larger than 8000000 bytes";

/// A derived implementation would accept an array in place of an object, also for [`RootEntry`] and
/// [`ErrorBody`].
impl<'de> Deserialize<'de> for ListRootsResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Map::deserialize(deserializer)?;
        let Some(Value::Array(entries)) = object.remove("roots") else {
            return Err(D::Error::custom("roots is not an array"));
        };
        let next_cursor = match object.remove("nextCursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor),
            Some(_) => return Err(D::Error::custom("nextCursor is not a string")),
        };
        Ok(Self { roots: entries.iter().map(entry).collect(), next_cursor })
    }
}

impl<'de> Deserialize<'de> for RootEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Map::deserialize(deserializer)?;
        let (uri, name) = (field(&mut object, "uri")?, field(&mut object, "name")?);
        // The metadata is not kept, but an entry whose metadata violates the schema is malformed.
        field::<Option<Map<String, Value>>, _>(&mut object, "_meta")?;
        Ok(Self { uri, name, malformed: false })
    }
}

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
/// Parses JSON and serializes it again. Returns an empty string if parsing fails.
fn again<T: Serialize + for<'de> Deserialize<'de>>(json: &str) -> String {
    serde_json::from_str::<T>(json)
        .map_or_else(|_| String::new(), |read| serde_json::to_string(&read).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_contain_the_limits() {
        for (text, limit) in
            [(TOO_MANY_ENTRIES, ROOT_LIST_ENTRIES), (TOO_MANY_BYTES, ROOT_LIST_BYTES)]
        {
            assert!(text.contains(&format!(" {limit} ")), "{text}");
        }
    }

    #[test]
    fn list_is_parsed_and_unknown_fields_are_dropped() {
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
    fn malformed_entry_does_not_affect_the_others() {
        let json = concat!(
            r#"{"roots":[{"uri":"file:///a"},{"name":"x"},{"uri":7},null,[],["file:///d"],"#,
            r#"{"uri":"file:///b","name":5},{"uri":"file:///c"}]}"#
        );
        let list: ListRootsResult = serde_json::from_str(json).unwrap();
        let entries: Vec<_> =
            list.roots.iter().map(|root| (root.uri.as_str(), root.malformed)).collect();
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

    /// `C:` is a drive for URL parsers, which `..` does not leave, and a name by RFC 8089.
    #[cfg(unix)]
    #[test]
    fn an_entry_from_which_parsers_read_different_paths_grants_nothing() {
        let boundary = guarded_fs::Boundary::any_listed().build().unwrap();
        for (uri, expected) in [
            ("file:/C:/../etc", Some("ambiguous_uri")),
            ("file:///C:/x", None),
            ("file:///srv/C%7C/x", None),
            ("file:///srv/a%20b/./../c", None),
            ("file:///srv/a:", None),
        ] {
            let list = ListRootsResult::from_uris([uri]);
            let roots = boundary.narrow(&list.roots).unwrap();
            let code = roots.rejected().first().map(|rejected| rejected.error().code());
            assert_eq!((code, roots.iter().len()), (expected, expected.map_or(1, |_| 0)), "{uri}");
        }
    }

    #[test]
    fn entry_must_be_an_object_that_matches_the_schema() {
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
    fn page_must_be_an_object_with_an_array_and_a_string_cursor() {
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
