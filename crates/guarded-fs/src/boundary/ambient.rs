//! Absolute paths from the operator or the environment, such as that of a program, which may be
//! outside the configured directories.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::dir::{Access, Metadata};
use crate::error::{Code, Result};
use crate::path::protect::FoldedPaths;
use crate::roots::{Links, Root, Roots};

/// The places where tools can create files and symlinks: each writable root and each writable
/// allowed directory, in force or not. The filesystem root is excepted, because nothing is outside
/// it, so with [`any_listed`](crate::Boundary::any_listed) or a writable `/`, the directories that
/// other clients can write to are not known here.
///
/// For a program that uses a file by a path of its own configuration or environment, such as a
/// program or a plugin, and must not use one that a tool has put there. Names are compared
/// regardless of case, like [protected](crate::BoundaryBuilder::protect) ones.
///
/// ```
/// use guarded_fs::{Access, Roots};
///
/// # let top = tempfile::tempdir().unwrap();
/// # let top = top.path().canonicalize().unwrap();
/// # let (work, hook) = (top.join("work"), top.join("hook"));
/// # std::fs::create_dir(&work).unwrap();
/// # std::fs::write(&hook, "").unwrap();
/// # std::fs::write(work.join("hook"), "").unwrap();
/// let roots = Roots::from_dirs([&work], Access::ReadWrite)?;
/// let writable = roots.writable_places([]);
/// assert!(!writable.contain(&writable.resolve(&hook)?));
/// assert!(writable.contain(&writable.resolve(&work.join("hook"))?));
/// # Ok::<(), guarded_fs::Error>(())
/// ```
pub struct WritablePlaces<'a> {
    roots: Vec<&'a Root>,
    paths: FoldedPaths,
}

impl Roots {
    /// The places where tools can create files and symlinks, and `others`: the canonical paths of
    /// those that the boundary does not know.
    pub fn writable_places<'a>(
        &'a self,
        others: impl IntoIterator<Item = &'a Path>,
    ) -> WritablePlaces<'a> {
        let roots = self.with_allowed().flat_map(Self::iter);
        let is_writable =
            |root: &&Root| root.access() == Access::ReadWrite && !root.is_filesystem_root();
        let roots: Vec<_> = roots.filter(is_writable).collect();
        let paths = FoldedPaths::new(roots.iter().map(|root| root.path()).chain(others));
        WritablePlaces { roots, paths }
    }

    /// Whether this open file or directory is, or contains, a read-only allowed directory, in force
    /// or not. A missing one counts at the path where it would be. `canonical` is the path of the
    /// open one. Its other names, such as bind mounts and hard links, are recognized by identity.
    ///
    /// For a program whose rules only add access: one for what contains a read-only directory would
    /// make it writable.
    ///
    /// # Errors
    ///
    /// The error of looking at an allowed directory, if that leaves the answer open.
    pub fn read_only_at_or_below(&self, opened: &File, canonical: &Path) -> Result<bool> {
        let is_named = |path: &Path| path.starts_with(canonical);
        let snapshots = || self.with_allowed();
        let mut planned = snapshots().flat_map(Self::planned);
        if planned.any(|(path, access)| *access == Access::ReadOnly && is_named(path)) {
            return Ok(true);
        }
        let opened = Metadata::of_file(opened)?.identity();
        let mut seen = HashSet::new();
        for root in snapshots().flat_map(Self::iter) {
            let is_read_only = root.access() == Access::ReadOnly;
            // A rule for another name of a read-only directory, or of one above it, is one for the
            // directory.
            if is_read_only
                && (is_named(root.path()) || root.is_object_at_or_below(opened, &mut seen)?)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl WritablePlaces<'_> {
    /// Resolves an absolute path, which may be outside the roots, to the canonical path of what is
    /// there. That can itself be in one of these places: see [`contain`](Self::contain).
    ///
    /// # Errors
    ///
    /// - [`InvalidPath`](crate::ErrorKind::InvalidPath) (`not_absolute`).
    /// - [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) if a symlink that was
    ///   followed is in one of these places.
    /// - [`NotFound`](crate::ErrorKind::NotFound), and the other errors of resolving the path.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf> {
        if !path.is_absolute() {
            return Err(Code::NotAbsolute.into());
        }
        let (canonical, links) = resolve(path)?;
        // A tool may have created the symlink.
        if links.are_in(&self.paths) { Err(Code::ThroughLink.into()) } else { Ok(canonical) }
    }

    /// Whether a canonical path, such as one from [`resolve`](Self::resolve), is in one of these
    /// places. On Unix, other names of such a place, such as a bind mount of the whole directory,
    /// are recognized too.
    #[must_use]
    pub fn contain(&self, canonical: &Path) -> bool {
        let directories = self.roots.iter().filter(|root| !root.is_file());
        self.paths.enclose(canonical) || is_other_name(canonical.ancestors(), directories.copied())
    }
}

impl fmt::Debug for WritablePlaces<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.roots).finish()
    }
}

#[cfg(unix)]
fn is_other_name<'a>(
    paths: impl Iterator<Item = &'a Path>,
    mut directories: impl Iterator<Item = &'a Root>,
) -> bool {
    let identity = |path: &Path| Some(Metadata::of_std(&std::fs::metadata(path).ok()?).identity());
    let paths: Vec<_> = paths.filter_map(identity).collect();
    // A root that is not there contains nothing.
    let identity = |root: &Root| root.handle().and_then(|handle| handle.identity());
    directories.any(|root| identity(root).is_ok_and(|identity| paths.contains(&identity)))
}

/// Windows resolves a path to the name of its volume, so a directory has only one canonical path.
#[cfg(windows)]
fn is_other_name<T, U>(_: T, _: U) -> bool {
    false
}

#[cfg(unix)]
fn resolve(path: &Path) -> Result<(PathBuf, Links)> {
    use super::volumes;
    use crate::dir::Budget;
    use crate::path::Location;
    use crate::roots::{LastName, Lookups, PlaceInRoot, Presence, join};
    let filesystem = volumes::filesystem_root(&[])?;
    let mut budget = Budget::new();
    let mut lookups = Lookups::recording(&filesystem, &mut budget);
    let location = Location::from_path(path)?;
    match filesystem.locate_with(&mut lookups, &location, LastName::Any)? {
        PlaceInRoot { root, path, found: Presence::Exists, .. } => {
            Ok((join(filesystem.root(root)?.path(), &path), lookups.into_links()))
        }
        _ => Err(Code::NotFound.into()),
    }
}

/// Windows reports no symlinks.
#[cfg(windows)]
fn resolve(path: &Path) -> Result<(PathBuf, Links)> {
    Ok((dunce::canonicalize(path)?, Links::default()))
}
