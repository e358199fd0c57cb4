//! Computes the roots in force from a root list.
//!
//! A [`Boundary`] is the set of allowed directories in the server's configuration, built once. It
//! turns untrusted root lists into [`Roots`]. If there are allowed directories, nothing outside
//! them is ever in force. No entry grants the target of a symlink that a tool could have created.
//!
//! Entries are resolved by the same resolver as requests, beneath the allowed directories or, if
//! there are none, beneath `/`. Resolution stops at the first step to a place that is neither in an
//! allowed directory nor an ancestor of one. With allowed directories, each entry has one of these
//! results:
//!
//! - An entry that resolves into an allowed directory grants that place.
//! - An entry that is an ancestor of allowed directories grants those directories.
//! - An entry that resolves to any other place grants nothing
//!   ([`OutsideRoots`](crate::ErrorKind::OutsideRoots)).
//! - An entry that runs through a symlink in a root granted earlier or by the same list grants
//!   nothing ([`RootRejected`](crate::ErrorKind::RootRejected), `through_link`). An allowed
//!   directory that was granted as a whole is not considered such a root.
//! - An entry that resolves to the same place as an earlier entry adds an alias to that root and is
//!   rejected ([`RootRejected`](crate::ErrorKind::RootRejected), `duplicate`).
//!
//! Without allowed directories, an entry grants the place that it names, and the last two rules
//! apply to every root.
//!
//! Allowed directories that are always in force follow the roots of the list. The snapshot records
//! how many of its roots the list put in force. If the list put none in force, relative requests
//! have no base.
//!
//! An allowed directory can have aliases, which are checked and declared in `aliases.rs`.

mod grants;
mod entries;
mod volumes;
mod builder;
mod pending;
mod aliases;
#[cfg(not(shuttle))]
mod ambient;
#[cfg(all(target_os = "linux", feature = "landlock"))]
mod confine;

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(not(shuttle))]
pub(crate) use self::ambient::{resolve_ambient, runs_through};
use self::builder::Directory;
pub use self::builder::{BoundaryBuilder, DirectoryOptions};
pub(crate) use self::entries::{EntryResolver, alias_of, shown};
use self::pending::{PendingRoots, conflicts, hidden_directory};
use crate::boundary::entries::Entry;
use crate::boundary::grants::{Candidate, GrantMemory};
use crate::dir::{Access, Budget, Effort, Policy};
use crate::error::{Code, Error, Result};
use crate::path::Location;
use crate::path::protect::Patterns;
#[cfg(windows)]
use crate::path::protect::Protected;
use crate::roots::{
    Intent, Lookups, Place, RejectedRoot, Roots, Snapshot, Verification, WeakTable, resolve,
    retry_changed,
};
use crate::wire::ListRootsResult;
use crate::workers::Account;

/// The roots in force for a client that lists no directories, in addition to the directories that
/// are [always](DirectoryOptions::always) in force. [`BoundaryBuilder::empty_list`] applies it to a
/// client that sends an empty list, and
/// [`GuardBuilder::without_client_roots`](crate::GuardBuilder::without_client_roots) to a client
/// that did not declare the roots capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WithoutClientRoots {
    /// None. If the client did not declare roots and no directory is always in force, each request
    /// is refused with [`RootsUnsupported`](crate::ErrorKind::RootsUnsupported).
    #[default]
    Deny,
    /// The allowed directories.
    AllowedDirectories,
}

/// The allowed directories of a server, and a record of the directories that it has granted. A
/// boundary is built once and shared by all clients.
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
    empty_list: WithoutClientRoots,
    bare_paths: bool,
    policy: Policy,
    /// The patterns for protected names.
    protected: Patterns,
    /// The filesystem root, beneath which the allowed directories are resolved, or every list if
    /// there are none. On Windows, each list is resolved beneath the volumes that its entries name.
    #[cfg(not(windows))]
    filesystem_root: Roots,
    /// The allowed directories as last resolved. They are always resolved from their configured
    /// paths, never from the previous result.
    allowed: Mutex<Roots>,
    /// Incremented when the allowed directories change.
    generation: AtomicU64,
    granted: Mutex<GrantMemory>,
    /// Cached snapshots, keyed by a hash of their lists. Ten thousand clients with the same
    /// workspace share one snapshot, and no client can detect this.
    snapshots: WeakTable<u64, Snapshot>,
}

/// Omits the directories granted to clients.
impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary")
            .field("directories", &self.inner.directories)
            .finish_non_exhaustive()
    }
}

impl Boundary {
    /// Returns a builder without directories.
    pub fn builder() -> BoundaryBuilder {
        BoundaryBuilder::default()
    }

    pub(crate) fn has_allowed_directories(&self) -> bool {
        !self.inner.directories.is_empty()
    }

    /// Returns whether the rejection of an allowed directory is an error. It is not an error if the
    /// directory is a duplicate, or if it is optional and missing.
    pub(crate) fn is_required(&self, rejected: &RejectedRoot) -> bool {
        match rejected.error.reason() {
            Code::Duplicate => false,
            Code::NotFound => {
                !self.directory(rejected).is_some_and(|directory| directory.options.optional)
            }
            _ => true,
        }
    }

    fn directory(&self, rejected: &RejectedRoot) -> Option<&Directory> {
        self.inner.directories.get(rejected.index)
    }

    /// Returns the allowed directories as roots, without a client's list.
    ///
    /// Their paths are verified at most once every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY),
    /// by one caller at a time. If a directory is gone or was missing, all directories are resolved
    /// again. If a deployment has replaced a directory, the result then contains the new one. A
    /// directory that cannot be resolved is [rejected](Roots::rejected) and grants nothing.
    #[must_use]
    pub fn allowed_roots(&self) -> Roots {
        match self.current_allowed_roots() {
            (current, None) => current,
            (_, Some(turn)) => self.verify_allowed_roots(turn),
        }
    }

    /// Returns the allowed directories as last resolved, without I/O. Also returns a
    /// [`Verification`] if the caller must verify them now.
    pub(crate) fn current_allowed_roots(&self) -> (Roots, Option<Verification>) {
        let current = self.last_allowed_roots();
        if current.is_outdated() {
            current.expire_verification();
        }
        let turn = current.begin_verification();
        (current, turn)
    }

    /// Returns the allowed directories as last resolved, without I/O.
    pub(crate) fn last_allowed_roots(&self) -> Roots {
        lock(&self.inner.allowed).clone()
    }

    /// Returns whether any allowed directory is configured to be always in force.
    pub(crate) fn has_always_directories(&self) -> bool {
        self.inner.directories.iter().any(|directory| directory.options.always)
    }

    /// Returns whether the allowed directories are still the ones beneath which these roots were
    /// resolved.
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
        // The generation is stored after the roots. A session that resolves a list between the two
        // stores only has to resolve it once more.
        self.inner.generation.store(fresh.generation(), Ordering::Release);
        drop(allowed);
        // The previous roots are dropped after the lock is released, because dropping them may
        // close directories.
        drop(last);
        fresh
    }

    /// Returns the roots in force for a client's root list. They are the part of the list inside
    /// the allowed directories, or the whole list if there are none. The directories that are
    /// [always](DirectoryOptions::always) in force come after them. An invalid entry is
    /// [rejected](Roots::rejected) without affecting the others. By default, an empty list grants
    /// nothing ([`empty_list`](BoundaryBuilder::empty_list)).
    ///
    /// # Errors
    ///
    /// - [`RootsFailed`](crate::ErrorKind::RootsFailed) (`too_many_roots`) for a list with more
    ///   than [`ROOT_LIST_ENTRIES`](crate::limits::ROOT_LIST_ENTRIES) entries.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`) for a list with more than
    ///   [`ROOT_LIST_BYTES`](crate::limits::ROOT_LIST_BYTES) bytes of text.
    pub fn resolve(&self, list: &ListRootsResult) -> Result<Roots> {
        let _ = self.allowed_roots();
        self.resolve_within(list, &Account::Anonymous, &Effort::default())
    }

    /// Like [`resolve`](Self::resolve), for a session that caches the snapshot. The snapshot
    /// contains its list, so that the list can be resolved again. Fails with `RootsTimedOut` if the
    /// effort is exhausted. Does not verify the allowed directories, because the session has
    /// already done so.
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

    /// Returns an equivalent older snapshot if there is one, and otherwise this snapshot.
    fn share(&self, roots: Roots) -> Roots {
        let key = roots.list_hash();
        // The table's lock is not held here, because dropping either snapshot may close
        // directories.
        match self.inner.snapshots.get(&key).map(Roots::from_snapshot) {
            Some(older)
                if older.generation() == roots.generation()
                    // Defense: Sessions share only equal snapshots.
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
        if list.roots.is_empty() && self.inner.empty_list == WithoutClientRoots::AllowedDirectories
        {
            return Ok(self.last_allowed_roots().of_empty_list());
        }
        let allowed = self.last_allowed_roots();
        let parse = if self.inner.bare_paths { Location::parse } else { Location::from_uri };
        let entries = list.roots.iter().map(|root| Entry {
            text: root.uri.clone(),
            location: if root.is_malformed() {
                Err(Code::Malformed.into())
            } else {
                parse(&root.uri).map(|location| location.with_separators(allowed.index()))
            },
            name: root.name.clone(),
            access: None,
            is_always: false,
        });
        let entries: Vec<_> = entries.collect();
        // Defense: A client's list only narrows the allowed directories.
        let enclosing = if self.has_allowed_directories() {
            allowed
        } else {
            self.filesystem_roots(&entries, account)
        };
        let pending = self.grant(&enclosing, account, entries, effort);
        Ok(pending
            .into_client_roots(self.inner.policy, &enclosing)
            .with_generation(enclosing.generation()))
    }

    fn resolve_allowed(&self) -> PendingRoots {
        let entries = || self.inner.directories.iter().map(Directory::entry);
        let aliases = self.inner.directories.iter().flat_map(Directory::alias_entries);
        let named: Vec<_> = entries().chain(aliases).collect();
        let filesystem = self.filesystem_roots(&named, &Account::Operator);
        let entries = entries().collect();
        let mut pending = self.grant(&filesystem, &Account::Operator, entries, &Effort::default());
        pending.declare_aliases(&self.inner.directories, &filesystem);
        pending.protect(&self.inner.protected);
        pending
    }

    /// Returns the roots beneath which the allowed directories are resolved, or the entries of a
    /// list if there are no allowed directories.
    #[cfg(not(windows))]
    fn filesystem_roots(&self, _: &[Entry], _: &Account) -> Roots {
        self.inner.filesystem_root.clone()
    }

    #[cfg(windows)]
    fn filesystem_roots(&self, entries: &[Entry], account: &Account) -> Roots {
        let protected = if self.has_allowed_directories() {
            Protected::default()
        } else {
            self.inner.protected.at_filesystem_root()
        };
        volumes::named_volumes(entries, account, |path| volumes::open_root(path, protected.clone()))
    }

    /// Refuses a configuration in which a missing optional directory would conflict once it is
    /// created, because it would be inside a directory with different access or contain one.
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
            // If the volume does not exist either, the configured path is compared.
            if filesystem.index().begin(location.as_os_str()).is_none() {
                planned.push((location.as_path().to_owned(), directory.options.access));
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
            // A place that cannot be determined now could conflict later, so this is an error.
            match place.map_err(|error| error.at("open root", directory.path.as_os_str()))? {
                Place::Inside { root, path, .. } => {
                    let path = filesystem.root(root)?.path().join(path);
                    planned.push((path, directory.options.access));
                }
                Place::Above(_) => {}
            }
        }
        let paths: Vec<_> = planned.iter().map(|(path, _)| path.as_path()).collect();
        let states = self.inner.protected.at_directories(&paths);
        if let Some((path, _)) = paths.iter().zip(states).find(|(_, state)| state.is_hidden()) {
            return Err(hidden_directory().at("open root", path.as_os_str()));
        }
        match conflicts(&planned).into_iter().next() {
            Some(path) => Err(Error::new(Code::AccessConflict).at("open root", path.as_os_str())),
            None => Ok(()),
        }
    }

    /// Resolves entries beneath `enclosing`, rejects those that [`GrantMemory::admit`] refuses, and
    /// keeps the granted directories open.
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
            // A client's entry with the same location as an earlier one is a duplicate. The
            // operator's entries are exempt, because they can have different access.
            let location = entry.location.as_ref().ok().filter(|_| *account != Account::Operator);
            if location.is_some_and(|location| !seen.insert(location.clone())) {
                pending.reject(index, &entry.text, Code::Duplicate.into());
                continue;
            }
            let mut budget = effort.entry();
            match retry_changed(|| resolver.resolve(&entry, &mut budget)) {
                // The entry names an ancestor, but no enclosing root is beneath it.
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

/// Locks the mutex even if it is poisoned, because holders only read or swap the value and do no
/// I/O.
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
    /// [`verify`](Roots::verify). Otherwise, it does not notice that a directory was moved away
    /// until an operation fails.
    ///
    /// # Errors
    ///
    /// The errors of [`BoundaryBuilder::build`].
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

    /// Creates roots from a client's list, without allowed directories. Everything that the client
    /// names is served. Use this for a single list. A server that knows its directories or resolves
    /// lists repeatedly should keep a [`Boundary`], which remembers the directories that it
    /// granted. The target of a symlink that a tool created in a root then cannot become a root of
    /// a later list.
    ///
    /// # Errors
    ///
    /// The errors of [`Boundary::resolve`]. An invalid entry is [rejected](Roots::rejected), which
    /// is not an error.
    pub fn from_list(list: &ListRootsResult) -> Result<Self> {
        Boundary::builder().client_roots_only().build()?.resolve(list)
    }
}

// These tests move open directories away, which Windows does not allow.
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
            .expect("the list is within its limits")
    }

    fn is_shared(one: &Roots, two: &Roots) -> bool {
        one.is_same_snapshot(two)
    }

    /// A change between two resolutions of a list. The list names the directory `a`, the symlink
    /// `l` to that directory, the file `f` and the missing path `none`.
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
        // The old snapshot is not shared if a different directory now has the same name, or if a
        // directory was found to be missing and has since returned.
        let first = named(None);
        fs::rename(top.join("a"), top.join("was")).unwrap();
        fs::create_dir(top.join("a")).unwrap();
        assert!(!is_shared(&first, &named(None)));
        let first = named(None);
        fs::rename(top.join("a"), top.join("away")).unwrap();
        assert!(first.read("none", 9).is_err() && first.is_outdated());
        fs::rename(top.join("away"), top.join("a")).unwrap();
        assert!(!is_shared(&first, &named(None)));
        // Snapshots of the filesystem root are also shared.
        let all = || resolve(&boundary, Path::new("/"), &[("", None)]);
        let first = all();
        assert!(is_shared(&first, &all()));
    }

    /// Uses an entry whose symlinks exhaust the whole budget.
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
        // Only the fastest of many runs counts, because other processes can slow a run down.
        let quickest = (0..50)
            .filter_map(ended_after)
            .min()
            .expect("at least one resolution was cancelled midway");
        assert!(quickest < Duration::from_millis(5), "{quickest:?} of {whole:?}");
    }
}
