//! The results and the errors as JSON.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_roots_guard::{
    Access, CheckedEntry, CheckedPath, ContentHash, DirEntry, Error, Metadata, Root,
};
use serde_json::{Value, json};
use url::Url;

/// The error of a response: an object.
pub(crate) struct Failure(pub(crate) Value);

impl Failure {
    pub(crate) fn invalid(code: &str, message: &str) -> Self {
        Self(json!({"kind": "InvalidRequest", "code": code, "message": message}))
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into().reply())
    }
}

/// What a caller learns from a result, as an object.
pub(crate) trait Reply {
    fn reply(&self) -> Value;
}

impl Reply for () {
    fn reply(&self) -> Value {
        json!({})
    }
}

impl Reply for Error {
    fn reply(&self) -> Value {
        let kind = format!("{:?}", self.kind());
        json!({"kind": kind, "code": self.code(), "message": self.to_string()})
    }
}

/// The content of a file.
impl Reply for Vec<u8> {
    fn reply(&self) -> Value {
        let version = ContentHash::of(self).to_string();
        with(of_bytes("content", self), json!({ "version": version }))
    }
}

impl Reply for DirEntry {
    fn reply(&self) -> Value {
        let depth = self.relative().components().count();
        let members = json!({"type": self.file_type().to_string(), "depth": depth});
        with(of_path(&self.relative(), || self.to_entry().uri()), members)
    }
}

impl Reply for Metadata {
    fn reply(&self) -> Value {
        json!({
            "type": self.file_type().to_string(),
            "size": self.len(),
            "hard_links": self.hard_links(),
            "device": self.device(),
            "modified": self.modified().map(milliseconds),
            "accessed": self.accessed().map(milliseconds),
            "created": self.created().map(milliseconds),
            "mode": self.permission_bits(),
        })
    }
}

macro_rules! describe {
    ($($proof:ty),*) => {
        $(impl Reply for $proof {
            fn reply(&self) -> Value {
                let root = self.root().path();
                let members = json!({
                    "path": self.to_unguarded_path().display().to_string(),
                    "root": root.to_string_lossy(),
                    "relative": self.relative().to_string_lossy(),
                    "exists": self.exists(),
                    "access": of_access(self.access()),
                });
                with(of_path(&root.join(self.relative()), || self.uri()), members)
            }
        })*
    };
}

describe!(CheckedPath, CheckedEntry);

/// A root, and whether it is always in force.
pub(crate) fn of_root(root: &Root, is_always: bool) -> Value {
    let aliases: Value = root.paths().skip(1).map(|path| path.to_string_lossy()).collect();
    let members = json!({
        "client_path": root.client_path(),
        "aliases": aliases,
        // The lists of the command line have no names.
        "name": null,
        "access": of_access(root.access()),
        "always": is_always,
        "file": root.is_file(),
    });
    let uri = || Url::from_file_path(root.path()).map_or_else(|()| String::new(), String::from);
    with(of_path(root.path(), uri), members)
}

/// An object with the members of two.
pub(crate) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut object, more) {
        members.extend(more);
    }
    object
}

/// A path for display, and its URI if it is not UTF-8.
pub(crate) fn of_path(path: &Path, uri: impl FnOnce() -> String) -> Value {
    match path.to_str() {
        Some(path) => json!({ "path": path }),
        None => json!({"path": path.to_string_lossy(), "uri": uri()}),
    }
}

/// Content as text, or as Base64 if it is not UTF-8.
pub(crate) fn of_bytes(name: &str, bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ name: text }),
        Err(_) => json!({ format!("{name}_base64"): BASE64_STANDARD.encode(bytes) }),
    }
}

fn of_access(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "read_only",
        Access::ReadWrite => "read_write",
    }
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
