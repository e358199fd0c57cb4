//! What a crate that runs programs asks about paths: [`ProgramPaths`].

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use crate::dir::FileType;
use crate::dir::{Access, Metadata};
use crate::error::{Code, Result};
#[cfg(target_os = "linux")]
use crate::path::names::components;
use crate::path::protect::FoldedPaths;
use crate::roots::{Links, Root, Roots};

/// What a crate that runs programs asks about absolute paths from the configuration or the
/// environment, which can be outside the roots: whether a tool can have put something there, and
/// what a rule of the kernel for such a path, or for a root, would grant.
///
/// Tools can create files and symlinks in each writable root and each writable allowed directory,
/// in force or not. The filesystem root is excepted, because nothing is outside it. So
/// with [`Boundary::any_listed`](crate::Boundary::any_listed) or a writable `/`, the directories
/// that other clients can write to are not known here. Names are compared regardless of case, like
/// [protected](crate::BoundaryBuilder::protect) ones.
///
/// ```
/// use guarded_fs::host::ProgramPaths;
/// use guarded_fs::{Access, Roots};
///
/// # let top = tempfile::tempdir().unwrap();
/// # let top = top.path().canonicalize().unwrap();
/// # let (work, hook) = (top.join("work"), top.join("hook"));
/// # std::fs::create_dir(&work).unwrap();
/// # std::fs::write(&hook, "").unwrap();
/// # std::fs::write(work.join("hook"), "").unwrap();
/// let roots = Roots::from_dirs([&work], Access::ReadWrite)?;
/// let paths = ProgramPaths::new(&roots, []);
/// assert!(!paths.is_writable(&paths.resolve(&hook)?));
/// assert!(paths.is_writable(&paths.resolve(&work.join("hook"))?));
/// # Ok::<(), guarded_fs::Error>(())
/// ```
pub struct ProgramPaths<'a> {
    roots: &'a Roots,
    /// Where tools can create files and symlinks, except `others`.
    writable: Vec<&'a Root>,
    writable_paths: FoldedPaths,
}

impl<'a> ProgramPaths<'a> {
    /// Tools can also write to `others`, canonical paths that the boundary does not know.
    pub fn new(roots: &'a Roots, others: impl IntoIterator<Item = &'a Path>) -> Self {
        let is_writable =
            |root: &&Root| root.access() == Access::ReadWrite && !root.is_filesystem_root();
        let writable = roots.with_allowed().flat_map(Roots::iter);
        let writable: Vec<_> = writable.filter(is_writable).collect();
        let paths = writable.iter().map(|root| root.path()).chain(others);
        let writable_paths = FoldedPaths::new(paths);
        Self { roots, writable, writable_paths }
    }

    /// Resolves an absolute path to the canonical path of what is there. Tools may be able to write
    /// to that: see [`is_writable`](Self::is_writable).
    ///
    /// # Errors
    ///
    /// - [`InvalidPath`](crate::ErrorKind::InvalidPath) (`not_absolute`).
    /// - [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) if a symlink that was
    ///   followed is where tools can write.
    /// - [`NotFound`](crate::ErrorKind::NotFound), and the other errors of resolving the path.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf> {
        if !path.is_absolute() {
            return Err(Code::NotAbsolute.into());
        }
        let (canonical, links) = resolve(path)?;
        // A tool may have created the symlink.
        if links.are_in(&self.writable_paths) {
            return Err(Code::ThroughLink.into());
        }
        Ok(canonical)
    }

    /// Whether tools can write to a canonical path, such as one from [`resolve`](Self::resolve). On
    /// Unix, other names of a writable directory, such as a bind mount of the whole directory, are
    /// recognized too.
    #[must_use]
    pub fn is_writable(&self, canonical: &Path) -> bool {
        let directories = self.writable.iter().filter(|root| !root.is_file());
        self.writable_paths.enclose(canonical)
            || is_other_name(canonical.ancestors(), directories.copied())
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
        let snapshots = || self.roots.with_allowed();
        let mut planned = snapshots().flat_map(Roots::planned);
        if planned.any(|(path, access)| *access == Access::ReadOnly && is_named(path)) {
            return Ok(true);
        }
        let opened = Metadata::of_file(opened)?.identity();
        let mut seen = HashSet::new();
        for root in snapshots().flat_map(Roots::iter) {
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

    /// Opens the directory or file to which the name of one of the roots leads now, with `O_PATH`,
    /// for a mechanism of the kernel such as Landlock or a mount (Linux only). No symlink is
    /// followed, and nothing is logged. The descriptor is outside the protection of the guard, as
    /// that of [`CheckedPath::open_unguarded_dir`](crate::CheckedPath::open_unguarded_dir).
    ///
    /// # Errors
    ///
    /// - The error of the [scope](super::Scope) of the roots, if it has ended.
    /// - [`OutsideRoots`](crate::ErrorKind::OutsideRoots) for a root of other roots.
    /// - [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if the name does not lead to what
    ///   the root is, a directory or a file.
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for a proc filesystem,
    ///   if the allowed directory is in none.
    #[cfg(target_os = "linux")]
    pub fn open_root(&self, root: &Root) -> Result<OwnedFd> {
        self.roots.ensure_usable()?;
        let (index, path) = (self.roots.index(), root.path().as_os_str());
        let begun = index.strip_root(path).filter(|(_, rest)| components(rest).next().is_none());
        // A root that is kept gives no access to roots that do not contain it.
        let root = self.roots.root(begun.ok_or(Code::OutsideRoots)?.0)?;
        // The cached handle of an allowed directory can be one that was just replaced.
        if !root.is_there() {
            return Err(Code::RootUnavailable.into());
        }
        let opened = root.handle()?.open_path(root.leaf().unwrap_or(".".as_ref()))?;
        let metadata = Metadata::of_file(&opened)?;
        let expected = if root.is_file() { FileType::File } else { FileType::Directory };
        if metadata.file_type() != expected {
            return Err(Code::RootUnavailable.into());
        }
        root.ensure_not_proc(&opened, &metadata)?;
        Ok(opened.into())
    }
}

impl fmt::Debug for ProgramPaths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramPaths")
            .field("roots", self.roots)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
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
    use crate::boundary::filesystem_root;
    use crate::dir::Budget;
    use crate::path::Location;
    use crate::roots::{LastName, Lookups, PlaceInRoot, Presence, join};
    let filesystem = filesystem_root(&[])?;
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
