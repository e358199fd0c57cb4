//! System calls for Unix systems other than Linux. Everything else uses the portable walk through
//! open descriptors.

use std::ffi::OsStr;
use std::io;

use cap_std::fs::Dir;

use super::{Metadata, Mount};
use crate::error::{Code, Result};

pub(super) fn classify(error: &io::Error) -> Option<Code> {
    match rustix::io::Errno::from_io_error(error)? {
        rustix::io::Errno::LOOP => return Some(Code::Changed),
        rustix::io::Errno::NXIO | rustix::io::Errno::OPNOTSUPP => return Some(Code::SpecialFile),
        _ => {}
    }
    None
}

#[allow(clippy::unnecessary_wraps)]
pub(super) fn is_in_proc(_: &Dir, _: &Metadata) -> Result<bool> {
    Ok(false)
}

pub(super) fn describe(at: &Dir, name: &OsStr) -> io::Result<Metadata> {
    Ok(Metadata::of_stat(&rustix::fs::statat(at, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?))
}

pub(super) fn mount<F: std::os::fd::AsFd>(at: &F) -> Result<Mount> {
    let stat = rustix::fs::fstat(at).map_err(io::Error::from)?;
    Ok((false, Metadata::of_stat(&stat).device()))
}

pub(super) fn mount_of(at: &Dir, name: &OsStr) -> Result<Mount> {
    Ok((false, describe(at, name)?.device()))
}

#[cfg(target_vendor = "apple")]
pub(super) fn rename_new(
    from_dir: &Dir,
    from: &OsStr,
    to_dir: &Dir,
    to: &OsStr,
) -> Option<io::Result<()>> {
    match rustix::fs::renameat_with(from_dir, from, to_dir, to, rustix::fs::RenameFlags::NOREPLACE)
    {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => None,
        renamed => Some(renamed.map_err(Into::into)),
    }
}

#[cfg(not(target_vendor = "apple"))]
pub(super) fn rename_new(_: &Dir, _: &OsStr, _: &Dir, _: &OsStr) -> Option<io::Result<()>> {
    None
}
