//! Every operation of the crate on one request, and every rename.

use std::io::{Read as _, Write as _};

use mcp_roots_guard::{
    CheckedPath, Error, Existing, Intent, Metadata, OpenFile, OpenOptions, ReadDir, Result, Roots,
    Walk, WalkOptions, WriteOptions,
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
        true  NewTree  create_dir()                  done;
        true  NewTree  create_dir_all()              done;
        true  NoFollow remove_file()                 done;
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
        // A proof cannot be narrowed to.
        by_proof: Box::new(|it| Ok(checked(it))),
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

/// The renames. `@` stands for the protected place, and `+` for a directory with unprotected
/// entries.
pub(super) const RENAMES: &[(&str, &str)] = &[
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
        .map(|entry| entry.map(|it| format!("{:?} {}", it.name(), described(it.metadata()))))
        .collect::<Result<Vec<_>>>()?;
    lines.sort();
    Ok(lines.join(", "))
}

fn walked(walk: Walk) -> Result<String> {
    let lines = walk
        .map(|entry| {
            entry.map(|it| format!("{} {}", it.path().display(), described(it.metadata())))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(lines.join(", "))
}

/// What a successful attack writes.
pub(super) const ATTACK: &str = "attack";

const LIMIT: u64 = 1 << 10;
