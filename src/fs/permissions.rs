//! Carries the owner, group, mode and access control list of a file over to the file that replaces
//! it.
//!
//! Nobody who could not read or write the old content can read or write the new content: if
//! something cannot be carried over, the other permissions are narrowed. The new file's owner is
//! the exception, because an owner can always change the mode.

use std::fs::File;
use std::io;
use std::os::unix::fs::fchown;
use std::path::Path;

use rustix::fs::Mode;

use super::acl::{self, Acl};
use crate::dir::{Handle, Rule, Want, temporary_name};
use crate::error::{Code, Result};
use crate::limits::NAMES_TRIED;

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
        let Some(Known { uid, gid, acl }) = &self.known else { return Ok(carried(0, 0, false)) };
        acl::remove(new)?;
        let (has_owner, has_group) = change_owner(new, *uid, *gid)?;
        let owning_group = acl.as_ref().map_or(group, |acl| acl.owning_group(group));
        // The old owner is now a member of the group, or one of the others.
        let by_owner = if has_owner { 7 } else { owner };
        // The same is true of members of the old group. Members of the new group may have been
        // others before.
        // Defense: A new group gets no more than the old group and all others had.
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

/// Copies have their own owner and group, which are never changed.
impl Permissions {
    /// Returns the mode bits that a copy of the file may have, so that they grant nobody access to
    /// the content that the file denies. The exception is the user of this process, who can read
    /// the file.
    ///
    /// `copy` is the new file, or an existing file that receives the content. The access control
    /// list of the file is not copied, so the group and others keep only the bits that each of its
    /// entries has.
    pub(super) fn limit_of_copy(&self, copy: &File) -> io::Result<u32> {
        let [owner, group, other] = [self.mode >> 6 & 7, self.mode >> 3 & 7, self.mode & 7];
        let Some(Known { uid, gid, acl }) = &self.known else { return Ok(owner << 6) };
        let stat = rustix::fs::fstat(copy)?;
        let (has_owner, has_group) = (*uid == Some(stat.st_uid), *gid == Some(stat.st_gid));
        let owning_group = acl.as_ref().map_or(group, |acl| acl.owning_group(group));
        let named = acl.as_ref().map_or(7, |acl| acl.named(group));
        // The owner of the file can be a member of the copy's group, or one of the others. The
        // same is true of members of the file's group, and of the users and groups in its list.
        let by_owner = if has_owner { 7 } else { owner };
        let by_group = if has_group { 7 } else { owning_group & other };
        let at_most = by_owner & by_group & named;
        let everybody = owner & owning_group & other & named;
        // The list of an existing file can name anybody, and the bits of the group are its mask.
        let is_listed = !matches!(Acl::of(copy), Ok(None));
        let group = if is_listed { everybody } else { owning_group & at_most };
        let is_own = has_owner || stat.st_uid == rustix::process::geteuid().as_raw();
        let owner = if is_own { owner } else { owner & everybody };
        Ok(owner << 6 | group << 3 | (other & at_most))
    }

    /// Returns the mode for a copy that was created with mode 0600, and removes the list that it
    /// inherited. That list has no effect before, because the bits of the group, which are
    /// its mask, are zero.
    pub(super) fn mode_of_copied_file(&self, copy: &File, new: NewFileMode) -> io::Result<u32> {
        acl::remove(copy)?;
        // Defense: A copy grants no more than its source.
        Ok(self.limit_of_copy(copy)? & new.0)
    }
}

/// The most bits that a new file in some directory receives, because of the umask of
/// this process or the default access control list of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewFileMode(u32);

impl NewFileMode {
    /// Creates an empty file in a directory to find out these bits, and removes it. A process
    /// cannot read its umask without changing it (umask(2)).
    pub(super) fn in_directory(directory: &Handle) -> Result<Self> {
        let want = Want { read: false, write: true, append: false, create_new: Some(0o777) };
        for _ in 0..NAMES_TRIED {
            let name = temporary_name();
            match directory.open(Path::new(&name), want, Rule::Allow) {
                Err(error) if error.reason() == Code::AlreadyExists => {}
                opened => {
                    let mode = Self::of(&opened?);
                    directory.remove_file(&name)?;
                    return Ok(mode?);
                }
            }
        }
        Err(Code::AlreadyExists.into())
    }

    /// Reads the bits from a file that was just created with mode 0777.
    #[allow(clippy::useless_conversion)] // `st_mode` is u16 on macOS.
    fn of(file: &File) -> io::Result<Self> {
        let mode = u32::from(rustix::fs::fstat(file)?.st_mode);
        let group = match Acl::of(file) {
            Ok(None) => mode >> 3 & 7,
            Ok(Some(acl)) => acl.owning_group(mode >> 3 & 7),
            Err(_) => 0,
        };
        Ok(Self(mode & 0o707 | group << 3))
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
