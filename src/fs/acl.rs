//! The POSIX access control list of a file (acl(5)), which Linux keeps in an extended attribute.
//!
//! A list is kept as it is or not at all, so nothing here looks into it. Other systems have
//! different kinds of lists, which only their C libraries can read. There, this module treats every
//! file as a file without a list.

use std::fs::File;
use std::io;

#[cfg(target_os = "linux")]
use crate::limits::ACL_BYTES;

/// Reads the list of an open file, or `None` if its mode expresses all permissions.
#[cfg(target_os = "linux")]
pub(super) fn read(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut list = Vec::with_capacity(ACL_BYTES);
    match rustix::fs::fgetxattr(file, ACCESS, rustix::buffer::spare_capacity(&mut list)) {
        Err(error) if is_none(error) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Some(list)),
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)]
pub(super) fn read(_: &File) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}

/// Puts a list into effect, which also sets the mode.
#[cfg(target_os = "linux")]
pub(super) fn set(file: &File, list: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(file, ACCESS, list, rustix::fs::XattrFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set(_: &File, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Removes the list of a file. The mode remains, so the group gets the bits that were the mask.
#[cfg(target_os = "linux")]
pub(super) fn remove(file: &File) -> io::Result<()> {
    match rustix::fs::fgetxattr_query(file, ACCESS) {
        Err(error) if is_none(error) => Ok(()),
        _ => Ok(rustix::fs::fremovexattr(file, ACCESS)?),
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)]
pub(super) fn remove(_: &File) -> io::Result<()> {
    Ok(())
}

/// Whether the error means that the file has no list, or that its filesystem supports none
/// (getxattr(2)).
#[cfg(target_os = "linux")]
fn is_none(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::NODATA | Errno::OPNOTSUPP)
}

#[cfg(target_os = "linux")]
const ACCESS: &str = "system.posix_acl_access";
