//! What process confinement needs to know about the configured directories.

use std::path::Path;

use crate::boundary::Boundary;
use crate::dir::Access;
use crate::roots::RejectedEntry;

impl Boundary {
    /// The configured path and access of a rejected directory.
    pub(crate) fn configured(&self, rejected: &RejectedEntry) -> Option<(&Path, Access)> {
        self.directory(rejected).map(|directory| (&*directory.path, directory.options.access))
    }
}
