//! A root: a directory or a single file, with its paths and its directory handle.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

#[cfg(target_os = "linux")]
use crate::dir::Filesystem;
use crate::dir::{Access, Budget, Handle, Identity, Rule};
use crate::error::{Code, Error, Result};
use crate::path::names::is_same;
use crate::path::protect::Protected;
use crate::roots::lookup::RequestLookups;
use crate::roots::{Intent, Lookups, Opened, Place, Roots, Throttle, resolve};

/// A resolved entry of a root list: a directory or a single file.
pub struct Root {
    pub(crate) canonical: PathBuf,
    pub(crate) aliases: Vec<PathBuf>,
    pub(crate) name: Option<String>,
    /// The path under which the client listed this root, if it is not the canonical path.
    pub(crate) listed: Option<String>,
    pub(crate) access: Access,
    pub(crate) is_always: bool,
    /// The protection of the canonical path and of the names below it.
    pub(crate) protected: Protected,
    /// For a file root, its name in the parent directory, whose handle is held instead.
    pub(crate) leaf: Option<OsString>,
    pub(crate) held: Held,
    /// The identity of the held directory when it was resolved.
    pub(crate) identity: Identity,
    pub(crate) birth: Option<SystemTime>,
    pub(crate) is_gone: AtomicBool,
    /// The `outdated` flag of the snapshot that contains this root.
    pub(crate) outdated: Arc<AtomicBool>,
    pub(crate) aliases_verified: Throttle,
}

/// How a root's directory is accessed.
#[derive(Clone)]
pub(crate) enum Held {
    /// The filesystem root.
    FilesystemRoot(Arc<Handle>),
    /// Held open and shared by all roots that are this directory. Contains the roots beneath which
    /// it was resolved.
    Open(Arc<Opened>, Roots),
    /// Opened on each use, and then verified to be the directory that was resolved. Contains the
    /// roots beneath which it was resolved.
    OnUse(Roots),
}

impl Root {
    /// The canonical path at the time when the root was resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.canonical
    }

    /// The paths by which a request may name this root: the canonical path, followed by its
    /// aliases. The listed path is an alias if it differs from the canonical path, contains no
    /// `..`, and takes few look-ups to resolve. On macOS, the other paths through the system's own
    /// symlinks are also aliases. The root of an allowed directory also has the declared
    /// [aliases](crate::DirectoryOptions::alias) that resolve to it on this system.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.canonical.as_path()).chain(self.aliases.iter().map(PathBuf::as_path))
    }

    /// The canonical path as text for people and models, for example to list the allowed
    /// directories. Do not open this path, because invalid UTF-8 is replaced by replacement
    /// characters.
    #[must_use]
    pub fn display_path(&self) -> String {
        display_path(&self.canonical)
    }

    /// The path under which the client listed this root, as text that may be shown to that client.
    /// It is the decoded path of the URI, without `.`, `//` or a trailing slash. If the client used
    /// a Windows [alias](crate::DirectoryOptions::alias), the separators are backslashes. This is
    /// the [canonical path](Self::display_path) if the client did not list the root itself, or if
    /// the listed path contains `..` or takes too many look-ups to resolve.
    ///
    /// The same client can use this path in requests.
    #[must_use]
    pub fn client_path(&self) -> String {
        self.listed.clone().unwrap_or_else(|| self.display_path())
    }

    /// The canonical path as a `file:` URI, which a client can use in a later request.
    #[must_use]
    pub fn uri(&self) -> String {
        file_uri(&self.canonical)
    }

    /// The root's name in the client's root list, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The kind of access that is allowed beneath this root. It is [`Access::ReadOnly`] if the
    /// allowed directory is read-only, or if the root is at or below a
    /// [protected](crate::BoundaryBuilder::protect) name.
    #[must_use]
    pub fn access(&self) -> Access {
        self.protected.protection().map_or(self.access, |_| Access::ReadOnly)
    }

    /// Whether the root is an allowed directory that is in force for every client. See
    /// [`DirectoryOptions::always`](crate::DirectoryOptions::always).
    #[must_use]
    pub fn is_always(&self) -> bool {
        self.is_always
    }

    /// Whether the root is a single file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.leaf.is_some()
    }

    /// Returns false once a verification has found that one of the root's paths no longer resolves
    /// to it.
    #[must_use]
    pub fn is_available(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }

    /// Returns the same root with read-only access. If the new root is found to be unavailable, the
    /// snapshot of the original is also outdated.
    pub(crate) fn with_read_only_access(&self) -> Self {
        Self {
            canonical: self.canonical.clone(),
            aliases: self.aliases.clone(),
            name: self.name.clone(),
            listed: self.listed.clone(),
            access: Access::ReadOnly,
            is_always: self.is_always,
            protected: self.protected.clone(),
            leaf: self.leaf.clone(),
            held: self.held.clone(),
            identity: self.identity,
            birth: self.birth,
            is_gone: AtomicBool::new(!self.is_available()),
            outdated: self.outdated.clone(),
            aliases_verified: Throttle::new(),
        }
    }

    /// Whether the root is in `/proc`, or contains it.
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

    /// Returns the handle of the root's directory, or of the parent directory of a file root. Fails
    /// with `RootUnavailable` if the root is unavailable.
    pub(crate) fn handle(&self) -> Result<Arc<Handle>> {
        match &self.held {
            _ if !self.is_available() => Err(Code::RootUnavailable.into()),
            Held::FilesystemRoot(handle) => Ok(handle.clone()),
            Held::Open(opened, _) => Ok(opened.handle().clone()),
            Held::OnUse(_) => Ok(Arc::new(self.record_if_gone(self.open_by_path())?)),
        }
    }

    /// Returns the handle of a directory that is held open, if the type of its filesystem is known
    /// and suitable. Obtaining it does not wait.
    #[cfg(target_os = "linux")]
    pub(crate) fn handle_on(&self, suitable: impl Fn(Filesystem) -> bool) -> Option<&Handle> {
        match &self.held {
            Held::Open(opened, _) if self.is_available() && !self.is_file() => {
                opened.filesystem().is_some_and(suitable).then(|| &**opened.handle())
            }
            _ => None,
        }
    }

    /// Maps a path relative to the root to a path beneath [`Root::handle`].
    pub(crate) fn beneath_handle(&self, path: &Path) -> PathBuf {
        match &self.leaf {
            Some(leaf) => PathBuf::from(leaf),
            None => path.to_owned(),
        }
    }

    /// Verifies that the path still resolves to the same object, and marks the root as unavailable
    /// if it does not. If this cannot be determined now, for example because no descriptor is
    /// available, nothing changes. Returns whether the root is available.
    ///
    /// The aliases are verified at most once every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY),
    /// because each one must be resolved again, and a client's aliases can be long.
    pub(crate) fn verify(&self) -> bool {
        self.verify_names(self.aliases_verified.take())
    }

    /// Like [`verify_all`](Self::verify_all), but verifies at most once every
    /// [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY), and otherwise only returns whether the root
    /// is available.
    pub(crate) fn verify_if_due(&self) -> bool {
        if self.aliases_verified.take() { self.verify_all() } else { self.is_available() }
    }

    /// Like [`verify`](Self::verify), but always verifies the aliases.
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

    /// Whether both roots are the same object. Inode numbers can be reused unless both directories
    /// are held open. If either is not, the birth times must also match, unless one is unknown.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        let both_held = self.is_held() && other.is_held();
        self.identity == other.identity && (both_held || is_same_birth(self.birth, other.birth))
    }

    /// Identifies the object for comparison and hashing. For a root that is not held open, this
    /// includes the birth time, because inode numbers can be reused.
    pub(crate) fn object(&self) -> (Identity, Option<SystemTime>, Option<&OsStr>) {
        (self.identity, self.birth.filter(|_| !self.is_held()), self.leaf.as_deref())
    }

    fn is_held(&self) -> bool {
        !matches!(self.held, Held::OnUse(_))
    }

    /// Whether `named`, the directory that the root's path resolves to now, is the one that was
    /// resolved originally.
    ///
    /// The identity of a directory that is held open is read again. It can change (overlayfs,
    /// FUSE), but no other directory can have it at the same time. A directory that is opened on
    /// use must also have the same birth time. On overlayfs, the first write to the directory can
    /// change the birth time, which makes the root unavailable.
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
            && self.protected.is_equivalent(&other.protected)
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
            // This budget is sufficient, because the alias took only part of one when the list was
            // resolved.
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

    /// The roots beneath which this one was resolved, or `None` for a filesystem root.
    pub(crate) fn enclosing(&self) -> Option<&Roots> {
        match &self.held {
            Held::FilesystemRoot(_) => None,
            Held::Open(_, enclosing) | Held::OnUse(enclosing) => Some(enclosing),
        }
    }

    /// The snapshots beneath which this root and its enclosing roots were resolved, innermost
    /// first.
    pub(crate) fn all_enclosing(&self) -> impl Iterator<Item = &Roots> {
        std::iter::successors(Some(self), |root| root.outer()).filter_map(Self::enclosing)
    }

    fn outer(&self) -> Option<&Self> {
        self.enclosing_root().map(|(outer, _)| outer)
    }

    /// The canonical path of the directory that is held for this root. For a file root, it is the
    /// parent.
    fn directory(&self) -> &Path {
        held_directory(&self.canonical, self.is_file())
    }

    /// The enclosing root from which the root's directory is opened, and the path from there.
    fn enclosing_root(&self) -> Option<(&Self, &Path)> {
        let places = self.enclosing()?.roots().filter_map(|outer| {
            let holds = !outer.is_file() || outer.canonical == self.canonical;
            let path = self.directory().strip_prefix(outer.directory()).ok()?;
            holds.then_some((outer, path))
        });
        // The innermost root is chosen, because there may be a mount point between an outer one and
        // this root.
        places.min_by_key(|(_, path)| path.iter().count())
    }

    /// Whether `directory` is this root's directory, or one of the directories on the path to it
    /// from the enclosing root. Directories are compared by identity, so their names do not matter.
    /// `seen` contains the paths that were already compared, which are skipped.
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

    /// Opens the root's directory by its canonical path, without following symlinks. Fails with
    /// `RootUnavailable` if this is not the directory that was resolved.
    fn open_by_path(&self) -> Result<Handle> {
        let enclosing = self.enclosing().ok_or(Code::RootUnavailable)?;
        let Some((outer, path)) = self.enclosing_root().filter(|(outer, _)| outer.verify()) else {
            return Err(Code::RootUnavailable.into());
        };
        let handle =
            outer.handle()?.dir(path, enclosing.policy().mounts).map_err(as_unavailable)?;
        // Defense: Another directory at the root's path is not the root.
        if !self.is_same_directory(&handle)? {
            return Err(Code::RootUnavailable.into());
        }
        Ok(handle)
    }
}

/// Omits the enclosing roots.
impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("path", &self.canonical)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// The canonical path of the directory that is held for a root. For a file root, it is the parent.
pub(crate) fn held_directory(canonical: &Path, is_file: bool) -> &Path {
    canonical.parent().filter(|_| is_file).unwrap_or(canonical)
}

/// Whether two birth times are equal, or one is unknown because the filesystem does not report it.
fn is_same_birth(one: Option<SystemTime>, other: Option<SystemTime>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Converts the errors that occur if a root's path no longer resolves to the root to
/// `RootUnavailable`. Returns any other error unchanged.
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

/// The path for display, which on Windows omits `\\?\`.
pub(crate) fn display_path(path: &Path) -> String {
    dunce::simplified(path).display().to_string()
}

/// The path as a `file:` URI. [`Location`](crate::Location) parses it to the same path.
pub(crate) fn file_uri(path: &Path) -> String {
    url::Url::from_file_path(path).map_or_else(|()| String::new(), String::from)
}
