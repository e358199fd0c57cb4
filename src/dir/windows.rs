//! Windows: every answer comes from the walk through held directories, and each handle is asked where it is.
//!
//! A directory is held open without `FILE_SHARE_DELETE`, so it is not renamed or removed meanwhile, and what is opened in it is opened by
//! one name relative to its handle (`RootDirectory` of `OBJECT_ATTRIBUTES`, NtCreateFile). A link or junction is opened itself
//! (`FILE_FLAG_OPEN_REPARSE_POINT`). Then the final path of each handle must be its directory's and that name
//! (GetFinalPathNameByHandle): what the system has led elsewhere all the same is refused, before a byte of it is read or written.
//!
//! To make, rename and remove there are only calls by path: the held directory's final one, in its verbatim form, and the name. To be held
//! does not keep an empty directory from being made a junction in place, which asks for the right to write attributes alone
//! (FSCTL_SET_REPARSE_POINT, MS-FSA 2.1.5.10.37). So it is [pinned](pin) for that call. A list of names, which is by path, too, is only
//! believed for names that the handle knows.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use cap_std::io_lifetimes::AsFilelike;

use super::{FileType, Handle, Look, Metadata, Mount, Want, temporary_name};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::NAMES_TRIED;
use crate::path::names::{key, windows};

pub(super) fn classify(error: &io::Error) -> Option<ErrorKind> {
    match error.raw_os_error()? {
        ERROR_STOPPED_ON_SYMLINK => Some(ErrorKind::Changed),
        // What a reparse point of no link leads to: a socket, an app's alias.
        ERROR_CANT_ACCESS_FILE => Some(ErrorKind::SpecialFile),
        _ => None,
    }
}

/// A name itself, opened for its metadata; what it says, if it is a link.
pub(super) fn look_here(at: &Handle, name: &OsStr) -> Result<Look> {
    let file = match itself(&at.dir, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Look::Missing),
        file => file.map_err(super::on_the_way)?,
    };
    stands(at, name, &file)?;
    let metadata = Metadata::of_file(&file)?;
    Ok(match metadata.file_type() {
        FileType::Symlink => Look::Link(link_text(&file)?, metadata),
        _ => Look::Other(metadata),
    })
}

/// A reparse point that silently redirects is reported as a symlink whose text cannot be read.
pub(super) fn describe(at: &Handle, name: &OsStr) -> io::Result<Metadata> {
    let file = itself(&at.dir, name)?;
    match stands(at, name, &file) {
        Err(error) if error.kind() == ErrorKind::OutsideRoots => Ok(Metadata::unreadable_link()),
        Err(error) => Err(io::Error::other(error)),
        Ok(_) => Metadata::of_file(&file),
    }
}

fn itself(at: &Dir, name: &OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.access_mode(FILE_READ_ATTRIBUTES).custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
    options.follow(FollowSymlinks::No);
    Ok(at.open_with(name, &options)?.into_std())
}

/// Where a link leads, by the rules of a request. What they refuse leads to no place in a root.
fn link_text(link: &File) -> Result<OsString> {
    let outside = || Error::new(ErrorKind::OutsideRoots).detail("a link that can not be read");
    let text = winx::file::read_link(link).map_err(|_| outside())?.into_os_string();
    let text = text.to_str().ok_or_else(outside)?;
    // As a junction has it.
    let text = text.strip_prefix(r"\??\").map_or_else(|| text.to_owned(), |text| format!(r"\\?\{text}"));
    windows::path(&text).map(OsString::from).map_err(|_| outside())
}

/// Refuses what is not in this directory by this name, in whatever case. Comes out: its final path.
pub(super) fn stands(at: &Handle, name: &OsStr, file: &impl AsFilelike) -> Result<String> {
    let place = final_path(file)?;
    let directory = if let Some(directory) = at.place.get() {
        directory
    } else {
        let directory = final_path(&at.dir)?;
        at.place.get_or_init(|| directory)
    };
    let rest = place.strip_prefix(directory.as_str());
    // A volume's own path ends in one.
    let last = rest.and_then(|rest| if directory.ends_with('\\') { Some(rest) } else { rest.strip_prefix('\\') });
    match last {
        Some(last) if key(OsStr::new(last)) == key(name) => Ok(place),
        _ => Err(Error::new(ErrorKind::OutsideRoots).detail(format!("its final path is {place:?}"))),
    }
}

/// The path of an open file now, verbatim: `\\?\C:\directory\name`.
fn final_path(file: &impl AsFilelike) -> Result<String> {
    let path = winx::file::get_file_path(&file.as_filelike_view::<File>())?;
    path.into_os_string().into_string().map_err(|_| ErrorKind::NotUtf8.into())
}

/// The path of one name in a directory; the empty name is the directory. A file system that is not Windows' own can have names that are
/// paths, and those replace what they are joined to.
fn in_dir(at: &Handle, name: &OsStr) -> io::Result<PathBuf> {
    let mut names = Path::new(name).components();
    match (names.next(), names.next()) {
        (None, _) => {}
        (Some(Component::Normal(normal)), None) if normal == name => {}
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    }
    let directory = final_path(&at.dir).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(Path::new(&directory).join(name))
}

/// A file in the directory that is gone when it is closed: what has an entry is made no junction, and it is verified to be none yet.
fn pin(at: &Handle) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    options.access_mode(DELETE).share_mode(0).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
    let mut pinned = Err(io::ErrorKind::AlreadyExists.into());
    for _ in 0..NAMES_TRIED {
        let name = temporary_name();
        pinned = at.dir.open_with(&name, &options).map(cap_std::fs::File::into_std);
        match &pinned {
            Ok(pin) => {
                stands(at, &name, pin).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => break,
        }
    }
    if is_reparse_point(&at.dir.as_filelike_view::<File>())? {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    pinned
}

fn is_reparse_point(file: &File) -> io::Result<bool> {
    use std::os::windows::fs::MetadataExt as _;
    Ok(file.metadata()?.file_attributes() & FILE_ATTRIBUTE_REPARSE_POINT != 0)
}

/// The file as its filter shows it, where it is kept elsewhere or in another form: a placeholder of a cloud, a deduplicated one. Opened as
/// itself it may be nothing but a stub. The first handle keeps its directory from being made a junction; it has to be the same file.
pub(super) fn behind_filter(at: &Handle, name: &OsStr, file: File, want: Want) -> Result<File> {
    if !is_reparse_point(&file)? {
        return Ok(file);
    }
    let mut options = fs::OpenOptions::new();
    options.read(want.read).write(want.write).append(want.append);
    let shown = options.open(in_dir(at, name)?).map_err(super::on_the_way)?;
    stands(at, name, &shown)?;
    if Metadata::of_file(&shown)?.identity() != Metadata::of_file(&file)?.identity() {
        return Err(ErrorKind::Changed.into());
    }
    Ok(shown)
}

pub(super) fn create_dir(at: &Handle, name: &OsStr) -> io::Result<()> {
    let _pin = pin(at)?;
    fs::create_dir(in_dir(at, name)?)
}

/// Of a link to a directory, or a junction, the link.
pub(super) fn remove_file(at: &Handle, name: &OsStr) -> io::Result<()> {
    use std::os::windows::fs::FileTypeExt as _;
    let _pin = pin(at)?;
    let path = in_dir(at, name)?;
    match fs::symlink_metadata(&path)?.file_type() {
        t if t.is_symlink_dir() => fs::remove_dir(path),
        t if t.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => fs::remove_file(path),
    }
}

pub(super) fn remove_dir(at: &Handle, name: &OsStr) -> io::Result<()> {
    let _pin = pin(at)?;
    let path = in_dir(at, name)?;
    // It would remove a link, too.
    if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir(path) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

pub(super) fn rename(from_dir: &Handle, from: &OsStr, to_dir: &Handle, to: &OsStr) -> io::Result<()> {
    let _pins = (pin(from_dir)?, pin(to_dir)?);
    let to = in_dir(to_dir, to)?;
    match fs::rename(in_dir(from_dir, from)?, &to) {
        // What it says of a directory in the way.
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && fs::symlink_metadata(to).is_ok_and(|to| to.is_dir()) =>
        {
            Err(io::ErrorKind::IsADirectory.into())
        }
        renamed => renamed,
    }
}

pub(super) fn entries(at: &Handle) -> io::Result<fs::ReadDir> {
    fs::read_dir(in_dir(at, OsStr::new(""))?)
}

/// A volume mounted in a directory is a link of its own kind, so all that is reached without links is of one volume.
pub(super) fn mount<F: AsFilelike>(at: &F) -> Result<Mount> {
    Ok((false, Metadata::of_file(&at.as_filelike_view::<File>())?.identity().device))
}

/// There is no call in `std` that refuses an existing name in the same step.
pub(super) fn rename_new(_: &Dir, _: &OsStr, _: &Dir, _: &OsStr) -> Option<io::Result<()>> {
    None
}

impl Handle {
    /// Where it is, in the form in which people write it; none where the system does not tell.
    pub(crate) fn place(&self) -> Option<PathBuf> {
        Some(windows::path(&final_path(&self.dir).ok()?).ok()?.into())
    }

    /// As [`Handle::open`], in one name: a directory says so.
    pub(super) fn is_dir_here(&self, name: &OsStr) -> bool {
        self.describe(name).is_ok_and(|metadata| metadata.is_dir())
    }
}

// Of winnt.h, winbase.h and winerror.h.
const FILE_READ_ATTRIBUTES: u32 = 0x80;
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
const FILE_ATTRIBUTE_REPARSE_POINT: u32 = 0x400;
const DELETE: u32 = 0x0001_0000;
const ERROR_STOPPED_ON_SYMLINK: i32 = 681;
const ERROR_CANT_ACCESS_FILE: i32 = 1920;
