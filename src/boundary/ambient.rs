//! Absolute paths from the operator or the environment, such as the path of a program. They may
//! be outside the configured directories.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::roots::Links;

/// Resolves an absolute path. Returns the place that it names and the symlinks that were followed.
#[cfg(unix)]
pub(crate) fn resolve_ambient(path: &Path) -> Result<(PathBuf, Links)> {
    use crate::boundary::volumes;
    use crate::dir::Budget;
    use crate::error::Code;
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
pub(crate) fn resolve_ambient(path: &Path) -> Result<(PathBuf, Links)> {
    Ok((dunce::canonicalize(path)?, Links::default()))
}
