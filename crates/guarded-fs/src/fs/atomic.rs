//! Files written under a temporary name and renamed to their final name at the commit.
//!
//! A file gets the permissions that the replaced file has at the commit, or those of a new file. If
//! the name was created or removed since writing began, it is not known which, and the commit
//! fails.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use super::open::{NEW_FILE, PRIVATE_FILE};
use super::options::{Durability, InPlace, Precondition, WriteMethod, WriteOptions};
use super::parents::NewDirectories;
use super::permissions::{KeptPermissions, Permissions, set_mode};
use super::permit::{ChangeKind, ChangePermit};
use super::version::{Condition, change_if, removed};
use crate::check::{CheckedPath, Name, Proof};
use crate::dir::{Beneath, Handle, Identity, Metadata, Permit as _, Stat, TemporaryName};
use crate::error::{Code, Error, Result, quoted};

/// A file that is written in pieces and appears under its name when it is committed.
///
/// Until then, the name keeps the old file, and the content is in a [temporary
/// file](crate::Roots::write) in the same directory, which only its owner can read if it will
/// replace a file. Without a commit, the temporary file is removed on drop, and so are the parent
/// directories that were created for it, if they are empty.
///
/// The file is committed in the directory that was opened when writing began. If that directory is
/// no longer at its path, the commit fails with [`Changed`](crate::ErrorKind::Changed).
///
/// ```
/// use std::io::{Seek as _, Write as _};
///
/// use guarded_fs::{Access, Roots, WriteOptions};
///
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
/// let place = roots.check("out/report.txt")?;
/// let mut report = place.atomic_file(WriteOptions::default().create_parents())?;
/// report.write_all(b"????\n")?;
/// report.write_all(b"the rest")?;
/// report.rewind()?;
/// report.write_all(b"head")?;
/// assert!(!roots.check("out/report.txt")?.exists());
/// report.commit()?;
/// assert_eq!(roots.read("out/report.txt", 1 << 20)?, b"head\nthe rest");
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[must_use = "a file that is not committed is removed"]
pub struct AtomicFile {
    place: Proof,
    /// The name in its directory.
    at: Beneath,
    options: WriteOptions,
    /// Whether the new file must have the owner, the group and the list of the old one.
    keeps_owner: bool,
    /// The file to be replaced, when writing began.
    old: Option<Metadata>,
    source: Option<CopySource>,
    // Declared before the created directories, which can be removed only when they are empty.
    temporary: TemporaryFile,
    created: NewDirectories,
}

struct CopySource {
    permissions: Permissions,
    /// The most bits that a new file in this directory receives.
    new_mode: u32,
}

impl CheckedPath {
    /// Begins an [`AtomicFile`].
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write) and of the [`Precondition`].
    pub fn atomic_file(&self, options: WriteOptions) -> Result<AtomicFile> {
        self.0.run(Name::preparing("write"), |path| AtomicFile::create(path, options))
    }
}

impl AtomicFile {
    /// Renames the file to its final name. If this fails, the old file remains and the new one is
    /// removed, with two exceptions, which the error names: only syncing the directory failed, or
    /// an append-only directory keeps the temporary file, emptied.
    ///
    /// # Errors
    ///
    /// - Those of [`Roots::write`](crate::Roots::write) and of the [`Precondition`].
    /// - [`Changed`](crate::ErrorKind::Changed) (`changed`) if another process created or removed
    ///   the file since writing began.
    /// - The error of the [scope](crate::host::Scope) of the roots, if it has ended.
    pub fn commit(mut self) -> Result<()> {
        self.commit_as_part()
    }

    pub(super) fn commit_as_part(&mut self) -> Result<()> {
        let place = self.place.clone();
        place.run("write", |_| self.put_in_place())
    }

    fn create(place: &Proof, options: WriteOptions) -> Result<Self> {
        let file = Self::begin(place, options.into(), NEW_FILE, None)?;
        file.ensure_unchanged()?;
        // Its content can take long to write, and other changes can be committed before it.
        file.ensure_can_keep()?;
        Ok(file)
    }

    /// A file of a change set, complete and synced, whose content was compared when it was added.
    pub(super) fn of_set(
        place: &Proof,
        options: WriteOptions,
        source: Option<&Permissions>,
        content: &[u8],
    ) -> Result<Self> {
        let mode = if source.is_some() { PRIVATE_FILE } else { NEW_FILE };
        let mut file = Self::begin(place, options.into(), mode, None)?;
        // Another process has created or removed the file since the change was added.
        if file.old.is_some() != place.existed() {
            return Err(Code::Changed.into());
        }
        file.ensure_can_keep()?;
        if let Some(source) = source {
            file.copied_from(source.clone())?;
        }
        file.write_content(content)?;
        file.sync()?;
        Ok(file)
    }

    /// Begins a file with this mode, private if it replaces another one, which must not be the
    /// `source` of a copy.
    pub(super) fn begin(
        place: &Proof,
        WriteMethod { options, in_place }: WriteMethod,
        mode: u32,
        source: Option<Identity>,
    ) -> Result<Self> {
        let mut created = NewDirectories::default();
        let permit = if options.create_parents {
            place.permit_with_parents(ChangeKind::Replace, &mut created)
        } else {
            place.permit(ChangeKind::Replace)
        };
        let permit = permit.map_err(|error| as_name_taken(place, options.precondition, error))?;
        let old = permit.file_to_replace(options.precondition, source)?;
        let mode = if old.is_some() { PRIVATE_FILE } else { mode };
        let temporary = TemporaryFile::new(&permit.at().directory, mode)?;
        let (place, at) = (place.clone(), permit.into_at());
        let keeps_owner = in_place == InPlace::IfOwnerChanges;
        Ok(Self { place, at, options, keeps_owner, old, source: None, temporary, created })
    }

    pub(super) fn copied_from(&mut self, permissions: Permissions) -> Result<()> {
        let new_mode = Permissions::most_of_new_file(&self.at.directory)?;
        self.source = Some(CopySource { permissions, new_mode });
        Ok(())
    }

    /// Permits the commit, which can be long after the file was begun.
    fn permit(&self) -> Result<ChangePermit<'_>> {
        self.place.permit_at(ChangeKind::Replace, self.at.clone(), Some(1))
    }

    /// Gives the new file the permissions of the old one, if there is one, except the mode.
    fn carry(&self, permit: &ChangePermit<'_>) -> Result<Option<KeptPermissions>> {
        let Some(old) = &self.old else { return Ok(None) };
        Ok(Some(Permissions::of_replaced(permit, old)?.carry_to(self.file())?))
    }

    fn ensure_can_keep(&self) -> Result<()> {
        self.carry(&self.permit()?)?.map_or(Ok(()), |kept| kept.mode().map(drop))
    }

    fn condition(&self) -> Option<Condition<'_>> {
        Condition::new(&self.place, &self.at, self.options.precondition.version())
    }

    pub(super) fn ensure_unchanged(&self) -> Result<()> {
        self.condition().map_or(Ok(()), |condition| condition.verify())
    }

    /// Whether the new file can have the owner, the group and the list of the old one.
    pub(super) fn can_keep_owner(&self) -> Result<bool> {
        Ok(self.carry(&self.permit()?)?.is_none_or(|kept| kept.is_all))
    }

    pub(super) fn write_content(&mut self, content: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.temporary.file.write_all(content.as_ref())?)
    }

    pub(super) fn file(&self) -> &File {
        &self.temporary.file
    }

    /// The commit syncs again.
    pub(super) fn sync(&self) -> Result<()> {
        if self.options.durability != Durability::None {
            self.temporary.file.sync_all()?;
        }
        if self.options.durability == Durability::DataAndDirectory {
            self.created.sync()?;
        }
        Ok(())
    }

    pub(super) fn is_in_place(&self) -> bool {
        self.temporary.is_renamed
    }

    pub(super) fn place(&self) -> &Proof {
        &self.place
    }

    pub(super) fn begin_commit(&mut self) {
        self.place.begin_change();
    }

    /// Gives the new file the permissions that the old one has now, or those of a copy. Returns the
    /// state of the old file.
    fn give_permissions(&self, permit: &ChangePermit<'_>) -> Result<Option<Metadata>> {
        let (old, kept) = (self.state_of_old(permit)?, self.carry(permit)?);
        if self.keeps_owner && kept.is_some_and(|it| !it.is_all) {
            return Err(Code::Changed.into());
        }
        let mode = kept.map(KeptPermissions::mode).transpose()?;
        if let Some(CopySource { permissions, new_mode }) = &self.source {
            let limit = permissions.limit_of_copy(&Permissions::of(self.file())?);
            // Defense: A copy grants no more than its source.
            set_mode(self.file(), limit & mode.unwrap_or(*new_mode))?;
        } else if let Some(mode) = mode {
            set_mode(self.file(), mode)?;
        }
        Ok(old)
    }

    fn state_of_old(&self, permit: &ChangePermit<'_>) -> Result<Option<Metadata>> {
        if self.old.is_none() {
            return Ok(None);
        }
        Ok(match permit.look()? {
            Stat::Other(metadata) => Some(metadata),
            Stat::Missing | Stat::Link(..) => None,
        })
    }

    pub(super) fn put_in_place(&mut self) -> Result<()> {
        let given = self.give_permissions(&self.permit()?)?;
        self.sync()?;
        // Not every filesystem can sync a directory.
        let to_sync = match self.options.durability {
            Durability::DataAndDirectory => self.at.directory.open_to_sync()?,
            Durability::None | Durability::Data => None,
        };
        let permit = &self.permit()?;
        change_if(self.condition(), || {
            // Syncing and comparing take time, in which the old file can become private.
            let now = self.state_of_old(permit)?;
            let is_same = match (&given, &now) {
                (Some(given), Some(now)) => given.is_same_state(now),
                (given, now) => given.is_none() && now.is_none(),
            };
            if !is_same {
                self.give_permissions(permit)?;
                self.sync()?;
            }
            self.rename(permit)
        })?;
        self.temporary.is_renamed = true;
        self.created.keep();
        Handle::sync(to_sync).map_err(|error| {
            let outcome = "the file has its new content, which a power failure may undo";
            Error::from(error).with_outcome(outcome.to_owned())
        })
    }

    /// Fails if no old file was expected and one exists now.
    fn rename(&self, permit: &ChangePermit<'_>) -> Result<()> {
        let (temporary, is_old) = (&self.temporary, self.old.is_some());
        let renamed = temporary.name.rename(&permit.slot(), is_old);
        renamed.map_err(|error| match error.reason() {
            Code::AlreadyExists
                if !is_old && self.options.precondition != Precondition::Missing =>
            {
                Code::Changed.into()
            }
            Code::PermissionDenied if temporary.remove().is_err() => {
                let name = quoted(temporary.name.name());
                error.with_outcome(format!("the temporary file {name} remains"))
            }
            _ => error,
        })
    }

    pub(super) fn verify(&self) -> Result<()> {
        self.ensure_unchanged()?;
        let permit = self.permit()?;
        let policy = self.place.roots().policy();
        match (permit.look()?, self.old.is_some()) {
            (Stat::Missing, false) => {}
            (Stat::Other(metadata), true) => policy.allow(&metadata)?,
            (_, false) if self.options.precondition == Precondition::Missing => {
                return Err(Code::AlreadyExists.into());
            }
            _ => return Err(Code::Changed.into()),
        }
        let Stat::Other(_) = self.temporary.name.look(policy.mounts)? else {
            return Err(Code::Changed.into());
        };
        self.ensure_can_keep()?;
        permit.ask()
    }
}

impl Proof {
    /// Whether a file may be written here now. Nothing is created. Returns the name of the file in
    /// its directory, or its path from the last directory that exists.
    pub(super) fn verify_write(&self, options: WriteOptions) -> Result<Beneath> {
        let WriteOptions { precondition, create_parents, .. } = options;
        let kind = ChangeKind::Replace;
        let refused = |error| as_name_taken(self, precondition, error);
        let permit = if create_parents {
            let named = self.ensure_may_change(kind).and_then(|()| self.ensure_may_be_put(kind));
            named.map_err(refused)?;
            match self.last_present(1)? {
                (at, 0) => self.permit_at(kind, at, Some(1)),
                _ if precondition.version().is_some() => return Err(removed()),
                (missing, _) => return Ok(missing),
            }
        } else {
            self.permit(kind)
        };
        let permit = permit.map_err(refused)?;
        permit.file_to_replace(precondition, None)?;
        permit.condition(precondition.version()).map_or(Ok(()), |condition| condition.verify())?;
        permit.ask()?;
        Ok(permit.into_at())
    }
}

/// For a name that nothing may have, a directory that has it is `already_exists` (open(2), `O_EXCL`).
fn as_name_taken(place: &Proof, precondition: Precondition, error: Error) -> Error {
    match error.reason() {
        Code::RootItself | Code::IsADirectory
            if precondition == Precondition::Missing
                && place.existed()
                && !place.names_directory() =>
        {
            Code::AlreadyExists.into()
        }
        _ => error,
    }
}

impl ChangePermit<'_> {
    /// The file that is there, unless the precondition refuses it or it is the `source` of a copy.
    /// Its content is not compared.
    fn file_to_replace(
        &self,
        precondition: Precondition,
        source: Option<Identity>,
    ) -> Result<Option<Metadata>> {
        match self.look()? {
            Stat::Missing if precondition.version().is_some() => Err(removed()),
            Stat::Missing => Ok(None),
            Stat::Link(..) | Stat::Other(_) if precondition == Precondition::Missing => {
                Err(Code::AlreadyExists.into())
            }
            Stat::Link(..) => Err(Code::Changed.into()),
            Stat::Other(metadata) => {
                self.place().ensure_replaceable(&metadata, source)?;
                Ok(Some(metadata))
            }
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.temporary.file.write(content)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.file.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.temporary.file.seek(to)
    }
}

impl fmt::Debug for AtomicFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicFile")
            .field("place", self.place())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

struct TemporaryFile {
    name: TemporaryName,
    file: File,
    is_renamed: bool,
}

impl TemporaryFile {
    fn new(directory: &Arc<Handle>, mode: u32) -> Result<Self> {
        let (name, file) = TemporaryName::of_new_file(Arc::clone(directory), mode)?;
        Ok(Self { name, file, is_renamed: false })
    }

    /// Removes the file, or its content in an append-only directory (ioctl_iflags(2)).
    fn remove(&self) -> io::Result<()> {
        let removed = self.name.remove();
        match &removed {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.file.set_len(0)?;
            }
            _ => {}
        }
        removed
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_renamed {
            // The caller reports why the write failed, so an error here is ignored.
            let _ = self.remove();
        }
    }
}
