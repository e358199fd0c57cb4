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

use Operation::{
    Append, CreateDirAll, List, Metadata, Read, RemoveDirAll, RemoveFile, Rename, Write,
};
use mcp_roots_guard::{Access, Boundary, ListRootsResult, OpenOptions, Overwrite, Roots};

/// The client's answer to `roots/list`, with valid and invalid entries.
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

/// The files of the workspace: kind, path, and content or link target. An `odd` file is a regular
/// file whose name is not valid on Windows.
const TREE: &[(&str, &str, &str)] = &[
    ("file", "outside/secret.txt", "SECRET"),
    // Outside the root `projects/root`, although the two names have a common prefix.
    ("file", "projects/root-evil/secret.txt", "SECRET"),
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

/// An operation that a file tool performs.
#[derive(Debug)]
enum Operation {
    Read,
    List,
    Metadata,
    Write(&'static str),
    Append(&'static str),
    CreateDirAll,
    Rename(&'static str),
    RemoveFile,
    RemoveDirAll,
}

/// An operation, the requested path, and the expected result: an output or an error code.
type Row = (Operation, &'static str, Result<&'static str, &'static str>);

/// The error code for an absolute path without a drive. On Windows, such a path is relative to the
/// current drive.
const WITHOUT_DRIVE: &str = if cfg!(windows) { "drive_relative" } else { "outside_roots" };

/// The error code for a path with `..` after a missing directory. On Windows, `..` is removed
/// lexically, so the guard does not look up the directory.
const BEYOND_MISSING: &str = if cfg!(windows) { "outside_roots" } else { "not_found" };

/// The error code for a URI that names another host. On Windows, the host is the server of a
/// network share. On other systems, a path cannot name a host.
const OTHER_HOST: &str = if cfg!(windows) { "outside_roots" } else { "foreign_host" };

/// A title and its requests.
type Section = (&'static str, &'static [Row]);

/// The requests under the default policy, in order. Rows that need a file that cannot be created on
/// this system are skipped.
const DEFAULT: &[Section] = &[
    ("Paths inside the roots (relative to the first root, absolute, or as a URI)", INSIDE),
    ("Paths outside the roots, and malformed requests", OUTSIDE),
    ("Symlinks, which are followed only inside the roots, and special files", SYMLINKS),
    ("Hard links to a file outside, which the default policy allows", HARD_LINKS),
    ("Writing and creating", WRITES),
    ("Renaming and removing, which act on a symlink itself", REMOVALS),
];

/// The requests under a policy that refuses files with more than one hard link.
const STRICT: Section = ("Hard links under a policy that refuses them", STRICT_HARD_LINKS);

const INSIDE: &[Row] = &[
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
];

const OUTSIDE: &[Row] = &[
    (Read, "../root-evil/secret.txt", Err("outside_roots")),
    (Read, "$WORK/projects/root-evil/secret.txt", Err("outside_roots")),
    (Read, "file://$WORK/projects/root/%2e%2e/root-evil/secret.txt", Err("outside_roots")),
    (Read, "/proc/self/root/etc/passwd", Err(WITHOUT_DRIVE)),
    // In a path, as opposed to a URI, `%2e%2e` is an ordinary name.
    (Read, "%2e%2e/root-evil/secret.txt", Err("not_found")),
    (Read, "file://$WORK/projects/root/..%2froot-evil", Err("encoded_separator")),
    (Read, "file://elsewhere/share/secret.txt", Err(OTHER_HOST)),
    (Read, "https://localhost/readme.md", Err("foreign_scheme")),
    (Read, "readme.md\0.png", Err("nul")),
    (Read, "", Err("empty")),
    (Read, "readme.md/", Err("not_a_directory")),
];

const SYMLINKS: &[Row] = &[
    (Read, "in", Ok("an intro")),
    (Read, "to-lib/lib.rs", Ok("a library")),
    (Read, "in-absolute/../readme.md", Ok("a project")),
    (Read, "out", Err("outside_roots")),
    (Read, "out-absolute/secret.txt", Err("outside_roots")),
    (Read, "out-absolute/back/readme.md", Err("outside_roots")),
    (Read, "loop", Err("too_many_links")),
    (Metadata, "out", Ok("symlink")),
    (Metadata, "pipe", Ok("fifo")),
    (Read, "pipe", Err("special_file")),
    (Write("x"), "pipe", Err("special_file")),
];

const HARD_LINKS: &[Row] = &[
    (Read, "hard", Ok("SECRET")),
    // A write replaces the file under this name. The hard link outside keeps the old content.
    (Write("mine"), "hard-too", Ok("4 bytes")),
];

const WRITES: &[Row] = &[
    (Write("new"), "docs/new.md", Ok("3 bytes")),
    (Append("er"), "docs/new.md", Ok("2 bytes")),
    (Read, "docs/new.md", Ok("newer")),
    (Write("made"), "dangling-in", Ok("4 bytes")),
    (Write("x"), "dangling-out", Err("outside_roots")),
    (Append("x"), "out", Err("outside_roots")),
    (Write("x"), "$WORK/manuals/guide.txt", Err("read_only")),
    (CreateDirAll, "a/b/c", Ok("created")),
    (CreateDirAll, "a/x/../../../../outside/d", Err(BEYOND_MISSING)),
];

const REMOVALS: &[Row] = &[
    (Rename("docs/moved.md"), "docs/new.md", Ok("renamed")),
    (Rename("../../outside/moved.md"), "readme.md", Err("outside_roots")),
    (Rename("../lib/out"), "out", Ok("renamed")),
    (Read, "../lib/out", Err("outside_roots")),
    (RemoveFile, "../lib/out", Ok("removed")),
    (RemoveDirAll, "a", Ok("removed")),
    (RemoveDirAll, "out-absolute", Err("not_a_directory")),
    (RemoveDirAll, ".", Err("root_itself")),
    (Rename("stolen"), "../lib", Err("root_itself")),
];

const STRICT_HARD_LINKS: &[Row] = &[
    (Read, "hard", Err("hard_linked")),
    (Append("x"), "hard", Err("hard_linked")),
    (Read, "hard-too", Ok("mine")),
];

/// Pairs of requests outside the roots: the first file exists, the second does not. Both refusals
/// must be the same.
const ORACLES: &[(&str, &str)] = &[
    ("$WORK/outside/secret.txt", "$WORK/outside/nothing"),
    ("out-absolute/back/readme.md", "out-absolute/nowhere/readme.md"),
];

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
        .directory(format!("{work}/manuals"), Access::ReadOnly);
    let list: ListRootsResult = serde_json::from_str(&expand(ROOT_LIST, work))?;
    let roots = builder.clone().build()?.resolve(&list)?;
    let strict = builder.refuse_hard_links().build()?.resolve(&list)?;
    print_roots(&roots, work);

    let before = outside(work, &roots)?;
    let mut wrong = Vec::new();
    for section in DEFAULT {
        wrong.extend(run(section, &roots, work, &missing));
    }
    wrong.extend(run(&STRICT, &strict, work, &missing));
    wrong.extend(oracles(&roots, work, &missing));
    if outside(work, &roots)? != before {
        wrong.push("something outside the roots changed".into());
    }

    if !wrong.is_empty() {
        eprintln!("\nUnexpected results:\n  {}", wrong.join("\n  "));
        return Ok(ExitCode::FAILURE);
    }
    if !missing.is_empty() {
        println!(
            "\nThis system could not create these files, so their requests were skipped:\n  \
             {missing:?}"
        );
    }
    println!("\nAll requests had the expected results, and nothing outside the roots changed.");
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
            "odd" if cfg!(windows) => false,
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
    for root in roots.roots() {
        let (name, path) =
            (root.name().unwrap_or("-"), root.path().display().to_string().replace(work, "$WORK"));
        println!("  {path:<32} {:<13} {name}", format!("{:?}", root.access()));
    }
    println!("\nRejected entries of the client's list, with error codes:");
    for rejected in roots.rejected() {
        println!(
            "  {:<48} {}",
            rejected.entry().replace(&in_uri(work), "$WORK"),
            rejected.error().code()
        );
    }
}

/// Performs the requests of a section, prints a table, and describes each unexpected result.
fn run((title, rows): &Section, roots: &Roots, work: &str, missing: &[&str]) -> Vec<String> {
    println!(
        "\n{title}:\n  {:<32} {:<55} {:<8} {:<17} result",
        "operation", "request", "decision", "error code"
    );
    let mut wrong = Vec::new();
    for (operation, request, expected) in *rows {
        if names_any(missing, request) {
            continue;
        }
        let result = perform(roots, operation, request, work);
        let (decision, code, text) = match &result {
            Ok(text) => ("allowed", "-", text.as_str()),
            Err(error) => ("refused", error.code(), "-"),
        };
        let name = format!("{operation:?}");
        let shown =
            if request.is_empty() { "(empty)".into() } else { request.escape_debug().to_string() };
        println!("  {name:<32} {shown:<55} {decision:<8} {code:<17} {text}");
        if result.as_deref().map_err(mcp_roots_guard::Error::code) != *expected {
            wrong.push(format!("{name} {shown}: expected {expected:?}, got {result:?}"));
        }
    }
    wrong
}

/// Checks and performs one request through the guard.
fn perform(
    roots: &Roots,
    operation: &Operation,
    request: &str,
    work: &str,
) -> mcp_roots_guard::Result<String> {
    let request = expand(request, work);
    Ok(match *operation {
        Read => roots.read_to_string(request, LIMIT)?,
        List => {
            let names = roots
                .read_dir(request)?
                .map(|entry| Ok(entry?.name().to_string_lossy().into_owned()));
            let mut names = names.collect::<mcp_roots_guard::Result<Vec<_>>>()?;
            names.sort();
            names.join(" ")
        }
        Metadata => roots.symlink_metadata(request)?.file_type().to_string(),
        Write(text) => roots.write(request, text).map(|()| format!("{} bytes", text.len()))?,
        Append(text) => {
            let mut file = roots.open_with(request, OpenOptions::new().append(true))?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            format!("{} bytes", text.len())
        }
        CreateDirAll => roots.create_dir_all(request).map(|()| "created".into())?,
        Rename(to) => roots.rename(request, to, Overwrite::Never).map(|()| "renamed".into())?,
        RemoveFile => roots.remove_file(request).map(|()| "removed".into())?,
        RemoveDirAll => roots.remove_dir_all(request).map(|()| "removed".into())?,
    })
}

/// Compares the refusals for existing and missing files outside the roots, without the quoted path.
fn oracles(roots: &Roots, work: &str, missing: &[&str]) -> Vec<String> {
    println!(
        "\nRefusals that do not reveal whether a file exists:\n  {:<30} {:<32} message for both",
        "existing file", "missing file"
    );
    let refusal = |request: &str| match perform(roots, &Read, request, work) {
        Ok(text) => text,
        // The message quotes the request with the system's separators.
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
            wrong.push(format!("different refusals: {exists}: {one}; {does_not}: {other}"));
        }
    }
    wrong
}

/// Describes each file outside the roots by its path, permissions, modification time, and content
/// or symlink target.
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
