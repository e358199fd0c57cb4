//! Prints whether each request is allowed, and the reason for a refusal.
//!
//! `check --root DIR_OR_URI... [--intent open|create]` reads one request per line from standard
//! input, each as a JSON string. It writes one JSON object per line to standard output:
//!
//! ```text
//! {"decision":"allowed","path":…,"root":…,"relative":…,"exists":…}
//! {"decision":"refused","kind":"outside_roots","message":…}
//! ```
//!
//! With `--intent open`, the default, the requested file must exist. With `--intent create`, its
//! parent directory must exist, but the file need not. Paths that are not valid UTF-8 are printed
//! with replacement characters.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use mcp_roots_guard::{Access, Boundary, Intent, Location, Roots};
use serde_json::{Value, json};

const USAGE: &str = "\
usage: check --root DIR_OR_URI [--root DIR_OR_URI]... [--intent open|create] < REQUESTS

Prints whether each request is allowed. REQUESTS has one JSON string per line.

  --root DIR_OR_URI   a directory or `file:` URI to allow
  --intent open       the requested file must exist (default)
  --intent create     the parent directory must exist";

fn main() -> ExitCode {
    if std::env::args_os().skip(1).any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let (roots, intent) = match configuration() {
        Ok(configuration) => configuration,
        Err(message) => {
            eprintln!("check: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
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

fn configuration() -> Result<(Roots, Intent), String> {
    let mut boundary = Boundary::builder();
    let mut any = false;
    let mut intent = Intent::Existing;
    let mut arguments = std::env::args_os().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("option {} requires a value", option.to_string_lossy()))?;
        match (option.to_str(), value.to_str()) {
            (Some("--root"), text) => {
                // A value that is not valid UTF-8 can only be a path, because a URI is always
                // UTF-8.
                let root = text.map_or_else(|| Location::from_path(&value), Location::parse);
                boundary = boundary.directory(
                    root.map_err(|error| error.to_string())?.as_path(),
                    Access::ReadWrite,
                );
                any = true;
            }
            (Some("--intent"), Some("open")) => intent = Intent::Existing,
            (Some("--intent"), Some("create")) => intent = Intent::New,
            _ => {
                return Err(format!(
                    "unknown option or value: {} {}",
                    option.to_string_lossy(),
                    value.to_string_lossy()
                ));
            }
        }
    }
    if !any {
        return Err("at least one --root is required".into());
    }
    let roots = boundary
        .build()
        .map(|boundary| boundary.allowed_roots())
        .map_err(|error| error.to_string())?;
    Ok((roots, intent))
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
