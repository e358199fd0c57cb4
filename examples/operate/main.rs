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

mod base64;
mod change;
#[path = "../command_line/mod.rs"]
mod command_line;
mod form;
mod look;
pub(crate) mod operations;
mod reply;
mod request;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use command_line::{OPTIONS, Options};
use form::describe;
use mcp_roots_guard::Roots;
use mcp_roots_guard::limits::MESSAGE_BYTES;
use operations::{COMMON, OPERATIONS};
use request::{Failure, Request, form_of};
use serde_json::{Value, json};

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
    describe(COMMON, 2, &mut help);
    help += "\nOperations:\n";
    for operation in OPERATIONS {
        let _ = writeln!(help, "\n{}: {}", operation.form.name, operation.form.about);
        describe(operation.form.fields, 2, &mut help);
    }
    help
}

fn serve(roots: &Roots, mut input: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    while let Some(is_complete) = read_line(&mut input, &mut line)? {
        let answer = if is_complete {
            answer(roots, &line)
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

fn answer(roots: &Roots, line: &[u8]) -> Result<Value, Failure> {
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
    let operation = form_of(&values, OPERATIONS, |operation| &operation.form)?;
    let mut request = Request::new(roots, &operation.form, COMMON, values)?;
    operations::narrow(&mut request)?;
    (operation.run)(&request)
}
