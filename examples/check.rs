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
//! With `--intent open`, the default, the requested file must exist. With `--intent create`, its
//! parent directory must exist, but the file need not, and its place must not be read-only. Paths
//! that are not valid UTF-8 are printed with replacement characters.
//!
//! The other options configure the boundary as a server would. With `--list` or `--list-none`, the
//! requests are those of a client that sends this list of roots. Entries that grant nothing are
//! reported on standard error.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use mcp_roots_guard::{
    Access, Boundary, DirectoryOptions, Intent, ListRootsResult, Location, Protection, Roots,
    WithoutClientRoots,
};
use serde_json::{Value, json};

const USAGE: &str = "\
usage: check --root DIR_OR_URI [OPTION...] < REQUESTS

Prints whether each request is allowed. REQUESTS has one JSON string per line. Options with
DIR, DIR_OR_URI, NAME or URI can be repeated. Options for the same directory are combined, and at
least one directory is required.

  --root DIR_OR_URI   a directory or `file:` URI to allow
  --read-only-dir DIR the same, for reading only
  --always DIR        the same, not narrowed by a client's list
  --alias PATH=DIR    accept PATH as another path of an allowed directory
  --protect NAME      make files and directories with this name read-only
  --hide NAME         hide files and directories with this name
  --list URI          decide for a client that lists this root
  --list-none         decide for a client that lists no roots
  --empty deny        a client that lists no roots can access nothing (default)
  --empty allow       a client that lists no roots can access all allowed directories
  --intent open       the requested file must exist (default)
  --intent create     the parent directory must exist and be writable";

fn main() -> ExitCode {
    if std::env::args_os().skip(1).any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let configuration = Options::parse(std::env::args_os().skip(1)).and_then(|options| {
        let intent = if options.creates { Intent::New } else { Intent::Existing };
        Ok((options.roots()?, intent))
    });
    let (roots, intent) = match configuration {
        Ok(configuration) => configuration,
        Err(message) => {
            eprintln!("check: {message}\n\n{USAGE}");
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

#[derive(Default)]
struct Options {
    /// All allowed directories, each once, in the order of the options.
    directories: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    always: Vec<PathBuf>,
    /// Other paths of the directories.
    aliases: Vec<(String, PathBuf)>,
    protected: Vec<(String, Protection)>,
    empty: WithoutClientRoots,
    list: Vec<String>,
    lists_none: bool,
    creates: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(option) = arguments.next() {
            if option == "--list-none" {
                options.lists_none = true;
                continue;
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("option {} requires a value", option.to_string_lossy()))?;
            match (option.to_str(), value.to_str()) {
                (Some("--root"), _) => options.allow(directory(&value)?),
                (Some("--read-only-dir"), _) => {
                    options.read_only.push(directory(&value)?);
                    options.allow(directory(&value)?);
                }
                (Some("--always"), _) => {
                    options.always.push(directory(&value)?);
                    options.allow(directory(&value)?);
                }
                (Some("--alias"), Some(alias)) => {
                    let (alias, path) =
                        alias.split_once('=').ok_or("option --alias requires PATH=DIR")?;
                    options.aliases.push((alias.to_owned(), directory(path.as_ref())?));
                }
                (Some("--protect"), Some(name)) => {
                    options.protected.push((name.to_owned(), Protection::ReadOnly));
                }
                (Some("--hide"), Some(name)) => {
                    options.protected.push((name.to_owned(), Protection::Hidden));
                }
                (Some("--list"), Some(uri)) => options.list.push(uri.to_owned()),
                (Some("--empty"), Some("deny")) => options.empty = WithoutClientRoots::Deny,
                (Some("--empty"), Some("allow")) => {
                    options.empty = WithoutClientRoots::AllowedDirectories;
                }
                (Some("--intent"), Some("open")) => options.creates = false,
                (Some("--intent"), Some("create")) => options.creates = true,
                _ => {
                    return Err(format!(
                        "unknown option or value: {} {}",
                        option.to_string_lossy(),
                        value.to_string_lossy()
                    ));
                }
            }
        }
        Ok(options)
    }

    fn allow(&mut self, directory: PathBuf) {
        if !self.directories.contains(&directory) {
            self.directories.push(directory);
        }
    }

    /// Returns the allowed directories, or the roots in force for the client's list if there is
    /// one.
    fn roots(self) -> Result<Roots, String> {
        if self.directories.is_empty() {
            return Err("at least one --root is required".into());
        }
        if self.lists_none && !self.list.is_empty() {
            return Err("--list and --list-none are mutually exclusive".into());
        }
        let unknown = self.aliases.iter().find(|(_, path)| !self.directories.contains(path));
        if let Some((alias, path)) = unknown {
            let path = path.display();
            return Err(format!("--alias {alias}={path}: not one of the allowed directories"));
        }
        let mut boundary = Boundary::builder().empty_list(self.empty);
        for path in &self.directories {
            let is_read_only = self.read_only.contains(path);
            let access = if is_read_only { Access::ReadOnly } else { Access::ReadWrite };
            let mut options = DirectoryOptions::new(access).always(self.always.contains(path));
            for (alias, _) in self.aliases.iter().filter(|(_, directory)| directory == path) {
                options = options.alias(alias);
            }
            boundary = boundary.directory_with(path, options);
        }
        for (name, protection) in self.protected {
            boundary = boundary.protect(name, protection);
        }
        let boundary = boundary.build().map_err(|error| error.to_string())?;
        if self.list.is_empty() && !self.lists_none {
            return Ok(boundary.allowed_roots());
        }
        boundary.resolve(&ListRootsResult::from_uris(self.list)).map_err(|error| error.to_string())
    }
}

/// Parses a directory or a URI, and makes it absolute. A value that is not valid UTF-8 can only be
/// a path, because a URI is always UTF-8.
fn directory(value: &OsStr) -> Result<PathBuf, String> {
    let location = value.to_str().map_or_else(|| Location::from_path(value), Location::parse);
    let location = location.map_err(|error| error.to_string())?;
    std::path::absolute(location.as_path()).map_err(|error| error.to_string())
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
