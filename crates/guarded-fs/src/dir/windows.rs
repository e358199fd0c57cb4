//! System calls on Windows, where the final path of each handle is verified.
//!
//! A directory is held open without `FILE_SHARE_DELETE`, so it can be neither renamed nor removed.
//! A file in it is opened by one name relative to that handle (`RootDirectory` in
//! `OBJECT_ATTRIBUTES`, NtCreateFile), without following symlinks and junctions
//! (`FILE_FLAG_OPEN_REPARSE_POINT`). The final path of the new handle (GetFinalPathNameByHandle)
//! must be the directory's, followed by that name. If the system redirected the open anyway, the
//! handle is refused before any byte is read or written.
//!
//! Directories can be created, and names renamed or removed, only by path: the directory's verbatim
//! final path, followed by the name. An open handle does not prevent an empty directory from being
//! converted into a junction in place, for which the right to write attributes is enough
//! (FSCTL_SET_REPARSE_POINT, MS-FSA 2.1.5.10.37), so the directory is [pinned](pin) during the
//! call. A directory is also listed by path, and each listed name is verified through the handle.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use cap_std::io_lifetimes::AsFilelike;

use super::{FileType, Handle, Metadata, Mount, OpenHow, Stat, temporary_name};
use crate::error::{Code, Error, Result};
use crate::limits::NAMES_TRIED;
use crate::path::names::{key, windows};

pub(super) fn classify(error: &io::Error) -> Option<Code> {
    match error.raw_os_error()? {
        ERROR_STOPPED_ON_SYMLINK => Some(Code::Changed),
        // The name is a reparse point that is not a symlink, such as a socket or an app execution
        // alias.
        ERROR_CANT_ACCESS_FILE => Some(Code::SpecialFile),
        _ => None,
    }
}

/// Reads the metadata of a name without following it and, for a symlink, its target.
pub(super) fn look(at: &Handle, name: &OsStr) -> Result<Stat> {
    let file = match open_itself(&at.dir, name, FILE_READ_ATTRIBUTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stat::Missing),
        file => file.map_err(super::walk_error)?,
    };
    verify_place(at, name, &file)?;
    let metadata = Metadata::of_file(&file)?;
    Ok(match metadata.file_type() {
        FileType::Symlink => Stat::Link(link_text(&file)?, metadata),
        _ => Stat::Other(metadata),
    })
}

/// Reads the metadata of a name without following it. A reparse point that silently redirects
/// counts as a symlink whose target cannot be read.
pub(super) fn describe(at: &Handle, name: &OsStr) -> io::Result<Metadata> {
    let file = open_itself(&at.dir, name, FILE_READ_ATTRIBUTES)?;
    match verify_place(at, name, &file) {
        Err(error) if error.reason() == Code::OutsideRoots => Ok(Metadata::unreadable_link()),
        Err(error) => Err(io::Error::other(error)),
        Ok(_) => Metadata::of_file(&file),
    }
}

/// Opens a name to set its attributes, without following it. An empty name is the directory itself,
/// which cannot be renamed while its handle is open, and whose identity is compared.
pub(super) fn open_to_set_attributes(at: &Handle, name: &OsStr) -> Result<File> {
    let access = FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES;
    if name.is_empty() {
        use std::os::windows::fs::OpenOptionsExt as _;
        let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
        let mut options = fs::OpenOptions::new();
        let file = options.access_mode(access).custom_flags(flags).open(in_dir(at, name)?)?;
        if Metadata::of_file(&file)?.identity() != at.identity()? {
            return Err(Code::Changed.into());
        }
        return Ok(file);
    }
    let file = open_itself(&at.dir, name, access).map_err(super::walk_error)?;
    verify_place(at, name, &file)?;
    Ok(file)
}

fn open_itself(at: &Dir, name: &OsStr, access: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    options.access_mode(access).custom_flags(flags).follow(FollowSymlinks::No);
    Ok(at.open_with(name, &options)?.into_std())
}

/// Reads a target by the rules for requests. What they refuse is outside every root.
fn link_text(link: &File) -> Result<OsString> {
    let outside =
        || Error::from(Code::OutsideRoots).with_operator_detail("a symlink that cannot be read");
    let text = winx::file::read_link(link).map_err(|_| outside())?.into_os_string();
    let text = text.to_str().ok_or_else(outside)?;
    // The targets of junctions have this prefix.
    let text =
        text.strip_prefix(r"\??\").map_or_else(|| text.to_owned(), |text| format!(r"\\?\{text}"));
    windows::path(&text).map(OsString::from).map_err(|_| outside())
}

/// The final path of an open file. Fails with `outside_roots` unless it is the directory's,
/// followed by this name, ignoring case.
pub(super) fn verify_place(at: &Handle, name: &OsStr, file: &impl AsFilelike) -> Result<String> {
    let place = final_path(file)?;
    let directory = if let Some(directory) = at.place.get() {
        directory
    } else {
        let directory = final_path(&at.dir)?;
        at.place.get_or_init(|| directory)
    };
    let rest = place.strip_prefix(directory.as_str());
    // The path of a volume's root directory ends in a separator.
    let last =
        rest.and_then(
            |rest| if directory.ends_with('\\') { Some(rest) } else { rest.strip_prefix('\\') },
        );
    match last {
        Some(last) if key(OsStr::new(last)) == key(name) => Ok(place),
        _ => Err(Error::from(Code::OutsideRoots)
            .with_operator_detail(format!("its final path is {place:?}"))),
    }
}

/// The current path of an open file in verbatim form: `\\?\C:\directory\name`.
fn final_path(file: &impl AsFilelike) -> Result<String> {
    let path = winx::file::get_file_path(&file.as_filelike_view::<File>())?;
    path.into_os_string().into_string().map_err(|_| Code::NotUtf8.into())
}

/// The path of a name in a directory, or of the directory if the name is empty. Fails if the name
/// is not a plain one: third-party filesystems can contain names that look like paths, with which
/// `join` would replace the directory.
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

/// Creates a temporary file, which is deleted when closed. Meanwhile, the directory is not empty,
/// so it cannot be converted into a junction. Verifies that it is not one already.
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
                verify_place(at, &name, pin)
                    .map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
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

/// Reopens a reparse point through its filter driver, because the content may be elsewhere or in
/// another form, as of a cloud placeholder or a deduplicated file. The first handle prevents the
/// directory from being converted into a junction, and both must be of the same file.
pub(super) fn open_through_filter(
    at: &Handle,
    name: &OsStr,
    file: File,
    how: OpenHow,
) -> Result<File> {
    if !is_reparse_point(&file)? {
        return Ok(file);
    }
    let mut options = fs::OpenOptions::new();
    options.read(how.read).write(how.write).append(how.append);
    let shown = options.open(in_dir(at, name)?).map_err(super::walk_error)?;
    verify_place(at, name, &shown)?;
    if Metadata::of_file(&shown)?.identity() != Metadata::of_file(&file)?.identity() {
        return Err(Code::Changed.into());
    }
    Ok(shown)
}

pub(super) fn create_dir(at: &Handle, name: &OsStr) -> io::Result<()> {
    let _pin = pin(at)?;
    fs::create_dir(in_dir(at, name)?)
}

pub(crate) fn symlink_text(text: &OsStr) -> Result<Cow<'_, OsStr>> {
    let text = text.to_str().ok_or(Code::InvalidName)?;
    Ok(Cow::Owned(windows::path(text)?.into()))
}

/// The kind of a symlink must match that of its target.
pub(super) fn symlink(at: &Handle, text: &OsStr, name: &OsStr, is_dir: bool) -> io::Result<()> {
    use std::os::windows::fs::{symlink_dir, symlink_file};
    let _pin = pin(at)?;
    let link = in_dir(at, name)?;
    if is_dir { symlink_dir(text, link) } else { symlink_file(text, link) }
}

/// A symlink is not followed (CreateHardLink).
pub(super) fn hard_link(
    from_dir: &Handle,
    from: &OsStr,
    to_dir: &Handle,
    to: &OsStr,
) -> io::Result<()> {
    let _pins = (pin(from_dir)?, pin(to_dir)?);
    fs::hard_link(in_dir(from_dir, from)?, in_dir(to_dir, to)?)
}

/// Of a symlink or a junction, removes the link, not its target.
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
    // `fs::remove_dir` would also remove a symlink to a directory.
    if fs::symlink_metadata(&path)?.is_dir() {
        fs::remove_dir(path)
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

pub(super) fn rename(
    from_dir: &Handle,
    from: &OsStr,
    to_dir: &Handle,
    to: &OsStr,
) -> io::Result<()> {
    let _pins = (pin(from_dir)?, pin(to_dir)?);
    let to = in_dir(to_dir, to)?;
    match fs::rename(in_dir(from_dir, from)?, &to) {
        // Windows returns this error if the destination is a directory.
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

/// The volume of an open file. A volume mounted in a directory counts as a symlink, so every file
/// that is reached without following symlinks is on the same one.
pub(super) fn mount<F: AsFilelike>(at: &F) -> Result<Mount> {
    Ok((false, Metadata::of_file(&at.as_filelike_view::<File>())?.identity().device))
}

/// `std` has no call that atomically refuses an existing name.
pub(super) fn rename_new(_: &Dir, _: &OsStr, _: &Dir, _: &OsStr) -> Option<io::Result<()>> {
    None
}

impl Handle {
    pub(crate) fn place(&self) -> Option<PathBuf> {
        Some(windows::path(&final_path(&self.dir).ok()?).ok()?.into())
    }

    pub(super) fn is_dir(&self, name: &OsStr) -> bool {
        self.describe(name).is_ok_and(|metadata| metadata.is_dir())
    }
}

// From winnt.h, winbase.h and winerror.h.
const FILE_READ_ATTRIBUTES: u32 = 0x80;
const FILE_WRITE_ATTRIBUTES: u32 = 0x100;
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
const FILE_ATTRIBUTE_REPARSE_POINT: u32 = 0x400;
const DELETE: u32 = 0x0001_0000;
const ERROR_STOPPED_ON_SYMLINK: i32 = 681;
const ERROR_CANT_ACCESS_FILE: i32 = 1920;
