//! Metadata of names and open files: [`Metadata`].

use std::fmt;
use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;
#[cfg(unix)]
use std::time::{Duration, UNIX_EPOCH};

/// The type of a file. A symlink is reported as such, not as its target. `Display` writes the type
/// in lowercase, such as `file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO.
    Fifo,
    /// A Unix domain socket.
    Socket,
    /// A block or character device.
    Device,
    /// Anything else.
    Other,
}

impl FileType {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_dir(self) -> bool {
        self == Self::Directory
    }

    /// Whether this is a regular file.
    #[must_use]
    pub fn is_file(self) -> bool {
        self == Self::File
    }

    /// Whether this is a symbolic link.
    #[must_use]
    pub fn is_symlink(self) -> bool {
        self == Self::Symlink
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The metadata of an open file, or of a name without following it, at the time of the system call.
#[derive(Clone, Debug)]
pub struct Metadata {
    file_type: FileType,
    len: u64,
    links: u64,
    modified: Option<SystemTime>,
    accessed: Option<SystemTime>,
    created: Option<SystemTime>,
    status_changed: Option<SystemTime>,
    permission_bits: Option<u32>,
    /// The user and the group. `None` on Windows.
    owner: Option<(u32, u32)>,
    identity: Identity,
}

/// The device and inode numbers of a filesystem object. Another one can have them once it is not
/// open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    inode: u64,
}

impl Metadata {
    /// The type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.file_type
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type.is_dir()
    }

    /// Whether this is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type.is_file()
    }

    /// Whether this is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.file_type.is_symlink()
    }

    /// The size in bytes. For a symlink, this is the length of the path in it.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "as in std")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The number of the device that contains the file, which identifies its filesystem (`st_dev`,
    /// stat(2)). On Windows, the serial number of the volume.
    #[must_use]
    pub fn device(&self) -> u64 {
        self.identity.device
    }

    /// The number of hard links to the file.
    #[must_use]
    pub fn hard_links(&self) -> u64 {
        self.links
    }

    /// The time when the content was last modified, if the filesystem records it. For the mode, use
    /// [`permission_bits`](Self::permission_bits).
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// The time of the last access, if the filesystem records it.
    #[must_use]
    pub fn accessed(&self) -> Option<SystemTime> {
        self.accessed
    }

    /// The time of creation, if the filesystem records it.
    #[must_use]
    pub fn created(&self) -> Option<SystemTime> {
        self.created
    }

    /// The permission bits with set-user-ID, set-group-ID and sticky (`0o7777` of `st_mode`,
    /// inode(7)). `None` on Windows.
    #[must_use]
    pub fn permission_bits(&self) -> Option<u32> {
        self.permission_bits
    }

    /// The user who owns the file (`st_uid`, inode(7)). `None` on Windows.
    #[must_use]
    pub fn uid(&self) -> Option<u32> {
        self.owner.map(|(uid, _)| uid)
    }

    /// The group of the file (`st_gid`, inode(7)). `None` on Windows.
    #[must_use]
    pub fn gid(&self) -> Option<u32> {
        self.owner.map(|(_, gid)| gid)
    }

    /// The number of the file on its [`device`](Self::device) (`st_ino`, inode(7)). On Windows, the
    /// file index. Another file can have it once this one was removed.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.identity.inode
    }

    #[cfg(unix)]
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::of_std(&file.metadata()?))
    }

    #[cfg(windows)]
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        use cap_fs_ext::MetadataExt as _;
        // `std` does not yet expose the link count and the file index (GetFileInformationByHandle).
        let by_handle = cap_std::fs::Metadata::from_file(file)?;
        let metadata = file.metadata()?;
        Ok(Self {
            file_type: match metadata.file_type() {
                t if t.is_symlink() => FileType::Symlink,
                t if t.is_dir() => FileType::Directory,
                t if t.is_file() => FileType::File,
                _ => FileType::Other,
            },
            len: metadata.len(),
            links: by_handle.nlink(),
            modified: metadata.modified().ok(),
            accessed: metadata.accessed().ok(),
            created: metadata.created().ok(),
            status_changed: None,
            permission_bits: None,
            owner: None,
            identity: Identity { device: by_handle.dev(), inode: by_handle.ino() },
        })
    }

    /// For a symlink whose own metadata cannot be read.
    #[cfg(windows)]
    pub(crate) fn unreadable_link() -> Self {
        let identity = Identity { device: 0, inode: 0 };
        let (modified, accessed, created) = (None, None, None);
        Self {
            file_type: FileType::Symlink,
            len: 0,
            links: 1,
            modified,
            accessed,
            created,
            status_changed: None,
            permission_bits: None,
            owner: None,
            identity,
        }
    }

    /// Includes the birth time, because Windows has no cheaper call that omits it.
    #[cfg(windows)]
    pub(crate) fn without_birth(file: &File) -> io::Result<Self> {
        Self::of_file(file)
    }

    /// Omits the birth time, which is cheaper (fstat(2)).
    #[cfg(unix)]
    pub(crate) fn without_birth(file: &File) -> io::Result<Self> {
        Ok(Self::of_stat(&rustix::fs::fstat(file)?))
    }

    #[cfg(windows)]
    pub(crate) fn with_birth(&self, _: &File) -> Self {
        self.clone()
    }

    /// Adds the birth time, if it can be read.
    #[cfg(unix)]
    pub(crate) fn with_birth(&self, file: &File) -> Self {
        let created = file.metadata().ok().and_then(|metadata| metadata.created().ok());
        Self { created, ..self.clone() }
    }

    /// The time of the last change of the file's content or metadata (`st_ctime`, inode(7)), which
    /// no call sets back. `None` on Windows.
    #[must_use]
    pub fn status_changed(&self) -> Option<SystemTime> {
        self.status_changed
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether both describe the same object, with the same size, modification time and, except on
    /// Windows, status change. The object must have been open since the first description.
    pub(crate) fn is_same_state(&self, other: &Self) -> bool {
        let state = |of: &Self| (of.identity, of.len, of.modified, of.status_changed);
        state(self) == state(other)
    }
}

#[cfg(unix)]
impl Metadata {
    pub(crate) fn of_std(metadata: &std::fs::Metadata) -> Self {
        let created = metadata.created().ok();
        Self {
            file_type: FileType::of_mode(metadata.mode()),
            len: metadata.len(),
            links: metadata.nlink(),
            modified: metadata.modified().ok(),
            accessed: metadata.accessed().ok(),
            created,
            status_changed: time(metadata.ctime(), metadata.ctime_nsec()),
            permission_bits: Some(metadata.mode() & 0o7777),
            owner: Some((metadata.uid(), metadata.gid())),
            identity: Identity { device: metadata.dev(), inode: metadata.ino() },
        }
    }
}

#[cfg(unix)]
#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "the field types differ between systems"
)]
impl Metadata {
    pub(crate) fn of_stat(stat: &rustix::fs::Stat) -> Self {
        let mode = u32::from(stat.st_mode);
        Self {
            file_type: FileType::of_mode(mode),
            len: u64::try_from(stat.st_size).unwrap_or_default(),
            links: u64::from(stat.st_nlink),
            modified: time(stat.st_mtime.into(), stat.st_mtime_nsec),
            accessed: time(stat.st_atime.into(), stat.st_atime_nsec),
            created: None,
            status_changed: time(stat.st_ctime.into(), stat.st_ctime_nsec),
            permission_bits: Some(mode & 0o7777),
            owner: Some((stat.st_uid, stat.st_gid)),
            identity: Identity {
                device: u64::try_from(stat.st_dev).unwrap_or_default(),
                inode: stat.st_ino,
            },
        }
    }
}

#[cfg(target_os = "linux")]
impl Metadata {
    /// Whether the file can be in a proc filesystem. The major number of its device is then 0, as
    /// with every filesystem without a block device (Documentation/admin-guide/devices.txt).
    pub(crate) fn may_be_in_proc(&self) -> bool {
        rustix::fs::major(self.identity.device) == 0
    }

    pub(crate) fn of_statx(stat: &rustix::fs::Statx) -> Self {
        let at = |moment: rustix::fs::StatxTimestamp| time(moment.tv_sec, moment.tv_nsec);
        let has_birth = stat.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0;
        let created = at(stat.stx_btime).filter(|_| has_birth);
        let mode = u32::from(stat.stx_mode);
        Self {
            file_type: FileType::of_mode(mode),
            len: stat.stx_size,
            links: u64::from(stat.stx_nlink),
            modified: at(stat.stx_mtime),
            accessed: at(stat.stx_atime),
            created,
            status_changed: at(stat.stx_ctime),
            permission_bits: Some(mode & 0o7777),
            owner: Some((stat.stx_uid, stat.stx_gid)),
            identity: Identity {
                device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
                inode: stat.stx_ino,
            },
        }
    }
}

#[cfg(unix)]
impl FileType {
    fn of_mode(mode: u32) -> Self {
        let reported = rustix::fs::FileType::from_raw_mode(mode as rustix::fs::RawMode);
        Self::known(reported).unwrap_or(Self::Other)
    }

    pub(super) fn known(reported: rustix::fs::FileType) -> Option<Self> {
        use rustix::fs::FileType as Reported;

        match reported {
            Reported::RegularFile => Some(Self::File),
            Reported::Directory => Some(Self::Directory),
            Reported::Symlink => Some(Self::Symlink),
            Reported::Fifo => Some(Self::Fifo),
            Reported::Socket => Some(Self::Socket),
            Reported::BlockDevice | Reported::CharacterDevice => Some(Self::Device),
            Reported::Unknown => None,
        }
    }
}

/// The time since 1970, if `SystemTime` can represent it. A file's owner can set any.
#[cfg(unix)]
fn time(seconds: i64, nanoseconds: impl TryInto<u64>) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(Duration::from_nanos(nanoseconds.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn cheaper_call_omits_only_the_birth_time() {
        let file = tempfile::tempfile().unwrap();
        let all = Metadata::without_birth(&file).unwrap().with_birth(&file);
        assert_eq!(format!("{all:?}"), format!("{:?}", Metadata::of_file(&file).unwrap()));
    }

    #[cfg(unix)]
    #[test]
    fn any_timestamp_is_converted_without_a_panic() {
        assert_eq!(time(0, 5), Some(UNIX_EPOCH + Duration::from_nanos(5)));
        assert_eq!(time(-1, 999_999_999), Some(UNIX_EPOCH - Duration::from_nanos(1)));
        for (seconds, nanoseconds) in
            [(i64::MIN, 0), (i64::MAX, 0), (i64::MAX, u64::MAX), (i64::MIN, u64::MAX)]
        {
            let _ = time(seconds, nanoseconds);
        }
    }

    #[cfg(unix)]
    #[test]
    fn everything_matches_std() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "text").unwrap();
        for (path, name) in [(path.as_path(), "file"), (directory.path(), "directory")] {
            let file = File::open(path).unwrap();
            let metadata = Metadata::of_file(&file).unwrap();
            assert_eq!(metadata.file_type().as_str(), name);
            let std = file.metadata().unwrap();
            assert_eq!(metadata.accessed(), std.accessed().ok());
            assert_eq!((metadata.uid(), metadata.gid()), (Some(std.uid()), Some(std.gid())));
            assert_eq!(metadata.permission_bits(), Some(std.mode() & 0o7777));
            assert_eq!((metadata.device(), metadata.inode()), (std.dev(), std.ino()));
            assert_eq!(metadata.status_changed(), time(std.ctime(), std.ctime_nsec()));
        }
    }
}
