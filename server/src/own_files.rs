//! The files of the server itself, its socket and its audit log: clients must not be able to change
//! them, and a confined server must.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mcp_roots_guard::{Access, Confinement, ExtraAccess, Roots};

/// A file of the server itself, with the option that names it.
#[derive(Clone, Debug)]
pub struct OwnFile {
    pub(crate) option: &'static str,
    pub(crate) path: PathBuf,
}

impl OwnFile {
    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Verifies that neither clients nor other users can change or replace the file. Without allowed
    /// directories, a client could list any directory as its root.
    ///
    /// # Errors
    ///
    /// The option and the path, with what to do.
    pub fn verify(&self, allowed: &Roots) -> Result<(), String> {
        let (option, path) = (self.option, self.path.display());
        if allowed.iter().len() == 0 {
            return Err(format!(
                "{option} {path}: requires a directory for clients, because otherwise their \
                 roots could contain it"
            ));
        }
        let real = canonical(self.directory());
        for directory in [self.directory(), &real] {
            let around = allowed.iter().filter(|root| directory.starts_with(root.path()));
            let nearest = around.max_by_key(|root| root.path().as_os_str().len());
            if let Some(root) = nearest.filter(|root| root.access() == Access::ReadWrite) {
                let root = root.client_path();
                return Err(format!(
                    "{option} {path}: clients could change it, because it is in {root}, which is \
                     writable"
                ));
            }
        }
        if is_writable_by_others(self.directory()) {
            return Err(format!(
                "{option} {path}: other users may write in its directory; give it one of its own"
            ));
        }
        Ok(())
    }
}

/// Lets a confined server remove its socket and open its audit log again.
pub fn with_own_files(confinement: Confinement, files: &[OwnFile]) -> Confinement {
    let directories = files.iter().map(OwnFile::directory).collect::<BTreeSet<_>>();
    directories.into_iter().fold(confinement, |confinement, directory| {
        confinement.extra(directory, ExtraAccess::ReadWrite)
    })
}

#[expect(clippy::disallowed_methods, reason = "the operator's own path, not a request's")]
fn canonical(directory: &Path) -> PathBuf {
    directory.canonicalize().unwrap_or_else(|_| directory.to_owned())
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the operator's own path, not a request's")]
fn is_writable_by_others(directory: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o022 != 0)
}

/// Access lists are not examined.
#[cfg(not(unix))]
fn is_writable_by_others(_: &Path) -> bool {
    false
}
