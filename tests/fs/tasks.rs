//! Tasks of published file tools, written with the guard. `docs/tasks.md` describes them.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use mcp_roots_guard::{
    Attributes, Existing, FileType, Intent, Replace, Roots, Version, WalkOptions, WriteOptions,
};

use crate::support::tree::Tree;

type Result<T = String, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The largest file that is read or copied, in bytes.
const LIMIT: u64 = 1 << 20;

/// Search all files of a workspace for a text.
fn grep(roots: &Roots) -> Result {
    let mut found = String::new();
    let mut walk = roots.walk(".", WalkOptions::new())?;
    while let Some(entry) = walk.next_entry()? {
        if entry.file_type() == FileType::File
            && entry.read_to_string(LIMIT).is_ok_and(|text| text.contains("needle"))
        {
            writeln!(found, "{}", entry.path().display())?;
        }
    }
    Ok(found)
}

/// List the files that git does not ignore.
#[cfg(feature = "ignore")]
fn list(roots: &Roots) -> Result {
    let mut files = String::new();
    let mut walk = roots.walk(".", WalkOptions::new().git_ignore(true).hidden(false))?;
    while let Some(entry) = walk.next_entry()? {
        if entry.file_type() == FileType::File {
            writeln!(files, "{}", entry.path().display())?;
        }
    }
    Ok(files)
}

/// Create a file and its parents, unless it exists.
fn create(roots: &Roots) -> Result {
    let options = WriteOptions::new().create_parents(true).existing(Existing::Refuse);
    roots.write_with("new/deep/a.txt", "text", options)?;
    let exists = roots.write_with("new/deep/a.txt", "other", options).is_err();
    Ok(format!("{exists}"))
}

/// Write a large file in pieces. A reader sees the old file or the complete new one.
fn stream(roots: &Roots) -> Result {
    let mut file = roots.atomic_file("docs/a.txt", WriteOptions::new())?;
    for piece in ["one ", "two ", "three"] {
        file.write_all(piece.as_bytes())?;
    }
    file.commit()?;
    Ok(String::new())
}

/// Edit a file, unless it was modified since it was read.
fn edit(roots: &Roots) -> Result {
    let read = roots.read_to_string("docs/a.txt", LIMIT)?;
    let options = WriteOptions::new().if_unchanged(Version::of(read.as_bytes()));
    roots.write_with("docs/a.txt", &read.replace("needle", "pin"), options)?;
    let modified = roots.write_with("docs/a.txt", "lost", options).is_err();
    Ok(format!("{modified}"))
}

/// Apply a patch to several files. If a part of it cannot be applied, change nothing.
fn patch(roots: &Roots) -> Result {
    let mut patch = roots.change_set();
    let read = roots.read_to_string("docs/a.txt", LIMIT)?;
    let options = WriteOptions::new().if_unchanged(Version::of(read.as_bytes()));
    patch.write("docs/a.txt", read.replace("needle", "pin"), options)?;
    patch.write("new/b.txt", "b", WriteOptions::new().create_parents(true))?;
    patch.rename("src/main.rs", "src/lib.rs", Replace::Never)?;
    patch.remove_file("src/old.rs", None)?;
    patch.commit()?;
    Ok(String::new())
}

/// Read a file, and then delete it. A symlink's target is not deleted.
fn delete(roots: &Roots) -> Result {
    let file = roots.check("docs/a.txt", Intent::Existing)?;
    let text = file.read_to_string(LIMIT)?;
    file.no_follow()?.remove_file_if_unchanged(Version::of(text.as_bytes()))?;
    let link = roots.check("src/link.rs", Intent::Existing)?;
    let refused = link.no_follow().is_err();
    Ok(format!("{text} {refused}"))
}

/// Copy a file to a new directory.
fn copy(roots: &Roots) -> Result {
    let options = WriteOptions::new().create_parents(true).existing(Existing::Refuse);
    Ok(roots.copy("docs/a.txt", "new/a.txt", LIMIT, options)?.to_string())
}

/// Create a symlink if its target is inside, and say where symlinks lead.
fn symlink(roots: &Roots) -> Result {
    roots.symlink("../docs/a.txt", "src/new")?;
    let refused = roots.symlink("../../outside", "src/out").is_err();
    let link = roots.read_link("src/link.rs")?;
    Ok(format!("{refused} {} {}", link.text().display(), link.leads_inside()))
}

/// Make a file executable, and set its time.
fn attributes(roots: &Roots) -> Result {
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let attributes = Attributes::new().executable(true).modified(modified);
    roots.set_attributes("docs/a.txt", attributes)?;
    let metadata = roots.metadata("docs/a.txt")?;
    let is_executable = metadata.mode().is_some_and(|mode| mode & 0o111 != 0);
    Ok(format!("{is_executable} {}", metadata.modified().is_some_and(|at| at == modified)))
}

/// Run a program in a directory of the workspace.
fn run(roots: &Roots) -> Result {
    let directory = roots.open_unguarded_dir("src")?;
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let output = Command::new("/bin/ls").current_dir(path).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Count the different files that a model named.
fn distinct(roots: &Roots) -> Result {
    let named = ["src/main.rs", "src/link.rs", "docs/../src/main.rs"];
    let files = named.map(|path| roots.check(path, Intent::Existing));
    Ok(files.into_iter().collect::<mcp_roots_guard::Result<HashSet<_>>>()?.len().to_string())
}

/// The workspace before each task.
const TREE: &str = "file root/docs/a.txt = a needle; file root/docs/b.txt = hay; dir outside
    file root/src/main.rs = needle(); file root/src/old.rs = old; link root/src/link.rs -> main.rs
    file root/src/deep/er/c.rs = c; file root/.gitignore = *.log; dir root/.git
    file root/docs/a.log = needle; file root/.hidden/a.txt = needle";

/// A task with its result, the files that it removes, and the entries that it creates or changes.
type Task = (fn(&Roots) -> Result, &'static str, &'static [&'static str], &'static str);

const TASKS: &[Task] = &[
    (grep, ".hidden/a.txt\ndocs/a.log\ndocs/a.txt\nsrc/main.rs\n", &[], ""),
    #[cfg(feature = "ignore")]
    (list, "docs/a.txt\ndocs/b.txt\nsrc/deep/er/c.rs\nsrc/main.rs\nsrc/old.rs\n", &[], ""),
    (create, "true", &[], "file root/new/deep/a.txt = text"),
    (stream, "", &[], "file root/docs/a.txt = one two three"),
    (edit, "true", &[], "file root/docs/a.txt = a pin"),
    (
        patch,
        "",
        &["src/main.rs", "src/old.rs"],
        "file root/docs/a.txt = a pin; file root/new/b.txt = b; file root/src/lib.rs = needle()",
    ),
    (delete, "a needle true", &["docs/a.txt"], ""),
    (copy, "8", &[], "file root/new/a.txt = a needle"),
    (symlink, "true main.rs true", &[], "link root/src/new -> ../docs/a.txt"),
    (attributes, "true true", &[], ""),
    (run, "deep\nlink.rs\nmain.rs\nold.rs\n", &[], ""),
    (distinct, "1", &[], ""),
];

#[test]
fn each_task_has_its_result_and_changes_nothing_else() {
    for (number, (task, result, removed, added)) in TASKS.iter().enumerate() {
        let [tree, expected] = [TREE; 2].map(Tree::new);
        assert_eq!(task(&tree.roots(["root"])).unwrap(), *result, "task {number}");
        for path in *removed {
            fs::remove_file(expected.path("root").join(path)).unwrap();
        }
        expected.add(added);
        let [changed, expected] = [tree, expected].map(|tree| {
            let top = tree.path("").display().to_string();
            tree.snapshot("").iter().map(|line| line.replace(&top, "")).collect::<Vec<_>>()
        });
        assert_eq!(changed, expected, "task {number}");
    }
}
