//! A root: a name below an allowed directory.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(target_os = "linux")]
use crate::dir::is_proc;
use crate::dir::{Access, Handle, Identity, Metadata, Policy, Rule, Stat};
#[cfg(target_os = "linux")]
use crate::error::Error;
use crate::error::{Code, Result};
use crate::limits::ALIASES;
use crate::path::index::RootKind;
use crate::roots::AllowedDirectory;
use crate::roots::allowed::is_missing;

/// A directory or a single file in force: an allowed directory, and a path of plain names below it.
///
/// A root is a name, like any path. A request finds what the name leads to at that time, without
/// following a symlink and never outside the allowed directory. If another directory takes the
/// root's place, it is served. If there is none, or a symlink or a file instead, requests are
/// refused with [`RootUnavailable`](crate::ErrorKind::RootUnavailable) until there is one again.
#[derive(Clone)]
pub struct Root {
    pub(crate) directory: Arc<AllowedDirectory>,
    /// The path from the allowed directory, of plain names.
    pub(crate) names: PathBuf,
    /// What the name led to when it was resolved. A missing name counts as a directory.
    pub(crate) kind: RootKind,
    pub(crate) canonical: PathBuf,
    pub(crate) aliases: Vec<PathBuf>,
    /// As in [`client_path`](Self::client_path), if it is not the canonical path.
    pub(crate) client_path: Option<String>,
    pub(crate) access: Access,
    /// Whether it is an allowed directory that is [always](crate::DirectoryOptions::always) in force.
    pub(crate) is_always: bool,
    /// Whether `names` may cross mounts.
    pub(crate) mounts: Rule,
}

impl Root {
    /// The canonical path, to which the listed or configured path was resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.canonical
    }

    /// The paths by which a request may name this root: the canonical path, followed by its
    /// aliases:
    ///
    /// - the listed or configured path, if it differs and contains no `..`
    /// - on macOS, other paths through the system's own symlinks
    /// - for an allowed directory, the declared [aliases](crate::DirectoryOptions::alias) that
    ///   resolve to it on this system
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.canonical.as_path()).chain(self.aliases.iter().map(PathBuf::as_path))
    }

    /// The path under which the client listed this root, as text that it may see and can use in
    /// requests. It is the decoded path of the URI, without `.`, `//` or a trailing slash. If the
    /// client used a Windows [alias](crate::DirectoryOptions::alias), the separators are
    /// backslashes.
    ///
    /// This is the [canonical path](Self::path) if the client listed neither the root nor one from
    /// which it was narrowed, or if the listed path contains `..` or is not UTF-8.
    #[must_use]
    pub fn client_path(&self) -> String {
        self.client_path.clone().unwrap_or_else(|| display_path(&self.canonical))
    }

    /// The access beneath this root, except in roots inside it, which can be writable in a
    /// read-only one. Narrowing never raises it: it is [`Access::ReadOnly`] if the place was
    /// read-only in the snapshot in which the root was resolved, or if the root is at or below a
    /// [protected](crate::BoundaryBuilder::protect) name.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether the root is a single file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == RootKind::File
    }

    /// The root at a path of plain names below this one, with its access and allowed directory. No
    /// other root of the snapshot is between the two.
    pub(crate) fn below(&self, path: &Path, kind: RootKind) -> Self {
        Self {
            directory: self.directory.clone(),
            names: join(&self.names, path),
            // Defense: A root itself stays what it was when it was resolved.
            kind: if path.as_os_str().is_empty() { self.kind } else { kind },
            canonical: join(&self.canonical, path),
            aliases: Vec::new(),
            client_path: None,
            // Defense: A root has no more access than the one that contains it when it is resolved.
            access: self.access,
            is_always: false,
            mounts: self.mounts,
        }
    }

    /// Adds aliases, up to [`ALIASES`].
    pub(crate) fn add_aliases(&mut self, aliases: impl IntoIterator<Item = PathBuf>) {
        for alias in aliases {
            if self.aliases.len() < ALIASES && !self.aliases.contains(&alias) {
                self.aliases.push(alias);
            }
        }
    }

    pub(crate) fn consented(&self) -> usize {
        self.directory.consented
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn overlaps_proc(&self) -> bool {
        match self.canonical.as_os_str().as_encoded_bytes() {
            b"/" | b"/proc" => true,
            path => path.starts_with(b"/proc/"),
        }
    }

    #[cfg_attr(not(target_os = "linux"), expect(clippy::unused_self))]
    pub(crate) fn verify(&self, file: &File, policy: Policy) -> Result<Metadata> {
        let metadata = Metadata::without_birth(file)?;
        policy.allow(&metadata)?;
        #[cfg(target_os = "linux")]
        self.ensure_not_proc(file, &metadata)?;
        Ok(metadata)
    }

    /// Refuses an open file or directory of a proc filesystem, unless the allowed directory itself
    /// is in one. Only what is on another device is asked for its filesystem.
    #[cfg(target_os = "linux")]
    pub(crate) fn ensure_not_proc<F: AsFd>(&self, file: &F, metadata: &Metadata) -> Result<()> {
        let allowed = || self.directory.identity().map(|allowed| allowed.device);
        if metadata.may_be_in_proc()
            && allowed() != Some(metadata.device())
            // Defense: What shows processes, such as the server and its environment, is refused.
            && is_proc(file)?
        {
            let text = "it belongs to a proc filesystem, which shows running processes";
            return Err(Error::from(Code::SpecialFile).with_text(text));
        }
        Ok(())
    }

    pub(crate) fn is_filesystem_root(&self) -> bool {
        self.names.as_os_str().is_empty() && self.directory.is_top()
    }

    /// Opens the root's directory, or the parent of a file root. Fails with `RootUnavailable` if
    /// the name leads to no directory, or runs through a symlink.
    pub(crate) fn handle(&self) -> Result<Arc<Handle>> {
        let allowed = self.directory.handle()?;
        let path = self.directory_path();
        if path.as_os_str().is_empty() {
            return Ok(allowed);
        }
        // Defense: A symlink in the place of a root, or of a directory above it, is not followed.
        let opened = allowed.dir(path, self.mounts);
        opened.map(Arc::new).map_err(|error| match error {
            error if is_missing(&error) => Code::RootUnavailable.into(),
            error => error,
        })
    }

    fn directory_path(&self) -> &Path {
        self.names.parent().filter(|_| self.is_file()).unwrap_or(&self.names)
    }

    pub(crate) fn beneath_handle(&self, path: &Path) -> PathBuf {
        match self.leaf() {
            Some(leaf) => PathBuf::from(leaf),
            None => path.to_owned(),
        }
    }

    pub(crate) fn leaf(&self) -> Option<&OsStr> {
        self.names.file_name().filter(|_| self.is_file())
    }

    /// Whether the name leads to what the root is, a directory or a file, which explains a failed
    /// operation. Also true if this cannot be determined, for example because no descriptor is
    /// free.
    pub(crate) fn is_there(&self) -> bool {
        if !self.directory.is_there() {
            return false;
        }
        match (self.handle(), self.leaf()) {
            (Ok(parent), Some(leaf)) => match parent.look_in(leaf, self.mounts) {
                Ok(Stat::Other(found)) => !found.is_dir(),
                Ok(_) => false,
                Err(error) => !is_missing(&error),
            },
            (Ok(_), None) => true,
            (Err(error), _) => error.reason() != Code::RootUnavailable,
        }
    }

    /// Like [`is_at_or_below`](Self::is_at_or_below), but also true for the file of a root that is
    /// a single file.
    pub(crate) fn is_object_at_or_below<'a>(
        &'a self,
        object: Identity,
        seen: &mut HashSet<&'a OsStr>,
    ) -> Result<bool> {
        let found = self.handle().and_then(|directory| match self.leaf() {
            Some(leaf) => directory.look_in(leaf, self.mounts),
            None => Ok(Stat::Missing),
        });
        match found {
            Ok(Stat::Other(file)) if file.identity() == object => return Ok(true),
            // What cannot be looked at now is not taken for another file.
            Err(error) if !is_missing(&error) => return Err(error),
            _ => {}
        }
        match self.is_at_or_below(object, seen) {
            Err(error) if is_missing(&error) => Ok(false),
            done => done,
        }
    }

    /// Whether `directory` is the root's directory or one above it, whatever their names. The
    /// canonical paths in `seen` were already compared, and are skipped.
    pub(crate) fn is_at_or_below<'a>(
        &'a self,
        directory: Identity,
        seen: &mut HashSet<&'a OsStr>,
    ) -> Result<bool> {
        // Opens the allowed directory again if this is due, before it is compared.
        let handle = self.directory.handle();
        if self.directory.identity() == Some(directory) {
            return Ok(true);
        }
        // `names` leads from the handle to the canonical path.
        let mut compare = |handle: &Handle, canonical: &'a Path, names: &Path| -> Result<bool> {
            let places = canonical.ancestors().zip(names.ancestors());
            let places = places.take_while(|(_, names)| !names.as_os_str().is_empty());
            let new: Vec<_> =
                places.take_while(|(canonical, _)| seen.insert(canonical.as_os_str())).collect();
            let mut opened: Option<Handle> = None;
            for (_, names) in new.into_iter().rev() {
                let found = match (&opened, names.file_name()) {
                    (Some(parent), Some(name)) => parent.dir(Path::new(name), Rule::Allow),
                    _ => handle.dir(names, Rule::Allow),
                };
                match found.and_then(|found| Ok((found.identity()?, found))) {
                    Ok((identity, _)) if identity == directory => return Ok(true),
                    Ok((_, found)) => opened = Some(found),
                    // Nothing is below a name that leads to no directory.
                    Err(error) if is_missing(&error) => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(false)
        };
        let (top, path) = self.directory.top_and_path();
        let names = self.names.iter().count();
        let allowed = self.canonical.ancestors().nth(names).unwrap_or(&self.canonical);
        let above = |path: &'a Path| path.parent().unwrap_or(path);
        let canonical = if self.is_file() { above(&self.canonical) } else { &self.canonical };
        let is_below = match handle {
            Ok(handle) => compare(&handle, canonical, self.directory_path())?,
            Err(_) => false,
        };
        Ok(is_below || compare(top, above(allowed), above(path))?)
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("path", &self.canonical)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// Unlike `Path::join`, adds no slash for an empty path.
pub(crate) fn join(path: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { path.to_owned() } else { path.join(relative) }
}

/// Whether a look-up found a directory or a regular file, if anything. Fails with `special_file` at
/// anything else, and with `changed` at a symlink, which was not there a moment ago.
pub(crate) fn kind_of(found: &Stat) -> Result<Option<RootKind>> {
    match found {
        Stat::Missing => Ok(None),
        Stat::Link(..) => Err(Code::Changed.into()),
        Stat::Other(found) if found.is_dir() => Ok(Some(RootKind::Directory)),
        Stat::Other(found) if found.is_file() => Ok(Some(RootKind::File)),
        Stat::Other(_) => Err(Code::SpecialFile.into()),
    }
}

/// On Windows, omits `\\?\`.
pub(crate) fn display_path(path: &Path) -> String {
    dunce::simplified(path).display().to_string()
}
