//! The roots in force: an immutable snapshot.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dir::Policy;
use crate::error::{Code, Error, Result};
use crate::events::SessionId;
use crate::path::index::{PathIndex, RootKind};
use crate::path::names::is_same;
use crate::roots::{RejectedRoot, Root, Throttle};
use crate::wire::ListRootsResult;
#[cfg(feature = "rmcp")]
use tokio_util::sync::CancellationToken;

/// The roots in force: an immutable snapshot, cheap to clone and share.
///
/// Create one from configuration with [`Roots::from_dirs`], from a client's list with
/// [`Roots::from_list`], or with a [`Boundary`](crate::Boundary) if both apply.
#[derive(Clone)]
pub struct Roots {
    snapshot: Arc<Snapshot>,
    base: Option<usize>,
    /// The session that uses it, for events.
    session: Option<SessionId>,
    /// Set if these roots are for one request: cancelled when it is over.
    #[cfg(feature = "rmcp")]
    lease: Option<CancellationToken>,
}

pub(crate) struct Snapshot {
    roots: Vec<Arc<Root>>,
    index: PathIndex,
    policy: Policy,
    rejected: Vec<RejectedRoot>,
    /// Whether these come from a client's list.
    is_listed: bool,
    /// The list, if it may have to be resolved again.
    list: Option<Arc<ListRootsResult>>,
    /// The generation of the allowed directories that these are, or were resolved beneath. The
    /// boundary counts them.
    generation: u64,
    /// Whether resolving the list again may give a different result, for example because a root is
    /// gone.
    outdated: Arc<AtomicBool>,
    verified: Throttle,
}

/// The turn to verify a snapshot. It ends when this is dropped; if nothing was verified, the next
/// caller gets the turn.
pub(crate) struct Verification {
    roots: Roots,
    is_done: bool,
}

impl Verification {
    /// Verifies every root and returns how many are unavailable.
    ///
    /// Marks the snapshot as outdated if a root is unavailable, and a client's snapshot also if a
    /// rejected entry may be available now, for all sessions that share it.
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
    /// The roots, in the order of their list.
    pub fn roots(&self) -> impl ExactSizeIterator<Item = &Root> {
        self.snapshot.roots.iter().map(Arc::as_ref)
    }

    /// The entries that grant nothing, in the order of their list.
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
        let base = self.roots().position(|root| root.paths().any(|alias| is_same(alias, path)));
        match base {
            Some(base) => Ok(Self { base: Some(base), ..self.clone() }),
            None => {
                Err(self.explain_empty(Code::OutsideRoots.into()).at("set base", path.as_os_str()))
            }
        }
    }

    /// Verifies that every root's names still lead to the object that was resolved, with a few
    /// system calls for each root. Does nothing if that was done within the last
    /// [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY), or another caller is doing it. Returns true
    /// if no root is known to be unavailable.
    ///
    /// A [`Boundary`](crate::Boundary) calls this whenever a snapshot is taken.
    #[must_use]
    pub fn verify(&self) -> bool {
        if let Some(mut turn) = self.begin_verification() {
            turn.verify();
        }
        self.is_whole()
    }

    /// Whether the next verification is due.
    pub(crate) fn is_verification_due(&self) -> bool {
        self.snapshot.verified.is_due()
    }

    /// Takes the turn to verify, if verification is due. No other caller gets it until this one is
    /// dropped or [`VERIFY_STALLED`](crate::limits::VERIFY_STALLED) has passed.
    pub(crate) fn begin_verification(&self) -> Option<Verification> {
        let due = self.snapshot.verified.take();
        due.then(|| Verification { roots: self.clone(), is_done: false })
    }

    /// Makes verification due now, unless somebody is verifying.
    pub(crate) fn expire_verification(&self) {
        self.snapshot.verified.expire();
    }

    /// Whether resolving the list again may give a different result: a root was found to be gone,
    /// an entry that was missing may be available, or the list was resolved to something else for
    /// another session.
    pub(crate) fn is_outdated(&self) -> bool {
        self.snapshot.outdated.load(Ordering::Relaxed)
    }

    pub(crate) fn set_outdated(&self, outdated: bool) {
        self.snapshot.outdated.store(outdated, Ordering::Relaxed);
    }

    /// Whether every root is available, as far as is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.roots().all(Root::is_available)
    }

    /// The list that it was resolved from, if it was stored.
    pub(crate) fn list(&self) -> Option<&Arc<ListRootsResult>> {
        self.snapshot.list.as_ref()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.snapshot.generation
    }

    /// Sets the generation. Call this before the snapshot is shared.
    pub(crate) fn with_generation(mut self, generation: u64) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.generation = generation;
        }
        self
    }

    /// Marks the snapshot as a client's list. Call this before the snapshot is shared.
    pub(crate) fn listed_by_client(mut self) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.is_listed = true;
        }
        self
    }

    /// Adds the reason why there are no roots to a refusal. It is the same for every request.
    pub(crate) fn explain_empty(&self, error: Error) -> Error {
        if !self.is_empty() || error.reason() != Code::OutsideRoots {
            return error;
        }
        error.says(match (self.snapshot.is_listed, self.rejected().is_empty()) {
            (true, true) => "the client listed no directories",
            (true, false) => "none of the directories that the client listed is allowed",
            (false, true) => "the server has no directories configured",
            (false, false) => "none of the server's directories is available",
        })
    }

    /// Stores the list. Call this before the snapshot is shared.
    pub(crate) fn with_list(mut self, list: &Arc<ListRootsResult>) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.list = Some(list.clone());
        }
        self
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns the same roots for a session.
    pub(crate) fn for_session(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Returns the same roots, valid until the lease is cancelled; so are all their clones.
    #[cfg(feature = "rmcp")]
    pub(crate) fn with_lease(self, lease: CancellationToken) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Returns an error once the request that these roots are for is over.
    #[cfg(feature = "rmcp")]
    pub(crate) fn ensure_active(&self) -> Result<()> {
        if self.lease.as_ref().is_some_and(CancellationToken::is_cancelled) {
            let text = "the request that these roots were for is over, or its RequestRoots was \
                        dropped: take roots for each request, and keep RequestRoots while clones \
                        are used";
            return Err(Error::new(Code::RootsStale).says(text));
        }
        Ok(())
    }

    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// A snapshot without roots.
    #[cfg(feature = "rmcp")]
    pub(crate) fn empty() -> Self {
        Self::new(Vec::new(), Policy::default(), Vec::new())
    }

    /// A hash of the list and of the paths that it resolved to.
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

    /// Whether both were resolved from the same list to the same roots, agree in everything that
    /// callers can observe, and no root is gone.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let (one, two) = (&*self.snapshot, &*other.snapshot);
        one.list == two.list
            && one.policy == two.policy
            && one.roots.len() == two.roots.len()
            && one.roots.iter().zip(&two.roots).all(|(one, two)| one.is_equivalent(two))
            && one.rejected.len() == two.rejected.len()
            && one.rejected.iter().zip(&two.rejected).all(|(one, two)| one.is_equivalent(two))
            && self.is_whole()
            && other.is_whole()
    }

    pub(crate) fn is_same_snapshot(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }

    pub(crate) fn new(
        mut roots: Vec<Root>,
        policy: Policy,
        mut rejected: Vec<RejectedRoot>,
    ) -> Self {
        let mut index = PathIndex::default();
        let outdated = Arc::new(AtomicBool::new(false));
        for root in &mut roots {
            root.outdated = outdated.clone();
            // The snapshot may live as long as a session.
            root.canonical.shrink_to_fit();
            root.aliases.shrink_to_fit();
            root.aliases.iter_mut().for_each(PathBuf::shrink_to_fit);
            index.add(
                &root.canonical,
                if root.is_file() { RootKind::File } else { RootKind::Directory },
            );
        }
        for (number, root) in roots.iter().enumerate() {
            root.aliases.iter().for_each(|alias| index.add_alias(alias, number));
        }
        index.shrink();
        let mut roots: Vec<_> = roots.into_iter().map(Arc::new).collect();
        roots.shrink_to_fit();
        rejected.shrink_to_fit();
        let verified = Throttle::new();
        let (is_listed, list, generation) = (false, None, 0);
        let snapshot = Snapshot {
            roots,
            index,
            policy,
            rejected,
            is_listed,
            list,
            generation,
            outdated,
            verified,
        };
        Self::from_snapshot(Arc::new(snapshot))
    }

    pub(crate) fn from_snapshot(snapshot: Arc<Snapshot>) -> Self {
        let base = if snapshot.roots.is_empty() { None } else { Some(0) };
        Self {
            snapshot,
            base,
            session: None,
            #[cfg(feature = "rmcp")]
            lease: None,
        }
    }

    pub(crate) fn root(&self, number: usize) -> Result<&Root> {
        self.snapshot.roots.get(number).map(Arc::as_ref).ok_or_else(|| Code::OutsideRoots.into())
    }

    /// Whether these are the filesystem root, or on Windows volumes.
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
