//! Attributes of files and directories, and descriptors for other libraries.

use std::fs::{File, FileTimes};
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as OwnedFd;
use std::time::SystemTime;

use super::permit::ChangeKind;
use crate::check::{CheckedPath, Proof};
use crate::dir::{Metadata, Stat};
use crate::error::{Code, Error, Result};

/// An attribute that [`CheckedPath::set_attribute`](crate::CheckedPath::set_attribute) sets.
///
/// ```
/// # #[cfg(unix)] fn main() -> Result<(), guarded_fs::Error> {
/// use std::time::{Duration, SystemTime};
///
/// use guarded_fs::{Access, Attribute, Roots};
///
/// # let work = tempfile::tempdir().unwrap();
/// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
/// roots.write("run.sh", "#!/bin/sh\n")?;
/// let script = roots.check("run.sh")?;
/// script.set_attribute(Attribute::Executable)?;
/// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
/// script.set_attribute(Attribute::Modified(time))?;
/// let metadata = script.metadata()?;
/// assert_eq!(metadata.modified(), Some(time));
/// assert_eq!(metadata.permission_bits().map(|mode| mode & 0o100), Some(0o100));
/// # Ok(())
/// # }
/// # #[cfg(not(unix))] fn main() {}
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Attribute {
    /// The time of the last modification.
    Modified(SystemTime),
    /// The time of the last access.
    Accessed(SystemTime),
    /// Everybody who can read a regular file can also execute it, whatever the umask is.
    ///
    /// Set-user-ID and set-group-ID are cleared. On a file with a POSIX access control list, the
    /// group's bits are the mask of the list (acl(5)), so execute permission in its entries takes
    /// effect.
    ///
    /// On Windows, where a file's name determines whether it can be executed, the error is
    /// [`Unsupported`](crate::ErrorKind::Unsupported).
    Executable,
    /// Nobody can execute a regular file. Otherwise, like [`Executable`](Self::Executable).
    NotExecutable,
    /// A regular file has the read-only attribute of Windows.
    ///
    /// On Unix, the error is [`Unsupported`](crate::ErrorKind::Unsupported): a file without write
    /// bits could still be replaced by whoever may write to its directory, and adding the bits
    /// would have to guess who may write.
    ReadOnly,
    /// The opposite of [`ReadOnly`](Self::ReadOnly), with the same error.
    Writable,
}

impl Attribute {
    fn ensure_supported(self) -> Result<()> {
        let reason = match self {
            Self::Executable | Self::NotExecutable if cfg!(windows) => {
                "Windows has no attribute that makes a file executable"
            }
            Self::ReadOnly | Self::Writable if cfg!(unix) => {
                "only Windows has a read-only attribute"
            }
            _ => return Ok(()),
        };
        Err(Error::from(Code::Unsupported).with_text(reason))
    }

    fn set(self, path: &Proof) -> Result<()> {
        self.ensure_supported()?;
        let permit = path.permit(ChangeKind::Modify)?;
        let policy = path.roots().policy();
        let is_dir = match permit.look()? {
            Stat::Missing => return Err(Code::NotFound.into()),
            Stat::Link(..) => return Err(Code::Changed.into()),
            Stat::Other(metadata) if metadata.is_dir() => true,
            // The type must be known first, because opening a FIFO for writing would wake its
            // reader.
            Stat::Other(metadata) => {
                policy.allow(&metadata)?;
                false
            }
        };
        let file = permit.slot().open_to_set_attributes(is_dir)?;
        let metadata = Metadata::without_birth(&file)?;
        // Another process replaced it after the look-up.
        if metadata.is_dir() != is_dir || metadata.is_symlink() {
            return Err(Code::Changed.into());
        }
        if is_dir {
            return self.apply(&file, &metadata);
        }
        let (file, metadata) = path.verify_opened(file)?;
        self.apply(&file, &metadata)
    }

    #[expect(clippy::disallowed_methods, reason = "the file is from a slot")]
    fn apply(self, file: &File, metadata: &Metadata) -> Result<()> {
        match self {
            Self::Modified(time) => Ok(file.set_times(FileTimes::new().set_modified(time))?),
            Self::Accessed(time) => Ok(file.set_times(FileTimes::new().set_accessed(time))?),
            _ if metadata.is_dir() => Err(Code::IsADirectory.into()),
            _ if !metadata.is_file() => Err(Code::SpecialFile.into()),
            _ => self.set_permissions(file, metadata),
        }
    }

    #[cfg(unix)]
    #[expect(clippy::disallowed_methods, reason = "the file is from a slot")]
    fn set_permissions(self, file: &File, metadata: &Metadata) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let Some(mode) = metadata.permission_bits() else { return Ok(()) };
        let is_executable = self == Self::Executable;
        let mode = if is_executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
        Ok(file.set_permissions(std::fs::Permissions::from_mode(mode & 0o1777))?)
    }

    #[cfg(windows)]
    #[expect(clippy::disallowed_methods, reason = "the file is from a slot")]
    fn set_permissions(self, file: &File, _: &Metadata) -> Result<()> {
        let mut permissions = file.metadata()?.permissions();
        permissions.set_readonly(self == Self::ReadOnly);
        Ok(file.set_permissions(permissions)?)
    }
}

impl CheckedPath {
    /// Sets an attribute of a file or directory, through a file that was opened and verified.
    /// Symlinks are followed. Owners, groups and access control lists are never changed.
    ///
    /// On Unix, this requires ownership, and permission to open the file for reading or writing, or
    /// the directory for reading.
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) for an attribute that the system lacks.
    /// - [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Protected`](crate::ErrorKind::Protected),
    ///   [`NotFound`](crate::ErrorKind::NotFound),
    ///   [`PermissionDenied`](crate::ErrorKind::PermissionDenied).
    /// - [`IsADirectory`](crate::ErrorKind::IsADirectory) for an attribute of regular files;
    ///   [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) likewise (`special_file`), and by
    ///   policy (`special_file`, `hard_linked`).
    pub fn set_attribute(&self, attribute: Attribute) -> Result<()> {
        self.0.run("set attribute of", |path| attribute.set(path))
    }

    /// Opens a directory as a file descriptor, or as a handle on Windows, for a library that works
    /// beneath one. The directory was beneath its root when it was opened, and no symlink was
    /// followed.
    ///
    /// The descriptor is outside the protection of the guard:
    ///
    /// - `..` and symlinks leave the directory and its root, unless the library refuses both, for
    ///   example with `openat2` and `RESOLVE_BENEATH`.
    /// - Read-only access, protected names, and the rules for unusual files are not enforced.
    /// - It remains valid when the request ends, the root is withdrawn, or the directory is moved
    ///   out of it.
    ///
    /// On Unix, it is opened with `O_RDONLY | O_DIRECTORY | O_CLOEXEC`, so it can be listed. On
    /// Windows, the directory cannot be renamed or removed while it is open.
    ///
    /// # Errors
    ///
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory),
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied);
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) in a proc filesystem.
    ///
    /// ```
    /// # #[cfg(unix)] fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use guarded_fs::{Access, Roots};
    /// use rustix::fs::{Mode, OFlags, openat};
    ///
    /// # let work = tempfile::tempdir()?;
    /// # std::fs::create_dir(work.path().join("site"))?;
    /// # std::fs::write(work.path().join("site/a.txt"), "")?;
    /// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let directory = roots.check("site")?.open_unguarded_dir()?;
    /// openat(&directory, "a.txt", OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))] fn main() {}
    /// ```
    pub fn open_unguarded_dir(&self) -> Result<OwnedFd> {
        self.0.run("open directory", open_unguarded_dir)
    }
}

fn open_unguarded_dir(path: &Proof) -> Result<OwnedFd> {
    let place = path.place()?;
    let directory = place.directory.open_dir(&place.path, place.mounts)?;
    #[cfg(target_os = "linux")]
    path.root().ensure_not_proc(&directory, &Metadata::without_birth(&directory)?)?;
    Ok(directory.into())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the file is temporary")]
    fn execute_bits_follow_the_read_bits() {
        let file = tempfile::tempfile().unwrap();
        let mode = |file: &File| file.metadata().unwrap().permissions().mode() & 0o7777;
        for before in 0..0o10000 {
            for attribute in [Attribute::Executable, Attribute::NotExecutable] {
                file.set_permissions(std::fs::Permissions::from_mode(before)).unwrap();
                let before = mode(&file);
                let metadata = Metadata::without_birth(&file).unwrap();
                attribute.apply(&file, &metadata).unwrap();
                let after = mode(&file);
                assert_eq!(after & 0o666, before & 0o666, "{before:o}");
                assert_eq!(after & 0o6000, 0, "{before:o}");
                for class in [6, 3, 0] {
                    let (was, is) = (before >> class, after >> class);
                    let expected = attribute == Attribute::Executable && (was & 5 != 0);
                    assert_eq!(is & 1 != 0, expected, "{before:o} {attribute:?}");
                }
            }
        }
    }
}
