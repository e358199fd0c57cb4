//! Gives a new file the owner, group, mode and access control list of the file that it replaces, as
//! described at [`Roots::write`](crate::Roots::write). The owner, the group and the list are kept
//! exactly or not at all.

use std::fs::File;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, fchown};
use std::sync::Arc;

use rustix::fs::Stat;

use super::acl;
use super::open::PRIVATE_FILE;
use super::permit::ChangePermit;
use crate::dir::{Handle, Metadata, OpenHow, TemporaryName};
use crate::error::{Code, Error, Result};

#[derive(Clone, Debug)]
pub(super) struct Permissions {
    /// With a list, the bits of the group are its mask (acl(5)). Set-user-ID and set-group-ID are
    /// dropped, as by a write to the file (write(2)).
    pub(super) mode: u32,
    /// `None` if the owner has no number in this user namespace.
    uid: Option<u32>,
    gid: Option<u32>,
    list: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptPermissions {
    /// The mode that puts them into effect. `None` if the new file cannot have the list.
    mode: Option<u32>,
    pub(super) is_all: bool,
}

impl KeptPermissions {
    pub(super) fn mode(self) -> Result<u32> {
        let text = "the file's access control list cannot be kept on the new file; write in place, \
                    or to another file";
        self.mode.ok_or_else(|| Error::from(Code::PermissionDenied).with_text(text))
    }
}

impl Permissions {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let stat = rustix::fs::fstat(file)?;
        Ok(Self {
            mode: bits(&stat),
            uid: mapped(stat.st_uid, "/proc/self/uid_map"),
            gid: mapped(stat.st_gid, "/proc/self/gid_map"),
            list: acl::read(file)?,
        })
    }

    /// The permissions of the file to be replaced, which must be opened to read its list. A special
    /// file is not opened, and only the owner can use the file that replaces it.
    pub(super) fn of_replaced(permit: &ChangePermit<'_>, old: &Metadata) -> Result<Self> {
        if !old.is_file() {
            let mode = old.permission_bits().unwrap_or_default() & 0o700;
            return Ok(Self { mode, uid: None, gid: None, list: None });
        }
        let place = permit.place();
        let policy = place.roots().policy();
        let opened = match permit.at().open() {
            Err(error) if error.reason() == Code::PermissionDenied => {
                permit.slot().open(OpenHow::WRITE)
            }
            opened => opened,
        };
        let file = opened.map_err(|error| match error.reason() {
            // The file existed when it was looked up.
            Code::NotFound => Code::Changed.into(),
            Code::PermissionDenied => error.with_text(
                "the file's permissions cannot be kept, because this process may neither read nor \
                 write it; write to another file",
            ),
            _ => error,
        })?;
        place.root().verify(&file, policy)?;
        Ok(Self::of(&file)?)
    }

    /// The most bits that a new file in this directory receives. A process cannot read its umask
    /// without changing it (umask(2)), and the directory can have a default access control list.
    pub(super) fn most_of_new_file(directory: &Arc<Handle>) -> Result<u32> {
        let (name, file) = TemporaryName::of_new_file(Arc::clone(directory), 0o777)?;
        let permissions = Self::of(&file);
        // An append-only directory keeps the empty file.
        let _ = name.remove();
        Ok(permissions?.mode)
    }

    /// Gives a new file these permissions, as far as permitted. Only its owner can use it until the
    /// mode is set.
    pub(super) fn carry_to(&self, new: &File) -> io::Result<KeptPermissions> {
        // A list that it inherited has no effect while the bits of the group, its mask, are zero.
        let before = rustix::fs::fstat(new)?;
        if bits(&before) & 0o077 != 0 {
            // It was given permissions before. FAT, which has one mode for all files, refuses this.
            let _ = set_mode(new, PRIVATE_FILE);
        }
        let has = change_owner(new, &before, self.uid, self.gid)?;
        let has_both = has == (true, true);
        if self.list.is_some() {
            let is_kept = has_both && acl::set_without_effect(new, self.list.as_deref()).is_ok();
            return Ok(KeptPermissions { mode: is_kept.then_some(self.mode), is_all: is_kept });
        }
        acl::set_without_effect(new, None)?;
        Ok(KeptPermissions { mode: Some(self.mode_without_list(has)), is_all: has_both })
    }

    /// Returns the mode without the list, for a file with the same owner and group or others.
    fn mode_without_list(&self, (has_owner, has_group): (bool, bool)) -> u32 {
        let [owner, group, other] =
            [self.mode >> 6, self.mode >> 3, self.mode].map(|bits| bits & 7);
        // The old owner is now a member of the group, or one of the others.
        let by_owner = if has_owner { 7 } else { owner };
        // So are members of the old group. Members of the new group may have been others before.
        // Defense: A new group gets no more than the old group and all others had.
        let by_group = if has_group { 7 } else { group & other };
        // A list can deny anybody what the mode grants.
        let by_list = if self.list.is_none() { 7 } else { 0 };
        let at_most = by_owner & by_group & by_list;
        owner << 6 | (group & at_most) << 3 | other & at_most
    }

    /// Returns the mode bits with which a copy grants nobody access that the file denies, except
    /// the user of this process, who can read the file. `copy` has the owner, group and list of the
    /// new file, or of the existing one that receives the content.
    pub(super) fn limit_of_copy(&self, copy: &Self) -> u32 {
        let is_same = |one: Option<u32>, other| one.is_some() && one == other;
        let has_owner = is_same(self.uid, copy.uid);
        let mode = self.mode_without_list((has_owner, is_same(self.gid, copy.gid)));
        let of_everybody = mode >> 6 & mode >> 3 & mode & 7;
        // The list of the copy can name anybody, and the bits of the group are its mask.
        let by_list = if copy.list.is_none() { 0o777 } else { 0o707 | of_everybody << 3 };
        let own = mapped(rustix::process::geteuid().as_raw(), "/proc/self/uid_map");
        let by_owner = if has_owner || copy.uid == own { 0o777 } else { 0o077 | of_everybody << 6 };
        mode & by_list & by_owner
    }
}

#[expect(clippy::disallowed_methods, reason = "the file is the guard's own, or one from a slot")]
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

/// Clears set-user-ID and set-group-ID, as an unprivileged write does (write(2)), and all bits that
/// are not in `limit`.
pub(super) fn narrow_mode(file: &File, metadata: &Metadata, limit: u32) -> io::Result<()> {
    match metadata.permission_bits() {
        Some(mode) if mode & !(limit | 0o1000) != 0 => set_mode(file, mode & (limit | 0o1000)),
        _ => Ok(()),
    }
}

#[allow(clippy::useless_conversion)] // `st_mode` is u16 on macOS.
fn bits(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o777
}

/// Changes the owner and group, as far as permitted (chown(2)). Returns whether each is now as
/// requested.
fn change_owner(
    file: &File,
    before: &Stat,
    uid: Option<u32>,
    gid: Option<u32>,
) -> io::Result<(bool, bool)> {
    let has = |stat: &Stat| (uid == Some(stat.st_uid), gid == Some(stat.st_gid));
    if has(before) == (true, true) {
        return Ok((true, true));
    }
    // An owner may change the group to one that it is a member of. Only root may change the owner.
    if fchown(file, uid, gid).is_err() {
        let _ = fchown(file, None, gid);
    }
    // With CAP_CHOWN alone, the owner can be changed, but the mode can then no longer be set,
    // because that requires CAP_FOWNER (capabilities(7)).
    if rustix::fs::fstat(file)?.st_uid != before.st_uid && set_mode(file, PRIVATE_FILE).is_err() {
        fchown(file, Some(before.st_uid), None)?;
    }
    // Some filesystems have one owner for all files and report no error.
    Ok(has(&rustix::fs::fstat(file)?))
}

/// Returns the owner or group, or `None` if it is unknown. One without a number in this user
/// namespace reads as [`OVERFLOW`], which can also be that of another user here
/// (user_namespaces(7)).
fn mapped(id: u32, map: &str) -> Option<u32> {
    let maps_all = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    let is_ambiguous = cfg!(target_os = "linux") && id == OVERFLOW;
    (!is_ambiguous || std::fs::read_to_string(map).is_ok_and(maps_all)).then_some(id)
}

/// The default of `/proc/sys/kernel/overflowuid` and `overflowgid` (proc(5)).
const OVERFLOW: u32 = 65534;
