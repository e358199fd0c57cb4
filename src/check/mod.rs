//! The decision and its proof.
//!
//! [`Roots::check`] decides, for an [`Intent`], whether a [`Location`] is inside the roots. It
//! returns a [`CheckedPath`], which nothing else creates. The place that the request named was
//! inside the root when it was checked. Every operation on the proof runs beneath the handle of the
//! allowed directory, along the root's own names and the proof's names, so the place is also inside
//! when it is used.
//!
//! The decision is the resolver's ([`Roots::locate`]).

mod operation;
mod explain;
mod still_allows;
mod within;

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::explain::Explanation;
pub(crate) use self::operation::Name;
use crate::dir::{Access, Budget, Handle, Look};
use crate::error::{Code, Error, Result, quoted};
use crate::events;
use crate::path::index::Above;
use crate::path::names::components;
use crate::path::protect::{Pattern, has_temporary_name};
use crate::path::{IntoLocation, Location};
use crate::roots::{Found, Intent, Located, Root, Roots, display_path, file_uri, join};

/// Proof that a request names a place inside a root. File operations are methods of this type.
///
/// A proof holds its snapshot of the roots and remains valid for that snapshot, regardless of which
/// roots are in force later. It is a name: each operation finds what the name leads to at that
/// time, without following a symlink. The proof for an entry of a listing begins at the directory
/// that was listed, which it holds open.
///
/// A snapshot's memory is freed with its last proof. For a client's list of 4 MiB, that is about
/// 10 MiB. To remember many places for a long time, keep the [`uri`](Self::uri) of each, and check
/// it again in the roots that are in force then, such as
/// [`Session::known_roots`](crate::Session::known_roots).
///
/// Two proofs are equal if their canonical paths are equal, compared byte for byte. The request,
/// the root, the [`Intent`], the access and whether something existed there are not compared.
///
/// Equality compares names, so it is not sufficient for the key of a lock. Two hard links are two
/// names of one file. Names that differ in case or in Unicode normalization are unequal, even if
/// the filesystem treats them as one.
///
/// ```
/// use std::collections::HashSet;
///
/// use mcp_roots_guard::{Intent, Roots};
///
/// # let work = tempfile::tempdir().unwrap();
/// # std::fs::write(work.path().join("a.txt"), "a").unwrap();
/// # std::fs::create_dir(work.path().join("docs")).unwrap();
/// let roots = Roots::from_dirs([work.path()])?;
/// // The files that a model named, without duplicates.
/// let named = ["a.txt", "docs/../a.txt", "./a.txt"];
/// let checked = named.map(|path| roots.check(path, Intent::Existing));
/// let files = checked.into_iter().collect::<Result<HashSet<_>, _>>()?;
/// assert_eq!(files.len(), 1);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone)]
pub struct CheckedPath {
    roots: Roots,
    /// The innermost root that contains the place, and its number in the snapshot.
    root: Arc<Root>,
    number: usize,
    relative: PathBuf,
    found: Found,
    /// Whether the last name of the request is a symlink that was followed.
    is_target: bool,
    /// Whether the request ends in a slash, `.` or `..`, and so names a directory.
    names_directory: bool,
    intent: Intent,
    request: Location,
    /// The directory beneath which the operations run, if it is not the root.
    opened: Option<Opened>,
}

/// An open directory on the path to a place.
#[derive(Clone)]
struct Opened {
    directory: Arc<OpenDirectory>,
    /// The path from the directory to the place.
    path: PathBuf,
}

/// An open directory, and where it was opened.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    pub(crate) handle: Arc<Handle>,
    root: Arc<Root>,
    relative: PathBuf,
}

impl Roots {
    /// Decides whether a request is allowed. A request is refused if its target is outside the
    /// roots. A request whose target is in a root is allowed, unless the target does not suit the
    /// intent, or a limit or the policy refuses it. Symlinks are followed, except that
    /// [`Intent::NoFollow`] does not follow a symlink at the end of the path.
    ///
    /// Text is parsed by [`Location::parse`], and a `Path` is used unchanged. A relative request is
    /// resolved against the first root, or against the one that [`with_base`](Self::with_base)
    /// selected, and never against the current directory of the process.
    ///
    /// # Errors
    ///
    /// - The errors of [`Location::parse`].
    /// - [`OutsideRoots`](crate::ErrorKind::OutsideRoots) if the place is outside the roots,
    ///   whether or not anything exists there.
    /// - The reason why the client's roots could not be obtained, for a relative request, if only
    ///   directories that are [always](crate::DirectoryOptions::always) in force are served.
    /// - [`NotFound`](crate::ErrorKind::NotFound),
    ///   [`NotADirectory`](crate::ErrorKind::NotADirectory) and
    ///   [`PermissionDenied`](crate::ErrorKind::PermissionDenied) for a place inside a root.
    /// - [`TooCostly`](crate::ErrorKind::TooCostly) (`too_many_links`; or `too_costly` if resolving
    ///   takes more than [`LOOKUPS`](crate::limits::LOOKUPS) look-ups).
    /// - [`Protected`](crate::ErrorKind::Protected) if a pattern
    ///   [denies](crate::Protection::Denied) a name on the way, whether or not anything exists
    ///   there.
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`mount_crossing`) if the policy
    ///   refuses mounts.
    /// - [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if the root's name leads to
    ///   no directory now, or to a file instead of a directory.
    /// - [`Changed`](crate::ErrorKind::Changed) if the path keeps changing during the check.
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Intent, Roots};
    /// let roots = Roots::from_dirs([std::env::temp_dir()])?;
    /// let checked = roots.check("new-file.txt", Intent::New)?;
    /// assert_eq!(checked.relative().to_str(), Some("new-file.txt"));
    /// let refused = roots.check("../passwd", Intent::Existing).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn check(&self, request: impl IntoLocation, intent: Intent) -> Result<CheckedPath> {
        let request = self.location(request)?;
        self.run_check(&request, |budget| self.decide(&request, intent, budget))
    }

    /// Returns the proofs of the roots in force, except those that a walk of another one visits and
    /// those that are missing. A walk of each visits everything that is in force once:
    ///
    /// ```
    /// # use mcp_roots_guard::{Roots, WalkOptions};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::write(work.path().join("a.txt"), "needle").unwrap();
    /// # let roots = Roots::from_dirs([work.path()])?;
    /// let mut found = Vec::new();
    /// for top in roots.outermost()? {
    ///     let mut walk = top.walk(WalkOptions::default().skip_unreadable())?;
    ///     while let Some(entry) = walk.next_entry()? {
    ///         if entry.read_to_string(1 << 20).is_ok_and(|text| text.contains("needle")) {
    ///             found.push(entry.path());
    ///         }
    ///     }
    /// }
    /// assert_eq!(found.len(), 1);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    ///
    /// A root can be a single file, which cannot be walked ([`Root::is_file`]). What a walk leaves
    /// out, such as a mount that the boundary refuses, is left out even if it is a root itself.
    ///
    /// # Errors
    ///
    /// [`OutsideRoots`](crate::ErrorKind::OutsideRoots), with the reason, if there are no roots;
    /// [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if all of them are missing; the other
    /// errors of [`check`](Self::check).
    pub fn outermost(&self) -> Result<Vec<CheckedPath>> {
        let mut missing = None;
        let mut outermost = Vec::new();
        for (number, root) in self.roots().enumerate() {
            if let Above::Root(outer, _) = self.index().above(number) {
                // The parent of `/` is `/`.
                if outer != number && !self.omits(outer, root)? {
                    continue;
                }
            }
            // The entries of a walk have the path under which the client knows the root.
            let shown = PathBuf::from(root.client_path());
            let is_name = self.index().begin(shown.as_os_str()) == Some((number, OsStr::new("")));
            match self.check(if is_name { &shown } else { root.path() }, Intent::Existing) {
                Ok(checked) => outermost.push(checked),
                Err(error) if error.reason() == Code::RootUnavailable => missing = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (outermost.is_empty(), missing) {
            (false, _) => Ok(outermost),
            (true, Some(error)) => Err(error),
            (true, None) => Err(self.log_refusal(Code::OutsideRoots.into())),
        }
    }

    /// Whether a walk of the root that encloses another one omits it, because of a denied name.
    fn omits(&self, outer: usize, inner: &Root) -> Result<bool> {
        let (outer, place) = (self.root(outer)?, inner.path());
        let names = |path: &Path| components(path.as_os_str()).count();
        let below = names(place) - names(outer.path());
        Ok(self.protected().is_some_and(|it| it.denies_last_names(&[place], below, |_| true)))
    }

    /// Parses a request, and logs the error if this fails. Every operation on a request starts
    /// here.
    pub(crate) fn location(&self, request: impl IntoLocation) -> Result<Location> {
        self.ensure_not_ended().map_err(|error| self.log_refusal(error))?;
        let location = request.try_into().map_err(|error| self.log_refusal(error.into()))?;
        let location = location.with_separators(self.index());
        // A file that is being written is not named in requests, and not changed before its commit.
        if has_temporary_name(location.as_os_str()) {
            return Err(self.log_refusal(temporary().at("check", location.sent())));
        }
        Ok(location)
    }

    pub(crate) fn log_refusal(&self, error: Error) -> Error {
        events::refused(self.session(), self.with_reason(error))
    }

    pub(crate) fn decide(
        &self,
        request: &Location,
        intent: Intent,
        budget: &mut Budget<'_>,
    ) -> Result<CheckedPath> {
        let located = self.locate(request, intent, budget)?;
        self.proof(located, request, intent)
    }

    /// # Errors
    ///
    /// `RootUnavailable` if the name of the innermost root that contains the place does not lead to
    /// a directory or a file.
    fn proof(&self, located: Located, request: &Location, intent: Intent) -> Result<CheckedPath> {
        let Located { root, path, found, is_target, names_directory } = located;
        // Defense: The innermost root in force decides what may be done.
        let (number, relative) = self.innermost(root, path);
        let inner = self.shared_root(number)?;
        let is_there = || match found {
            Found::Missing(missing) => missing <= relative.iter().count(),
            // The place is the root itself, whose own path would be refused.
            _ if relative.as_os_str().is_empty() => inner.is_there(),
            _ => true,
        };
        if number != root && !is_there() {
            return Err(Error::from(Code::RootUnavailable).in_root(number));
        }
        Ok(CheckedPath {
            roots: self.clone(),
            root: inner,
            number,
            relative,
            found,
            is_target,
            names_directory,
            intent,
            request: request.clone(),
            opened: None,
        })
    }
}

impl CheckedPath {
    /// The innermost root that contains the place.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The path from the root to the place. It consists of plain names, and is empty for the root
    /// itself. At the time of the check, none of the names was a symlink, except possibly the last
    /// one with [`Intent::NoFollow`].
    #[must_use]
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Checks a path relative to this directory, without checking this proof's request again. The
    /// path is resolved like a request, so symlinks and `..` can lead to any place in the roots. To
    /// confine names that are not trusted, such as those in an archive, to one directory, use
    /// [`Roots::within`].
    ///
    /// # Errors
    ///
    /// [`InvalidPath`](crate::ErrorKind::InvalidPath) (`not_relative`) for an absolute path or a
    /// URI; the errors of [`Roots::check`].
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Intent, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(work.path().join("docs")).unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// let docs = roots.check("docs", Intent::Existing)?;
    /// docs.join("a.txt", Intent::New)?.write("a")?;
    /// assert_eq!(roots.read("docs/a.txt", 9)?, b"a");
    /// let refused = docs.join("../../a.txt", Intent::Existing).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn join(&self, relative: impl IntoLocation, intent: Intent) -> Result<Self> {
        let roots = &self.roots;
        let relative = roots.location(relative)?;
        let request = self.request.join(relative.as_unchecked_path());
        let named = |error: Error| roots.log_refusal(error.at("check", request.sent()));
        if roots.index().is_absolute(relative.as_os_str()) {
            return Err(named(Code::NotRelative.into()));
        }
        // The name of a directory in the root can look like an alias of another system.
        let from_root = Path::new(".").join(&self.relative).join(relative.as_unchecked_path());
        let from_root = Location::from_path(from_root).map_err(named)?;
        let roots_here = &roots.with_base_number(Some(self.number));
        roots_here.run_check(&from_root, |budget| {
            let checked = roots_here.decide(&from_root, intent, budget);
            let checked = checked.map_err(|error| error.at("check", request.sent()))?;
            Ok(Self { roots: roots.clone(), request: request.clone(), ..checked })
        })
    }

    /// Returns the proof for the directory that contains the place, or `None` for a root. Nothing
    /// is looked up.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let relative = self.relative.parent()?.to_owned();
        let found = match self.found {
            Found::Missing(names) if names > 1 => Found::Missing(names - 1),
            _ => Found::Exists,
        };
        // The listed directory itself is an entry of its parent, and is reached from the root.
        let opened = self.opened.as_ref().and_then(|Opened { directory, path }| {
            let path = path.parent().filter(|path| !path.as_os_str().is_empty())?.to_owned();
            Some(Opened { directory: Arc::clone(directory), path })
        });
        let mut parent = Self { relative, found, is_target: false, opened, ..self.clone() };
        (parent.intent, parent.names_directory) = (Intent::NoFollow, false);
        parent.request = Location::of_place(&parent.canonical());
        Some(parent)
    }

    /// Returns the proof for the last name of the request itself, as [`Intent::NoFollow`] gives it,
    /// without resolving the request again. Use this to remove or rename a file that was read.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) (`wrong_intent`) if the last name was a
    /// symlink that was followed, because the place is its target;
    /// [`InvalidPath`](crate::ErrorKind::InvalidPath) (`dot_name`) if the request ends in `.` or
    /// `..`.
    ///
    /// ```
    /// # use mcp_roots_guard::{Intent, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::write(work.path().join("draft.txt"), "text").unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// let draft = roots.check("draft.txt", Intent::Existing)?;
    /// let text = draft.read_to_string(1 << 20)?;
    /// draft.no_follow()?.remove_file()?;
    /// # assert_eq!(text, "text");
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn no_follow(&self) -> Result<Self> {
        let name = if self.is_target {
            let text = "the path leads through a symlink as its last name; check it with \
                        Intent::NoFollow to change the symlink itself";
            Err(Error::new(Code::WrongIntent).says(text))
        } else {
            self.ensure_names_entry()
        };
        match name {
            Ok(()) => Ok(Self { intent: Intent::NoFollow, ..self.clone() }),
            Err(error) => Err(self.roots.log_refusal(error.at("check", self.request.sent()))),
        }
    }

    /// Whether the place existed when it was checked.
    #[must_use]
    pub fn exists(&self) -> bool {
        !matches!(self.found, Found::Missing(_))
    }

    /// Whether operations may change the place. The result is [`Access::ReadOnly`] if the innermost
    /// root that contains it is read-only, or if the place is at or below a
    /// [protected](crate::BoundaryBuilder::protect) name. If the result is [`Access::ReadWrite`],
    /// an operation can still be refused, for example if it renames a directory that contains a
    /// protected name.
    ///
    /// ```
    /// # use mcp_roots_guard::{Access, Boundary, Intent};
    /// # let work = tempfile::tempdir().unwrap();
    /// let boundary = Boundary::builder()
    ///     .directory(work.path(), Access::ReadWrite)
    ///     .protect_defaults()
    ///     .build()?;
    /// let roots = boundary.allowed_roots();
    /// assert_eq!(roots.check("a.txt", Intent::New)?.access(), Access::ReadWrite);
    /// assert_eq!(roots.check(".git/config", Intent::NewTree)?.access(), Access::ReadOnly);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    #[must_use]
    pub fn access(&self) -> Access {
        if self.ensure_allows_changes().is_ok() { Access::ReadWrite } else { Access::ReadOnly }
    }

    /// The canonical path as text that people and models can read in responses and logs.
    ///
    /// Apart from [`uri`](Self::uri), this is the only form of a proof's path that is meant to be
    /// shown. Show it only to the client that the roots belong to, because it contains the targets
    /// of symlinks. Do not open this path, because names that are not UTF-8 contain replacement
    /// characters, and because the path would be walked again from `/`. See
    /// [`to_unguarded_path`](Self::to_unguarded_path).
    ///
    /// ```
    /// # use mcp_roots_guard::{Intent, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::write(work.path().join("a.txt"), "a").unwrap();
    /// # let top = std::fs::canonicalize(work.path()).unwrap();
    /// # #[cfg(windows)] let top = dunce::simplified(&top).to_owned();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// let checked = roots.check("a.txt", Intent::Existing)?;
    /// assert_eq!(checked.display_path(), top.join("a.txt").display().to_string());
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    #[must_use]
    pub fn display_path(&self) -> String {
        display_path(&self.canonical())
    }

    /// The canonical path as a `file:` URI, which a client may use in a later request.
    #[must_use]
    pub fn uri(&self) -> String {
        file_uri(&self.canonical())
    }

    /// The canonical path, without the protection of the guard. A program that opens it walks it
    /// again from `/`, where another process may have created a symlink in the meantime. Use it
    /// only for programs that require a path, and only if nothing else writes to the root.
    #[must_use]
    pub fn to_unguarded_path(&self) -> PathBuf {
        // On Windows, the prefix `\\?\` is omitted, because many programs do not accept it.
        dunce::simplified(&self.canonical()).to_owned()
    }

    pub(crate) fn canonical(&self) -> PathBuf {
        join(self.root.path(), &self.relative)
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    pub(crate) fn request(&self) -> &Location {
        &self.request
    }

    pub(crate) fn found(&self) -> Found {
        self.found
    }

    pub(crate) fn intent(&self) -> Intent {
        self.intent
    }

    pub(crate) fn names_directory(&self) -> bool {
        self.names_directory
    }

    /// The number of the root in the snapshot of this proof.
    pub(crate) fn root_number(&self) -> usize {
        self.number
    }

    /// Returns the handle beneath which to operate, and the path relative to it.
    ///
    /// If names are protected, this verifies that a listed directory is still at the path that was
    /// checked, because its content is protected if it was moved to such a name.
    pub(crate) fn place(&self) -> Result<(Arc<Handle>, PathBuf)> {
        let Some(Opened { directory, path }) = &self.opened else {
            return Ok((self.root.handle()?, self.root.beneath_handle(&self.relative)));
        };
        if self.roots.protected().is_some() {
            self.ensure_not_moved_from(directory)?;
        }
        Ok((Arc::clone(&directory.handle), path.clone()))
    }

    /// Looks up what is at the place. A symlink is not followed.
    pub(crate) fn look(&self) -> Result<Look> {
        let (handle, place) = self.place()?;
        handle.look(&place, self.roots.policy().mounts)
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

    /// This place as an open directory.
    pub(crate) fn opened_as(&self, handle: Arc<Handle>) -> OpenDirectory {
        OpenDirectory { handle, root: Arc::clone(&self.root), relative: self.relative.clone() }
    }

    /// Returns the proof for an entry that was listed below this place, which is the open
    /// `directory`. `path` consists of plain names.
    pub(crate) fn entry(
        &self,
        directory: &Arc<OpenDirectory>,
        path: PathBuf,
        found: Found,
    ) -> Self {
        let (number, relative) = self.roots.innermost(self.number, self.relative.join(&path));
        Self {
            roots: self.roots.clone(),
            root: self.roots.shared_root(number).unwrap_or_else(|_| Arc::clone(&self.root)),
            number,
            relative,
            found,
            is_target: false,
            names_directory: false,
            intent: Intent::NoFollow,
            request: self.request.join(&path),
            opened: Some(Opened { directory: Arc::clone(directory), path }),
        }
    }

    /// The pattern that protects the place.
    fn pattern(&self) -> Option<&Pattern> {
        self.roots.protected()?.of(&[self.root.path(), &self.relative], self.root.consented())
    }

    /// Whether the entry `name` of the directory at a path below this place is denied.
    pub(crate) fn is_denied(&self, directory: &Path, name: &OsStr) -> bool {
        let place = [self.root.path(), &self.relative, directory, Path::new(name)];
        let protected = self.roots.protected();
        protected.is_some_and(|it| it.denies_last_names(&place, 1, |_| true))
    }

    /// Returns an error unless the place may be changed. For an entry of a listing, this verifies
    /// that the listed directory has not been moved, because its content would then be changed at
    /// a path that was never checked.
    pub(crate) fn ensure_writable(&self) -> Result<()> {
        self.ensure_allows_changes()?;
        match &self.opened {
            None => Ok(()),
            // Defense: An entry is changed only while its directory is still at its path.
            Some(Opened { directory, .. }) => self.ensure_not_moved_from(directory),
        }
    }

    fn ensure_allows_changes(&self) -> Result<()> {
        // Defense: A protected name is not changed.
        if let Some(pattern) = self.pattern() {
            return Err(pattern.protection.refusal());
        }
        // A symlink can lead to it.
        if [self.root.path(), &self.relative]
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

    /// Refuses a request that ends in `.` or `..`.
    pub(crate) fn ensure_names_entry(&self) -> Result<()> {
        match components(self.request.as_os_str()).last() {
            Some((name, _)) if name == "." || name == ".." => Err(Code::DotName.into()),
            _ => Ok(()),
        }
    }
}

/// The error for a request that names the temporary file of a write.
fn temporary() -> Error {
    Error::new(Code::Protected).says("protected: the name belongs to a file that is being written")
}

/// Compares only the canonical paths, as described at [`CheckedPath`].
impl PartialEq for CheckedPath {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Eq for CheckedPath {}

impl Hash for CheckedPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

/// Formats the place, the index of its root in [`Roots::roots`], and the last name of the root's
/// path, as in `"docs/a.txt" in root 0 ("site")`. This text is for logs and is not a path. To show
/// a path, use [`display_path`](CheckedPath::display_path).
impl fmt::Display for CheckedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relative = self.relative.as_os_str();
        let place = quoted(if relative.is_empty() { OsStr::new(".") } else { relative });
        let name = self.root.path().file_name().unwrap_or(self.root.path().as_os_str());
        write!(f, "{place} in root {} ({})", self.number, quoted(name))
    }
}

impl fmt::Debug for CheckedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedPath")
            .field("root", &self.root.path())
            .field("relative", &self.relative)
            .field("exists", &self.exists())
            .finish_non_exhaustive()
    }
}
