//! Carries the owner, group, mode and access control list of a file over to the file that replaces
//! it.
//!
//! Nobody who could not read or write the old content can read or write the new content: if
//! something cannot be carried over, the other permissions are narrowed. The new file's owner is
//! the exception, because an owner can always change the mode.

use std::fs::File;
use std::io;
use std::os::unix::fs::fchown;

use rustix::fs::Mode;

use super::acl::{self, Acl};

/// The permissions of a file.
#[derive(Debug)]
pub(super) struct Permissions {
    /// `st_mode`. With an access control list, the bits of the group are the mask of the list
    /// (acl(5)).
    mode: u32,
    /// `None` if the file could not be opened to read them.
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    /// `None` if the owner has no number in this user namespace.
    uid: Option<u32>,
    gid: Option<u32>,
    acl: Option<Acl>,
}

/// The permissions that a new file received from the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    /// The mode that the new file may have. Setting it also puts the access control list into
    /// effect.
    pub(super) mode: u32,
    /// Whether the owner, group and access control list are those of the old file.
    pub(super) is_complete: bool,
}

impl Permissions {
    #[allow(clippy::useless_conversion)] // `st_mode` is u16 on macOS.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        let mode = u32::from(stat.st_mode);
        let Ok(acl) = Acl::of(file) else { return Ok(Self::unknown(mode)) };
        let (uid, gid) =
            (mapped(stat.st_uid, "/proc/self/uid_map"), mapped(stat.st_gid, "/proc/self/gid_map"));
        Ok(Self { known: Some(Known { uid, gid, acl }), ..Self::unknown(mode) })
    }

    /// The permissions of a file that cannot be opened for reading or for writing.
    pub(super) fn unknown(mode: u32) -> Self {
        Self { mode, known: None }
    }

    /// Gives a new file of mode 0600 the owner, the group and the access control list, as far as
    /// permitted. Only its owner can use the file until the mode is set.
    pub(super) fn carry_to(&self, new: &File) -> io::Result<Carried> {
        // Set-user-ID and set-group-ID are dropped, as a write to the file would drop them
        // (write(2)).
        let [owner, group, other] = [self.mode >> 6 & 7, self.mode >> 3 & 7, self.mode & 7];
        let carried = |group: u32, other: u32, is_complete| Carried {
            mode: owner << 6 | group << 3 | other,
            is_complete,
        };
        // An inherited list has no effect either while the group bits, which are its mask, are
        // zero.
        // Defense: unknown-permissions-grant-nothing
        let Some(Known { uid, gid, acl }) = &self.known else { return Ok(carried(0, 0, false)) };
        // Defense: inherited-list-is-removed
        acl::remove(new)?;
        let (has_owner, has_group) = change_owner(new, *uid, *gid)?;
        let owning_group = acl.as_ref().map_or(group, |acl| acl.owning_group(group));
        // The old owner is now a member of the group, or one of the others.
        // Defense: other-owner-narrows-the-mode
        let by_owner = if has_owner { 7 } else { owner };
        // The same is true of members of the old group. Members of the new group may have been
        // others before.
        // Defense: other-group-narrows-the-mode
        let by_group = if has_group { 7 } else { owning_group & other };
        let Some(acl) = acl else {
            let at_most = by_owner & by_group;
            return Ok(carried(group & at_most, other & at_most, has_owner && has_group));
        };
        let new_group = if has_group { owning_group } else { by_group & acl.named_groups(group) };
        if acl.set_without_effect(new, new_group).is_ok() {
            return Ok(carried(
                group & by_owner,
                other & by_owner & by_group,
                has_owner && has_group,
            ));
        }
        // Every named user is now a member of the group, or one of the others.
        let at_most = by_owner & by_group & acl.named(group);
        Ok(carried(owning_group & at_most, other & at_most, false))
    }
}

/// Changes the owner and group of a file, as far as permitted (chown(2)). Returns whether each one
/// is now the requested one.
fn change_owner(file: &File, uid: Option<u32>, gid: Option<u32>) -> io::Result<(bool, bool)> {
    let has = || -> io::Result<(bool, bool)> {
        let stat = rustix::fs::fstat(file)?;
        Ok((uid == Some(stat.st_uid), gid == Some(stat.st_gid)))
    };
    let already = has()?;
    if already == (true, true) {
        return Ok(already);
    }
    // An owner may change the group to one that it is a member of. Only root may change the owner.
    let own = rustix::fs::fstat(file)?.st_uid;
    if fchown(file, uid, gid).is_err() {
        let _ = fchown(file, None, gid);
    }
    // With CAP_CHOWN alone, the owner can be changed, but the mode can then no longer be set,
    // because that requires CAP_FOWNER (capabilities(7)).
    if rustix::fs::fstat(file)?.st_uid != own
        && rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR).is_err()
    {
        fchown(file, Some(own), None)?;
    }
    // Some filesystems have one owner for all files and report no error.
    has()
}

/// Returns the owner or group with this number, or `None` if it is unknown. A user without a number
/// in this user namespace reads as [`OVERFLOW`], which can also be the number of another user here
/// (user_namespaces(7)).
#[cfg(target_os = "linux")]
fn mapped(id: u32, map: &str) -> Option<u32> {
    let maps_all = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    (id != OVERFLOW || std::fs::read_to_string(map).is_ok_and(maps_all)).then_some(id)
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)]
fn mapped(id: u32, _: &str) -> Option<u32> {
    Some(id)
}

/// The default of `/proc/sys/kernel/overflowuid` and `overflowgid` (proc(5)).
#[cfg(target_os = "linux")]
const OVERFLOW: u32 = 65534;
