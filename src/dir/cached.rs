//! Opening and reading that cannot wait for a device, on Linux.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;

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
