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
    AtomicFile, Attribute, ChangeSet, ContentHash, DirEntry, Metadata, OpenFile, OpenMode,
    Precondition, ReadDir, Result, Roots, Walk, WalkOptions, WriteOptions,
};

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
    /// The method of [`Roots`]. Without one, the request is checked, and the proof is used.
    pub(crate) directly: Option<Directly>,
    /// The method of the proof, unless only [`Roots`] have it.
    pub(crate) by_proof: Option<ByProof>,
}

type Directly = fn(&Roots, &[&str], Pause<'_>) -> Result<String>;
type ByProof = fn(&[Proof], Pause<'_>) -> Result<String>;

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
        let has = |way: &Way| *way == Way::Directly || self.by_proof.is_some();
        let suits = |way: &Way| self.paths.iter().any(|path| way.suits(path));
        WAYS.into_iter().filter(move |way| has(way) && suits(way))
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
        self.run_with_pauses(way, roots, texts, NO_PAUSE)
    }

    /// An operation that has no way by proofs is called directly instead.
    pub(crate) fn run_with_pauses(
        &self,
        way: Way,
        roots: &Roots,
        texts: &[&str],
        pause: Pause<'_>,
    ) -> Result<String> {
        match (self.directly, self.by_proof) {
            (Some(directly), None) => directly(roots, texts, pause),
            (Some(directly), _) if way == Way::Directly => directly(roots, texts, pause),
            (_, by_proof) => {
                let by_proof = by_proof.expect("an operation can be called");
                by_proof(&self.proofs(way, roots, texts, pause)?, pause)
            }
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

const fn of_roots(
    letter: u8,
    name: &'static str,
    paths: &'static [Path],
    directly: Directly,
) -> Operation {
    Operation { letter, name, paths, directly: Some(directly), by_proof: None }
}

const fn of_proofs(
    letter: u8,
    name: &'static str,
    paths: &'static [Path],
    by_proof: ByProof,
) -> Operation {
    Operation { letter, name, paths, directly: None, by_proof: Some(by_proof) }
}

/// A method of a proof, and the one of [`Roots`] with the same name, unless `only` proofs have it.
macro_rules! method {
    ($letter:literal only $proof:ident.$method:ident($($arg:expr),*) on $paths:expr
        => $seen:expr) => {
        of_proofs(
            $letter,
            concat!(stringify!($method), "(", stringify!($($arg),*), ")"),
            &$paths,
            |checked, pause| ($seen)(checked[0].$proof().$method($($arg),*)?, pause),
        )
    };
    ($letter:literal $proof:ident.$method:ident($($arg:expr),*) on [$one:expr] => $seen:expr) => {
        Operation {
            directly: Some(|roots, texts, pause| {
                ($seen)(roots.$method(texts[0], $($arg),*)?, pause)
            }),
            ..method!($letter only $proof.$method($($arg),*) on [$one] => $seen)
        }
    };
    ($letter:literal $proof:ident.$method:ident($($arg:expr),*) on [$one:expr, $two:expr]
        => $seen:expr) => {
        Operation {
            letter: $letter,
            name: concat!(stringify!($method), "(", stringify!($($arg),*), ")"),
            paths: &[$one, $two],
            directly: Some(|roots, texts, pause| {
                ($seen)(roots.$method(texts[0], texts[1], $($arg),*)?, pause)
            }),
            by_proof: Some(|checked, pause| {
                ($seen)(checked[0].$proof().$method(checked[1].$proof(), $($arg),*)?, pause)
            }),
        }
    };
}

pub(crate) const OPERATIONS: &[Operation] = &[
    of_proofs(b'7', "check", &[reads(NewTree, Any)], described_proof),
    of_proofs(b'+', "check_entry", &[reads(NoFollow, Any)], described_proof),
    method!(b'A' path.read(LIMIT) on [reads(Existing, File)] => content),
    method!(b'B' path.read_to_string(LIMIT) on [reads(Existing, File)] => |text, _| Ok(text)),
    method!(b'C' path.open() on [reads(Existing, File)] => used),
    method!(b'E' path.metadata() on [reads(Existing, Any)] => described),
    method!(b'e' only path.content_hash(LIMIT)
        on [reads(Existing, File)] => |it: ContentHash, _| Ok(it.to_string())),
    method!(b'i' only entry.read_link() on [reads(NoFollow, Symlink)] => target),
    method!(b'G' path.read_dir() on [reads(Existing, Directory)] => listed),
    method!(b'H' path.walk(WalkOptions::default()) on [reads(Existing, Tree)] => walked),
    method!(b'm' only path.open_unguarded_dir() on [reads(Existing, Directory)] => unguarded),
    method!(b'I' path.open_with(OpenMode::ReadWrite) on [changes(Existing, File)] => used),
    method!(b'M' path.open_with(OpenMode::Create) on [changes(New, FileOrNew)] => used),
    method!(b'N' path.open_with(OpenMode::Append) on [changes(New, FileOrNew)] => used),
    method!(b'O' path.open_with(OpenMode::CreateNew) on [changes(New, Missing)] => used),
    method!(b'P' path.open_with(OpenMode::Truncate) on [changes(New, FileOrNew)] => used),
    method!(b'Q' path.write(WRITTEN) on [changes(New, FileOrNew)] => done),
    method!(b'Y' path.write_with(WRITTEN, WriteOptions::default().in_place())
        on [changes(New, FileOrNew)] => done),
    method!(b'5' path.write_with(WRITTEN, WriteOptions::default().in_place_if_owner_changes())
        on [changes(New, FileOrNew)] => done),
    method!(b'a' path.write_with(WRITTEN, WriteOptions::default().precondition(Precondition::Missing))
        on [changes(New, Missing)] => done),
    method!(b'b' path.write_with(WRITTEN, if_unchanged()) on [changes(New, File)] => done),
    method!(b'Z' path.write_with(WRITTEN, parents()) on [changes(NewTree, MissingTree)] => done),
    method!(b'c' only path.atomic_file(WriteOptions::default())
        on [changes(New, FileOrNew)] => committed),
    method!(b'6' only path.atomic_file(parents()) on [changes(NewTree, MissingTree)] => committed),
    method!(b'j' only path.set_attribute(executable()) on [changes(Existing, File)] => done),
    method!(b'k' only path.set_attribute(Attribute::Modified(SystemTime::UNIX_EPOCH))
        on [changes(Existing, Any)] => done),
    method!(b'R' path.create_dir() on [changes(New, Missing)] => done),
    method!(b'S' path.create_dir_all() on [changes(NewTree, MissingTree)] => done),
    method!(b'T' entry.remove_file() on [changes(NoFollow, File)] => done),
    method!(b'U' entry.remove_dir() on [changes(NoFollow, EmptyDirectory)] => done),
    method!(b'V' entry.remove_dir_all() on [changes(NoFollow, Tree)] => done),
    method!(b'W' entry.rename(Precondition::Missing)
        on [changes(NoFollow, Any), changes(NoFollow, Missing)] => done),
    method!(b'X' entry.rename(Precondition::Any)
        on [changes(NoFollow, Any), changes(NoFollow, Any)] => done),
    method!(b'o' entry.rename(Precondition::Unchanged(version()))
        on [changes(NoFollow, File), changes(NoFollow, File)] => done),
    method!(b's' path.copy(LIMIT, WriteOptions::default())
        on [reads(Existing, File), changes(New, FileOrNew)] => copied),
    method!(b't' path.copy(LIMIT, parents())
        on [reads(Existing, File), changes(NewTree, MissingTree)] => copied),
    of_proofs(b'r', "hard_link()", &[changes(NoFollow, File), changes(NoFollow, Missing)], linked),
    Operation {
        directly: Some(|roots, texts, pause| described(roots.symlink_metadata(texts[0])?, pause)),
        ..of_proofs(b'F', "symlink_metadata()", &[reads(NoFollow, Any)], |checked, pause| {
            described(checked[0].entry().metadata()?, pause)
        })
    },
    of_roots(b'-', "within", &[reads(Existing, Directory)], |roots, texts, pause| {
        let narrowed = roots.within(texts[0])?;
        pause();
        listed(narrowed.read_dir(".")?, pause)
    }),
    of_roots(b'_', "within_all", &[reads(Existing, Directory)], |roots, texts, pause| {
        let narrowed = roots.within_all([texts[0], texts[0]])?;
        pause();
        listed(narrowed.read_dir(".")?, pause)
    }),
    Operation {
        // A second text is the target.
        directly: Some(|roots, texts, pause| {
            let target = texts.get(1).unwrap_or(&"data");
            done(roots.check_entry(texts[0])?.symlink(target)?, pause)
        }),
        ..of_proofs(b'w', "symlink", &[changes(NoFollow, Missing)], |checked, pause| {
            done(checked[0].entry().symlink("data")?, pause)
        })
    },
    of_roots(
        b'x',
        "change_set",
        &[changes(NoFollow, File), changes(New, FileOrNew)],
        |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.write(texts[1], WRITTEN, WriteOptions::default())?;
            pause();
            changes.remove_file(texts[0], Precondition::Any)?;
            made(changes, pause)
        },
    ),
    of_roots(b'g', "change_set(remove_file)", &[changes(NoFollow, File)], |roots, texts, pause| {
        let mut changes = roots.change_set();
        changes.remove_file(texts[0], Precondition::Unchanged(version()))?;
        made(changes, pause)
    }),
    of_roots(
        b'y',
        "change_set(if_unchanged, parents)",
        &[changes(New, File), changes(NewTree, MissingTree)],
        |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.write(texts[0], WRITTEN, if_unchanged())?;
            pause();
            changes.write(texts[1], WRITTEN, parents())?;
            made(changes, pause)
        },
    ),
    of_roots(
        b'z',
        "change_set(rename)",
        &[changes(NoFollow, File), changes(NoFollow, Missing)],
        |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.rename(texts[0], texts[1], Precondition::Missing)?;
            made(changes, pause)
        },
    ),
    of_roots(
        b'f',
        "change_set(create_dir, remove_dir_all)",
        &[changes(NoFollow, Tree), changes(New, Missing)],
        |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.remove_dir_all(texts[0])?;
            pause();
            changes.create_dir(texts[1])?;
            made(changes, pause)
        },
    ),
    of_roots(
        b'8',
        "change_set(write_moved)",
        &[changes(Existing, File), changes(NewTree, MissingTree)],
        |roots, texts, pause| {
            let mut changes = roots.change_set();
            changes.write_moved(
                texts[0],
                Precondition::Unchanged(version()),
                texts[1],
                WRITTEN,
                parents(),
            )?;
            made(changes, pause)
        },
    ),
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
    use std::os::unix::fs::PermissionsExt as _;
    for path in super::tree::entries(path).into_iter().filter(|path| !path.is_symlink()) {
        let mode = if path.is_dir() { MARKED_DIRECTORY } else { MARKED_FILE };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
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
    WriteOptions::default().precondition(Precondition::Unchanged(version()))
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
    let mode =
        metadata.permission_bits().map_or("none".into(), |mode| format!("{:o}", mode & 0o7777));
    format!("{:?} mode {mode}", metadata.file_type())
}

fn described_proof(checked: &[Proof], _: Pause<'_>) -> Result<String> {
    Ok(format!("{} {}", checked[0].display_path(), checked[0].exists()))
}

fn copied(bytes: u64, _: Pause<'_>) -> Result<String> {
    Ok(bytes.to_string())
}

fn made(changes: ChangeSet, pause: Pause<'_>) -> Result<String> {
    pause();
    done(changes.commit()?, pause)
}

fn target(target: PathBuf, _: Pause<'_>) -> Result<String> {
    Ok(target.display().to_string())
}

fn linked(checked: &[Proof], pause: Pause<'_>) -> Result<String> {
    done(checked[0].entry().hard_link(checked[1].entry())?, pause)
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
        or_code(entry.follow().and_then(|path| path.open()).and_then(|file| used(file, pause)));
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
