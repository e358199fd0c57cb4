//! The JSON schemas of a [`Location`] and a [`ContentHash`] among a tool's arguments (feature
//! `schemars`).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::fs::ContentHash;
use crate::path::Location;

macro_rules! string {
    ($($name:ident),*) => {$(
        /// A string. The description is that of the field.
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    )*};
}

string!(Location, ContentHash);
