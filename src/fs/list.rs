//! Listing and walking directories.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::beneath::{Entries, Handle};
use crate::check::CheckedPath;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::Metadata;
use crate::policy::Rule;

/// An entry of a directory: its name, and what it is. A link is a link, not what it points to.
#[derive(Clone, Debug)]
pub struct DirEntry {
    name: OsString,
    metadata: Metadata,
}

impl DirEntry {
    /// The name, which may be any bytes but `/` and NUL.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What it is, as of when it was listed.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// The entries of a directory, without `.` and `..`, as they come. One that vanishes meanwhile is left out.
pub struct ReadDir {
    directory: Handle,
    inner: Entries,
    request: OsString,
}

impl ReadDir {
    fn new(directory: Handle, request: &OsStr) -> Result<Self> {
        let inner = directory.entries()?;
        Ok(Self { directory, inner, request: request.to_owned() })
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let name = self.inner.next()?.map(|entry| entry.file_name());
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

/// How far a walk goes.
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
    /// [`WALK_DEPTH`] and [`WALK_ENTRIES`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Directories this deep are told and not entered; 1 is what [`read_dir`](crate::Roots::read_dir) lists. Without it, a directory deeper
    /// than [`WALK_DEPTH`] is an error.
    pub fn max_depth(self, max_depth: usize) -> Self {
        Self { max_depth, ..self }
    }

    /// So many entries are told, in no particular choice; if there are more, an error comes last.
    pub fn max_entries(self, max_entries: usize) -> Self {
        Self { max_entries, ..self }
    }
}

/// An entry that a walk came to.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    path: PathBuf,
    depth: usize,
    metadata: Metadata,
}

impl WalkEntry {
    /// The path from where the walk began.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// 1 for what is in the directory where the walk began.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// What it is, as of when its directory was listed.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// A walk through a directory tree.
///
/// It holds the directory where it began open, and one more while it lists that. Each directory is reached from the first by a path in
/// which no link is followed, so what is yielded was beneath the first when it was listed. A directory that vanishes or is replaced
/// before it is entered is passed over.
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
///     let Ok(entry) = entry else { continue }; // a directory that can not be read; the walk goes on
///     if entry.path().ends_with("target") {
///         walk.skip_current_dir();
///     } else if entry.metadata().file_type() == FileType::File {
///         sources.push(entry.path().to_owned());
///     }
/// }
/// assert_eq!(sources, [std::path::Path::new("src").join("a.rs")]);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Debug)]
pub struct Walk {
    top: Handle,
    request: OsString,
    mounts: Rule,
    options: WalkOptions,
    /// Entries to tell, the next one last.
    todo: Vec<WalkEntry>,
    /// The directory that was told last and is to be entered.
    enter: Option<WalkEntry>,
    told: usize,
    /// There was more than may be told.
    full: bool,
}

impl Walk {
    /// Does not enter the directory that was yielded last.
    pub fn skip_current_dir(&mut self) {
        self.enter = None;
    }

    /// Adds what is in a directory to what is to be told, in the order of names.
    fn list(&mut self, path: &Path, depth: usize) -> Result<()> {
        let directory = match self.top.dir(path, self.mounts) {
            // Gone, or another thing by now.
            Err(error) if depth > 1 && is_replaced(error.kind()) => return Ok(()),
            directory => directory?,
        };
        let first = self.todo.len();
        for entry in ReadDir::new(directory, path.as_os_str())? {
            let DirEntry { name, metadata } = entry?;
            if self.todo.len().saturating_add(self.told) >= self.options.max_entries {
                self.full = true;
                break;
            }
            self.todo.push(WalkEntry { path: path.join(name), depth, metadata });
        }
        if let Some(new) = self.todo.get_mut(first..) {
            new.sort_unstable_by(|one, other| other.path.cmp(&one.path));
        }
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(directory) = self.enter.take() {
            let listed = match directory.depth {
                _ if self.full => Ok(()),
                depth if depth >= self.options.max_depth => Ok(()),
                depth if depth >= WALK_DEPTH => Err(ErrorKind::TooDeep.into()),
                depth => self.list(&directory.path, depth + 1),
            };
            if let Err(error) = listed {
                return Some(Err(error.at("walk", directory.path.as_os_str())));
            }
        }
        let Some(entry) = self.todo.pop() else {
            return std::mem::take(&mut self.full).then(|| {
                let error = Error::new(ErrorKind::TooManyEntries);
                Err(error.at("walk", &self.request))
            });
        };
        self.told += 1;
        if entry.metadata.is_dir() {
            self.enter = Some(entry.clone());
        }
        Some(Ok(entry))
    }
}

fn is_replaced(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::Changed)
}

impl CheckedPath {
    pub(super) fn read_dir_now(&self) -> Result<ReadDir> {
        ReadDir::new(self.directory()?, self.request().as_os_str())
    }

    pub(super) fn walk_now(&self, options: WalkOptions) -> Result<Walk> {
        let (top, mounts) = (self.directory()?, self.roots().policy().mounts);
        let request = self.request().as_os_str().to_owned();
        let mut walk = Walk { top, request, mounts, options, todo: Vec::new(), enter: None, told: 0, full: false };
        if options.max_depth > 0 {
            walk.list(Path::new(""), 1)?;
        }
        Ok(walk)
    }

    fn directory(&self) -> Result<Handle> {
        if self.root().is_file() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let (handle, place) = self.place()?;
        handle.dir(&place, self.roots().policy().mounts)
    }
}

/// The deepest directory that a walk enters, and a recursive removal: a chain of 128 is no workspace.
pub const WALK_DEPTH: usize = 128;

/// The most entries that a walk tells unless it is told otherwise; each costs some hundred bytes while it waits.
pub const WALK_ENTRIES: usize = 100_000;
