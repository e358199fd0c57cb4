//! The decision and its proof.
//!
//! [`Roots::check`] decides, for an [`Intent`], whether a [`Location`] is inside the roots. It
//! returns a [`CheckedPath`], which nothing else creates. The place that the request named was
//! inside the root when it was checked. Every operation on the proof runs beneath the root's own
//! handle, so the place is also inside when it is used.
//!
//! The resolver defines the decision. On Linux, a single path walk by the kernel is tried first
//! where its result is provably the same. `kernel.rs` lists these cases.

#[cfg(target_os = "linux")]
mod kernel;
mod still_allows;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dir::{Access, Budget, Handle, Look, Rule};
use crate::error::{Code, Error, Result, quoted};
use crate::events;
use crate::path::Location;
use crate::path::names::{below, components};
use crate::roots::{Found, Intent, Root, Roots, display_path, file_uri, resolve_in, retry_changed};
use crate::workers::counted;

/// Proof that a request names a place inside a root. File operations are methods of this type.
///
/// A proof holds its snapshot of the roots and remains valid for that snapshot, regardless of which
/// roots are in force later.
///
/// Two proofs are equal if they name the same place: the same root, compared by device and inode,
/// and the same relative path, compared byte for byte. Requests that resolve to the same place in a
/// root give equal proofs, even through different symlinks or against different snapshots. The
/// request, the [`Intent`], the access and whether something existed there are not compared.
///
/// Equality compares names, so it is not sufficient for the key of a lock. If roots are nested,
/// which a client's list can cause, one place can have several unequal proofs. Two hard links are
/// two places. Names that differ in case or in Unicode normalization are two places, even if the
/// filesystem treats them as one. For a root beyond the first [`HANDLES`](crate::limits::HANDLES),
/// whose directory is not held open, the birth time is also compared.
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
    root: Arc<Root>,
    relative: PathBuf,
    found: Found,
    intent: Intent,
    request: Location,
}

impl Roots {
    /// Decides whether a request may be served. It may be served if and only if the place that it
    /// names is in a root. Symlinks are followed, except that [`Intent::NoFollow`] does not follow
    /// a symlink at the end of the path.
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
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`mount_crossing`) if the policy
    ///   refuses mounts.
    /// - [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if the root's path no longer
    ///   resolves to the root.
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
    pub fn check<L>(&self, request: L, intent: Intent) -> Result<CheckedPath>
    where
        L: TryInto<Location>,
        Error: From<L::Error>,
    {
        let request = self.location(request)?;
        self.run_request("check", &request, |budget| self.decide(&request, intent, budget))
    }

    /// Parses a request, and logs the error if this fails. Every operation on a request starts
    /// here.
    pub(crate) fn location<L>(&self, request: L) -> Result<Location>
    where
        L: TryInto<Location>,
        Error: From<L::Error>,
    {
        #[cfg(feature = "rmcp")]
        self.ensure_active().map_err(|error| self.log_refusal(error))?;
        request.try_into().map_err(|error| self.log_refusal(error.into()))
    }

    pub(crate) fn log_refusal(&self, error: Error) -> Error {
        let error = self.explain_empty(error);
        events::refused(self.session(), &error);
        error
    }

    pub(crate) fn decide(
        &self,
        request: &Location,
        intent: Intent,
        budget: &mut Budget<'_>,
    ) -> Result<CheckedPath> {
        let (root, relative, found) = self.locate(request, intent, budget)?;
        let root = self.shared_root(root)?;
        if !root.is_available() {
            return Err(Code::RootUnavailable.into());
        }
        Ok(CheckedPath {
            roots: self.clone(),
            root,
            relative,
            found,
            intent,
            request: request.clone(),
        })
    }

    /// Returns the place that a request names: the root, the path in it, and what exists there.
    fn locate(
        &self,
        request: &Location,
        intent: Intent,
        budget: &mut Budget<'_>,
    ) -> Result<(usize, PathBuf, Found)> {
        #[cfg(target_os = "linux")]
        if let Some(place) = self.locate_by_kernel(request, intent, budget) {
            return place;
        }
        resolve_in(self, self.base(), request.as_os_str(), intent, budget)
    }

    /// Returns the root in which a request starts, and the rest of the request after that root's
    /// path or alias. Returns `None` if the request starts in no root.
    pub(crate) fn start<'a>(&self, request: &'a Location) -> Option<(usize, &'a OsStr)> {
        let request = request.as_os_str();
        if !self.index().is_absolute(request) {
            return Some((self.base()?, request));
        }
        // This is a fast path for the common case of one root that is named by its canonical path.
        let only = self.only_root().filter(|only| only.aliases.is_empty());
        let below = only.and_then(|only| below(request, only.path()));
        below.map(|below| (0, below)).or_else(|| self.index().begin(request))
    }

    /// Runs the work of one request with [`run_verified`](Self::run_verified). An error names the
    /// operation and the request, and is reported to the operator.
    pub(crate) fn run_request<T>(
        &self,
        operation: &'static str,
        request: &Location,
        work: impl FnMut(&mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        self.run_verified(request, work)
            .map_err(|error| self.log_refusal(error.at(operation, request.sent())))
    }

    /// Runs the work of one request, and retries it while the path changes concurrently. After any
    /// error except [`OutsideRoots`](Code::OutsideRoots), it verifies the root where the request
    /// started and the root that the request reached. If a root's paths no longer resolve to it,
    /// the error is [`RootUnavailable`](Code::RootUnavailable).
    pub(crate) fn run_verified<T>(
        &self,
        request: &Location,
        mut work: impl FnMut(&mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        let device = || {
            self.start(request)
                .and_then(|(number, _)| Some(self.root(number).ok()?.identity.device))
        };
        let mut budget = Budget::new();
        let answer = || {
            retry_changed(|| work(&mut budget)).map_err(|error| {
                let (started_in, reached) =
                    (self.start(request).map(|(number, _)| number), error.root());
                let involved = [started_in, reached.filter(|root| Some(*root) != started_in)];
                let mut involved =
                    involved.into_iter().flatten().filter_map(|number| self.root(number).ok());
                match error.reason() {
                    // A request that leaves the roots is refused, whether or not a root is
                    // available.
                    Code::OutsideRoots => error,
                    _ if involved.all(Root::verify) => error,
                    _ => Code::RootUnavailable.into(),
                }
            })
        };
        counted(device, answer)
    }
}

impl CheckedPath {
    /// The root that contains the place.
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

    /// Whether the place existed when it was checked.
    #[must_use]
    pub fn exists(&self) -> bool {
        !matches!(self.found, Found::Missing(_))
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
        // Joining an empty path would add a trailing slash.
        if self.relative.as_os_str().is_empty() {
            self.root.path().to_owned()
        } else {
            self.root.path().join(&self.relative)
        }
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

    /// Runs an operation on this proof, and retries it while the path changes concurrently. An
    /// error names the operation and the request. After an error, only the proof's own root is
    /// verified.
    pub(crate) fn perform<T>(
        &self,
        operation: &'static str,
        work: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let device = || Some(self.root.identity.device);
        counted(device, || retry_changed(|| self.operate(&work)))
            .map_err(|error| self.roots.log_refusal(error.at(operation, self.request.sent())))
    }

    /// Runs an operation once. After an error, it verifies the root. If the root's paths no longer
    /// resolve to it, the error is [`RootUnavailable`](Code::RootUnavailable).
    pub(crate) fn operate<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let device = || Some(self.root.identity.device);
        counted(device, || {
            work().map_err(
                |error| if self.root.verify() { error } else { Code::RootUnavailable.into() },
            )
        })
    }

    /// Returns the handle beneath which to operate, and the path relative to it.
    pub(crate) fn place(&self) -> Result<(Arc<Handle>, PathBuf)> {
        Ok((self.root.handle()?, self.root.beneath_handle(&self.relative)))
    }

    pub(crate) fn ensure_writable(&self) -> Result<()> {
        match self.root.access() {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Code::ReadOnly.into()),
        }
    }

    /// Refuses an operation that would remove or move a root of this snapshot, an enclosing root,
    /// or a directory that contains one.
    pub(crate) fn ensure_not_root(&self) -> Result<()> {
        let canonical = self.canonical();
        let enclosing =
            self.root.enclosing().is_some_and(|enclosing| enclosing.index().holds(&canonical));
        if enclosing || self.roots.index().holds(&canonical) {
            return Err(Code::RootItself.into());
        }
        Ok(())
    }

    /// Like [`ensure_not_root`](Self::ensure_not_root), but recognizes such a directory or file
    /// under another name, for example through a bind mount, or in a different case on a
    /// case-insensitive filesystem. Call this for a name in its open directory, immediately before
    /// the name is removed, renamed or replaced.
    pub(crate) fn ensure_not_root_alias(&self, directory: &Handle, name: &OsStr) -> Result<()> {
        match directory.look_in(name, Rule::Allow)? {
            Look::Other(metadata) if metadata.is_dir() => {
                let mut seen = HashSet::new();
                for root in self.roots_and_enclosing() {
                    // Defense: root-by-another-name-is-kept
                    if root.is_at_or_below(metadata.identity(), &mut seen)? {
                        return Err(Code::RootItself.into());
                    }
                }
                Ok(())
            }
            Look::Other(_) => self.ensure_not_file_root_alias(directory, name),
            _ => Ok(()),
        }
    }

    /// Like [`ensure_not_root_alias`](Self::ensure_not_root_alias), for an operation that does not
    /// affect directories.
    pub(crate) fn ensure_not_file_root_alias(
        &self,
        directory: &Handle,
        name: &OsStr,
    ) -> Result<()> {
        let mut files = self
            .roots_and_enclosing()
            .filter_map(|root| Some((root, root.leaf.as_ref()?)))
            .peekable();
        if files.peek().is_none() {
            return Ok(());
        }
        let here = directory.identity()?;
        let look = |name: &OsStr| directory.look_in(name, Rule::Allow);
        let Look::Other(found) = look(name)? else { return Ok(()) };
        let is_found = |leaf: &OsStr| match look(leaf) {
            Ok(Look::Other(leaf)) => leaf.identity() == found.identity(),
            _ => false,
        };
        if files.any(|(root, leaf)| root.identity == here && is_found(leaf)) {
            return Err(Code::RootItself.into());
        }
        Ok(())
    }

    fn roots_and_enclosing(&self) -> impl Iterator<Item = &Root> {
        self.roots.roots().chain(self.root.enclosing().into_iter().flat_map(Roots::roots))
    }

    /// Returns an error unless the entry may be removed, renamed or replaced. The entry must be
    /// writable, must have been checked with [`Intent::NoFollow`], and must neither be nor contain
    /// a root. The request must not end in `.` or `..`.
    pub(crate) fn ensure_removable(&self) -> Result<()> {
        self.ensure_writable()?;
        self.ensure_not_root()?;
        if self.intent != Intent::NoFollow {
            return Err(Code::WrongIntent.into());
        }
        match components(self.request.as_os_str()).last() {
            Some((name, _)) if name == "." || name == ".." => Err(Code::DotName.into()),
            _ => Ok(()),
        }
    }
}

/// Compares only the places, as described at [`CheckedPath`].
impl PartialEq for CheckedPath {
    fn eq(&self, other: &Self) -> bool {
        self.root.object() == other.root.object() && self.relative == other.relative
    }
}

impl Eq for CheckedPath {}

impl Hash for CheckedPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.root.object().hash(state);
        self.relative.hash(state);
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
        // The root is always in the snapshot, so the default number is never used.
        let number =
            self.roots.roots().position(|root| std::ptr::eq(root, Arc::as_ptr(&self.root)));
        write!(f, "{place} in root {} ({})", number.unwrap_or_default(), quoted(name))
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
