//! Setting attributes of files and directories, and directory handles for other libraries.
//!
//! | attribute | regular file | directory | anything else |
//! | --- | --- | --- | --- |
//! | times | set | set | as the policy for special files |
//! | executable | set on Unix, `unsupported` on Windows | refused | refused |
//! | read-only | set on Windows, `unsupported` on Unix | refused | refused |
//!
//! The file is opened beneath the handle of its root and verified, and the attributes are set on
//! the open file, never by name. Owners, groups and access control lists are never changed. A
//! change of the mode clears set-user-ID and set-group-ID.

use std::fs::{File, FileTimes};
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as OwnedFd;
use std::time::SystemTime;

#[cfg(unix)]
use super::atomic::WRITE;
use crate::check::CheckedPath;
#[cfg(unix)]
use crate::dir::Want;
use crate::dir::{Look, Metadata};
use crate::error::{Code, Error, Result};
use crate::roots::Found;

/// The attributes that [`Roots::set_attributes`](crate::Roots::set_attributes) changes. Other
/// attributes stay unchanged.
///
/// ```
/// # #[cfg(unix)] fn main() -> Result<(), mcp_roots_guard::Error> {
/// use std::time::{Duration, SystemTime};
///
/// use mcp_roots_guard::{Attributes, Roots};
///
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()])?;
/// roots.write("run.sh", "#!/bin/sh\n")?;
/// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
/// roots.set_attributes("run.sh", Attributes::new().executable().modified(time))?;
/// let metadata = roots.metadata("run.sh")?;
/// assert_eq!(metadata.modified(), Some(time));
/// assert_eq!(metadata.mode().map(|mode| mode & 0o100), Some(0o100));
/// # Ok(())
/// # }
/// # #[cfg(not(unix))] fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Attributes {
    executable: Option<bool>,
    read_only: Option<bool>,
    modified: Option<SystemTime>,
    accessed: Option<SystemTime>,
}

impl Attributes {
    /// Returns a value that changes no attribute.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a regular file be executed, on systems with permission bits.
    ///
    /// The owner, the group and others get execute permission if they have read permission,
    /// whatever the umask is. Nobody else gets any permission. On a file with a POSIX access
    /// control list, the bits of the group are the mask of the list (acl(5)), so an entry of the
    /// list that contains execute permission takes effect. Set-user-ID and set-group-ID are
    /// cleared.
    ///
    /// On Windows, the name of a file determines whether it can be executed. The error is
    /// [`Unsupported`](crate::ErrorKind::Unsupported).
    pub fn executable(self) -> Self {
        Self { executable: Some(true), ..self }
    }

    /// Lets nobody execute a regular file. The opposite of [`executable`](Self::executable), with
    /// the same error.
    pub fn not_executable(self) -> Self {
        Self { executable: Some(false), ..self }
    }

    /// Sets the read-only attribute of a regular file on Windows.
    ///
    /// Unix has no such attribute, and the error is
    /// [`Unsupported`](crate::ErrorKind::Unsupported). Removing the write bits would not protect
    /// the content, because replacing a file requires permission to write to its directory, and
    /// adding them would have to guess who may write.
    pub fn read_only(self) -> Self {
        Self { read_only: Some(true), ..self }
    }

    /// Clears the read-only attribute. The opposite of [`read_only`](Self::read_only), with the
    /// same error.
    pub fn writable(self) -> Self {
        Self { read_only: Some(false), ..self }
    }

    /// Sets the time of the last modification.
    pub fn modified(self, modified: SystemTime) -> Self {
        Self { modified: Some(modified), ..self }
    }

    /// Sets the time of the last access.
    pub fn accessed(self, accessed: SystemTime) -> Self {
        Self { accessed: Some(accessed), ..self }
    }

    fn validate(self) -> Result<()> {
        if self == Self::default() {
            return Err(Error::new(Code::InvalidOptions).says("no attribute is set"));
        }
        let unsupported = if cfg!(windows) { self.executable } else { self.read_only };
        if unsupported.is_some() {
            return Err(Error::new(Code::Unsupported).says(if cfg!(windows) {
                "Windows has no attribute that makes a file executable"
            } else {
                "only Windows has a read-only attribute"
            }));
        }
        Ok(())
    }

    /// Sets the attributes of a file or directory.
    pub(super) fn set(self, path: &CheckedPath) -> Result<()> {
        self.validate()?;
        path.ensure_writable()?;
        let (handle, place) = path.place()?;
        let policy = path.roots().policy();
        let is_dir = match handle.look(&place, policy.mounts)? {
            Look::Missing => return Err(Code::NotFound.into()),
            Look::Link(..) if path.found() == Found::Link => return Err(Code::SpecialFile.into()),
            Look::Link(..) => return Err(Code::Changed.into()),
            Look::Other(metadata) if metadata.is_dir() => true,
            // The type must be known first, because opening a FIFO for writing would wake its
            // reader.
            Look::Other(metadata) => {
                policy.allow(&metadata)?;
                false
            }
        };
        #[cfg(windows)]
        let file = handle.open_to_set_attributes(&place, policy.mounts)?;
        #[cfg(unix)]
        let file = if is_dir {
            handle.open_dir(&place, policy.mounts)?
        } else {
            // Either permission is sufficient: the owner may change the attributes in any case.
            let opened = path.open_existing(Want::READ).or_else(|error| match error.reason() {
                Code::PermissionDenied => path.open_existing(WRITE),
                _ => Err(error),
            });
            opened?.0
        };
        let metadata = Metadata::without_birth(&file)?;
        // Another process replaced it after the look-up.
        if metadata.is_dir() != is_dir || metadata.is_symlink() {
            return Err(Code::Changed.into());
        }
        if !is_dir {
            policy.allow(&metadata)?;
        }
        self.apply(&file, &metadata)
    }

    /// Sets the attributes on an open file or directory. The times come last, because the other
    /// attributes concern permissions.
    fn apply(self, file: &File, metadata: &Metadata) -> Result<()> {
        if (self.executable.is_some() || self.read_only.is_some()) && !metadata.is_file() {
            let is_dir = metadata.is_dir();
            return Err(if is_dir { Code::IsADirectory } else { Code::SpecialFile }.into());
        }
        self.set_permissions(file, metadata)?;
        let mut times = FileTimes::new();
        if let Some(modified) = self.modified {
            times = times.set_modified(modified);
        }
        if let Some(accessed) = self.accessed {
            times = times.set_accessed(accessed);
        }
        if self.modified.is_some() || self.accessed.is_some() {
            file.set_times(times)?;
        }
        Ok(())
    }

    #[cfg(unix)]
    fn set_permissions(self, file: &File, metadata: &Metadata) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let (Some(executable), Some(mode)) = (self.executable, metadata.mode()) else {
            return Ok(());
        };
        let mode = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
        Ok(file.set_permissions(std::fs::Permissions::from_mode(mode & 0o1777))?)
    }

    #[cfg(windows)]
    fn set_permissions(self, file: &File, _: &Metadata) -> Result<()> {
        if let Some(read_only) = self.read_only {
            let mut permissions = file.metadata()?.permissions();
            permissions.set_readonly(read_only);
            file.set_permissions(permissions)?;
        }
        Ok(())
    }
}

pub(crate) fn open_unguarded_dir(path: &CheckedPath) -> Result<OwnedFd> {
    if path.found() == Found::Link {
        return Err(Code::NotADirectory.into());
    }
    let (handle, place) = path.place()?;
    Ok(handle.open_dir(&place, path.roots().policy().mounts)?.into())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Execute permission follows read permission, and set-user-ID and set-group-ID are cleared.
    #[test]
    fn execute_bits_follow_the_read_bits() {
        let file = tempfile::tempfile().unwrap();
        let mode = |file: &File| file.metadata().unwrap().permissions().mode() & 0o7777;
        for before in 0..0o10000 {
            for executable in [true, false] {
                let attributes = Attributes { executable: Some(executable), ..Attributes::new() };
                file.set_permissions(std::fs::Permissions::from_mode(before)).unwrap();
                let before = mode(&file);
                let metadata = Metadata::without_birth(&file).unwrap();
                attributes.apply(&file, &metadata).unwrap();
                let after = mode(&file);
                assert_eq!(after & 0o666, before & 0o666, "{before:o}");
                assert_eq!(after & 0o6000, 0, "{before:o}");
                for class in [6, 3, 0] {
                    let (was, is) = (before >> class, after >> class);
                    let expected = executable && (was & 5 != 0);
                    assert_eq!(is & 1 != 0, expected, "{before:o} {executable}");
                }
            }
        }
    }
}
