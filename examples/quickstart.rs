//! Sends requests to a guard in a hostile workspace: `cargo run --example quickstart`.
//!
//! The program creates a temporary workspace with symlinks, odd names and special files. It
//! resolves a `roots/list` result, with entries as real clients send them, against two allowed
//! directories. Then it prints the roots in force, the rejected entries and the result of each
//! request.
//!
//! The program exits with an error, and prints the reason, in any of these cases:
//!
//! - a request in [`DEFAULT`] or [`STRICT`] does not have the expected result;
//! - a refusal differs depending on whether a file outside the roots exists;
//! - something outside the roots has changed.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use Operation::{Read, RemoveFile, Rename, Write};
use mcp_roots_guard::{Access, Boundary, ListRootsResult, Precondition, Roots};

/// The client's answer to `roots/list`, with valid and invalid entries.
const ROOT_LIST: &str = r#"{
  "roots": [
    { "uri": "file://$WORK/projects/root", "name": "Main project" },
    { "uri": "file://$WORK/projects/lib/", "name": null },
    { "uri": "file://localhost$WORK/manuals", "colour": "blue" },
    { "uri": "vscode-remote://ssh-remote+host/home/me/app" },
    { "uri": "file://$WORK/outside", "name": "Everything" }
  ]
}"#;

/// The files of the workspace: kind, path, and content or link target.
const TREE: &[(&str, &str, &str)] = &[
    ("file", "outside/secret.txt", "SECRET"),
    // Outside the root `projects/root`, although the two names have a common prefix.
    ("file", "projects/root-evil/secret.txt", "SECRET"),
    ("file", "manuals/guide.txt", "a guide"),
    ("file", "projects/lib/lib.rs", "a library"),
    ("file", "projects/root/readme.md", "a project"),
    ("file", "projects/root/docs/intro.md", "an intro"),
    ("file", "projects/root/.git/config", ""),
    ("link", "outside/back", "../projects/root"),
    ("link", "projects/root/in", "docs/intro.md"),
    ("link", "projects/root/out", "../../outside/secret.txt"),
    ("link", "projects/root/out-absolute", "$WORK/outside"),
    ("link", "projects/root/dangling", "../../outside/made.md"),
    ("link", "projects/root/loop", "loop"),
    ("hard", "projects/root/hard", "outside/secret.txt"),
    ("fifo", "projects/root/pipe", ""),
];

/// An operation that a file tool performs.
enum Operation {
    Read,
    Write,
    Rename(&'static str),
    RemoveFile,
}

/// An operation, the requested path, and the expected result: an output or an error code.
type Row = (Operation, &'static str, Result<&'static str, &'static str>);

/// The error code for an absolute path without a drive. On Windows, such a path is relative to the
/// current drive.
const WITHOUT_DRIVE: &str = if cfg!(windows) { "drive_relative" } else { "outside_roots" };

/// A title and its requests.
type Section = (&'static str, &'static [Row]);

/// The requests, in order. Rows that need a file that cannot be created on this system are skipped.
const DEFAULT: &[Section] = &[
    ("Paths inside the roots, relative to the first root, absolute, or as a URI", INSIDE),
    ("Paths outside the roots, symlinks to the outside, and special files", OUTSIDE),
    ("Writing, renaming and removing", CHANGES),
    ("A hard link to a file outside, which is allowed by default", &[(Read, "hard", Ok("SECRET"))]),
];

/// The request if the boundary refuses files with more than one hard link.
const STRICT: Section =
    ("The same if hard links are refused", &[(Read, "hard", Err("hard_linked"))]);

const INSIDE: &[Row] = &[
    (Read, "readme.md", Ok("a project")),
    (Read, "$WORK/projects/root/docs/intro.md", Ok("an intro")),
    (Read, "FILE://localhost$WORK/manuals/guide.txt", Ok("a guide")),
    (Read, "../lib/lib.rs", Ok("a library")),
    (Read, "in", Ok("an intro")),
];

const OUTSIDE: &[Row] = &[
    (Read, "../root-evil/secret.txt", Err("outside_roots")),
    (Read, "file://$WORK/projects/root/%2e%2e/root-evil/secret.txt", Err("outside_roots")),
    (Read, "file://$WORK/projects/root/..%2froot-evil", Err("encoded_separator")),
    (Read, "/proc/self/root/etc/passwd", Err(WITHOUT_DRIVE)),
    (Read, "out", Err("outside_roots")),
    (Read, "out-absolute/back/readme.md", Err("outside_roots")),
    (Read, "loop", Err("too_many_links")),
    (Read, "pipe", Err("special_file")),
];

const CHANGES: &[Row] = &[
    (Write, "docs/new.md", Ok("written")),
    (Write, "dangling", Err("outside_roots")),
    (Write, "$WORK/manuals/guide.txt", Err("read_only")),
    (Write, ".git/config", Err("protected")),
    (Rename("stolen"), "../lib", Err("root_itself")),
    (Rename("../../outside/moved.md"), "readme.md", Err("outside_roots")),
    // The symlink itself is removed, and not the file outside.
    (RemoveFile, "out", Ok("removed")),
];

/// Requests outside the roots: the first file exists, the second does not. Both refusals must be
/// the same.
const ORACLE: [&str; 2] = ["$WORK/outside/secret.txt", "$WORK/outside/nothing"];

/// The maximum size of a file to read, in bytes.
const LIMIT: u64 = 1 << 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let keep = tempfile::Builder::new().prefix("quickstart-").tempdir()?;
    let work = dunce::canonicalize(keep.path())?;
    let work = work.to_str().ok_or("the temporary directory's path is not UTF-8")?;
    let missing = build(work)?;

    // The server's configuration. A client's roots can only narrow these directories.
    let builder = Boundary::builder()
        .directory(format!("{work}/projects"), Access::ReadWrite)
        .directory(format!("{work}/manuals"), Access::ReadOnly)
        .protect_defaults();
    let list: ListRootsResult = serde_json::from_str(&expand(ROOT_LIST, work))?;
    let roots = builder.clone().build()?.narrow(&list.roots)?;
    let strict = builder.refuse_hard_links().build()?.narrow(&list.roots)?;
    print_roots(&roots, work);

    let before = outside(work, &roots)?;
    let mut wrong = Vec::new();
    for section in DEFAULT {
        wrong.extend(run(section, &roots, work, &missing));
    }
    wrong.extend(run(&STRICT, &strict, work, &missing));
    wrong.extend(oracle(&roots, work));
    if outside(work, &roots)? != before {
        wrong.push("something outside the roots changed".into());
    }

    if !wrong.is_empty() {
        eprintln!("\nUnexpected results:\n  {}", wrong.join("\n  "));
        return Ok(ExitCode::FAILURE);
    }
    if !missing.is_empty() {
        println!("\nSkipped, because this system could not create them: {missing:?}");
    }
    println!("\nAll results were as expected, and nothing outside the roots changed.");
    Ok(ExitCode::SUCCESS)
}

/// Creates the workspace, and returns the names of the files that this system could not create.
fn build(work: &str) -> std::io::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for &(kind, path, text) in TREE {
        let at = Path::new(work).join(path);
        fs::create_dir_all(at.parent().unwrap_or(&at))?;
        let is_created = match kind {
            "link" => make_link(&expand(text, work), &at)?,
            "hard" => fs::hard_link(Path::new(work).join(text), at).map(|()| true)?,
            "fifo" => make_fifo(&at)?,
            _ => fs::write(at, text).map(|()| true)?,
        };
        if !is_created {
            missing.push(path.rsplit('/').next().unwrap_or(path));
        }
    }
    Ok(missing)
}

#[cfg(unix)]
fn make_link(target: &str, at: &Path) -> std::io::Result<bool> {
    std::os::unix::fs::symlink(target, at).map(|()| true)
}

/// Windows lets only privileged users create symlinks, and Wine does not support them.
#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "the signature is the same on all systems")]
fn make_link(target: &str, at: &Path) -> std::io::Result<bool> {
    use std::os::windows::fs::{symlink_dir, symlink_file};
    let target = target.replace('/', "\\");
    let is_dir = at.parent().is_some_and(|parent| parent.join(&target).is_dir());
    let created = if is_dir { symlink_dir(target, at) } else { symlink_file(target, at) };
    Ok(created.is_ok() && at.is_symlink())
}

#[cfg(target_os = "linux")]
fn make_fifo(path: &Path) -> std::io::Result<bool> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    Ok(true)
}

/// Windows has no FIFOs, and `rustix` cannot create one on the other systems.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the signature is the same on all systems")]
fn make_fifo(_: &Path) -> std::io::Result<bool> {
    Ok(false)
}

/// Replaces `$WORK` with the path of the workspace, in URI form if the text is a URI.
fn expand(text: &str, work: &str) -> String {
    text.replace("$WORK", &if text.contains("://") { in_uri(work) } else { work.to_owned() })
}

/// The path as it appears in a URI, with a slash before the drive on Windows.
fn in_uri(work: &str) -> String {
    let path = work.replace(std::path::MAIN_SEPARATOR, "/");
    if path.starts_with('/') { path } else { format!("/{path}") }
}

/// Whether a request names a file that could not be created.
fn names_any(missing: &[&str], request: &str) -> bool {
    request.split('/').any(|name| missing.contains(&name))
}

fn print_roots(roots: &Roots, work: &str) {
    println!("The server allows $WORK/projects (read-write) and $WORK/manuals (read-only).");
    println!("\nRoots in force, from the client's list:");
    for root in roots.iter() {
        let path = root.path().display().to_string().replace(work, "$WORK");
        println!("  {path:<WIDTH$} {:?}", root.access());
    }
    println!("\nRejected entries of the client's list:");
    for rejected in roots.rejected() {
        let entry = rejected.entry().replace(&in_uri(work), "$WORK");
        println!("  {entry:<WIDTH$} {}", rejected.error().code());
    }
}

/// The width of the first column, so that each line has at most 80 columns.
const WIDTH: usize = 60;

/// Performs the requests of a section, prints the results, and describes each unexpected one.
fn run((title, rows): &Section, roots: &Roots, work: &str, missing: &[&str]) -> Vec<String> {
    println!("\n{title}:");
    let mut wrong = Vec::new();
    for (operation, request, expected) in *rows {
        if names_any(missing, request) {
            continue;
        }
        let result = perform(roots, operation, &expand(request, work));
        let name = match operation {
            Read => format!("read {request}"),
            Write => format!("write {request}"),
            Rename(to) => format!("rename {request} to {to}"),
            RemoveFile => format!("remove {request}"),
        };
        let code = result.as_deref().map_err(mcp_roots_guard::Error::code);
        match code {
            Ok(text) => println!("  {name:<WIDTH$} {text:?}"),
            Err(code) => println!("  {name:<WIDTH$} {code}"),
        }
        if code != *expected {
            wrong.push(format!("{name}: expected {expected:?}, got {result:?}"));
        }
    }
    wrong
}

/// Checks and performs one request through the guard.
fn perform(roots: &Roots, operation: &Operation, request: &str) -> mcp_roots_guard::Result<String> {
    Ok(match *operation {
        Read => roots.read_to_string(request, LIMIT)?,
        Write => roots.write(request, "new").map(|()| "written".into())?,
        Rename(to) => {
            roots.rename(request, to, Precondition::Missing).map(|()| "renamed".into())?
        }
        RemoveFile => roots.remove_file(request).map(|()| "removed".into())?,
    })
}

/// Compares the refusals for an existing and a missing file outside the roots, without the path.
fn oracle(roots: &Roots, work: &str) -> Option<String> {
    let [one, other] = ORACLE.map(|request| {
        let request = expand(request, work);
        let refused = roots.read(&request, LIMIT).map(|_| "allowed".to_owned());
        let message = refused.unwrap_or_else(|error| error.to_string());
        // The message quotes the request with the system's separators.
        let quoted = request.replace('/', std::path::MAIN_SEPARATOR_STR);
        message.replace(&format!("{quoted:?}"), "…")
    });
    println!("\nThe refusal whether or not the file outside exists:\n  {one}");
    (one != other).then(|| format!("different refusals: {one}; {other}"))
}

/// Describes each file outside the roots by its path, permissions, modification time, and content
/// or symlink target.
fn outside(work: &str, roots: &Roots) -> std::io::Result<Vec<String>> {
    let (mut seen, mut todo) = (Vec::new(), vec![Path::new(work).to_owned()]);
    while let Some(path) = todo.pop() {
        if roots.iter().any(|root| root.path() == path) {
            continue;
        }
        let metadata = path.symlink_metadata()?;
        let content = match metadata.file_type() {
            t if t.is_dir() => {
                for entry in fs::read_dir(&path)? {
                    todo.push(entry?.path());
                }
                Vec::new()
            }
            t if t.is_symlink() => fs::read_link(&path)?.into_os_string().into_encoded_bytes(),
            _ => fs::read(&path)?,
        };
        let (permissions, modified) = (metadata.permissions(), metadata.modified()?);
        seen.push(format!("{} {permissions:?} {modified:?} {content:?}", path.display()));
    }
    seen.sort();
    Ok(seen)
}
