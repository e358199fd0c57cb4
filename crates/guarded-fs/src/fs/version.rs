//! Versions of files, and changes made only if a file still has a version, as described at
//! [`Precondition::Unchanged`](crate::Precondition::Unchanged).

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use crate::check::{CheckedPath, Proof};
use crate::dir::{Beneath, Identity, Metadata, Stat};
use crate::error::{Code, Error, Result};
use crate::limits::{COMPARED_BYTES, HASHED_PIECE};
use crate::roots::{Roots, WeakTable};

/// The version of a file's content: its size and its SHA-256 hash.
///
/// Take a version when a file is read, and pass it to a later change of the file, which then fails
/// if the file has other content ([`Precondition::Unchanged`]). It contains no inode number,
/// device or time, so it can be sent to a client, and is the same for equal files. Anybody who can
/// guess the content can compute it.
///
/// The text form, also with serde, is the size in decimal, a hyphen, and the hash as 64 lowercase
/// hexadecimal digits.
///
/// ```
/// use guarded_fs::{Access, ErrorKind, ContentHash, Precondition, Roots, WriteOptions};
///
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
/// roots.write("notes.txt", "old")?;
/// let read = roots.read("notes.txt", 1 << 20)?;
/// let version = ContentHash::of(&read);
/// assert_eq!(version, roots.check("notes.txt")?.content_hash(1 << 20)?);
/// assert_eq!(version, version.to_string().parse()?);
///
/// let if_unchanged = WriteOptions::default().precondition(Precondition::Unchanged(version));
/// roots.write_with("notes.txt", "new", if_unchanged)?;
/// let refused = roots.write_with("notes.txt", "newer", if_unchanged).unwrap_err();
/// assert_eq!((refused.kind(), refused.code()), (ErrorKind::Changed, "modified"));
/// # Ok::<(), guarded_fs::Error>(())
/// ```
///
/// [`Precondition::Unchanged`]: crate::Precondition::Unchanged
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash {
    size: u64,
    hash: [u8; 32],
}

impl ContentHash {
    /// Returns the version of this content of a whole file.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Self { size, hash: Sha256::digest(content).into() }
    }

    fn read(mut file: &File, limit: u64, roots: &Roots) -> Result<Option<Self>> {
        let (mut size, mut hasher, mut piece) = (0_u64, Sha256::new(), vec![0; HASHED_PIECE]);
        loop {
            roots.ensure_usable()?;
            let read = match file.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let Some(read) = piece.get(..read).filter(|read| !read.is_empty()) else {
                return Ok(Some(Self { size, hash: hasher.finalize().into() }));
            };
            size = size.saturating_add(u64::try_from(read.len()).unwrap_or(u64::MAX));
            if size > limit {
                return Ok(None);
            }
            hasher.update(read);
        }
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.size)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

/// Accepts exactly the text that `Display` writes.
impl FromStr for ContentHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            Error::from(Code::InvalidVersion).with_request("parse version", OsStr::new(text))
        })
    }
}

fn parse(text: &str) -> Option<ContentHash> {
    let (size, digits) = text.split_once('-')?;
    let size: u64 = size.parse().ok()?;
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    let version = ContentHash { size, hash };
    // `parse` and `from_str_radix` also accept leading zeros, uppercase digits and a plus sign.
    (version.to_string() == text).then_some(version)
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Condition<'a> {
    place: &'a Proof,
    at: &'a Beneath,
    version: ContentHash,
    /// Whether an error says that the file is the destination.
    is_destination: bool,
}

struct ComparedFile {
    /// From before the content was read, so that a later change is detected.
    metadata: Metadata,
    /// While the file is open, no other file can have its identity.
    #[cfg(unix)]
    _file: File,
}

impl<'a> Condition<'a> {
    /// `at` is the name of the place in its directory.
    pub(super) fn new(
        place: &'a Proof,
        at: &'a Beneath,
        version: Option<ContentHash>,
    ) -> Option<Self> {
        Some(Self { place, at, version: version?, is_destination: false })
    }

    pub(super) fn of_destination(self) -> Self {
        Self { is_destination: true, ..self }
    }

    pub(super) fn verify(&self) -> Result<()> {
        self.compare().map(drop)
    }

    fn compare(&self) -> Result<ComparedFile> {
        self.compare_content().map_err(|error| self.blame(error))
    }

    fn compare_content(&self) -> Result<ComparedFile> {
        let policy = self.place.roots().policy();
        let file = match self.at.open() {
            Err(error) if error.reason() == Code::NotFound => return Err(removed()),
            file => file.map_err(|error| self.place.blame_symlink(error))?,
        };
        let metadata = self.place.root().verify(&file, policy)?;
        if !metadata.is_file() {
            return Err(Code::SpecialFile.into());
        }
        if metadata.len() != self.version.size {
            return Err(Code::Modified.into());
        }
        // The caller of a tool chooses the size in the version, so it is not a limit.
        if self.version.size > COMPARED_BYTES {
            return Err(Error::too_large(COMPARED_BYTES));
        }
        let has_version =
            ContentHash::read(&file, self.version.size, self.place.roots())? == Some(self.version);
        // Defense: A file that was replaced or modified since it was read is not changed.
        if !has_version {
            return Err(Code::Modified.into());
        }
        Ok(ComparedFile {
            metadata,
            #[cfg(unix)]
            _file: file,
        })
    }

    /// Fails with `changed` unless the name still refers to the compared file, in the same state.
    fn ensure_still(&self, seen: &ComparedFile) -> Result<()> {
        let still = match self.at.look_in() {
            Ok(Stat::Missing) => Err(removed()),
            Ok(Stat::Other(metadata))
                if metadata.is_same_state(&seen.metadata)
                    && IN_PLACE.get(&metadata.identity()).is_none() =>
            {
                Ok(())
            }
            Ok(Stat::Link(..) | Stat::Other(_)) => Err(Code::Changed.into()),
            Err(error) => Err(error),
        };
        still.map_err(|error| self.blame(error))
    }

    fn change_if_still<T>(
        &self,
        seen: &ComparedFile,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let lock = LOCKS.get_or_insert(self.at.directory.identity()?, Mutex::default);
        let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.ensure_still(seen)?;
        change()
    }

    fn blame(&self, error: Error) -> Error {
        if self.is_destination { error.of_destination() } else { error }
    }
}

pub(super) fn removed() -> Error {
    Error::from(Code::Modified).with_text("the file was removed since it was read")
}

/// Runs `change` if the condition, if any, holds. Fails with `changed`, so that the operation is
/// retried, if the file changes after the comparison.
pub(super) fn change_if<T>(
    condition: Option<Condition<'_>>,
    change: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(condition) = condition else { return change() };
    let seen = condition.compare()?;
    condition.change_if_still(&seen, change)
}

/// Like [`change_if`], for a change in place, which takes as long as its content, without the lock.
/// Until it ends, other conditional changes of the file fail with `changed`.
pub(super) fn change_in_place_if<T>(
    condition: Option<Condition<'_>>,
    change: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(condition) = condition else { return change() };
    let seen = condition.compare()?;
    let claim = Arc::new(());
    condition.change_if_still(&seen, || {
        IN_PLACE.insert(seen.metadata.identity(), &claim);
        Ok(())
    })?;
    change()
}

/// The lock of a directory is held for one look-up and one change, never while content is read or
/// written.
static LOCKS: LazyLock<WeakTable<Identity, Mutex<()>>> = LazyLock::new(WeakTable::default);

static IN_PLACE: LazyLock<WeakTable<Identity, ()>> = LazyLock::new(WeakTable::default);

impl CheckedPath {
    /// Returns the version of a regular file of at most `limit` bytes. For content that was read,
    /// use [`ContentHash::of`] instead, because the file can change between two reads.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open); [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn content_hash(&self, limit: u64) -> Result<ContentHash> {
        self.0.run("read", |path| version(path, limit))
    }
}

fn version(path: &Proof, limit: u64) -> Result<ContentHash> {
    let (file, metadata) = path.open_existing()?;
    if !metadata.is_file() {
        return Err(Code::SpecialFile.into());
    }
    let version =
        if metadata.len() > limit { None } else { ContentHash::read(&file, limit, path.roots())? };
    version.ok_or_else(|| Error::too_large(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::Access;
    use crate::fs::options::{Precondition, WriteOptions};

    /// One client must not delay the conditional changes of another while it copies a large file.
    #[test]
    fn change_in_place_excludes_only_changes_of_the_same_file() {
        let work = tempfile::tempdir().unwrap();
        let roots = Roots::from_dirs([work.path()], Access::ReadWrite).unwrap();
        roots.write("a", "old").unwrap();
        roots.write("b", "old").unwrap();
        let version = ContentHash::of(b"old");
        let if_unchanged = WriteOptions::default().precondition(Precondition::Unchanged(version));
        let place = roots.check("a").unwrap().0;
        let at = &place.parent_dir().unwrap();
        let condition = Condition::new(&place, at, Some(version));
        change_in_place_if(condition, || {
            roots.write_with("b", "new", if_unchanged)?;
            let refused = roots.write_with("a", "new", if_unchanged).unwrap_err();
            assert_eq!(refused.code(), "changed");
            let mut changes = roots.change_set();
            changes.remove_file("a", Precondition::Unchanged(version))?;
            assert_eq!(changes.commit().unwrap_err().error().code(), "changed");
            Ok(())
        })
        .unwrap();
        roots.write_with("a", "new", if_unchanged).unwrap();
    }
}
