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
mod perform;
mod reply;
mod request;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use command_line::{OPTIONS, Options};
use mcp_roots_guard::Roots;
use mcp_roots_guard::limits::MESSAGE_BYTES;
use perform::Performer;
use reply::Failure;
use request::{Common, Operation};
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
        match Options::parse(arguments.into_iter(), |_, _| false).and_then(Options::roots) {
            Ok(roots) => {
                for rejected in roots.rejected() {
                    eprintln!("operate: rejected: {}", rejected.error());
                }
                serve(&roots, input, out)
            }
            Err(message) => {
                eprintln!("operate: {message}\n\n{USAGE}\n{OPTIONS}");
                return ExitCode::from(2);
            }
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The program that reads the output has closed it, as `head` does. That is not a failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("operate: {error}");
            ExitCode::FAILURE
        }
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
        Some((name.clone(), variant["description"].as_str()?.to_owned(), fields.clone()))
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

/// Adds the fields of an operation or a change to the help text.
fn describe(schema: &Value, indent: usize, help: &mut String) {
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if name == "op" {
            continue;
        }
        let presence = match &field["default"] {
            _ if required.is_some_and(|names| names.iter().any(|it| it == name)) => {
                "required".into()
            }
            Value::Null => "optional".into(),
            default => format!("default {default}"),
        };
        let kind = match (&field["enum"], &field["type"]) {
            (Value::Array(choices), _) => choices.iter().map(Value::to_string).collect(),
            (_, Value::Array(kinds)) => kinds.iter().take(1).map(Value::to_string).collect(),
            (_, kind) => vec![kind.to_string()],
        };
        let (kind, about) = (kind.join("|"), field["description"].as_str().unwrap_or_default());
        let _ = writeln!(help, "{:indent$}{name}: {kind}, {presence}. {about}", "");
        let changes = field.pointer("/items/oneOf").and_then(Value::as_array);
        for change in changes.into_iter().flatten() {
            let text = |at| change.pointer(at).and_then(Value::as_str).unwrap_or_default();
            let (name, about) = (text("/properties/op/const"), text("/description"));
            let _ = writeln!(help, "{:1$}- op {name}: {about}", "", indent + 2);
            describe(change, indent + 6, help);
        }
    }
}

fn serve(roots: &Roots, mut input: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let fields = common_fields();
    let fields = fields.get("properties").and_then(Value::as_object);
    let common_names: Vec<_> = fields.into_iter().flat_map(Map::keys).cloned().collect();
    let mut line = Vec::new();
    while let Some(is_complete) = read_line(&mut input, &mut line)? {
        let answer = if is_complete {
            answer(roots, &common_names, &line)
        } else {
            let message = format!("the line is longer than {MESSAGE_BYTES} bytes");
            Err(Failure::Invalid("line_too_long", message))
        };
        let answer = match answer {
            Ok(value) => json!({"ok": value}),
            Err(failure) => json!({"error": failure.to_json()}),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// Reads a line without its newline. Returns `None` at the end of the input, and false for a line
/// that is too long, whose rest is skipped.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let mut is_complete = true;
    let mut is_end = true;
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok((!is_end).then_some(is_complete));
        }
        is_end = false;
        let newline = available.iter().position(|byte| *byte == b'\n');
        let part = available.get(..newline.unwrap_or(available.len())).unwrap_or_default();
        if line.len() + part.len() > MESSAGE_BYTES {
            is_complete = false;
            line.clear();
        } else if is_complete {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            return Ok(Some(is_complete));
        }
    }
}

fn answer(roots: &Roots, common_names: &[String], line: &[u8]) -> Result<Value, Failure> {
    let values = match serde_json::from_slice(line) {
        Ok(Value::Object(values)) => values,
        Ok(_) => {
            let message = "the line is not a JSON object".into();
            return Err(Failure::Invalid("not_an_object", message));
        }
        Err(error) => {
            return Err(Failure::Invalid("not_json", format!("the line is not JSON: {error}")));
        }
    };
    let mut values = base64_values(values)?;
    let op = match values.remove("op") {
        Some(Value::String(op)) => op,
        Some(_) => {
            return Err(Failure::Invalid("wrong_type", "field \"op\" must be a text".into()));
        }
        None => {
            return Err(Failure::Invalid("missing_field", "field \"op\" is required".into()));
        }
    };
    let mut common = Map::new();
    for name in common_names {
        common.extend(values.remove_entry(name));
    }
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
        Failure::Invalid(code, message.chars().take(SHOWN).collect())
    })
}

/// Renames fields with the suffix `_base64`, whose texts are Base64, also those of changes.
fn base64_values(values: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    let mut renamed = Map::new();
    for (name, value) in values {
        let (name, value) = match (name.strip_suffix("_base64"), value) {
            (Some(name), Value::Array(texts)) => {
                let texts: Value = texts.into_iter().map(|text| json!({"base64": text})).collect();
                (name.to_owned(), texts)
            }
            (Some(name), text) => (name.to_owned(), json!({"base64": text})),
            (None, Value::Array(values)) => {
                let values = values.into_iter().map(|value| match value {
                    Value::Object(values) => base64_values(values).map(Value::Object),
                    value => Ok(value),
                });
                (name, Value::Array(values.collect::<Result<_, _>>()?))
            }
            (None, value) => (name, value),
        };
        if renamed.contains_key(&name) {
            let message = format!("{name:?} and its Base64 form are exclusive");
            return Err(Failure::Invalid("conflicting_fields", message));
        }
        renamed.insert(name, value);
    }
    Ok(renamed)
}

/// How many characters are shown of why a request is not valid.
const SHOWN: usize = 300;
