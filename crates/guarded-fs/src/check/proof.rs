//! What both proofs know: [`Proof`].

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CheckedPath;
use crate::dir::{Access, Beneath, Budget, Handle, Stat};
use crate::error::{Code, Error, Result};
use crate::path::names::components;
use crate::path::protect::{Pattern, ProtectedNames, has_temporary_name};
use crate::path::{IntoLocation, Location, file_uri};
use crate::roots::{LastName, PlaceInRoot, Presence, Root, Roots, display_path, join};

/// What a [`CheckedPath`] and a [`CheckedEntry`](crate::CheckedEntry) dereference to: a name inside
/// a root, and the snapshot of the roots in which it was checked. It has no file operations.
#[derive(Clone)]
pub struct Proof {
    roots: Roots,
    root: Arc<Root>,
    located: PlaceInRoot,
    request: Location,
    /// The directory beneath which the operations run, if it is not the root.
    opened: Option<OpenBase>,
}

/// A place, as a key ([`Proof::place_key`]): its canonical path, byte for byte.
///
/// That is not sufficient for the key of a lock: two hard links are two names of one file, and names
/// that differ in case or in Unicode normalization are unequal, even if the filesystem treats them
/// as one.
///
/// ```
/// # use guarded_fs::{Access, Roots};
/// # let work = tempfile::tempdir().unwrap();
/// # std::fs::write(work.path().join("a.txt"), "a").unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
/// let (one, other) = (roots.check("a.txt")?, roots.check("./a.txt")?);
/// assert_eq!(one.place_key(), other.place_key());
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceKey(PathBuf);

impl fmt::Debug for PlaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlaceKey").field(&display_path(&self.0)).finish()
    }
}

#[derive(Clone)]
struct OpenBase {
    directory: Arc<OpenDirectory>,
    /// From the directory to the place.
    path: PathBuf,
}

#[derive(Debug)]
pub(crate) struct OpenDirectory {
    pub(crate) handle: Arc<Handle>,
    root: Arc<Root>,
    relative: PathBuf,
}

impl Roots {
    pub(crate) fn decide(
        &self,
        request: &Location,
        last_name: LastName,
        budget: &mut Budget<'_>,
    ) -> Result<Proof> {
        let proof = self.proof(self.locate(request, last_name, budget)?, request)?;
        if last_name == LastName::Existing && !proof.existed() {
            return Err(Code::NotFound.into());
        }
        Ok(proof)
    }

    /// The only function that makes a proof of a request.
    ///
    /// # Errors
    ///
    /// `RootUnavailable` if the name of the innermost root that contains the place does not lead to
    /// a directory or a file.
    pub(super) fn proof(&self, located: PlaceInRoot, request: &Location) -> Result<Proof> {
        // Defense: The innermost root in force decides what may be done.
        let (number, path) = self.innermost(located.root, located.path);
        let is_nested = number != located.root;
        let located = PlaceInRoot { root: number, path, ..located };
        let root = self.shared_root(number)?;
        let is_there = || match located.found {
            Presence::Missing(missing) => missing <= located.path.iter().count(),
            // The place is the root itself, whose own path would be refused.
            _ if located.path.as_os_str().is_empty() => root.is_there(),
            _ => true,
        };
        if is_nested && !is_there() {
            return Err(Error::from(Code::RootUnavailable).in_root(number));
        }
        Ok(Proof { roots: self.clone(), root, located, request: request.clone(), opened: None })
    }
}

impl Proof {
    /// The roots with which the place was checked.
    #[must_use]
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Lets a change of this place, which has begun, be made even if the roots end meanwhile.
    pub(crate) fn begin_change(&mut self) {
        self.roots = self.roots.begun();
    }

    /// The innermost root that contains the place.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    pub(crate) fn root_number(&self) -> usize {
        self.located.root
    }

    /// The path relative to the root: plain names, without any symlink that was followed, and empty
    /// for the root itself.
    #[must_use]
    pub fn relative(&self) -> &Path {
        &self.located.path
    }

    pub(crate) fn canonical(&self) -> PathBuf {
        join(self.root.path(), self.relative())
    }

    /// The canonical path as text for the operator's log.
    pub(crate) fn display_path(&self) -> String {
        display_path(&self.canonical())
    }

    /// The canonical path as a `file:` URI, which a client may use in a later request.
    #[must_use]
    pub fn uri(&self) -> String {
        file_uri(&self.canonical())
    }

    /// The shortest text by which a later request to the same roots can name the place, in the
    /// client's own terms: relative if the place is in the root where relative requests start, and
    /// otherwise below the path under which the client [listed](Root::client_path) the root. If the
    /// path has names that are not UTF-8, it is the [`uri`](Self::uri).
    ///
    /// A listed path that was a symlink stands for its target, also in this text. No text names the
    /// symlink itself then.
    ///
    /// ```
    /// # use guarded_fs::{Access, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::write(work.path().join("a.txt"), "a").unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let checked = roots.check(work.path().join("a.txt"))?;
    /// assert_eq!(checked.client_path(), "a.txt");
    /// let again = roots.check(checked.client_path())?;
    /// assert_eq!(again.place_key(), checked.place_key());
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    #[must_use]
    pub fn client_path(&self) -> String {
        let is_base = self.roots.base() == Some(self.root_number()) && !self.root.is_file();
        let Some(relative) = self.canonical().to_str().and(self.relative().to_str()) else {
            return self.uri();
        };
        match relative {
            "" if is_base => ".".to_owned(),
            "" => self.root.client_path(),
            // With a colon, it could be a URI.
            relative if is_base && !relative.contains(':') => relative.to_owned(),
            _ => {
                let root = Location::of_place(Path::new(&self.root.client_path()));
                let named = root.entry(self.relative().to_owned(), || self.root.path().to_owned());
                named.display().to_string()
            }
        }
    }

    /// Whether the place is the other one or below it, by whole names of the canonical paths.
    #[must_use]
    pub fn starts_with(&self, directory: &Self) -> bool {
        self.canonical().starts_with(directory.canonical())
    }

    /// The place, to compare it with others and for the keys of maps, whatever the access of the
    /// proof. Proofs themselves are not compared, because a client's list can nest roots, and one
    /// place then has several proofs with different access.
    #[must_use]
    pub fn place_key(&self) -> PlaceKey {
        PlaceKey(self.canonical())
    }

    /// The canonical path, without the protection of the guard: a program that opens it walks it
    /// again from `/`, where another process may have created a symlink in the meantime. Use it
    /// only for programs that require a path, and only if nothing else writes to the root.
    #[must_use]
    pub fn to_unguarded_path(&self) -> PathBuf {
        // On Windows, the prefix `\\?\` is omitted, because many programs do not accept it.
        dunce::simplified(&self.canonical()).to_owned()
    }

    pub(crate) fn request(&self) -> &Location {
        &self.request
    }

    pub(crate) fn found(&self) -> Presence {
        self.located.found
    }

    /// Whether something is at the place now. As with [`std::path::Path::exists`], the answer is
    /// false if it cannot be looked up, or if the roots have ended.
    #[must_use]
    pub fn exists(&self) -> bool {
        let look = self.roots.ensure_usable().and_then(|()| self.look());
        look.is_ok_and(|found| !matches!(found, Stat::Missing))
    }

    pub(crate) fn existed(&self) -> bool {
        !matches!(self.located.found, Presence::Missing(_))
    }

    pub(super) fn is_target(&self) -> bool {
        self.located.is_target
    }

    pub(crate) fn names_directory(&self) -> bool {
        self.located.names_directory
    }

    /// Whether operations may change the place: [`Access::ReadOnly`] if the innermost root that
    /// contains it is read-only, or if it is at or below a
    /// [protected](crate::BoundaryBuilder::protect) name. With [`Access::ReadWrite`], an operation
    /// can still be refused, for example if it renames a directory that contains a protected name.
    #[must_use]
    pub fn access(&self) -> Access {
        if self.ensure_allows_changes().is_ok() { Access::ReadWrite } else { Access::ReadOnly }
    }

    pub(super) fn join(&self, relative: impl IntoLocation, last_name: LastName) -> Result<Self> {
        let relative = self.roots.location(relative)?;
        let request = self.request.join(relative.as_unchecked_path());
        if self.roots.index().is_absolute(relative.as_os_str()) {
            let error = Error::from(Code::NotRelative).with_request("check", request.sent());
            return Err(self.roots.log_refused(error));
        }
        self.check_below(relative.as_unchecked_path(), &request, last_name)
    }

    /// Errors name the path as `request`.
    pub(super) fn check_below(
        &self,
        below: &Path,
        request: &Location,
        last_name: LastName,
    ) -> Result<Self> {
        let (roots, named) =
            (&self.roots, |error: Error| error.with_request("check", request.sent()));
        // The name of a directory in the root can look like an alias of another system.
        let mut from_root = Path::new(".").join(self.relative());
        // Joining an empty path would add a slash.
        from_root.extend(Some(below).filter(|below| !below.as_os_str().is_empty()));
        let from_root =
            Location::from_path(from_root).map_err(|error| roots.log_refused(named(error)))?;
        let roots_here = &roots.clone().with_base_number(Some(self.root_number()));
        roots_here.run_check(&from_root, |budget| {
            let checked = roots_here.decide(&from_root, last_name, budget).map_err(named)?;
            Ok(Self { roots: roots.clone(), request: request.clone(), ..checked })
        })
    }

    /// Returns the proof for the directory that contains the place, or `None` for a root, without
    /// I/O.
    #[must_use]
    pub fn parent(&self) -> Option<CheckedPath> {
        let path = self.relative().parent()?.to_owned();
        let found = match self.located.found {
            Presence::Missing(names) if names > 1 => Presence::Missing(names - 1),
            _ => Presence::Exists,
        };
        let request = Location::of_place(&join(self.root.path(), &path));
        // The listed directory itself is an entry of its parent, and is reached from the root.
        let opened = self.opened.as_ref().and_then(|OpenBase { directory, path }| {
            let path = path.parent().filter(|path| !path.as_os_str().is_empty())?.to_owned();
            Some(OpenBase { directory: Arc::clone(directory), path })
        });
        let located = PlaceInRoot::plain(self.root_number(), path, found);
        Some(CheckedPath(Self { located, request, opened, ..self.clone() }))
    }

    /// If names can be denied, verifies that a listed directory is still at the path that was
    /// checked, because its content is denied if it was moved to such a name.
    /// [`ensure_writable`](Self::ensure_writable) verifies it in any case.
    pub(crate) fn place(&self) -> Result<Beneath> {
        let mounts = self.roots.policy().mounts;
        let Some(OpenBase { directory, path }) = &self.opened else {
            let (directory, path) =
                (self.root.handle()?, self.root.beneath_handle(self.relative()));
            return Ok(Beneath { directory, path, mounts });
        };
        if self.roots.protected().is_some_and(ProtectedNames::can_deny) {
            self.ensure_not_moved_from(directory)?;
        }
        Ok(Beneath { directory: Arc::clone(&directory.handle), path: path.clone(), mounts })
    }

    pub(crate) fn look(&self) -> Result<Stat> {
        self.place()?.look()
    }

    fn ensure_not_moved_from(&self, opened: &OpenDirectory) -> Result<()> {
        self.ensure_at(&opened.handle, &opened.root, &opened.relative)
    }

    /// Verifies that a path in a root leads to this open directory.
    pub(crate) fn ensure_at(&self, opened: &Handle, root: &Root, path: &Path) -> Result<()> {
        let opened = opened.identity()?;
        let named = root.handle()?.dir(path, self.roots.policy().mounts);
        match named.and_then(|named| named.identity()) {
            Ok(identity) if identity == opened => Ok(()),
            // For example, no descriptor is free.
            Err(error) if error.reason() == Code::Io => Err(error),
            _ => Err(Code::Changed.into()),
        }
    }

    pub(crate) fn opened_as(&self, handle: Arc<Handle>) -> OpenDirectory {
        OpenDirectory { handle, root: Arc::clone(&self.root), relative: self.located.path.clone() }
    }

    /// An entry that was listed below this place, in the open `directory`. `path` consists of plain
    /// names.
    pub(crate) fn listed(
        &self,
        directory: &Arc<OpenDirectory>,
        path: PathBuf,
        found: Presence,
    ) -> Self {
        let (number, relative) =
            self.roots.innermost(self.root_number(), self.relative().join(&path));
        // A root is what its own path leads to, and unavailable if that is another kind.
        let (is_root, request) = (relative.as_os_str().is_empty(), self.request.join(&path));
        let opened = OpenBase { directory: Arc::clone(directory), path };
        Self {
            roots: self.roots.clone(),
            root: self.roots.shared_root(number).unwrap_or_else(|_| Arc::clone(&self.root)),
            located: PlaceInRoot::plain(number, relative, found),
            request,
            opened: Some(opened).filter(|_| !is_root),
        }
    }

    pub(super) fn pattern(&self) -> Option<&Pattern> {
        self.roots.protected()?.of(&[self.root.path(), self.relative()], self.root.consented())
    }

    pub(crate) fn is_denied(&self, directory: &Path, name: &OsStr) -> bool {
        let place = [self.root.path(), self.relative(), directory, Path::new(name)];
        let protected = self.roots.protected();
        protected.is_some_and(|it| it.denies_last_names(&place, 1, |_| true))
    }

    /// For an entry of a listing, also verifies that the listed directory has not been moved,
    /// because its content would then be changed at a path that was never checked.
    pub(crate) fn ensure_writable(&self) -> Result<()> {
        self.ensure_allows_changes()?;
        match &self.opened {
            None => Ok(()),
            // Defense: An entry is changed only while its directory is still at its path.
            Some(OpenBase { directory, .. }) => self.ensure_not_moved_from(directory),
        }
    }

    pub(super) fn ensure_allows_changes(&self) -> Result<()> {
        // Defense: A protected name is not changed.
        if let Some(pattern) = self.pattern() {
            return Err(pattern.protection.refusal());
        }
        // A symlink can lead to it.
        if [self.root.path(), self.relative()]
            .map(Path::as_os_str)
            .into_iter()
            .any(has_temporary_name)
        {
            return Err(temporary());
        }
        match self.root.access {
            Access::ReadOnly => Err(Code::ReadOnly.into()),
            Access::ReadWrite => Ok(()),
        }
    }

    pub(crate) fn ensure_names_entry(&self) -> Result<()> {
        match components(self.request.as_os_str()).last() {
            Some((name, _)) if name == "." || name == ".." => Err(Code::DotName.into()),
            _ => Ok(()),
        }
    }
}

pub(super) fn temporary() -> Error {
    Error::from(Code::Protected)
        .with_text("protected: the name belongs to a file that is being written")
}

pub(crate) fn without_parent() -> Error {
    Error::from(Code::NotFound).with_text("the parent directory does not exist")
}

pub(crate) fn named_as_directory() -> Error {
    Error::from(Code::IsADirectory).with_text(
        "the path ends in a slash or a dot, so it names a directory; write it without that to name a \
         file",
    )
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proof")
            .field("root", &self.root.path())
            .field("relative", &self.relative())
            .field("existed", &self.existed())
            .finish_non_exhaustive()
    }
}
