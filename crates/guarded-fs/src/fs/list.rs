//! Listing and walking directories.
//!
//! Entries are not described while they are listed. Their types come with their names (readdir(3)),
//! except on Windows and on filesystems that do not report them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{MAIN_SEPARATOR_STR, Path, PathBuf};
use std::sync::Arc;

use super::ignored::IgnoreRules;
use super::options::WalkOptions;
use crate::check::{CheckedEntry, CheckedPath, OpenDirectory, Proof};
#[cfg(target_os = "linux")]
use crate::dir::Rule;
use crate::dir::{Beneath, Entries, FileType, Handle, Metadata, NameAt, NameList, USUAL_ENTRIES};
use crate::error::{Code, Error, Result};
use crate::limits::{WALK_BYTES, WALK_DEPTH};
use crate::path::IntoLocation;
use crate::roots::{LastName, Presence, Roots};

#[derive(Debug)]
struct ListedDirectory {
    place: Proof,
    directory: Arc<OpenDirectory>,
}

/// The directory of an entry: the listed one, or one below it.
#[derive(Debug)]
struct Parent {
    listed: Arc<ListedDirectory>,
    /// Relative to the listed directory.
    path: PathBuf,
}

/// An entry of a directory, from [`read_dir`](crate::Roots::read_dir) or a
/// [walk](crate::Roots::walk).
///
/// The entry keeps the listed directory open, and its operations run beneath it without resolving a
/// path again, as long as the roots have not ended. No symlink is followed: an entry that is a
/// symlink can be described, removed and renamed, but not opened. [`follow`](Self::follow) resolves
/// it. An entry has the access of its place, which can be a root itself or below one.
///
/// After the listing:
///
/// - If the listed directory was moved, changing the entry fails with `changed`. It can still be
///   read, unless names are denied, because the directory could then have a denied name.
/// - If a directory on the way was replaced by a symlink, an operation fails with `changed`. So
///   does opening the entry if it was itself replaced by one. Removing it removes the symlink.
/// - A FIFO that replaced the entry is refused without blocking.
///
/// Closing the directory can wait if the filesystem is remote. On Windows, it cannot be moved or
/// removed while it is open.
///
/// ```
/// use guarded_fs::{Access, FileType, Roots};
///
/// # let work = tempfile::tempdir().unwrap();
/// # std::fs::write(work.path().join("a.txt"), "needle").unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
/// for entry in roots.read_dir(".")? {
///     let entry = entry?;
///     if entry.file_type() == FileType::File {
///         assert_eq!(entry.read_to_string(1 << 20)?, "needle");
///         entry.to_entry().remove_file()?;
///     }
/// }
/// # assert!(!work.path().join("a.txt").exists());
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Clone)]
pub struct DirEntry {
    parent: Arc<Parent>,
    name: OsString,
    file_type: FileType,
}

impl DirEntry {
    /// The name of the entry. On Unix, it can contain any bytes except `/` and NUL.
    #[must_use]
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// The path by which a request to the same roots can name the entry: the directory as it was
    /// requested, joined with the path below it, like [`std::fs::DirEntry::path`]. A model can use
    /// it in its next request.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let place = &self.parent.listed.place;
        place.request().entry(self.relative(), || place.canonical())
    }

    /// The path relative to the directory that was listed or walked.
    #[must_use]
    pub fn relative(&self) -> PathBuf {
        joined(&self.parent.path, &self.name)
    }

    /// The type of the entry when it was listed. A symlink is not followed.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.file_type
    }

    /// Looks up the metadata, as [`CheckedEntry::metadata`] does.
    ///
    /// # Errors
    ///
    /// The same; [`Changed`](crate::ErrorKind::Changed).
    pub fn metadata(&self) -> Result<Metadata> {
        self.to_entry().metadata()
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// Those of [`CheckedPath::read`]; [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile)
    /// (`special_file`) for a symlink; [`Changed`](crate::ErrorKind::Changed).
    pub fn read(&self, limit: u64) -> Result<Vec<u8>> {
        self.to_file()?.read(limit)
    }

    /// Like [`read`](Self::read), but returns UTF-8 text.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read); [`NotUtf8`](crate::ErrorKind::NotUtf8).
    pub fn read_to_string(&self, limit: u64) -> Result<String> {
        self.to_file()?.read_to_string(limit)
    }

    /// Returns the proof for the entry itself. Nothing is looked up.
    #[must_use]
    pub fn to_entry(&self) -> CheckedEntry {
        let found =
            if self.file_type == FileType::Symlink { Presence::Link } else { Presence::Exists };
        let listed = &self.parent.listed;
        CheckedEntry(listed.place.listed(&listed.directory, self.relative(), found))
    }

    /// Returns the proof for the place to which the entry leads, as [`CheckedEntry::follow`] does.
    /// For a symlink, its operations do not run beneath the listed directory.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::check`](crate::Roots::check) for a symlink.
    pub fn follow(&self) -> Result<CheckedPath> {
        match self.to_entry() {
            entry if self.file_type == FileType::Symlink => entry.follow(),
            CheckedEntry(place) => Ok(CheckedPath(place)),
        }
    }

    fn to_file(&self) -> Result<CheckedPath> {
        let CheckedEntry(entry) = self.to_entry();
        if self.file_type == FileType::Symlink {
            let error = Error::from(Code::SpecialFile).with_request("read", entry.request().sent());
            return Err(entry.roots().log_refused(error));
        }
        Ok(CheckedPath(entry))
    }
}

fn joined(path: &Path, name: &OsStr) -> PathBuf {
    let mut joined = OsString::with_capacity(path.as_os_str().len() + 1 + name.len());
    if !path.as_os_str().is_empty() {
        joined.push(path);
        joined.push(MAIN_SEPARATOR_STR);
    }
    joined.push(name);
    joined.into()
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirEntry")
            .field("path", &self.path())
            .field("file_type", &self.file_type)
            .finish_non_exhaustive()
    }
}

impl Parent {
    /// `None` for a denied name, and for one removed before its type is known.
    fn type_of(
        &self,
        directory: &Handle,
        name: &OsStr,
        listed: Option<FileType>,
    ) -> Option<io::Result<FileType>> {
        if self.listed.place.is_denied(&self.path, name) {
            return None;
        }
        let file_type = directory.type_of(name, listed);
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        (!file_type.as_ref().is_err_and(is_gone)).then_some(file_type)
    }
}

struct Names {
    directory: Arc<Handle>,
    inner: Entries,
}

impl Names {
    fn new((directory, inner): (Arc<Handle>, Entries)) -> Self {
        Self { directory, inner }
    }

    fn advance(&mut self, parent: &Parent) -> Option<io::Result<FileType>> {
        loop {
            let listed = match self.inner.advance()? {
                Ok(listed) => listed,
                Err(error) => return Some(Err(error)),
            };
            let file_type = parent.type_of(&self.directory, self.name(), listed);
            if file_type.is_some() {
                return file_type;
            }
        }
    }

    fn name(&self) -> &OsStr {
        self.inner.name()
    }
}

/// An iterator over the entries of a directory in the order of the operating system, without `.`
/// and `..`. It ends with an error once the roots have ended.
pub struct ReadDir {
    /// `None` once the roots have ended.
    names: Option<Names>,
    parent: Arc<Parent>,
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let names = self.names.as_mut()?;
        let place = &self.parent.listed.place;
        let with_request = |error: Error| error.with_request("list", place.request().sent());
        // Nothing is yielded after the roots have ended, and the error only once.
        if let Err(error) = place.roots().ensure_usable() {
            self.names = None;
            return Some(Err(place.roots().log_refused(with_request(error))));
        }
        let parent = Arc::clone(&self.parent);
        Some(match names.advance(&self.parent)? {
            Err(error) => Err(with_request(error.into())),
            Ok(file_type) => Ok(DirEntry { parent, name: names.name().to_owned(), file_type }),
        })
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadDir")
    }
}

/// A walk through a directory tree.
///
/// The walk keeps its first directory open, and at most one other at a time. Each is opened from
/// the first along a path on which no symlink is followed, so every entry was beneath the first
/// directory when it was listed. A directory is listed and sorted when the walk enters it. Two
/// kinds are not entered:
///
/// - A directory that was removed, renamed or replaced since it was listed. No error says so, and
///   what is below it may still exist elsewhere.
/// - A directory of a proc filesystem, unless the allowed directory is itself in one.
///
/// The walk stores the entries of the directories that it is in, at most [`WALK_BYTES`], and their
/// paths.
///
/// A walk is not an iterator, because an adapter such as `flatten` would drop the error that says
/// that it is incomplete. [`next_entry`](Self::next_entry) returns `Ok(None)` only after every
/// entry that was not in a skipped directory:
///
/// ```
/// use guarded_fs::{Access, FileType, Roots, WalkOptions};
///
/// # let work = tempfile::tempdir().unwrap();
/// # for path in ["src/a.rs", "target/b.rs"] {
/// #     std::fs::create_dir(work.path().join(path).parent().unwrap()).unwrap();
/// #     std::fs::write(work.path().join(path), "needle").unwrap();
/// # }
/// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
/// let mut walk = roots.walk(".", WalkOptions::default().max_depth(8).skip_unreadable())?;
/// let mut found = Vec::new();
/// // The error says that there are too many entries, or that the request is over.
/// while let Some(entry) = walk.next_entry()? {
///     if entry.file_name() == "target" {
///         walk.skip_current_dir();
///     } else if entry.file_type() == FileType::File {
///         // The entry may have been removed, or may not be text.
///         let text = entry.read_to_string(1 << 20);
///         if text.is_ok_and(|text| text.contains("needle")) {
///             found.push(entry.path());
///         }
///     }
/// }
/// for error in walk.unreadable() {
///     eprintln!("not searched: {error}");
/// }
/// assert_eq!(found, [std::path::Path::new("src").join("a.rs")]);
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Debug)]
pub struct Walk {
    listed: Arc<ListedDirectory>,
    options: WalkOptions,
    rules: Option<IgnoreRules>,
    levels: Vec<Level>,
    /// Yielded last, to be entered next.
    next_dir: Option<OsString>,
    count: usize,
    unreadable: Vec<Error>,
    error_bytes: usize,
    is_exceeded: bool,
    end: Option<(Code, OsString)>,
}

#[derive(Debug)]
struct Level {
    directory: Arc<Parent>,
    names: NameList,
    /// The entries not yet yielded, the next one last.
    entries: Vec<LevelEntry>,
}

#[derive(Debug)]
struct LevelEntry {
    first_bytes: u64,
    name: NameAt,
    file_type: FileType,
}

impl Level {
    fn new(directory: Parent) -> Self {
        let (names, entries) =
            (NameList::with_capacity(USUAL_ENTRIES), Vec::with_capacity(USUAL_ENTRIES));
        Self { directory: Arc::new(directory), names, entries }
    }

    fn push(&mut self, name: &OsStr, file_type: FileType) {
        let mut first_bytes = [0; 8];
        for (first, byte) in first_bytes.iter_mut().zip(name.as_encoded_bytes()) {
            *first = *byte;
        }
        let first_bytes = u64::from_be_bytes(first_bytes);
        self.entries.push(LevelEntry { first_bytes, name: self.names.push(name), file_type });
    }

    fn sort(&mut self) {
        self.names.shrink_to_fit();
        self.entries.shrink_to_fit();
        let names = &self.names;
        self.entries.sort_unstable_by(|one, other| {
            let by_first_bytes = other.first_bytes.cmp(&one.first_bytes);
            by_first_bytes.then_with(|| names.get(other.name).cmp(names.get(one.name)))
        });
    }

    fn size(&self, entries: usize) -> usize {
        self.names.size() + entries * size_of::<LevelEntry>()
    }
}

impl Walk {
    /// Returns the next entry, or `Ok(None)` after the last one.
    ///
    /// # Errors
    ///
    /// An error ends the walk. Each later call fails for the same reason.
    ///
    /// - [`TooManyEntries`](crate::ErrorKind::TooManyEntries) after the last entry that the
    ///   limits on entries and memory allow.
    /// - The error of a directory that cannot be read or is too deep, unless
    ///   [`skip_unreadable`](WalkOptions::skip_unreadable) is set.
    /// - The error of the [scope](crate::host::Scope) of the roots, if it is over. Each call asks
    ///   it.
    pub fn next_entry(&mut self) -> Result<Option<DirEntry>> {
        let next = match (self.ensure_usable(), &self.end) {
            (Err(over), _) => Err(over),
            (Ok(()), Some((reason, path))) => Err(Error::from(*reason).with_request("walk", path)),
            (Ok(()), None) => self.advance(),
        };
        next.map_err(|error| self.listed.place.roots().log_refused(error))
    }

    /// Does not enter the directory that was returned last.
    pub fn skip_current_dir(&mut self) {
        self.next_dir = None;
    }

    /// The errors that [`skip_unreadable`](WalkOptions::skip_unreadable) collected.
    #[must_use]
    pub fn unreadable(&self) -> &[Error] {
        &self.unreadable
    }

    fn ensure_usable(&self) -> Result<()> {
        // Defense: A walk yields nothing after its roots have ended.
        let place = &self.listed.place;
        place.roots().ensure_usable().map_err(|it| it.with_request("walk", place.request().sent()))
    }

    fn advance(&mut self) -> Result<Option<DirEntry>> {
        if let Some(name) = self.next_dir.take() {
            let path = self
                .levels
                .last()
                .map_or_else(PathBuf::new, |level| level.directory.path.join(name));
            let entered = match self.levels.len() {
                _ if self.is_exceeded => Ok(()),
                depth if depth >= self.options.max_depth => Ok(()),
                depth if depth >= WALK_DEPTH => Err(Code::TooDeep.into()),
                _ => self.list(&path),
            };
            if let Err(error) = entered {
                self.fail(error, &path)?;
            }
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(LevelEntry { name, file_type, .. }) = level.entries.pop() else {
                self.levels.pop();
                if let Some(rules) = &mut self.rules {
                    rules.leave();
                }
                continue;
            };
            let name = level.names.get(name).to_owned();
            if file_type == FileType::Directory {
                self.next_dir = Some(name.clone());
            }
            let parent = Arc::clone(&level.directory);
            return Ok(Some(DirEntry { parent, name, file_type }));
        }
        if !self.is_exceeded {
            return Ok(None);
        }
        let limit = self.options.max_entries;
        let error = match self.count {
            count if count >= limit => {
                Error::over(Code::TooManyEntries, "more than {} entries", limit)
            }
            _ => Code::TooManyEntries.into(),
        };
        let request = self.listed.place.request().sent();
        self.end = Some((Code::TooManyEntries, request.to_owned()));
        Err(error.with_request("walk", request))
    }

    fn fail(&mut self, error: Error, path: &Path) -> Result<()> {
        let reason = error.reason();
        let directory = self.listed.place.request().join(path);
        let path = directory.sent();
        let error = error.with_request("walk", path);
        // Only the request that is over gives an error of another library.
        let is_over = matches!(reason, Code::Custom { .. });
        if !self.options.skip_unreadable || is_over {
            self.end = Some((reason, path.to_owned()));
            return Err(error);
        }
        self.error_bytes = self.error_bytes.saturating_add(ERROR_BYTES + 2 * path.len());
        if self.held_bytes() > WALK_BYTES {
            self.is_exceeded = true;
        }
        self.unreadable.push(error);
        Ok(())
    }

    fn list(&mut self, path: &Path) -> Result<()> {
        match self.listed.place.list_beneath(&self.listed.directory.handle, path) {
            // The directory was removed or replaced before it was entered, or shows processes.
            Err(error) if error.reason().is_replaced() || error.reason() == Code::SpecialFile => {
                Ok(())
            }
            listed => self.read_names(path, Names::new(listed?)),
        }
    }

    fn read_names(&mut self, path: &Path, names: Names) -> Result<()> {
        if let Some(rules) = &mut self.rules {
            rules.enter(&names.directory, path)?;
        }
        let parent = Parent { listed: Arc::clone(&self.listed), path: path.to_owned() };
        let (mut level, held_bytes) = (Level::new(parent), self.held_bytes());
        let parent = Arc::clone(&level.directory);
        let mut result = Ok(());
        let read = names.inner.each(|name, listed| {
            let Some(file_type) = parent.type_of(&names.directory, name, listed) else {
                return ControlFlow::Continue(());
            };
            // Names that do not count as entries are not limited.
            let listed = self.listed.place.roots().ensure_usable().and_then(|()| {
                let file_type = file_type?;
                Ok((!self.omits(name, file_type)?).then_some(file_type))
            });
            let file_type = match listed {
                Ok(None) => return ControlFlow::Continue(()),
                Ok(Some(file_type)) => file_type,
                Err(error) => {
                    result = Err(error);
                    return ControlFlow::Break(());
                }
            };
            let level_bytes = level.size(level.entries.len() + 1) + NameList::size_of(name);
            // Defense: A walk holds a bounded number of bytes.
            if self.count >= self.options.max_entries || held_bytes + level_bytes > WALK_BYTES {
                self.is_exceeded = true;
                return ControlFlow::Break(());
            }
            self.count += 1;
            level.push(name, file_type);
            ControlFlow::Continue(())
        });
        level.sort();
        self.levels.push(level);
        result.and(read.map_err(Error::from))
    }

    /// The bytes of the errors, and of the entries of the directories that the walk is in.
    fn held_bytes(&self) -> usize {
        let levels = self.levels.iter().map(|level| level.size(level.entries.capacity()));
        levels.fold(self.error_bytes, usize::saturating_add)
    }

    fn omits(&mut self, name: &OsStr, file_type: FileType) -> Result<bool> {
        let is_dotted = || name.as_encoded_bytes().first() == Some(&b'.');
        let by_name = self.options.skip_dot_files && is_dotted();
        if let Some(rules) = &mut self.rules {
            let is_ignored = rules.decide(name, file_type == FileType::Directory)?;
            return Ok(is_ignored.unwrap_or(by_name));
        }
        Ok(by_name)
    }
}

/// About how many bytes an error takes, apart from the path in it.
const ERROR_BYTES: usize = 256;

impl Roots {
    /// Lists a directory, in no particular order. For the text of a symlink, use
    /// [`CheckedEntry::read_link`](crate::CheckedEntry::read_link). Entries are neither opened nor
    /// followed, so a FIFO or a symlink that points outside is listed like any other entry.
    /// [Denied](crate::BoundaryBuilder::deny) names are omitted.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`NotADirectory`](crate::ErrorKind::NotADirectory);
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for a directory of a
    /// proc filesystem; operating system errors, which the iterator can also yield.
    pub fn read_dir(&self, request: impl IntoLocation) -> Result<ReadDir> {
        self.operate("list", request, LastName::Existing, read_dir)
    }

    /// Walks a directory and everything beneath it. The entries of each directory are sorted by
    /// name, and a directory comes before its content. Symlinks are yielded but not followed, so
    /// the walk has no loops and stays inside. Denied names are omitted, and do not count.
    ///
    /// The limits are [`WALK_DEPTH`], [`WALK_ENTRIES`](crate::limits::WALK_ENTRIES) or the number
    /// in the options, and [`WALK_BYTES`] of memory.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`NotADirectory`](crate::ErrorKind::NotADirectory). The
    /// walk itself ends with those of [`Walk::next_entry`].
    pub fn walk(&self, request: impl IntoLocation, options: WalkOptions) -> Result<Walk> {
        self.operate("walk", request, LastName::Existing, |path| walk(path, options))
    }
}

impl CheckedPath {
    /// Like [`Roots::read_dir`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn read_dir(&self) -> Result<ReadDir> {
        self.0.run("list", read_dir)
    }

    /// Like [`Roots::walk`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn walk(&self, options: WalkOptions) -> Result<Walk> {
        self.0.run("walk", |path| walk(path, options))
    }
}

fn read_dir(path: &Proof) -> Result<ReadDir> {
    let (listed, names) = path.list()?;
    let parent = Arc::new(Parent { listed, path: PathBuf::new() });
    Ok(ReadDir { names: Some(names), parent })
}

fn walk(path: &Proof, options: WalkOptions) -> Result<Walk> {
    let (listed, names) = if options.max_depth > 0 {
        let (listed, names) = path.list()?;
        (listed, Some(names))
    } else {
        (path.listing(Arc::new(path.directory()?)), None)
    };
    let mut walk = Walk {
        listed,
        options,
        rules: None,
        levels: Vec::new(),
        next_dir: None,
        count: 0,
        unreadable: Vec::new(),
        error_bytes: 0,
        is_exceeded: false,
        end: None,
    };
    if let Some(names) = names {
        if options.git_ignore {
            walk.rules = Some(IgnoreRules::above(path)?);
        }
        walk.read_names(Path::new(""), names)?;
    }
    Ok(walk)
}

impl Proof {
    fn list(&self) -> Result<(Arc<ListedDirectory>, Names)> {
        let place = self.directory_place()?;
        let listed = self.list_beneath(&place.directory, &place.path)?;
        // The root itself can be beyond a mount.
        #[cfg(target_os = "linux")]
        if !self.root().names.as_os_str().is_empty() {
            self.ensure_not_proc(&listed.0)?;
        }
        Ok((self.listing(Arc::clone(&listed.0)), Names::new(listed)))
    }

    /// Lists a directory beneath a served one. Only what is beyond a mount is asked for its
    /// filesystem.
    #[cfg(target_os = "linux")]
    fn list_beneath(&self, base: &Handle, path: &Path) -> Result<(Arc<Handle>, Entries)> {
        let mounts = self.roots().policy().mounts;
        match base.list(path, Rule::Refuse) {
            // The path crosses a mount, or the system cannot tell.
            Err(_) if mounts == Rule::Allow => {
                let listed = base.list(path, mounts)?;
                self.ensure_not_proc(&listed.0)?;
                Ok(listed)
            }
            listed => listed,
        }
    }

    #[cfg(target_os = "linux")]
    fn ensure_not_proc(&self, directory: &Handle) -> Result<()> {
        self.root().ensure_not_proc(directory, &directory.metadata_without_birth()?)
    }

    #[cfg(not(target_os = "linux"))]
    fn list_beneath(&self, base: &Handle, path: &Path) -> Result<(Arc<Handle>, Entries)> {
        base.list(path, self.roots().policy().mounts)
    }

    fn listing(&self, directory: Arc<Handle>) -> Arc<ListedDirectory> {
        let directory = Arc::new(self.opened_as(directory));
        Arc::new(ListedDirectory { place: self.clone(), directory })
    }

    pub(super) fn directory(&self) -> Result<Handle> {
        self.directory_place()?.dir()
    }

    fn directory_place(&self) -> Result<Beneath> {
        if self.root().is_file() {
            return Err(Code::NotADirectory.into());
        }
        self.place()
    }
}
