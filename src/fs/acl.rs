//! POSIX access control lists of files (acl(5)), in the format that the Linux kernel reads and
//! writes: an extended attribute with a fixed layout.
//!
//! Other systems have different kinds of lists, which only their C libraries can read. On those
//! systems, this module treats every file as a file without a list.

use std::fs::File;
use std::io;

#[cfg(target_os = "linux")]
use crate::limits::ACL_BYTES;

/// A list with more entries than the mode can express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acl(Vec<Entry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    bits: u16,
    id: u32,
}

impl Acl {
    /// Reads the access control list of an open file. Fails if there is a list that cannot be read.
    #[cfg(target_os = "linux")]
    pub(super) fn of(file: &File) -> io::Result<Option<Self>> {
        let mut bytes = Vec::with_capacity(ACL_BYTES);
        match rustix::fs::fgetxattr(file, ACCESS, rustix::buffer::spare_capacity(&mut bytes)) {
            Err(error) if is_none(error) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => Self::parse(&bytes).map(Some).ok_or(io::ErrorKind::InvalidData.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn of(_: &File) -> io::Result<Option<Self>> {
        Ok(None)
    }

    /// Sets this list on a file, with the given bits for the owning group. Until the mode is set,
    /// the list has no effect for anyone except the owner: chmod(2) sets the mask and the entries
    /// of the owner and of others.
    #[cfg(target_os = "linux")]
    pub(super) fn set_without_effect(&self, file: &File, owning_group: u32) -> io::Result<()> {
        let entries = self.0.iter().map(|entry| match entry.tag {
            OWNING_GROUP => Entry { bits: u16::try_from(owning_group).unwrap_or(0), ..*entry },
            MASK | OTHER => Entry { bits: 0, ..*entry },
            _ => *entry,
        });
        let bytes = Self(entries.collect()).to_bytes();
        Ok(rustix::fs::fsetxattr(file, ACCESS, &bytes, rustix::fs::XattrFlags::empty())?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn set_without_effect(&self, _: &File, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The bits of the owning group, limited by a mask.
    pub(super) fn owning_group(&self, mask: u32) -> u32 {
        self.at_most(mask, &[OWNING_GROUP])
    }

    /// The bits that every named group has, limited by a mask, or all bits if there are none.
    pub(super) fn named_groups(&self, mask: u32) -> u32 {
        self.at_most(mask, &[NAMED_GROUP])
    }

    /// The bits that every named user and group has, limited by a mask, or all bits if there are
    /// none.
    pub(super) fn named(&self, mask: u32) -> u32 {
        self.at_most(mask, &[NAMED_USER, NAMED_GROUP])
    }

    fn at_most(&self, mask: u32, tags: &[u16]) -> u32 {
        let entries = self.0.iter().filter(|entry| tags.contains(&entry.tag));
        entries.fold(7, |at_most, entry| at_most & u32::from(entry.bits) & mask)
    }

    /// `struct posix_acl_xattr_header` and `posix_acl_xattr_entry` of linux/posix_acl_xattr.h,
    /// little-endian.
    #[cfg(any(target_os = "linux", test))]
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, entries) = bytes.split_first_chunk()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
            return None;
        }
        let entry = |entry: &[u8]| {
            let (tag, rest) = entry.split_first_chunk()?;
            let (bits, id) = rest.split_first_chunk()?;
            let (tag, bits) = (u16::from_le_bytes(*tag), u16::from_le_bytes(*bits));
            Some(Entry { tag, bits, id: u32::from_le_bytes(id.try_into().ok()?) })
        };
        entries.chunks_exact(8).map(entry).collect::<Option<_>>().map(Self)
    }

    #[cfg(any(target_os = "linux", test))]
    fn to_bytes(&self) -> Vec<u8> {
        let entry = |Entry { tag, bits, id }: &Entry| {
            let (tag, bits, id) = (tag.to_le_bytes(), bits.to_le_bytes(), id.to_le_bytes());
            [tag[0], tag[1], bits[0], bits[1], id[0], id[1], id[2], id[3]]
        };
        VERSION.to_le_bytes().into_iter().chain(self.0.iter().flat_map(entry)).collect()
    }
}

/// Removes the list that a new file inherited from its directory.
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

/// Returns whether the error means that the file has no list other than its mode, or that its
/// filesystem does not support lists (getxattr(2)).
#[cfg(target_os = "linux")]
fn is_none(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(error, Errno::NODATA | Errno::OPNOTSUPP)
}

#[cfg(target_os = "linux")]
const ACCESS: &str = "system.posix_acl_access";

// From linux/posix_acl_xattr.h and linux/posix_acl.h.
#[cfg(any(target_os = "linux", test))]
const VERSION: u32 = 2;
const NAMED_USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const NAMED_GROUP: u16 = 0x08;
#[cfg(target_os = "linux")]
const MASK: u16 = 0x10;
#[cfg(target_os = "linux")]
const OTHER: u16 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_round_trips_through_bytes_and_malformed_bytes_are_rejected() {
        let list = Acl(vec![
            Entry { tag: NAMED_USER, bits: 4, id: 7001 },
            Entry { tag: OWNING_GROUP, bits: 6, id: u32::MAX },
            Entry { tag: NAMED_GROUP, bits: 7, id: 7002 },
        ]);
        let bytes = list.to_bytes();
        assert_eq!(bytes[..12], [2, 0, 0, 0, 2, 0, 4, 0, 0x59, 0x1b, 0, 0]);
        assert_eq!(Acl::parse(&bytes), Some(list.clone()));
        for odd in [&bytes[..bytes.len() - 1], &bytes[..3], &[], &[3, 0, 0, 0], &[2, 0, 0, 0, 1]] {
            assert_eq!(Acl::parse(odd), None, "{odd:?}");
        }
        assert_eq!((list.owning_group(7), list.owning_group(4)), (6, 4));
        assert_eq!((list.named(7), list.named(3), list.named_groups(7)), (4, 0, 7));
        assert_eq!(Acl(Vec::new()).named(0), 7, "nobody is named");
    }
}
