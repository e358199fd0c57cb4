//! The program to run, and its environment.

use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use guarded_fs::host::ProgramPaths;
use guarded_fs::{Error, ErrorKind, Result, Roots};

/// The environment variables that a child process inherits (environ(7), locale(7)): `HOME`, `LANG`,
/// `LC_ALL`, `LC_CTYPE`, `LOGNAME`, `PATH`, `TMPDIR`, `TZ` and `USER`. `PATH` contains only absolute
/// directories outside all writable allowed directories, in force or not. Windows sets the others,
/// and programs do not start there without some of them.
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

/// The bytes of a script in which Linux looks for its interpreter (`BINPRM_BUF_SIZE` in
/// include/uapi/linux/binfmts.h).
const FIRST_LINE: u64 = 256;

pub(super) fn find(roots: &Roots, name: &OsStr) -> Result<PathBuf> {
    let (path, paths) = (Path::new(name), ProgramPaths::new(roots, []));
    let places = if path.is_absolute() {
        vec![path.to_owned()]
    } else if path.file_name() == Some(name) && !name.as_encoded_bytes().contains(&0) {
        search_path(&paths).iter().map(|entry| entry.join(name)).collect()
    } else {
        let text = "a program must be a name without separators or an absolute path";
        return Err(Error::new(ErrorKind::InvalidInput, "invalid_program", text));
    };
    let mut refused = no_such_program("no such program");
    for found in
        places.iter().flat_map(|place| executables(place)).filter(|path| is_executable(path))
    {
        if is_outside(&paths, &found) {
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

/// The interpreter that the first line of a script names (execve(2)).
pub(super) fn interpreter(program: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    line.split_ascii_whitespace().next().map(str::to_owned)
}

pub(super) fn environment(roots: &Roots) -> Vec<(&'static str, OsString)> {
    let value = |name| match name {
        "PATH" => std::env::join_paths(search_path(&ProgramPaths::new(roots, []))).ok(),
        name => std::env::var_os(name),
    };
    CHILD_ENVIRONMENT.iter().filter_map(|name| Some((*name, value(name)?))).collect()
}

fn search_path(paths: &ProgramPaths<'_>) -> Vec<PathBuf> {
    let entries = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&entries)
        .filter(|entry| entry.is_absolute() && is_outside(paths, entry))
        .collect()
}

/// Whether a path exists, and no client can have created it or a symlink on the way to it.
fn is_outside(paths: &ProgramPaths<'_>, path: &Path) -> bool {
    // Defense: A program that a client could have written is not run.
    paths.resolve(path).is_ok_and(|canonical| !paths.is_writable(&canonical))
}

/// The names under which the system looks for a program that is not a script. On Windows, the
/// second one has an extension.
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
