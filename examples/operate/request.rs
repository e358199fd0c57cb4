//! The requests: an operation with its fields, and the fields that all operations have.
//!
//! `--help` prints the schema of these types.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_roots_guard::limits::WALK_ENTRIES;
use mcp_roots_guard::{Durability, Overwrite, WriteOptions};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::reply::Failure;

/// The fields of every operation.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Common {
    /// Resolves relative paths against this root, instead of the first one.
    pub(crate) base: Option<String>,
    /// Narrows the roots to this directory or file.
    pub(crate) within: Option<String>,
    /// Makes all roots read-only.
    pub(crate) roots_read_only: bool,
    /// Checks first, and then performs the operation on the proof. Some operations always do.
    pub(crate) checked: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Lists the roots in force.
    Roots(NoFields),
    /// Lists the entries of the client's list that grant nothing.
    Rejected(NoFields),
    /// Checks a path, and describes the proof.
    Check(OnePath),
    /// Checks a path, not following a symlink at its end, and describes the proof.
    CheckEntry(OnePath),
    /// Checks a path, then a path relative to it, and describes the second proof.
    Join(JoinFields),
    /// Like `join`, not following a symlink at the end of the relative path.
    JoinEntry(JoinFields),
    /// Checks a path, and describes the proof of its parent, which is null for a root.
    Parent(OnePath),
    /// Checks a path, and describes the proof of the entry itself.
    NoFollow(OnePath),
    /// Checks an entry, and describes the proof of the place to which it leads.
    Follow(OnePath),
    /// Whether a file or directory exists.
    Exists(OnePath),
    /// Checks a path, and then whether the roots narrowed by the common fields still allow it.
    StillAllows(OnePath),
    /// Opens a file, writes the content at the offset, and describes the file.
    Open(OpenFields),
    /// Reads a file.
    Read(ReadFields),
    /// Reads a file that is UTF-8 text.
    ReadToString(ReadFields),
    /// Describes a file or directory.
    Metadata(OnePath),
    /// Describes an entry, which may be a symlink.
    SymlinkMetadata(OnePath),
    /// Returns the version of a file.
    Version(ReadFields),
    /// Reads the text of a symlink, and whether it leads inside the roots.
    ReadLink(OnePath),
    /// Returns the path of a file for a program that opens it without the guard.
    ToUnguardedPath(OnePath),
    /// Opens a directory without the guard, and describes the open directory.
    OpenUnguardedDir(OnePath),
    /// Lists a directory.
    List(OnePath),
    /// Lists a directory and the directories in it. An error has the entries before it.
    Walk(WalkFields),
    /// Walks to an entry of a directory, and operates on it without resolving its path again.
    Entry(EntryFields),
    /// Writes a whole file.
    Write(WriteFields),
    /// Writes a file in pieces, and commits it.
    AtomicFile(PieceFields),
    /// Changes several files. Each change is prepared before the first is made.
    ChangeSet(ChangeFields),
    /// Creates a directory.
    CreateDir(OnePath),
    /// Creates a directory and its missing parents.
    CreateDirAll(OnePath),
    /// Renames an entry.
    Rename(RenameFields),
    /// Copies a file.
    Copy(CopyFields),
    /// Creates a symlink whose target is inside the roots.
    Symlink(SymlinkFields),
    /// Gives a file another name in the same root.
    HardLink(TwoPaths),
    /// Sets an attribute of a file or directory.
    SetAttribute(AttributeFields),
    /// Removes a file or a symlink.
    RemoveFile(OnePath),
    /// Removes an empty directory.
    RemoveDir(OnePath),
    /// Removes a directory and its content.
    RemoveDirAll(OnePath),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnePath {
    /// The file or directory, as a path or `file:` URI.
    pub(crate) path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TwoPaths {
    /// The source, as a path or `file:` URI.
    pub(crate) from: String,
    /// The destination, as a path or `file:` URI.
    pub(crate) to: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinFields {
    /// The directory.
    pub(crate) path: String,
    /// A relative path.
    pub(crate) relative: Bytes,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenFields {
    /// The file.
    pub(crate) path: String,
    /// Whether the file is changed or created.
    #[serde(default)]
    pub(crate) mode: Mode,
    /// The position at which reading and writing start.
    #[serde(default)]
    pub(crate) offset: u64,
    /// The content to write.
    pub(crate) content: Option<Bytes>,
    /// Reads at most this many bytes, after writing.
    pub(crate) limit: Option<Size>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFields {
    /// The file.
    pub(crate) path: String,
    /// A file with more bytes is refused.
    #[serde(default)]
    pub(crate) limit: Size,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WalkFields {
    /// The directory.
    pub(crate) path: String,
    /// The entries of the directory itself have depth 1.
    pub(crate) max_depth: Option<usize>,
    /// With more entries, the walk is an error.
    #[serde(default = "most_entries")]
    pub(crate) max_entries: usize,
    /// Omits names that begin with a dot.
    #[serde(default)]
    pub(crate) skip_dot_files: bool,
    /// Whether files that git ignores are omitted.
    #[cfg(feature = "ignore")]
    #[serde(default)]
    pub(crate) git_ignore: bool,
    /// Continues if a directory cannot be read.
    #[serde(default)]
    pub(crate) skip_unreadable: bool,
    /// Names of directories that are not entered.
    #[serde(default)]
    pub(crate) skip: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntryFields {
    /// The directory.
    pub(crate) path: String,
    /// The path of the entry in the directory.
    pub(crate) entry: Bytes,
    /// The operation. `describe` returns the proof.
    pub(crate) action: Action,
    /// A file with more bytes is refused.
    #[serde(default)]
    pub(crate) limit: Size,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFields {
    /// The file.
    pub(crate) path: String,
    /// The content.
    pub(crate) content: Bytes,
    #[serde(flatten)]
    pub(crate) how: WriteOptionFields,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PieceFields {
    /// The file.
    pub(crate) path: String,
    /// The content, in pieces.
    pub(crate) pieces: Vec<Bytes>,
    /// If this is false, nothing is changed.
    #[serde(default = "yes")]
    pub(crate) commit: bool,
    #[serde(flatten)]
    pub(crate) how: WriteOptionFields,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeFields {
    /// The changes, in order.
    pub(crate) changes: Vec<Change>,
    /// If this is false, nothing is changed.
    #[serde(default = "yes")]
    pub(crate) commit: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveFields {
    /// The file or symlink.
    pub(crate) path: String,
    /// Refuses a file that does not have this `version`.
    #[serde(default)]
    pub(crate) if_unchanged: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameFields {
    /// The source.
    pub(crate) from: String,
    /// The destination.
    pub(crate) to: String,
    /// Whether an existing destination is replaced. `if_unchanged` takes precedence.
    #[serde(default = "Replace::never")]
    pub(crate) overwrite: Replace,
    /// Refuses a destination that does not have this `version`.
    #[serde(default)]
    pub(crate) if_unchanged: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopyFields {
    /// The source.
    pub(crate) from: String,
    /// The destination.
    pub(crate) to: String,
    /// A file with more bytes is refused.
    #[serde(default = "largest_copy")]
    pub(crate) limit: u64,
    #[serde(flatten)]
    pub(crate) how: WriteOptionFields,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SymlinkFields {
    /// The symlink.
    pub(crate) path: String,
    /// The text of the symlink.
    pub(crate) target: Bytes,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttributeFields {
    /// The file or directory.
    pub(crate) path: String,
    /// The attribute.
    pub(crate) attribute: Attribute,
    /// The time, for `modified` and `accessed`, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) time: Time,
}

/// One change of a set.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Change {
    /// Writes a whole file.
    Write(WriteFields),
    /// Removes a file or a symlink.
    RemoveFile(RemoveFields),
    /// Moves a file, and changes its content.
    WriteMoved(MoveFields),
    /// Renames an entry.
    Rename(RenameFields),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveFields {
    /// The source.
    pub(crate) from: String,
    /// Refuses a source that does not have this `version`.
    pub(crate) if_unchanged: String,
    /// The destination, which must not exist.
    pub(crate) to: String,
    /// The content.
    pub(crate) content: Bytes,
    /// Creates missing parent directories.
    #[serde(default)]
    pub(crate) create_parents: bool,
}

/// How a file is written.
#[derive(Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct WriteOptionFields {
    /// Whether an existing file is overwritten. `if_unchanged` takes precedence.
    overwrite: Replace,
    /// Whether an existing file is overwritten in place.
    in_place: InPlace,
    /// Creates missing parent directories.
    create_parents: bool,
    /// The data to sync to the device.
    durability: Synced,
    /// Refuses a file that does not have this `version`.
    if_unchanged: Option<String>,
}

impl Default for WriteOptionFields {
    fn default() -> Self {
        Self {
            overwrite: Replace::Always,
            in_place: InPlace::Never,
            create_parents: false,
            durability: Synced::DataAndDirectory,
            if_unchanged: None,
        }
    }
}

impl WriteOptionFields {
    pub(crate) fn options(&self) -> Result<WriteOptions, Failure> {
        let options = WriteOptions::default()
            .overwrite(self.overwrite.unless(self.if_unchanged.as_deref())?)
            .durability(match self.durability {
                Synced::None => Durability::None,
                Synced::Data => Durability::Data,
                Synced::DataAndDirectory => Durability::DataAndDirectory,
            });
        let options = match self.in_place {
            InPlace::Never => options,
            InPlace::Always => options.in_place(),
            InPlace::IfOwnerChanges => options.in_place_if_owner_changes(),
        };
        Ok(if self.create_parents { options.create_parents() } else { options })
    }
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Replace {
    Never,
    Always,
}

impl Replace {
    fn never() -> Self {
        Self::Never
    }

    pub(crate) fn unless(self, if_unchanged: Option<&str>) -> Result<Overwrite, Failure> {
        Ok(match (if_unchanged, self) {
            (Some(version), _) => Overwrite::IfUnchanged(version.parse()?),
            (None, Self::Always) => Overwrite::Always,
            (None, Self::Never) => Overwrite::Never,
        })
    }
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InPlace {
    Never,
    Always,
    IfOwnerChanges,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Synced {
    None,
    Data,
    DataAndDirectory,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    #[default]
    Read,
    ReadWrite,
    Create,
    CreateNew,
    Truncate,
    Append,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    Describe,
    Metadata,
    Open,
    Read,
    ReadToString,
    RemoveFile,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Attribute {
    Modified,
    Accessed,
    Executable,
    NotExecutable,
    ReadOnly,
    Writable,
}

/// A number of bytes to hold in memory.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u64")]
pub(crate) struct Size(pub(crate) u64);

impl TryFrom<u64> for Size {
    type Error = String;

    fn try_from(bytes: u64) -> Result<Self, String> {
        if bytes <= LARGEST { Ok(Self(bytes)) } else { Err(format!("at most {LARGEST} bytes")) }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self(1 << 20)
    }
}

/// Text, or Base64 in a field whose name has the suffix `_base64`, which [`base64_values`] renames.
#[derive(JsonSchema)]
#[schemars(with = "String")]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Encoded {
            base64: String,
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text is expected")]
        enum Value {
            Text(String),
            Encoded(Encoded),
        }
        match Value::deserialize(deserializer)? {
            Value::Text(text) => Ok(Self(text.into())),
            Value::Encoded(Encoded { base64 }) => BASE64_STANDARD
                .decode(base64)
                .map(Self)
                .map_err(|_| D::Error::custom("Base64 with padding is expected")),
        }
    }
}

/// Milliseconds since 1970, which may be negative.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "i64")]
pub(crate) struct Time(pub(crate) SystemTime);

impl TryFrom<i64> for Time {
    type Error = &'static str;

    fn try_from(milliseconds: i64) -> Result<Self, Self::Error> {
        let distance = Duration::from_millis(milliseconds.unsigned_abs());
        let time = if milliseconds < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        time.map(Self).ok_or("not a time that this system can represent")
    }
}

impl Default for Time {
    fn default() -> Self {
        Self(UNIX_EPOCH)
    }
}

fn yes() -> bool {
    true
}

fn most_entries() -> usize {
    WALK_ENTRIES
}

fn largest_copy() -> u64 {
    8 << 30
}

/// The largest file that is read into memory, in bytes.
const LARGEST: u64 = 256 << 20;
