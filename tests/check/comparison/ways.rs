//! The compared ways to access files. Each is used as its own documentation recommends for files
//! that others may change, and receives the path exactly as the request contains it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use mcp_roots_guard::{Access, Boundary, Roots};
use path_clean::PathClean as _;
use path_jail::JailError;
use path_jail::guard::{FdJail, OpenOptions as JailOptions};
use strict_path::{PathBoundary, StrictPathError};

use crate::support::one_step::OneStep as _;

/// A failure with the text that a caller sees. The text is empty for the recipe over `std`, because
/// its author chooses the text.
pub(super) struct Failure {
    pub(super) text: String,
    pub(super) is_missing: bool,
}

pub(super) type Done<T> = Result<T, Failure>;

/// Uses the result of a check, once.
pub(super) type Use<'a> = Box<dyn FnOnce() -> Done<Vec<u8>> + 'a>;

/// A way to access files beneath one root. An operation that a way does not offer returns `None`.
pub(super) trait Way {
    fn read(&self, request: &str) -> Done<Vec<u8>>;
    fn write(&self, request: &str, content: &str) -> Done<()>;

    /// Checks the request, and returns the read that the way's documentation recommends after it.
    fn check(&self, _request: &str) -> Option<Done<Use<'_>>> {
        None
    }

    fn read_unless_hard_linked(&self, _request: &str) -> Option<Done<Vec<u8>>> {
        None
    }

    /// Creates a symlink. The target is relative to the symlink's directory.
    fn link(&self, _target: &str, _at: &str) -> Option<Done<()>> {
        None
    }
}

/// The names of the ways, in the order of the columns in `data/comparison.txt`.
pub(super) const WAYS: [&str; 5] = ["guard", "std", "cap-std", "path_jail", "strict-path"];

pub(super) fn way(name: &str, root: &Path) -> Done<Box<dyn Way>> {
    Ok(match name {
        "guard" => Box::new(Guard {
            roots: Roots::from_dirs([root], Access::ReadWrite)?,
            root: root.to_owned(),
        }),
        "std" => Box::new(Recipe { root: root.canonicalize()? }),
        "cap-std" => Box::new(Dir::open_ambient_dir(root, ambient_authority())?),
        "path_jail" => Box::new(FdJail::new(root)?),
        "strict-path" => Box::new(Strict { boundary: PathBoundary::try_new(root)? }),
        "prefix" => Box::new(Naive { root: root.to_owned(), rule: is_prefix }),
        "lexical" => Box::new(Naive {
            root: root.to_owned(),
            rule: |root, path| path.clean().starts_with(root),
        }),
        "join" => Box::new(Naive { root: root.to_owned(), rule: |_, _| true }),
        _ => panic!("{name}: unknown"),
    })
}

/// A check as published servers had it, before the file is used by name.
struct Naive {
    root: PathBuf,
    rule: fn(root: &Path, path: &Path) -> bool,
}

fn is_prefix(root: &Path, path: &Path) -> bool {
    path.to_str().unwrap().starts_with(root.to_str().unwrap())
}

impl Naive {
    fn path(&self, request: &str) -> Done<PathBuf> {
        let path = self.root.join(request);
        let refused = Failure { text: String::new(), is_missing: false };
        if (self.rule)(&self.root, &path) { Ok(path) } else { Err(refused) }
    }
}

impl Way for Naive {
    fn read(&self, request: &str) -> Done<Vec<u8>> {
        Ok(fs::read(self.path(request)?)?)
    }

    fn write(&self, request: &str, content: &str) -> Done<()> {
        Ok(fs::write(self.path(request)?, content)?)
    }
}

struct Guard {
    roots: Roots,
    root: PathBuf,
}

impl Way for Guard {
    fn read(&self, request: &str) -> Done<Vec<u8>> {
        Ok(self.roots.read(request, LIMIT)?)
    }

    fn write(&self, request: &str, content: &str) -> Done<()> {
        Ok(self.roots.write(request, content)?)
    }

    fn check(&self, request: &str) -> Option<Done<Use<'_>>> {
        let checked = self.roots.check(request);
        Some(
            checked
                .map(|checked| Box::new(move || Ok(checked.read(LIMIT)?)) as Use<'_>)
                .map_err(Into::into),
        )
    }

    fn read_unless_hard_linked(&self, request: &str) -> Option<Done<Vec<u8>>> {
        let boundary = Boundary::builder().directory(&self.root, Access::ReadWrite);
        let boundary = boundary.refuse_hard_links().build().unwrap();
        Some(boundary.allowed_roots().read(request, LIMIT).map_err(Into::into))
    }

    fn link(&self, target: &str, at: &str) -> Option<Done<()>> {
        Some(self.roots.symlink(target, at).map_err(Into::into))
    }
}

/// The usual recipe: canonicalize the path (or the parent of a missing file), require that it
/// starts with the canonical root, and open it by name.
struct Recipe {
    root: PathBuf,
}

impl Recipe {
    fn canonical(&self, request: &str) -> Done<PathBuf> {
        let path = self.root.join(request);
        let path = match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match (path.parent(), path.file_name()) {
                    (Some(parent), Some(name)) => parent.canonicalize()?.join(name),
                    _ => return Err(error.into()),
                }
            }
            path => path?,
        };
        if path.starts_with(&self.root) {
            Ok(path)
        } else {
            Err(Failure { text: String::new(), is_missing: false })
        }
    }
}

impl Way for Recipe {
    fn read(&self, request: &str) -> Done<Vec<u8>> {
        Ok(fs::read(self.canonical(request)?)?)
    }

    fn write(&self, request: &str, content: &str) -> Done<()> {
        Ok(fs::write(self.canonical(request)?, content)?)
    }

    fn check(&self, request: &str) -> Option<Done<Use<'_>>> {
        Some(self.canonical(request).map(|path| Box::new(move || Ok(fs::read(path)?)) as Use<'_>))
    }

    fn link(&self, target: &str, at: &str) -> Option<Done<()>> {
        Some(self.canonical(at).and_then(|at| Ok(symlink(target, at)?)))
    }
}

/// cap-std.
impl Way for Dir {
    fn read(&self, request: &str) -> Done<Vec<u8>> {
        Ok(Dir::read(self, request)?)
    }

    fn write(&self, request: &str, content: &str) -> Done<()> {
        Ok(Dir::write(self, request, content)?)
    }

    fn link(&self, target: &str, at: &str) -> Option<Done<()>> {
        Some(self.symlink(target, at).map_err(Into::into))
    }
}

/// path_jail, with the layer and the options that it recommends for trees that others can change.
impl Way for FdJail {
    fn read(&self, request: &str) -> Done<Vec<u8>> {
        let options = JailOptions::new().read(true).require_regular_file(true);
        Ok(all_of(self.open(request, options)?.into_file())?)
    }

    fn write(&self, request: &str, content: &str) -> Done<()> {
        let options =
            JailOptions::new().write(true).create(true).truncate(true).require_regular_file(true);
        Ok(self.open(request, options)?.into_file().write_all(content.as_bytes())?)
    }

    fn read_unless_hard_linked(&self, request: &str) -> Option<Done<Vec<u8>>> {
        let options =
            JailOptions::new().read(true).require_regular_file(true).reject_hard_links(true);
        let opened = self.open(request, options);
        Some(opened.map_err(Into::into).and_then(|opened| Ok(all_of(opened.into_file())?)))
    }
}

struct Strict {
    boundary: PathBoundary,
}

impl Way for Strict {
    fn read(&self, request: &str) -> Done<Vec<u8>> {
        Ok(self.boundary.strict_join(request)?.read()?)
    }

    fn write(&self, request: &str, content: &str) -> Done<()> {
        Ok(self.boundary.strict_join(request)?.write(content)?)
    }

    fn check(&self, request: &str) -> Option<Done<Use<'_>>> {
        let path = self.boundary.strict_join(request);
        Some(path.map(|path| Box::new(move || Ok(path.read()?)) as Use<'_>).map_err(Into::into))
    }

    fn link(&self, target: &str, at: &str) -> Option<Done<()>> {
        let target = self.boundary.strict_join(target).map_err(Failure::from);
        Some(target.and_then(|target| Ok(target.strict_symlink(at)?)))
    }
}

pub(super) fn all_of(mut file: File) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.read_to_end(&mut content).map(|_| content)
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self { text: error.to_string(), is_missing: error.kind() == ErrorKind::NotFound }
    }
}

impl From<mcp_roots_guard::Error> for Failure {
    fn from(error: mcp_roots_guard::Error) -> Self {
        Self {
            text: error.to_string(),
            is_missing: error.kind() == mcp_roots_guard::ErrorKind::NotFound,
        }
    }
}

impl From<JailError> for Failure {
    fn from(error: JailError) -> Self {
        let is_missing =
            matches!(&error, JailError::Io(error) if error.kind() == ErrorKind::NotFound);
        Self { text: error.to_string(), is_missing }
    }
}

impl From<StrictPathError> for Failure {
    fn from(error: StrictPathError) -> Self {
        Self { text: error.to_string(), is_missing: false }
    }
}

/// The maximum size of a file to read: larger than every file in these tests.
pub(super) const LIMIT: u64 = 1 << 10;
