//! The effect of an incoming message on a client's roots, and the body of an error.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{ClientCapabilities, ListRootsResult, field};
use crate::limits::MESSAGE_BYTES;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effect {
    /// The message does not concern roots.
    None,
    /// The roots changed, or the message may say so.
    Changed,
    /// An `initialize` with these capabilities, or with none that could be parsed.
    Initialize(Option<ClientCapabilities>),
}

impl Effect {
    /// The effect of a JSON-RPC message or batch.
    ///
    /// One that cannot be parsed, or that is longer than [`MESSAGE_BYTES`], counts as a change,
    /// because the SDK may parse what this function cannot. So does an object in which any of
    /// several methods is a change, because parsers differ in which one they use.
    pub(crate) fn of(message: &[u8]) -> Self {
        if message.len() > MESSAGE_BYTES {
            return Self::Changed;
        }
        if message.trim_ascii().is_empty() {
            return Self::None;
        }
        // `IgnoredAny` does not check that strings are UTF-8.
        let Ok(message) = std::str::from_utf8(message) else { return Self::Changed };
        match serde_json::from_str(message) {
            Ok(Methods { changed: false, initialize: false }) => Self::None,
            Ok(Methods { changed: false, initialize: true }) => {
                let message: Value = serde_json::from_str(message).unwrap_or_default();
                let declared = message.get("params").and_then(|params| params.get("capabilities"));
                Self::Initialize(declared.and_then(|json| Deserialize::deserialize(json).ok()))
            }
            _ => Self::Changed,
        }
    }
}

/// The methods in a message or a batch. Everything else is skipped without being stored.
struct Methods {
    changed: bool,
    initialize: bool,
}

impl<'de> Deserialize<'de> for Methods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Messages;

        impl<'de> Visitor<'de> for Messages {
            type Value = Methods;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message or a batch of messages")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Methods, A::Error> {
                let mut methods = Methods { changed: false, initialize: false };
                while let Some(key) = object.next_key::<String>()? {
                    if key == "method" {
                        let method: String = object.next_value()?;
                        methods.changed |= method == ListRootsResult::CHANGED;
                        methods.initialize |= method == "initialize";
                    } else {
                        object.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(methods)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut batch: A) -> Result<Methods, A::Error> {
                let mut changed = false;
                while let Some(methods) = batch.next_element::<Methods>()? {
                    // The protocol allows no `initialize` in a batch, so none begins a session.
                    changed |= methods.changed || methods.initialize;
                }
                Ok(Methods { changed, initialize: false })
            }
        }

        deserializer.deserialize_any(Messages)
    }
}

/// The `error` of a JSON-RPC response (JSON-RPC 2.0, 5.1).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorBody {
    /// The error code.
    pub code: i64,
    /// A short description of the error.
    pub message: String,
    /// Additional data for programs. `null` is equivalent to absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl<'de> Deserialize<'de> for ErrorBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Map::deserialize(deserializer)?;
        let (code, message) = (field(&mut object, "code")?, field(&mut object, "message")?);
        Ok(Self { code, message, data: field(&mut object, "data")? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::again;
    use super::*;

    #[test]
    fn only_a_readable_message_without_a_change_has_no_effect() {
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"path":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"method":"notifications/roots/list_changed"}}"#,
            r#"{"params":{"method":"notifications/roots/list_changed"},"method":"ping"}"#,
            r#"{"id":1,"error":{"code":1,"message":"notifications/roots/list_changed"}}"#,
            r#"{"method":"notifications/tools/list_changed"}"#,
            r#"{"method":"notifications/Roots/list_changed"}"#,
            r#"{"method":"notifications/roots/list_changed "}"#,
            r#"{"Method":"notifications/roots/list_changed"}"#,
            " {\t\"method\":\"ping\"}\r\n",
            r#"[{"method":"ping"},{"id":1,"result":{}}]"#,
            "{}",
            "[]",
            "",
            " \r\n",
        ] {
            assert_eq!(Effect::of(message.as_bytes()), Effect::None, "{message}");
        }
        let deep =
            format!(r#"{{"method":"ping","params":{}{}}}"#, "[".repeat(999), "]".repeat(999));
        assert_eq!(Effect::of(deep.as_bytes()), Effect::None);
    }

    #[test]
    fn a_change_or_an_unreadable_message_counts_as_a_change() {
        for message in [
            r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
            r#"{"method":"notifications/roots/list_changed","id":1,"params":[7]}"#,
            r#"{"method":"notifications\/roots\u002flist_changed"}"#,
            r#"{"m\u0065thod":"\u006eotifications/roots/list_changed"}"#,
            r#"{"method":"notifications/roots/list_changed","method":"ping"}"#,
            r#"{"method":"ping","method":"notifications/roots/list_changed"}"#,
            r#"{"method":"initialize","method":"notifications/roots/list_changed"}"#,
            r#"[{"method":"ping"},{"method":"notifications/roots/list_changed"}]"#,
            r#"[[{"method":"notifications/roots/list_changed"}]]"#,
            r#"[{"method":"initialize","params":{"capabilities":{}}}]"#,
            "{\"method\":\"notifications/roots/list_changed\"}\r\n",
            "\u{feff}{\"method\":\"ping\"}",
            r#"{"method":null}"#,
            r#"{"method":["notifications/roots/list_changed"]}"#,
            r#"{"method":"ping"}{"method":"notifications/roots/list_changed"}"#,
            r#"{"method":"ping"}, "#,
            r#"{"method":"ping""#,
            r#"{"method":"notifications/roots/list_changed\ud800"}"#,
            r#"[{"method":"ping"},7]"#,
            "7",
            "null",
            "\"notifications/roots/list_changed\"",
            "notifications/roots/list_changed",
        ] {
            assert_eq!(Effect::of(message.as_bytes()), Effect::Changed, "{message}");
        }
        let not_utf8 = b"{\"method\":\"ping\",\"params\":{\"path\":\"\xff\"}}";
        assert_eq!(Effect::of(not_utf8), Effect::Changed);
        let nested = format!("{}{}", "[".repeat(999), "]".repeat(999));
        assert_eq!(Effect::of(nested.as_bytes()), Effect::Changed);
    }

    #[test]
    fn a_message_longer_than_the_limit_counts_as_a_change() {
        let mut message = br#"{"method":"ping"}"#.to_vec();
        message.resize(MESSAGE_BYTES, b' ');
        assert_eq!(Effect::of(&message), Effect::None);
        message.push(b' ');
        assert_eq!(Effect::of(&message), Effect::Changed);
    }

    #[test]
    fn initialize_is_read_with_its_capabilities() {
        let announcing = ClientCapabilities::WithAnnouncedRoots;
        let silent = ClientCapabilities::WithRoots;
        for (params, expected) in [
            (r#"{"capabilities":{"roots":{"listChanged":true}}}"#, Some(announcing)),
            (r#"{"capabilities":{"roots":{"listChanged":1}},"more":[]}"#, Some(silent)),
            (r#"{"capabilities":{"roots":7}}"#, Some(silent)),
            (r#"{"capabilities":{}}"#, Some(ClientCapabilities::WithoutRoots)),
            (r#"{"capabilities":{"capabilities":{}}}"#, None),
            (r#"{"capabilities":[]}"#, None),
            (r#"{"capabilities":null}"#, None),
            (r#"{"roots":{}}"#, None),
            (r#"[{"roots":{}}]"#, None),
            ("null", None),
        ] {
            let message = format!(r#"{{"params":{params},"id":0,"method":"initialize"}}"#);
            assert_eq!(Effect::of(message.as_bytes()), Effect::Initialize(expected), "{message}");
        }
        // `serde_json::Value` cannot represent this number, so the capabilities are unknown.
        let number = br#"{"method":"initialize","params":{"capabilities":{}},"x":1e999}"#;
        assert_eq!(Effect::of(number), Effect::Initialize(None));
    }

    #[test]
    fn error_body_round_trips_and_malformed_ones_are_refused() {
        for (json, expected) in [
            (
                r#"{"code":-32601,"message":"no","data":null,"x":1}"#,
                r#"{"code":-32601,"message":"no"}"#,
            ),
            (
                r#"{"data":{"reason":"r"},"code":1,"message":""}"#,
                r#"{"code":1,"message":"","data":{"reason":"r"}}"#,
            ),
            (r#"{"code":"1","message":""}"#, ""),
            (r#"{"code":1}"#, ""),
            (r#"[1,"no"]"#, ""),
        ] {
            assert_eq!(again::<ErrorBody>(json), expected, "{json}");
        }
    }
}
