//! The forms of requests: the names and types of the fields of an operation.
//!
//! The same form checks a request and is printed by `--help`, so that the two cannot differ.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::base64;

/// The largest file that is read into memory, in bytes.
const LARGEST: u64 = 256 << 20;

/// The name, the description and the fields of an operation or of a step.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) fields: &'static [Field],
}

pub(crate) struct Field {
    pub(super) name: &'static str,
    kind: Kind,
    pub(super) presence: Presence,
    about: &'static str,
}

/// The type of a field.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A path or a `file:` URI.
    Path,
    Text,
    /// Text, or Base64 in a field whose name has the suffix `_base64`.
    Bytes,
    /// A list of texts, or a list of Base64 in a field whose name has the suffix `_base64`.
    Pieces,
    /// A list of texts.
    Texts,
    Integer,
    /// A number of bytes to hold in memory, at most [`LARGEST`].
    Size,
    /// Milliseconds since 1970, which may be negative.
    Time,
    Boolean,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A list of objects, each in one of these forms.
    Steps(&'static [Form]),
}

pub(super) enum Presence {
    Required,
    Optional,
    /// The default, as JSON.
    Default(&'static str),
}

pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, presence: Presence::Required, about }
}

pub(crate) const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, presence: Presence::Optional, about }
}

/// A field with a default, which is JSON.
pub(crate) const fn or(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Field {
    Field { name, kind, presence: Presence::Default(default), about }
}

impl Field {
    #[cfg(test)]
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(test)]
    pub(crate) fn is_required(&self) -> bool {
        matches!(self.presence, Presence::Required)
    }

    pub(super) fn is_named(&self, name: &str) -> bool {
        let is_base64 = |rest: &str| rest == "_base64" && self.kind.has_base64();
        name.strip_prefix(self.name).is_some_and(|rest| rest.is_empty() || is_base64(rest))
    }

    /// Whether a value has the type of the field. `name` says whether it is Base64.
    pub(crate) fn accepts(&self, name: &str, value: &Value) -> bool {
        let is_bytes = |value: &Value| {
            let is_base64 = |text| name == self.name || base64::decode(text).is_some();
            value.as_str().is_some_and(is_base64)
        };
        match self.kind {
            Kind::Path | Kind::Text => value.is_string(),
            Kind::Bytes => is_bytes(value),
            Kind::Texts => value.as_array().is_some_and(|texts| texts.iter().all(Value::is_string)),
            Kind::Pieces => value.as_array().is_some_and(|pieces| pieces.iter().all(is_bytes)),
            Kind::Integer => value.is_u64(),
            Kind::Size => value.as_u64().is_some_and(|size| size <= LARGEST),
            Kind::Time => value.is_i64(),
            Kind::Boolean => value.is_boolean(),
            Kind::Choice(choices) => value.as_str().is_some_and(|text| choices.contains(&text)),
            Kind::Steps(_) => value.is_array(),
        }
    }

    pub(super) fn expects(&self, name: &str) -> String {
        match self.kind {
            Kind::Bytes if name != self.name => "Base64 with padding".into(),
            Kind::Pieces if name != self.name => "a list of Base64 texts with padding".into(),
            Kind::Choice(choices) => format!("one of {}", choices.join(", ")),
            kind => kind.to_string(),
        }
    }
}

impl Kind {
    fn has_base64(self) -> bool {
        matches!(self, Self::Bytes | Self::Pieces)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Path => "a path or file: URI",
            Self::Text | Self::Bytes => "a text",
            Self::Texts | Self::Pieces => "a list of texts",
            Self::Integer => "a non-negative integer",
            Self::Size => return write!(f, "a number of bytes, at most {LARGEST}"),
            Self::Time => "an integer, in milliseconds since 1970",
            Self::Boolean => "true or false",
            Self::Choice(choices) => return f.write_str(&choices.join("|")),
            Self::Steps(_) => "a list of objects",
        })
    }
}

/// Adds the fields of a form to the help text.
pub(crate) fn describe(fields: &[Field], indent: usize, help: &mut String) {
    for Field { name, kind, presence, about } in fields {
        let presence = match presence {
            Presence::Required => "required".into(),
            Presence::Optional => "optional".into(),
            Presence::Default(default) => format!("default {default}"),
        };
        let base64 = if kind.has_base64() { "[_base64]" } else { "" };
        let field = format!("{name}{base64}");
        let _ = writeln!(help, "{:indent$}{field}: {kind}, {presence}. {about}", "");
        if let Kind::Steps(forms) = kind {
            for form in *forms {
                let _ = writeln!(help, "{:1$}- op {2}: {3}", "", indent + 2, form.name, form.about);
                describe(form.fields, indent + 6, help);
            }
        }
    }
}
