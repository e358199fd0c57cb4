//! Immutable snapshots of the roots in force: [`Roots`].

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dir::Policy;
use crate::error::{Code, Error, Result};
use crate::events::SessionId;
use crate::path::Location;
use crate::path::index::{PathIndex, RootKind};
use crate::path::names::is_same;
use crate::roots::{RejectedRoot, Root, Throttle};
use crate::wire::ListRootsResult;
use crate::workers::Account;

/// An immutable snapshot of the roots in force, which is cheap to clone and share.
///
/// Create one from configuration with [`Roots::from_dirs`], from a client's list with
/// [`Roots::from_list`], or from both with a [`Boundary`](crate::Boundary).
#[derive(Clone)]
pub struct Roots {
    snapshot: Arc<Snapshot>,
    base: Option<usize>,
    /// The error with which relative requests are refused, if the client's list could not be
    /// obtained.
    failure: Option<Arc<Error>>,
    /// The session that uses these roots, for events.
    session: Option<SessionId>,
    /// The account to which the directories of narrowed snapshots are charged.
    account: Account,
    /// Set if these roots are valid only for one request.
    #[cfg(feature = "rmcp")]
    lease: Option<Arc<dyn Lease>>,
}

/// The request to which roots belong.
#[cfg(feature = "rmcp")]
pub(crate) trait Lease: Send + Sync {
    /// Whether the request has ended.
    fn has_ended(&self) -> bool;

    /// Returns an error if the request was cancelled or its client has changed its roots since.
    fn ensure_in_force(&self) -> Result<()>;
}

pub(crate) struct Snapshot {
    roots: Vec<Arc<Root>>,
    index: Arc<PathIndex>,
    policy: Policy,
    rejected: Arc<[RejectedRoot]>,
    /// The aliases that the operator declared for the allowed directories, if there are any.
    declared: Option<Arc<[DeclaredAlias]>>,
    /// All allowed directories, if some of a client's roots are directories that are always in
    /// force. A client must not remove the other allowed directories through these roots.
    allowed: Option<Roots>,
    /// For a client's roots, the number of roots that its list put in force. The directories that
    /// are always in force follow them.
    listed: Option<usize>,
    /// The original list, if it may have to be resolved again.
    list: Option<Arc<ListRootsResult>>,
    /// The generation of the allowed directories, as counted by the boundary. These roots either
    /// are those directories or were resolved beneath them.
    generation: u64,
    /// Whether resolving the list again may give a different result, for example because a root is
    /// gone.
    outdated: Arc<AtomicBool>,
    verified: Throttle,
    /// Whether the snapshot was created by [`Roots::narrowed_to`].
    is_narrowed: bool,
}

/// An alias that the operator declared for an allowed directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredAlias {
    pub(crate) path: PathBuf,
    /// The canonical path of the directory.
    pub(crate) target: PathBuf,
    /// Whether the alias resolves to the directory on this system.
    pub(crate) is_here: bool,
}

/// The exclusive right to verify a snapshot, which ends when this value is dropped. If the snapshot
/// was not verified by then, the next caller gets the right at once.
pub(crate) struct Verification {
    roots: Roots,
    is_done: bool,
}

impl Verification {
    /// Verifies every root, and returns the number of unavailable roots.
    ///
    /// Marks the snapshot as outdated if a root is unavailable. A client's snapshot is also marked
    /// if a rejected entry could be granted now. The mark affects all sessions that share the
    /// snapshot.
    pub(crate) fn verify(&mut self) -> usize {
        self.is_done = true;
        let gone = self.roots.roots().filter(|root| !root.verify_all()).count();
        let is_clients = self.roots.list().is_some();
        let lacks = || self.roots.rejected().iter().any(RejectedRoot::is_transient);
        if gone > 0 || is_clients && lacks() {
            self.roots.set_outdated(true);
        }
        gone
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }
}

impl Drop for Verification {
    fn drop(&mut self) {
        if self.is_done {
            self.roots.snapshot.verified.done();
        } else {
            self.roots.snapshot.verified.give_back();
        }
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.roots()).finish()
    }
}

impl Roots {
    /// The roots, in the order of their list. The directories that are
    /// [always](crate::DirectoryOptions::always) in force follow those of a client's list.
    pub fn roots(&self) -> impl ExactSizeIterator<Item = &Root> {
        self.snapshot.roots.iter().map(Arc::as_ref)
    }

    /// The rejected entries, which grant nothing, in the order of their list.
    #[must_use]
    pub fn rejected(&self) -> &[RejectedRoot] {
        &self.snapshot.rejected
    }

    /// Whether there are no roots, so that every request is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshot.roots.is_empty()
    }

    /// Returns the same roots, with relative requests resolved against the root at `path` (its
    /// canonical path or an alias) instead of the first root.
    ///
    /// # Errors
    ///
    /// [`OutsideRoots`](crate::ErrorKind::OutsideRoots) if no root has that path.
    pub fn with_base(&self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let location = Location::from_path(path).ok().map(|it| it.with_separators(self.index()));
        let path = location.as_ref().map_or(path, Location::as_path);
        let base = self.roots().position(|root| root.paths().any(|alias| is_same(alias, path)));
        let begin = || self.index().begin(path.as_os_str()).filter(|(_, rest)| rest.is_empty());
        let declared = || begin().filter(|_| self.index().is_absolute(path.as_os_str()));
        match base.or_else(|| declared().map(|(root, _)| root)) {
            Some(base) => Ok(Self { base: Some(base), ..self.clone() }),
            None => {
                Err(self.explain_empty(Code::OutsideRoots.into()).at("set base", path.as_os_str()))
            }
        }
    }

    /// Returns the same roots, with relative requests resolved against the root with this number.
    pub(crate) fn with_base_number(&self, base: Option<usize>) -> Self {
        Self { base, ..self.clone() }
    }

    /// Verifies that every root's paths still resolve to the same object, with a few system calls
    /// for each root. Skips the verification if the last one was within
    /// [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY), or if another caller is performing one.
    /// Returns false if any root is known to be unavailable, and true otherwise.
    ///
    /// [`Boundary::allowed_roots`](crate::Boundary::allowed_roots) verifies the allowed directories
    /// in the same way.
    #[must_use]
    pub fn verify(&self) -> bool {
        if let Some(mut turn) = self.begin_verification() {
            turn.verify();
        }
        self.is_whole()
    }

    /// Whether enough time has passed for the next verification.
    pub(crate) fn is_verification_due(&self) -> bool {
        self.snapshot.verified.is_due()
    }

    /// Takes the exclusive right to verify. Returns `None` if too little time has passed since the
    /// last verification, or if another caller has the right and is not stalled
    /// ([`VERIFY_STALLED`](crate::limits::VERIFY_STALLED)).
    pub(crate) fn begin_verification(&self) -> Option<Verification> {
        let due = self.snapshot.verified.take();
        due.then(|| Verification { roots: self.clone(), is_done: false })
    }

    /// Allows the next verification now, unless one is in progress.
    pub(crate) fn expire_verification(&self) {
        self.snapshot.verified.expire();
    }

    /// Whether resolving the list again may give a different result, because a root was found to be
    /// gone, a missing entry may have become available, or the list was resolved to different roots
    /// for another session.
    pub(crate) fn is_outdated(&self) -> bool {
        self.snapshot.outdated.load(Ordering::Relaxed)
    }

    pub(crate) fn set_outdated(&self, outdated: bool) {
        self.snapshot.outdated.store(outdated, Ordering::Relaxed);
    }

    /// Returns false if any root is known to be unavailable.
    pub(crate) fn is_whole(&self) -> bool {
        self.roots().all(Root::is_available)
    }

    /// The list from which these roots were resolved, if it was stored.
    pub(crate) fn list(&self) -> Option<&Arc<ListRootsResult>> {
        self.snapshot.list.as_ref()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.snapshot.generation
    }

    /// Sets the generation. This has no effect once the snapshot is shared.
    pub(crate) fn with_generation(mut self, generation: u64) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.generation = generation;
        }
        self
    }

    /// Selects the allowed directories that are always in force, for a client whose list could not
    /// be obtained.
    pub(crate) fn always_despite(&self, failure: &Error) -> Self {
        let mut always = self.select(Root::is_always, None);
        // Defense: Relative requests need a list that the client answered.
        always.base = None;
        always.failure = Some(Arc::new(failure.repeated()));
        always
    }

    /// Whether the client's list could not be obtained, so that only the directories that are
    /// always in force are served.
    #[cfg(feature = "rmcp")]
    pub(crate) fn is_despite_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns these allowed directories as the roots of a client that sent an empty list.
    pub(crate) fn of_empty_list(&self) -> Self {
        self.select(|_| true, Some(self.roots().len()))
    }

    /// Returns the selected roots, which both snapshots share.
    fn select(&self, is_selected: impl Fn(&Root) -> bool, listed: Option<usize>) -> Self {
        let roots = self.shared_roots().filter(|root| is_selected(root)).collect();
        let declared = self.declared().cloned();
        Self::assemble(Vec::new(), roots, listed, declared, self.policy(), Vec::new())
            .with_generation(self.generation())
            .among(self)
    }

    /// Records all allowed directories in a snapshot that contains some of them. This has no effect
    /// once the snapshot is shared.
    pub(crate) fn among(mut self, allowed: &Self) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.allowed = Some(allowed.clone());
        }
        self
    }

    /// These roots and, if some of them are always in force, all allowed directories.
    pub(crate) fn with_allowed(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.snapshot.allowed.as_ref())
    }

    /// If there are no roots, replaces the text of an `OutsideRoots` error with the reason why
    /// there are none, which is the same for every request. Returns any other error unchanged.
    pub(crate) fn explain_empty(&self, error: Error) -> Error {
        if self.is_empty() && error.reason() == Code::OutsideRoots {
            self.explain(error)
        } else {
            error
        }
    }

    /// The error for a relative request if there is no root at which it could start.
    pub(crate) fn without_base(&self) -> Error {
        match &self.failure {
            Some(failure) => failure.repeated(),
            None => self.explain(Code::OutsideRoots.into()),
        }
    }

    fn explain(&self, error: Error) -> Error {
        error.says(match (self.snapshot.listed.is_some(), self.rejected().is_empty()) {
            (true, true) => "the client listed no directories",
            (true, false) => "none of the directories that the client listed is allowed",
            (false, true) => "the server has no directories configured",
            (false, false) => "none of the server's directories is available",
        })
    }

    /// Stores the original list. This has no effect once the snapshot is shared.
    pub(crate) fn with_list(mut self, list: &Arc<ListRootsResult>) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.list = Some(list.clone());
        }
        self
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns the same roots, associated with a session and the account of its client.
    pub(crate) fn for_session(&self, session: SessionId, account: &Account) -> Self {
        Self {
            snapshot: self.snapshot.clone(),
            base: self.base,
            failure: self.failure.clone(),
            session: Some(session),
            account: account.clone(),
            #[cfg(feature = "rmcp")]
            lease: self.lease.clone(),
        }
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns a snapshot that contains only `root`, for the same session and request. Relative
    /// requests start at this root.
    pub(crate) fn narrowed_to(&self, root: Root) -> Self {
        let declared = self.declared().cloned();
        let Self { mut snapshot, base, .. } =
            Self::assemble(vec![root], Vec::new(), None, declared, self.policy(), Vec::new());
        if let Some(snapshot) = Arc::get_mut(&mut snapshot) {
            snapshot.generation = self.generation();
            snapshot.is_narrowed = true;
        }
        // Defense: Narrowed roots end with the request that they came from.
        Self { snapshot, base, failure: None, ..self.clone() }
    }

    /// Returns the roots beneath which a directory inside `root` is verified, where `root` is one
    /// of these roots. If these roots are narrowed, the result is the snapshot from which they were
    /// first narrowed, and otherwise these roots. A repeatedly narrowed snapshot therefore keeps
    /// only one other snapshot alive.
    pub(crate) fn enclosing_for(&self, root: &Root) -> Self {
        match root.enclosing() {
            Some(first) if self.snapshot.is_narrowed => first.clone(),
            _ => Self::from_snapshot(self.snapshot.clone()),
        }
    }

    /// Returns the same roots, all of them read-only.
    pub(crate) fn with_read_only_access(&self) -> Self {
        let own = &*self.snapshot;
        let snapshot = Snapshot {
            roots: own.roots.iter().map(|root| Arc::new(root.with_read_only_access())).collect(),
            index: own.index.clone(),
            policy: own.policy,
            rejected: own.rejected.clone(),
            declared: own.declared.clone(),
            // The directories remain writable for others.
            allowed: own
                .allowed
                .clone()
                .or_else(|| Some(Self::from_snapshot(self.snapshot.clone()))),
            listed: own.listed,
            list: None,
            generation: own.generation,
            outdated: own.outdated.clone(),
            verified: Throttle::new(),
            is_narrowed: own.is_narrowed,
        };
        Self { snapshot: Arc::new(snapshot), ..self.clone() }
    }

    /// Returns the same roots with a lease. These roots and their clones are valid until the lease
    /// has ended.
    #[cfg(feature = "rmcp")]
    pub(crate) fn with_lease(self, lease: Arc<dyn Lease>) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Returns an error if the request to which these roots belong has ended. Without the feature
    /// `rmcp`, roots belong to no request.
    #[cfg_attr(not(feature = "rmcp"), allow(clippy::unused_self, clippy::unnecessary_wraps))]
    pub(crate) fn ensure_active(&self) -> Result<()> {
        #[cfg(feature = "rmcp")]
        if self.lease.as_ref().is_some_and(|lease| lease.has_ended()) {
            let text = "the request that these roots belong to has ended, or its RequestRoots was \
                        dropped; obtain roots for each request, and keep RequestRoots while its \
                        clones are in use";
            return Err(Error::new(Code::RootsStale).says(text));
        }
        Ok(())
    }

    /// Like [`ensure_active`](Self::ensure_active). Also returns an error if the request was
    /// cancelled, or if its client has changed its roots since they were obtained.
    #[cfg_attr(shuttle, allow(dead_code))]
    pub(crate) fn ensure_in_force(&self) -> Result<()> {
        #[cfg(feature = "rmcp")]
        if let Some(lease) = &self.lease {
            lease.ensure_in_force()?;
        }
        self.ensure_active()
    }

    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// A snapshot without roots.
    #[cfg(feature = "rmcp")]
    pub(crate) fn empty() -> Self {
        Self::new(Vec::new(), Policy::default(), Vec::new())
    }

    /// A hash of the list and of the paths to which it resolved.
    pub(crate) fn list_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for entry in self.list().iter().flat_map(|list| &list.roots) {
            entry.uri.hash(&mut hasher);
            entry.name.hash(&mut hasher);
        }
        for root in self.roots() {
            root.path().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether both snapshots were resolved from the same list to the same roots, look the same to
    /// callers, and have only available roots.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let (one, two) = (&*self.snapshot, &*other.snapshot);
        one.list == two.list
            && one.policy == two.policy
            && one.declared == two.declared
            && one.roots.len() == two.roots.len()
            && one.roots.iter().zip(&two.roots).all(|(one, two)| one.is_equivalent(two))
            && one.rejected.len() == two.rejected.len()
            && one.rejected.iter().zip(&*two.rejected).all(|(one, two)| one.is_equivalent(two))
            && self.is_whole()
            && other.is_whole()
    }

    pub(crate) fn is_same_snapshot(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }

    pub(crate) fn new(roots: Vec<Root>, policy: Policy, rejected: Vec<RejectedRoot>) -> Self {
        Self::assemble(roots, Vec::new(), None, None, policy, rejected)
    }

    /// Creates a snapshot of new roots, followed by roots that are shared with another snapshot.
    pub(crate) fn assemble(
        mut roots: Vec<Root>,
        shared: Vec<Arc<Root>>,
        listed: Option<usize>,
        declared: Option<Arc<[DeclaredAlias]>>,
        policy: Policy,
        rejected: Vec<RejectedRoot>,
    ) -> Self {
        let mut index = PathIndex::default();
        let outdated = Arc::new(AtomicBool::new(false));
        for root in &mut roots {
            root.outdated = outdated.clone();
            // The snapshot may live as long as a session.
            root.canonical.shrink_to_fit();
            root.aliases.shrink_to_fit();
            root.aliases.iter_mut().for_each(PathBuf::shrink_to_fit);
        }
        let mut roots: Vec<_> = roots.into_iter().map(Arc::new).chain(shared).collect();
        for root in &roots {
            index.add(
                &root.canonical,
                if root.is_file() { RootKind::File } else { RootKind::Directory },
            );
        }
        for (number, root) in roots.iter().enumerate() {
            root.aliases.iter().for_each(|alias| index.add_alias(alias, number));
        }
        for alias in declared.iter().flat_map(|declared| declared.iter()) {
            index.declare(&alias.path, &alias.target, alias.is_here);
        }
        index.shrink();
        roots.shrink_to_fit();
        let verified = Throttle::new();
        let (list, generation) = (None, 0);
        let snapshot = Snapshot {
            roots,
            index: Arc::new(index),
            policy,
            rejected: rejected.into(),
            declared,
            allowed: None,
            listed,
            list,
            generation,
            outdated,
            verified,
            is_narrowed: false,
        };
        Self::from_snapshot(Arc::new(snapshot))
    }

    pub(crate) fn from_snapshot(snapshot: Arc<Snapshot>) -> Self {
        let own = snapshot.listed.unwrap_or(snapshot.roots.len());
        let base = (own > 0).then_some(0);
        Self {
            snapshot,
            base,
            failure: None,
            session: None,
            account: Account::Anonymous,
            #[cfg(feature = "rmcp")]
            lease: None,
        }
    }

    pub(crate) fn root(&self, number: usize) -> Result<&Root> {
        self.snapshot.roots.get(number).map(Arc::as_ref).ok_or_else(|| Code::OutsideRoots.into())
    }

    /// Whether these are the filesystem root or, on Windows, whole volumes.
    pub(crate) fn is_filesystem_root(&self) -> bool {
        self.roots().all(Root::is_filesystem_root)
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

    pub(crate) fn index(&self) -> &PathIndex {
        &self.snapshot.index
    }

    pub(crate) fn policy(&self) -> Policy {
        self.snapshot.policy
    }

    pub(crate) fn base(&self) -> Option<usize> {
        self.base
    }
}
