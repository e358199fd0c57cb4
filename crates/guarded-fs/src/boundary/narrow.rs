//! Narrowing the allowed directories by an untrusted list. The work and time spent on it are
//! bounded.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::listed::{UniqueRoots, system_aliases, writable};
use super::resolved::ResolvedRoots;
use super::{Boundary, Limit};
use crate::dir::{Access, Budget, Stat};
use crate::error::{Code, Error, Result};
use crate::limits::{LIST_LOOKUPS, LIST_TIME, ROOT_LIST_BYTES, ROOT_LIST_ENTRIES};
use crate::path::Location;
use crate::path::index::{ROOT_NAMES, RootKind};
use crate::path::names::{components, ends_as_directory};
use crate::path::protect::FoldedPaths;
use crate::roots::{
    LastName, Links, Lookups, Place, PlaceInRoot, RejectedEntry, Root, Roots, Snapshot, WhyNone,
    kind_of, resolve, retry_changed,
};

/// An entry of an untrusted list of directories, for [`Boundary::narrow`].
#[derive(Debug)]
pub struct ListEntry<'a> {
    text: &'a str,
    /// What the text names, or why it is rejected whatever the filesystem contains.
    location: Result<Location>,
}

impl<'a> ListEntry<'a> {
    /// A `file:` URI. A path is rejected.
    #[must_use]
    pub fn uri(text: &'a str) -> Self {
        Self { text, location: Location::from_uri(text) }
    }

    /// An entry that the caller rejects. It grants nothing, and [`Roots::rejected`] has the error.
    #[must_use]
    pub fn rejected(text: &'a str, error: Error) -> Self {
        Self { text, location: Err(error) }
    }
}

/// An absolute path or a `file:` URI.
impl<'a> From<&'a str> for ListEntry<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, location: Location::parse(text) }
    }
}

/// An absolute path or a `file:` URI.
impl<'a> From<&'a String> for ListEntry<'a> {
    fn from(text: &'a String) -> Self {
        text.as_str().into()
    }
}

impl Boundary {
    /// Returns the roots that an untrusted list of directories, by absolute paths or `file:` URIs,
    /// puts in force, followed by the directories that are
    /// [always](crate::DirectoryOptions::always) in force. Nothing outside the allowed directories
    /// is looked up.
    ///
    /// Use this for directories that a client or a model suggests. If all of them are required, use
    /// [`Roots::within_all`], which fails if one is refused.
    ///
    /// An entry grants the place that it names, whether or not anything exists there, with the
    /// access of that place, and the allowed directories below it. An ancestor of allowed
    /// directories grants only these. Any other entry is [rejected](Roots::rejected), without
    /// affecting the others:
    ///
    /// - outside the allowed directories, with [`OutsideRoots`](crate::ErrorKind::OutsideRoots);
    /// - denied, or leading through a denied name, with [`Protected`](crate::ErrorKind::Protected);
    /// - through a symlink that a tool may have created, with `through_link`: one in a writable
    ///   allowed directory that changed (`st_ctime`, inode(7)) since the process built its first
    ///   boundary or, on Windows, which does not record this time, any one there;
    /// - at the place of an earlier entry, with `duplicate`. It becomes an alias of that root;
    /// - leading to a FIFO, a socket or a device, or failing to resolve, with that error.
    ///
    /// Relative requests start at the first entry that is not rejected by its text alone. If the
    /// filesystem rejects that entry, they are refused.
    ///
    /// With [`any_listed`](Boundary::any_listed), the filesystem root, or each volume that the list
    /// names, is the allowed directory of these rules. With [`nothing`](Boundary::nothing), every
    /// entry is rejected, without looking anything up.
    ///
    /// ```
    /// use guarded_fs::{Access, Boundary};
    ///
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(work.path().join("app")).unwrap();
    /// let boundary = Boundary::builder().directory(work.path(), Access::ReadWrite).build()?;
    /// let app = work.path().join("app");
    /// let suggested = [app.to_str().unwrap(), "/etc"];
    ///
    /// let roots = boundary.narrow(suggested)?;
    /// assert_eq!(roots.iter().count(), 1);
    /// assert_eq!(roots.rejected()[0].entry(), "/etc");
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`TooManyRoots`](crate::ErrorKind::TooManyRoots) for more than [`ROOT_LIST_ENTRIES`]
    ///   entries, and [`TooLarge`](crate::ErrorKind::TooLarge) for more than
    ///   [`ROOT_LIST_BYTES`] bytes of text.
    /// - [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`) if it takes longer than 30
    ///   seconds.
    pub fn narrow<'a>(
        &self,
        entries: impl IntoIterator<Item: Into<ListEntry<'a>>>,
    ) -> Result<Roots> {
        self.narrow_until(entries, &|| false).map(|resolved| resolved.roots)
    }

    pub(crate) fn narrow_until<'a>(
        &self,
        entries: impl IntoIterator<Item: Into<ListEntry<'a>>>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<ResolvedRoots> {
        let latest = Instant::now() + LIST_TIME;
        let is_over = &|| is_over() || Instant::now() >= latest;
        let ResolvedRoots { roots: allowed, generation, .. } = self.allowed(|resolve| resolve());
        let entries = bounded(entries.into_iter().map(Into::into), &allowed)?;
        // Defense: A client's list only narrows the allowed directories.
        let enclosing = match &self.inner.limit {
            Limit::Directories(_) | Limit::Nothing => allowed,
            Limit::AnyListed(filesystem) => {
                let locations = entries.iter().filter_map(|entry| entry.location.as_ref().ok());
                filesystem.roots(locations.cloned(), false)
            }
        };
        let mut resolver = ListResolver {
            boundary: self,
            enclosing: &enclosing,
            is_over,
            planted_in: OnceCell::new(),
            seen: HashSet::new(),
            lookups: 0,
            roots: UniqueRoots::default(),
            rejected: Vec::new(),
            first: OnceCell::new(),
            has_looked: false,
            is_provisional: false,
        };
        for (index, entry) in entries.iter().enumerate() {
            resolver.add(index, entry);
            if is_over() {
                let text = "resolving the list took too long";
                return Err(Error::from(Code::TooCostly).with_text(text));
            }
        }
        let is_provisional = resolver.is_provisional;
        Ok(ResolvedRoots::new(resolver.into_roots(), generation, is_provisional))
    }
}

fn bounded<'a>(
    entries: impl Iterator<Item = ListEntry<'a>>,
    allowed: &Roots,
) -> Result<Vec<ListEntry<'a>>> {
    let located = |entry: ListEntry<'a>| {
        let location = entry.location.map(|location| location.with_separators(allowed.index()));
        ListEntry { location, ..entry }
    };
    let entries: Vec<_> = entries.take(ROOT_LIST_ENTRIES + 1).map(located).collect();
    if entries.len() > ROOT_LIST_ENTRIES {
        return Err(Code::TooManyRoots.into());
    }
    if entries.iter().map(|entry| entry.text.len()).sum::<usize>() > ROOT_LIST_BYTES {
        let text = "the root list is larger than {} bytes";
        return Err(Error::over(Code::TooLarge, text, ROOT_LIST_BYTES));
    }
    Ok(entries)
}

struct ListResolver<'a> {
    boundary: &'a Boundary,
    enclosing: &'a Roots,
    is_over: &'a dyn Fn() -> bool,
    /// The writable enclosing roots.
    planted_in: OnceCell<FoldedPaths>,
    seen: HashSet<Location>,
    lookups: usize,
    roots: UniqueRoots,
    rejected: Vec<RejectedEntry>,
    /// Where relative requests start, from the first entry that is not rejected by its text alone.
    first: OnceCell<Option<PathBuf>>,
    /// Whether the current entry was looked up.
    has_looked: bool,
    is_provisional: bool,
}

impl ListResolver<'_> {
    /// An entry whose roots were all added before is a duplicate.
    fn add(&mut self, index: usize, entry: &ListEntry<'_>) {
        self.has_looked = false;
        let error = match self.resolve(entry) {
            Ok(roots) => {
                let first = || roots.first().map(|root| root.canonical.clone());
                self.first.get_or_init(first);
                if self.roots.add(roots) {
                    return;
                }
                Code::Duplicate.into()
            }
            Err(error) => {
                // Otherwise, the entry is rejected by its text alone.
                if self.has_looked {
                    self.is_provisional = true;
                    // Defense: The base never shifts to another directory.
                    self.first.get_or_init(|| None);
                }
                error
            }
        };
        self.rejected.push(RejectedEntry::new(index, entry.text, error));
    }

    /// Returns the place that an entry names and the enclosing roots below it, or only these for an
    /// ancestor.
    fn resolve(&mut self, entry: &ListEntry<'_>) -> Result<Vec<Arc<Root>>> {
        if entry.location.as_ref().is_ok_and(|location| !self.seen.insert(location.clone())) {
            return Err(Code::Duplicate.into());
        }
        // Every later call may have to look at all names of the list.
        if self.roots.tree.len() >= ROOT_NAMES {
            let text = "the roots before it have {} names in their paths, the maximum";
            return Err(Error::over(Code::TooLarge, text, ROOT_NAMES));
        }
        let mut budget = Budget::of_entry(self.is_over);
        let named = retry_changed(|| self.look_up(entry, &mut budget));
        // Each copy of an enclosing root also counts, because an ancestor can be spelled in many
        // ways.
        let copies = named.as_ref().map_or(0, |(roots, _)| roots.len());
        self.lookups += 1 + budget.spent() + copies;
        let (roots, links) = named?;
        // The entry names an ancestor, but no allowed directory is beneath it.
        if roots.is_empty() {
            return Err(Code::OutsideRoots.into());
        }
        let is_linked = !links.is_empty();
        let links = links.changed_since(self.boundary.inner.links_until);
        let planted_in = || self.planted_in.get_or_init(|| writable(self.enclosing.iter()));
        // Defense: A symlink that a tool may have created makes nothing a root.
        if !links.is_empty() && links.are_in(planted_in()) {
            return Err(Code::ThroughLink.into());
        }
        self.is_provisional |= is_linked;
        Ok(roots)
    }

    /// # Errors
    ///
    /// Also [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`) if the budget of the entry or
    /// of the list is exhausted, or no caller is waiting for the list.
    fn look_up(
        &mut self,
        entry: &ListEntry<'_>,
        budget: &mut Budget<'_>,
    ) -> Result<(Vec<Arc<Root>>, Links)> {
        let (enclosing, index) = (self.enclosing, self.enclosing.index());
        let location = entry.location.as_ref().map_err(Error::repeated)?;
        let (path, text) = (location.as_unchecked_path(), location.as_os_str());
        if !index.is_absolute(text) {
            return Err(Code::NotAbsolute.into());
        }
        if self.lookups > LIST_LOOKUPS || (self.is_over)() {
            return Err(Code::TooCostly.into());
        }
        let is_root_itself = |rest| components(rest).all(|(name, _)| name == ".");
        // An enclosing root itself needs no look-up, whether or not it exists now.
        if let Some((number, rest)) =
            index.strip_root(text).filter(|(_, rest)| is_root_itself(rest))
        {
            let outer = enclosing.root(number)?;
            if outer.is_file() && ends_as_directory(rest) {
                return Err(Code::NotADirectory.into());
            }
            let root = outer.below(Path::new(""), outer.kind);
            return Ok((self.listed(root, path), Links::default()));
        }
        #[cfg(target_os = "linux")]
        if let Some((place, found)) = enclosing.find_by_kernel(location) {
            self.has_looked = true;
            budget.spend(1)?;
            return Ok((self.inside(place, &found, path)?, Links::default()));
        }
        let mut lookups = Lookups::recording(enclosing, budget);
        let place = resolve(&mut lookups, index, None, text, LastName::Any);
        self.has_looked |= lookups.have_looked();
        let roots = match place? {
            Place::Inside(place) => {
                self.has_looked = true;
                let found = lookups.look_up(place.root, &place.path)?;
                self.inside(place, &found, path)?
            }
            Place::Above(node) => {
                let roots = index.beneath(node).into_iter();
                roots.map(|number| enclosing.shared_root(number)).collect::<Result<_>>()?
            }
        };
        Ok((roots, lookups.into_links()))
    }

    /// Returns the root that an entry names, which is at a place in an enclosing root.
    fn inside(&self, place: PlaceInRoot, found: &Stat, path: &Path) -> Result<Vec<Arc<Root>>> {
        let kind = kind_of(found)?.unwrap_or(RootKind::Directory);
        let (number, place) = self.enclosing.innermost(place.root, place.path);
        let root = self.enclosing.root(number)?.below(&place, kind);
        Ok(self.listed(root, path))
    }

    fn listed(&self, mut root: Root, path: &Path) -> Vec<Arc<Root>> {
        let protected = self.enclosing.protected();
        if protected.is_some_and(|it| it.of(&[&root.canonical], root.consented()).is_some()) {
            root.access = Access::ReadOnly;
        }
        root.aliases = system_aliases(&root.canonical);
        self.enclosing.listed_as(root, path)
    }

    fn into_roots(self) -> Roots {
        let (allowed, UniqueRoots { mut roots, tree }) = (self.enclosing, self.roots);
        let why_none = match allowed.why_none() {
            Some(WhyNone::NothingGranted) => WhyNone::NothingGranted,
            _ if self.rejected.is_empty() => WhyNone::NoneListed,
            _ => WhyNone::NoneAllowed,
        };
        let why_none = roots.is_empty().then_some(why_none);
        let base = self.first.into_inner().flatten().and_then(|first| tree.marked(&first));
        for always in allowed.shared_roots().filter(|root| root.is_always) {
            match tree.marked(&always.canonical).and_then(|number| roots.get_mut(number)) {
                Some(listed) => Arc::make_mut(listed).is_always = true,
                None => roots.push(always),
            }
        }
        Roots::from(Snapshot {
            policy: self.boundary.inner.policy,
            protected: allowed.shared_protected(),
            rejected: self.rejected.into(),
            allowed: Some(allowed.clone()),
            why_none,
            ..Snapshot::new(roots, allowed.declared().cloned())
        })
        .with_base_number(base)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use crate::error::Code;
    use crate::{Access, Boundary, ListEntry};

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
        let text = &format!("file://{}/l0", top.display());
        let resolve = |is_over: &AtomicBool| {
            let is_over = || is_over.load(Ordering::Relaxed);
            boundary.narrow_until([ListEntry::from(text)], &is_over)
        };
        let whole = Instant::now();
        let rejected =
            resolve(&AtomicBool::new(false)).unwrap().roots.rejected()[0].error().reason();
        let whole = whole.elapsed();
        assert_eq!(rejected, Code::TooCostly);
        let ended_after = |_| {
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let resolution = scope.spawn(|| (resolve(&is_over).is_err(), Instant::now()));
                std::thread::sleep(whole / 4);
                let gave_up = Instant::now();
                is_over.store(true, Ordering::Relaxed);
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
