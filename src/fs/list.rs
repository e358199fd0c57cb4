//! Listing and walking directories.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::check::CheckedPath;
use crate::dir::{Entries, Handle, Metadata, Rule};
use crate::error::{Code, Error, Result};
use crate::limits::{ALLOCATION, WALK_BYTES, WALK_DEPTH, WALK_ENTRIES};
use crate::path::protect::Protected;
use crate::workers::counted;

/// An entry of a directory, with its name and metadata. The metadata of a symlink describes the
/// symlink itself.
#[derive(Clone, Debug)]
pub struct DirEntry {
    name: OsString,
    metadata: Metadata,
}

impl DirEntry {
    /// The name of the entry. On Unix, it can contain any bytes except `/` and NUL.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The metadata of the entry when it was listed.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// An iterator over the entries of a directory in the order of the operating system, without `.`
/// and `..`. An entry that is removed during the listing is omitted.
pub struct ReadDir {
    directory: Handle,
    inner: Entries,
    request: OsString,
    protected: Protected,
}

impl ReadDir {
    fn new(directory: Handle, request: &OsStr, protected: Protected) -> Result<Self> {
        let inner = directory.entries()?;
        Ok(Self { directory, inner, request: request.to_owned(), protected })
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let name = self.inner.next()?.map(|entry| entry.file_name());
            if name.as_ref().is_ok_and(|name| self.protected.hides(name)) {
                continue;
            }
            match name.and_then(|name| Ok((self.directory.describe(&name)?, name))) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Some(Err(Error::from(error).at("list", &self.request))),
                Ok((metadata, name)) => return Some(Ok(DirEntry { name, metadata })),
            }
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadDir")
    }
}

/// The limits of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct WalkOptions {
    max_depth: usize,
    max_entries: usize,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self { max_depth: usize::MAX, max_entries: WALK_ENTRIES }
    }
}

impl WalkOptions {
    /// Returns the default limits, [`WALK_DEPTH`] and [`WALK_ENTRIES`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum depth. Directories at this depth are yielded but not entered. With a depth
    /// of 1, the walk yields the entries that [`read_dir`](crate::Roots::read_dir) lists. Without
    /// this limit, the walk yields the error [`LimitExceeded`](crate::ErrorKind::LimitExceeded)
    /// (`too_deep`) for each directory deeper than [`WALK_DEPTH`], and continues.
    pub fn max_depth(self, max_depth: usize) -> Self {
        Self { max_depth, ..self }
    }

    /// Sets the maximum number of entries. If there are more, the walk ends with the error
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_entries`). Which entries of a
    /// larger directory are yielded is not specified.
    pub fn max_entries(self, max_entries: usize) -> Self {
        Self { max_entries, ..self }
    }
}

/// An entry yielded by a walk. Entries of one directory share its path.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    directory: Arc<Path>,
    name: OsString,
    depth: usize,
    metadata: Metadata,
}

impl WalkEntry {
    /// The path relative to the directory where the walk began. Each call creates a new path, like
    /// [`std::fs::DirEntry::path`].
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// The last name of the path.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The depth of the entry: 1 in the directory where the walk began.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The metadata of the entry when its directory was listed.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// A walk through a directory tree.
///
/// The walk keeps its first directory open, and opens one more while listing it. Each directory is
/// opened from the first along a path on which no symlink is followed, so every entry was beneath
/// the first directory when it was listed. A directory that is removed or replaced before it is
/// entered is skipped.
///
/// A directory is listed and sorted when the walk enters it. The walk stores the entries that it
/// has listed but not yielded yet, with about 160 bytes and the name for each, and at most
/// [`WALK_BYTES`] in total. It also stores the paths of the directories that it is in.
///
/// To open a file that the walk has found, check its path: join the path of the walked directory
/// and [`WalkEntry::path`]. The check decides again, so nothing is opened that was replaced
/// meanwhile.
///
/// ```
/// use mcp_roots_guard::{FileType, Roots, WalkOptions};
///
/// # let work = tempfile::tempdir().unwrap();
/// # for path in ["src/a.rs", "target/b.rs"] {
/// #     std::fs::create_dir(work.path().join(path).parent().unwrap()).unwrap();
/// #     std::fs::write(work.path().join(path), "").unwrap();
/// # }
/// let roots = Roots::from_dirs([work.path()])?;
/// let mut walk = roots.walk(".", WalkOptions::new().max_depth(8))?;
/// let mut sources = Vec::new();
/// while let Some(entry) = walk.next() {
///     let Ok(entry) = entry else { continue }; // an unreadable directory
///     if entry.path().ends_with("target") {
///         walk.skip_current_dir();
///     } else if entry.metadata().file_type() == FileType::File {
///         sources.push(entry.path());
///     }
/// }
/// assert_eq!(sources, [std::path::Path::new("src").join("a.rs")]);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Debug)]
pub struct Walk {
    base: Handle,
    request: OsString,
    mounts: Rule,
    /// The protection at the first directory.
    protected: Protected,
    /// The device of the root.
    device: u64,
    options: WalkOptions,
    /// The directories that the walk is in, the innermost last.
    levels: Vec<Level>,
    /// The directory that was yielded last, to be entered next.
    next_dir: Option<OsString>,
    /// The number of entries listed so far.
    listed: usize,
    /// The bytes used by the entries that are listed but not yielded yet.
    held_bytes: usize,
    /// Whether there were more entries than a limit allows.
    is_exceeded: bool,
}

/// A directory that was listed.
#[derive(Debug)]
struct Level {
    path: Arc<Path>,
    /// The entries that are not yielded yet, with the next one last.
    entries: Vec<DirEntry>,
}

impl Walk {
    /// Does not enter the directory that was yielded last.
    pub fn skip_current_dir(&mut self) {
        self.next_dir = None;
    }

    /// Enters a directory: lists it, and sorts its entries by name.
    fn list(&mut self, path: &Path) -> Result<()> {
        let device = self.device;
        counted(|| Some(device), || self.list_now(path))
    }

    fn list_now(&mut self, path: &Path) -> Result<()> {
        let directory = match self.base.dir(path, self.mounts) {
            // The directory was removed or replaced before it was entered.
            Err(error) if !self.levels.is_empty() && is_replaced(error.reason()) => return Ok(()),
            directory => directory?,
        };
        let (mut entries, mut listed) = (Vec::new(), Ok(()));
        for entry in ReadDir::new(directory, path.as_os_str(), self.protected.below(path))? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    listed = Err(error);
                    break;
                }
            };
            let held_bytes = self.held_bytes.saturating_add(heap_size(&entry));
            // Defense: walk-holds-bounded-memory
            if self.listed >= self.options.max_entries || held_bytes > WALK_BYTES {
                self.is_exceeded = true;
                break;
            }
            (self.listed, self.held_bytes) = (self.listed + 1, held_bytes);
            entries.push(entry);
        }
        entries.shrink_to_fit();
        entries.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        self.levels.push(Level { path: path.into(), entries });
        listed
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(name) = self.next_dir.take() {
            let path = self.levels.last().map_or_else(PathBuf::new, |level| level.path.join(name));
            let entered = match self.levels.len() {
                _ if self.is_exceeded => Ok(()),
                depth if depth >= self.options.max_depth => Ok(()),
                // Defense: walk-has-a-greatest-depth
                depth if depth >= WALK_DEPTH => Err(Code::TooDeep.into()),
                _ => self.list(&path),
            };
            if let Err(error) = entered {
                return Some(Err(error.at("walk", path.as_os_str())));
            }
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.pop() else {
                self.levels.pop();
                continue;
            };
            self.held_bytes = self.held_bytes.saturating_sub(heap_size(&entry));
            let DirEntry { name, metadata } = entry;
            if metadata.is_dir() {
                self.next_dir = Some(name.clone());
            }
            let directory = Arc::clone(&level.path);
            return Some(Ok(WalkEntry { directory, name, depth: self.levels.len(), metadata }));
        }
        std::mem::take(&mut self.is_exceeded).then(|| {
            let limit = self.options.max_entries;
            let error = match self.listed {
                listed if listed >= limit => {
                    Error::over(Code::TooManyEntries, "more than {} entries", limit)
                }
                _ => Code::TooManyEntries.into(),
            };
            Err(error.at("walk", &self.request))
        })
    }
}

/// The heap memory that an entry uses: its place in the directory's list, and the allocation for
/// its name.
fn heap_size(entry: &DirEntry) -> usize {
    size_of::<DirEntry>().saturating_add(entry.name.len()).saturating_add(ALLOCATION)
}

fn is_replaced(kind: Code) -> bool {
    matches!(kind, Code::NotFound | Code::NotADirectory | Code::Changed)
}

impl CheckedPath {
    pub(super) fn read_dir_now(&self) -> Result<ReadDir> {
        ReadDir::new(self.directory()?, self.request().sent(), self.protected())
    }

    pub(super) fn walk_now(&self, options: WalkOptions) -> Result<Walk> {
        let (base, mounts) = (self.directory()?, self.roots().policy().mounts);
        let request = self.request().sent().to_owned();
        let device = self.root().identity.device;
        let (levels, next_dir, listed, held_bytes, is_exceeded) = (Vec::new(), None, 0, 0, false);
        let mut walk = Walk {
            base,
            request,
            mounts,
            protected: self.protected(),
            device,
            options,
            levels,
            next_dir,
            listed,
            held_bytes,
            is_exceeded,
        };
        if options.max_depth > 0 {
            walk.list(Path::new(""))?;
        }
        Ok(walk)
    }

    fn directory(&self) -> Result<Handle> {
        if self.root().is_file() {
            return Err(Code::NotADirectory.into());
        }
        let (handle, place) = self.place()?;
        handle.dir(&place, self.roots().policy().mounts)
    }
}
