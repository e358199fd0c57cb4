//! Sets of changes.
//!
//! Two changes of one set never affect the same name, or a name and a directory that contains it,
//! so their order does not matter for the result.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::path::PathBuf;

use super::atomic::AtomicFile;
use super::change::{remove_file, rename, verify_removal, verify_rename};
use super::options::{Overwrite, WriteOptions};
use super::permissions::Permissions;
use super::version::ContentHash;
use crate::check::{CheckedEntry, Name, Proof};
use crate::dir::{Beneath, Identity};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::CHANGES;
use crate::path::IntoLocation;
use crate::path::names::{below, key};
use crate::roots::{LastName, Roots};

/// Changes of several files, prepared together and committed in order.
///
/// A change is verified as far as possible when it is added: the request is allowed, the file has
/// the expected [version](ContentHash), and new content fits on the device. After an error, the set
/// can still be committed without that change. A set dropped without a commit leaves nothing
/// behind.
///
/// Each change is verified against the files as they are, not as earlier changes would leave them.
/// Adding one fails with [`InvalidInput`](crate::ErrorKind::InvalidInput) (`conflicting_changes`)
/// if another one affects the same name, or one above or below it, and with
/// [`TooManyChanges`](crate::ErrorKind::TooManyChanges) after [`CHANGES`] changes. To edit a file
/// and move it, use [`write_moved`](Self::write_moved).
///
/// The commit first verifies every version and destination again, and changes nothing if one fails,
/// or if the roots have ended by then. Once it has begun, their end does not interrupt it.
/// It then makes each change atomically, after verifying it once more, but not all of them
/// together: if the system refuses one, for example because a directory to be replaced is not
/// empty, or if the process is killed, the changes before it have been made and the rest have not.
/// [`CommitError`] says which. A killed process leaves [temporary files](Roots::write) behind.
///
/// ```
/// use guarded_fs::{Access, ContentHash, Overwrite, Roots, WriteOptions};
///
/// # let work = tempfile::tempdir().unwrap();
/// # for name in ["main.rs", "old.rs", "notes.txt"] {
/// #     std::fs::write(work.path().join(name), name).unwrap();
/// # }
/// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
/// let version = ContentHash::of(&roots.read("main.rs", 1 << 20)?);
///
/// let mut patch = roots.change_set();
/// let if_unchanged = WriteOptions::default().overwrite(Overwrite::IfUnchanged(version));
/// patch.write("main.rs", "mod new;", if_unchanged)?;
/// patch.write("new/mod.rs", "", WriteOptions::default().create_parents())?;
/// patch.rename("notes.txt", "NOTES.txt", Overwrite::Never)?;
/// patch.remove_file("old.rs")?;
/// assert_eq!(roots.read("main.rs", 99)?, b"main.rs");
/// patch.commit()?;
/// assert_eq!(roots.read("main.rs", 99)?, b"mod new;");
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[must_use = "changes that are not committed are discarded"]
pub struct ChangeSet {
    roots: Roots,
    affected: Vec<AffectedName>,
    changes: Vec<Change>,
}

enum Change {
    Write(AtomicFile),
    RemoveFile(Proof, Option<ContentHash>),
    Rename { from: Proof, to: Proof, replace: Overwrite },
}

struct AffectedName {
    directory: Identity,
    name: OsString,
    path: PathBuf,
}

impl Roots {
    /// Begins changes of several files.
    pub fn change_set(&self) -> ChangeSet {
        ChangeSet { roots: self.clone(), affected: Vec::new(), changes: Vec::new() }
    }
}

impl ChangeSet {
    /// Adds a write of a whole file. The content is written to a temporary file and, depending on
    /// the options, synced.
    ///
    /// # Errors
    ///
    /// Those of [`CheckedPath::atomic_file`](crate::CheckedPath::atomic_file) and of every
    /// [change](ChangeSet).
    pub fn write(
        &mut self,
        request: impl IntoLocation,
        content: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.add_write(request, content, |path| AtomicFile::create(path, options))
    }

    fn add_write(
        &mut self,
        request: impl IntoLocation,
        content: impl AsRef<[u8]>,
        create: impl Fn(&Proof) -> Result<AtomicFile>,
    ) -> Result<()> {
        self.ensure_room()?;
        let request = self.roots.location(request)?;
        let name = Name::preparing("write");
        let mut file = self.roots.run(name, &request, LastName::New, |path, _| create(path))?;
        let place = file.place().clone();
        let affected = place.run(Name::preparing("write"), |place| {
            let affected = self.affected(place, file.at())?;
            file.write_content(&content)?;
            file.sync()?;
            Ok(affected)
        })?;
        self.affected.push(affected);
        self.changes.push(Change::Write(file));
        Ok(())
    }

    /// Adds a move of a file whose content changes, which is two of the set's changes: a write of
    /// `to`, and then the removal of `from`, which must still have this version. The new file has
    /// the permissions of a [copy](Roots::copy) of `from`, as they are now.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write), [`Roots::open`] and
    /// [`remove_file_if_unchanged`](Self::remove_file_if_unchanged).
    pub fn write_moved(
        &mut self,
        from: impl IntoLocation,
        version: ContentHash,
        to: impl IntoLocation,
        content: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let from = self.roots.location(from)?;
        let (name, last_name) = (Name::preparing("move"), LastName::Existing);
        let source = self.roots.run(name, &from, last_name, |from, _| {
            // It will be removed, so a read-only place is refused before it is opened.
            from.ensure_writable()?;
            let (file, _) = from.open_existing()?;
            Ok(Permissions::of(&file)?)
        })?;
        self.add_write(to, content, |to| AtomicFile::create_copy(to, options, source.clone()))?;
        let removal = self.add_removal(from, Some(version));
        if removal.is_err() {
            self.affected.pop();
            self.changes.pop();
        }
        removal
    }

    /// Adds the removal of a file, a symlink or a special file.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::remove_file`] and of every [change](ChangeSet).
    pub fn remove_file(&mut self, request: impl IntoLocation) -> Result<()> {
        self.add_removal(request, None)
    }

    /// Adds the removal of a regular file that still has this content, compared as by
    /// [`Overwrite::IfUnchanged`].
    ///
    /// # Errors
    ///
    /// Those of [`remove_file`](Self::remove_file); [`Changed`](crate::ErrorKind::Changed)
    /// (`modified`), also if the file does not exist;
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for a symlink.
    pub fn remove_file_if_unchanged(
        &mut self,
        request: impl IntoLocation,
        version: ContentHash,
    ) -> Result<()> {
        self.add_removal(request, Some(version))
    }

    fn add_removal(
        &mut self,
        request: impl IntoLocation,
        version: Option<ContentHash>,
    ) -> Result<()> {
        self.ensure_room()?;
        let request = self.roots.location(request)?;
        let (name, last_name) = (Name::preparing("remove"), LastName::Unfollowed);
        let (checked, affected) = self.roots.run(name, &request, last_name, |checked, _| {
            verify_removal(checked, version)?;
            Ok((checked.clone(), self.affected(checked, &checked.parent_dir()?)?))
        })?;
        self.affected.push(affected);
        self.changes.push(Change::RemoveFile(checked, version));
        Ok(())
    }

    /// Adds a rename.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::rename`] and of every [change](ChangeSet).
    pub fn rename(
        &mut self,
        from: impl IntoLocation,
        to: impl IntoLocation,
        replace: Overwrite,
    ) -> Result<()> {
        self.ensure_room()?;
        let last_names = [LastName::Unfollowed; 2];
        let (from, to, affected) = self.roots.run_between(
            Name::preparing("rename"),
            from,
            to,
            last_names,
            |from, to| {
                verify_rename(from, to, replace)?;
                let affected = |place: &Proof| self.affected(place, &place.parent_dir()?);
                let destination = affected(to).map_err(Error::of_destination)?;
                Ok((from.clone(), to.clone(), [affected(from)?, destination]))
            },
        )?;
        self.affected.extend(affected);
        self.changes.push(Change::Rename { from, to, replace });
        Ok(())
    }

    /// Verifies all changes, and makes them in the order in which they were added, until one fails.
    ///
    /// # Errors
    ///
    /// [`CommitError`], with the error of the change that failed: one of [`AtomicFile::commit`],
    /// [`remove_file`](Self::remove_file),
    /// [`remove_file_if_unchanged`](Self::remove_file_if_unchanged) or [`Roots::rename`], or that
    /// of the [scope](crate::host::Scope) of the roots, if it is over before the first change.
    pub fn commit(mut self) -> Result<(), CommitError> {
        let places: Vec<_> = self.changes.iter().map(Change::places).collect();
        // Nothing is changed if one of the files is not what its change expects.
        let verified = self.changes.iter().try_for_each(Change::verify).and_then(|()| {
            self.roots.ensure_usable().map_err(|error| self.roots.log_refused(error))
        });
        if let Err(error) = verified {
            return Err(CommitError::new(&[], &places, error));
        }
        // Defense: A change set that has begun is completed, even if its roots end.
        self.changes.iter_mut().for_each(Change::begin);
        for (made, change) in self.changes.iter_mut().enumerate() {
            if let Err(error) = change.commit() {
                let made = made + usize::from(change.is_made());
                let (committed, pending) = places.split_at_checked(made).unwrap_or_default();
                return Err(CommitError::new(committed, pending, error));
            }
        }
        Ok(())
    }

    fn ensure_room(&self) -> Result<()> {
        let is_full = self.changes.len() >= CHANGES;
        if is_full { Err(self.roots.log_refused(Code::TooManyChanges.into())) } else { Ok(()) }
    }

    fn affected(&self, place: &Proof, at: &Beneath) -> Result<AffectedName> {
        let new = AffectedName {
            directory: at.directory.identity()?,
            name: key(at.name()).into_owned(),
            path: place.canonical(),
        };
        if self.affected.iter().any(|other| other.conflicts_with(&new)) {
            return Err(Code::ConflictingChanges.into());
        }
        Ok(new)
    }
}

impl AffectedName {
    fn conflicts_with(&self, other: &Self) -> bool {
        (self.directory, &self.name) == (other.directory, &other.name)
            || below(self.path.as_os_str(), &other.path).is_some()
            || below(other.path.as_os_str(), &self.path).is_some()
    }
}

impl Change {
    fn places(&self) -> Vec<Proof> {
        match self {
            Self::Write(file) => vec![file.place().clone()],
            Self::RemoveFile(place, _) => vec![place.clone()],
            Self::Rename { from, to, .. } => vec![from.clone(), to.clone()],
        }
    }

    fn verify(&self) -> Result<()> {
        match self {
            Self::Write(file) => file.place().run(Name::preparing("write"), |_| file.verify()),
            Self::RemoveFile(place, version) => {
                place.run(Name::preparing("remove"), |place| verify_removal(place, *version))
            }
            Self::Rename { from, to, replace } => {
                let name = Name::preparing("rename");
                from.run_to(name, to, |from, to| verify_rename(from, to, *replace))
            }
        }
    }

    fn begin(&mut self) {
        match self {
            Self::Write(file) => file.begin_commit(),
            Self::RemoveFile(place, _) => place.begin_change(),
            Self::Rename { from, to, .. } => [from, to].into_iter().for_each(Proof::begin_change),
        }
    }

    /// A commit that failed can have made the change, which then may not be durable.
    fn is_made(&self) -> bool {
        matches!(self, Self::Write(file) if file.is_in_place())
    }

    fn commit(&mut self) -> Result<()> {
        match self {
            Self::Write(file) => file.commit_as_part(),
            Self::RemoveFile(place, version) => {
                place.run("remove", |place| remove_file(place, *version))
            }
            Self::Rename { from, to, replace } => rename(from, to, *replace),
        }
    }
}

impl fmt::Debug for ChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeSet").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}

/// The last change goes first, because a directory created for an earlier one must be empty.
impl Drop for ChangeSet {
    fn drop(&mut self) {
        while self.changes.pop().is_some() {}
    }
}

/// The commit of a [`ChangeSet`] that ended at an error.
///
/// It converts to an [`Error`], whose text names the changes that were made and those that were
/// not:
///
/// ```text
/// write "b.txt": the file was modified since it was read; read it again; 1 of 3 changes was made ("a.txt"), and 2 were not ("b.txt", "c.txt" to "d.txt")
/// ```
#[derive(Debug)]
#[must_use]
pub struct CommitError {
    committed: Vec<CheckedEntry>,
    pending: Vec<CheckedEntry>,
    error: Error,
}

impl CommitError {
    fn new(committed: &[Vec<Proof>], pending: &[Vec<Proof>], error: Error) -> Self {
        let (made, left) = (committed.len(), pending.len());
        let outcome = if made == 0 {
            "no file was changed".to_owned()
        } else {
            format!(
                "{made} of {} changes {} made ({}), and {left} {} not ({})",
                made + left,
                was(made),
                listed(committed),
                was(left),
                listed(pending)
            )
        };
        Self {
            committed: entries(committed),
            pending: entries(pending),
            error: error.with_outcome(outcome),
        }
    }

    /// The places of the changes that were made, in order. A rename has two, source and
    /// destination.
    #[must_use]
    pub fn committed(&self) -> &[CheckedEntry] {
        &self.committed
    }

    /// The places of the changes that were not made, in order: all of them if one could not be
    /// verified, or the one that failed and those after it.
    #[must_use]
    pub fn pending(&self) -> &[CheckedEntry] {
        &self.pending
    }

    /// The error of the change that failed, with the text described above.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CommitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl From<CommitError> for Error {
    fn from(partial: CommitError) -> Self {
        partial.error
    }
}

fn entries(changes: &[Vec<Proof>]) -> Vec<CheckedEntry> {
    changes.iter().flatten().cloned().map(CheckedEntry).collect()
}

fn was(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

fn listed(changes: &[Vec<Proof>]) -> String {
    let mut text = String::new();
    for (number, places) in changes.iter().take(LISTED).enumerate() {
        text.push_str(if number == 0 { "" } else { ", " });
        let quoted: Vec<_> = places.iter().map(|place| quoted(place.request().sent())).collect();
        text.push_str(&quoted.join(" to "));
    }
    if let Some(rest) = changes.len().checked_sub(LISTED).filter(|rest| *rest > 0) {
        let _ = write!(text, " and {rest} more");
    }
    text
}

/// The maximum number of changes of each kind that an error lists.
const LISTED: usize = 16;
