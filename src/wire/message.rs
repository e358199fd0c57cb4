//! The notification that roots changed, and the body of an error.

use serde::de::Error as _;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::field;

/// The notification that a client's roots changed. It does not contain the new roots, so the list
/// must be requested again.
///
/// Only the method is compared, byte for byte. Anything unusual in the rest of the message is
/// ignored, because a missed change would leave the old list in force.
///
/// ```
/// # use mcp_roots_guard::RootsListChanged;
/// let json = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
/// assert_eq!(serde_json::from_str::<RootsListChanged>(json)?, RootsListChanged);
/// assert_eq!(serde_json::to_string(&RootsListChanged)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RootsListChanged;

impl RootsListChanged {
    /// The notification's method.
    pub const METHOD: &str = "notifications/roots/list_changed";
}

impl Serialize for RootsListChanged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_struct("RootsListChanged", 2)?;
        message.serialize_field("jsonrpc", "2.0")?;
        message.serialize_field("method", Self::METHOD)?;
        message.end()
    }
}

impl<'de> Deserialize<'de> for RootsListChanged {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message: Map<String, Value> = Map::deserialize(deserializer)?;
        if message.get("method").and_then(Value::as_str) != Some(Self::METHOD) {
            return Err(D::Error::custom(format_args!("not {}", Self::METHOD)));
        }
        Ok(Self)
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
    fn notification_is_recognized_by_its_method_alone() {
        let plain = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
        let with_meta = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"_meta":{"k":[1]}}}"#;
        for (json, expected) in [
            (plain, plain),
            (with_meta, plain),
            (r#"{"method":"notifications/roots/list_changed"}"#, plain),
            (
                r#"{"method":"notifications/roots/list_changed","params":null,"jsonrpc":7,"id":1}"#,
                plain,
            ),
            (r#"{"method":"notifications/roots/list_changed","params":[],"more":{}}"#, plain),
            (
                r#"{"method":"notifications/roots/list_changed","params":{"_meta":null,"x":1}}"#,
                plain,
            ),
            (r#"{"method":"notifications/roots/list_changed "}"#, ""),
            (r#"{"method":"notifications/Roots/list_changed"}"#, ""),
            (r#"{"method":"notifications/tools/list_changed"}"#, ""),
            (r#"{"method":"roots/list"}"#, ""),
            (r#"{"method":null}"#, ""),
            (r#"{"jsonrpc":"2.0"}"#, ""),
            (r#"["2.0","notifications/roots/list_changed"]"#, ""),
        ] {
            assert_eq!(again::<RootsListChanged>(json), expected, "{json}");
        }
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
