//! The JSON schema of a [`Location`] among a tool's arguments.

use ::rmcp::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::path::Location;

/// A string. The description is that of the field.
impl JsonSchema for Location {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Location".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}
