//! One root: a directory or a single file, held open, and its names.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::dir::{Access, Budget, Handle, Identity, Rule};
use crate::error::{Code, Error, Result};
use crate::path::names::is_same;
use crate::roots::lookup::RequestLookups;
use crate::roots::{Intent, Lookups, Opened, Place, Roots, Throttle, resolve};

/// One entry of a root list, resolved: a directory, or a single file.
pub struct Root {
    pub(crate) canonical: PathBuf,
    pub(crate) aliases: Vec<PathBuf>,
    pub(crate) name: Option<String>,
    pub(crate) access: Access,
    /// A file root is its parent's handle and this name.
    pub(crate) leaf: Option<OsString>,
    pub(crate) held: Held,
    /// Of the directory that is held, as of when it was resolved; and when that was created.
    pub(crate) identity: Identity,
    pub(crate) birth: Option<SystemTime>,
    pub(crate) is_gone: AtomicBool,
    /// Its snapshot's.
    pub(crate) outdated: Arc<AtomicBool>,
    pub(crate) aliases_verified: Throttle,
}

/// How a root's directory is reached.
pub(crate) enum Held {
    /// The filesystem root.
    FilesystemRoot(Arc<Handle>),
    /// Held open, for all roots that are this directory.
    Open(Arc<Opened>, Roots),
    /// Opened when it is used, and then verified to be the one that was resolved.
    OnUse(Roots),
}

impl Root {
    /// The canonical path, as the names stood when it was resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.canonical
    }

    /// The paths by which requests may name it: canonical, and as given where that differs and has no `..`.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.canonical.as_path()).chain(self.aliases.iter().map(PathBuf::as_path))
    }

    /// The canonical path as text for people and models to read, as a list of the allowed directories
    /// has it. Not for opening: names that are not UTF-8 have replacement characters in it.
    #[must_use]
    pub fn display_path(&self) -> String {
        display_path(&self.canonical)
    }

    /// The canonical path as a `file:` URI, by which a client may name it in a later request.
    #[must_use]
    pub fn uri(&self) -> String {
        file_uri(&self.canonical)
    }

    /// The name that the root list gave it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What may be done beneath it.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether it is a single file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.leaf.is_some()
    }

    /// Whether its names still led to it when that was last verified.
    #[must_use]
    pub fn is_available(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }

    /// Whether it holds `/proc`, or lies in it.
    #[cfg(target_os = "linux")]
    pub(crate) fn overlaps_proc(&self) -> bool {
        match self.canonical.as_os_str().as_encoded_bytes() {
            b"/" | b"/proc" => true,
            path => path.starts_with(b"/proc/"),
        }
    }

    pub(crate) fn is_filesystem_root(&self) -> bool {
        matches!(self.held, Held::FilesystemRoot(_))
    }

    /// The directory: the root's own, or a file root's parent.
    pub(crate) fn handle(&self) -> Result<Arc<Handle>> {
        match &self.held {
            _ if !self.is_available() => Err(Code::RootUnavailable.into()),
            Held::FilesystemRoot(handle) => Ok(handle.clone()),
            Held::Open(opened, _) => Ok(opened.handle().clone()),
            Held::OnUse(_) => Ok(Arc::new(self.record_if_gone(self.open_by_path())?)),
        }
    }

    /// Where a path relative to the root lies beneath [`Root::handle`].
    pub(crate) fn beneath_handle(&self, path: &Path) -> PathBuf {
        match &self.leaf {
            Some(leaf) => PathBuf::from(leaf),
            None => path.to_owned(),
        }
    }

    /// Verifies that the path still leads to the object, and remembers when it does not. If that cannot
    /// be asked now, for want of descriptors for example, nothing changes.
    ///
    /// The aliases are verified at most every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY): each is
    /// resolved again, and a client's can be long.
    pub(crate) fn verify(&self) -> bool {
        self.verify_names(self.aliases_verified.take())
    }

    /// As [`verify`](Self::verify), with the aliases in any case.
    pub(crate) fn verify_all(&self) -> bool {
        self.verify_names(true)
    }

    fn verify_names(&self, with_aliases: bool) -> bool {
        if self.is_available() {
            let _ = self.record_if_gone(self.check_names(with_aliases));
        }
        if with_aliases {
            self.aliases_verified.done();
        }
        self.is_available()
    }

    /// Whether both are the same directory object. A number can have been reused unless both directories
    /// are held open, so the time of birth is compared as well where one is not.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        let both_held = self.is_held() && other.is_held();
        self.identity == other.identity && (both_held || is_same_birth(self.birth, other.birth))
    }

    /// Which object it is, to compare and hash: two roots of the same are the same directory or file.
    /// A root that is not held open also has its time of birth, as its numbers can be reused.
    pub(crate) fn object(&self) -> (Identity, Option<SystemTime>, Option<&OsStr>) {
        (self.identity, self.birth.filter(|_| !self.is_held()), self.leaf.as_deref())
    }

    fn is_held(&self) -> bool {
        !matches!(self.held, Held::OnUse(_))
    }

    /// Whether what its name leads to now is the directory that was resolved.
    ///
    /// A held directory is asked again, as its numbers can change (overlayfs, FUSE) and cannot be reused
    /// by another. One that is opened on use must also have the same time of birth, which overlayfs
    /// changes at the first write.
    fn is_same_directory(&self, named: &Handle) -> Result<bool> {
        let held = match &self.held {
            Held::FilesystemRoot(handle) => handle,
            Held::Open(opened, _) => opened.handle(),
            Held::OnUse(_) => {
                let named = named.metadata()?;
                return Ok(
                    self.identity == named.identity() && is_same_birth(self.birth, named.birth())
                );
            }
        };
        Ok(held.identity()? == named.identity()?)
    }

    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.is_same_object(other)
            && (&self.canonical, &self.aliases, &self.name, &self.leaf, self.access)
                == (&other.canonical, &other.aliases, &other.name, &other.leaf, other.access)
    }

    fn record_if_gone<T>(&self, result: Result<T>) -> Result<T> {
        if result.as_ref().is_err_and(|error| error.reason() == Code::RootUnavailable) {
            self.is_gone.store(true, Ordering::Relaxed);
            self.outdated.store(true, Ordering::Relaxed);
        }
        result
    }

    fn check_names(&self, with_aliases: bool) -> Result<()> {
        let Some(enclosing) = self.enclosing() else { return Ok(()) };
        self.open_by_path()?;
        for alias in self.aliases.iter().filter(|_| with_aliases) {
            // It was resolved within a part of this when the list was.
            let mut budget = Budget::new();
            let mut lookups = RequestLookups(Lookups::new(enclosing, &mut budget));
            let place =
                resolve(&mut lookups, enclosing.index(), None, alias.as_os_str(), Intent::Existing);
            let here = match place.map_err(as_unavailable)? {
                Place::Inside { root, path, .. } => {
                    is_same(&enclosing.root(root)?.canonical.join(path), &self.canonical)
                }
                Place::Above(_) => false,
            };
            if !here {
                return Err(Code::RootUnavailable.into());
            }
        }
        Ok(())
    }

    /// The roots that this one was resolved beneath; `/` has none.
    pub(crate) fn enclosing(&self) -> Option<&Roots> {
        match &self.held {
            Held::FilesystemRoot(_) => None,
            Held::Open(_, enclosing) | Held::OnUse(enclosing) => Some(enclosing),
        }
    }

    /// The canonical path of the directory that is held: its own, or a file root's parent.
    fn directory(&self) -> &Path {
        held_directory(&self.canonical, self.is_file())
    }

    /// The root around it that its directory is reached from, and the path from there.
    fn enclosing_root(&self) -> Option<(&Self, &Path)> {
        let places = self.enclosing()?.roots().filter_map(|outer| {
            let holds = !outer.is_file() || outer.canonical == self.canonical;
            let path = self.directory().strip_prefix(outer.directory()).ok()?;
            holds.then_some((outer, path))
        });
        // The innermost: one further out may have a mount in between.
        places.min_by_key(|(_, path)| path.iter().count())
    }

    /// Whether a directory is this root's, or one between it and the root around it, whatever its name is.
    /// `seen` has the paths that were compared before.
    pub(crate) fn is_at_or_below<'a>(
        &'a self,
        directory: Identity,
        seen: &mut HashSet<&'a Path>,
    ) -> Result<bool> {
        if !self.is_file() && self.identity == directory {
            return Ok(true);
        }
        let Some((outer, path)) = self.enclosing_root() else { return Ok(false) };
        let handle = outer.handle()?;
        let between = if self.is_file() { path } else { path.parent().unwrap_or(path) };
        let new = self
            .directory()
            .ancestors()
            .zip(path.ancestors())
            .filter(|(_, path)| between.starts_with(path));
        let mut new = new
            .take_while(|(canonical, path)| !path.as_os_str().is_empty() && seen.insert(canonical));
        Ok(new.any(|(_, path)| {
            let found = handle.dir(path, Rule::Allow).and_then(|found| found.identity());
            found.is_ok_and(|found| found == directory)
        }))
    }

    /// Opens the directory by its canonical path, through no link, and compares its identity.
    fn open_by_path(&self) -> Result<Handle> {
        let enclosing = self.enclosing().ok_or(Code::RootUnavailable)?;
        let Some((outer, path)) = self.enclosing_root().filter(|(outer, _)| outer.verify()) else {
            return Err(Code::RootUnavailable.into());
        };
        let handle =
            outer.handle()?.dir(path, enclosing.policy().mounts).map_err(as_unavailable)?;
        if !self.is_same_directory(&handle)? {
            return Err(Code::RootUnavailable.into());
        }
        Ok(handle)
    }
}

/// Its own path, and not what is around it.
impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("path", &self.canonical)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// The canonical path of the directory that is held for a root.
pub(crate) fn held_directory(canonical: &Path, is_file: bool) -> &Path {
    canonical.parent().filter(|_| is_file).unwrap_or(canonical)
}

/// Whether two times of birth are not known to differ. Some filesystems have none.
fn is_same_birth(one: Option<SystemTime>, other: Option<SystemTime>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// What asking a root's name again can meet when it leads elsewhere or nowhere.
fn as_unavailable(error: Error) -> Error {
    match error.reason() {
        Code::NotFound
        | Code::NotADirectory
        | Code::OutsideRoots
        | Code::TooManyLinks
        | Code::PermissionDenied
        | Code::MountCrossing
        | Code::TooCostly
        | Code::Changed => Code::RootUnavailable.into(),
        _ => error,
    }
}

/// The path as it is shown: on Windows without `\\?\`.
pub(crate) fn display_path(path: &Path) -> String {
    dunce::simplified(path).display().to_string()
}

/// The path as a `file:` URI, escaped as far as a path needs it; [`Location`](crate::Location) reads the same path from it.
pub(crate) fn file_uri(path: &Path) -> String {
    url::Url::from_file_path(path).map_or_else(|()| String::new(), String::from)
}
