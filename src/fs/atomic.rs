//! Files that are written under a temporary name and then renamed to their final name.
//!
//! | at commit, the name | and when writing began | result |
//! | --- | --- | --- |
//! | exists | it existed | the file is replaced, and the new one gets the permissions that it has now |
//! | exists | it did not | `already_exists` with [`Overwrite::Never`], otherwise `changed`, because the new file has the permissions of a new file |
//! | does not exist | it existed | `changed`, because the permissions for the new file are not known |
//! | does not exist | it did not | the file is created |
//!
//! Until the commit, the temporary file of a file that will be replaced can be read only by its
//! owner.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(not(windows))]
use super::list::is_replaced;
#[cfg(unix)]
use super::open::verify;
use super::open::{NEW_FILE, PRIVATE_FILE};
use super::options::{Durability, Overwrite, WriteOptions};
#[cfg(unix)]
use super::permissions::{KeptPermissions, Permissions, set_mode};
use super::version::{Condition, change_if, removed};
use super::write::parent_at;
use crate::check::{CheckedPath, Name, Proof};
#[cfg(target_os = "linux")]
use crate::dir::is_proc;
use crate::dir::{Handle, Identity, Metadata, OpenHow, Rule, Stat, split, temporary_name};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::NAMES_TRIED;
use crate::roots::Presence;

/// A file that is written in pieces and appears under its name only when it is committed.
///
/// Until then, the content is in a temporary file in the same directory, as described at
/// [`Roots::write`](crate::Roots::write), and the name keeps the old file. If the value is dropped
/// without a commit, the temporary file is removed, and so are the parent directories that were
/// created for it, if they are empty.
///
/// The file is committed in the directory object that was opened when writing began, even if that
/// directory is moved in the meantime, unless names are
/// [protected](crate::BoundaryBuilder::protect).
///
/// ```
/// use std::io::{Seek as _, Write as _};
///
/// use mcp_roots_guard::{Roots, WriteOptions};
///
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()])?;
/// let place = roots.check("out/report.txt")?;
/// let mut report = place.atomic_file(WriteOptions::default().create_parents())?;
/// report.write_all(b"????\n")?;
/// report.write_all(b"the rest")?;
/// report.rewind()?;
/// report.write_all(b"head")?;
/// assert!(!roots.check("out/report.txt")?.exists());
/// report.commit()?;
/// assert_eq!(roots.read("out/report.txt", 1 << 20)?, b"head\nthe rest");
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[must_use = "a file that is not committed is removed"]
pub struct AtomicFile {
    place: Proof,
    name: OsString,
    options: WriteOptions,
    /// The file to be replaced, as it was when writing began.
    old: Option<Metadata>,
    /// The file whose copy this is.
    #[cfg(unix)]
    source: Option<CopySource>,
    // Declared before the created directories, which can be removed only when they are empty.
    temporary: Temporary,
    created: NewDirectories,
}

/// The file that an [`AtomicFile`] is a copy of.
#[cfg(unix)]
struct CopySource {
    permissions: Permissions,
    /// The most bits that a new file in this directory receives.
    new_mode: u32,
}

/// The place of a file to be written, with its directory open.
pub(super) struct Destination {
    pub(super) directory: Arc<Handle>,
    pub(super) name: OsString,
    pub(super) old: Option<Metadata>,
    created: NewDirectories,
}

impl CheckedPath {
    /// Begins a file that is written in pieces and appears under its name when it is committed.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](Self::write); [`InvalidInput`](crate::ErrorKind::InvalidInput)
    /// (`invalid_options`) with an option to write in place, because such a file never is;
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) with [`Overwrite::Never`];
    /// [`Changed`](crate::ErrorKind::Changed) (`modified`) with [`Overwrite::IfUnchanged`].
    pub fn atomic_file(&self, options: WriteOptions) -> Result<AtomicFile> {
        self.0.run(Name::preparing("write"), |path| AtomicFile::create(path, options))
    }
}

impl AtomicFile {
    /// Gives the file its name. If this fails, the old file remains and the new one is removed.
    /// There are two exceptions, which the error names: only syncing the directory failed, or an
    /// append-only directory keeps the temporary file, whose content is removed.
    ///
    /// # Errors
    ///
    /// - The errors of [`Roots::write`](crate::Roots::write).
    /// - [`Changed`](crate::ErrorKind::Changed) (`changed`) if another process created or removed
    ///   the file since writing began.
    /// - [`Changed`](crate::ErrorKind::Changed) (`modified`) if the file does not have the version
    ///   of [`Overwrite::IfUnchanged`].
    /// - [`AlreadyExists`](crate::ErrorKind::AlreadyExists) with [`Overwrite::Never`].
    /// - [`ROOTS_STALE`](crate::kinds::ROOTS_STALE) if the request to which the roots belong has
    ///   ended (feature `rmcp`).
    pub fn commit(mut self) -> Result<()> {
        self.commit_as_part()
    }

    /// Like [`commit`](Self::commit), for a file that a set holds.
    pub(super) fn commit_as_part(&mut self) -> Result<()> {
        let place = self.place.clone();
        place.run("write", |place| {
            place.roots().ensure_not_ended()?;
            self.put_in_place()
        })
    }

    pub(super) fn create(place: &Proof, options: WriteOptions) -> Result<Self> {
        options.validate_atomic()?;
        let file = Self::begin(place, place.destination(options)?, options, NEW_FILE)?;
        // Its content can take long to write, and other changes can be committed before it.
        #[cfg(unix)]
        if file.carry()? == Some(KeptPermissions::Nothing) {
            return Err(list_is_lost());
        }
        Ok(file)
    }

    /// Sets the permissions that the source has after its content was copied.
    #[cfg(unix)]
    pub(super) fn copied_from(&mut self, permissions: Permissions) -> Result<()> {
        // A process cannot read its umask without changing it (umask(2)), and the directory can have
        // a default access control list.
        let probe = Temporary::new(self.temporary.directory.clone(), 0o777)?;
        let new_mode = Permissions::of(&probe.file)?.mode;
        self.source = Some(CopySource { permissions, new_mode });
        Ok(())
    }

    /// Begins a file with this mode. A file that replaces another one is private until the commit.
    pub(super) fn begin(
        place: &Proof,
        to: Destination,
        options: WriteOptions,
        mode: u32,
    ) -> Result<Self> {
        let Destination { directory, name, old, created } = to;
        let mode = if old.is_some() { PRIVATE_FILE } else { mode };
        // This check comes last, so that a directory is refused with `IsADirectory`.
        place.ensure_not_root()?;
        place.ensure_not_file_root_alias(&directory, &name)?;
        let temporary = Temporary::new(directory, mode)?;
        let file = Self {
            place: place.clone(),
            name,
            options,
            old,
            #[cfg(unix)]
            source: None,
            temporary,
            created,
        };
        if let Some(condition) = file.condition() {
            condition.verify()?;
        }
        Ok(file)
    }

    /// Gives the new file the permissions of the old one, but not yet its mode. Returns `None` if
    /// there is no old file.
    #[cfg(unix)]
    fn carry(&self) -> Result<Option<KeptPermissions>> {
        let Some(old) = &self.old else { return Ok(None) };
        let Temporary { directory, file, .. } = &self.temporary;
        Ok(Some(permissions(directory, &self.name, old, &self.place)?.carry_to(file)?))
    }

    /// Whether the new file can have the owner, the group and the list of the old one.
    #[cfg(unix)]
    pub(super) fn can_keep_owner(&self) -> Result<bool> {
        Ok(!matches!(self.carry()?, Some(KeptPermissions::Mode(_) | KeptPermissions::Nothing)))
    }

    pub(super) fn write_content(&mut self, content: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.temporary.file.write_all(content.as_ref())?)
    }

    /// The file until the commit.
    pub(super) fn file(&self) -> &File {
        &self.temporary.file
    }

    /// Syncs the content and the created directories before the commit, which syncs again.
    pub(super) fn sync(&self) -> Result<()> {
        if self.options.durability != Durability::None {
            self.temporary.file.sync_all()?;
        }
        if self.options.durability == Durability::DataAndDirectory {
            self.created.sync()?;
        }
        Ok(())
    }

    /// Whether the file has its final name.
    pub(super) fn is_in_place(&self) -> bool {
        self.temporary.is_renamed
    }

    pub(super) fn place(&self) -> &Proof {
        &self.place
    }

    pub(super) fn location(&self) -> (&Handle, &OsStr) {
        (&self.temporary.directory, &self.name)
    }

    /// Gives the new file the permissions that the old one has now, or those of a copy. Returns the
    /// state of the old file.
    #[cfg(unix)]
    fn give_permissions(&self) -> Result<Option<Metadata>> {
        let (old, file) = (self.state_of_old()?, &self.temporary.file);
        let mode = match self.carry()? {
            Some(KeptPermissions::All(mode)) => Some(mode),
            Some(_) if self.options.in_place == super::options::InPlace::IfOwnerChanges => {
                return Err(Code::Changed.into());
            }
            Some(KeptPermissions::Mode(mode)) => Some(mode),
            Some(KeptPermissions::Nothing) => return Err(list_is_lost()),
            None => None,
        };
        if let Some(CopySource { permissions, new_mode }) = &self.source {
            let limit = permissions.limit_of_copy(&Permissions::of(file)?);
            // Defense: A copy grants no more than its source.
            set_mode(file, limit & mode.unwrap_or(*new_mode))?;
        } else if let Some(mode) = mode {
            set_mode(file, mode)?;
        }
        Ok(old)
    }

    /// The state of the old file now, if there was one.
    #[cfg(unix)]
    fn state_of_old(&self) -> Result<Option<Metadata>> {
        if self.old.is_none() {
            return Ok(None);
        }
        let (directory, name) = self.location();
        Ok(match directory.look_in(name, self.place.roots().policy().mounts)? {
            Stat::Other(metadata) => Some(metadata),
            Stat::Missing | Stat::Link(..) => None,
        })
    }

    pub(super) fn put_in_place(&mut self) -> Result<()> {
        #[cfg(unix)]
        let mut given = self.give_permissions()?;
        self.sync()?;
        let (place, name) = (self.place.clone(), self.name.clone());
        let directory = self.temporary.directory.clone();
        let condition = Condition::new(&place, (&directory, &name), self.options.version());
        place.ensure_not_file_root_alias(&directory, &name)?;
        // Not every filesystem can sync a directory, and Windows has no call for it.
        #[cfg(not(windows))]
        let to_sync = match self.options.durability {
            Durability::DataAndDirectory => directory.open_to_sync()?,
            Durability::None | Durability::Data => None,
        };
        let is_old = self.old.is_some();
        #[cfg(unix)]
        let is_same = |(one, other): (&Metadata, &Metadata)| one.is_same_state(other);
        let renamed = change_if(condition, || {
            // Syncing and comparing take time, in which the old file can become private.
            #[cfg(unix)]
            let now = self.state_of_old()?;
            #[cfg(unix)]
            if !given.as_ref().zip(now.as_ref()).map_or(given.is_none() && now.is_none(), is_same) {
                given = self.give_permissions()?;
                self.sync()?;
            }
            place.ensure_not_moved(&directory)?;
            self.temporary.rename(&name, is_old)
        });
        renamed.map_err(|error| match error.reason() {
            Code::AlreadyExists if !is_old && self.options.overwrite != Overwrite::Never => {
                Code::Changed.into()
            }
            _ => error,
        })?;
        self.created.keep();
        #[cfg(not(windows))]
        to_sync.map_or(Ok(()), |directory| sync_dir(&directory)).map_err(|error| {
            let outcome = "the file has its new content, which a power failure may undo";
            Error::from(error).with_outcome(outcome.to_owned())
        })?;
        Ok(())
    }

    fn condition(&self) -> Option<Condition<'_>> {
        Condition::new(&self.place, self.location(), self.options.version())
    }

    /// Fails if the file to be replaced, the directory or the temporary file is not what the commit
    /// expects.
    pub(super) fn verify(&self) -> Result<()> {
        if let Some(condition) = self.condition() {
            condition.verify()?;
        }
        let (directory, name) = self.location();
        let policy = self.place.roots().policy();
        match (directory.look_in(name, policy.mounts)?, self.old.is_some()) {
            (Stat::Missing, false) => {}
            (Stat::Other(metadata), true) => policy.allow(&metadata)?,
            (_, false) if self.options.overwrite == Overwrite::Never => {
                return Err(Code::AlreadyExists.into());
            }
            _ => return Err(Code::Changed.into()),
        }
        let Stat::Other(_) = directory.look_in(&self.temporary.name, policy.mounts)? else {
            return Err(Code::Changed.into());
        };
        #[cfg(unix)]
        if self.carry()? == Some(KeptPermissions::Nothing) {
            return Err(list_is_lost());
        }
        self.place.ensure_not_moved(directory)
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
            .field("place", &self.place)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Proof {
    /// Opens the directory of a file to be written, after creating its missing parents, and looks
    /// up the file.
    pub(super) fn destination(&self, options: WriteOptions) -> Result<Destination> {
        options.validate()?;
        self.ensure_writable()?;
        let ensure_may_be_file = || {
            self.ensure_names_file()?;
            self.ensure_may_appear()
        };
        let (handle, place) = self.place()?;
        let name = place.file_name().ok_or(Code::IsADirectory)?.to_owned();
        let mut created = NewDirectories::default();
        let policy = self.roots().policy();
        let directory = if options.create_parents {
            ensure_may_be_file()?;
            self.create_dirs(&handle, &place, 1, &mut created)?
        } else {
            let parent = place.parent().unwrap_or(&place);
            let parent = parent_at(&handle, parent, policy.mounts)?;
            ensure_may_be_file()?;
            parent
        };
        let old = match directory.look_in(&name, policy.mounts)? {
            Stat::Missing if options.version().is_some() => return Err(removed()),
            Stat::Missing => None,
            Stat::Link(..) | Stat::Other(_) if options.overwrite == Overwrite::Never => {
                return Err(Code::AlreadyExists.into());
            }
            Stat::Link(..) => return Err(Code::Changed.into()),
            Stat::Other(metadata) => {
                policy.allow(&metadata)?;
                Some(metadata)
            }
        };
        Ok(Destination { directory: Arc::new(directory), name, old, created })
    }

    /// Opens the directory that is `above` names above `place`, a path beneath `handle`, and creates
    /// the names in it that were missing, one at a time. `created` receives the directories that
    /// were created, also if an error follows.
    pub(super) fn create_dirs(
        &self,
        handle: &Handle,
        place: &Path,
        above: usize,
        created: &mut NewDirectories,
    ) -> Result<Handle> {
        // Another process can have removed a directory since the check.
        let is_removed = |error: Error| match error.reason() {
            Code::NotFound => Code::Changed.into(),
            _ => error,
        };
        let mut missing = match self.found() {
            Presence::Missing(missing) => missing.saturating_sub(above),
            Presence::Exists | Presence::Link => 0,
        };
        let mounts = self.roots().policy().mounts;
        let (present, mut directory) = loop {
            let present = place.ancestors().nth(above + missing).ok_or(Code::RootItself)?;
            match handle.dir(present, mounts) {
                Err(error)
                    if error.reason() == Code::NotFound && !present.as_os_str().is_empty() =>
                {
                    missing += 1;
                }
                opened => break (present, opened.map_err(is_removed)?),
            }
        };
        // A root's own names are never created.
        let canonical = self.canonical();
        let first = canonical.ancestors().nth((above + missing).saturating_sub(1));
        if missing > 0 && first.is_some_and(|first| self.holds_root(first)) {
            return Err(Code::RootItself.into());
        }
        let names = place.iter().skip(present.iter().count()).take(missing);
        for (name, missing) in names.zip((1..=missing).rev()) {
            self.ensure_ancestor_not_moved(&directory, above + missing)?;
            let is_new = match directory.create_dir(name) {
                // Another process has just created it. The next open fails if it is not a
                // directory.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                // The directory has been removed, although its name can still lead to it for a
                // moment. Only a proc filesystem has no new names.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    #[cfg(target_os = "linux")]
                    if is_proc(&directory)? {
                        return Err(error.into());
                    }
                    return Err(Code::Changed.into());
                }
                result => result.map(|()| true)?,
            };
            let opened = directory.dir(Path::new(name), mounts).and_then(|child| {
                let identity = is_new.then(|| child.identity()).transpose()?;
                Ok((child, identity))
            });
            if is_new && opened.is_err() {
                // For example, no descriptor is left. The caller reports this error.
                let _ = directory.remove_dir(name);
            }
            let (child, identity) = opened.map_err(is_removed)?;
            created.add(directory, name, identity);
            directory = child;
        }
        Ok(directory)
    }
}

/// Directories that were created for a file. They are removed on drop, deepest first, unless they
/// are kept. A directory that is not empty remains.
#[derive(Default)]
pub(super) struct NewDirectories {
    /// The directory in which the first one was created.
    base: Option<Handle>,
    /// The path of the last one beneath `base`.
    path: PathBuf,
    /// For each name in `path`, the identity of its directory, or `None` if another process created
    /// it.
    identities: Vec<Option<Identity>>,
}

impl NewDirectories {
    fn add(&mut self, parent: Handle, name: &OsStr, identity: Option<Identity>) {
        if self.base.is_none() && identity.is_none() {
            return;
        }
        self.base.get_or_insert(parent);
        self.path.push(name);
        self.identities.push(identity);
    }

    /// Keeps the directories.
    pub(super) fn keep(&mut self) {
        self.base = None;
    }

    /// Syncs the directories that contain the created ones, as far as the filesystem supports that.
    /// Windows has no call for it.
    #[cfg_attr(windows, allow(clippy::unused_self, clippy::unnecessary_wraps))]
    pub(super) fn sync(&self) -> Result<()> {
        #[cfg(not(windows))]
        for parent in self.path.ancestors().skip(1) {
            let Some(base) = &self.base else { break };
            let opened = base.dir(parent, Rule::Allow).and_then(|it| Ok(it.open_to_sync()?));
            match opened {
                // Another process has moved or removed it.
                Err(error) if is_replaced(error.reason()) => {}
                opened => opened?.map_or(Ok(()), |directory| sync_dir(&directory))?,
            }
        }
        Ok(())
    }
}

impl Drop for NewDirectories {
    fn drop(&mut self) {
        let Some(base) = self.base.take() else { return };
        let levels = self.path.ancestors().zip(self.identities.iter().rev());
        for (path, identity) in levels {
            let Some((parent, name)) = split(path).filter(|_| identity.is_some()) else { continue };
            let found = |path| base.dir(path, Rule::Allow).ok();
            // Another directory can be at this path now.
            let is_same = found(path).and_then(|found| found.identity().ok()) == *identity;
            if let Some(parent) = found(parent).filter(|_| is_same) {
                // The caller reports why the write failed, so an error here is ignored.
                let _ = parent.remove_dir(name);
            }
        }
    }
}

/// Syncs an open directory, if its filesystem supports that (EINVAL, fsync(2)).
#[cfg(not(windows))]
fn sync_dir(directory: &File) -> io::Result<()> {
    match directory.sync_all() {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// A temporary file that is being written. It is removed on drop unless it was renamed.
struct Temporary {
    directory: Arc<Handle>,
    name: OsString,
    file: File,
    is_renamed: bool,
}

impl Temporary {
    fn new(directory: Arc<Handle>, mode: u32) -> Result<Self> {
        let want = OpenHow { create_new: Some(mode), ..WRITE };
        for _ in 0..NAMES_TRIED {
            let name = temporary_name();
            match directory.open(Path::new(&name), want, Rule::Allow) {
                Err(error) if error.reason() == Code::AlreadyExists => {}
                file => return Ok(Self { directory, name, file: file?, is_renamed: false }),
            }
        }
        Err(Code::AlreadyExists.into())
    }

    /// Renames the file to its final name. If no old file was expected and one exists now, this
    /// fails, because the permissions of that file are not known.
    fn rename(&mut self, name: &OsStr, is_old: bool) -> Result<()> {
        let renamed = self.directory.rename(&self.name, &self.directory, name, is_old);
        self.is_renamed = renamed.is_ok();
        renamed.map_err(|error| match Error::from(error) {
            error if error.reason() == Code::PermissionDenied && self.remove().is_err() => {
                let outcome = format!("the temporary file {} remains", quoted(&self.name));
                error.with_outcome(outcome)
            }
            error => error,
        })
    }

    /// Removes the file. In an append-only directory, no name can be removed (ioctl_iflags(2)), so
    /// only the content is.
    fn remove(&self) -> io::Result<()> {
        let removed = self.directory.remove_file(&self.name);
        match &removed {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.file.set_len(0)?;
            }
            _ => {}
        }
        removed
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            // The caller reports why the write failed, so an error here is ignored.
            let _ = self.remove();
        }
    }
}

/// Reads the permissions of the file to be replaced. The file is opened for this, unless it is a
/// special file. If it cannot be opened, its list is not known, so it cannot be kept.
#[cfg(unix)]
fn permissions(
    directory: &Handle,
    name: &OsStr,
    old: &Metadata,
    place: &Proof,
) -> Result<Permissions> {
    if !old.is_file() {
        return Ok(Permissions::private(old.mode().unwrap_or_default()));
    }
    let policy = place.roots().policy();
    let open = |want| directory.open(Path::new(name), want, policy.mounts);
    let file = match open(OpenHow::READ) {
        Err(error) if error.reason() == Code::PermissionDenied => open(WRITE),
        file => file,
    };
    let file = file.map_err(|error| match error.reason() {
        // The file existed when it was looked up.
        Code::NotFound => Code::Changed.into(),
        Code::PermissionDenied => error.with_text(
            "the file's permissions cannot be kept, because this process may neither read nor \
             write it; write to another file",
        ),
        _ => error,
    })?;
    verify(&file, policy, place.root())?;
    Ok(Permissions::of(&file)?)
}

#[cfg(unix)]
fn list_is_lost() -> Error {
    Error::from(Code::PermissionDenied).with_text(
        "the file's access control list cannot be kept on the new file; write in place, or to \
         another file",
    )
}

pub(super) const WRITE: OpenHow =
    OpenHow { read: false, write: true, append: false, create_new: None };

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that fails at any point leaves the old file and no other file.
    #[test]
    fn a_failed_write_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("taken")).unwrap();
        std::fs::write(directory.path().join("old"), "old").unwrap();
        let handle = Arc::new(Handle::ambient(directory.path()).unwrap());
        let temporary = || Temporary::new(handle.clone(), NEW_FILE).unwrap();
        let names = || {
            let entries = std::fs::read_dir(directory.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name());
            entries.collect::<std::collections::BTreeSet<_>>().len()
        };
        // Writing or syncing failed.
        let mut new = temporary();
        new.file.write_all(b"half").unwrap();
        assert_eq!(names(), 3);
        // The name of a temporary file cannot be predicted.
        assert_ne!(temporary().name, new.name);
        drop(new);
        assert_eq!(names(), 2);
        // The destination has become a directory.
        let mut new = temporary();
        assert_eq!(new.rename(OsStr::new("taken"), true).unwrap_err().reason(), Code::IsADirectory);
        drop(new);
        assert_eq!(names(), 2);
        // Another process created the destination, so its permissions are not known.
        let mut new = temporary();
        assert_eq!(new.rename(OsStr::new("old"), false).unwrap_err().reason(), Code::AlreadyExists);
        drop(new);
        assert_eq!(names(), 2);
        assert_eq!(std::fs::read(directory.path().join("old")).unwrap(), b"old");
    }
}
