//! Requests against a hostile workspace: `cargo run --example quickstart`.
//!
//! The program builds a temporary directory with symlinks, odd names and special files, resolves a
//! `roots/list` result as real clients send it against two allowed directories, and prints the roots in
//! force, the rejected entries and the result of each request. It fails, and says why, unless each
//! request in [`ROWS`] was allowed or refused as stated there, refusals are the same whether or not
//! something exists outside, and nothing outside the roots changed.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use Do::{AddDir, Append, List, Look, Move, Purge, Read, Unlink, Write};
use mcp_roots_guard::{
    Access, Boundary, ListRootsResult, OpenOptions, Policy, Replace, Roots, Rule,
};

/// A client's answer to `roots/list`. Some entries are good.
const ROOT_LIST: &str = r#"{
  "roots": [
    { "uri": "file://$WORK/projects/root", "name": "Main project" },
    { "uri": "vscode-remote://ssh-remote+host/home/me/app", "name": "Remote" },
    { "uri": "file://$WORK/projects/lib/", "name": null },
    { "uri": "file://$WORK/projects/gone" },
    { "uri": "file://localhost$WORK/manuals", "name": "Manuals", "colour": "blue" },
    { "uri": "file://$WORK/projects/my%20notes" },
    { "uri": "file://$WORK/projects/./root/" },
    { "uri": "file://$WORK/outside", "name": "Everything" }
  ]
}"#;

/// The workspace: kind, path, and a file's content or a symlink's target. `odd` is a file whose name
/// Windows does not allow.
const TREE: &[(&str, &str, &str)] = &[
    ("file", "outside/secret.txt", "SECRET"),
    ("file", "projects/root-evil/secret.txt", "SECRET"), // Not the root, though its name begins like it.
    ("file", "manuals/guide.txt", "a guide"),
    ("file", "projects/lib/lib.rs", "a library"),
    ("file", "projects/my notes/todo.txt", "to do"),
    ("file", "projects/root/readme.md", "a project"),
    ("file", "projects/root/docs/intro.md", "an intro"),
    ("file", "projects/root/a b.txt", "space"),
    ("odd", "projects/root/new\nline", "newline"),
    ("odd", "projects/root/quote\".txt", "quote"),
    ("file", "projects/root/-rf", "dash"),
    ("file", "projects/root/100%41", "percent"),
    ("link", "outside/back", "../projects/root"),
    ("link", "projects/root/in", "docs/intro.md"),
    ("link", "projects/root/in-absolute", "$WORK/projects/root/docs"),
    ("link", "projects/root/to-lib", "../lib"),
    ("link", "projects/root/out", "../../outside/secret.txt"),
    ("link", "projects/root/out-absolute", "$WORK/outside"),
    ("link", "projects/root/dangling-in", "docs/made.md"),
    ("link", "projects/root/dangling-out", "../../outside/made.md"),
    ("link", "projects/root/loop", "loop"),
    ("hard", "projects/root/hard", "outside/secret.txt"),
    ("hard", "projects/root/hard-too", "outside/secret.txt"),
    ("fifo", "projects/root/pipe", ""),
];

/// The operations of a server's tools.
#[derive(Debug)]
enum Do {
    Read,
    List,
    Look,
    Write(&'static str),
    Append(&'static str),
    AddDir,
    Move(&'static str),
    Unlink,
    Purge,
}

/// An operation, a request, and the expected result.
type Row = (Do, &'static str, Result<&'static str, &'static str>);

/// On Windows, a path without a drive is relative to the current one.
const WITHOUT_DRIVE: &str = if cfg!(windows) { "drive_relative" } else { "outside_roots" };

/// On Windows, a name before `..` need not exist.
const BEYOND_MISSING: &str = if cfg!(windows) { "outside_roots" } else { "not_found" };

/// On Windows, the host of a URI is the server of a share. Elsewhere a path cannot express it.
const OTHER_HOST: &str = if cfg!(windows) { "outside_roots" } else { "foreign_host" };

/// Run in order, with the default policy. Rows that need a file that the system cannot have are left
/// out.
const ROWS: &[Row] = &[
    // Names of what is inside: relative to the first root, absolute, as a URI.
    (Read, "readme.md", Ok("a project")),
    (Read, "$WORK/projects/root/docs/intro.md", Ok("an intro")),
    (Read, "file://$WORK/projects/my%20notes/todo.txt", Ok("to do")),
    (Read, "FILE://localhost$WORK/manuals/guide.txt", Ok("a guide")),
    (Read, "../lib/lib.rs", Ok("a library")),
    (Read, "a b.txt", Ok("space")),
    (Read, "new\nline", Ok("newline")),
    (Read, "quote\".txt", Ok("quote")),
    (Read, "-rf", Ok("dash")),
    (Read, "100%41", Ok("percent")),
    (List, "docs", Ok("intro.md")),
    // Names of what is outside, and texts that only look like them.
    (Read, "../root-evil/secret.txt", Err("outside_roots")),
    (Read, "$WORK/projects/root-evil/secret.txt", Err("outside_roots")),
    (Read, "file://$WORK/projects/root/%2e%2e/root-evil/secret.txt", Err("outside_roots")),
    (Read, "/proc/self/root/etc/passwd", Err(WITHOUT_DRIVE)),
    (Read, "%2e%2e/root-evil/secret.txt", Err("not_found")),
    (Read, "file://$WORK/projects/root/..%2froot-evil", Err("encoded_separator")),
    (Read, "file://elsewhere/share/secret.txt", Err(OTHER_HOST)),
    (Read, "https://localhost/readme.md", Err("foreign_scheme")),
    (Read, "readme.md\0.png", Err("nul")),
    (Read, "", Err("empty")),
    (Read, "readme.md/", Err("not_a_directory")),
    // Links count for where they lead, and special files for nothing.
    (Read, "in", Ok("an intro")),
    (Read, "to-lib/lib.rs", Ok("a library")),
    (Read, "in-absolute/../readme.md", Ok("a project")),
    (Read, "out", Err("outside_roots")),
    (Read, "out-absolute/secret.txt", Err("outside_roots")),
    (Read, "out-absolute/back/readme.md", Err("outside_roots")),
    (Read, "loop", Err("too_many_links")),
    (Look, "out", Ok("symlink")),
    (Look, "pipe", Ok("fifo")),
    (Read, "pipe", Err("special_file")),
    (Write("x"), "pipe", Err("special_file")),
    (Read, "hard", Ok("SECRET")), // Nothing in the path tells that it has a name outside: see below.
    // Writing, and creating through links.
    (Write("new"), "docs/new.md", Ok("3 bytes")),
    (Append("er"), "docs/new.md", Ok("2 bytes")),
    (Read, "docs/new.md", Ok("newer")),
    (Write("made"), "dangling-in", Ok("4 bytes")),
    (Write("x"), "dangling-out", Err("outside_roots")),
    (Append("x"), "out", Err("outside_roots")),
    (Write("mine"), "hard-too", Ok("4 bytes")), // A new file takes the name; the other name keeps the old one.
    (Write("x"), "$WORK/manuals/guide.txt", Err("read_only")),
    (AddDir, "a/b/c", Ok("made")),
    (AddDir, "a/x/../../../../outside/d", Err(BEYOND_MISSING)),
    // Renaming and removing: a link itself, never what it points to, and never a root.
    (Move("docs/moved.md"), "docs/new.md", Ok("renamed")),
    (Move("../../outside/moved.md"), "readme.md", Err("outside_roots")),
    (Move("../lib/out"), "out", Ok("renamed")),
    (Read, "../lib/out", Err("outside_roots")),
    (Unlink, "../lib/out", Ok("removed")),
    (Purge, "a", Ok("removed")),
    (Purge, "out-absolute", Err("not_a_directory")),
    (Purge, ".", Err("root_itself")),
    (Move("stolen"), "../lib", Err("root_itself")),
];

/// With a policy that refuses files with several hard links.
const STRICT_ROWS: &[Row] = &[
    (Read, "hard", Err("hard_linked")),
    (Append("x"), "hard", Err("hard_linked")),
    (Read, "hard-too", Ok("mine")),
];

/// A request for something outside that exists, and one for something that does not. The refusals must
/// be the same.
const ORACLES: &[(&str, &str)] = &[
    ("$WORK/outside/secret.txt", "$WORK/outside/nothing"),
    ("out-absolute/back/readme.md", "out-absolute/nowhere/readme.md"),
];

/// The largest file that a tool reads.
const LIMIT: u64 = 1 << 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let keep = tempfile::Builder::new().prefix("quickstart-").tempdir()?;
    let work = dunce::canonicalize(keep.path())?;
    let work = work.to_str().ok_or("the temporary directory's path is not UTF-8")?;
    let missing = build(work)?;

    // The server's configuration bounds what any client can name.
    let boundary = |policy| {
        Boundary::builder()
            .directory(format!("{work}/projects"), Access::ReadWrite)
            .directory(format!("{work}/manuals"), Access::ReadOnly)
            .policy(policy)
            .build()
    };
    let list: ListRootsResult = serde_json::from_str(&expand(ROOT_LIST, work))?;
    let roots = boundary(Policy::default())?.resolve(&list)?;
    let strict = boundary(Policy::default().hard_links(Rule::Refuse))?.resolve(&list)?;
    print_roots(&roots, work);

    let before = outside(work, &roots)?;
    let mut wrong = run("Requests, default policy", ROWS, &roots, work, &missing);
    wrong.extend(run("Requests, hard links refused", STRICT_ROWS, &strict, work, &missing));
    wrong.extend(oracles(&roots, work, &missing));
    if outside(work, &roots)? != before {
        wrong.push("something outside the roots changed".into());
    }

    if !wrong.is_empty() {
        eprintln!("\nWRONG:\n{}", wrong.join("\n"));
        return Ok(ExitCode::FAILURE);
    }
    if !missing.is_empty() {
        println!(
            "\nThis system cannot have these, and requests for them were left out:\n  {missing:?}"
        );
    }
    println!("\nAll requests were decided as expected, and nothing outside the roots changed.");
    Ok(ExitCode::SUCCESS)
}

/// Makes the workspace, and returns the names of what the system cannot have.
fn build(work: &str) -> std::io::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for &(kind, path, text) in TREE {
        let at = Path::new(work).join(path);
        fs::create_dir_all(at.parent().unwrap_or(&at))?;
        let is_made = match kind {
            "link" => make_link(&expand(text, work), &at)?,
            "hard" => fs::hard_link(Path::new(work).join(text), at).map(|()| true)?,
            "fifo" => make_fifo(&at)?,
            "odd" if cfg!(windows) => false,
            _ => fs::write(at, text).map(|()| true)?,
        };
        if !is_made {
            missing.push(path.rsplit('/').next().unwrap_or(path));
        }
    }
    Ok(missing)
}

#[cfg(unix)]
fn make_link(target: &str, at: &Path) -> std::io::Result<bool> {
    std::os::unix::fs::symlink(target, at).map(|()| true)
}

/// Windows lets only some users make symlinks, and Wine none.
#[cfg(windows)]
#[expect(clippy::unnecessary_wraps, reason = "as elsewhere")]
fn make_link(target: &str, at: &Path) -> std::io::Result<bool> {
    use std::os::windows::fs::{symlink_dir, symlink_file};
    let target = target.replace('/', "\\");
    let is_dir = at.parent().is_some_and(|parent| parent.join(&target).is_dir());
    let made = if is_dir { symlink_dir(target, at) } else { symlink_file(target, at) };
    Ok(made.is_ok() && at.is_symlink())
}

#[cfg(target_os = "linux")]
fn make_fifo(path: &Path) -> std::io::Result<bool> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    Ok(true)
}

/// Windows has no FIFOs, and `rustix` has no such call for other systems.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
fn make_fifo(_: &Path) -> std::io::Result<bool> {
    Ok(false)
}

/// Replaces `$WORK` by the workspace's path, in URIs in their form.
fn expand(text: &str, work: &str) -> String {
    text.replace("$WORK", &if text.contains("://") { in_uri(work) } else { work.to_owned() })
}

/// The path as in a URI after the host: on Windows with a slash before the drive.
fn in_uri(work: &str) -> String {
    let path = work.replace(std::path::MAIN_SEPARATOR, "/");
    if path.starts_with('/') { path } else { format!("/{path}") }
}

/// Whether a request names something that could not be made.
fn names_any(missing: &[&str], request: &str) -> bool {
    request.split('/').any(|name| missing.contains(&name))
}

fn print_roots(roots: &Roots, work: &str) {
    println!("Roots in force:");
    for root in roots.roots() {
        let (name, path) =
            (root.name().unwrap_or("-"), root.path().display().to_string().replace(work, "$WORK"));
        println!("  {path:<32} {:<13} {name}", format!("{:?}", root.access()));
    }
    println!("Rejected entries:");
    for rejected in roots.rejected() {
        println!(
            "  {:<48} {}",
            rejected.entry().replace(&in_uri(work), "$WORK"),
            rejected.error().code()
        );
    }
}

/// Runs and prints rows, and returns those with an unexpected result.
fn run(title: &str, rows: &[Row], roots: &Roots, work: &str, missing: &[&str]) -> Vec<String> {
    println!("\n{title}:\n  {:<30} {:<58} {:<8} {:<17} done", "do", "request", "decision", "kind");
    let mut wrong = Vec::new();
    for (what, request, expected) in rows {
        if names_any(missing, request) {
            continue;
        }
        let done = perform(roots, what, request, work);
        let (decision, kind, text) = match &done {
            Ok(text) => ("allowed", "-", text.as_str()),
            Err(error) => ("refused", error.code(), "-"),
        };
        let (name, shown) = (format!("{what:?}"), request.escape_debug().to_string());
        println!("  {name:<30} {shown:<58} {decision:<8} {kind:<17} {text}");
        if done.as_deref().map_err(mcp_roots_guard::Error::code) != *expected {
            wrong.push(format!("{name} {shown}: {done:?}, and not {expected:?}"));
        }
    }
    wrong
}

/// One request through the guard: checked and performed in one step.
fn perform(roots: &Roots, what: &Do, request: &str, work: &str) -> mcp_roots_guard::Result<String> {
    let request = expand(request, work);
    Ok(match *what {
        Read => roots.read_to_string(request, LIMIT)?,
        List => {
            let names = roots
                .read_dir(request)?
                .map(|entry| Ok(entry?.name().to_string_lossy().into_owned()));
            let mut names = names.collect::<mcp_roots_guard::Result<Vec<_>>>()?;
            names.sort();
            names.join(" ")
        }
        Look => roots.symlink_metadata(request)?.file_type().as_str().into(),
        Write(text) => roots.write(request, text).map(|()| format!("{} bytes", text.len()))?,
        Append(text) => {
            let mut file = roots.open_with(request, OpenOptions::new().append(true))?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            format!("{} bytes", text.len())
        }
        AddDir => roots.create_dir_all(request).map(|()| "made".into())?,
        Move(to) => roots.rename(request, to, Replace::Never).map(|()| "renamed".into())?,
        Unlink => roots.remove_file(request).map(|()| "removed".into())?,
        Purge => roots.remove_dir_all(request).map(|()| "removed".into())?,
    })
}

/// Compares the refusals for what exists outside and for what does not, without the quoted request.
fn oracles(roots: &Roots, work: &str, missing: &[&str]) -> Vec<String> {
    println!("\nRefusals that must be the same, whether it exists or not:");
    let refusal = |request: &str| match perform(roots, &Read, request, work) {
        Ok(text) => text,
        // It is quoted, in the system's separators.
        Err(error) => {
            let request = expand(request, work).replace('/', std::path::MAIN_SEPARATOR_STR);
            error.to_string().replace(&format!("{request:?}"), "...")
        }
    };
    let mut wrong = Vec::new();
    for (exists, does_not) in ORACLES.iter().filter(|(exists, _)| !names_any(missing, exists)) {
        let (one, other) = (refusal(exists), refusal(does_not));
        println!("  {exists:<30} {does_not:<32} {one}");
        if one != other {
            wrong.push(format!("{exists}: {one}, and {does_not}: {other}"));
        }
    }
    wrong
}

/// Everything in the workspace that is in no root: path, permissions, modification time, and content or
/// target.
fn outside(work: &str, roots: &Roots) -> std::io::Result<Vec<String>> {
    let (mut seen, mut todo) = (Vec::new(), vec![Path::new(work).to_owned()]);
    while let Some(path) = todo.pop() {
        if roots.roots().any(|root| root.path() == path) {
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
