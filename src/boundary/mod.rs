//! From a root list to the roots in force.
//!
//! Goes in: the allowed directories, once, and root lists, untrusted, any number of times. Comes out: [`Roots`]. What is true
//! after: nothing outside the allowed directories is in force, where there are any; and no entry grants what a link points to that
//! a tool could have written.
//!
//! Entries are resolved by the walk of requests: beneath the allowed directories, or beneath `/` where there are none. So an entry
//! that leads out of the allowed directories is not looked up at all, and one that names an ancestor of some stands for those.
//!
//! | an entry | beneath allowed directories | without |
//! | --- | --- | --- |
//! | leads into one | grants that place | grants it |
//! | is an ancestor of some | grants those | grants it |
//! | leads elsewhere | grants nothing: [`OutsideRoots`](crate::ErrorKind::OutsideRoots) | |
//! | runs through a link that lies in a root granted earlier, or by the same list | grants nothing: [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`); an allowed directory that was granted as a whole does not count | the same; every root counts |
//! | the same place as an earlier one | another alias of that; [`RootRejected`](crate::ErrorKind::RootRejected) (`duplicate`) | the same |

mod grants;
mod entries;
mod volumes;
mod builder;
mod pending;

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
#[cfg(all(target_os = "linux", feature = "landlock"))]
use {crate::dir::Identity, crate::roots::Trail, std::path::Path};

/// What a server may ever serve, and the memory of what it granted. Built once, shared by all clients.
///
/// ```no_run
/// use mcp_roots_guard::{Access, Boundary, ListRootsResult};
///
/// let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
/// // What a client lists narrows it, and never widens it.
/// let roots = boundary.resolve(&ListRootsResult::from_uris(["file:///srv/projects/site", "file:///etc"]))?;
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
    /// `/`, which everything is resolved beneath that no allowed directory is around. On Windows each list has its `volumes`.
    #[cfg(not(windows))]
    filesystem_root: Roots,
    /// The allowed directories as they were last resolved. Always from their configured
    /// paths, never from the last result.
    allowed: Mutex<Roots>,
    /// Incremented when the allowed directories change.
    generation: AtomicU64,
    granted: Mutex<GrantMemory>,
    /// The snapshots that are cached, by a hash of their lists: ten thousand clients with the same
    /// workspace cost one snapshot, and none of them can tell.
    snapshots: WeakTable<u64, Snapshot>,
}

/// The allowed directories, and nothing of what clients were granted.
impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary")
            .field("directories", &self.inner.directories)
            .finish_non_exhaustive()
    }
}

impl Boundary {
    /// Begins a configuration.
    pub fn builder() -> BoundaryBuilder {
        BoundaryBuilder::default()
    }

    /// Whether any allowed directory was configured.
    pub(crate) fn has_allowed_directories(&self) -> bool {
        !self.inner.directories.is_empty()
    }

    /// Whether an allowed directory that grants nothing has to be there.
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

    /// The allowed directories alone, as roots in force.
    ///
    /// Their names are verified (at most every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY), by one caller at a time), and all are resolved again if one is gone, or
    /// was missing: a directory that is replaced in a deploy comes back with the next snapshot. One that can not be resolved now
    /// is [rejected](Roots::rejected), and grants nothing.
    #[must_use]
    pub fn allowed_roots(&self) -> Roots {
        match self.current_allowed_roots() {
            (current, None) => current,
            (_, Some(turn)) => self.verify_allowed_roots(turn),
        }
    }

    /// The operator's roots without any I/O, and whether it is this caller's turn to have them verified.
    pub(crate) fn current_allowed_roots(&self) -> (Roots, Option<Verification>) {
        let current = self.last_allowed_roots();
        let turn = current.begin_verification();
        (current, turn)
    }

    /// The operator's roots as they were last resolved, without any I/O.
    pub(crate) fn last_allowed_roots(&self) -> Roots {
        lock(&self.inner.allowed).clone()
    }

    /// Whether the operator's roots are still those that a kept list was resolved beneath.
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
        // After they are there: who resolves beneath them sooner resolves once more.
        self.inner.generation.store(fresh.generation(), Ordering::Release);
        drop(allowed);
        // The last ones may be closed by this, after the lock.
        drop(last);
        fresh
    }

    /// The roots in force for a client's root list: the list itself, or, where there are allowed directories, the part of it inside
    /// them. A bad entry is [rejected](Roots::rejected) and the others stand; an empty list grants nothing.
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

    /// As [`resolve`](Self::resolve), for a session, which keeps the list to resolve it again: within a time, or not at all.
    /// The session has had the operator's roots verified.
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

    /// An older snapshot that is equal in all that can be asked of it, or this one.
    fn share(&self, roots: Roots) -> Roots {
        let key = roots.list_hash();
        // Whichever is dropped here may close directories, and so not under the table's lock.
        match self.inner.snapshots.get(&key).map(Roots::from_snapshot) {
            Some(older)
                if older.generation() == roots.generation() && older.is_equivalent(&roots) =>
            {
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
        let enclosing = if self.has_allowed_directories() {
            self.last_allowed_roots()
        } else {
            self.filesystem_roots(&entries, account)
        };
        let pending = self.grant(&enclosing, account, entries, effort);
        Ok(pending
            .into_roots(self.inner.policy)
            .with_generation(enclosing.generation())
            .from_client_list())
    }

    fn resolve_allowed(&self) -> PendingRoots {
        let entries: Vec<_> = self.inner.directories.iter().map(Directory::entry).collect();
        let filesystem = self.filesystem_roots(&entries, &Account::Operator);
        self.grant(&filesystem, &Account::Operator, entries, &Effort::default())
    }

    /// What the entries of a list are resolved beneath where no allowed directory is around.
    #[cfg(not(windows))]
    fn filesystem_roots(&self, _: &[Entry], _: &Account) -> Roots {
        self.inner.filesystem_root.clone()
    }

    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "elsewhere it is kept")]
    fn filesystem_roots(&self, entries: &[Entry], account: &Account) -> Roots {
        volumes::named_volumes(entries, account, volumes::open_root)
    }

    /// An optional directory that is missing now must not come to lie in one of other access, or around one, when it is made.
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
            // Its volume is not there, either.
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
            // What can not be told now could be anything later.
            match place.map_err(|error| error.at("open root", directory.path.as_os_str()))? {
                Place::Inside { root, path, .. } => {
                    planned.push((filesystem.root(root)?.path().join(path), directory.access))
                }
                Place::Above(_) => {}
            }
        }
        match conflicts(&planned).into_iter().next() {
            Some(path) => Err(Error::new(Code::AccessConflict).at("open root", path.as_os_str())),
            None => Ok(()),
        }
    }

    /// Resolves entries beneath `around`, judges them together with all that was granted before, and opens what stands.
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
            // The same text once more; of the operator's, the access may differ.
            let location = entry.location.as_ref().ok().filter(|_| *account != Account::Operator);
            if location.is_some_and(|location| !seen.insert(location.clone())) {
                pending.reject(index, &entry.text, Code::Duplicate.into());
                continue;
            }
            let mut budget = effort.entry();
            match retry_changed(|| resolver.resolve(&entry, &mut budget)) {
                // An ancestor of no allowed directory.
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

/// What confinement asks.
#[cfg(all(target_os = "linux", feature = "landlock"))]
impl Boundary {
    /// The path and the access that the operator gave to a directory which is rejected.
    pub(crate) fn configured(&self, rejected: &RejectedRoot) -> Option<(&Path, Access)> {
        self.directory(rejected).map(|directory| (&*directory.path, directory.access))
    }

    /// Where an absolute path of the operator leads, and by which links.
    pub(crate) fn locate_allowed(&self, path: &Path) -> Result<(PathBuf, Trail)> {
        let filesystem = &self.inner.filesystem_root;
        let mut budget = Budget::new();
        let mut lookups = Lookups::new(filesystem, &mut budget);
        let location = Location::from_path(path)?;
        match resolve(
            &mut lookups,
            filesystem.index(),
            None,
            location.as_os_str(),
            Intent::Existing,
        )? {
            Place::Inside { root, path, .. } => {
                Ok((filesystem.root(root)?.path().join(path), lookups.into_trail()))
            }
            Place::Above(_) => Err(Code::NotFound.into()),
        }
    }

    /// Whether a link on the trail lies in a root, or in one of these directories: then a tool could have made it.
    pub(crate) fn runs_through_planted_link(
        roots: &Roots,
        others: &[(PathBuf, Identity)],
        trail: &Trail,
    ) -> bool {
        let roots = roots
            .roots()
            .filter(|root| !root.is_file())
            .map(|root| (root.path().to_owned(), root.identity));
        GrantMemory::from_directories(roots.chain(others.iter().cloned())).contains_any(trail)
    }
}

/// A lock is held for a look or a swap, never for I/O; what a panicking holder left is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Roots {
    /// Roots from directories (or single files) alone, read-write, with the default [`Policy`]. For read-only directories, optional
    /// ones and other policies, see [`Boundary::builder`].
    ///
    /// A program that runs for long keeps a [`Boundary`] and takes [`allowed_roots`](Boundary::allowed_roots) for each request, or calls
    /// [`verify`](Roots::verify): else a directory that is moved away is noticed only when an operation fails.
    ///
    /// # Errors
    ///
    /// As [`BoundaryBuilder::build`].
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Roots};
    /// let roots = Roots::from_dirs([std::env::temp_dir()])?;
    /// assert_eq!(roots.read("../../etc/passwd", 1024).unwrap_err().kind(), ErrorKind::OutsideRoots);
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

    /// Roots from a client's list alone, with no allowed directories around it: whatever the client names is served. For one
    /// list only: a server that knows its directories, or resolves lists again and again, keeps a [`Boundary`], which remembers
    /// what it granted, so that a link that a tool made in one root can not become the next.
    ///
    /// # Errors
    ///
    /// As [`Boundary::resolve`]; a bad entry is [rejected](Roots::rejected).
    pub fn from_list(list: &ListRootsResult) -> Result<Self> {
        Boundary::builder().client_roots_only().build()?.resolve(list)
    }
}

// What is held open is not moved away on Windows.
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

    /// What happens between two answers with the list of `a`, of the link `l` to it, of the file `f` and of `none`.
    type Change = fn(&Path);

    #[test]
    fn only_equivalent_snapshots_are_shared() {
        const NAMES: &[(&str, Option<&str>)] =
            &[("a", Some("one")), ("l", None), ("f", None), ("none", None)];
        let changes: [(&str, bool, Change); 6] = [
            ("nothing", true, |_| {}),
            ("what no entry names", true, |top| fs::write(top.join("a/new"), "").unwrap()),
            ("a link", false, |top| {
                fs::remove_file(top.join("l")).unwrap();
                symlink("b", top.join("l")).unwrap();
            }),
            ("a file to a directory", false, |top| {
                fs::remove_file(top.join("f")).unwrap();
                fs::create_dir(top.join("f")).unwrap();
            }),
            ("nothing to a directory", false, |top| fs::create_dir(top.join("none")).unwrap()),
            ("nothing to what is refused otherwise", false, |top| {
                symlink("none", top.join("none")).unwrap()
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
        // Another object by the same name; the one that was noticed to be gone, though it be back.
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

    /// One entry through symlinks whose texts cost the whole budget.
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
        // The quickest of many, as other processes get in between.
        let quickest =
            (0..50).filter_map(ended_after).min().expect("one was given up in the middle");
        assert!(quickest < Duration::from_millis(5), "{quickest:?} of {whole:?}");
    }
}
