//! The fields of operations, of which several operations have many, and the fields that all have.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_roots_guard::limits::WALK_ENTRIES;
use mcp_roots_guard::{
    Durability, Error, ErrorKind, OpenMode, Precondition, WalkOptions, WriteMethod, WriteOptions,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
#[serde(deny_unknown_fields)]
pub(crate) struct OnePath {
    /// The file or directory, as a path or `file:` URI.
    pub(crate) path: String,
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
    max_depth: Option<usize>,
    /// With more entries, the walk is an error.
    #[serde(default = "most_entries")]
    max_entries: usize,
    /// Omits names that begin with a dot.
    #[serde(default)]
    skip_dot_files: bool,
    /// Whether files that git ignores are omitted.
    #[cfg(feature = "ignore")]
    #[serde(default)]
    git_ignore: bool,
    /// Continues if a directory cannot be read.
    #[serde(default)]
    skip_unreadable: bool,
    /// Names of directories that are not entered.
    #[serde(default)]
    pub(crate) skip: Vec<String>,
}

impl WalkFields {
    pub(crate) fn options(&self) -> WalkOptions {
        let options = WalkOptions::default().max_entries(self.max_entries);
        let options = self.max_depth.map_or(options, |depth| options.max_depth(depth));
        let options = if self.skip_dot_files { options.skip_dot_files() } else { options };
        #[cfg(feature = "ignore")]
        let options = if self.git_ignore { options.git_ignore() } else { options };
        if self.skip_unreadable { options.skip_unreadable() } else { options }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFields {
    /// The file.
    pub(crate) path: String,
    /// The content.
    pub(crate) content: Bytes,
    #[serde(flatten)]
    pub(crate) options: WriteOptionFields,
}

/// How a file is written.
#[derive(Default, Deserialize, JsonSchema)]
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

impl WriteOptionFields {
    /// For a file that is replaced.
    pub(crate) fn get(&self) -> Result<WriteOptions, Failure> {
        match self.in_place {
            InPlace::Never => self.options(),
            _ => Err(incompatible("an atomic file cannot be written in place").into()),
        }
    }

    pub(crate) fn method(&self) -> Result<WriteMethod, Failure> {
        let options = self.options()?;
        Ok(match self.in_place {
            InPlace::Never => options.into(),
            _ if self.precondition()? == Precondition::Missing => {
                let text = "a file that is never overwritten cannot be overwritten in place";
                return Err(incompatible(text).into());
            }
            InPlace::Always => options.in_place(),
            InPlace::IfOwnerChanges => options.in_place_if_owner_changes(),
        })
    }

    fn precondition(&self) -> Result<Precondition, Failure> {
        self.overwrite.unless(self.if_unchanged.as_deref())
    }

    fn options(&self) -> Result<WriteOptions, Failure> {
        let options = WriteOptions::default().precondition(self.precondition()?).durability(
            match self.durability {
                Synced::None => Durability::None,
                Synced::Data => Durability::Data,
                Synced::DataAndDirectory => Durability::DataAndDirectory,
            },
        );
        Ok(if self.create_parents { options.create_parents() } else { options })
    }
}

fn incompatible(text: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, "invalid_options", text)
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
    overwrite: Replace,
    /// Refuses a destination that does not have this `version`.
    if_unchanged: Option<String>,
}

impl RenameFields {
    pub(crate) fn precondition(&self) -> Result<Precondition, Failure> {
        self.overwrite.unless(self.if_unchanged.as_deref())
    }
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Replace {
    Never,
    #[default]
    Always,
}

impl Replace {
    fn never() -> Self {
        Self::Never
    }

    fn unless(self, if_unchanged: Option<&str>) -> Result<Precondition, Failure> {
        Ok(match (if_unchanged, self) {
            (Some(version), _) => Precondition::Unchanged(version.parse()?),
            (None, Self::Always) => Precondition::Any,
            (None, Self::Never) => Precondition::Missing,
        })
    }
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InPlace {
    #[default]
    Never,
    Always,
    IfOwnerChanges,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Synced {
    None,
    Data,
    #[default]
    DataAndDirectory,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
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

impl Mode {
    /// None for reading only.
    pub(crate) fn to_change(&self) -> Option<OpenMode> {
        Some(match self {
            Self::Read => return None,
            Self::ReadWrite => OpenMode::ReadWrite,
            Self::Create => OpenMode::Create,
            Self::CreateNew => OpenMode::CreateNew,
            Self::Truncate => OpenMode::Truncate,
            Self::Append => OpenMode::Append,
        })
    }
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

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttributeName {
    Modified,
    Accessed,
    Executable,
    NotExecutable,
    ReadOnly,
    Writable,
}

/// A number of bytes to hold in memory.
#[derive(Deserialize, Serialize, JsonSchema)]
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
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "TextOrBase64")]
#[schemars(with = "String")]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "a text is expected")]
enum TextOrBase64 {
    Text(String),
    Base64 { base64: String },
}

impl TryFrom<TextOrBase64> for Bytes {
    type Error = &'static str;

    fn try_from(value: TextOrBase64) -> Result<Self, Self::Error> {
        let bytes = match value {
            TextOrBase64::Text(text) => Ok(text.into()),
            TextOrBase64::Base64 { base64 } => BASE64_STANDARD.decode(base64),
        };
        bytes.map(Self).map_err(|_| "Base64 with padding is expected")
    }
}

impl Bytes {
    /// The path with these bytes, which need not be UTF-8 on Unix.
    #[cfg_attr(unix, expect(clippy::unnecessary_wraps, reason = "other systems refuse some bytes"))]
    pub(crate) fn path(self) -> Result<PathBuf, Failure> {
        #[cfg(unix)]
        return Ok(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(self.0).into());
        #[cfg(not(unix))]
        String::from_utf8(self.0)
            .map(PathBuf::from)
            .map_err(|_| Failure::invalid("invalid_value", "the path must be UTF-8"))
    }
}

/// The time this many milliseconds after 1970, or before it.
pub(crate) fn time(milliseconds: i64) -> Result<SystemTime, Failure> {
    let distance = Duration::from_millis(milliseconds.unsigned_abs());
    let is_before = milliseconds < 0;
    let time =
        if is_before { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    let refused = || Failure::invalid("wrong_type", "not a time that this system can represent");
    time.ok_or_else(refused)
}

pub(crate) fn yes() -> bool {
    true
}

fn most_entries() -> usize {
    WALK_ENTRIES
}

pub(crate) fn largest_copy() -> u64 {
    8 << 30
}

/// The largest file that is read into memory, in bytes.
const LARGEST: u64 = 256 << 20;
