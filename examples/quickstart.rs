//! The whole way of a request, on a workspace built to mislead: `cargo run --example quickstart`.
//!
//! Goes in: a `roots/list` result as clients really send it, two operator directories, and a tree full of links, odd
//! names and special files in a temporary directory. Comes out: the roots in force, the entries that grant nothing, and
//! what became of each request. What is proven: each request in [`ROWS`] was served or refused as it says there, a
//! refusal does not tell whether anything is outside, and nothing outside the roots changed. Otherwise the program says
//! where, and fails.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::ExitCode;

use Do::{AddDir, Append, List, Look, Move, Purge, Read, Unlink, Write};
use mcp_roots_guard::ErrorKind::{
    self, Empty, EncodedSeparator, ForeignHost, ForeignScheme, HardLinked, NotADirectory, NotFound, Nul, OutsideRoots,
    ReadOnly, RootItself, SpecialFile, TooManyLinks,
};
use mcp_roots_guard::{Access, Boundary, ListRootsResult, OpenOptions, Policy, Replace, Roots, Rule};

/// What a client answers to `roots/list`: some of it good.
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

/// The workspace: kind, path, and a file's content or a link's target.
const TREE: &[(&str, &str, &str)] = &[
    ("file", "outside/secret.txt", "SECRET"),
    ("file", "projects/root-evil/secret.txt", "SECRET"), // Not the root, though its name begins like it.
    ("link", "outside/back", "../projects/root"),
    ("file", "manuals/guide.txt", "a guide"),
    ("file", "projects/lib/lib.rs", "a library"),
    ("file", "projects/my notes/todo.txt", "to do"),
    ("file", "projects/root/readme.md", "a project"),
    ("file", "projects/root/docs/intro.md", "an intro"),
    ("file", "projects/root/a b.txt", "space"),
    ("file", "projects/root/new\nline", "newline"),
    ("file", "projects/root/quote\".txt", "quote"),
    ("file", "projects/root/-rf", "dash"),
    ("file", "projects/root/100%41", "percent"),
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

/// What a server's tools do.
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

/// An operation, the request, and what must come of it.
type Row = (Do, &'static str, Result<&'static str, ErrorKind>);

/// One after another, with the default policy.
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
    (Read, "../root-evil/secret.txt", Err(OutsideRoots)),
    (Read, "$WORK/projects/root-evil/secret.txt", Err(OutsideRoots)),
    (Read, "file://$WORK/projects/root/%2e%2e/root-evil/secret.txt", Err(OutsideRoots)),
    (Read, "/proc/self/root/etc/passwd", Err(OutsideRoots)),
    (Read, "%2e%2e/root-evil/secret.txt", Err(NotFound)),
    (Read, "file://$WORK/projects/root/..%2froot-evil", Err(EncodedSeparator)),
    (Read, "file://elsewhere/share/secret.txt", Err(ForeignHost)),
    (Read, "https://localhost/readme.md", Err(ForeignScheme)),
    (Read, "readme.md\0.png", Err(Nul)),
    (Read, "", Err(Empty)),
    (Read, "readme.md/", Err(NotADirectory)),
    // Links count for where they lead, and special files for nothing.
    (Read, "in", Ok("an intro")),
    (Read, "to-lib/lib.rs", Ok("a library")),
    (Read, "in-absolute/../readme.md", Ok("a project")),
    (Read, "out", Err(OutsideRoots)),
    (Read, "out-absolute/secret.txt", Err(OutsideRoots)),
    (Read, "out-absolute/back/readme.md", Err(OutsideRoots)),
    (Read, "loop", Err(TooManyLinks)),
    (Look, "out", Ok("link")),
    (Look, "pipe", Ok("fifo")),
    (Read, "pipe", Err(SpecialFile)),
    (Write("x"), "pipe", Err(SpecialFile)),
    (Read, "hard", Ok("SECRET")), // Nothing in the path tells that it has a name outside: see below.
    // Writing, and creating through links.
    (Write("new"), "docs/new.md", Ok("3 bytes")),
    (Append("er"), "docs/new.md", Ok("2 bytes")),
    (Read, "docs/new.md", Ok("newer")),
    (Write("made"), "dangling-in", Ok("4 bytes")),
    (Write("x"), "dangling-out", Err(OutsideRoots)),
    (Append("x"), "out", Err(OutsideRoots)),
    (Write("mine"), "hard-too", Ok("4 bytes")), // A new file takes the name; the other name keeps the old one.
    (Write("x"), "$WORK/manuals/guide.txt", Err(ReadOnly)),
    (AddDir, "a/b/c", Ok("made")),
    (AddDir, "a/x/../../../../outside/d", Err(NotFound)),
    // Renaming and removing: a link itself, never what it points to, and never a root.
    (Move("docs/moved.md"), "docs/new.md", Ok("renamed")),
    (Move("../../outside/moved.md"), "readme.md", Err(OutsideRoots)),
    (Move("../lib/out"), "out", Ok("renamed")),
    (Read, "../lib/out", Err(OutsideRoots)),
    (Unlink, "../lib/out", Ok("removed")),
    (Purge, "a", Ok("removed")),
    (Purge, "out-absolute", Err(NotADirectory)),
    (Purge, ".", Err(RootItself)),
    (Move("stolen"), "../lib", Err(RootItself)),
];

/// With a policy that refuses files of more than one name.
const STRICT_ROWS: &[Row] =
    &[(Read, "hard", Err(HardLinked)), (Append("x"), "hard", Err(HardLinked)), (Read, "hard-too", Ok("mine"))];

/// Requests for something outside that exists, and for something that does not: the refusals must be the same.
const ORACLES: &[(&str, &str)] = &[
    ("$WORK/outside/secret.txt", "$WORK/outside/nothing"),
    ("out-absolute/back/readme.md", "out-absolute/nowhere/readme.md"),
];

/// No tool reads more than this.
const LIMIT: u64 = 1 << 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let keep = tempfile::tempdir()?;
    let work = keep.path().canonicalize()?;
    let work = work.to_str().ok_or("the temporary directory's path is not UTF-8")?;
    build(work)?;

    // The server's configuration bounds what any client can name.
    let boundary = |policy| {
        Boundary::builder()
            .directory(format!("{work}/projects"), Access::ReadWrite)
            .directory(format!("{work}/manuals"), Access::ReadOnly)
            .policy(policy)
            .build()
    };
    let list: ListRootsResult = serde_json::from_str(&ROOT_LIST.replace("$WORK", work))?;
    let roots = boundary(Policy::default())?.resolve(&list)?;
    let strict = boundary(Policy::default().hard_links(Rule::Refuse))?.resolve(&list)?;
    print_roots(&roots, work);

    let before = outside(work, &roots)?;
    let mut wrong = run("Requests, default policy", ROWS, &roots, work);
    wrong.extend(run("Requests, hard links refused", STRICT_ROWS, &strict, work));
    wrong.extend(oracles(&roots, work));
    if outside(work, &roots)? != before {
        wrong.push("something outside the roots changed".into());
    }

    if !wrong.is_empty() {
        eprintln!("\nWRONG:\n{}", wrong.join("\n"));
        return Ok(ExitCode::FAILURE);
    }
    println!("\nAll requests were decided as they must be, and nothing outside the roots changed.");
    Ok(ExitCode::SUCCESS)
}

/// Makes the workspace.
fn build(work: &str) -> std::io::Result<()> {
    for &(kind, path, text) in TREE {
        let path = Path::new(work).join(path);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        match kind {
            "link" => symlink(text.replace("$WORK", work), path)?,
            "hard" => fs::hard_link(Path::new(work).join(text), path)?,
            "fifo" => make_fifo(&path)?,
            _ => fs::write(path, text)?,
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn make_fifo(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
}

/// Elsewhere there is no such call in `rustix`, and the rows for the FIFO are left out.
#[cfg(not(target_os = "linux"))]
fn make_fifo(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn print_roots(roots: &Roots, work: &str) {
    println!("Roots in force:");
    for root in roots.roots() {
        let (name, path) = (root.name().unwrap_or("-"), root.path().display().to_string().replace(work, "$WORK"));
        println!("  {path:<32} {:<13} {name}", format!("{:?}", root.access()));
    }
    println!("Entries that grant nothing:");
    for skipped in roots.skipped() {
        println!("  {:<48} {}", skipped.entry().replace(work, "$WORK"), skipped.error().kind());
    }
}

/// Runs and prints rows; returns those that are not as they must be.
fn run(title: &str, rows: &[Row], roots: &Roots, work: &str) -> Vec<String> {
    println!("\n{title}:\n  {:<30} {:<58} {:<8} {:<17} done", "do", "request", "decision", "kind");
    let mut wrong = Vec::new();
    for (what, request, expected) in rows {
        if cfg!(not(target_os = "linux")) && *request == "pipe" {
            continue;
        }
        let done = perform(roots, what, request, work);
        let (decision, kind, text) = match &done {
            Ok(text) => ("allowed", "-", text.as_str()),
            Err(error) => ("refused", error.kind().as_str(), "-"),
        };
        let (name, shown) = (format!("{what:?}"), request.escape_debug().to_string());
        println!("  {name:<30} {shown:<58} {decision:<8} {kind:<17} {text}");
        if done.as_deref().map_err(mcp_roots_guard::Error::kind) != *expected {
            wrong.push(format!("{name} {shown}: {done:?}, and not {expected:?}"));
        }
    }
    wrong
}

/// One request through the guard: checked and done in one step.
fn perform(roots: &Roots, what: &Do, request: &str, work: &str) -> mcp_roots_guard::Result<String> {
    let request = request.replace("$WORK", work);
    Ok(match *what {
        Read => roots.read_to_string(request, LIMIT)?,
        List => {
            let names = roots.read_dir(request)?.map(|entry| Ok(entry?.name().display().to_string()));
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

/// Compares the refusals for what exists outside and what does not, but for the request that each quotes.
fn oracles(roots: &Roots, work: &str) -> Vec<String> {
    println!("\nRefusals that must be the same, whether it exists or not:");
    let refusal = |request: &str| match perform(roots, &Read, request, work) {
        Ok(text) => text,
        Err(error) => error.to_string().replace(&request.replace("$WORK", work), "..."),
    };
    let mut wrong = Vec::new();
    for (exists, does_not) in ORACLES {
        let (one, other) = (refusal(exists), refusal(does_not));
        println!("  {exists:<30} {does_not:<32} {one}");
        if one != other {
            wrong.push(format!("{exists}: {one}, and {does_not}: {other}"));
        }
    }
    wrong
}

/// All that lies in the workspace and in no root: path, mode, time of change, and content or target.
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
        seen.push(format!("{} {:o} {:?} {content:?}", path.display(), metadata.mode(), metadata.modified()?));
    }
    seen.sort();
    Ok(seen)
}
