//! Prints whether each request is allowed, and the reason for a refusal.
//!
//! `check --root DIR_OR_URI... [OPTION...]` reads one request per line from standard input, each as
//! a JSON string. It writes one JSON object per line to standard output:
//!
//! ```text
//! {"decision":"allowed","path":…,"root":…,"relative":…,"exists":…}
//! {"decision":"refused","kind":"outside_roots","message":…}
//! ```
//!
//! With `--intent open`, the default, the requested file must exist. With `--intent create`, the
//! parent directory must exist and the file must be writable, but need not exist. Paths that are
//! not valid UTF-8 are printed with replacement characters.
//!
//! The other options configure the boundary as a server would. With `--list` or `--list-none`, the
//! requests come from a client that sends this list of roots. Rejected entries are reported on
//! standard error.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use command_line::{OPTIONS, Options};
use mcp_roots_guard::{Access, Intent, Roots};
use serde_json::{Value, json};

mod command_line;

const USAGE: &str = "\
usage: check --root DIR_OR_URI [OPTION...] < REQUESTS

Prints whether each request is allowed. REQUESTS has one JSON string per line. Options with
DIR, DIR_OR_URI, NAME or URI can be repeated. Options for the same directory are combined, and at
least one directory is required.
";

const INTENTS: &str = "  --intent open       the requested file must exist (default)
  --intent create     the parent directory must exist, and the file must be writable";

fn main() -> ExitCode {
    if std::env::args_os().skip(1).any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}\n{OPTIONS}\n{INTENTS}");
        return ExitCode::SUCCESS;
    }
    let (roots, intent) = match configuration(std::env::args_os().skip(1)) {
        Ok(configuration) => configuration,
        Err(message) => {
            eprintln!("check: {message}\n\n{USAGE}\n{OPTIONS}\n{INTENTS}");
            return ExitCode::from(2);
        }
    };
    for rejected in roots.rejected() {
        eprintln!("check: rejected: {}", rejected.error());
    }
    match answer_all(&roots, intent) {
        Ok(()) => ExitCode::SUCCESS,
        // The program that reads the output has closed it, as `head` does. That is not a failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn configuration(arguments: impl Iterator<Item = OsString>) -> Result<(Roots, Intent), String> {
    let mut intent = Intent::Existing;
    let options = Options::parse(arguments, |option, value| match (option, value) {
        ("--intent", "open") => {
            intent = Intent::Existing;
            true
        }
        ("--intent", "create") => {
            intent = Intent::New;
            true
        }
        _ => false,
    })?;
    Ok((options.roots()?, intent))
}

fn answer_all(roots: &Roots, intent: Intent) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().split(b'\n') {
        let answer = match serde_json::from_slice::<String>(&line?) {
            Ok(request) => answer(roots, intent, &request),
            Err(error) => {
                json!({"decision": "refused", "kind": "not_json", "message": error.to_string()})
            }
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(roots: &Roots, intent: Intent, request: &str) -> Value {
    match roots.check(request, intent) {
        Ok(checked) if intent == Intent::New && checked.access() == Access::ReadOnly => {
            let message = format!("create {request:?}: read-only");
            json!({"decision": "refused", "kind": "read_only", "message": message})
        }
        Ok(checked) => json!({
            "decision": "allowed",
            "path": checked.display_path(),
            "root": checked.root().path().to_string_lossy(),
            "relative": checked.relative().to_string_lossy(),
            "exists": checked.exists(),
        }),
        Err(error) => {
            json!({"decision": "refused", "kind": error.code(), "message": error.to_string()})
        }
    }
}
