//! Opening and reading that cannot wait for a device, on Linux.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Opens the file at `path` with `O_PATH`, if the kernel has all its names in its cache and no mount
/// point is on the path, so that the walk neither waits nor reaches another filesystem
/// (`RESOLVE_CACHED`, Linux 5.12). Fails with `EAGAIN`, `EXDEV` or another error otherwise.
pub(crate) fn walk(at: &Dir, path: &OsStr, follows_links: bool) -> io::Result<File> {
    let path = if path.is_empty() { OsStr::new(".") } else { path };
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    resolve |= ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
    resolve.set(ResolveFlags::NO_SYMLINKS, !follows_links);
    let opened = openat2(at, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve);
    Ok(opened.map(File::from)?)
}

/// Opens for reading the file that an `O_PATH` descriptor stands for, regardless of its name
/// (proc(5), `/proc/PID/fd`).
pub(crate) fn reopen(file: &File) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, flags, Mode::empty()).map(File::from)?)
}

/// Whether the filesystem of an open directory is known to keep its files on local devices or in
/// memory. Network and user-space filesystems can answer after any time, and overlayfs can have
/// them as layers.
pub(crate) fn is_local<F: AsFd>(at: &F) -> bool {
    // The numbers of ext2 to ext4, XFS, Btrfs, F2FS and tmpfs (statfs(2)).
    const LOCAL: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
    let stat = rustix::fs::fstatfs(at);
    stat.is_ok_and(|stat| u64::try_from(stat.f_type).is_ok_and(|found| LOCAL.contains(&found)))
}

/// Reads a file of `size` bytes from its beginning to its end, if its content is in memory
/// (`RWF_NOWAIT`, preadv(2)). Fails with `EAGAIN` if the read would wait, or if it shows that the file
/// has grown.
pub(crate) fn read(file: &File, size: usize) -> io::Result<Vec<u8>> {
    // One extra byte usually shows that the file has grown.
    let mut content = vec![0; size + 1];
    let mut length = 0;
    loop {
        let free = content.get_mut(length..).unwrap_or_default();
        let offset = u64::try_from(length).map_err(io::Error::other)?;
        let read = preadv2(file, &mut [IoSliceMut::new(free)], offset, ReadWriteFlags::NOWAIT)?;
        length += read;
        if length > size {
            return Err(Errno::AGAIN.into());
        }
        // A file that has shrunk ends earlier.
        if length == size || read == 0 {
            content.truncate(length);
            return Ok(content);
        }
    }
}
