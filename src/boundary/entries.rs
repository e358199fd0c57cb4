//! Resolves the configured directories and the entries of a root list to names.
//!
//! Both are resolved by the resolver of requests: the configured directories beneath the filesystem
//! root, and the entries of a list beneath the allowed directories. What an entry names need not
//! exist, because a root is a name. Nothing outside the enclosing roots is looked up, and the work
//! and time spent on a list are bounded.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use path_clean::PathClean as _;

use crate::dir::{Access, Budget, Effort};
use crate::error::{Code, Result};
use crate::limits::LIST_LOOKUPS;
use crate::path::Location;
use crate::path::index::{Origin, RootKind};
#[cfg(unix)]
use crate::path::names::drive;
use crate::path::names::{components, ends_as_directory};
use crate::roots::{
    LastName, Links, Lookups, Place, PlaceInRoot, Root, Roots, display_path, kind_of, resolve,
};

/// An entry of a client's list, as it was sent.
pub(crate) struct ListEntry<'a> {
    pub(crate) uri: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) is_malformed: bool,
}

/// An entry of a list, before it is resolved.
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) location: Result<Location>,
    pub(crate) name: Option<String>,
}

/// The roots that an entry puts in force: the place that it names, and the enclosing roots below it.
/// If the entry is an ancestor of enclosing roots, only these.
pub(crate) struct EntryRoots {
    pub(crate) roots: Vec<Root>,
    /// The symlinks that were followed.
    pub(crate) links: Links,
}

/// Resolves the entries of one client's list within the list's budget.
pub(crate) struct EntryResolver<'a> {
    enclosing: &'a Roots,
    /// The number of look-ups charged to the list so far.
    lookups: usize,
    effort: &'a Effort,
}

impl<'a> EntryResolver<'a> {
    pub(crate) fn new(enclosing: &'a Roots, effort: &'a Effort) -> Self {
        Self { enclosing, lookups: 0, effort }
    }

    /// # Errors
    ///
    /// The error for an entry that is invalid or cannot be resolved, or
    /// [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`) if the budget of the entry or of
    /// the list is exhausted, or if no caller is waiting for the list.
    pub(crate) fn resolve(&mut self, entry: &Entry, budget: &mut Budget<'_>) -> Result<EntryRoots> {
        let before = budget.spent();
        let named = self.resolve_entry(entry, budget);
        // Each copy of an enclosing root also counts, because an ancestor can be spelled in many ways.
        let copies = named.as_ref().map_or(0, |named| named.roots.len());
        self.lookups += 1 + budget.spent() - before + copies;
        named
    }

    fn resolve_entry(&self, entry: &Entry, budget: &mut Budget<'_>) -> Result<EntryRoots> {
        let (enclosing, index) = (self.enclosing, self.enclosing.index());
        let location = match &entry.location {
            Ok(location) => location.as_os_str(),
            Err(error) => return Err(error.reason().into()),
        };
        if !index.is_absolute(location) {
            return Err(Code::NotAbsolute.into());
        }
        if self.lookups > LIST_LOOKUPS || self.effort.is_spent() {
            return Err(Code::TooCostly.into());
        }
        // An enclosing root itself needs no look-up, whether or not it exists now.
        let begun = index.begin(location).filter(|(_, rest)| is_root_itself(rest));
        if let Some((number, rest)) = begun {
            let outer = enclosing.root(number)?;
            if outer.is_file() && ends_as_directory(rest) {
                return Err(Code::NotADirectory.into());
            }
            let root = self.as_listed(outer.below(Path::new(""), outer.kind), location, entry);
            return Ok(self.named(root, Links::default()));
        }
        let mut lookups = Lookups::recording(enclosing, budget);
        match resolve(&mut lookups, index, None, location, LastName::Any)? {
            Place::Inside(PlaceInRoot { root, path, .. }) => {
                let kind = kind_of(&lookups.look_up(root, &path)?)?.unwrap_or(RootKind::Directory);
                let (number, path) = enclosing.innermost(root, path);
                let root =
                    self.as_listed(enclosing.root(number)?.below(&path, kind), location, entry);
                Ok(self.named(root, lookups.into_links()))
            }
            Place::Above(node) => {
                let numbers = index.beneath(node);
                let name = if numbers.len() == 1 { &entry.name } else { &None };
                let roots = numbers.into_iter().map(|number| enclosing.root(number));
                let copy = |outer: &Root| Root { name: name.clone(), ..copy_of(outer) };
                let roots = roots.map(|root| root.map(copy)).collect::<Result<_>>()?;
                Ok(EntryRoots { roots, links: lookups.into_links() })
            }
        }
    }

    /// The root that an entry names, and the enclosing roots below it.
    fn named(&self, root: Root, links: Links) -> EntryRoots {
        let below = self.enclosing.roots_below(&root.canonical).map(|root| copy_of(&root));
        let below: Vec<_> = below.collect();
        EntryRoots { roots: std::iter::once(root).chain(below).collect(), links }
    }

    /// Returns the root with the name and the alias that the entry gives it, and with the access of
    /// its place.
    fn as_listed(&self, mut root: Root, location: &OsStr, entry: &Entry) -> Root {
        let protected = self.enclosing.protected();
        if protected.is_some_and(|it| it.of(&[&root.canonical], root.consented()).is_some()) {
            root.access = Access::ReadOnly;
        }
        root.name.clone_from(&entry.name);
        let alias = alias_of(Path::new(location), &root.canonical);
        root.listed = alias.as_deref().and_then(shown);
        root.aliases = system_aliases(&root.canonical);
        // The index already contains the declared aliases.
        let is_declared = self.enclosing.index().declared(location, Origin::Request).is_some();
        root.aliases.extend(alias.filter(|alias| !is_declared && !root.aliases.contains(alias)));
        root
    }
}

/// An enclosing root, with its aliases.
fn copy_of(outer: &Root) -> Root {
    Root { aliases: outer.aliases.clone(), ..outer.below(Path::new(""), outer.kind) }
}

fn is_root_itself(rest: &OsStr) -> bool {
    components(rest).all(|(name, _)| name == ".")
}

/// Resolves a configured directory beneath the filesystem root, and opens it.
pub(super) fn open_configured(
    filesystem: &Roots,
    location: &Location,
    access: Access,
    is_always: bool,
) -> Result<EntryRoots> {
    let (index, location) = (filesystem.index(), location.as_os_str());
    // On Windows, the volume may be missing, for example if a disk is unplugged.
    if index.begin(location).is_none() {
        return Err(Code::NotFound.into());
    }
    let mut budget = Budget::new();
    let mut lookups = Lookups::recording(filesystem, &mut budget);
    let place = resolve(&mut lookups, index, None, location, LastName::Any)?;
    let Place::Inside(PlaceInRoot { root, path, .. }) = place else {
        return Err(Code::NotFound.into());
    };
    let kind = kind_of(&lookups.look_up(root, &path)?)?.ok_or(Code::NotFound)?;
    let top = filesystem.root(root)?;
    let found = top.below(&path, kind);
    let (directory, names) = match (kind, path.parent(), path.file_name()) {
        (RootKind::File, Some(parent), Some(leaf)) => (parent, PathBuf::from(leaf)),
        _ => (path.as_path(), PathBuf::new()),
    };
    let aliases = aliases_of(Path::new(location), &found.canonical);
    let consented = components(found.canonical.as_os_str()).count();
    let directory = top.directory.below(directory, consented)?;
    let root = Root { directory, names, aliases, access, is_always, ..found };
    Ok(EntryRoots { roots: vec![root], links: lookups.into_links() })
}

/// The aliases of a configured directory, apart from the declared ones.
pub(super) fn aliases_of(configured: &Path, canonical: &Path) -> Vec<PathBuf> {
    let mut aliases = system_aliases(canonical);
    let alias = alias_of(configured, canonical);
    aliases.extend(alias.filter(|alias| !aliases.contains(alias)));
    aliases
}

/// Returns the listed path, without `//`, `.` or a trailing slash, if it differs from the canonical
/// path. A path with `..` does not name a fixed place, so it has no alias.
pub(crate) fn alias_of(path: &Path, canonical: &Path) -> Option<PathBuf> {
    if path.components().any(|component| component == Component::ParentDir) {
        return None;
    }
    Some(path.clean()).filter(|cleaned| cleaned != canonical)
}

/// Returns a listed path in the notation that its client uses, or `None` if it is not UTF-8.
pub(crate) fn shown(path: &Path) -> Option<String> {
    #[cfg(unix)]
    if let Some(path) = drive::starts_with_drive(path.as_os_str()) {
        return Some(std::str::from_utf8(path).ok()?.replace('/', "\\"));
    }
    path.to_str().map(|_| display_path(path))
}

/// Returns the other paths to a place through the system symlinks of macOS. The symlinks are read
/// once.
#[cfg(target_vendor = "apple")]
fn system_aliases(canonical: &Path) -> Vec<PathBuf> {
    use crate::path::names::apple;
    static LINKS: std::sync::LazyLock<Vec<(PathBuf, PathBuf)>> = std::sync::LazyLock::new(|| {
        let read =
            |link: &str| Some((link.into(), Path::new("/").join(std::fs::read_link(link).ok()?)));
        apple::LINKS.into_iter().filter_map(read).collect()
    });
    apple::aliases(canonical, &LINKS)
}

#[cfg(not(target_vendor = "apple"))]
fn system_aliases(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}
