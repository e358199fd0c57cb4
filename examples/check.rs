//! Says for each request whether it would be allowed, and if not, why.
//!
//! `check --root DIR_OR_URI… [--intent open|create]` reads requests from standard input, one JSON
//! string per line, and answers each with one JSON object per line:
//!
//! ```text
//! {"decision":"allowed","path":…,"root":…,"relative":…,"exists":…}
//! {"decision":"refused","kind":"outside_roots","message":…}
//! ```
//!
//! `open` is for what exists, `create` for what may be created. Paths that are not UTF-8 are shown
//! with replacement characters.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use mcp_roots_guard::{Access, Boundary, Intent, Location, Roots};
use serde_json::{Value, json};

const USAGE: &str = "usage: check --root DIR_OR_URI... [--intent open|create] < REQUESTS";

fn main() -> ExitCode {
    let (roots, intent) = match configuration() {
        Ok(configuration) => configuration,
        Err(message) => {
            eprintln!("check: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match answer_all(&roots, intent) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader is gone.
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
            .ok_or_else(|| format!("{} needs a value", option.to_string_lossy()))?;
        match (option.to_str(), value.to_str()) {
            (Some("--root"), text) => {
                // A directory's name need not be UTF-8; a URI is.
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
                    "unknown argument {} {}",
                    option.to_string_lossy(),
                    value.to_string_lossy()
                ));
            }
        }
    }
    if !any {
        return Err("no --root given".into());
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
