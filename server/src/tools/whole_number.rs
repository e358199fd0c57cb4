//! Numbers in tool arguments.

use std::borrow::Cow;

use rmcp::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A whole number. It is 0 if the argument is omitted or `null`; some clients send 0 for an omitted
/// argument.
#[derive(Clone, Copy, Default)]
pub(super) struct WholeNumber(u64);

impl WholeNumber {
    /// The number, unless it is omitted.
    pub(super) fn get(self) -> Option<u64> {
        Some(self.0).filter(|&count| count > 0)
    }
}

/// As in the reference server, a number can be any JSON number with a whole value.
impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(number: D) -> Result<Self, D::Error> {
        let count = Option::<f64>::deserialize(number)?.unwrap_or(0.0);
        if count < 0.0 || count.fract() != 0.0 {
            let wrong = format!("invalid number {count}: expected a non-negative whole number");
            return Err(de::Error::custom(wrong));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number is whole and not negative, and `as` saturates"
        )]
        Ok(Self(count as u64))
    }
}

impl JsonSchema for WholeNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WholeNumber".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0 })
    }
}
