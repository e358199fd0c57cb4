//! Writing whole files and creating directories.

use std::io::Write as _;

use super::atomic::AtomicFile;
use super::open::NEW_FILE;
use super::options::{Durability, InPlace, Precondition, WriteMethod, WriteOptions};
use super::parents::NewDirectories;
use super::permissions::narrow_mode;
use super::permit::ChangeKind;
use super::version::{Condition, change_in_place_if};
use crate::check::{CheckedPath, Proof};
use crate::dir::{Identity, Metadata, OpenHow, Stat};
use crate::error::{Code, Result};
use crate::path::IntoLocation;
use crate::roots::{LastName, Roots};

impl Roots {
    /// Writes a whole file atomically, to a new file in the same directory that is then renamed. A
    /// reader sees either the old content or the new, and a failed write leaves the old. This
    /// requires permission to write to the directory (rename(2)) and, on Unix, to read or to write
    /// the old file.
    ///
    /// The content is synced before the rename, and the directory afterwards where that is possible
    /// ([`Durability::DataAndDirectory`]). If only the latter fails, the error says that the file
    /// has its new content. With the sync, writing a small file takes several times as long. For
    /// one that can be created again, use [`write_with`](Self::write_with) and
    /// [`Durability::None`].
    ///
    /// The new file has the permissions that the old one has immediately before it is replaced, and
    /// nobody gains access, except the new file's owner, who can always change its mode:
    ///
    /// - The permission bits are kept, without set-user-ID and set-group-ID, and the owner and the
    ///   group as far as the process may set them. If the owner cannot be kept, the group and
    ///   others keep only the bits that the old owner had too; if the group cannot be kept, only
    ///   those that the old group and all others had.
    /// - A POSIX access control list on Linux is kept exactly, which requires the same owner and
    ///   group. If that is impossible, the write is refused. Lists of other kinds (NFSv4, macOS,
    ///   Windows) are not kept, and the new file inherits the list of its directory.
    /// - Extended attributes, the birth time and other hard links, which still name the old
    ///   content, are kept only [in place](WriteOptions::in_place).
    ///
    /// A file that did not exist has mode 0666 minus the umask, or the permissions from the default
    /// access control list of its directory.
    ///
    /// Exceeding the process's file size limit (`RLIMIT_FSIZE`, setrlimit(2)) kills the process,
    /// unless it handles or ignores `SIGXFSZ`. If the process is killed during a write, the new
    /// file remains, named `.guarded-fs-`, 16 hexadecimal digits and `.tmp`. A server that keeps no
    /// [`AtomicFile`] for longer than an hour can remove those not modified for that long:
    ///
    /// ```sh
    /// find DIRECTORY -name '.guarded-fs-????????????????.tmp' -type f -mmin +60 -delete
    /// ```
    ///
    /// A directory with such a name was being removed by a [`ChangeSet`](crate::ChangeSet). What is
    /// in it was to be removed, too.
    ///
    /// # Errors
    ///
    /// - Those of [`check`](Self::check); [`ReadOnly`](crate::ErrorKind::ReadOnly),
    ///   [`Protected`](crate::ErrorKind::Protected); operating system errors.
    /// - [`RootItself`](crate::ErrorKind::RootItself) for a single-file root, even inside another
    ///   root, which can only be written in place.
    /// - [`IsADirectory`](crate::ErrorKind::IsADirectory), also for a new name that ends in a
    ///   slash; [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`).
    /// - [`PermissionDenied`](crate::ErrorKind::PermissionDenied), also for a file that the process
    ///   may neither read nor write, or whose access control list cannot be kept.
    pub fn write(&self, request: impl IntoLocation, content: impl AsRef<[u8]>) -> Result<()> {
        self.operate("write", request, LastName::New, |path| {
            write(path, &content, WriteOptions::default().into())
        })
    }

    /// Writes a whole file like [`write`](Self::write), with options.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write) and of [`CheckedPath::atomic_file`], except that a file can
    /// be written in place.
    pub fn write_with(
        &self,
        request: impl IntoLocation,
        content: impl AsRef<[u8]>,
        options: impl Into<WriteMethod>,
    ) -> Result<()> {
        let method = options.into();
        self.operate("write", request, LastName::New, |path| write(path, &content, method))
    }

    /// Creates a directory. For a file, use [`open_with`](Self::open_with). The parent must exist.
    /// Unlike mkdir(2), this follows a dangling symlink as the last name if its target is inside a
    /// root, and creates the target.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Protected`](crate::ErrorKind::Protected),
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists); [`NotFound`](crate::ErrorKind::NotFound)
    /// without a parent.
    pub fn create_dir(&self, request: impl IntoLocation) -> Result<()> {
        self.operate("create directory", request, LastName::New, Proof::create_dir)
    }

    /// Creates a directory and its missing parents. Succeeds if the directory already exists.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check); [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Protected`](crate::ErrorKind::Protected);
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) or
    /// [`NotADirectory`](crate::ErrorKind::NotADirectory) if a name on the path is no directory.
    /// Directories that were created before an error remain.
    pub fn create_dir_all(&self, request: impl IntoLocation) -> Result<()> {
        self.operate("create directory", request, LastName::New, Proof::create_dir_all)
    }
}

impl CheckedPath {
    /// Like [`Roots::write`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn write(&self, content: impl AsRef<[u8]>) -> Result<()> {
        self.0.run("write", |path| write(path, &content, WriteOptions::default().into()))
    }

    /// Like [`Roots::write_with`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn write_with(
        &self,
        content: impl AsRef<[u8]>,
        options: impl Into<WriteMethod>,
    ) -> Result<()> {
        let method = options.into();
        self.0.run("write", |path| write(path, &content, method))
    }

    /// Like [`Roots::create_dir`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn create_dir(&self) -> Result<()> {
        self.0.run("create directory", Proof::create_dir)
    }

    /// Like [`Roots::create_dir_all`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn create_dir_all(&self) -> Result<()> {
        self.0.run("create directory", Proof::create_dir_all)
    }
}

fn write(path: &Proof, content: impl AsRef<[u8]>, method: WriteMethod) -> Result<()> {
    let Some(mut file) = path.begin_write(method, NEW_FILE, None)? else {
        let (at, options) = (&path.parent_dir()?, method.options);
        let condition = Condition::new(path, at, options.precondition.version());
        let content = content.as_ref();
        return change_in_place_if(condition, || path.overwrite(content, options.durability));
    };
    file.write_content(content)?;
    file.put_in_place()
}

impl Proof {
    /// Begins to write a file, with this mode if it is new, which must not be the `source` of a
    /// copy. `None` if an existing file must be overwritten in place.
    pub(super) fn begin_write(
        &self,
        method: WriteMethod,
        mode: u32,
        source: Option<Identity>,
    ) -> Result<Option<AtomicFile>> {
        // What must be missing cannot be overwritten.
        if method.is_in_place() && method.options.precondition != Precondition::Missing {
            if let Stat::Other(metadata) = self.permit(ChangeKind::Modify)?.look()? {
                self.ensure_replaceable(&metadata, source)?;
                return Ok(None);
            }
        }
        let file = AtomicFile::begin(self, method, mode, source)?;
        file.ensure_unchanged()?;
        let is_kept = method.in_place != InPlace::IfOwnerChanges || file.can_keep_owner()?;
        Ok(Some(file).filter(|_| is_kept))
    }

    pub(super) fn ensure_replaceable(
        &self,
        old: &Metadata,
        source: Option<Identity>,
    ) -> Result<()> {
        self.roots().policy().allow(old)?;
        if source == Some(old.identity()) { Err(Code::SameFile.into()) } else { Ok(()) }
    }

    /// Overwrites the file before truncating it, so a full disk causes an error only if the new
    /// content is longer than the old.
    fn overwrite(&self, content: &[u8], durability: Durability) -> Result<()> {
        let (mut file, metadata) = self.open_to_change(ChangeKind::Overwrite, OpenHow::WRITE)?;
        narrow_mode(&file, &metadata, 0o777)?;
        file.write_all(content)?;
        if metadata.is_file() {
            file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))?;
            if durability != Durability::None {
                file.sync_all()?;
            }
        }
        Ok(())
    }

    pub(super) fn create_dir(&self) -> Result<()> {
        self.permit(ChangeKind::CreateDir)?.slot().create_dir()
    }

    fn create_dir_all(&self) -> Result<()> {
        self.ensure_writable()?;
        if self.root().is_file() {
            return Err(Code::AlreadyExists.into());
        }
        let mut created = NewDirectories::default();
        let result = self.create_dirs(0, &mut created);
        created.keep();
        match result {
            Err(error) if error.reason() == Code::NotADirectory && self.existed() => {
                Err(Code::AlreadyExists.into())
            }
            result => result.map(drop),
        }
    }
}
