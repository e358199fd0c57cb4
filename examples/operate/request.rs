//! Requests: the values of the fields, and the reasons why a request fails.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_roots_guard::{CheckedEntry, CheckedPath, Error, Roots};
use serde_json::{Map, Value, json};

use super::base64;
use super::form::{Field, Form, Presence};

/// The values of a request or of a step. Each has the type that its form requires.
pub(crate) struct Request {
    /// The roots, narrowed by the common fields.
    pub(crate) roots: Roots,
    /// The roots of the command line.
    pub(crate) all_roots: Roots,
    values: Map<String, Value>,
}

impl Request {
    /// Checks the values against the form, and adds the defaults. `common` are further fields.
    pub(crate) fn new(
        roots: &Roots,
        form: &Form,
        common: &[Field],
        mut values: Map<String, Value>,
    ) -> Result<Self, Failure> {
        values.remove("op");
        let operation = form.name;
        for (name, value) in &values {
            let field = form.fields.iter().chain(common).find(|field| field.is_named(name));
            let Some(field) = field else {
                let message = format!("{operation}: there is no field {}", quoted(name));
                return Err(Failure::Invalid("unknown_field", message));
            };
            if !field.accepts(name, value) {
                let message =
                    format!("{operation}: field {name:?} must be {}", field.expects(name));
                return Err(Failure::Invalid("wrong_type", message));
            }
        }
        for field in form.fields.iter().chain(common) {
            let name = field.name;
            let given = values.keys().filter(|key| field.is_named(key)).count();
            match field.presence {
                _ if given > 1 => {
                    let message =
                        format!("{operation}: {name:?} and its Base64 form are exclusive");
                    return Err(Failure::Invalid("conflicting_fields", message));
                }
                Presence::Required if given == 0 => {
                    let message = format!("{operation}: field {name:?} is required");
                    return Err(Failure::Invalid("missing_field", message));
                }
                Presence::Default(default) if given == 0 => {
                    values.insert(name.into(), serde_json::from_str(default).unwrap_or_default());
                }
                _ => {}
            }
        }
        Ok(Self { roots: roots.clone(), all_roots: roots.clone(), values })
    }

    /// Checks the field `path`.
    pub(crate) fn check(&self) -> Result<CheckedPath, Failure> {
        Ok(self.roots.check(self.text("path")?)?)
    }

    /// Checks the field `path` as an entry.
    pub(crate) fn check_entry(&self) -> Result<CheckedEntry, Failure> {
        Ok(self.roots.check_entry(self.text("path")?)?)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<&str, Failure> {
        self.value(name, Value::as_str)
    }

    /// The text of an optional field.
    pub(crate) fn optional_text(&self, name: &'static str) -> Result<Option<&str>, Failure> {
        self.has(name).then(|| self.text(name)).transpose()
    }

    pub(crate) fn boolean(&self, name: &'static str) -> Result<bool, Failure> {
        self.value(name, Value::as_bool)
    }

    pub(crate) fn integer(&self, name: &'static str) -> Result<u64, Failure> {
        self.value(name, Value::as_u64)
    }

    pub(crate) fn count(&self, name: &'static str) -> Result<usize, Failure> {
        Ok(usize::try_from(self.integer(name)?).unwrap_or(usize::MAX))
    }

    pub(crate) fn time(&self, name: &'static str) -> Result<SystemTime, Failure> {
        let milliseconds = self.value(name, Value::as_i64)?;
        let distance = Duration::from_millis(milliseconds.unsigned_abs());
        let time = if milliseconds < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        let message = || format!("{name:?} is not a time that this system can represent");
        time.ok_or_else(|| Failure::Invalid("invalid_value", message()))
    }

    /// The content of a field of [`Kind::Bytes`].
    pub(crate) fn bytes(&self, name: &'static str) -> Result<Vec<u8>, Failure> {
        match self.values.get(&base64_name(name)) {
            Some(_) => self.value_of(&base64_name(name), |value| base64::decode(value.as_str()?)),
            None => Ok(self.text(name)?.into()),
        }
    }

    /// The content of an optional field of [`Kind::Bytes`].
    pub(crate) fn optional_bytes(&self, name: &'static str) -> Result<Option<Vec<u8>>, Failure> {
        let is_given = self.has(name) || self.has(&base64_name(name));
        is_given.then(|| self.bytes(name)).transpose()
    }

    /// The elements of a field of [`Kind::Texts`].
    pub(crate) fn texts(&self, name: &'static str) -> Result<Vec<String>, Failure> {
        let copy = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|text| Some(text.as_str()?.into())).collect()
        };
        self.value(name, copy)
    }

    /// The contents of a field of [`Kind::Pieces`].
    pub(crate) fn pieces(&self, name: &'static str) -> Result<Vec<Vec<u8>>, Failure> {
        let decode = |value: &Value| -> Option<Vec<Vec<u8>>> {
            value.as_array()?.iter().map(|piece| base64::decode(piece.as_str()?)).collect()
        };
        let copy = |value: &Value| -> Option<Vec<Vec<u8>>> {
            value.as_array()?.iter().map(|piece| Some(piece.as_str()?.into())).collect()
        };
        match self.values.get(&base64_name(name)) {
            Some(_) => self.value_of(&base64_name(name), decode),
            None => self.value_of(name, copy),
        }
    }

    /// The steps of a field of [`Kind::Steps`], each with the name of its form.
    pub(crate) fn steps(
        &self,
        name: &'static str,
        forms: &'static [Form],
    ) -> Result<Vec<(&'static str, Self)>, Failure> {
        let steps = self.value(name, Value::as_array)?;
        let steps = steps.iter().map(|step| {
            let Value::Object(values) = step else {
                let message = format!("{name:?} contains a step that is not an object");
                return Err(Failure::Invalid("wrong_type", message));
            };
            let form = form_of(values, forms, |form| form)?;
            Ok((form.name, Self::new(&self.roots, form, &[], values.clone())?))
        });
        steps.collect()
    }

    fn value<'a, T>(
        &'a self,
        name: &'static str,
        get: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Failure> {
        self.value_of(name, get)
    }

    fn value_of<'a, T>(
        &'a self,
        name: &str,
        get: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Failure> {
        let message = || format!("{name:?} has no value of this type in the table of operations");
        self.values
            .get(name)
            .and_then(get)
            .ok_or_else(|| Failure::Invalid("not_in_table", message()))
    }
}

/// Returns the form that the field `op` names.
pub(crate) fn form_of<'a, T>(
    values: &Map<String, Value>,
    forms: &'a [T],
    form: impl Fn(&'a T) -> &'a Form,
) -> Result<&'a T, Failure> {
    let Some(op) = values.get("op") else {
        return Err(Failure::Invalid("missing_field", "field \"op\" is required".into()));
    };
    let Some(name) = op.as_str() else {
        return Err(Failure::Invalid("wrong_type", "field \"op\" must be a text".into()));
    };
    let message = || format!("unknown operation {}; see --help", quoted(name));
    forms
        .iter()
        .find(|candidate| form(candidate).name == name)
        .ok_or_else(|| Failure::Invalid("unknown_operation", message()))
}

/// The path with these bytes, which need not be UTF-8 on Unix.
#[cfg_attr(unix, allow(clippy::unnecessary_wraps, reason = "other systems refuse some bytes"))]
pub(crate) fn path_of(bytes: Vec<u8>) -> Result<PathBuf, Failure> {
    #[cfg(unix)]
    return Ok(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into());
    #[cfg(not(unix))]
    String::from_utf8(bytes)
        .map(PathBuf::from)
        .map_err(|_| Failure::Invalid("invalid_value", "the path must be UTF-8".into()))
}

/// Quotes a text of the request in a message: escaped and shortened.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(100).collect();
    format!("{shown:?}{}", if shown.len() < text.len() { "…" } else { "" })
}

fn base64_name(name: &str) -> String {
    format!("{name}_base64")
}

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
