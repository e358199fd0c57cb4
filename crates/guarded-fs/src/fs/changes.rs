//! Sets of changes.
//!
//! | step | does |
//! | --- | --- |
//! | adding a change | checks it against the files as they are, and keeps it, with the content of a write |
//! | commit, prepare | writes and syncs the temporary files, with missing parents |
//! | commit, verify | checks every change again, and asks the roots for the last time |
//! | commit, make | makes one change after the other, each after checking it once more |
//! | commit, finish | removes the directories that were renamed aside |
//!
//! Only the commit changes the filesystem, and until its third step it creates nothing but temporary
//! files and parents. If preparing or verifying fails, these are removed.
//!
//! Two changes of one set never affect the same name, or a name and a directory that contains it, as
//! far as their names tell, so their order does not matter for the result.

use std::fmt::{self, Write as _};
use std::mem;
use std::path::{Path, PathBuf};

use super::atomic::AtomicFile;
use super::change::{TreeAside, remove_file, rename, verify_removal, verify_rename};
use super::options::{Precondition, WriteOptions};
use super::permissions::Permissions;
use crate::check::{CheckedEntry, Name, Proof};
use crate::dir::{Beneath, Identity};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::{CHANGE_SET_BYTES, CHANGES};
use crate::path::IntoLocation;
use crate::path::names::{key, path_key};
use crate::roots::{LastName, Roots};

/// Changes of several files, prepared together and committed in order.
///
/// A change is checked when it is added, against the files as they are, not as earlier changes
/// would leave them: the request is allowed, and its [`Precondition`] holds. The content of a write
/// is kept in memory. **Until the commit, no file is created or changed**, so a set can wait for a
/// person's approval, and one that is dropped leaves nothing behind. After an error, the set can
/// still be committed without that change.
///
/// Adding a change fails with
///
/// - [`InvalidInput`](crate::ErrorKind::InvalidInput) (`conflicting_changes`) if another one
///   affects the same name, or one above or below it. To edit a file and move it, use
///   [`write_moved`](Self::write_moved). On Linux, names are compared byte for byte, so do not
///   combine changes of a directory and of what is in it by another name, such as that of a bind
///   mount, or one in another case where the filesystem ignores it;
/// - [`TooManyChanges`](crate::ErrorKind::TooManyChanges) after [`CHANGES`] changes, and
///   [`TooLarge`](crate::ErrorKind::TooLarge) after [`CHANGE_SET_BYTES`] bytes of content.
///
/// The commit first writes the new files under temporary names, then verifies every precondition
/// and destination again. It changes nothing if one of these steps fails, for example because the
/// disk is full, or if the roots have ended by then. Once it has begun to change, their end does
/// not interrupt it. It makes each change atomically, after verifying it once more, but not all of
/// them together: if the system refuses one, for example because a directory to be replaced is not
/// empty, or if the process is killed, the changes before it have been made and the rest have not.
/// [`CommitError`] says which. A killed process leaves [temporary files](Roots::write) behind, and a
/// directory that was being removed under such a name.
///
/// ```
/// use guarded_fs::{Access, ContentHash, Precondition, Roots, WriteOptions};
///
/// # let work = tempfile::tempdir().unwrap();
/// # for name in ["main.rs", "old.rs", "notes.txt"] {
/// #     std::fs::write(work.path().join(name), name).unwrap();
/// # }
/// # std::fs::create_dir(work.path().join("build")).unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
/// let version = ContentHash::of(&roots.read("main.rs", 1 << 20)?);
///
/// let mut patch = roots.change_set();
/// let unchanged = Precondition::Unchanged(version);
/// patch.write("main.rs", "mod new;", WriteOptions::default().precondition(unchanged))?;
/// patch.write("new/mod.rs", "", WriteOptions::default().create_parents())?;
/// patch.rename("notes.txt", "NOTES.txt", Precondition::Missing)?;
/// patch.remove_file("old.rs", Precondition::Any)?;
/// patch.remove_dir_all("build")?;
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
    /// The size of the content to write.
    bytes: usize,
}

enum Change {
    Write(Write),
    CreateDir(Proof),
    RemoveFile(Proof, Precondition),
    RemoveTree { place: Proof, tree: Identity, aside: Option<TreeAside> },
    Rename { from: Proof, to: Proof, precondition: Precondition },
}

struct Write {
    place: Proof,
    content: Vec<u8>,
    options: WriteOptions,
    /// The permissions of the file that is moved.
    source: Option<Permissions>,
    /// From the commit on.
    file: Option<Box<AtomicFile>>,
}

/// A name in the last directory on its path that exists, or the path from there.
struct AffectedName {
    directory: Identity,
    names: PathBuf,
    canonical: PathBuf,
}

impl Roots {
    /// Begins changes of several files.
    pub fn change_set(&self) -> ChangeSet {
        ChangeSet { roots: self.clone(), affected: Vec::new(), changes: Vec::new(), bytes: 0 }
    }
}

impl ChangeSet {
    /// Adds a write of a whole file.
    ///
    /// # Errors
    ///
    /// Those of [`CheckedPath::atomic_file`](crate::CheckedPath::atomic_file) and of every
    /// [change](ChangeSet). Only the commit finds out whether the device has room and whether the
    /// new file can have the permissions of the old one. It fails with
    /// [`Changed`](crate::ErrorKind::Changed) (`changed`) if another process created or removed the
    /// file since the write was added.
    pub fn write(
        &mut self,
        request: impl IntoLocation,
        content: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.add_write(request, content.as_ref(), options, None)
    }

    fn add_write(
        &mut self,
        request: impl IntoLocation,
        content: &[u8],
        options: WriteOptions,
        source: Option<Permissions>,
    ) -> Result<()> {
        if content.len() > CHANGE_SET_BYTES - self.bytes {
            let text = "the content of one set is larger than {} bytes";
            let error = Error::over(Code::TooLarge, text, CHANGE_SET_BYTES);
            return Err(self.roots.log_refused(error));
        }
        let verify = |place: &Proof| Ok((place.verify_write(options)?, ()));
        let (place, ()) = self.add("write", request, LastName::New, verify)?;
        self.bytes += content.len();
        let content = content.to_vec();
        self.changes.push(Change::Write(Write { place, content, options, source, file: None }));
        Ok(())
    }

    /// Adds a move of a file whose content changes, which is two of the set's changes: a write of
    /// `to`, and then the removal of `from`, for which this precondition must hold. The new file
    /// has the permissions of a [copy](Roots::copy) of `from`, as they are now.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write), [`Roots::open`] and [`remove_file`](Self::remove_file).
    pub fn write_moved(
        &mut self,
        from: impl IntoLocation,
        precondition: Precondition,
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
        let content = content.as_ref();
        self.add_write(to, content, options, Some(source))?;
        let removal = self.remove_file(from, precondition);
        if removal.is_err() {
            self.bytes -= content.len();
            self.affected.pop();
            self.changes.pop();
        }
        removal
    }

    /// Adds the creation of a directory. The parent must exist, also after the other changes: for
    /// one that has files in the set, use [`WriteOptions::create_parents`].
    ///
    /// # Errors
    ///
    /// Those of [`Roots::create_dir`] and of every [change](ChangeSet).
    pub fn create_dir(&mut self, request: impl IntoLocation) -> Result<()> {
        let verify = |place: &Proof| Ok((place.verify_new_dir()?, ()));
        let (place, ()) = self.add("create directory", request, LastName::New, verify)?;
        self.changes.push(Change::CreateDir(place));
        Ok(())
    }

    /// Adds the removal of a file, a symlink or a special file. With
    /// [`Unchanged`](Precondition::Unchanged), only of a regular file.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::remove_file`], of the [`Precondition`] and of every [change](ChangeSet);
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for a symlink whose
    /// content is to be compared; [`InvalidInput`](crate::ErrorKind::InvalidInput)
    /// (`invalid_options`) for [`Missing`](Precondition::Missing), because nothing would be
    /// removed.
    pub fn remove_file(
        &mut self,
        request: impl IntoLocation,
        precondition: Precondition,
    ) -> Result<()> {
        if precondition == Precondition::Missing {
            let text = "a file that must be missing cannot be removed";
            let error = Error::from(Code::InvalidOptions).with_text(text);
            return Err(self.roots.log_refused(error));
        }
        let (place, ()) = self.add("remove", request, LastName::Unfollowed, |place| {
            verify_removal(place, precondition.version())?;
            Ok((place.parent_dir()?, ()))
        })?;
        self.changes.push(Change::RemoveFile(place, precondition));
        Ok(())
    }

    /// Adds the removal of a directory and everything in it, as one change: it is renamed to a
    /// [temporary name](Roots::write) in one step, and removed after the last change was made. It
    /// must still be the same directory by then, or the commit fails with
    /// [`Changed`](crate::ErrorKind::Changed). What is in it is not compared.
    ///
    /// What may be a file or a directory is looked at first
    /// ([`Roots::symlink_metadata`]): [`remove_file`](Self::remove_file) removes no directory, and
    /// this no file.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::remove_dir_all`] and of every [change](ChangeSet). What cannot be removed
    /// at the end gets its name back. If something else has that by then, it keeps the temporary
    /// name, which the error has.
    pub fn remove_dir_all(&mut self, request: impl IntoLocation) -> Result<()> {
        let verify = Proof::verify_tree_removal;
        let (place, tree) = self.add("remove", request, LastName::Unfollowed, verify)?;
        self.changes.push(Change::RemoveTree { place, tree, aside: None });
        Ok(())
    }

    /// Adds a rename. The precondition is one of the destination: the source is moved with the
    /// content that it has then, so for one that was read, use [`write_moved`](Self::write_moved).
    ///
    /// # Errors
    ///
    /// Those of [`Roots::rename`] and of every [change](ChangeSet).
    pub fn rename(
        &mut self,
        from: impl IntoLocation,
        to: impl IntoLocation,
        precondition: Precondition,
    ) -> Result<()> {
        self.ensure_room()?;
        let last_names = [LastName::Unfollowed; 2];
        let (from, to, affected) = self.roots.run_between(
            Name::preparing("rename"),
            from,
            to,
            last_names,
            |from, to| {
                verify_rename(from, to, precondition)?;
                let affected = |place: &Proof| self.affected(place, &place.parent_dir()?);
                let destination = affected(to).map_err(Error::of_destination)?;
                Ok((from.clone(), to.clone(), [affected(from)?, destination]))
            },
        )?;
        self.affected.extend(affected);
        self.changes.push(Change::Rename { from, to, precondition });
        Ok(())
    }

    /// Writes the new files, verifies all changes, and makes them in the order in which they were
    /// added, until one fails.
    ///
    /// # Errors
    ///
    /// [`CommitError`], with the error of the change that failed: one that the functions of this
    /// type or [`AtomicFile::commit`] describe, or that of the [scope](crate::host::Scope) of the
    /// roots, if it is over before the first change.
    pub fn commit(mut self) -> Result<(), CommitError> {
        let places: Vec<_> = self.changes.iter().map(Change::places).collect();
        if let Err(error) = self.prepare() {
            return Err(CommitError::new(&[], &places, error));
        }
        let mut failed = None;
        for (made, change) in self.changes.iter_mut().enumerate() {
            if let Err(error) = change.commit() {
                failed = Some((made + usize::from(change.is_made()), error));
                break;
            }
        }
        // Also after a failure, because these changes were made.
        let finished = self.changes.iter().map(Change::finish).fold(Ok(()), both);
        let (made, error) = match (failed, finished) {
            (None, Ok(())) => return Ok(()),
            (None, Err(error)) => (places.len(), error),
            (Some(failed), Ok(())) => failed,
            (Some((made, error)), Err(left)) => (made, error.with_outcome(left.to_string())),
        };
        let (committed, pending) = places.split_at_checked(made).unwrap_or_default();
        Err(CommitError::new(committed, pending, error))
    }

    /// Nothing is changed if one of the files is not what its change expects.
    fn prepare(&mut self) -> Result<()> {
        self.changes.iter_mut().try_for_each(Change::prepare)?;
        self.changes.iter().try_for_each(Change::verify)?;
        self.roots.ensure_usable().map_err(|error| self.roots.log_refused(error))?;
        // Defense: A change set that has begun is completed, even if its roots end.
        self.changes.iter_mut().for_each(Change::begin);
        Ok(())
    }

    /// Checks a change, and adds the name that it affects. Returns what the check found.
    fn add<T>(
        &mut self,
        name: &'static str,
        request: impl IntoLocation,
        last_name: LastName,
        verify: impl Fn(&Proof) -> Result<(Beneath, T)>,
    ) -> Result<(Proof, T)> {
        self.ensure_room()?;
        let request = self.roots.location(request)?;
        let (place, found, affected) =
            self.roots.run(Name::preparing(name), &request, last_name, |place, _| {
                let (at, found) = verify(place)?;
                Ok((place.clone(), found, self.affected(place, &at)?))
            })?;
        self.affected.push(affected);
        Ok((place, found))
    }

    fn ensure_room(&self) -> Result<()> {
        let is_full = self.changes.len() >= CHANGES;
        if is_full { Err(self.roots.log_refused(Code::TooManyChanges.into())) } else { Ok(()) }
    }

    fn affected(&self, place: &Proof, at: &Beneath) -> Result<AffectedName> {
        let new = AffectedName {
            directory: at.directory.identity()?,
            names: at.path.iter().map(key).collect(),
            canonical: path_key(&place.canonical()),
        };
        if self.affected.iter().any(|other| other.conflicts_with(&new)) {
            return Err(Code::ConflictingChanges.into());
        }
        Ok(new)
    }
}

impl AffectedName {
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
        self.directory == other.directory && overlap(&self.names, &other.names)
            || overlap(&self.canonical, &other.canonical)
    }
}

impl Change {
    fn places(&self) -> Vec<Proof> {
        match self {
            Self::Write(Write { place, .. })
            | Self::CreateDir(place)
            | Self::RemoveFile(place, _)
            | Self::RemoveTree { place, .. } => vec![place.clone()],
            Self::Rename { from, to, .. } => vec![from.clone(), to.clone()],
        }
    }

    fn prepare(&mut self) -> Result<()> {
        let Self::Write(Write { place, content, options, source, file }) = self else {
            return Ok(());
        };
        // The content is no longer needed once it is in the file.
        let content = mem::take(content);
        *file = Some(Box::new(place.run(Name::preparing("write"), |place| {
            AtomicFile::of_set(place, *options, source.as_ref(), &content)
        })?));
        Ok(())
    }

    fn verify(&self) -> Result<()> {
        match self {
            Self::Write(Write { place, file, .. }) => place.run(Name::preparing("write"), |_| {
                file.as_ref().map_or(Ok(()), |file| file.verify())
            }),
            Self::CreateDir(place) => {
                let name = Name::preparing("create directory");
                place.run(name, |place| place.verify_new_dir().map(drop))
            }
            Self::RemoveFile(place, precondition) => {
                let version = precondition.version();
                place.run(Name::preparing("remove"), |place| verify_removal(place, version))
            }
            Self::RemoveTree { place, tree, .. } => {
                place.run(Name::preparing("remove"), |place| match place.verify_tree_removal()? {
                    (_, found) if found == *tree => Ok(()),
                    _ => Err(Code::Changed.into()),
                })
            }
            Self::Rename { from, to, precondition } => {
                let name = Name::preparing("rename");
                from.run_to(name, to, |from, to| verify_rename(from, to, *precondition))
            }
        }
    }

    fn begin(&mut self) {
        match self {
            Self::Write(Write { file, .. }) => {
                if let Some(file) = file {
                    file.begin_commit();
                }
            }
            Self::CreateDir(place)
            | Self::RemoveFile(place, _)
            | Self::RemoveTree { place, .. } => place.begin_change(),
            Self::Rename { from, to, .. } => [from, to].into_iter().for_each(Proof::begin_change),
        }
    }

    /// A commit that failed can have made the change, which then may not be durable.
    fn is_made(&self) -> bool {
        matches!(self, Self::Write(Write { file: Some(file), .. }) if file.is_in_place())
    }

    fn commit(&mut self) -> Result<()> {
        match self {
            Self::Write(Write { file, .. }) => {
                file.as_mut().map_or(Ok(()), |file| file.commit_as_part())
            }
            Self::CreateDir(place) => place.run("create directory", Proof::create_dir),
            Self::RemoveFile(place, precondition) => {
                place.run("remove", |place| remove_file(place, precondition.version()))
            }
            Self::RemoveTree { place, tree, aside } => {
                let name = Name::preparing("remove");
                *aside = Some(place.run(name, |place| place.rename_aside(*tree))?);
                Ok(())
            }
            Self::Rename { from, to, precondition } => rename(from, to, *precondition),
        }
    }

    /// Removes what was renamed aside.
    fn finish(&self) -> Result<()> {
        let Self::RemoveTree { place, aside: Some(aside), .. } = self else { return Ok(()) };
        // This cannot be repeated from the beginning.
        place.run("remove", |place| aside.remove(place).map_err(Error::into_custom))
    }
}

impl fmt::Debug for ChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeSet").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}

impl Drop for ChangeSet {
    fn drop(&mut self) {
        // The last change goes first, because a directory created for an earlier one must be empty.
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
        } else if left == 0 {
            "all other changes were made".to_owned()
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

/// The first error, with what the second one says.
fn both(first: Result<()>, second: Result<()>) -> Result<()> {
    match (first, second) {
        (Err(first), Err(second)) => Err(first.with_outcome(second.to_string())),
        (first, second) => first.and(second),
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
