//! What process confinement needs to know about the configured directories.

use std::path::{Path, PathBuf};

use crate::boundary::Boundary;
use crate::boundary::grants::GrantMemory;
use crate::dir::{Access, Budget, Identity};
use crate::error::{Code, Result};
use crate::path::Location;
use crate::roots::{Intent, Lookups, Place, RejectedRoot, Roots, Trail, resolve};

impl Boundary {
    /// The configured path and access of a rejected directory.
    pub(crate) fn configured(&self, rejected: &RejectedRoot) -> Option<(&Path, Access)> {
        self.directory(rejected).map(|directory| (&*directory.path, directory.options.access))
    }

    /// Resolves an absolute path from the operator. Returns the place that it names and the trail
    /// of the symlinks that were followed.
    pub(crate) fn resolve_path(&self, path: &Path) -> Result<(PathBuf, Trail)> {
        let filesystem = &self.inner.filesystem_root;
        let mut budget = Budget::new();
        let mut lookups = Lookups::new(filesystem, &mut budget);
        let location = Location::from_path(path)?;
        match resolve(
            &mut lookups,
            filesystem.index(),
            None,
            location.as_os_str(),
            Intent::Existing,
        )? {
            Place::Inside { root, path, .. } => {
                Ok((filesystem.root(root)?.path().join(path), lookups.into_trail()))
            }
            Place::Above(_) => Err(Code::NotFound.into()),
        }
    }

    /// Returns whether a symlink on the trail is inside a root or one of the other directories, so
    /// that a tool could have created it.
    pub(crate) fn runs_through_planted_link(
        roots: &Roots,
        others: &[(PathBuf, Identity)],
        trail: &Trail,
    ) -> bool {
        let roots = roots
            .roots()
            .filter(|root| !root.is_file())
            .map(|root| (root.path().to_owned(), root.identity));
        GrantMemory::from_directories(roots.chain(others.iter().cloned())).contains_any(trail)
    }
}
