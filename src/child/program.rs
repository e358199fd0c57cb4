//! The program to run, and its environment.

use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::boundary::resolve_ambient;
use crate::check::Proof;
use crate::dir::Access;
use crate::error::{Error, ErrorKind, Result};
use crate::path::protect::FoldedPaths;
use crate::roots::{Root, Roots};

/// The environment variables that a child process inherits (environ(7), locale(7)). `PATH` contains
/// only absolute directories outside all writable allowed directories, in force or not. Windows
/// sets the last ones, and programs do not start there without some of them.
pub const CHILD_ENVIRONMENT: &[&str] = &[
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
    "PATHEXT",
    "SystemDrive",
    "SystemRoot",
    "TEMP",
    "TMP",
    "USERPROFILE",
];

/// Returns the absolute path of a program.
pub(super) fn find(directory: &Proof, name: &OsStr) -> Result<PathBuf> {
    let (path, writable) = (Path::new(name), Writable::new(directory));
    let places = if path.is_absolute() {
        vec![path.to_owned()]
    } else if path.file_name() == Some(name) && !name.as_encoded_bytes().contains(&0) {
        search_path(&writable).iter().map(|entry| entry.join(name)).collect()
    } else {
        let text = "a program must be a name without separators or an absolute path";
        return Err(Error::new(ErrorKind::InvalidInput, "invalid_program", text));
    };
    let mut refused = no_such_program("no such program");
    for found in
        places.iter().flat_map(|place| executables(place)).filter(|path| is_executable(path))
    {
        if writable.has_outside(&found) {
            return Ok(found);
        }
        let text = "the program is inside a directory that clients can write to";
        refused = Error::new(ErrorKind::ForbiddenFile, "program_inside_roots", text);
    }
    Err(refused)
}

pub(super) fn no_such_program(text: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, "no_such_program", text)
}

/// The inherited environment.
pub(super) fn environment(directory: &Proof) -> Vec<(&'static str, OsString)> {
    let value = |name| match name {
        "PATH" => std::env::join_paths(search_path(&Writable::new(directory))).ok(),
        name => std::env::var_os(name),
    };
    CHILD_ENVIRONMENT.iter().filter_map(|name| Some((*name, value(name)?))).collect()
}

/// The directories of `PATH` that are absolute and outside all writable directories.
fn search_path(writable: &Writable<'_>) -> Vec<PathBuf> {
    let entries = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&entries)
        .filter(|entry| entry.is_absolute() && writable.has_outside(entry))
        .collect()
}

/// The writable allowed directories and roots, in force or not.
struct Writable<'a> {
    roots: Vec<&'a Root>,
    paths: FoldedPaths,
}

impl<'a> Writable<'a> {
    fn new(directory: &'a Proof) -> Self {
        // No program is outside the filesystem root.
        let is_writable =
            |root: &&Root| root.access() == Access::ReadWrite && !root.is_filesystem_root();
        let roots = directory.roots().with_allowed().flat_map(Roots::iter);
        let roots: Vec<_> = roots.filter(is_writable).collect();
        let paths = FoldedPaths::new(roots.iter().map(|root| root.path()));
        Self { roots, paths }
    }

    /// Whether a path exists and a client can neither have written it nor a symlink on it.
    fn has_outside(&self, path: &Path) -> bool {
        let Ok((canonical, links)) = resolve_ambient(path) else { return false };
        let directories = || self.roots.iter().filter(|root| !root.is_file());
        // Defense: A program that a client could have written is not run.
        !self.paths.enclose(&canonical)
            && !links.are_in(&self.paths)
            && !is_other_name(&canonical, directories().copied())
    }
}

/// Whether an ancestor of the path is one of these directories under another name, such as a bind
/// mount.
#[cfg(unix)]
fn is_other_name<'a>(canonical: &Path, mut directories: impl Iterator<Item = &'a Root>) -> bool {
    let identity = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some(crate::dir::Metadata::of_std(&metadata).identity())
    };
    let ancestors: Vec<_> = canonical.ancestors().filter_map(identity).collect();
    // A root that is not there contains no program.
    let identity = |root: &Root| root.handle().and_then(|handle| handle.identity());
    directories.any(|root| identity(root).is_ok_and(|identity| ancestors.contains(&identity)))
}

/// Windows resolves a path to the name of its volume, so a directory has only one canonical path.
#[cfg(windows)]
fn is_other_name<T>(_: &Path, _: T) -> bool {
    false
}

/// The names under which the system looks for a program that is no script. Windows adds an
/// extension.
fn executables(path: &Path) -> [PathBuf; 2] {
    let mut extended = path.as_os_str().to_owned();
    extended.push(EXE_SUFFIX);
    [path.to_owned(), extended.into()]
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(windows)]
fn is_executable(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("exe"))
        && path.is_file()
}
