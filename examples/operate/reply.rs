//! The results and the errors as JSON.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_roots_guard::{
    Access, CheckedEntry, CheckedPath, ContentHash, DirEntry, Error, Metadata, Root,
};
use serde_json::{Map, Value, json};

/// The reason for a response with `error`.
pub(crate) enum Failure {
    /// The request is not valid: the code and the message.
    Invalid(&'static str, String),
    /// The guard refused the operation, or the operation failed.
    Guard(Error),
    /// The operation failed. The response has these further members, such as the part of the
    /// result that precedes the error.
    Partial(Error, Map<String, Value>),
}

impl Failure {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Invalid(code, message) => {
                json!({"kind": "InvalidRequest", "code": code, "message": message})
            }
            Self::Guard(error) => error_json(error),
            Self::Partial(error, members) => {
                let mut value = error_json(error);
                if let Value::Object(object) = &mut value {
                    object.extend(members.clone());
                }
                value
            }
        }
    }
}

pub(crate) fn error_json(error: &Error) -> Value {
    let kind = format!("{:?}", error.kind());
    json!({"kind": kind, "code": error.code(), "message": error.to_string()})
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Guard(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Guard(error.into())
    }
}

/// Adds `path`, and `uri` if the path is not UTF-8.
pub(crate) fn insert_path(
    object: &mut Map<String, Value>,
    path: &Path,
    uri: impl FnOnce() -> String,
) {
    object.insert("path".into(), path.to_string_lossy().into());
    if path.to_str().is_none() {
        object.insert("uri".into(), uri().into());
    }
}

/// Adds content as text, or as Base64 if it is not UTF-8.
pub(crate) fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(error) => {
            object.insert(format!("{name}_base64"), BASE64_STANDARD.encode(error.as_bytes()).into())
        }
    };
}

pub(crate) fn of_root(root: &Root) -> Value {
    let mut object = Map::new();
    insert_path(&mut object, root.path(), || root.uri());
    object.insert("client_path".into(), root.client_path().into());
    object.insert(
        "aliases".into(),
        root.paths().skip(1).map(|path| path.to_string_lossy()).collect(),
    );
    object.insert("name".into(), root.name().into());
    object.insert("access".into(), of_access(root.access()));
    object.insert("always".into(), root.is_always().into());
    object.insert("file".into(), root.is_file().into());
    Value::Object(object)
}

pub(crate) trait Proof {
    fn describe(&self) -> Value;
}

macro_rules! describe {
    ($($proof:ty),*) => {
        $(impl Proof for $proof {
            fn describe(&self) -> Value {
                let mut object = Map::new();
                let path = self.root().path().join(self.relative());
                object.insert("path".into(), self.display_path().into());
                if path.to_str().is_none() {
                    object.insert("uri".into(), self.uri().into());
                }
                object.insert("root".into(), self.root().path().to_string_lossy().into());
                object.insert("relative".into(), self.relative().to_string_lossy().into());
                object.insert("exists".into(), self.exists().into());
                object.insert("access".into(), of_access(self.access()));
                Value::Object(object)
            }
        })*
    };
}

describe!(CheckedPath, CheckedEntry);

fn of_access(access: Access) -> Value {
    match access {
        Access::ReadOnly => "read_only",
        Access::ReadWrite => "read_write",
    }
    .into()
}

pub(crate) fn of_entry(entry: &DirEntry) -> Value {
    let mut object = Map::new();
    insert_path(&mut object, &entry.relative(), || entry.to_entry().uri());
    object.insert("type".into(), entry.file_type().to_string().into());
    object.insert("depth".into(), entry.relative().components().count().into());
    Value::Object(object)
}

pub(crate) fn of_content(content: Vec<u8>) -> Value {
    let mut object = Map::new();
    object.insert("version".into(), ContentHash::of(&content).to_string().into());
    insert_bytes(&mut object, "content", content);
    Value::Object(object)
}

pub(crate) fn of_metadata(metadata: &Metadata) -> Value {
    json!({
        "type": metadata.file_type().to_string(),
        "size": metadata.len(),
        "hard_links": metadata.hard_links(),
        "device": metadata.device(),
        "modified": metadata.modified().map(milliseconds),
        "accessed": metadata.accessed().map(milliseconds),
        "created": metadata.created().map(milliseconds),
        "mode": metadata.mode(),
    })
}

/// Milliseconds since 1970, rounded down.
fn milliseconds(time: SystemTime) -> i64 {
    let whole =
        |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => whole(after),
        Err(before) => {
            let before = before.duration();
            -whole(before) - i64::from(before.subsec_nanos() % 1_000_000 != 0)
        }
    }
}
