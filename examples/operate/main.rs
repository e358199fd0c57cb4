//! Performs file operations on request, so that programs in any language can use or test the guard.
//!
//! `operate --root DIR_OR_URI... [OPTION...]` reads one JSON object per line from standard input,
//! and writes one JSON object per line to standard output, in the same order:
//!
//! ```text
//! {"op":"write","path":"notes.txt","content":"hello"}
//! {"ok":{}}
//! {"op":"copy","from":"notes.txt","to":"copies/notes.txt","create_parents":true}
//! {"ok":{"bytes":5}}
//! {"op":"read","path":"../secret.txt"}
//! {"error":{"kind":"OutsideRoots","code":"outside_roots","message":…}}
//! ```
//!
//! `--help` describes all operations and their fields. The options configure the boundary as a
//! server's configuration does.

#[path = "../command_line/mod.rs"]
mod command_line;
mod fields;
mod operation;
mod reply;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _, Write};
use std::process::ExitCode;

use command_line::{OPTIONS, Options};
use fields::Common;
use mcp_roots_guard::Roots;
use mcp_roots_guard::limits::MESSAGE_BYTES;
use operation::{Operation, Performer};
use reply::Failure;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const USAGE: &str = "\
usage: operate --root DIR_OR_URI [OPTION...] < REQUESTS

Performs file operations. REQUESTS has one JSON object per line, such as
{\"op\":\"read\",\"path\":\"notes.txt\"}. The response to each is one line with either
{\"ok\":{...}} or {\"error\":{\"kind\":...,\"code\":...,\"message\":...}}.
";

const FORMATS: &str = "\
A `file:` URI can also name a file whose name is not UTF-8. In responses, \"path\" is for display,
and \"uri\" is added if the path is not UTF-8. Content that is not UTF-8 is Base64, in a field with
the suffix _base64, both in requests and in responses. Times are in milliseconds since 1970. An
invalid request has no effect, and its error has the kind InvalidRequest.
";

fn main() -> ExitCode {
    run(std::env::args_os().skip(1), io::stdin().lock(), &mut io::stdout().lock())
}

/// Runs the program.
pub(crate) fn run(
    arguments: impl Iterator<Item = OsString>,
    input: impl BufRead,
    out: &mut impl Write,
) -> ExitCode {
    let arguments: Vec<_> = arguments.collect();
    let result = if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        out.write_all(help().as_bytes())
    } else {
        let roots = Options::parse(arguments.into_iter(), |_, _| false).and_then(Options::roots);
        let roots = match roots {
            Ok(roots) => roots,
            Err(message) => {
                eprintln!("operate: {message}\n\n{USAGE}\n{OPTIONS}");
                return ExitCode::from(2);
            }
        };
        for rejected in roots.rejected() {
            eprintln!("operate: rejected: {}", rejected.error());
        }
        serve(&roots, input, out)
    };
    match result {
        // The program that reads the output has closed it, as `head` does. That is not a failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("operate: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn help() -> String {
    let mut help = format!("{USAGE}\n{OPTIONS}\n\n{FORMATS}\nCommon fields of all operations:\n");
    describe(&common_fields(), 2, &mut help);
    help += "\nOperations:\n";
    for (name, about, fields) in operations() {
        let _ = writeln!(help, "\n{name}: {about}");
        describe(&fields, 2, &mut help);
    }
    help
}

/// The name, the description and the schema of the fields of each operation.
pub(crate) fn operations() -> Vec<(String, String, Value)> {
    let schema = schema::<Operation>();
    let variants = schema.pointer("/oneOf").and_then(Value::as_array).into_iter().flatten();
    let operation = |variant: &Value| {
        let (name, fields) = variant["properties"].as_object()?.iter().next()?;
        Some((name.clone(), text(variant, "/description").to_owned(), fields.clone()))
    };
    variants.filter_map(operation).collect()
}

/// The schema of the fields that every operation has.
pub(crate) fn common_fields() -> Value {
    schema::<Common>()
}

fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().into()
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// Adds the fields of an operation or a change to the help text.
fn describe(schema: &Value, indent: usize, help: &mut String) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let required = list(&schema["required"]);
    let fields = schema["properties"].as_object().into_iter().flatten();
    for (name, field) in fields.filter(|(name, _)| *name != "op") {
        let presence = match &field["default"] {
            _ if required.contains(&json!(name)) => "required".into(),
            Value::Null => "optional".into(),
            default => format!("default {default}"),
        };
        let kind = match (&field["enum"], &field["type"]) {
            (Value::Array(choices), _) => choices.iter().map(Value::to_string).collect(),
            // The other type is null.
            (_, Value::Array(kinds)) => kinds.iter().take(1).map(Value::to_string).collect(),
            (_, kind) => vec![kind.to_string()],
        };
        let (kind, about) = (kind.join("|"), text(field, "/description"));
        let _ = writeln!(help, "{:indent$}{name}: {kind}, {presence}. {about}", "");
        for change in field.pointer("/items/oneOf").map(list).unwrap_or_default() {
            let (name, about) =
                (text(&change, "/properties/op/const"), text(&change, "/description"));
            let _ = writeln!(help, "{:1$}- op {name}: {about}", "", indent + 2);
            describe(&change, indent + 6, help);
        }
    }
}

fn serve(roots: &Roots, mut input: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let common = common_fields();
    let common = common.get("properties").unwrap_or(&Value::Null);
    let mut line = Vec::new();
    // With its newline, a line has one byte more.
    while input.by_ref().take(MESSAGE_BYTES as u64 + 1).read_until(b'\n', &mut line)? > 0 {
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let answer = if text.len() <= MESSAGE_BYTES {
            answer(roots, common, text)
        } else {
            input.skip_until(b'\n')?;
            let message = format!("the line is longer than {MESSAGE_BYTES} bytes");
            Err(Failure::invalid("line_too_long", &message))
        };
        let answer = match answer {
            Ok(value) => json!({"ok": value}),
            Err(Failure(error)) => json!({"error": error}),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
        line.clear();
    }
    Ok(())
}

/// Answers a request. `common` has the names of the fields that every operation has.
fn answer(roots: &Roots, common: &Value, line: &[u8]) -> Result<Value, Failure> {
    let is_invalid =
        |error| Failure::invalid("not_json", &format!("the line is not JSON: {error}"));
    let Value::Object(values) = serde_json::from_slice(line).map_err(is_invalid)? else {
        return Err(Failure::invalid("not_an_object", "the line is not a JSON object"));
    };
    let mut values = base64_values(values)?;
    let op = match values.remove("op") {
        Some(Value::String(op)) => op,
        Some(_) => return Err(Failure::invalid("wrong_type", "field \"op\" must be a text")),
        None => return Err(Failure::invalid("missing_field", "field \"op\" is required")),
    };
    let is_common = |(name, _): &(String, Value)| common.get(name).is_some();
    let (common, values): (Map<_, _>, Map<_, _>) = values.into_iter().partition(is_common);
    let performer = Performer::new(roots, parse(common.into())?)?;
    performer.perform(parse(json!({ op: values }))?)
}

/// Reads a value of a request.
fn parse<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        let message = error.to_string();
        let is = |start| message.starts_with(start);
        let code = match () {
            () if is("unknown field") => "unknown_field",
            () if is("missing field") => "missing_field",
            // Operations and changes have this name, and no other choices do.
            () if is("unknown variant") && message.contains("`rename`") => "unknown_operation",
            () => "wrong_type",
        };
        Failure::invalid(code, &message.chars().take(SHOWN).collect::<String>())
    })
}

/// Renames fields with the suffix `_base64`, whose texts are Base64, also those of changes.
fn base64_values(values: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    let encoded = |text| json!({ "base64": text });
    let mut renamed = Map::new();
    for (name, value) in values {
        let plain = name.strip_suffix("_base64");
        let value = match value {
            Value::Array(texts) if plain.is_some() => texts.into_iter().map(encoded).collect(),
            text if plain.is_some() => encoded(text),
            Value::Array(values) => {
                let values = values.into_iter().map(|value| match value {
                    Value::Object(values) => base64_values(values).map(Value::Object),
                    value => Ok(value),
                });
                values.collect::<Result<_, _>>()?
            }
            value => value,
        };
        let name = plain.unwrap_or(&name);
        if renamed.insert(name.to_owned(), value).is_some() {
            let message = format!("{name:?} and its Base64 form are exclusive");
            return Err(Failure::invalid("conflicting_fields", &message));
        }
    }
    Ok(renamed)
}

/// How many characters are shown of why a request is not valid.
const SHOWN: usize = 300;
