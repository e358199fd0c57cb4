//! The aliases that the operator declares for allowed directories.
//!
//! | alias | accepted in |
//! | --- | --- |
//! | a path that resolves to the directory on this system | client roots, requests, and the targets of symlinks |
//! | a path that does not exist on this system, such as the host's path of a container's mount | client roots and requests |
//! | a Windows path, on any other system | client roots and requests |
//!
//! An alias is replaced by the directory's canonical path before anything is looked up, so it
//! grants nothing that the canonical path does not grant. It is an error if an alias exists on this
//! system and is a different directory, because the alias would hide that directory. It is also an
//! error if an alias equals, contains, or is inside another allowed directory or alias.

use std::path::{Path, PathBuf};

use path_clean::PathClean as _;

use crate::boundary::builder::Directory;
use crate::boundary::pending::PendingRoots;
use crate::dir::{Budget, Rule};
use crate::error::{Code, Error, Result};
use crate::path::Location;
use crate::path::index::Tree;
#[cfg(unix)]
use crate::path::names::drive;
use crate::path::names::{components, is_absolute, is_same};
use crate::roots::{
    DeclaredAlias, LastName, Lookups, Place, PlaceInRoot, Presence, RejectedEntry, Root, Roots,
    resolve,
};

/// Returns the normalized form of an alias, with which paths are compared.
pub(super) fn parse(alias: &Path) -> Result<PathBuf> {
    let invalid = || Error::from(Code::InvalidAlias).at("declare alias", alias.as_os_str());
    let location = Location::from_path(alias).map_err(|_| invalid())?;
    #[cfg(unix)]
    if let Some(names) = drive::names(location.as_os_str()) {
        let names: Vec<_> = names.map(|(name, _)| name).collect();
        if names.iter().any(|name| name == "." || name == "..") {
            return Err(invalid());
        }
        return Ok(Path::new("/").join(names.iter().collect::<PathBuf>()));
    }
    let text = alias.as_os_str();
    let mut names = components(text).map(|(name, _)| name).peekable();
    if !is_absolute(location.as_os_str())
        || names.peek().is_none()
        || names.any(|name| name == "." || name == "..")
    {
        return Err(invalid());
    }
    Ok(location.as_unchecked_path().clean())
}

/// Whether an alias resolves to the root on this system. Returns false if nothing exists at that
/// path, or if the same directory is mounted there. Returns an error if the path resolves to
/// anything else.
fn is_here(filesystem: &Roots, alias: &Path, root: &Root) -> Result<bool> {
    let text = alias.as_os_str();
    #[cfg(unix)]
    if drive::starts_with_drive(text).is_some() {
        return Ok(false);
    }
    // On Windows, the volume may not exist.
    if filesystem.index().begin(text).is_none() {
        return Ok(false);
    }
    let mut budget = Budget::new();
    let mut lookups = Lookups::new(filesystem, &mut budget);
    match resolve(&mut lookups, filesystem.index(), None, text, LastName::Any) {
        Ok(Place::Inside(PlaceInRoot { found: Presence::Missing(_), .. })) => Ok(false),
        Ok(Place::Inside(PlaceInRoot { root: top, path, .. })) => {
            let top = filesystem.root(top)?;
            if is_same(&top.canonical.join(&path), &root.canonical) {
                return Ok(true);
            }
            // The same directory may be mounted at both paths.
            let mounted = top.handle()?.dir(&path, Rule::Allow).and_then(|found| found.identity());
            if !root.is_file()
                && mounted.is_ok_and(|mounted| root.directory.identity() == Some(mounted))
            {
                return Ok(false);
            }
            Err(Code::AliasConflict.into())
        }
        Ok(Place::Above(_)) => Err(Code::AliasConflict.into()),
        Err(error) if matches!(error.reason(), Code::NotFound | Code::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A path that names an allowed directory.
struct AliasName {
    path: PathBuf,
    /// The directory's canonical path.
    directory: PathBuf,
    /// For a declared alias, whether it resolves to the directory on this system. `None` for any
    /// other path.
    declared: Option<bool>,
}

impl PendingRoots {
    /// Declares the aliases of the allowed directories. Rejects a directory if one of its aliases
    /// conflicts with another path.
    pub(super) fn declare_aliases(&mut self, directories: &[Directory], filesystem: &Roots) {
        if directories.iter().all(|directory| directory.options.aliases.is_empty()) {
            return;
        }
        let of = |root: &Root, path: &Path| AliasName {
            path: path.to_owned(),
            directory: root.canonical.clone(),
            declared: None,
        };
        let roots = self.roots.iter().map(|(.., root)| root);
        let mut names: Vec<_> =
            roots.flat_map(|root| root.paths().map(|path| of(root, path))).collect();
        let mut failed = Vec::new();
        for (index, directory) in directories.iter().enumerate() {
            let root = self.root_of(index, &directory.path);
            let place = root.map_or(&directory.path, |root| &root.canonical);
            if root.is_none() {
                let (path, directory) = (place.clone(), place.clone());
                names.push(AliasName { path, directory, declared: None });
            }
            for alias in &directory.options.aliases {
                match root.map_or(Ok(false), |root| is_here(filesystem, alias, root)) {
                    Ok(is_here) => names.push(AliasName {
                        path: alias.clone(),
                        directory: place.clone(),
                        declared: Some(is_here),
                    }),
                    Err(error) => {
                        failed.push((place.clone(), error.at("declare alias", alias.as_os_str())));
                    }
                }
            }
        }
        for name in conflicts(&names) {
            let error = Error::from(Code::AliasConflict).at("declare alias", name.path.as_os_str());
            failed.push((name.directory.clone(), error));
        }
        for (place, error) in failed {
            names.retain(|name| name.directory != place);
            let is_at = |path: &Path| path == place;
            let number = self.roots.iter().position(|(.., root)| is_at(&root.canonical));
            let index = match number.map(|number| self.roots.remove(number)) {
                Some((index, ..)) => Some(index),
                None => directories.iter().position(|directory| is_at(&directory.path)),
            };
            let entry = place.to_string_lossy().into_owned();
            self.rejected.extend(index.map(|index| RejectedEntry { index, entry, error }));
        }
        self.rejected.sort_by_key(RejectedEntry::index);
        for AliasName { path, directory, declared } in names {
            let Some(is_here) = declared else { continue };
            let root = self.roots.iter_mut().find(|(.., root)| root.canonical == directory);
            // An alias that resolves to the directory is verified together with it.
            if let Some((.., root)) = root.filter(|_| is_here) {
                if path != root.canonical && !root.aliases.contains(&path) {
                    root.aliases.push(path.clone());
                }
            }
            self.declared.push(DeclaredAlias { path, target: directory, is_here });
        }
    }

    /// The root of a configured directory. Two entries that name the same directory have the same
    /// root.
    fn root_of(&self, index: usize, path: &Path) -> Option<&Root> {
        let roots = || self.roots.iter();
        roots()
            .find(|(entry, ..)| *entry == index)
            .or_else(|| roots().find(|(.., root)| root.paths().any(|name| is_same(name, path))))
            .map(|(.., root)| root)
    }
}

/// Returns the aliases that equal, contain, or are inside a name of another directory, and the
/// aliases that contain or are inside another name of the same directory.
fn conflicts(names: &[AliasName]) -> Vec<&AliasName> {
    let mut tree = Tree::default();
    for (number, name) in names.iter().enumerate() {
        tree.insert(&name.path, number);
    }
    let mut found = Vec::new();
    for inner in names {
        for outer in tree.marks(&inner.path).filter_map(|(_, number)| names.get(number)) {
            let alias = [inner, outer].into_iter().find(|name| name.declared.is_some());
            found.extend(alias.filter(|_| collide(outer, inner)));
        }
    }
    found
}

fn collide(outer: &AliasName, inner: &AliasName) -> bool {
    let same_directory = is_same(&outer.directory, &inner.directory);
    if is_same(&outer.path, &inner.path) {
        return !same_directory;
    }
    // The configured path of a nested allowed directory may begin with an alias of the outer one,
    // if that alias resolves to the outer directory on this system.
    let is_consistent = outer.declared == Some(true)
        && inner.declared.is_none()
        && !same_directory
        && inner.directory.starts_with(&outer.directory);
    !is_consistent
}
