//! The table of operations. These suites take all operations from here, so that a new one is one
//! row and its implementation: the races, the traced system calls, the attacks on protected names,
//! the random trees (also fuzzed), the refusals, and the list of what the example `operate` offers.
//! A [`Way`] is how a row is called.
//!
//! A row says what each path of the operation must name for the operation to succeed, and what the
//! operation changes there. Its functions return a text of everything that a caller can learn from
//! a success: contents, names, types and modes. [`is_leak`] finds what is [marked](mark) in it.

#![allow(
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "the functions that describe results all have the same shape"
)]

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::time::SystemTime;

use mcp_roots_guard::{
    AtomicFile, Attribute, ContentHash, DirEntry, Error, Metadata, OpenFile, OpenMode, Overwrite,
    ReadDir, Result, Roots, Walk, WalkOptions, WriteOptions,
};

use super::one_step::OneStep as _;
use super::proof::Intent::{self, Existing, New, NewTree, NoFollow};
use super::proof::Proof;
use Target::{
    Any, Directory, EmptyDirectory, File, FileOrNew, Missing, MissingTree, Symlink, Tree,
};

pub(crate) struct Operation {
    /// Identifies the row in the seeds of the fuzz target `operations`.
    pub(crate) letter: u8,
    /// The method and its arguments.
    pub(crate) name: &'static str,
    /// Its one or two paths.
    pub(crate) paths: &'static [Path],
    pub(crate) directly: fn(&Roots, &[&str], Pause<'_>) -> Result<String>,
    pub(crate) by_proof: fn(&[Proof], Pause<'_>) -> Result<String>,
}

/// Is called between the steps of an operation. A suite can change the tree there.
pub(crate) type Pause<'a> = &'a dyn Fn();

pub(crate) const NO_PAUSE: Pause<'static> = &|| ();

/// A path of an operation.
pub(crate) struct Path {
    pub(crate) intent: Intent,
    pub(crate) target: Target,
    /// Whether the operation changes what the path names.
    pub(crate) is_changed: bool,
}

/// What a path must name for the operation to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Any,
    File,
    FileOrNew,
    Directory,
    /// A directory, to which the operation applies recursively.
    Tree,
    EmptyDirectory,
    Symlink,
    /// Nothing, in a directory that exists.
    Missing,
    /// Nothing, in a directory that need not exist.
    MissingTree,
}

/// How an operation is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Directly,
    /// By proofs that [`Roots::check`] made.
    Proof,
    /// By proofs that [`CheckedPath::join`] made, each from a proof of the first directory.
    Joined,
    /// By proofs from a listing of the parent.
    Listed,
    /// By proofs from a walk of the first directory.
    Walked,
    /// By proofs for reading, of which the last name is then not followed.
    Unfollowed,
    /// By proofs that [`CheckedPath::parent`] made, each from a proof of a new name in the place.
    Parent,
}

/// The fuzz target selects the others by their positions after the first.
#[rustfmt::skip]
pub(crate) const WAYS: [Way; 7] = [
    Way::Directly, Way::Walked, Way::Parent, Way::Proof, Way::Joined, Way::Listed, Way::Unfollowed,
];

impl Operation {
    pub(crate) fn changes(&self) -> bool {
        self.paths.iter().any(|path| path.is_changed)
    }

    /// Whether several changes are made one after another, so that a failure can come after some.
    pub(crate) fn can_be_partial(&self) -> bool {
        ["_all", "change_set"].iter().any(|part| self.name.contains(part))
    }

    /// The ways in which the operation can succeed: those that suit one of its paths.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Way> {
        WAYS.into_iter().filter(|way| self.paths.iter().any(|path| way.suits(path)))
    }

    /// The proofs for a call. A path that the way does not suit is checked, as is a destination
    /// that may be new.
    pub(crate) fn proofs(
        &self,
        way: Way,
        roots: &Roots,
        texts: &[&str],
        pause: Pause<'_>,
    ) -> Result<Vec<Proof>> {
        let proof = |(position, (path, text)): (usize, (&Path, &&str))| {
            let is_checked = !way.suits(path) || position > 0 && path.target == FileOrNew;
            let way = if is_checked { Way::Proof } else { way };
            way.proof(roots, text, path.intent, pause)
        };
        self.paths.iter().zip(texts).enumerate().map(proof).collect()
    }

    pub(crate) fn run(&self, way: Way, roots: &Roots, texts: &[&str]) -> Result<String> {
        match way {
            Way::Directly => (self.directly)(roots, texts, NO_PAUSE),
            _ => (self.by_proof)(&self.proofs(way, roots, texts, NO_PAUSE)?, NO_PAUSE),
        }
    }
}

impl Way {
    /// Whether what the path must name can be reached in this way.
    fn suits(self, path: &Path) -> bool {
        let exists = !matches!(path.target, Missing | MissingTree);
        match self {
            Self::Directly | Self::Proof | Self::Joined => true,
            Self::Listed | Self::Walked => exists,
            Self::Unfollowed => exists && path.intent == NoFollow && path.target != Symlink,
            // A name that is replaced need not exist.
            Self::Parent if path.target == Any => !path.is_changed,
            Self::Parent => matches!(path.target, Directory | Tree | EmptyDirectory),
        }
    }

    /// A proof of a request. A request that this way cannot take apart is checked as a whole.
    fn proof(self, roots: &Roots, text: &str, intent: Intent, pause: Pause<'_>) -> Result<Proof> {
        let is_relative = !text.starts_with('/') && !text.contains(':');
        let first = text.split_once('/').filter(|(first, rest)| *first != ".." && !rest.is_empty());
        let (first, rest) = first.unwrap_or((".", text));
        let (parent, name) = text.rsplit_once('/').unwrap_or((".", text));
        let is_plain = !parent.is_empty() && !matches!(name, "" | "." | "..");
        let found = match self {
            Self::Joined if is_relative => {
                let base = roots.check(first)?;
                pause();
                return intent.join(&base, rest);
            }
            Self::Listed if is_plain => {
                let mut entries = roots.read_dir(parent)?.flatten();
                pause();
                entries.find(|entry| entry.file_name() == name)
            }
            Self::Walked if is_relative && is_plain => {
                let mut walk = roots.walk(first, WalkOptions::default())?;
                pause();
                let mut entries = std::iter::from_fn(|| walk.next_entry().ok()?);
                entries.find(|entry| entry.relative() == std::path::Path::new(rest))
            }
            Self::Unfollowed => {
                let followed = roots.check(text)?;
                pause();
                return followed.entry().map(Proof::Entry);
            }
            Self::Parent => {
                let below = roots.check(format!("{text}/none").as_str())?;
                pause();
                let parent = below.parent().unwrap_or(below);
                let is_entry = intent == NoFollow;
                return if is_entry {
                    parent.entry().map(Proof::Entry)
                } else {
                    Ok(Proof::Path(parent))
                };
            }
            _ => return intent.check(roots, text),
        };
        match found {
            Some(entry) if intent == NoFollow => Ok(Proof::Entry(entry.to_entry())),
            Some(entry) => entry.follow().map(Proof::Path),
            // This is an error: there is no such name.
            None => {
                let name = format!("{text} is not listed");
                roots.metadata(name.as_str())?;
                Ok(Proof::Path(roots.check(name.as_str())?))
            }
        }
    }
}

/// An operation of which one path is given. The others name entries that a suite creates at the
/// top of its root: the file `spare` with [`CONTENT`], the directory `spare-dir`, and no entry
/// `fresh`.
pub(crate) struct Attempt {
    pub(crate) operation: &'static Operation,
    pub(crate) position: usize,
}

/// Each operation, once for each of its paths.
pub(crate) fn attempts() -> impl Iterator<Item = Attempt> {
    OPERATIONS.iter().flat_map(|operation| {
        (0..operation.paths.len()).map(move |position| Attempt { operation, position })
    })
}

impl Attempt {
    pub(crate) fn path(&self) -> &'static Path {
        &self.operation.paths[self.position]
    }

    /// The name of the operation, and which of its two paths is given.
    pub(crate) fn name(&self) -> String {
        let of = match (self.operation.paths.len(), self.position) {
            (1, _) => "",
            (_, 0) => " from",
            _ => " to",
        };
        format!("{}{of}", self.operation.name)
    }

    /// The request at its position, and the entries for the other.
    pub(crate) fn texts<'a>(&self, request: &'a str) -> Vec<&'a str> {
        let text = |(position, path): (usize, &Path)| match path.target {
            _ if position == self.position => request,
            _ if position > 0 => "fresh",
            Directory | Tree => "spare-dir",
            _ => "spare",
        };
        self.operation.paths.iter().enumerate().map(text).collect()
    }

    pub(crate) fn run(&self, way: Way, roots: &Roots, request: &str) -> Result<String> {
        self.operation.run(way, roots, &self.texts(request))
    }
}

const fn reads(intent: Intent, target: Target) -> Path {
    Path { intent, target, is_changed: false }
}

const fn changes(intent: Intent, target: Target) -> Path {
    Path { intent, target, is_changed: true }
}

macro_rules! row {
    ($letter:literal $proof:ident.$method:ident($($arg:expr),*) on $one:expr => $seen:expr) => {
        Operation {
            letter: $letter,
            name: concat!(stringify!($method), "(", stringify!($($arg),*), ")"),
            paths: &[$one],
            directly: |roots, texts, pause| {
                ($seen)(roots.$method(texts[0], $($arg),*)?, pause)
            },
            by_proof: |checked, pause| ($seen)(checked[0].$proof().$method($($arg),*)?, pause),
        }
    };
    ($letter:literal $proof:ident.$method:ident($($arg:expr),*) on $one:expr, $two:expr
        => $seen:expr) => {
        Operation {
            letter: $letter,
            name: concat!(stringify!($method), "(", stringify!($($arg),*), ")"),
            paths: &[$one, $two],
            directly: |roots, texts, pause| {
                ($seen)(roots.$method(texts[0], texts[1], $($arg),*)?, pause)
            },
            by_proof: |checked, pause| {
                ($seen)(checked[0].$proof().$method(checked[1].$proof(), $($arg),*)?, pause)
            },
        }
    };
    ($letter:literal $check:ident on $intent:ident) => {
        Operation {
            letter: $letter,
            name: stringify!($check),
            paths: &[reads($intent, Any)],
            directly: |roots, texts, _| Ok(described_proof(&$intent.check(roots, texts[0])?)),
            by_proof: |checked, _| Ok(described_proof(&checked[0])),
        }
    };
}

pub(crate) const OPERATIONS: &[Operation] = &[
    row!(b'7' check on NewTree),
    row!(b'+' check_entry on NoFollow),
    row!(b'A' path.read(LIMIT) on reads(Existing, File) => content),
    row!(b'B' path.read_to_string(LIMIT) on reads(Existing, File) => |text, _| Ok(text)),
    row!(b'C' path.open() on reads(Existing, File) => opened),
    row!(b'E' path.metadata() on reads(Existing, Any) => described),
    row!(b'e' path.content_hash(LIMIT) on reads(Existing, File) => |it: ContentHash, _| Ok(it.to_string())),
    row!(b'i' entry.read_link() on reads(NoFollow, Symlink) => linked),
    row!(b'G' path.read_dir() on reads(Existing, Directory) => listed),
    row!(b'H' path.walk(WalkOptions::default()) on reads(Existing, Tree) => walked),
    row!(b'm' path.open_unguarded_dir() on reads(Existing, Directory) => unguarded),
    row!(b'I' path.open_with(OpenMode::ReadWrite) on changes(Existing, File) => used),
    row!(b'M' path.open_with(OpenMode::Create) on changes(New, FileOrNew) => used),
    row!(b'N' path.open_with(OpenMode::Append) on changes(New, FileOrNew) => used),
    row!(b'O' path.open_with(OpenMode::CreateNew) on changes(New, Missing) => used),
    row!(b'P' path.open_with(OpenMode::Truncate) on changes(New, FileOrNew) => used),
    row!(b'Q' path.write(WRITTEN) on changes(New, FileOrNew) => done),
    row!(b'Y' path.write_with(WRITTEN, WriteOptions::default().in_place()) on changes(New, FileOrNew) => done),
    row!(b'5' path.write_with(WRITTEN, WriteOptions::default().in_place_if_owner_changes())
        on changes(New, FileOrNew) => done),
    row!(b'a' path.write_with(WRITTEN, WriteOptions::default().overwrite(Overwrite::Never))
        on changes(New, Missing) => done),
    row!(b'b' path.write_with(WRITTEN, if_unchanged()) on changes(New, File) => done),
    row!(b'Z' path.write_with(WRITTEN, parents()) on changes(NewTree, MissingTree) => done),
    row!(b'c' path.atomic_file(WriteOptions::default()) on changes(New, FileOrNew) => committed),
    row!(b'6' path.atomic_file(parents()) on changes(NewTree, MissingTree) => committed),
    row!(b'j' path.set_attribute(executable()) on changes(Existing, File) => done),
    row!(b'k' path.set_attribute(Attribute::Modified(SystemTime::UNIX_EPOCH))
        on changes(Existing, Any) => done),
    row!(b'R' path.create_dir() on changes(New, Missing) => done),
    row!(b'S' path.create_dir_all() on changes(NewTree, MissingTree) => done),
    row!(b'T' entry.remove_file() on changes(NoFollow, File) => done),
    row!(b'U' entry.remove_dir() on changes(NoFollow, EmptyDirectory) => done),
    row!(b'V' entry.remove_dir_all() on changes(NoFollow, Tree) => done),
    row!(b'W' entry.rename(Overwrite::Never) on changes(NoFollow, Any), changes(NoFollow, Missing) => done),
    row!(b'X' entry.rename(Overwrite::Always)
        on changes(NoFollow, Any), changes(NoFollow, Any) => done),
    row!(b'o' entry.rename(Overwrite::IfUnchanged(version()))
        on changes(NoFollow, File), changes(NoFollow, File) => done),
    row!(b'r' entry.hard_link() on changes(NoFollow, File), changes(NoFollow, Missing) => done),
    row!(b's' path.copy(LIMIT, WriteOptions::default())
        on reads(Existing, File), changes(New, FileOrNew) => |bytes: u64, _| Ok(bytes.to_string())),
    row!(b't' path.copy(LIMIT, parents())
        on reads(Existing, File), changes(NewTree, MissingTree)
        => |bytes: u64, _| Ok(bytes.to_string())),
    Operation {
        letter: b'F',
        name: "symlink_metadata()",
        paths: &[reads(NoFollow, Any)],
        directly: |roots, texts, pause| described(roots.symlink_metadata(texts[0])?, pause),
        by_proof: |checked, pause| described(checked[0].entry().metadata()?, pause),
    },
    Operation {
        letter: b'-',
        name: "within",
        paths: &[reads(Existing, Directory)],
        directly: |roots, texts, pause| {
            let narrowed = roots.within(texts[0])?;
            pause();
            listed(narrowed.read_dir(".")?, pause)
        },
        // Roots cannot be narrowed to a proof.
        by_proof: |checked, pause| listed(checked[0].path().read_dir()?, pause),
    },
    Operation {
        letter: b'_',
        name: "within_all",
        paths: &[reads(Existing, Directory)],
        directly: |roots, texts, pause| {
            let narrowed = roots.within_all([texts[0], texts[0]])?;
            pause();
            listed(narrowed.read_dir(".")?, pause)
        },
        // Roots cannot be narrowed to proofs.
        by_proof: |checked, pause| listed(checked[0].path().read_dir()?, pause),
    },
    Operation {
        letter: b'w',
        name: "symlink",
        paths: &[changes(NoFollow, Missing)],
        // A second text is the target.
        directly: |roots, texts, pause| {
            done(roots.symlink(texts.get(1).unwrap_or(&"data"), texts[0])?, pause)
        },
        by_proof: |checked, pause| done(checked[0].entry().symlink("data")?, pause),
    },
    Operation {
        letter: b'x',
        name: "change_set",
        paths: &[changes(NoFollow, File), changes(New, FileOrNew)],
        directly: |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.write(texts[1], WRITTEN, WriteOptions::default())?;
            pause();
            changes.remove_file(texts[0])?;
            pause();
            done(changes.commit().map_err(Error::from)?, pause)
        },
        // A change set takes no proofs. This is what it does with them.
        by_proof: |checked, pause| {
            let file = checked[1].path().atomic_file(WriteOptions::default())?;
            pause();
            checked[0].entry().remove_file()?;
            committed(file, pause)
        },
    },
    Operation {
        letter: b'g',
        name: "change_set(remove_file_if_unchanged)",
        paths: &[changes(NoFollow, File)],
        directly: |roots, texts, pause| {
            done(roots.remove_file_if_unchanged(texts[0], version())?, pause)
        },
        by_proof: |checked, pause| {
            let entry = checked[0].entry();
            if entry.metadata()?.file_type().is_symlink() {
                // Fails: a symlink has no version, as it has no hard links.
                entry.hard_link(entry)?;
            }
            let is_unchanged = entry.follow()?.content_hash(LIMIT)? == version();
            pause();
            if is_unchanged { done(entry.remove_file()?, pause) } else { Ok("kept".into()) }
        },
    },
    Operation {
        letter: b'y',
        name: "change_set(if_unchanged, parents)",
        paths: &[changes(New, File), changes(NewTree, MissingTree)],
        directly: |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.write(texts[0], WRITTEN, if_unchanged())?;
            pause();
            changes.write(texts[1], WRITTEN, parents())?;
            pause();
            done(changes.commit().map_err(Error::from)?, pause)
        },
        by_proof: |checked, pause| {
            let file = checked[0].path().atomic_file(if_unchanged())?;
            pause();
            committed(checked[1].path().atomic_file(parents())?, pause)?;
            committed(file, pause)
        },
    },
    Operation {
        letter: b'z',
        name: "change_set(rename)",
        paths: &[changes(NoFollow, File), changes(NoFollow, Missing)],
        directly: |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.rename(texts[0], texts[1], Overwrite::Never)?;
            pause();
            done(changes.commit().map_err(Error::from)?, pause)
        },
        by_proof: |checked, pause| {
            pause();
            done(checked[0].entry().rename(checked[1].entry(), Overwrite::Never)?, pause)
        },
    },
    Operation {
        letter: b'+',
        name: "change_set(write_moved)",
        paths: &[changes(Existing, File), changes(NewTree, MissingTree)],
        directly: |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.write_moved(texts[0], version(), texts[1], WRITTEN, parents())?;
            pause();
            done(changes.commit().map_err(Error::from)?, pause)
        },
        by_proof: |checked, pause| {
            let entry = checked[0].path().entry()?;
            let file = checked[1].path().atomic_file(parents())?;
            pause();
            entry.remove_file()?;
            committed(file, pause)
        },
    },
];

/// What the operations write.
pub(crate) const WRITTEN: &str = "written";

/// The content of files for which conditional changes succeed.
pub(crate) const CONTENT: &str = "content";

/// The content and the names of what no operation may return.
pub(crate) const SECRET: &str = "SECRET";

/// No file in the suites that use the table is larger.
pub(crate) const LIMIT: u64 = 1 << 10;

/// Modes that no other file or directory has, whatever the umask.
#[cfg(unix)]
const MARKED_FILE: u32 = 0o604;
#[cfg(unix)]
const MARKED_DIRECTORY: u32 = 0o705;

/// Sets modes that nothing else has on a path and everything below it, except symlinks, so that its
/// description is recognized.
#[cfg(unix)]
pub(crate) fn mark(path: &std::path::Path) {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    if path.is_symlink() {
        return;
    }
    let mode = if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            mark(&entry.unwrap().path());
        }
        MARKED_DIRECTORY
    } else {
        MARKED_FILE
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
pub(crate) fn is_marked(mode: u32) -> bool {
    matches!(mode & 0o777, MARKED_FILE | MARKED_DIRECTORY)
}

/// Whether a returned text contains the secret, its version, or a marked mode.
#[cfg(unix)]
pub(crate) fn is_leak(seen: &str) -> bool {
    let marked = [MARKED_FILE, MARKED_DIRECTORY].map(|mode| format!("mode {mode:o}"));
    let version = ContentHash::of(SECRET.as_bytes()).to_string();
    marked.iter().chain([&version]).any(|mark| seen.contains(mark)) || seen.contains(SECRET)
}

fn parents() -> WriteOptions {
    WriteOptions::default().create_parents()
}

fn version() -> ContentHash {
    ContentHash::of(CONTENT.as_bytes())
}

fn if_unchanged() -> WriteOptions {
    WriteOptions::default().overwrite(Overwrite::IfUnchanged(version()))
}

fn executable() -> Attribute {
    if cfg!(windows) { Attribute::ReadOnly } else { Attribute::Executable }
}

fn done((): (), _: Pause<'_>) -> Result<String> {
    Ok("done".into())
}

fn content(content: Vec<u8>, _: Pause<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(&content).into_owned())
}

fn described(metadata: Metadata, _: Pause<'_>) -> Result<String> {
    Ok(description(&metadata))
}

/// The type and the mode. Sizes and times differ between equal trees.
pub(crate) fn description(metadata: &Metadata) -> String {
    let mode = metadata.mode().map_or("none".into(), |mode| format!("{:o}", mode & 0o7777));
    format!("{:?} mode {mode}", metadata.file_type())
}

fn described_proof(checked: &Proof) -> String {
    format!("{} {}", checked.display_path(), checked.exists())
}

fn linked(target: PathBuf, _: Pause<'_>) -> Result<String> {
    Ok(target.display().to_string())
}

fn opened(file: OpenFile, pause: Pause<'_>) -> Result<String> {
    let described = description(file.metadata());
    pause();
    let read = file.read_all(LIMIT).and_then(|read| content(read, pause));
    Ok(format!("{described} {}", or_code(read)))
}

/// What was returned before a later step failed is searched for leaks like any other success.
fn or_code(seen: Result<String>) -> String {
    seen.unwrap_or_else(|error| format!("error {}", error.code()))
}

/// Reads from the file and writes to it, as far as it is open for that.
fn used(mut file: OpenFile, pause: Pause<'_>) -> Result<String> {
    let (described, mut content) = (description(file.metadata()), Vec::new());
    pause();
    let read = file.read_to_end(&mut content).is_ok();
    let written = file.write_all(WRITTEN.as_bytes()).is_ok();
    Ok(format!("{described} {read} {written} {}", String::from_utf8_lossy(&content)))
}

fn committed(mut file: AtomicFile, pause: Pause<'_>) -> Result<String> {
    pause();
    file.write_all(WRITTEN.as_bytes())?;
    pause();
    done(file.commit()?, pause)
}

fn listed(entries: ReadDir, pause: Pause<'_>) -> Result<String> {
    let mut lines = lines(entries, pause)?;
    lines.sort();
    Ok(lines.join(", "))
}

fn walked(mut walk: Walk, pause: Pause<'_>) -> Result<String> {
    Ok(lines(std::iter::from_fn(|| walk.next_entry().transpose()), pause)?.join(", "))
}

/// Everything that the entries return up to an error, which is only returned if it is the first.
fn lines(entries: impl Iterator<Item = Result<DirEntry>>, pause: Pause<'_>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for entry in entries {
        match entry {
            Err(error) if lines.is_empty() => return Err(error),
            Err(error) => {
                lines.push(or_code(Err(error)));
                break;
            }
            Ok(entry) => lines.push(entry_line(&entry, pause)),
        }
    }
    Ok(lines)
}

fn entry_line(entry: &DirEntry, pause: Pause<'_>) -> String {
    pause();
    let described = or_code(entry.metadata().map(|metadata| description(&metadata)));
    let opened =
        or_code(entry.follow().and_then(|path| path.open()).and_then(|file| opened(file, pause)));
    let read = or_code(entry.read(LIMIT).and_then(|read| content(read, pause)));
    format!("{} {described} {opened} {read}", entry.relative().display())
}

#[cfg(target_os = "linux")]
fn unguarded(directory: std::os::fd::OwnedFd, pause: Pause<'_>) -> Result<String> {
    let mode = rustix::fs::fstat(&directory).unwrap().st_mode & 0o7777;
    pause();
    let entries = rustix::fs::Dir::read_from(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name != "." && name != "..").collect();
    names.sort();
    Ok(format!("mode {mode:o} {}", names.join(" ")))
}

#[cfg(not(target_os = "linux"))]
fn unguarded<T>(_: T, _: Pause<'_>) -> Result<String> {
    Ok("opened".into())
}
