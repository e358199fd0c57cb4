//! Computes the roots in force from the configuration and a root list.
//!
//! A [`Boundary`] is the set of allowed directories in the server's configuration, built once. It
//! turns untrusted root lists into [`Roots`]. If there are allowed directories, nothing outside
//! them is ever in force.
//!
//! Entries are resolved by the same resolver as requests, beneath the allowed directories or, if
//! there are none, beneath `/`. Resolution stops at the first step to a place that is neither in an
//! allowed directory nor an ancestor of one. The result is a name, whether or not anything exists
//! there. With allowed directories, each entry has one of these results:
//!
//! | an entry that | grants |
//! | --- | --- |
//! | resolves into an allowed directory, to a directory, a file or nothing | that name, with the access of its place, and the allowed directories below it |
//! | is an ancestor of allowed directories | those directories |
//! | resolves to any other place | nothing: [`OutsideRoots`](crate::ErrorKind::OutsideRoots) |
//! | is denied by a pattern, or leads through a denied name | nothing: [`Protected`](crate::ErrorKind::Protected) |
//! | runs through a symlink in a writable allowed directory that was changed since the process built its first boundary | nothing, because a tool may have created it: [`RootRejected`](crate::ErrorKind::RootRejected), `through_link` |
//! | resolves to the same place as an earlier entry | an alias of that root: [`RootRejected`](crate::ErrorKind::RootRejected), `duplicate` |
//! | leads to a FIFO, socket or device, or cannot be resolved | nothing: the error |
//!
//! Without allowed directories ([`Boundary::without_directories`]), the filesystem root, or each
//! volume that a list names, is the allowed directory of these rules.
//!
//! Allowed directories may be nested, if the inner one has no less access. A place has the access
//! of the innermost root in force, so a directory that is missing, refused or not listed only ever
//! takes access away. An entry that is refused puts nothing in force.
//!
//! Allowed directories that are always in force follow the roots of the list. Relative requests
//! start at the first entry that is not rejected by its text alone. If the filesystem rejects that
//! entry, there is no base.
//!
//! The boundary counts generations. A configured path that was resolved through a symlink, or an
//! optional directory that was missing, is resolved again. If the result is another canonical path,
//! the generation is raised, and a session resolves its client's list again.
//!
//! An allowed directory can have aliases, which are checked and declared in `aliases.rs`.

mod entries;
mod volumes;
mod builder;
mod pending;
mod aliases;
mod ambient;
#[cfg(target_os = "linux")]
mod confine;

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use path_clean::PathClean as _;

pub(crate) use self::ambient::resolve_ambient;
use self::builder::Directory;
pub use self::builder::{BoundaryBuilder, DirectoryOptions};
pub(crate) use self::entries::{ListEntry, alias_of, shown};
use self::pending::PendingRoots;
use crate::boundary::entries::{Entry, EntryResolver, EntryRoots, aliases_of, open_configured};
use crate::dir::{Access, Budget, Effort, Policy};
use crate::error::{Code, Error, Result, quoted};
use crate::path::index::ROOT_NAMES;
use crate::path::names::is_same;
use crate::path::protect::{FoldedPaths, Pattern};
use crate::path::{Location, unexpanded};
use crate::roots::{
    LastName, Links, Lookups, Place, PlaceInRoot, RejectedEntry, Root, Roots, Throttle, Turn, join,
    resolve, retry_changed,
};

/// How a client's roots determine the roots in force. See [`BoundaryBuilder::client_roots`].
///
/// Directories that are [always](DirectoryOptions::always) in force are served in addition. If a
/// client that declared roots does not answer, or answers with an error, its request is refused,
/// unless client roots are ignored.
///
/// A list is empty only if it has no entries. If every entry of a list is rejected, the list grants
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientRoots {
    /// Client roots are never requested. The allowed directories are in force for each client.
    Ignore,
    /// The part of the client's list that is inside the allowed directories is in force. For a
    /// client that declares no roots, or sends an empty list, the allowed directories are.
    NarrowIfListed,
    /// Like [`NarrowIfListed`](Self::NarrowIfListed), but an empty list grants nothing.
    #[default]
    Narrow,
    /// Like [`Narrow`](Self::Narrow), but a client that declares no roots gets nothing either. If no
    /// directory is always in force, each of its requests is refused with
    /// [`ROOTS_UNSUPPORTED`](crate::kinds::ROOTS_UNSUPPORTED).
    Require,
}

impl ClientRoots {
    /// Whether an empty list puts the allowed directories in force.
    fn allow_empty(self) -> bool {
        matches!(self, Self::Ignore | Self::NarrowIfListed)
    }

    /// Whether the allowed directories are in force for a client that declared no roots.
    pub(crate) fn allow_undeclared(self) -> bool {
        self != Self::Require
    }
}

/// The allowed directories of a server. A boundary is built once and shared by all clients.
///
/// ```no_run
/// use mcp_roots_guard::{Access, Boundary, ListRootsResult};
///
/// let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
/// // A client's list narrows the allowed directories, and never widens them.
/// let list = ListRootsResult::from_uris(["file:///srv/projects/site", "file:///etc"]);
/// let roots = boundary.resolve(&list)?;
/// assert_eq!(roots.iter().count(), 1);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone)]
pub struct Boundary {
    inner: Arc<Inner>,
}

struct Inner {
    directories: Vec<Directory>,
    client_roots: ClientRoots,
    bare_paths: bool,
    policy: Policy,
    /// The patterns for protected names.
    protected: Vec<Pattern>,
    /// The filesystem root, beneath which the allowed directories are resolved, or every list if
    /// there are none. On Windows, each list is resolved beneath the volumes that its entries name.
    #[cfg(not(windows))]
    filesystem_root: Roots,
    /// The allowed directories as last resolved. They are always resolved from their configured
    /// paths, never from the previous result.
    allowed: Mutex<Roots>,
    /// The number of times that a configured path was found to lead to another canonical path.
    generation: AtomicU64,
    /// Limits how often the configured paths are resolved again.
    resolved: Throttle,
    /// A symlink in a writable allowed directory is followed for a list entry only if it was last
    /// changed before this time.
    links_until: SystemTime,
}

impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary")
            .field("directories", &self.inner.directories)
            .finish_non_exhaustive()
    }
}

impl Boundary {
    /// Returns a builder of a boundary, to which at least one directory must be added.
    pub fn builder() -> BoundaryBuilder {
        BoundaryBuilder {
            directories: Vec::new(),
            is_unbounded: false,
            client_roots: ClientRoots::default(),
            bare_paths: false,
            policy: Policy::default(),
            protected: Vec::new(),
            exempt: Vec::new(),
            links_until: None,
        }
    }

    /// Returns a builder of a boundary without directories. Its one allowed directory is the
    /// filesystem root, or each volume on Windows, and it is in force only where a client lists it:
    /// whatever a client lists is in force, including `file:///`, and nothing is for a client that
    /// lists nothing or declares no roots.
    ///
    /// It is a constructor of its own, because a forgotten directory must not let clients reach the
    /// whole system: [`builder`](Self::builder) without a directory is an error.
    ///
    /// ```
    /// # use mcp_roots_guard::{Boundary, ListRootsResult};
    /// # let work = tempfile::tempdir().unwrap();
    /// # let uri = url::Url::from_file_path(work.path()).unwrap();
    /// let boundary = Boundary::without_directories().build()?;
    /// assert_eq!(boundary.resolve(&ListRootsResult::from_uris([uri]))?.iter().count(), 1);
    /// assert_eq!(boundary.resolve(&ListRootsResult::default())?.iter().count(), 0);
    /// assert_eq!(boundary.allowed_roots().iter().count(), 0);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn without_directories() -> BoundaryBuilder {
        BoundaryBuilder {
            is_unbounded: true,
            client_roots: ClientRoots::Require,
            ..Self::builder()
        }
    }

    /// How client roots determine the roots in force.
    pub(crate) fn client_roots(&self) -> ClientRoots {
        self.inner.client_roots
    }

    pub(crate) fn has_allowed_directories(&self) -> bool {
        !self.inner.directories.is_empty()
    }

    /// Returns whether the rejection of an allowed directory is an error. It is not an error if the
    /// directory is a duplicate, or if it is optional and missing.
    pub(crate) fn is_required(&self, rejected: &RejectedEntry) -> bool {
        match rejected.error.reason() {
            Code::Duplicate => false,
            Code::NotFound => {
                !self.directory(rejected).is_some_and(|directory| directory.options.optional)
            }
            _ => true,
        }
    }

    fn directory(&self, rejected: &RejectedEntry) -> Option<&Directory> {
        self.inner.directories.get(rejected.index)
    }

    /// Returns the allowed directories as roots, without a client's list.
    ///
    /// A configured path that runs through a symlink, or was missing, is resolved again at most
    /// once every [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY), by one caller at a time. The
    /// result then contains what the symlink leads to now, or the optional directory that has
    /// appeared. An optional directory that was never there is [rejected](Roots::rejected) and
    /// grants nothing. Any other directory stays in force if it is removed: requests are refused
    /// with [`RootUnavailable`](crate::ErrorKind::RootUnavailable) until its path leads to a
    /// directory again.
    #[must_use]
    pub fn allowed_roots(&self) -> Roots {
        if let Some(resolve) = self.due_resolution() {
            resolve();
        }
        self.last_allowed_roots()
    }

    /// Returns the work of resolving the configured paths again, if this is due. Until the work is
    /// done or dropped, nobody else gets it.
    pub(crate) fn due_resolution(&self) -> Option<impl FnOnce() + Send + use<>> {
        if !lock(&self.inner.allowed).is_provisional() {
            return None;
        }
        let (boundary, turn) = (self.clone(), self.inner.resolved.take()?);
        Some(move || boundary.resolve_allowed_again(turn))
    }

    /// Returns the allowed directories as last resolved, without I/O.
    pub(crate) fn last_allowed_roots(&self) -> Roots {
        lock(&self.inner.allowed).clone()
    }

    /// A number that rises after the allowed directories have changed. A list that is resolved from
    /// now on is resolved in the directories of this generation or a later one.
    pub(crate) fn generation(&self) -> u64 {
        self.inner.generation.load(Ordering::Acquire)
    }

    /// Resolves the configured paths again, in a turn that ends with this call.
    fn resolve_allowed_again(&self, _turn: Turn) {
        // Read here, because another caller may have resolved the paths a moment ago.
        let current = self.last_allowed_roots();
        let pending = self.resolve_allowed(Some(&current));
        let (protected, policy) = (&self.inner.protected, self.inner.policy);
        let fresh = pending.into_roots(protected, policy);
        let paths = |roots: &Roots| {
            let path = |root: &Root| (root.path().to_owned(), root.kind);
            roots.iter().map(path).collect::<Vec<_>>()
        };
        if paths(&fresh) != paths(&current) {
            // The previous roots are dropped after the lock is released, because dropping them may
            // close directories.
            let _previous = std::mem::replace(&mut *lock(&self.inner.allowed), fresh);
            self.inner.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns the roots in force for the entries of a client's list. Fails with `TooCostly` if the
    /// effort is exhausted.
    pub(crate) fn narrow<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = ListEntry<'a>>,
        effort: &Effort,
    ) -> Result<Roots> {
        let allowed = self.last_allowed_roots();
        if self.client_roots() == ClientRoots::Ignore {
            return Ok(allowed);
        }
        if entries.len() == 0 && self.client_roots().allow_empty() {
            return Ok(allowed.of_empty_list());
        }
        let parse = if self.inner.bare_paths { Location::parse } else { Location::from_uri };
        let entries = entries.map(|listed| Entry {
            text: listed.uri.to_owned(),
            location: if listed.is_malformed {
                Err(Code::Malformed.into())
            } else {
                parse(listed.uri).map(|location| location.with_separators(allowed.index()))
            },
            name: listed.name.map(str::to_owned),
        });
        let entries: Vec<_> = entries.collect();
        // Defense: A client's list only narrows the allowed directories.
        let allowed = if self.has_allowed_directories() {
            allowed
        } else {
            self.filesystem_roots(&entries, false)
        };
        let (pending, first) = self.resolve_entries(&allowed, entries, effort);
        if effort.is_spent() {
            return Err(Error::from(Code::TooCostly).with_text("resolving the list took too long"));
        }
        Ok(pending.into_client_roots(&allowed, self.inner.policy, first))
    }

    /// Resolves the configured directories. A directory of `last` stays what it was if its
    /// configured path is the canonical one, or cannot be resolved now.
    fn resolve_allowed(&self, last: Option<&Roots>) -> PendingRoots {
        let directories = &self.inner.directories;
        let entries = || directories.iter().map(Directory::entry);
        let aliases = directories.iter().flat_map(Directory::alias_entries);
        let named: Vec<_> = entries().chain(aliases).collect();
        let filesystem = self.filesystem_roots(&named, true);
        let mut pending = PendingRoots::default();
        let mut found = Vec::new();
        for (index, directory) in directories.iter().enumerate() {
            let Entry { text, location, .. } = directory.entry();
            let options = &directory.options;
            let open = |location: &Location| {
                let open =
                    || open_configured(&filesystem, location, options.access, options.always);
                retry_changed(open)
            };
            let last = last.and_then(|last| root_of_directory(last, index));
            // Another path that led to the same directory may have changed the root.
            let kept = |root: Root| {
                let aliases = aliases_of(&directory.path, root.path());
                let (access, is_always) = (options.access, options.always);
                let root = Root { aliases, access, is_always, ..root };
                EntryRoots { roots: vec![root], links: Links::default() }
            };
            let named = match last {
                // The path leads through no symlink, and its handle is opened again at each use.
                Some(root) if is_same(&directory.path.clean(), root.path()) => Ok(kept(root)),
                last => {
                    let named = location.as_ref().map_err(|error| error.reason().into());
                    match (named.and_then(open), last) {
                        (Err(_), Some(root)) => {
                            pending.is_provisional = true;
                            Ok(kept(root))
                        }
                        (named, _) => named,
                    }
                }
            };
            match named {
                Ok(named) => found.push((index, text, named)),
                Err(mut error) => {
                    if error.reason() == Code::NotFound {
                        pending.planned.extend(self.planned(directory).ok().flatten());
                        let hint = unexpanded(directory.path.as_os_str()).map(str::to_owned);
                        error = hint.into_iter().fold(error, Error::with_outcome);
                    }
                    pending.reject(index, &text, error);
                }
            }
        }
        let writable = writable(found.iter().flat_map(|(.., named)| &named.roots));
        for (index, text, EntryRoots { roots, links }) in found {
            // Defense: A symlink that a tool can create selects no allowed directory.
            if links.are_in(&writable) {
                pending.reject(index, &text, Code::ThroughLink.into());
                continue;
            }
            pending.is_provisional |= !links.is_empty();
            pending.add(index, &text, roots);
        }
        pending.lower_around_read_only();
        pending.is_provisional |= pending
            .rejected
            .iter()
            .any(|rejected| !matches!(rejected.error.reason(), Code::Duplicate));
        pending.rejected.sort_by_key(RejectedEntry::index);
        pending.declare_aliases(&self.inner.directories, &filesystem);
        pending
    }

    /// Resolves the entries of a client's list beneath the allowed directories. Also returns the
    /// place that relative requests start at.
    fn resolve_entries(
        &self,
        allowed: &Roots,
        entries: Vec<Entry>,
        effort: &Effort,
    ) -> (PendingRoots, Option<PathBuf>) {
        let mut pending = PendingRoots::default();
        let mut seen = HashSet::new();
        let mut resolver = EntryResolver::new(allowed, effort);
        let planted_in = OnceCell::new();
        // `None` until an entry is not rejected by its text alone.
        let mut first: Option<Option<PathBuf>> = None;
        for (index, entry) in entries.into_iter().enumerate() {
            let location = entry.location.as_ref().ok();
            if location.is_some_and(|location| !seen.insert(location.clone())) {
                pending.reject(index, &entry.text, Code::Duplicate.into());
                continue;
            }
            // Every later call may have to look at all names of the list.
            if pending.tree.len() >= ROOT_NAMES {
                let text = "the roots before it have {} names in their paths, the maximum";
                pending.reject(index, &entry.text, Error::over(Code::TooLarge, text, ROOT_NAMES));
                continue;
            }
            let mut budget = effort.entry();
            let named = retry_changed(|| resolver.resolve(&entry, &mut budget));
            let named = named.and_then(|named| match named {
                // The entry names an ancestor, but no allowed directory is beneath it.
                EntryRoots { roots, .. } if roots.is_empty() => Err(Code::OutsideRoots.into()),
                EntryRoots { roots, links } => {
                    let is_provisional = !links.is_empty();
                    let links = links.changed_since(self.inner.links_until);
                    let planted_in = || planted_in.get_or_init(|| writable(allowed.iter()));
                    // Defense: A symlink that a tool may have created makes nothing a root.
                    if !links.is_empty() && links.are_in(planted_in()) {
                        return Err(Code::ThroughLink.into());
                    }
                    Ok((roots, is_provisional))
                }
            });
            let by_text = budget.spent() == 0;
            match named {
                Ok((roots, is_provisional)) => {
                    pending.is_provisional |= is_provisional;
                    first.get_or_insert_with(|| roots.first().map(|root| root.canonical.clone()));
                    pending.add(index, &entry.text, roots);
                }
                Err(error) => {
                    if !by_text {
                        pending.is_provisional = true;
                        // Defense: The base never shifts to another directory.
                        first.get_or_insert(None);
                    }
                    pending.reject(index, &entry.text, error);
                }
            }
        }
        pending.rejected.sort_by_key(RejectedEntry::index);
        (pending, first.flatten())
    }

    /// Returns the roots beneath which the allowed directories are resolved, or the entries of a
    /// list if there are no allowed directories.
    #[cfg(not(windows))]
    fn filesystem_roots(&self, _: &[Entry], _: bool) -> Roots {
        self.inner.filesystem_root.clone()
    }

    #[cfg(windows)]
    fn filesystem_roots(&self, entries: &[Entry], by_operator: bool) -> Roots {
        let protected: &[_] =
            if self.has_allowed_directories() { &[] } else { &self.inner.protected };
        volumes::named_volumes(entries, by_operator, protected, volumes::open_root)
    }

    /// Returns the canonical path that a missing directory would have.
    fn planned(&self, directory: &Directory) -> Result<Option<PathBuf>> {
        let entry = directory.entry();
        let Ok(location) = entry.location.as_ref().map(Location::clone) else { return Ok(None) };
        let filesystem = &self.filesystem_roots(&[entry], true);
        // If the volume does not exist either, the configured path is compared.
        if filesystem.index().begin(location.as_os_str()).is_none() {
            return Ok(Some(location.as_unchecked_path().to_owned()));
        }
        let mut budget = Budget::new();
        let mut lookups = Lookups::new(filesystem, &mut budget);
        let (index, text) = (filesystem.index(), location.as_os_str());
        match resolve(&mut lookups, index, None, text, LastName::Any)? {
            Place::Inside(PlaceInRoot { root, path, .. }) => {
                Ok(Some(join(filesystem.root(root)?.path(), &path)))
            }
            Place::Above(_) => Ok(None),
        }
    }

    /// Refuses a configuration in which a read-only directory is a writable one or is inside it, or
    /// would be once it is created. Names are compared in folded form.
    fn check_access(&self, allowed: &PendingRoots) -> Result<()> {
        let mut places = Vec::new();
        for (index, root) in &allowed.roots {
            let directory = self.inner.directories.get(*index);
            places.extend(directory.map(|it| (root.canonical.clone(), it.options.access)));
        }
        for rejected in &allowed.rejected {
            let Some(directory) = self.directory(rejected) else { continue };
            // A place that cannot be determined now could conflict later, so this is an error.
            let place = self.planned(directory);
            let place = place.map_err(|error| error.at("open root", directory.path.as_os_str()))?;
            places.extend(place.map(|place| (place, directory.options.access)));
        }
        let of = |access| places.iter().filter(move |it| it.1 == access).map(|it| it.0.as_path());
        let writable = FoldedPaths::new(of(Access::ReadWrite));
        let Some(inner) = of(Access::ReadOnly).find(|inner| writable.enclose(inner)) else {
            return Ok(());
        };
        let around = |outer: &&Path| FoldedPaths::new(std::iter::once(*outer)).enclose(inner);
        let outer = of(Access::ReadWrite).find(around).unwrap_or(inner);
        let pattern = inner.strip_prefix(outer).map(|below| Path::new("/").join(below));
        let pattern = pattern.ok().and_then(|pattern| Some(pattern.to_str()?.to_owned()));
        let line = pattern.filter(|it| Pattern::stands_for_itself(it));
        let outcome = match line {
            _ if outer == inner => {
                "it is configured as read-only and as writable: leave out one of the two".to_owned()
            }
            Some(pattern) => format!(
                "it is inside the writable directory {}: leave it out, and make it read-only with \
                 .protect({pattern:?})",
                quoted(outer.as_os_str()),
            ),
            None => format!(
                "it is in the writable directory {}, or a filesystem could find it there: leave out \
                 one of the two",
                quoted(outer.as_os_str())
            ),
        };
        Err(Error::from(Code::AccessConflict)
            .with_outcome(outcome)
            .at("open root", inner.as_os_str()))
    }
}

/// The writable ones of these roots, as places where tools and their programs can plant symlinks.
fn writable<'a>(roots: impl Iterator<Item = &'a Root>) -> FoldedPaths {
    let writable = roots.filter(|root| root.access == Access::ReadWrite);
    FoldedPaths::new(writable.map(Root::path))
}

/// The root of the configured directory with this index.
fn root_of_directory(roots: &Roots, index: usize) -> Option<Root> {
    let is_rejected = |index: &usize| roots.rejected().iter().any(|it| it.index() == *index);
    if is_rejected(&index) {
        return None;
    }
    let earlier = (0..index).filter(|index| !is_rejected(index)).count();
    roots.iter().nth(earlier).cloned()
}

/// The time at which this process built its first boundary. It is read from the clock that
/// filesystems use for timestamps, which lags a few milliseconds behind the exact one
/// (`CLOCK_REALTIME_COARSE`, clock_gettime(2)).
fn process_start() -> SystemTime {
    static START: OnceLock<SystemTime> = OnceLock::new();
    *START.get_or_init(|| {
        #[cfg(target_os = "linux")]
        {
            use nix::time::{ClockId, clock_gettime};
            let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE).map(Duration::from);
            if let Ok(now) = now {
                return SystemTime::UNIX_EPOCH + now;
            }
        }
        SystemTime::now()
    })
}

/// Locks the mutex even if it is poisoned, because holders only read or swap the value and do no
/// I/O.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Roots {
    /// Creates roots from directories (or single files), read-write and with the default options.
    /// For read-only or optional directories and other options, see [`Boundary::builder`].
    ///
    /// The directories are named by their canonical paths from now on. If another directory takes
    /// the place of one, it is served within half a second. A switched symlink in a configured path
    /// changes nothing: for that, keep a [`Boundary`] and call
    /// [`allowed_roots`](Boundary::allowed_roots) for each request.
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
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use crate::dir::Effort;
    use crate::error::Code;
    use crate::{Access, Boundary, ListRootsResult};

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
        let list = ListRootsResult::from_uris([format!("file://{}/l0", top.display())]);
        let resolve = |effort: &Effort| boundary.resolve_within(&list, effort);
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
