//! The POSIX access control list of a file (acl(5)), which Linux keeps in an extended attribute.
//!
//! A list is kept unchanged or not at all, whomever it names. Only C libraries can read the
//! different lists of other systems, where every file counts as one without a list.

use std::fs::File;
use std::io;

#[cfg(target_os = "linux")]
use crate::limits::ACL_BYTES;

/// `None` if the mode of the file expresses all permissions.
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

/// Sets or removes the list of a private file, without effect for anybody except the owner until
/// chmod(2) sets the mask and the bits of others, which are zero until then. With the real mask,
/// the file's group could gain access for an instant: tmpfs copies the mask to the group bits
/// before it attaches the list.
#[cfg(target_os = "linux")]
pub(super) fn set_without_effect(file: &File, list: Option<&[u8]>) -> io::Result<()> {
    // linux/posix_acl_xattr.h and linux/posix_acl.h: four bytes, then a tag, bits and an ID per
    // entry, all little-endian.
    const MASK: u8 = 0x10;
    const OTHER: u8 = 0x20;
    let Some(list) = list else {
        return match rustix::fs::fgetxattr_query(file, ACCESS) {
            Err(error) if is_none(error) => Ok(()),
            _ => Ok(rustix::fs::fremovexattr(file, ACCESS)?),
        };
    };
    let mut list = list.to_vec();
    for entry in list.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        if let [MASK | OTHER, 0, bits, ..] = entry {
            *bits = 0;
        }
    }
    Ok(rustix::fs::fsetxattr(file, ACCESS, &list, rustix::fs::XattrFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)]
pub(super) fn set_without_effect(_: &File, _: Option<&[u8]>) -> io::Result<()> {
    Ok(())
}

/// Whether the file has no list, or its filesystem supports none (getxattr(2)).
#[cfg(target_os = "linux")]
fn is_none(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::NODATA | Errno::OPNOTSUPP)
}

#[cfg(target_os = "linux")]
const ACCESS: &str = "system.posix_acl_access";
