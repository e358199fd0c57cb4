//! Prints whether each request is allowed, and the reason for a refusal.
//!
//! `check --root DIR_OR_URI... [OPTION...]` reads one request per line from standard input: a path or
//! a URI, or either as a JSON string. It writes one JSON object per line to standard output:
//!
//! ```text
//! {"decision":"allowed","path":…,"root":…,"relative":…,"exists":…,"type":…}
//! {"decision":"refused","kind":"outside_roots","message":…}
//! ```
//!
//! With `--intent open`, the default, the requested file must exist. Its type is `null` if it cannot
//! be looked up, and special files are refused only when they are opened. With `--intent create`, the
//! parent directory must exist and the file must be writable, but need not exist. Paths that are not
//! valid UTF-8 are printed with replacement characters.
//!
//! With `--explain yes`, it writes the steps of each decision instead, and what the operator could
//! change.
//!
//! The other options configure the boundary as a server would. With `--list` or `--list-none`, the
//! requests come from a client that sends this list of roots. Rejected entries are reported on
//! standard error.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use command_line::{OPTIONS, Options};
use mcp_roots_guard::{Error, Roots};
use serde_json::{Value, json};

mod command_line;

const USAGE: &str = "\
usage: check --root DIR_OR_URI [OPTION...] < REQUESTS

Prints whether each request is allowed. REQUESTS has one path, URI or JSON string per line. Options with
DIR, DIR_OR_URI, NAME or URI can be repeated. Options for the same directory are combined, and at
least one directory is required.
";

const INTENTS: &str = "  --intent open       the requested file must exist (default)
  --intent create     the parent directory must exist, and the file must be writable
  --explain yes       print the steps of each decision, and what the operator could change";

fn main() -> ExitCode {
    if std::env::args_os().skip(1).any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}\n{OPTIONS}\n{INTENTS}");
        return ExitCode::SUCCESS;
    }
    let (roots, intent, form) = match configuration(std::env::args_os().skip(1)) {
        Ok(configuration) => configuration,
        Err(message) => {
            eprintln!("check: {message}\n\n{USAGE}\n{OPTIONS}\n{INTENTS}");
            return ExitCode::from(2);
        }
    };
    for rejected in roots.rejected() {
        eprintln!("check: rejected: {}", rejected.error());
    }
    match answer_all(&roots, intent, form) {
        Ok(()) => ExitCode::SUCCESS,
        // The program that reads the output has closed it, as `head` does. That is not a failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("check: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is decided.
#[derive(Clone, Copy, PartialEq)]
enum Intent {
    Open,
    Create,
}

/// The form of the output.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Json,
    Steps,
}

fn configuration(
    arguments: impl Iterator<Item = OsString>,
) -> Result<(Roots, Intent, Form), String> {
    let (mut intent, mut form) = (Intent::Open, Form::Json);
    let options = Options::parse(arguments, |option, value| {
        match (option, value) {
            ("--intent", "open") => intent = Intent::Open,
            ("--intent", "create") => intent = Intent::Create,
            ("--explain", "yes") => form = Form::Steps,
            _ => return false,
        }
        true
    })?;
    Ok((options.roots()?, intent, form))
}

fn answer_all(roots: &Roots, intent: Intent, form: Form) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().split(b'\n') {
        match (request(&line?), form) {
            (Ok(request), Form::Json) => {
                writeln!(out, "{}", answer(roots, intent, &request))?;
            }
            (Ok(request), Form::Steps) => {
                writeln!(out, "{request:?}\n{}\n", roots.explain(&request))?;
            }
            (Err(message), _) => {
                let refused =
                    json!({"decision": "refused", "kind": "not_json", "message": message});
                writeln!(out, "{refused}")?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// A line that begins with a quotation mark is a JSON string. Any other line is the request itself.
fn request(line: &[u8]) -> Result<String, String> {
    if line.starts_with(b"\"") {
        return serde_json::from_slice(line).map_err(|error| error.to_string());
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec()).map_err(|_| "the line is not UTF-8".to_owned())
}

fn answer(roots: &Roots, intent: Intent, request: &str) -> Value {
    let checked = match roots.check(request) {
        Ok(checked) => checked,
        Err(error) => return refused(&error),
    };
    let why = roots.explain(request);
    // A file that is opened must be there. A file that is created also needs its directory, and a
    // place that can be written.
    let rules = match intent {
        Intent::Open if checked.exists() => Ok(&checked),
        Intent::Open => why.reading(),
        Intent::Create => why.writing(),
    };
    if let Err(error) = rules {
        return refused(error);
    }
    let kind = checked.metadata().map(|metadata| metadata.file_type().to_string());
    json!({
        "decision": "allowed",
        "path": checked.to_unguarded_path().display().to_string(),
        "root": checked.root().path().to_string_lossy(),
        "relative": checked.relative().to_string_lossy(),
        "exists": checked.exists(),
        "type": kind.ok(),
    })
}

fn refused(error: &Error) -> Value {
    json!({"decision": "refused", "kind": error.code(), "message": error.to_string()})
}
