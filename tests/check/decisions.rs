//! Data-driven tests of the decision: each row of `data/check.txt` is a request on a small tree,
//! with the expected result.
//!
//! ```text
//! tree: file root/f; link root/l -> f         a new tree
//! roots: root other                           its roots; the default is `root`
//! open   | l       | allowed root/f           the resolved path, from the top of the tree
//! create | new     | new root/new             allowed, and does not exist yet
//! open   | ../x    | outside_roots            refused with this code
//! allow: a b:ro:always c=/host/c              a boundary: access, options and aliases
//! allow: a a/b:ro => access_conflict          an invalid boundary; without directories, any list;
//!                                             with `bare`, `bare:X` in a list is a root, too
//! list: a/x b => a/x b:ro! (0 not_found)      the roots of a list: access, always in force, as the
//!                                             client listed it; rejected entries
//! within: a => a/x as /host/x                 narrows the roots, or is refused with a code
//! then: move a b; file c                      changes the tree; also `remove PATH`
//! ```
//!
//! The symlinks of a `tree:` are older than the server, and those of a `then:` are not.
//!
//! On Windows, a line `on Windows: DECISION` replaces the decision of the row before it. A `posix
//! tree:` cannot exist on Windows.
//!
//! The intents `open`, `create`, `tree` and `entry` stand for `Existing`, `New`, `NewTree` and
//! `NoFollow`. A request in double quotes is a JSON string. `$T` is the top of the tree, and `/` in
//! a list is the root of the filesystem.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use guarded_fs::internals::trust_links_until;
use mcp_roots_guard::{
    Access, Boundary, DirectoryOptions, ListEntry, OpenMode, Result, Root, Roots,
};

use crate::support::always_in_force;
use crate::support::proof::Intent;
use crate::support::tree::{Tree, symlinks_are_visible, uri};

#[test]
fn each_request_gets_the_decision_in_its_row() {
    let mut failures = Vec::new();
    let mut rows = 0;
    // Whether this system can build the tree and shows its symlinks as symlinks.
    let (mut is_possible, mut skipped) = (true, 0);
    let mut case = Case::new("");
    let mut lines = include_str!("../data/check.txt").lines().map(str::trim).enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let on_windows =
            lines.next_if(|(_, next)| next.starts_with("on Windows:")).filter(|_| cfg!(windows));
        if let Some(text) = line.strip_prefix("posix tree:").or_else(|| line.strip_prefix("tree:"))
        {
            is_possible = !cfg!(windows)
                || line.starts_with("tree:") && (symlinks_are_visible() || !text.contains("link "));
            if is_possible {
                case = Case::new(text);
            }
        } else if !is_possible {
            skipped += usize::from(is_row(line));
        } else if !line.is_empty() && !line.starts_with('#') {
            rows += usize::from(is_row(line));
            let expected = on_windows
                .and_then(|(_, text)| text.split_once(": "))
                .map(|(_, expected)| expected);
            if let Err(why) = case.line(line, expected) {
                failures.push(format!("line {}: {line}\n    {why}", number + 1));
            }
        }
    }
    println!("{rows} rows, {} failed", failures.len());
    #[cfg(windows)]
    crate::support::tree::report_not_shown(
        "check::decisions::each_request_gets_the_decision_in_its_row",
        &format!("{skipped} rows of trees that cannot exist on Windows or under Wine"),
    );
    assert!(cfg!(windows) || skipped == 0);
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows + skipped > 100, "only {rows} rows were tested");
}

/// Replaces each backslash in a resolved path. The rows use slashes, so on Windows this is a slash.
/// On POSIX systems a backslash is an ordinary character and is kept.
const SEPARATOR: &str = if cfg!(windows) { "/" } else { "\\" };

fn is_row(line: &str) -> bool {
    !line.starts_with('#') && (line.contains(" | ") || line.contains(" =>"))
}

/// What the lines so far have built.
struct Case {
    tree: Tree,
    boundary: Boundary,
    /// Whether a list may have paths in place of URIs (`bare`).
    allows_paths: bool,
    roots: Roots,
}

impl Case {
    fn new(text: &str) -> Self {
        let tree = Tree::new("dir root");
        tree.add(text);
        let boundary = boundary(&tree, "root").unwrap();
        Self { roots: boundary.allowed_roots(), boundary, allows_paths: false, tree }
    }

    /// Runs a line. Returns an error if a row has another result.
    fn line(&mut self, line: &str, on_windows: Option<&str>) -> Result<(), String> {
        let (verb, rest) = line.split_once(':').unwrap_or_default();
        match verb {
            "roots" => {
                let paths = rest.split_whitespace().map(|name| self.tree.path(name));
                self.roots = Roots::from_dirs(paths, Access::ReadWrite).unwrap();
            }
            "allow" => {
                let (directories, expected) = rest.split_once("=>").unwrap_or((rest, "ok"));
                let built = boundary(&self.tree, directories);
                let code = built.as_ref().err().map_or("ok", |error| error.code());
                if code != on_windows.unwrap_or(expected.trim()) {
                    return Err(format!("building: {code}"));
                }
                self.allows_paths = directories.split_whitespace().any(|word| word == "bare");
                if let Ok(boundary) = built {
                    (self.roots, self.boundary) = (boundary.allowed_roots(), boundary);
                }
            }
            "list" => {
                let (entries, expected) = rest.split_once("=>").ok_or("expected `=>`")?;
                let top = self.tree.path("").ancestors().last().map(uri).unwrap();
                let entries = entries.split_whitespace().map(|entry| match entry {
                    "/" => top.clone(),
                    entry if entry.contains("://") => self.tree.expand(entry),
                    entry if entry.starts_with("bare:") => self.tree.expand(&entry[5..]),
                    entry => self.tree.uri(entry),
                });
                let entries: Vec<_> = entries.collect();
                let entry = if self.allows_paths { ListEntry::from } else { ListEntry::uri };
                let listed = entries.iter().map(|text| entry(text));
                self.roots = self.boundary.narrow(listed).unwrap();
                let granted = self.granted();
                if granted != on_windows.unwrap_or(expected.trim()) {
                    return Err(format!("granted: {granted}"));
                }
            }
            "within" => {
                let (request, expected) = rest.split_once("=>").ok_or("expected `=>`")?;
                let narrowed = self.roots.within(self.tree.expand(request.trim()));
                let code = narrowed.map(|roots| self.roots = roots).err().map(|error| error.code());
                let decided = code.map_or_else(|| self.granted(), str::to_owned);
                if decided != on_windows.unwrap_or(expected.trim()) {
                    return Err(format!("narrowed: {decided}"));
                }
            }
            "then" => rest.split(';').map(str::trim).for_each(|change| self.change(change)),
            _ => return row(&self.tree, &self.roots, line, on_windows),
        }
        Ok(())
    }

    fn change(&self, change: &str) {
        // Filesystems read a coarse clock, so a change a moment after the start looks older.
        std::thread::sleep(Duration::from_millis(20));
        match *change.split(' ').collect::<Vec<_>>() {
            ["move", from, to] => fs::rename(self.tree.path(from), self.tree.path(to)).unwrap(),
            ["remove", path] => {
                let path = self.tree.path(path);
                let remove = if path.is_symlink() { fs::remove_file } else { fs::remove_dir_all };
                remove(path).unwrap();
            }
            _ => self.tree.add(change),
        }
    }

    /// The roots of a list, and its rejected entries.
    fn granted(&self) -> String {
        let in_force = always_in_force(&self.roots);
        let root = |root: &Root| {
            let access = if root.access() == Access::ReadOnly { ":ro" } else { "" };
            let always = if in_force.contains(root.path()) { "!" } else { "" };
            let as_listed = match root.client_path() {
                path if Path::new(&path) == root.path() => String::new(),
                path => format!(" as {}", path.replace(&self.tree.expand("$T"), "$T")),
            };
            let as_listed = as_listed.replace('\\', SEPARATOR);
            format!("{}{access}{always}{as_listed}", from_top(&self.tree, root.path()))
        };
        let rejected = self.roots.rejected().iter();
        let rejected = rejected.map(|one| format!("({} {})", one.index(), one.error().code()));
        self.roots.iter().map(root).chain(rejected).collect::<Vec<_>>().join(" ")
    }
}

/// Each directory has flags after colons, and aliases after equals signs.
fn boundary(tree: &Tree, directories: &str) -> Result<Boundary> {
    let mut builder = Boundary::builder();
    if directories.trim().is_empty() {
        builder = Boundary::any_listed();
    }
    for directory in directories.split_whitespace() {
        if directory == "bare" {
            continue;
        }
        let (directory, aliases) = directory.split_once('=').unwrap_or((directory, ""));
        let mut flags = directory.split(':');
        let path = tree.path(flags.next().unwrap_or_default());
        let flags: Vec<_> = flags.collect();
        let is_read_only = flags.contains(&"ro");
        let access = if is_read_only { Access::ReadOnly } else { Access::ReadWrite };
        let options = DirectoryOptions::from(access);
        let options = if flags.contains(&"always") { options.always() } else { options };
        let options = if flags.contains(&"optional") { options.optional() } else { options };
        let options = aliases
            .split('=')
            .filter(|alias| !alias.is_empty())
            .fold(options, |options, alias| options.alias(tree.expand(alias)));
        builder = builder.directory(path, options);
    }
    // As if the server had started now.
    trust_links_until(builder, SystemTime::now()).build()
}

/// A path from the top of the tree, or `/` for the root of the filesystem.
fn from_top(tree: &Tree, path: &Path) -> String {
    if path.parent().is_none() {
        return "/".into();
    }
    let path = path.strip_prefix(tree.path("")).unwrap_or(path);
    path.display().to_string().replace('\\', SEPARATOR)
}

fn row(tree: &Tree, roots: &Roots, line: &str, on_windows: Option<&str>) -> Result<(), String> {
    let mut fields = line.splitn(2, '|').map(str::trim);
    let intent = fields.next().unwrap_or_default();
    let (request, expected) =
        fields.next().and_then(|rest| rest.rsplit_once('|')).ok_or("expected three fields")?;
    let (request, expected) = (request.trim(), on_windows.unwrap_or(expected.trim()));
    let request = if request.starts_with('"') {
        serde_json::from_str(request).map_err(|error| error.to_string())?
    } else {
        request.to_owned()
    };
    let request = tree.expand(&request);
    let intent = match intent {
        "open" => Intent::Existing,
        "create" => Intent::New,
        "tree" => Intent::NewTree,
        "entry" => Intent::NoFollow,
        _ => return Err(format!("unknown intent {intent}")),
    };
    let decided = match intent.decide(roots, &request) {
        Ok(proof) => {
            let path = from_top(tree, &proof.canonical());
            format!("{} {path}", if proof.exists() { "allowed" } else { "new" })
        }
        Err(code) => code.to_owned(),
    };
    if decided != expected {
        return Err(format!("decided: {decided}"));
    }
    match intent {
        Intent::Existing => opening_agrees(tree, roots, &request, expected),
        _ => Ok(()),
    }
}

/// Opening in one step makes the same decision as the check, and reads the same content as `std`
/// does at the canonical path.
fn opening_agrees(tree: &Tree, roots: &Roots, request: &str, expected: &str) -> Result<(), String> {
    let opened = roots.read(request, 1 << 20);
    match expected.strip_prefix("allowed ") {
        None => {
            let code = opened.err().map(|error| error.code().to_string());
            let written = roots
                .open_with(request, OpenMode::ReadWrite)
                .err()
                .map(|error| error.code().to_string());
            for code in [code, written] {
                if code.as_deref() != Some(expected) {
                    return Err(format!("opening it returned {code:?}"));
                }
            }
        }
        Some(path) => {
            let path = tree.path(path);
            match (opened, fs::symlink_metadata(&path).map_err(|error| error.to_string())?) {
                (Ok(content), metadata)
                    if metadata.is_file() && content == fs::read(&path).unwrap() => {}
                (Err(error), metadata) if metadata.is_dir() && error.code() == "is_a_directory" => {
                }
                (Err(error), _) if error.code() == "special_file" => {}
                (opened, metadata) => {
                    return Err(format!(
                        "opening it returned {opened:?} for {:?}",
                        metadata.file_type()
                    ));
                }
            }
        }
    }
    Ok(())
}
