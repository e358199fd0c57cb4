//! The boundary: from a root list to the roots in force.
//!
//! A [`Boundary`] is the set of allowed directories in the server's configuration, built once. It
//! turns untrusted root lists into [`Roots`]. If there are allowed directories, nothing outside
//! them is ever in force. No entry grants what a symlink points to if a tool could have written
//! that symlink.
//!
//! Entries are resolved by the same resolver as requests: beneath the allowed directories, or
//! beneath `/` if there are none. An entry that leads out of the allowed directories is therefore
//! not looked up at all. With allowed directories, an entry has one of these results:
//!
//! - It leads into an allowed directory: it grants that place.
//! - It is an ancestor of allowed directories: it grants those.
//! - It leads elsewhere: it grants nothing ([`OutsideRoots`](crate::ErrorKind::OutsideRoots)).
//! - It runs through a symlink in a root granted earlier or by the same list: it grants nothing
//!   ([`RootRejected`](crate::ErrorKind::RootRejected), `through_link`). An allowed directory that
//!   was granted as a whole does not count as such a root.
//! - It leads to the same place as an earlier entry: it adds an alias to that root and is rejected
//!   ([`RootRejected`](crate::ErrorKind::RootRejected), `duplicate`).
//!
//! Without allowed directories, an entry grants the place that it names, and the last two rules
//! apply to every root.

mod grants;
mod entries;
mod volumes;
mod builder;
mod pending;
#[cfg(all(target_os = "linux", feature = "landlock"))]
mod confine;

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::builder::BoundaryBuilder;
use self::builder::Directory;
use self::pending::{PendingRoots, conflicts};
use crate::boundary::entries::{Entry, EntryResolver};
use crate::boundary::grants::{Candidate, GrantMemory};
use crate::dir::{Access, Budget, Effort, Policy};
use crate::error::{Code, Error, Result};
use crate::path::Location;
use crate::roots::{
    Intent, Lookups, Place, RejectedRoot, Roots, Snapshot, Verification, WeakTable, resolve,
    retry_changed,
};
use crate::wire::ListRootsResult;
use crate::workers::Account;

/// The allowed directories of a server, and the memory of what it granted. Built once, shared by
/// all clients.
///
/// ```no_run
/// use mcp_roots_guard::{Access, Boundary, ListRootsResult};
///
/// let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
/// // A client's list narrows the allowed directories, and never widens them.
/// let list = ListRootsResult::from_uris(["file:///srv/projects/site", "file:///etc"]);
/// let roots = boundary.resolve(&list)?;
/// assert_eq!(roots.roots().count(), 1);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone)]
pub struct Boundary {
    inner: Arc<Inner>,
}

struct Inner {
    directories: Vec<Directory>,
    bare_paths: bool,
    policy: Policy,
    /// The filesystem root, beneath which everything is resolved that no allowed directory
    /// contains. On Windows each list has its own volumes.
    #[cfg(not(windows))]
    filesystem_root: Roots,
    /// The allowed directories as last resolved: always from their configured paths, never from the
    /// previous result.
    allowed: Mutex<Roots>,
    /// Incremented when the allowed directories change.
    generation: AtomicU64,
    granted: Mutex<GrantMemory>,
    /// The cached snapshots by a hash of their lists. Ten thousand clients with the same workspace
    /// share one snapshot, and no client can detect it.
    snapshots: WeakTable<u64, Snapshot>,
}

/// Omits what clients were granted.
impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary")
            .field("directories", &self.inner.directories)
            .finish_non_exhaustive()
    }
}

impl Boundary {
    /// Returns an empty configuration.
    pub fn builder() -> BoundaryBuilder {
        BoundaryBuilder::default()
    }

    pub(crate) fn has_allowed_directories(&self) -> bool {
        !self.inner.directories.is_empty()
    }

    /// Whether a rejected allowed directory must exist, so that its absence is an error.
    pub(crate) fn is_required(&self, rejected: &RejectedRoot) -> bool {
        match rejected.error.reason() {
            Code::Duplicate => false,
            Code::NotFound => !self.directory(rejected).is_some_and(|directory| directory.optional),
            _ => true,
        }
    }

    fn directory(&self, rejected: &RejectedRoot) -> Option<&Directory> {
        self.inner.directories.get(rejected.index)
    }

    /// Returns the allowed directories as roots, without a client's list.
    ///
    /// Verifies their names, at most every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY) and by one
    /// caller at a time. If one is gone or was missing, all are resolved again, so that a directory
    /// replaced by a deploy is in the next snapshot. A directory that cannot be resolved is
    /// [rejected](Roots::rejected) and grants nothing.
    #[must_use]
    pub fn allowed_roots(&self) -> Roots {
        match self.current_allowed_roots() {
            (current, None) => current,
            (_, Some(turn)) => self.verify_allowed_roots(turn),
        }
    }

    /// The allowed directories as last resolved, without I/O, and the turn to verify them if it is
    /// due.
    pub(crate) fn current_allowed_roots(&self) -> (Roots, Option<Verification>) {
        let current = self.last_allowed_roots();
        if current.is_outdated() {
            current.expire_verification();
        }
        let turn = current.begin_verification();
        (current, turn)
    }

    /// The allowed directories as last resolved, without I/O.
    pub(crate) fn last_allowed_roots(&self) -> Roots {
        lock(&self.inner.allowed).clone()
    }

    /// Whether the allowed directories are still those beneath which a cached list was resolved.
    pub(crate) fn is_current(&self, roots: &Roots) -> bool {
        roots.generation() == self.inner.generation.load(Ordering::Acquire)
    }

    pub(crate) fn verify_allowed_roots(&self, mut turn: Verification) -> Roots {
        let gone = turn.verify();
        let current = turn.roots();
        let missing =
            current.rejected().iter().any(|rejected| rejected.error.reason() != Code::Duplicate);
        if gone == 0 && !missing {
            return current.clone();
        }
        let fresh = self.resolve_allowed().into_roots(self.inner.policy);
        if fresh.is_equivalent(current) {
            return current.clone();
        }
        let mut allowed = lock(&self.inner.allowed);
        let fresh = fresh.with_generation(allowed.generation() + 1);
        let last = std::mem::replace(&mut *allowed, fresh.clone());
        // Stored after the roots: a caller that resolves beneath them before this resolves once
        // more.
        self.inner.generation.store(fresh.generation(), Ordering::Release);
        drop(allowed);
        // Dropped after the lock is released, because this may close directories.
        drop(last);
        fresh
    }

    /// Returns the roots in force for a client's root list: the part of it inside the allowed
    /// directories, or the whole list if there are none. A bad entry is [rejected](Roots::rejected)
    /// without affecting the others. An empty list grants nothing.
    ///
    /// # Errors
    ///
    /// [`RootsFailed`](crate::ErrorKind::RootsFailed) (`too_many_roots`),
    /// [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`) for a list of more than
    /// [`ROOT_LIST_BYTES`](crate::limits::ROOT_LIST_BYTES) of text.
    pub fn resolve(&self, list: &ListRootsResult) -> Result<Roots> {
        let _ = self.allowed_roots();
        self.resolve_within(list, &Account::Anonymous, &Effort::default())
    }

    /// As [`resolve`](Self::resolve), for a session, which caches the snapshot with its list to
    /// resolve it again. Returns an error if the effort is spent. The session has already had the
    /// allowed directories verified.
    pub(crate) fn resolve_to_cache(
        &self,
        list: &Arc<ListRootsResult>,
        account: &Account,
        effort: &Effort,
    ) -> Result<Roots> {
        let roots = self.resolve_within(list, account, effort)?.with_list(list);
        if effort.is_spent() {
            return Err(Error::new(Code::RootsTimedOut).detail("resolving the list took too long"));
        }
        Ok(self.share(roots))
    }

    /// Returns an equivalent older snapshot if there is one, or else this one.
    fn share(&self, roots: Roots) -> Roots {
        let key = roots.list_hash();
        // Not under the table's lock: dropping either snapshot may close directories.
        match self.inner.snapshots.get(&key).map(Roots::from_snapshot) {
            Some(older)
                if older.generation() == roots.generation()
                    // Defence: only-equal-snapshots-are-shared
                    && older.is_equivalent(&roots) =>
            {
                older.set_outdated(false);
                older
            }
            _ => {
                self.inner.snapshots.insert(key, roots.snapshot());
                roots
            }
        }
    }

    fn resolve_within(
        &self,
        list: &ListRootsResult,
        account: &Account,
        effort: &Effort,
    ) -> Result<Roots> {
        list.is_bounded()?;
        let parse = if self.inner.bare_paths { Location::parse } else { Location::from_uri };
        let entries = list.roots.iter().map(|root| Entry {
            text: root.uri.clone(),
            location: if root.is_malformed() {
                Err(Code::Malformed.into())
            } else {
                parse(&root.uri)
            },
            name: root.name.clone(),
            access: None,
        });
        let entries: Vec<_> = entries.collect();
        // Defence: client-list-narrows
        let enclosing = if self.has_allowed_directories() {
            self.last_allowed_roots()
        } else {
            self.filesystem_roots(&entries, account)
        };
        let pending = self.grant(&enclosing, account, entries, effort);
        Ok(pending
            .into_roots(self.inner.policy)
            .with_generation(enclosing.generation())
            .listed_by_client())
    }

    fn resolve_allowed(&self) -> PendingRoots {
        let entries: Vec<_> = self.inner.directories.iter().map(Directory::entry).collect();
        let filesystem = self.filesystem_roots(&entries, &Account::Operator);
        self.grant(&filesystem, &Account::Operator, entries, &Effort::default())
    }

    /// The roots beneath which entries are resolved if there are no allowed directories.
    #[cfg(not(windows))]
    fn filesystem_roots(&self, _: &[Entry], _: &Account) -> Roots {
        self.inner.filesystem_root.clone()
    }

    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "a method on other systems")]
    fn filesystem_roots(&self, entries: &[Entry], account: &Account) -> Roots {
        volumes::named_volumes(entries, account, volumes::open_root)
    }

    /// Refuses a configuration in which an optional directory that is missing now would conflict
    /// once it is created: it would lie in a directory with other access, or contain one.
    fn check_missing_directories(&self, allowed: &PendingRoots) -> Result<()> {
        let there = allowed.roots.iter().map(|(.., root)| (root.canonical.clone(), root.access));
        let mut planned: Vec<_> = there.collect();
        for rejected in
            allowed.rejected.iter().filter(|rejected| rejected.error.reason() == Code::NotFound)
        {
            let Some(directory) = self.inner.directories.get(rejected.index) else { continue };
            let entry = directory.entry();
            let Ok(location) = entry.location.as_ref().map(Location::clone) else { continue };
            let filesystem = &self.filesystem_roots(&[entry], &Account::Operator);
            // Its volume does not exist either.
            if filesystem.index().begin(location.as_os_str()).is_none() {
                planned.push((location.as_path().to_owned(), directory.access));
                continue;
            }
            let mut budget = Budget::new();
            let mut lookups = Lookups::new(filesystem, &mut budget);
            let place = resolve(
                &mut lookups,
                filesystem.index(),
                None,
                location.as_os_str(),
                Intent::NewTree,
            );
            // If this cannot be determined now, a conflict is possible later.
            match place.map_err(|error| error.at("open root", directory.path.as_os_str()))? {
                Place::Inside { root, path, .. } => {
                    planned.push((filesystem.root(root)?.path().join(path), directory.access));
                }
                Place::Above(_) => {}
            }
        }
        match conflicts(&planned).into_iter().next() {
            Some(path) => Err(Error::new(Code::AccessConflict).at("open root", path.as_os_str())),
            None => Ok(()),
        }
    }

    /// Resolves entries beneath `enclosing`, admits them by everything that was granted before, and
    /// holds open the granted directories.
    fn grant(
        &self,
        enclosing: &Roots,
        account: &Account,
        entries: Vec<Entry>,
        effort: &Effort,
    ) -> PendingRoots {
        let mut pending = PendingRoots::default();
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut resolver = EntryResolver::new(enclosing, account, effort);
        for (index, entry) in entries.into_iter().enumerate() {
            // A repeated text. Entries of the operator may repeat with different access.
            let location = entry.location.as_ref().ok().filter(|_| *account != Account::Operator);
            if location.is_some_and(|location| !seen.insert(location.clone())) {
                pending.reject(index, &entry.text, Code::Duplicate.into());
                continue;
            }
            let mut budget = effort.entry();
            match retry_changed(|| resolver.resolve(&entry, &mut budget)) {
                // An ancestor, but not of an allowed directory.
                Ok(candidates) if candidates.is_empty() => {
                    pending.reject(index, &entry.text, Code::OutsideRoots.into());
                }
                Ok(candidates) => {
                    found.extend(
                        candidates
                            .into_iter()
                            .map(|candidate| (index, entry.text.clone(), candidate)),
                    );
                }
                Err(error) => pending.reject(index, &entry.text, error),
            }
        }
        let candidates: Vec<&Candidate> = found.iter().map(|(.., candidate)| candidate).collect();
        let decisions = lock(&self.inner.granted).admit(enclosing, account, &candidates);
        for ((index, entry, candidate), decision) in found.into_iter().zip(decisions) {
            match decision {
                Ok(()) => pending.add(index, entry, candidate.root),
                Err(error) => pending.reject(index, &entry, error),
            }
        }
        pending.drop_conflicts();
        pending.rejected.sort_by_key(RejectedRoot::index);
        pending
    }
}

/// A poisoned lock is usable: holders only read or swap, and do no I/O.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Roots {
    /// Creates roots from directories (or single files), read-write and with the default
    /// [`Policy`]. For read-only or optional directories and other policies, see
    /// [`Boundary::builder`].
    ///
    /// A long-running program should keep a [`Boundary`] and call
    /// [`allowed_roots`](Boundary::allowed_roots) for each request, or call
    /// [`verify`](Roots::verify). Otherwise a directory that is moved away is noticed only when an
    /// operation fails.
    ///
    /// # Errors
    ///
    /// As [`BoundaryBuilder::build`].
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Roots};
    /// let roots = Roots::from_dirs([std::env::temp_dir()])?;
    /// let refused = roots.read("../../etc/passwd", 1024).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn from_dirs<P: Into<PathBuf>>(directories: impl IntoIterator<Item = P>) -> Result<Self> {
        let add = |builder: BoundaryBuilder, path: P| builder.directory(path, Access::ReadWrite);
        directories
            .into_iter()
            .fold(Boundary::builder(), add)
            .build()
            .map(|boundary| boundary.allowed_roots())
    }

    /// Creates roots from a client's list, without allowed directories: everything that the client
    /// names is served. Use this for a single list. A server that knows its directories, or
    /// resolves lists repeatedly, should keep a [`Boundary`]: it remembers what it granted, so that
    /// a symlink which a tool created in one root cannot become the next root.
    ///
    /// # Errors
    ///
    /// As [`Boundary::resolve`]; a bad entry is [rejected](Roots::rejected).
    pub fn from_list(list: &ListRootsResult) -> Result<Self> {
        Boundary::builder().client_roots_only().build()?.resolve(list)
    }
}

// On Windows a directory that is held open cannot be moved away.
#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use crate::dir::Effort;
    use crate::error::Code;
    use crate::workers::Account;
    use crate::{Access, Boundary, ListRootsResult, Roots};

    fn resolve(boundary: &Boundary, top: &Path, names: &[(&str, Option<&str>)]) -> Roots {
        let uris = names.iter().map(|(path, _)| format!("file://{}", top.join(path).display()));
        let mut list = ListRootsResult::from_uris(uris);
        for (entry, (_, name)) in list.roots.iter_mut().zip(names) {
            entry.name = name.map(Into::into);
        }
        boundary
            .resolve_to_cache(&Arc::new(list), &Account::Anonymous, &Effort::default())
            .expect("a list")
    }

    fn is_shared(one: &Roots, two: &Roots) -> bool {
        one.is_same_snapshot(two)
    }

    /// A change between two resolutions of a list that names directory `a`, the symlink `l` to it,
    /// file `f` and the missing `none`.
    type Change = fn(&Path);

    #[test]
    fn only_equivalent_snapshots_are_shared() {
        const NAMES: &[(&str, Option<&str>)] =
            &[("a", Some("one")), ("l", None), ("f", None), ("none", None)];
        let changes: [(&str, bool, Change); 6] = [
            ("no change", true, |_| {}),
            ("a new file that no entry names", true, |top| {
                fs::write(top.join("a/new"), "").unwrap();
            }),
            ("the target of a symlink", false, |top| {
                fs::remove_file(top.join("l")).unwrap();
                symlink("b", top.join("l")).unwrap();
            }),
            ("a file becomes a directory", false, |top| {
                fs::remove_file(top.join("f")).unwrap();
                fs::create_dir(top.join("f")).unwrap();
            }),
            ("a missing directory is created", false, |top| {
                fs::create_dir(top.join("none")).unwrap();
            }),
            ("a missing entry becomes a symlink loop", false, |top| {
                symlink("none", top.join("none")).unwrap();
            }),
        ];
        for operator in [false, true] {
            for (what, expected, change) in changes {
                let directory = tempfile::tempdir().unwrap();
                let top = directory.path().canonicalize().unwrap();
                fs::create_dir(top.join("a")).unwrap();
                fs::create_dir(top.join("b")).unwrap();
                fs::write(top.join("f"), "").unwrap();
                symlink("a", top.join("l")).unwrap();
                let builder = Boundary::builder();
                let builder = if operator {
                    builder.directory(&top, Access::ReadOnly)
                } else {
                    builder.client_roots_only()
                };
                let boundary = builder.build().unwrap();
                let first = resolve(&boundary, &top, NAMES);
                change(&top);
                assert_eq!(
                    is_shared(&first, &resolve(&boundary, &top, NAMES)),
                    expected,
                    "{what} {operator}"
                );
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir(top.join("a")).unwrap();
        let boundary = Boundary::builder().client_roots_only().build().unwrap();
        let named = |name| resolve(&boundary, &top, &[("a", name)]);
        let first = named(Some("one"));
        assert!(is_shared(&first, &named(Some("one"))));
        assert!(!is_shared(&first, &named(Some("two"))) && !is_shared(&first, &named(None)));
        // Another object with the same name, and one that was found to be gone although it is back.
        let first = named(None);
        fs::rename(top.join("a"), top.join("was")).unwrap();
        fs::create_dir(top.join("a")).unwrap();
        assert!(!is_shared(&first, &named(None)));
        let first = named(None);
        fs::rename(top.join("a"), top.join("away")).unwrap();
        assert!(first.read("none", 9).is_err() && first.is_outdated());
        fs::rename(top.join("away"), top.join("a")).unwrap();
        assert!(!is_shared(&first, &named(None)));
        // The filesystem root.
        let all = || resolve(&boundary, Path::new("/"), &[("", None)]);
        let first = all();
        assert!(is_shared(&first, &all()));
    }

    /// An entry through symlinks that take the whole budget.
    #[test]
    fn a_cancelled_resolution_stops_within_an_entry() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir(top.join("x")).unwrap();
        for link in 0..39 {
            symlink(format!("{}l{}", "x/../".repeat(800), link + 1), top.join(format!("l{link}")))
                .unwrap();
        }
        let boundary = Boundary::builder().directory(&top, Access::ReadOnly).build().unwrap();
        let list = Arc::new(ListRootsResult::from_uris([format!("file://{}/l0", top.display())]));
        let resolve =
            |effort: &Effort| boundary.resolve_to_cache(&list, &Account::Anonymous, effort);
        let whole = Instant::now();
        let rejected = resolve(&Effort::default()).unwrap().rejected()[0].error().reason();
        let whole = whole.elapsed();
        assert_eq!(rejected, Code::TooCostly);
        let ended_after = |_| {
            let given_up = Arc::new(AtomicBool::new(false));
            let effort = Effort::new(None, given_up.clone());
            std::thread::scope(|scope| {
                let resolution = scope.spawn(|| (resolve(&effort).is_err(), Instant::now()));
                std::thread::sleep(whole / 4);
                let gave_up = Instant::now();
                given_up.store(true, Ordering::Relaxed);
                let (stopped, ended) = resolution.join().unwrap();
                stopped.then(|| ended.saturating_duration_since(gave_up))
            })
        };
        // The fastest of many runs, because other processes interfere.
        let quickest =
            (0..50).filter_map(ended_after).min().expect("one was given up in the middle");
        assert!(quickest < Duration::from_millis(5), "{quickest:?} of {whole:?}");
    }
}
