//! Every operation of the crate on one request and on two.

use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::time::UNIX_EPOCH;

use mcp_roots_guard::{
    AtomicFile, Attributes, CheckedPath, CopyOptions, CopyReport, Error, Existing, Intent,
    Metadata, OpenFile, OpenOptions, ReadDir, Replace, Result, Roots, Version, Walk, WalkOptions,
    WriteOptions,
};

pub(super) struct Operation {
    pub(super) name: String,
    pub(super) intent: Intent,
    pub(super) changes: bool,
    directly: Direct,
    by_proof: ByProof,
}

type Direct = Box<dyn Fn(&Roots, &str) -> Result<String>>;
type ByProof = Box<dyn Fn(&CheckedPath) -> Result<String>>;

/// How an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Directly,
    ByProof(Intent),
}

pub(super) const INTENTS: [Intent; 4] =
    [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow];

impl Operation {
    pub(super) fn run(&self, mode: Mode, roots: &Roots, text: &str) -> Result<String> {
        match mode {
            Mode::Directly => (self.directly)(roots, text),
            Mode::ByProof(intent) => (self.by_proof)(&roots.check(text, intent)?),
        }
    }

    /// The intent with which the request is checked.
    pub(super) fn intent(&self, mode: Mode) -> Intent {
        match mode {
            Mode::Directly => self.intent,
            Mode::ByProof(intent) => intent,
        }
    }
}

macro_rules! operations {
    ($($changes:literal $intent:ident $method:ident($($arg:expr),*) $returned:expr;)*) => {
        vec![$(Operation {
            name: stringify!($method($($arg),*)).into(),
            intent: Intent::$intent,
            changes: $changes,
            directly: Box::new(|roots, text| {
                roots.$method(text, $($arg),*).map_err(Error::from).and_then($returned)
            }),
            by_proof: Box::new(|checked| {
                checked.$method($($arg),*).map_err(Error::from).and_then($returned)
            }),
        }),*]
    };
}

/// Every operation on one request. If `all` is false, only some combinations of open options.
pub(super) fn operations(all: bool) -> Vec<Operation> {
    let mut operations = operations! {
        false Existing read(LIMIT)                   |content| Ok(format!("{content:?}"));
        false Existing read_to_string(LIMIT)         Ok;
        false Existing open()                        opened;
        false Existing metadata()                    |metadata| Ok(described(&metadata));
        false NoFollow symlink_metadata()            |metadata| Ok(described(&metadata));
        false Existing read_dir()                    listed;
        false Existing walk(WalkOptions::new())      walked;
        true  New      write(ATTACK)                 done;
        true  New      write_with(ATTACK, by(Existing::InPlace)) done;
        true  New      write_with(ATTACK, by(Existing::InPlaceIfOwnerChanges)) done;
        true  NewTree  write_with(ATTACK, WriteOptions::new().create_parents(true)) done;
        true  New      atomic_file(WriteOptions::new()) committed;
        true  NewTree  atomic_file(WriteOptions::new().create_parents(true)) committed;
        false Existing version(LIMIT)                |version| Ok(version.to_string());
        true  Existing set_attributes(Attributes::new().modified(UNIX_EPOCH)) done;
        false Existing open_unguarded_dir()          |_| Ok("opened".into());
        false NoFollow read_link()                   |link| Ok(link.text().display().to_string());
        true  NewTree  create_dir()                  done;
        true  NewTree  create_dir_all()              done;
        true  NoFollow remove_file()                 done;
        true  NoFollow remove_file_if_unchanged(Version::of(b"")) done;
        true  NoFollow remove_dir()                  done;
        true  NoFollow remove_dir_all()              done;
    };
    for intent in INTENTS {
        operations.push(Operation {
            name: format!("check({intent:?})"),
            intent,
            changes: false,
            directly: Box::new(move |roots, text| roots.check(text, intent).map(|it| checked(&it))),
            by_proof: Box::new(|it| Ok(checked(it))),
        });
    }
    operations.push(Operation {
        name: "within".into(),
        intent: Intent::Existing,
        changes: false,
        directly: Box::new(|roots, text| {
            let narrowed = roots.within(text)?;
            Ok(narrowed.roots().map(mcp_roots_guard::Root::display_path).collect())
        }),
        // Roots cannot be narrowed to a proof.
        by_proof: Box::new(|it| Ok(checked(it))),
    });
    operations.push(Operation {
        name: "symlink".into(),
        intent: Intent::NoFollow,
        changes: true,
        directly: Box::new(|roots, text| roots.symlink("target", text).and_then(done)),
        by_proof: Box::new(|it| it.symlink("target").and_then(done)),
    });
    operations.push(Operation {
        name: "no_follow and remove".into(),
        intent: Intent::Existing,
        changes: true,
        directly: Box::new(|roots, text| {
            roots.check(text, Intent::Existing)?.no_follow()?.remove_file().and_then(done)
        }),
        by_proof: Box::new(|it| it.no_follow()?.remove_file().and_then(done)),
    });
    let masks = if all { (0..64).collect() } else { SOME_MASKS.to_vec() };
    operations.extend(masks.into_iter().map(|mask| {
        let options = open_options(mask);
        let creates = mask & (16 | 32) != 0;
        Operation {
            name: format!("open_with({options:?})"),
            intent: if creates { Intent::New } else { Intent::Existing },
            changes: mask & (2 | 4) != 0,
            directly: Box::new(move |roots, text| roots.open_with(text, options).and_then(used)),
            by_proof: Box::new(move |checked| checked.open_with(options).and_then(used)),
        }
    }));
    operations
}

/// The open options whose bits are set in the mask.
fn open_options(mask: u8) -> OpenOptions {
    let bit = |number: u8| mask & (1 << number) != 0;
    OpenOptions::new()
        .read(bit(0))
        .write(bit(1))
        .append(bit(2))
        .truncate(bit(3))
        .create(bit(4))
        .create_new(bit(5))
}

/// Reading; writing; appending; truncating; creating; creating a new file.
const SOME_MASKS: [u8; 6] = [0b00_0001, 0b00_0011, 0b00_0100, 0b00_1010, 0b01_0100, 0b10_0010];

/// An operation on two paths.
pub(super) struct TwoPaths {
    pub(super) name: &'static str,
    pub(super) intents: [Intent; 2],
    pub(super) directly: fn(&Roots, &str, &str) -> Result<String>,
    pub(super) by_proof: fn(&CheckedPath, &CheckedPath) -> Result<String>,
}

macro_rules! two_paths {
    ($($from:ident $to:ident $method:ident($($arg:expr),*) $returned:expr;)*) => {
        &[$(TwoPaths {
            name: stringify!($method($($arg),*)),
            intents: [Intent::$from, Intent::$to],
            directly: |roots, from, to| roots.$method(from, to, $($arg),*).map($returned),
            by_proof: |from, to| from.$method(to, $($arg),*).map($returned),
        }),*]
    };
}

pub(super) const TWO_PATHS: &[TwoPaths] = two_paths! {
    NoFollow NoFollow rename(Replace::Never)            |()| "done".into();
    NoFollow NoFollow rename(Replace::Existing)         |()| "done".into();
    NoFollow NoFollow hard_link()                       |()| "done".into();
    Existing New      copy(LIMIT, WriteOptions::new())  |bytes| bytes.to_string();
    Existing New      copy_tree(CopyOptions::new(), |_| ControlFlow::Continue(())) |report| copied(&report);
};

fn copied(report: &CopyReport) -> String {
    format!("{} {} {}", report.files(), report.directories(), report.skipped_count())
}

/// The paths of [`TWO_PATHS`]. `@` stands for the protected place, and `+` for a directory with
/// unprotected entries.
pub(super) const PATHS: &[(&str, &str)] = &[
    ("@", "+free"),
    ("@/config", "+free"),
    ("@/config", "+mine"),
    ("@/hooks", "+free"),
    ("@/hooks", "+my-dir"),
    ("@/hooks/run", "+free"),
    ("@/empty", "+free"),
    ("+mine", "@"),
    ("+mine", "@/new"),
    ("+mine", "@/config"),
    ("+mine", "@/hooks/run"),
    ("+mine", "@/n1/n2"),
    ("+my-dir", "@"),
    ("+my-dir", "@/empty"),
    ("+my-dir", "@/new"),
    ("+full", "@"),
    ("+full", "@/new"),
    ("+none", "@"),
    ("@/config", "@/new"),
    ("@/config", "@/hooks/run"),
    ("@/hooks", "@/empty"),
    ("@/new", "@/config"),
];

fn by(existing: Existing) -> WriteOptions {
    WriteOptions::new().existing(existing)
}

fn committed(mut file: AtomicFile) -> Result<String> {
    file.write_all(ATTACK.as_bytes())?;
    file.commit().and_then(done)
}

#[expect(clippy::unnecessary_wraps, reason = "the other functions for results can fail")]
fn done((): ()) -> Result<String> {
    Ok("done".into())
}

fn checked(checked: &CheckedPath) -> String {
    format!("{} {}", checked.display_path(), checked.exists())
}

pub(super) fn described(metadata: &Metadata) -> String {
    format!("{:?} {:?}", metadata.file_type(), metadata.mode())
}

fn opened(file: OpenFile) -> Result<String> {
    let described = described(file.metadata());
    Ok(format!("{described} {:?}", file.read_all(LIMIT)?))
}

#[expect(clippy::unnecessary_wraps, reason = "the other functions for results can fail")]
fn used(mut file: OpenFile) -> Result<String> {
    let mut content = Vec::new();
    let read = file.read_to_end(&mut content).is_ok();
    let written = file.write_all(ATTACK.as_bytes()).is_ok();
    Ok(format!("{read} {written} {content:?}"))
}

fn listed(entries: ReadDir) -> Result<String> {
    let mut lines = entries
        .map(|entry| {
            entry.and_then(|it| Ok(format!("{:?} {}", it.name(), described(&it.metadata()?))))
        })
        .collect::<Result<Vec<_>>>()?;
    lines.sort();
    Ok(lines.join(", "))
}

fn walked(walk: Walk) -> Result<String> {
    let lines = crate::support::walked(walk)
        .into_iter()
        .map(|entry| {
            let it = entry?;
            Ok(format!("{} {}", it.path().display(), described(&it.metadata()?)))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(lines.join(", "))
}

/// What a successful attack writes.
pub(super) const ATTACK: &str = "attack";

const LIMIT: u64 = 1 << 10;
