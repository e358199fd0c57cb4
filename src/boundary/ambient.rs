//! Absolute paths from the operator or the environment, such as the path of a program. They may
//! be outside the configured directories.

use std::path::{Path, PathBuf};

use crate::boundary::grants::GrantMemory;
use crate::dir::Identity;
use crate::error::Result;
use crate::roots::Trail;

/// Resolves an absolute path. Returns the place that it names and the trail of the symlinks that
/// were followed.
#[cfg(unix)]
pub(crate) fn resolve_ambient(path: &Path) -> Result<(PathBuf, Trail)> {
    use crate::boundary::volumes;
    use crate::path::protect::Protected;
    resolve_beneath(&volumes::filesystem_root(Protected::default())?, path)
}

/// Windows reports no symlinks, so the trail is empty.
#[cfg(windows)]
pub(crate) fn resolve_ambient(path: &Path) -> Result<(PathBuf, Trail)> {
    Ok((dunce::canonicalize(path)?, Trail::default()))
}

/// Like [`resolve_ambient`], with the roots that represent the whole filesystem.
#[cfg(unix)]
pub(crate) fn resolve_beneath(
    filesystem: &crate::roots::Roots,
    path: &Path,
) -> Result<(PathBuf, Trail)> {
    use crate::dir::Budget;
    use crate::error::Code;
    use crate::path::Location;
    use crate::roots::{Intent, Lookups, Place, resolve};
    let mut budget = Budget::new();
    let mut lookups = Lookups::new(filesystem, &mut budget);
    let location = Location::from_path(path)?;
    let found =
        resolve(&mut lookups, filesystem.index(), None, location.as_os_str(), Intent::Existing)?;
    match found {
        Place::Inside { root, path, .. } => {
            Ok((filesystem.root(root)?.path().join(path), lookups.into_trail()))
        }
        Place::Above(_) => Err(Code::NotFound.into()),
    }
}

/// Whether a symlink on the trail is inside one of these directories.
pub(crate) fn runs_through(
    directories: impl IntoIterator<Item = (PathBuf, Identity)>,
    trail: &Trail,
) -> bool {
    GrantMemory::from_directories(directories).contains_any(trail)
}
