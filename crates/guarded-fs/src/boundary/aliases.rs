//! The aliases of allowed directories
//! ([`DirectoryOptions::alias`](super::DirectoryOptions::alias)).
//!
//! An alias is replaced by the directory's canonical path before anything is looked up, so it
//! grants nothing that the canonical path does not grant. One that exists on this system and is a
//! different directory is an error, because it would hide that directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Directory;
use super::listed::UniqueRoots;
use crate::dir::{Budget, Rule};
use crate::error::{Code, Result};
use crate::path::Location;
use crate::path::index::Tree;
#[cfg(unix)]
use crate::path::names::drive;
use crate::path::names::is_same;
use crate::roots::{
    DeclaredAlias, LastName, Lookups, PlaceInRoot, Presence, RejectedEntry, Root, Roots,
};

struct AliasName {
    path: PathBuf,
    directory: PathBuf,
    /// For a declared alias, whether it resolves to the directory on this system.
    declared: Option<bool>,
}

/// Rejects a directory if one of its aliases conflicts with another path.
pub(super) fn declare(
    directories: &mut [(Directory, Option<RejectedEntry>)],
    roots: &mut UniqueRoots,
    filesystem: &Roots,
) -> Vec<DeclaredAlias> {
    if directories.iter().all(|(directory, _)| directory.options.aliases.is_empty()) {
        return Vec::new();
    }
    let place = |directory: &Directory| {
        directory.root().map_or_else(|| directory.path.clone(), |root| root.canonical.clone())
    };
    let mut names = Vec::new();
    for (directory, _) in &*directories {
        let paths = directory.root().map(|root| root.paths().map(Path::to_owned).collect());
        let paths: Vec<_> = paths.unwrap_or_else(|| vec![directory.path.clone()]);
        let name = |path| AliasName { path, directory: place(directory), declared: None };
        names.extend(paths.into_iter().map(name));
    }
    let mut failed = Vec::new();
    for (directory, _) in &*directories {
        for alias in &directory.options.aliases {
            match directory.root().map_or(Ok(false), |root| is_here(filesystem, alias, root)) {
                Ok(is_here) => names.push(AliasName {
                    path: alias.clone(),
                    directory: place(directory),
                    declared: Some(is_here),
                }),
                Err(error) => failed.push((place(directory), alias.clone(), error)),
            }
        }
    }
    for name in conflicts(&names) {
        failed.push((name.directory.clone(), name.path.clone(), Code::AliasConflict.into()));
    }
    for (failed, alias, error) in failed {
        names.retain(|name| name.directory != failed);
        roots.roots.retain(|root| root.canonical != failed);
        let mut at_place =
            directories.iter_mut().enumerate().filter(|(_, it)| place(&it.0) == failed);
        if let Some((index, (directory, rejected))) = at_place.find(|(_, it)| !it.0.is_invalid()) {
            let error = directory.reject(error.with_request("declare alias", alias.as_os_str()));
            *rejected = Some(directory.rejected(index, error));
        }
    }
    names.into_iter().filter_map(|name| name.declare(roots)).collect()
}

impl AliasName {
    fn declare(self, roots: &mut UniqueRoots) -> Option<DeclaredAlias> {
        let Self { path, directory: target, declared } = self;
        let is_here = declared?;
        let root = roots.roots.iter_mut().find(|root| root.canonical == target);
        // An alias that resolves to the directory is verified together with it.
        if let Some(root) = root.filter(|_| is_here).map(Arc::make_mut) {
            if path != root.canonical && !root.aliases.contains(&path) {
                root.aliases.push(path.clone());
            }
        }
        Some(DeclaredAlias { path, target, is_here })
    }
}

/// Whether an alias resolves to the root on this system. False if nothing is at that path, or a
/// mount of the same directory, and an error if anything else is.
fn is_here(filesystem: &Roots, alias: &Path, root: &Root) -> Result<bool> {
    #[cfg(unix)]
    if drive::starts_with_drive(alias.as_os_str()).is_some() {
        return Ok(false);
    }
    // On Windows, the volume may not exist.
    if filesystem.index().strip_root(alias.as_os_str()).is_none() {
        return Ok(false);
    }
    let mut budget = Budget::new();
    let mut lookups = Lookups::new(filesystem, &mut budget);
    let place = filesystem.locate_with(&mut lookups, &Location::from_path(alias)?, LastName::Any);
    let PlaceInRoot { root: top, path, .. } = match place {
        Ok(PlaceInRoot { found: Presence::Missing(_), .. }) => return Ok(false),
        Err(error) if matches!(error.reason(), Code::NotFound | Code::NotADirectory) => {
            return Ok(false);
        }
        place => place?,
    };
    let top = filesystem.root(top)?;
    if is_same(&top.canonical.join(&path), &root.canonical) {
        return Ok(true);
    }
    // The same directory may be mounted at both paths.
    let mounted = top.handle()?.dir(&path, Rule::Allow).and_then(|found| found.identity());
    if !root.is_file() && mounted.is_ok_and(|mounted| root.directory.identity() == Some(mounted)) {
        return Ok(false);
    }
    Err(Code::AliasConflict.into())
}

/// The aliases that equal, contain or are inside a name of another directory, or contain or are
/// inside another name of the same one.
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
