//! Tasks of published file tools, each written with the guard and with `std::fs`. Both versions
//! must have the same result, and `docs/tasks.md` must state how many lines each has.
//!
//! The versions with `std::fs` contain the checks that a careful author would write. Before they
//! use a path, they check it with [`inside`], which is not counted.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use mcp_roots_guard::{
    Attributes, CopyOptions, Existing, FileType, Intent, Replace, Roots, Version, WalkOptions,
    WriteOptions,
};

use crate::support::tree::Tree;

type Result<T = String, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The largest file that is read or copied, in bytes.
const LIMIT: u64 = 1 << 20;

/// The usual check of a path before it is used with `std::fs`: the canonical path of the longest
/// part that exists must be inside the root. The path can change between this check and its use.
fn inside(root: &Path, request: &str) -> Result<PathBuf> {
    let (root, path) = (root.canonicalize()?, root.join(request));
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(&path);
    let missing = path.strip_prefix(existing)?.components();
    let canonical = missing.fold(existing.canonicalize()?, |path, name| path.join(name));
    if canonical.starts_with(root) { Ok(canonical) } else { Err("outside".into()) }
}

/// Search all files of a workspace for a text.
fn grep_with_guard(roots: &Roots) -> Result {
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

fn grep_with_std(root: &Path) -> Result {
    let (mut found, mut directories) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            let (file_type, size) = (entry.file_type()?, entry.metadata()?.len());
            if file_type.is_dir() {
                directories.push(path);
            } else if file_type.is_file()
                && size <= LIMIT
                && fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("needle"))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    let found: Vec<_> = found.iter().map(|path| format!("{}\n", path.display())).collect();
    Ok(found.concat())
}

/// List the files that git does not ignore. The other version uses the `ignore` crate.
#[cfg(feature = "ignore")]
fn list_with_guard(roots: &Roots) -> Result {
    let mut files = String::new();
    let mut walk = roots.walk(".", WalkOptions::new().git_ignore(true).hidden(false))?;
    while let Some(entry) = walk.next_entry()? {
        if entry.file_type() == FileType::File {
            writeln!(files, "{}", entry.path().display())?;
        }
    }
    Ok(files)
}

#[cfg(feature = "ignore")]
fn list_with_std(root: &Path) -> Result {
    let mut files = String::new();
    let mut walk = ignore::WalkBuilder::new(root);
    walk.require_git(false).git_global(false).parents(false);
    for entry in walk.sort_by_file_name(Ord::cmp).build() {
        let entry = entry?;
        if entry.file_type().is_some_and(|file_type| file_type.is_file()) {
            writeln!(files, "{}", entry.path().strip_prefix(root)?.display())?;
        }
    }
    Ok(files)
}

/// Create a file and its parents, unless it exists.
fn create_with_guard(roots: &Roots) -> Result {
    let options = WriteOptions::new().create_parents(true).existing(Existing::Refuse);
    roots.write_with("new/deep/a.txt", "text", options)?;
    let exists = roots.write_with("new/deep/a.txt", "other", options).is_err();
    Ok(format!("{exists}"))
}

fn create_with_std(root: &Path) -> Result {
    let create = |content: &str| -> Result<()> {
        let path = inside(root, "new/deep/a.txt")?;
        fs::create_dir_all(path.parent().ok_or("the path has no parent")?)?;
        let mut file = File::options().write(true).create_new(true).open(path)?;
        file.write_all(content.as_bytes())?;
        Ok(file.sync_all()?)
    };
    create("text")?;
    let exists = create("other").is_err();
    Ok(format!("{exists}"))
}

/// Write a large file in pieces. A reader sees the old file or the complete new one.
fn stream_with_guard(roots: &Roots) -> Result {
    let mut file = roots.atomic_file("docs/a.txt", WriteOptions::new())?;
    for piece in ["one ", "two ", "three"] {
        file.write_all(piece.as_bytes())?;
    }
    file.commit()?;
    Ok(String::new())
}

fn stream_with_std(root: &Path) -> Result {
    let path = inside(root, "docs/a.txt")?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = File::create_new(&temporary)?;
        file.set_permissions(fs::metadata(&path)?.permissions())?;
        for piece in ["one ", "two ", "three"] {
            file.write_all(piece.as_bytes())?;
        }
        file.sync_all()?;
        fs::rename(&temporary, &path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    Ok(String::new())
}

/// Edit a file, unless it was modified since it was read.
fn edit_with_guard(roots: &Roots) -> Result {
    let read = roots.read_to_string("docs/a.txt", LIMIT)?;
    let options = WriteOptions::new().if_unchanged(Version::of(read.as_bytes()));
    roots.write_with("docs/a.txt", &read.replace("needle", "pin"), options)?;
    let modified = roots.write_with("docs/a.txt", "lost", options).is_err();
    Ok(format!("{modified}"))
}

fn edit_with_std(root: &Path) -> Result {
    let write = |read: &str, new: &str| -> Result<()> {
        let path = inside(root, "docs/a.txt")?;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = File::create_new(&temporary)?;
        file.set_permissions(fs::metadata(&path)?.permissions())?;
        file.write_all(new.as_bytes())?;
        file.sync_all()?;
        let is_unchanged = fs::read(&path)? == read.as_bytes();
        let written = if is_unchanged {
            fs::rename(&temporary, &path).map_err(Into::into)
        } else {
            Err("the file was modified".into())
        };
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    };
    let read = fs::read_to_string(inside(root, "docs/a.txt")?)?;
    write(&read, &read.replace("needle", "pin"))?;
    let modified = write(&read, "lost").is_err();
    Ok(format!("{modified}"))
}

/// Apply a patch to several files. If a part of it cannot be applied, change nothing.
fn patch_with_guard(roots: &Roots) -> Result {
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

fn patch_with_std(root: &Path) -> Result {
    let mut temporaries = Vec::new();
    let mut prepare = |request: &str, content: &str| -> Result<PathBuf> {
        let path = inside(root, request)?;
        fs::create_dir_all(path.parent().ok_or("the path has no parent")?)?;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = File::create_new(&temporary)?;
        temporaries.push((temporary, path.clone()));
        if let Ok(metadata) = fs::metadata(&path) {
            file.set_permissions(metadata.permissions())?;
        }
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        Ok(path)
    };
    let path = inside(root, "docs/a.txt")?;
    let read = fs::read_to_string(&path)?;
    let prepared = prepare("docs/a.txt", &read.replace("needle", "pin"))
        .and_then(|_| prepare("new/b.txt", "b"))
        .and_then(|_| {
            let from = inside(root, "src/main.rs")?;
            let to = inside(root, "src/lib.rs")?;
            let old = inside(root, "src/old.rs")?;
            let is_possible = from.exists() && !to.exists() && old.is_file();
            let is_unchanged = fs::read_to_string(&path)? == read;
            if is_possible && is_unchanged { Ok((from, to, old)) } else { Err("changed".into()) }
        });
    let commit = prepared.and_then(|(from, to, old)| {
        for (temporary, path) in &temporaries {
            fs::rename(temporary, path)?;
        }
        fs::rename(from, to)?;
        Ok(fs::remove_file(old)?)
    });
    if commit.is_err() {
        for (temporary, _) in &temporaries {
            let _ = fs::remove_file(temporary);
        }
    }
    commit.map(|()| String::new())
}

/// Read a file, and then delete it. A symlink's target is not deleted.
fn delete_with_guard(roots: &Roots) -> Result {
    let file = roots.check("docs/a.txt", Intent::Existing)?;
    let text = file.read_to_string(LIMIT)?;
    file.no_follow()?.remove_file_if_unchanged(Version::of(text.as_bytes()))?;
    let link = roots.check("src/link.rs", Intent::Existing)?;
    let refused = link.no_follow().is_err();
    Ok(format!("{text} {refused}"))
}

fn delete_with_std(root: &Path) -> Result {
    let read_entry = |request: &str| -> Result<(PathBuf, String)> {
        let entry = root.join(request);
        let path = inside(root, request)?;
        if fs::symlink_metadata(entry)?.is_symlink() {
            return Err("a symlink".into());
        }
        if fs::metadata(&path)?.len() > LIMIT {
            return Err("too large".into());
        }
        let text = fs::read_to_string(&path)?;
        Ok((path, text))
    };
    let (path, text) = read_entry("docs/a.txt")?;
    fs::remove_file(path)?;
    let refused = read_entry("src/link.rs").is_err();
    Ok(format!("{text} {refused}"))
}

/// Copy a file to a new directory.
fn copy_with_guard(roots: &Roots) -> Result {
    let options = WriteOptions::new().create_parents(true).existing(Existing::Refuse);
    Ok(roots.copy("docs/a.txt", "new/a.txt", LIMIT, options)?.to_string())
}

fn copy_with_std(root: &Path) -> Result {
    let (from, to) = (inside(root, "docs/a.txt")?, inside(root, "new/a.txt")?);
    let metadata = fs::metadata(&from)?;
    if !metadata.is_file() || metadata.len() > LIMIT || to.exists() {
        return Err("refused".into());
    }
    fs::create_dir_all(to.parent().ok_or("the path has no parent")?)?;
    let temporary = to.with_extension(format!("{}.tmp", std::process::id()));
    let copied = fs::copy(from, &temporary).and_then(|bytes| {
        File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, to)?;
        Ok(bytes)
    });
    if copied.is_err() {
        let _ = fs::remove_file(temporary);
    }
    Ok(copied?.to_string())
}

/// Copy a directory. If that fails, leave nothing.
fn copy_tree_with_guard(roots: &Roots) -> Result {
    let options = CopyOptions::new().max_entries(1_000).max_bytes(LIMIT);
    let report = roots.copy_tree("src", "copy", options, |_| ControlFlow::Continue(()))?;
    Ok(format!("{} {} {}", report.files(), report.directories(), report.symlinks()))
}

fn copy_tree_with_std(root: &Path) -> Result {
    let (from, to) = (inside(root, "src")?, inside(root, "copy")?);
    if to.starts_with(&from) || to.exists() {
        return Err("refused".into());
    }
    let temporary = to.with_extension(format!("{}.tmp", std::process::id()));
    let (mut bytes, mut count, mut counts) = (0, 0, [0, 1, 0]);
    let mut copy = || -> Result<()> {
        fs::create_dir(&temporary)?;
        let mut directories = vec![PathBuf::new()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(from.join(&directory))? {
                let entry = entry?;
                let (metadata, path) = (entry.metadata()?, directory.join(entry.file_name()));
                let copied = temporary.join(&path);
                (bytes, count) = (bytes + metadata.len(), count + 1);
                if bytes > LIMIT || count > 1_000 {
                    return Err("too large".into());
                }
                if metadata.is_dir() {
                    fs::create_dir(copied)?;
                    directories.push(path);
                    counts[1] += 1;
                } else if metadata.is_symlink() {
                    inside(root, entry.path().to_str().ok_or("not UTF-8")?)?;
                    symlink(fs::read_link(entry.path())?, copied)?;
                    counts[2] += 1;
                } else if metadata.is_file() {
                    fs::copy(entry.path(), copied)?;
                    counts[0] += 1;
                }
            }
        }
        Ok(fs::rename(&temporary, &to)?)
    };
    let copied = copy();
    if copied.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    copied?;
    Ok(format!("{} {} {}", counts[0], counts[1], counts[2]))
}

/// Create a symlink if its target is inside, and say where symlinks lead.
fn symlink_with_guard(roots: &Roots) -> Result {
    roots.symlink("../docs/a.txt", "src/new")?;
    let refused = roots.symlink("../../outside", "src/out").is_err();
    let link = roots.read_link("src/link.rs")?;
    Ok(format!("{refused} {} {}", link.text().display(), link.leads_inside()))
}

fn symlink_with_std(root: &Path) -> Result {
    let create = |target: &str, request: &str| -> Result<()> {
        let (directory, name) = request.rsplit_once('/').ok_or("the path has no parent")?;
        let directory = inside(root, directory)?;
        inside(root, directory.join(target).to_str().ok_or("not UTF-8")?)?;
        Ok(symlink(target, directory.join(name))?)
    };
    create("../docs/a.txt", "src/new")?;
    let refused = create("../../outside", "src/out").is_err();
    let target = fs::read_link(inside(root, "src")?.join("link.rs"))?;
    let leads_inside = inside(root, "src/link.rs").is_ok();
    Ok(format!("{refused} {} {leads_inside}", target.display()))
}

/// Make a file executable, and set its time.
fn attributes_with_guard(roots: &Roots) -> Result {
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let attributes = Attributes::new().executable(true).modified(modified);
    roots.set_attributes("docs/a.txt", attributes)?;
    let metadata = roots.metadata("docs/a.txt")?;
    Ok(format!("{:?} {:?}", metadata.mode(), metadata.modified()))
}

fn attributes_with_std(root: &Path) -> Result {
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let file = File::open(inside(root, "docs/a.txt")?)?;
    let mode = file.metadata()?.permissions().mode();
    let mode = mode & 0o1777 | (mode & 0o444) >> 2;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.set_modified(modified)?;
    let metadata = file.metadata()?;
    Ok(format!("{:?} {:?}", Some(metadata.permissions().mode() & 0o7777), metadata.modified().ok()))
}

/// Run a program in a directory of the workspace.
fn run_with_guard(roots: &Roots) -> Result {
    let directory = roots.open_unguarded_dir("src")?;
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let output = Command::new("/bin/ls").current_dir(path).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

fn run_with_std(root: &Path) -> Result {
    let directory = inside(root, "src")?;
    let output = Command::new("/bin/ls").current_dir(directory).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Count the different files that a model named.
fn distinct_with_guard(roots: &Roots) -> Result {
    let named = ["src/main.rs", "src/link.rs", "docs/../src/main.rs"];
    let files = named.map(|path| roots.check(path, Intent::Existing));
    Ok(files.into_iter().collect::<mcp_roots_guard::Result<HashSet<_>>>()?.len().to_string())
}

fn distinct_with_std(root: &Path) -> Result {
    let named = ["src/main.rs", "src/link.rs", "docs/../src/main.rs"];
    let files = named.map(|path| inside(root, path));
    Ok(files.into_iter().collect::<Result<HashSet<_>>>()?.len().to_string())
}

struct Task {
    name: &'static str,
    guard: fn(&Roots) -> Result,
    std: fn(&Path) -> Result,
}

macro_rules! tasks {
    ($($(#[$condition:meta])* $name:ident: $guard:ident, $std:ident;)+) => {
        &[$($(#[$condition])* Task { name: stringify!($name), guard: $guard, std: $std }),+]
    };
}

const TASKS: &[Task] = tasks! {
    grep: grep_with_guard, grep_with_std;
    #[cfg(feature = "ignore")]
    list: list_with_guard, list_with_std;
    create: create_with_guard, create_with_std;
    stream: stream_with_guard, stream_with_std;
    edit: edit_with_guard, edit_with_std;
    patch: patch_with_guard, patch_with_std;
    delete: delete_with_guard, delete_with_std;
    copy: copy_with_guard, copy_with_std;
    copy_tree: copy_tree_with_guard, copy_tree_with_std;
    symlink: symlink_with_guard, symlink_with_std;
    attributes: attributes_with_guard, attributes_with_std;
    run: run_with_guard, run_with_std;
    distinct: distinct_with_guard, distinct_with_std;
};

#[test]
fn tasks_with_the_guard_and_with_std_have_the_same_result() {
    for task in TASKS {
        let run = |task: &dyn Fn(&Tree) -> Result| {
            let tree = Tree::new(
                "file root/docs/a.txt = a needle; file root/docs/b.txt = hay; dir outside
                file root/src/main.rs = needle(); file root/src/old.rs
                link root/src/link.rs -> main.rs
                file root/src/deep/er/c.rs = c; file root/.gitignore = *.log
                file root/docs/a.log = needle; file root/.hidden/a.txt = needle; dir root/.git",
            );
            let result = task(&tree).unwrap();
            let top = tree.path("").display().to_string();
            let after: Vec<_> =
                tree.snapshot("root").iter().map(|line| line.replace(&top, "")).collect();
            (result, after)
        };
        let with_guard = run(&|tree| (task.guard)(&tree.roots(["root"])));
        let with_std = run(&|tree| (task.std)(&tree.path("root")));
        assert_eq!(with_guard, with_std, "{}", task.name);
    }
}
