//! Copying directory trees.
//!
//! A tree is copied into a temporary directory with the same parent as the destination. That
//! directory receives the destination's name in the last step, so the destination exists completely
//! or not at all. On any error, the temporary directory is removed.
//!
//! The source is traversed beneath its open directory and the copy is created beneath the temporary
//! directory's handle. Each directory is opened along a path on which no symlink is followed, and
//! only a few are open at once, however deep the tree is. Every file is verified after it is opened
//! and before it is read.
//!
//! | entry of the source | result |
//! | --- | --- |
//! | regular file | its content is copied; each hard link becomes a file of its own |
//! | directory | copied with its content; a mounted filesystem is entered unless the policy refuses it |
//! | symlink that leads inside from its place in the copy | created with the same text, after all files and directories |
//! | symlink that leads elsewhere, or cannot be resolved | refused |
//! | FIFO, socket or device | skipped, without opening it |
//! | hidden name | omitted, as in a listing |
//! | name that is read-only or hidden at the destination | refused |
//! | file or directory that this process cannot read, or whose kind the policy refuses | refused |
//! | directory below [`WALK_DEPTH`], or a path that is too long | refused |
//! | entry that is removed or replaced during the copy | copied as it is found, or omitted if nothing is there |
//! | file that grows during the copy | copied to its end, if the limit allows |
//! | name that exists in the copy already, because the destination treats two names as one | the copy fails |
//! | the directory that the copy is made in, reached through a bind mount | the copy fails |
//!
//! [`Refused`] determines whether the copy fails at a refused entry or skips it. Every skipped
//! entry is counted and reported.
//!
//! Until the copy is complete, only the owner can use the temporary directory, so nobody else can
//! reach the entries in it. The modes of directories are set last. A directory that its owner may
//! not write to or search receives its final mode after the rename, so a failed copy can always be
//! removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::copy_content;
use super::options::{CopyOptions, CopyProgress, CopyReport, Refused, SkippedEntry};
use super::temporary::{TemporaryTree, create_private_dir};
use crate::check::CheckedPath;
use crate::dir::{Budget, Handle, Identity, Look, Metadata, Rule, Want};
use crate::error::{Code, Error, Result};
#[cfg(unix)]
use crate::fs::atomic::set_mode;
use crate::fs::atomic::{Created, PRIVATE_FILE, WRITE};
use crate::fs::links::Target;
use crate::fs::list::is_replaced;
use crate::fs::open::verify;
use crate::fs::options::Durability;
#[cfg(unix)]
use crate::fs::permissions::{NewFileMode, Permissions};
use crate::limits::{ALLOCATION, COPY_HELD_BYTES, COPY_LOOKUPS, COPY_SKIPPED, WALK_DEPTH};
use crate::path::{Location, Protection};
use crate::roots::{Intent, Roots, retry_changed};

impl Roots {
    /// Copies a directory and everything in it to a new directory, within a root or from one root
    /// to another.
    ///
    /// The tree is copied into a temporary directory with the same parent, which is renamed at the
    /// end. The destination therefore exists completely or not at all. If the copy fails or is
    /// cancelled, nothing is left. The source is not locked: a change by another process during the
    /// copy can be contained in the copy or not.
    ///
    /// - Regular files are copied with their content. Hard links become separate files.
    /// - A symlink is created with the same text, if it leads inside from its place in the copy. A
    ///   symlink with an absolute target in the source still leads to the source.
    /// - FIFOs, sockets and devices are skipped.
    /// - Hidden names ([`Protection::Hidden`]) are omitted.
    /// - Filesystems that are mounted in the source are copied unless the policy refuses mounts.
    ///
    /// A symlink that leads outside, a file or directory that cannot be read or that the policy
    /// refuses, and a name that is protected at the destination are refused. [`Refused`] in the
    /// options determines whether the copy then fails or skips the entry.
    ///
    /// Files and directories of the copy belong to this process. They get the permission bits of
    /// the source minus the umask, without set-user-ID and set-group-ID, and never a bit that would
    /// let anybody else use what the source denies: where owner, group or access control list
    /// differ, the group and others keep only the bits that every affected user had. Access control
    /// lists, extended attributes and times are not copied. On Windows, the copy inherits the
    /// access control list of its directory.
    ///
    /// `progress` is called for each entry, and at least once for each MiB that is copied. It can
    /// end the copy by returning [`ControlFlow::Break`].
    ///
    /// If the process is killed during a copy, the temporary directory remains, and can be removed
    /// as described at [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// - The errors of [`Roots::check`] for both paths, and of a refused entry. The text names the
    ///   path.
    /// - [`NotADirectory`](crate::ErrorKind::NotADirectory) if the source is not a directory.
    /// - [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if the destination exists, and if the
    ///   destination treats two names of the source as one.
    /// - [`ReadOnly`](crate::ErrorKind::ReadOnly) and [`RootItself`](crate::ErrorKind::RootItself)
    ///   for the destination.
    /// - [`Overlap`](crate::ErrorKind::Overlap) (`into_itself`) if the destination is in the
    ///   source.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_entries`, `too_large`) for a
    ///   limit of the options, or if the names of directories and symlinks take too much memory;
    ///   `too_deep` for a directory more than [`WALK_DEPTH`] deep.
    /// - [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`) if resolving all the symlinks
    ///   takes more than two million look-ups.
    /// - [`Cancelled`](crate::ErrorKind::Cancelled) if `progress` ended the copy.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// use mcp_roots_guard::{CopyOptions, Refused, Roots};
    ///
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// roots.create_dir_all("template/src")?;
    /// roots.write("template/src/main.rs", "fn main() {}")?;
    /// let options = CopyOptions::new().max_entries(10_000).refused(Refused::Skip);
    /// let report =
    ///     roots.copy_tree("template", "project", options, |_| ControlFlow::Continue(()))?;
    /// assert_eq!((report.files(), report.directories(), report.skipped_count()), (1, 2, 0));
    /// assert_eq!(roots.read("project/src/main.rs", 99)?, b"fn main() {}");
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn copy_tree<F, T>(
        &self,
        from: F,
        to: T,
        options: CopyOptions,
        mut progress: impl FnMut(&CopyProgress) -> ControlFlow<()>,
    ) -> Result<CopyReport>
    where
        F: TryInto<Location>,
        T: TryInto<Location>,
        Error: From<F::Error> + From<T::Error>,
    {
        let (from, to) = (self.location(from)?, self.location(to)?);
        let intent = if options.create_parents { Intent::NewTree } else { Intent::New };
        let prepared = self.run_explained(&from, |budget| {
            let source = self.decide(&from, Intent::Existing, budget)?;
            let destination = self
                .run_explained(&to, |_| self.decide(&to, intent, budget))
                .map_err(Error::of_destination)?;
            let prepared = source.prepare_copy_tree(&destination)?;
            Ok((source, destination, prepared))
        });
        let copied = prepared.and_then(|(source, destination, prepared)| {
            source.copy_prepared(&destination, prepared, options, &mut progress)
        });
        copied.map_err(|error| self.log_refusal(error.between("copy", from.sent(), to.sent())))
    }
}

impl CheckedPath {
    /// Copies a directory to another checked path, which must have been checked for
    /// [`Intent::New`] or [`Intent::NewTree`].
    ///
    /// # Errors
    ///
    /// Same as [`Roots::copy_tree`].
    pub fn copy_tree(
        &self,
        to: &CheckedPath,
        options: CopyOptions,
        mut progress: impl FnMut(&CopyProgress) -> ControlFlow<()>,
    ) -> Result<CopyReport> {
        let copied = retry_changed(|| self.prepare_copy_tree(to))
            .and_then(|prepared| self.copy_prepared(to, prepared, options, &mut progress));
        let named =
            |error: Error| error.between("copy", self.request().sent(), to.request().sent());
        copied.map_err(|error| self.roots().log_refusal(named(error)))
    }

    /// Opens the source and creates the temporary directory.
    fn prepare_copy_tree(&self, to: &CheckedPath) -> Result<Prepared> {
        let of_destination = Error::of_destination;
        to.ensure_writable().map_err(of_destination)?;
        let source = self.operate(|| self.directory())?;
        let (created, name, parent) = to.operate(|| to.open_new_place()).map_err(of_destination)?;
        if to.canonical().starts_with(self.canonical())
            || parent.identity()? == source.identity()?
        {
            return Err(Code::IntoItself.into());
        }
        to.ensure_not_moved(&parent).map_err(of_destination)?;
        let temporary = TemporaryTree::new(created, name, parent).map_err(of_destination)?;
        Ok(Prepared { source, temporary })
    }

    /// Opens the directory of a name that does not exist, after creating its missing parents. If
    /// variables receive the results in this order, the directory is closed before the parents are
    /// removed. Windows does not remove an open directory.
    fn open_new_place(&self) -> Result<(Created, OsString, Handle)> {
        let (handle, place) = self.place()?;
        let name = place.file_name().ok_or(Code::RootItself)?.to_owned();
        let mut created = Created::default();
        let parent = self.create_dirs(&handle, &place, 1, &mut created)?;
        match parent.look_in(&name, self.roots().policy().mounts)? {
            Look::Missing => {}
            Look::Link(..) | Look::Other(_) => return Err(Code::AlreadyExists.into()),
        }
        self.ensure_not_root()?;
        Ok((created, name, parent))
    }

    /// Copies the source that was opened to the destination.
    fn copy_prepared(
        &self,
        to: &CheckedPath,
        prepared: Prepared,
        options: CopyOptions,
        progress: &mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
    ) -> Result<CopyReport> {
        let Prepared { source, temporary } = prepared;
        let copy = TreeCopy {
            from: self,
            to,
            source,
            avoided: [temporary.parent.identity()?, temporary.identity],
            #[cfg(unix)]
            new_mode: NewFileMode::in_directory(&temporary.parent)
                .map_err(Error::of_destination)?,
            temporary,
            options,
            callback: progress,
            progress: CopyProgress::default(),
            report: CopyReport::default(),
            levels: Vec::new(),
            symlinks: Vec::new(),
            made: Vec::new(),
            held_bytes: 0,
            lookups: 0,
        };
        copy.run().map_err(|error| match self.operate(|| to.operate(|| Err::<(), _>(error))) {
            Err(error) => error,
            Ok(()) => Code::Io.into(),
        })
    }
}

/// A copy that can begin.
struct Prepared {
    source: Handle,
    temporary: TemporaryTree,
}

/// A copy in progress.
struct TreeCopy<'a> {
    from: &'a CheckedPath,
    to: &'a CheckedPath,
    source: Handle,
    temporary: TemporaryTree,
    /// The directories that the source must not contain: the parent of the destination, and the
    /// temporary directory.
    avoided: [Identity; 2],
    #[cfg(unix)]
    new_mode: NewFileMode,
    options: CopyOptions,
    callback: &'a mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
    progress: CopyProgress,
    report: CopyReport,
    /// For each directory that the copy is in, the directories in it that are not copied yet.
    levels: Vec<Vec<OsString>>,
    symlinks: Vec<PendingSymlink>,
    /// The directories that were created, each after its parent.
    made: Vec<MadeDirectory>,
    /// The bytes that the three lists above use.
    held_bytes: usize,
    /// The look-ups that the symlinks have taken.
    lookups: usize,
}

/// A symlink to be created in the copy.
struct PendingSymlink {
    /// The path relative to the source.
    path: PathBuf,
    text: OsString,
    is_created: bool,
}

/// A directory that was created in the copy.
struct MadeDirectory {
    path: PathBuf,
    identity: Identity,
    /// The mode that the directory will have.
    #[cfg(unix)]
    mode: u32,
}

/// An entry of the source, as it is found when it is copied.
enum Entry {
    Missing,
    File(File, Metadata),
    Directory,
    Symlink(OsString),
    Special,
}

impl TreeCopy<'_> {
    fn run(mut self) -> Result<CopyReport> {
        let mut path = PathBuf::new();
        self.enter(&path)?;
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.pop() else {
                self.levels.pop();
                path.pop();
                continue;
            };
            self.held_bytes = self.held_bytes.saturating_sub(held_by(&name));
            path.push(name);
            if !self.enter(&path)? {
                path.pop();
            }
        }
        self.create_symlinks()?;
        self.finish()
    }

    /// Copies a directory without the directories in it. Returns false if it was skipped.
    fn enter(&mut self, path: &Path) -> Result<bool> {
        let open = || -> Result<_> {
            if self.levels.len() >= WALK_DEPTH {
                return Err(Code::TooDeep.into());
            }
            let (directory, entries) = self.source.list(path, self.mounts())?;
            let identity = directory.identity()?;
            #[cfg(unix)]
            let permissions = directory.with_file(Permissions::of)?;
            #[cfg(not(unix))]
            let permissions = ();
            Ok((directory, entries, identity, permissions))
        };
        let (directory, entries, identity, permissions) = match open() {
            // Another process removed or replaced the directory after it was listed.
            Err(error) if !self.levels.is_empty() && is_replaced(error.reason()) => {
                return Ok(false);
            }
            Err(error) => return self.refuse(path, error).map(|()| false),
            Ok(opened) => opened,
        };
        if self.avoided.contains(&identity) {
            return Err(Code::IntoItself.into());
        }
        let copy = self
            .make_directory(path, &permissions)
            .map_err(|error| error.of_destination().at("copy", &self.request(path)))?;
        let place = self.from.protected().below(path);
        let copy_place = self.to.protected().below(path);
        self.levels.push(Vec::new());
        for entry in entries {
            let name = entry?.name;
            if place.hides(&name) {
                continue;
            }
            let path = path.join(&name);
            self.begin_entry(&path)?;
            let refused = match copy_place.protection_of(&name) {
                None => None,
                Some(Protection::ReadOnly) => Some(Code::Protected),
                Some(Protection::Hidden) => Some(Code::OutsideRoots),
            };
            if let Some(code) = refused {
                self.refuse(&path, Error::from(code).of_destination())?;
                continue;
            }
            self.copy_entry(&directory, &copy, &name, &path)?;
        }
        Ok(true)
    }

    fn copy_entry(
        &mut self,
        directory: &Handle,
        copy: &Handle,
        name: &OsStr,
        path: &Path,
    ) -> Result<()> {
        match retry_changed(|| self.examine(directory, name)) {
            Err(error) => self.refuse(path, error),
            Ok(Entry::Missing) => Ok(()),
            Ok(Entry::File(file, metadata)) => {
                let left = self.options.max_bytes.saturating_sub(self.report.bytes);
                if metadata.size() > left {
                    return Err(self.too_many_bytes());
                }
                self.copy_file(&file, copy, name, left).map_err(|error| match error.reason() {
                    // These concern the copy as a whole.
                    Code::Cancelled | Code::RootsStale | Code::TooLarge => error,
                    _ => error.at("copy", &self.request(path)),
                })
            }
            Ok(Entry::Directory) => {
                self.hold(held_by(name))?;
                if let Some(level) = self.levels.last_mut() {
                    level.push(name.to_owned());
                }
                Ok(())
            }
            Ok(Entry::Symlink(text)) => {
                let size = size_of::<PendingSymlink>() + 2 * ALLOCATION;
                self.hold(size + path.as_os_str().len() + text.len())?;
                self.symlinks.push(PendingSymlink {
                    path: path.to_owned(),
                    text,
                    is_created: false,
                });
                Ok(())
            }
            Ok(Entry::Special) => {
                self.skip(path, Code::SpecialFile.into());
                Ok(())
            }
        }
    }

    /// Looks up an entry of the source, and opens it if it is a regular file. Nothing else is
    /// opened, so a FIFO or a device is not disturbed.
    fn examine(&self, directory: &Handle, name: &OsStr) -> Result<Entry> {
        let (policy, mounts) = (self.from.roots().policy(), self.mounts());
        match directory.look_in(name, mounts)? {
            Look::Missing => Ok(Entry::Missing),
            Look::Link(text, _) => Ok(Entry::Symlink(text)),
            Look::Other(metadata) if metadata.is_dir() => Ok(Entry::Directory),
            Look::Other(metadata) if !metadata.is_file() => Ok(Entry::Special),
            Look::Other(_) => {
                let opened = directory.open(Path::new(name), Want::READ, mounts);
                let verified = opened.and_then(|file| Ok((verify(&file, policy)?, file)));
                match verified {
                    Ok((metadata, file)) if metadata.is_file() => Ok(Entry::File(file, metadata)),
                    Ok(_) => Ok(Entry::Special),
                    Err(error) => match error.reason() {
                        Code::NotFound => Ok(Entry::Missing),
                        Code::SpecialFile => Ok(Entry::Special),
                        Code::IsADirectory => Err(Code::Changed.into()),
                        _ => Err(error),
                    },
                }
            }
        }
    }

    fn copy_file(&mut self, file: &File, copy: &Handle, name: &OsStr, left: u64) -> Result<()> {
        let want = Want { create_new: Some(PRIVATE_FILE), ..WRITE };
        let new = copy.open(Path::new(name), want, Rule::Refuse).map_err(Error::of_destination)?;
        let before = self.report.bytes;
        let copied = copy_content(file, &new, left, |bytes| {
            self.progress.bytes = before + bytes;
            self.report_progress()
        });
        self.report.bytes += copied.map_err(|error| match error.reason() {
            Code::TooLarge => self.too_many_bytes(),
            _ => error,
        })?;
        #[cfg(unix)]
        set_mode(&new, Permissions::of(file)?.mode_of_copied_file(&new, self.new_mode)?)?;
        if self.options.durability != Durability::None {
            new.sync_all()?;
        }
        self.report.files += 1;
        Ok(())
    }

    /// Creates a directory of the copy, which only its owner can use for now.
    #[cfg_attr(windows, allow(clippy::trivially_copy_pass_by_ref))]
    fn make_directory(&mut self, path: &Path, source: &SourcePermissions) -> Result<Handle> {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
            let parent = self.temporary.directory(parent)?;
            create_private_dir(&parent, name)?;
        }
        let directory = self.temporary.directory(path)?;
        let identity = directory.identity()?;
        #[cfg(unix)]
        let mode = source.mode_of_copied_directory(
            &directory.open_dir(Path::new(""), Rule::Refuse)?,
            self.new_mode,
        )?;
        #[cfg(not(unix))]
        let () = source;
        self.hold(size_of::<MadeDirectory>() + path.as_os_str().len() + ALLOCATION)?;
        self.made.push(MadeDirectory {
            path: path.to_owned(),
            identity,
            #[cfg(unix)]
            mode,
        });
        self.report.directories += 1;
        Ok(directory)
    }

    /// Creates the symlinks. All files and directories exist now, so each symlink resolves as it
    /// will at the destination.
    fn create_symlinks(&mut self) -> Result<()> {
        let mut symlinks = std::mem::take(&mut self.symlinks);
        // A symlink can lead through another one that is created later. The rounds end when one of
        // them creates no symlink.
        let mut is_last = false;
        loop {
            let before = self.report.symlinks;
            for link in symlinks.iter_mut().filter(|link| !link.is_created) {
                self.begin_symlink(&link.path)?;
                match self.resolve(link) {
                    Ok(target) => {
                        let create = |directory: &Handle, name: &OsStr| {
                            Ok(directory.symlink(&target.text, name, target.is_dir)?)
                        };
                        self.in_copy(&link.path, create)?;
                        link.is_created = true;
                        self.report.symlinks += 1;
                    }
                    Err(error) if is_last => self.refuse(&link.path, error.of_target())?,
                    Err(_) => {}
                }
            }
            if is_last {
                break;
            }
            is_last = self.report.symlinks == before;
        }
        // A symlink can also lead elsewhere because of those that were created after it.
        for link in symlinks.iter().filter(|link| link.is_created) {
            self.begin_symlink(&link.path)?;
            if let Err(error) = self.resolve(link) {
                self.refuse(&link.path, error.of_target())?;
                self.in_copy(&link.path, |directory, name| Ok(directory.remove_file(name)?))?;
                self.report.symlinks -= 1;
            }
        }
        Ok(())
    }

    fn begin_symlink(&mut self, path: &Path) -> Result<()> {
        if self.lookups > COPY_LOOKUPS {
            let text = "the symlinks take more than {} look-ups to resolve";
            return Err(Error::over(Code::TooCostly, text, COPY_LOOKUPS));
        }
        self.progress.current.clear();
        self.progress.current.push(path);
        self.report_progress()
    }

    /// Resolves the target of a symlink of the copy, and fails if it is outside.
    fn resolve<'a>(&mut self, link: &'a PendingSymlink) -> Result<Target<'a>> {
        let to = self.to;
        let parent = to.relative().parent().unwrap_or(Path::new(""));
        let temporary = parent.join(&self.temporary.name);
        let place = temporary.join(&link.path);
        let mut budget = Budget::new();
        let resolve = || to.resolve_symlink(&place, &link.text, Some(&temporary), &mut budget);
        let resolved = retry_changed(resolve);
        self.lookups += budget.spent();
        resolved
    }

    /// Changes a name in the copy.
    fn in_copy(
        &self,
        path: &Path,
        change: impl FnOnce(&Handle, &OsStr) -> Result<()>,
    ) -> Result<()> {
        let change = || {
            let name = path.file_name().ok_or(Code::Changed)?;
            change(&self.temporary.directory(path.parent().unwrap_or(Path::new("")))?, name)
        };
        change().map_err(|error| error.of_destination().at("copy", &self.request(path)))
    }

    /// Sets the modes of the directories, and renames the copy.
    fn finish(mut self) -> Result<CopyReport> {
        let made = std::mem::take(&mut self.made);
        for made in made.iter().rev() {
            self.to.roots().ensure_active()?;
            self.finish_directory(made, true).map_err(Error::of_destination)?;
        }
        self.report_progress()?;
        if self.options.durability == Durability::DataAndDirectory {
            self.temporary.created.sync();
        }
        self.temporary.rename(self.to).map_err(Error::of_destination)?;
        // The copy has already succeeded, and the owner can change the mode anyway.
        for made in made.iter().rev() {
            let _ = self.finish_directory(made, false);
        }
        #[cfg(not(windows))]
        if self.options.durability == Durability::DataAndDirectory {
            let _ = self.temporary.parent.sync();
        }
        Ok(self.report)
    }

    /// Sets the mode of a directory. Until the copy has its name, the owner keeps full access.
    #[cfg(unix)]
    fn finish_directory(&self, made: &MadeDirectory, is_private: bool) -> Result<()> {
        let needs_later = made.mode & OWNER != OWNER;
        if !is_private && !needs_later {
            return Ok(());
        }
        let file = self.temporary.directory(&made.path)?.open_dir(Path::new(""), Rule::Refuse)?;
        if Metadata::without_birth(&file)?.identity() != made.identity {
            return Err(Code::Changed.into());
        }
        set_mode(&file, if is_private { made.mode | OWNER } else { made.mode })?;
        if is_private && self.options.durability == Durability::DataAndDirectory {
            file.sync_all()?;
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn finish_directory(&self, made: &MadeDirectory, is_private: bool) -> Result<()> {
        if is_private && self.temporary.directory(&made.path)?.identity()? != made.identity {
            return Err(Code::Changed.into());
        }
        Ok(())
    }

    /// Counts an entry, and reports the progress.
    fn begin_entry(&mut self, path: &Path) -> Result<()> {
        if self.progress.entries >= self.options.max_entries {
            let limit = self.options.max_entries;
            return Err(Error::over(Code::TooManyEntries, "more than {} entries", limit));
        }
        self.progress.entries += 1;
        self.progress.current.clear();
        self.progress.current.push(path);
        self.report_progress()
    }

    fn report_progress(&mut self) -> Result<()> {
        self.from.roots().ensure_active()?;
        self.to.roots().ensure_active()?;
        match (self.callback)(&self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                Err(Error::new(Code::Cancelled).says("the copy was cancelled"))
            }
        }
    }

    /// Skips an entry that is refused, or fails.
    fn refuse(&mut self, path: &Path, error: Error) -> Result<()> {
        if self.options.refused == Refused::Skip
            && !path.as_os_str().is_empty()
            && is_refusal(error.reason())
        {
            self.skip(path, error);
            return Ok(());
        }
        Err(error.at("copy", &self.request(path)))
    }

    fn skip(&mut self, path: &Path, error: Error) {
        self.report.skipped_count += 1;
        if self.report.skipped.len() < COPY_SKIPPED {
            let error = error.at("copy", &self.request(path));
            self.report.skipped.push(SkippedEntry { path: path.to_owned(), error });
        }
    }

    /// Counts memory for the entries that are not finished yet.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        if self.held_bytes > COPY_HELD_BYTES {
            return Err(Code::TooManyEntries.into());
        }
        Ok(())
    }

    fn too_many_bytes(&self) -> Error {
        Error::over(Code::TooLarge, "larger than {} bytes", self.options.max_bytes)
    }

    /// The request for the source, with the path of an entry.
    fn request(&self, path: &Path) -> OsString {
        Path::new(self.from.request().sent()).join(path).into_os_string()
    }

    fn mounts(&self) -> Rule {
        self.from.roots().policy().mounts
    }
}

/// The bytes that the name of a directory uses until the directory is copied.
fn held_by(name: &OsStr) -> usize {
    size_of::<OsString>() + name.len() + ALLOCATION
}

/// Whether an error concerns only one entry of the source, so that the entry can be skipped.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::PermissionDenied
            | Code::Protected
            | Code::OutsideRoots
            | Code::HardLinked
            | Code::MountCrossing
            | Code::TooDeep
            | Code::TooLong
            | Code::TooManyLinks
            | Code::TooCostly
            | Code::NotADirectory
            | Code::NotFound
            | Code::Empty
            | Code::Nul
    )
}

#[cfg(unix)]
type SourcePermissions = Permissions;
#[cfg(not(unix))]
type SourcePermissions = ();

/// The owner's permission bits.
#[cfg(unix)]
const OWNER: u32 = 0o700;
