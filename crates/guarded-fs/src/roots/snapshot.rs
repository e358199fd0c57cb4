//! Immutable snapshots of the roots in force: [`Roots`].

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dir::{Access, Policy};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::{NODE_BYTES, ROOT_BYTES, ROOTS_NAMED};
use crate::path::IntoLocation;
use crate::path::index::PathIndex;
use crate::path::names::{components, is_same, path_key};
use crate::path::protect::ProtectedNames;
use crate::roots::scope::{BegunScope, NestedScope};
use crate::roots::{RejectedEntry, Root, Scope, StopHandle};

/// An immutable snapshot of the roots in force, cheap to clone and share. [`Roots::from_dirs`]
/// makes one from configuration, and a [`Boundary`](crate::Boundary) also from a client's list.
///
/// The operations that most tools need are methods of this type, which check a request and operate
/// in one step. All others are methods of two proofs. [`check`](Self::check) follows every symlink
/// and returns a [`CheckedPath`](crate::CheckedPath), a place to read or write.
/// [`check_entry`](Self::check_entry) does not follow a symlink at the end of the path and returns
/// a [`CheckedEntry`](crate::CheckedEntry), a directory entry to remove, rename, link or describe.
///
/// What [`std::fs`] has and this type has not: for `hard_link`, `symlink` and `read_link`, the
/// methods of an entry; for `set_permissions` and `set_times`,
/// [`set_attribute`](crate::CheckedPath::set_attribute); for `canonicalize`, `check`; for
/// `OpenOptions`, [`open_with`](Self::open_with).
#[derive(Clone)]
pub struct Roots {
    snapshot: Arc<Snapshot>,
    /// The root at which relative requests start.
    base: Option<usize>,
    scope: Option<Arc<dyn Scope>>,
}

#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) roots: Vec<Arc<Root>>,
    pub(crate) index: Arc<PathIndex>,
    pub(crate) policy: Policy,
    pub(crate) protected: Option<Arc<ProtectedNames>>,
    pub(crate) rejected: Arc<[RejectedEntry]>,
    pub(crate) declared: Option<Arc<[DeclaredAlias]>>,
    /// The paths that missing allowed directories would have, whose names are not created.
    pub(crate) planned: Arc<[(PathBuf, Access)]>,
    /// For a client's roots, all allowed directories. None may be removed through them.
    pub(crate) allowed: Option<Roots>,
    pub(crate) why_none: Option<WhyNone>,
    pub(crate) failure: Option<Arc<Error>>,
}

/// Why [no directory is in force](Roots::why_none). `Display` writes it as a sentence for the
/// sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhyNone {
    /// The boundary grants [only what is listed](crate::Boundary::any_listed), and no list was
    /// given.
    Unconfigured,
    /// The boundary grants [nothing](crate::Boundary::nothing), whatever is listed.
    NothingGranted,
    /// None of the allowed directories is there.
    Unavailable,
    /// The list is empty.
    NoneListed,
    /// Every entry of the list was [rejected](Roots::rejected).
    NoneAllowed,
}

impl WhyNone {
    fn text(self) -> &'static str {
        match self {
            Self::Unconfigured => "the server has no directories configured",
            Self::NothingGranted => "no access to files is granted",
            Self::Unavailable => "none of the server's directories is available",
            Self::NoneListed => "the client listed no directories",
            Self::NoneAllowed => "none of the directories that the client listed is allowed",
        }
    }
}

impl fmt::Display for WhyNone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredAlias {
    pub(crate) path: PathBuf,
    /// The canonical path of the allowed directory.
    pub(crate) target: PathBuf,
    /// Whether `path` resolves to it on this system.
    pub(crate) is_here: bool,
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Roots {
    /// The roots, in the order of their list. Directories that are
    /// [always](crate::DirectoryOptions::always) in force, and not in the list, follow.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Root> {
        self.snapshot.roots.iter().map(Arc::as_ref)
    }

    /// The rejected entries, which grant nothing, in the order of their list.
    #[must_use]
    pub fn rejected(&self) -> &[RejectedEntry] {
        &self.snapshot.rejected
    }

    /// See [`ResolvedRoots::weight`](crate::host::ResolvedRoots::weight).
    pub(crate) fn heap_size(&self) -> usize {
        let of_root = |root: &Root| {
            let paths = root.paths().map(|path| path.as_os_str().len()).sum::<usize>();
            let listed = root.client_path.as_ref().map_or(0, String::len);
            ROOT_BYTES + paths + root.names.as_os_str().len() + listed
        };
        let rejected = self.rejected().iter().map(|rejected| ROOT_BYTES + rejected.entry().len());
        size_of::<Snapshot>()
            + NODE_BYTES * self.index().nodes()
            + self.iter().map(of_root).chain(rejected).sum::<usize>()
    }

    /// Why the list or the configuration put no directory in force, if it put none. Directories
    /// that are [always](crate::DirectoryOptions::always) in force are served nevertheless.
    #[must_use]
    pub fn why_none(&self) -> Option<WhyNone> {
        self.snapshot.why_none
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.snapshot.roots.is_empty()
    }

    /// Returns the same roots, with relative requests resolved against the root that `root` names
    /// (its canonical path or an alias, or either as a URI) instead of the first.
    ///
    /// # Errors
    ///
    /// The errors of [`Location::parse`](crate::Location::parse);
    /// [`OutsideRoots`](crate::ErrorKind::OutsideRoots) if no root has that path.
    pub fn with_base(&self, root: impl IntoLocation) -> Result<Self> {
        let location = root.try_into().map_err(Into::into)?.with_separators(self.index());
        let path = location.as_unchecked_path();
        let base = self.iter().position(|root| root.paths().any(|alias| is_same(alias, path)));
        let begin =
            || self.index().strip_root(path.as_os_str()).filter(|(_, rest)| rest.is_empty());
        let declared = || begin().filter(|_| self.index().is_absolute(path.as_os_str()));
        match base.or_else(|| declared().map(|(root, _)| root)) {
            Some(base) => Ok(Self { base: Some(base), ..self.clone() }),
            None => Err(self
                .with_reason(Code::OutsideRoots.into())
                .with_request("set base", location.sent())),
        }
    }

    pub(crate) fn with_base_number(self, base: Option<usize>) -> Self {
        Self { base, ..self }
    }

    pub(crate) fn always_in_force(&self, failure: &Error) -> Self {
        let roots = self.shared_roots().filter(|root| root.is_always).collect();
        // Defense: Relative requests need a list that the client answered.
        self.narrowed(roots, None, Some(Arc::new(failure.repeated())))
    }

    /// Why the client's list is not known, if only the directories that are
    /// [always](crate::DirectoryOptions::always) in force are served for that reason. Narrowed
    /// roots have the same failure.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        self.snapshot.failure.as_deref()
    }

    /// These roots and, for a client's, all allowed directories.
    pub(crate) fn with_allowed(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.snapshot.allowed.as_ref())
    }

    /// Adds to an `OutsideRoots` error why there are no roots. If the operator wants it, adds which
    /// ones there are or, to a `ReadOnly` error, which ones are writable. The text is the same for
    /// every request.
    pub(crate) fn with_reason(&self, error: Error) -> Error {
        let (what, is_named): (_, fn(&&Root) -> bool) = match error.reason() {
            Code::OutsideRoots if self.is_empty() => return self.why_empty(error),
            Code::OutsideRoots => ("allowed", |_| true),
            Code::ReadOnly => ("writable", |root| root.access == Access::ReadWrite),
            _ => return error,
        };
        if !self.policy().names_roots {
            return error;
        }
        let shown = |root: &Root| quoted(root.client_path().as_ref());
        let mut roots = self.iter().filter(is_named).map(shown);
        let mut names: Vec<_> = roots.by_ref().take(ROOTS_NAMED).collect();
        if names.is_empty() {
            names.push("nothing".to_owned());
        }
        let more = if roots.next().is_some() { ", …" } else { "" };
        error.with_outcome(format!("{what}: {}{more}", names.join(", ")))
    }

    /// The error for a relative request without a base.
    pub(crate) fn without_base(&self) -> Error {
        match self.failure() {
            Some(failure) => failure.repeated(),
            None => self.why_empty(Code::OutsideRoots.into()),
        }
    }

    fn why_empty(&self, error: Error) -> Error {
        if let Some(failure) = self.failure() {
            return error.with_text_of(failure);
        }
        let why_none = self.snapshot.why_none.filter(|_| self.is_empty());
        error.with_text(why_none.map_or(NO_START, WhyNone::text))
    }

    pub(crate) fn scope(&self) -> Option<&dyn Scope> {
        self.scope.as_deref()
    }

    #[inline]
    pub(crate) fn in_scope(self, scope: Arc<dyn Scope>) -> Self {
        let scope = match &self.scope {
            None => scope,
            Some(outer) => Arc::new(NestedScope { outer: outer.clone(), inner: scope }),
        };
        Self { scope: Some(scope), ..self }
    }

    /// Returns the same roots with a handle that stops them, for example when a user ends the turn
    /// of an agent. From then on, nothing begins through these roots or through what was made from
    /// them: no operation, no change, no next entry of a walk. What is open stays open. The table of
    /// [`Scope`] says when each operation asks.
    ///
    /// Roots that can end already, such as those of a request, then end with either.
    pub fn stoppable(self) -> (Self, StopHandle) {
        let handle = StopHandle::new();
        (self.in_scope(handle.scope()), handle)
    }

    fn without_scope(&self) -> Self {
        Self { scope: None, ..self.clone() }
    }

    /// The same roots for changes that have begun, which the end of the scope does not interrupt.
    pub(crate) fn begun(&self) -> Self {
        let begun = |scope: &Arc<dyn Scope>| Arc::new(BegunScope(scope.clone())) as _;
        Self { scope: self.scope.as_ref().map(begun), ..self.clone() }
    }

    /// Fails if the scope of these roots is over, as every operation does. Call this before each
    /// step of work that uses no roots, such as a long computation.
    ///
    /// # Errors
    ///
    /// The kind, code, text and operator's detail of the scope's error.
    #[inline]
    pub fn ensure_usable(&self) -> Result<()> {
        match &self.scope {
            None => Ok(()),
            Some(scope) => scope.ensure_usable().map_err(Error::into_custom),
        }
    }

    /// Only these roots, in the same scope. Relative requests start at the first.
    pub(crate) fn narrowed_to(&self, roots: Vec<Arc<Root>>) -> Self {
        self.narrowed(roots, Some(0), self.snapshot.failure.clone())
    }

    fn narrowed(
        &self,
        roots: Vec<Arc<Root>>,
        base: Option<usize>,
        failure: Option<Arc<Error>>,
    ) -> Self {
        let own = &*self.snapshot;
        let narrowed = Self::from(Snapshot {
            policy: own.policy,
            protected: own.protected.clone(),
            allowed: Some(own.allowed.as_ref().unwrap_or(self).without_scope()),
            failure,
            ..Snapshot::new(roots, own.declared.clone())
        })
        .with_base_number(base);
        // Defense: Narrowed roots end with the request that they came from.
        Self { scope: self.scope.clone(), ..narrowed }
    }

    pub(crate) fn with_read_only_access(&self) -> Self {
        let own = &*self.snapshot;
        let read_only =
            |root: &Arc<Root>| Arc::new(Root { access: Access::ReadOnly, ..Root::clone(root) });
        let snapshot = Snapshot {
            roots: own.roots.iter().map(read_only).collect(),
            // The directories remain writable for others.
            allowed: Some(own.allowed.clone().unwrap_or_else(|| self.without_scope())),
            ..own.clone()
        };
        Self { snapshot: Arc::new(snapshot), ..self.clone() }
    }

    pub(crate) fn root(&self, number: usize) -> Result<&Root> {
        self.snapshot.roots.get(number).map(Arc::as_ref).ok_or_else(|| Code::OutsideRoots.into())
    }

    pub(crate) fn only_root(&self) -> Option<&Root> {
        match self.snapshot.roots.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(crate) fn shared_root(&self, number: usize) -> Result<Arc<Root>> {
        self.snapshot.roots.get(number).cloned().ok_or_else(|| Code::OutsideRoots.into())
    }

    pub(crate) fn shared_roots(&self) -> impl Iterator<Item = Arc<Root>> {
        self.snapshot.roots.iter().cloned()
    }

    pub(crate) fn declared(&self) -> Option<&Arc<[DeclaredAlias]>> {
        self.snapshot.declared.as_ref()
    }

    /// Whether a root, or a missing allowed directory, is at this canonical path or below it.
    pub(crate) fn have_root_at_or_below(&self, canonical: &Path) -> bool {
        let is_inside =
            |(planned, _): &(PathBuf, Access)| path_key(planned).starts_with(path_key(canonical));
        self.index().has_root_at_or_below(canonical) || self.planned().iter().any(is_inside)
    }

    pub(crate) fn planned(&self) -> &[(PathBuf, Access)] {
        &self.snapshot.planned
    }

    #[inline]
    pub(crate) fn index(&self) -> &PathIndex {
        &self.snapshot.index
    }

    #[inline]
    pub(crate) fn policy(&self) -> Policy {
        self.snapshot.policy
    }

    pub(crate) fn protected(&self) -> Option<&ProtectedNames> {
        self.snapshot.protected.as_deref()
    }

    pub(crate) fn shared_protected(&self) -> Option<Arc<ProtectedNames>> {
        self.snapshot.protected.clone()
    }

    /// See [`Lookup::is_denied`](crate::roots::Lookup::is_denied).
    pub(crate) fn is_denied(&self, number: usize, path: &Path, names: usize) -> bool {
        let Some(protected) = self.protected().filter(|it| it.can_deny()) else { return false };
        let Ok(root) = self.root(number) else { return false };
        let place = [root.path(), path];
        if !protected.may_match(&place, root.consented()) {
            return false;
        }
        // Each name is compared as the last one of the place that it leads to.
        let outer = components(root.path().as_os_str()).count();
        let roots = self.index().roots_on(self.index().node(number), path);
        let inner: Vec<_> = roots.map(|(names, number)| (outer + names, number)).collect();
        let is_below = |end| {
            let innermost = inner.iter().rev().find(|(names, _)| *names <= end);
            let innermost = innermost.and_then(|(_, number)| self.root(*number).ok());
            end > innermost.unwrap_or(root).consented()
        };
        protected.denies_last_names(&place, names, is_below)
    }

    /// The innermost root that contains a place of plain names in a root, and the path there.
    pub(crate) fn innermost(&self, number: usize, path: PathBuf) -> (usize, PathBuf) {
        let found = self.index().roots_on(self.index().node(number), &path).last();
        match found {
            Some((names @ 1.., number)) => (number, path.iter().skip(names).collect()),
            _ => (number, path),
        }
    }

    pub(crate) fn roots_below(&self, canonical: &Path) -> impl Iterator<Item = Arc<Root>> {
        let below = self.index().roots_below(canonical).into_iter();
        below.filter_map(|number| self.shared_root(number).ok())
    }

    #[inline]
    pub(crate) fn base(&self) -> Option<usize> {
        self.base
    }
}

impl From<Snapshot> for Roots {
    fn from(snapshot: Snapshot) -> Self {
        Self { base: None, snapshot: Arc::new(snapshot), scope: None }
    }
}

impl Snapshot {
    /// A snapshot of these roots, with no spare capacity, because it may live as long as a session.
    pub(crate) fn new(mut roots: Vec<Arc<Root>>, declared: Option<Arc<[DeclaredAlias]>>) -> Self {
        let mut index = PathIndex::default();
        for root in &roots {
            index.add(&root.canonical, root.kind);
        }
        for (number, root) in roots.iter().enumerate() {
            root.aliases.iter().for_each(|alias| index.add_alias(alias, number));
        }
        for alias in declared.iter().flat_map(|declared| declared.iter()) {
            index.declare(&alias.path, &alias.target, alias.is_here);
        }
        index.shrink();
        roots.shrink_to_fit();
        Self { roots, index: Arc::new(index), declared, ..Self::default() }
    }
}

const NO_START: &str = "the first directory that the client listed is not available, so relative \
                        paths have no start: use an absolute path";
