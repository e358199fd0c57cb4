//! The builder of a [`Boundary`].

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::entries::Entry;
#[cfg(not(windows))]
use super::volumes;
use super::{Boundary, Inner, lock};
use crate::dir::{Access, Policy, Rule};
use crate::error::{Code, Error, Result};
use crate::limits::ROOT_LIST_ENTRIES;
use crate::path::protect::Patterns;
#[cfg(not(windows))]
use crate::path::protect::Protected;
use crate::path::{Location, PROTECTED_DEFAULTS, Protection};
use crate::roots::{Roots, WeakTable};

/// Builds a [`Boundary`] from the operator's configuration.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct BoundaryBuilder {
    directories: Vec<Directory>,
    client_roots_only: bool,
    bare_paths: bool,
    policy: Policy,
    protected: Vec<(String, Protection)>,
}

#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) access: Access,
    pub(super) optional: bool,
}

impl BoundaryBuilder {
    /// Adds an allowed directory (or a single file), which must exist when the boundary is built. A
    /// relative path is resolved against the current directory at that time. Symlinks are followed,
    /// because the operator is trusted. On Windows, short names (`PROGRA~1`) are expanded at that
    /// time, and a symlink or junction to another volume is followed only if the path of some
    /// allowed directory starts with that volume.
    pub fn directory(mut self, path: impl Into<PathBuf>, access: Access) -> Self {
        self.directories.push(Directory { path: path.into(), access, optional: false });
        self
    }

    /// Like [`directory`](Self::directory), but the directory may be missing. If it is missing,
    /// [`Boundary::allowed_roots`] looks it up again.
    pub fn optional_directory(mut self, path: impl Into<PathBuf>, access: Access) -> Self {
        self.directories.push(Directory { path: path.into(), access, optional: true });
        self
    }

    /// Builds the boundary without allowed directories. Everything that a client lists is served,
    /// including `file:///`. [`build`](Self::build) fails if this is combined with a directory,
    /// because a directory already limits the roots that a client can list.
    pub fn client_roots_only(mut self) -> Self {
        self.client_roots_only = true;
        self
    }

    /// Sets whether a root list may contain bare absolute paths, which are used unchanged, without
    /// percent-decoding. The protocol requires `file://` URIs, so bare paths are refused by default
    /// ([`InvalidPath`](crate::ErrorKind::InvalidPath): `not_absolute`). The client Cursor is known
    /// to send bare paths. A guard that ignores client roots reads no lists, but
    /// [`Boundary::resolve`] still follows this rule.
    pub fn bare_paths(mut self, bare_paths: Rule) -> Self {
        self.bare_paths = bare_paths == Rule::Allow;
        self
    }

    /// Sets the rules for hard links, special files and mounts.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Protects each name that matches a pattern, and everything below it. This can be called
    /// several times. If several patterns match, the strongest protection applies.
    ///
    /// A pattern consists of names separated by `/`. If it begins with `/`, it matches from each
    /// allowed directory, and otherwise at any depth below one. The last name may contain `*`,
    /// which stands for any characters, and `?`, which stands for one. All other characters have no
    /// special meaning. Without allowed directories, patterns match below the filesystem root, or
    /// below each volume on Windows.
    ///
    /// | pattern | matches in the allowed directory `/srv` |
    /// | --- | --- |
    /// | `.git` | `/srv/.git`, `/srv/a/b/.git` |
    /// | `/secrets` | `/srv/secrets`, but not `/srv/a/secrets` |
    /// | `.github/workflows` | `/srv/.github/workflows`, `/srv/a/.github/workflows` |
    /// | `.env*` | `/srv/.env`, `/srv/a/.env.local` |
    ///
    /// Patterns are compared with the canonical path of the file below the allowed directory, so
    /// symlinks, aliases and the roots that a client lists make no difference. Whole names are
    /// compared. On every system, the comparison ignores case, Unicode normalization, characters
    /// without a visible form, and dots and spaces at the end of a name, because some filesystem
    /// does. The directory itself is protected by its name alone, whether or not it exists.
    ///
    /// A rename is also refused if it would change which names are protected. For example, if
    /// `.github/workflows` is protected, no directory can be renamed to or from `.github`. A
    /// directory that contains a read-only name can be neither renamed nor removed. It is searched
    /// for such names first, so both are refused for a directory with more than
    /// [`WALK_ENTRIES`](crate::limits::WALK_ENTRIES) entries. A recursive removal leaves hidden
    /// names in place.
    ///
    /// `SECURITY.md` lists what this does not prevent. For example, a child process is not bound by
    /// it, and confinement of the process does not include it.
    ///
    /// ```
    /// use mcp_roots_guard::{Access, Boundary, ErrorKind, Protection};
    ///
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::write(work.path().join(".env"), "secret").unwrap();
    /// let boundary = Boundary::builder()
    ///     .directory(work.path(), Access::ReadWrite)
    ///     .protect_defaults()
    ///     .protect(".env*", Protection::Hidden)
    ///     .build()?;
    /// let roots = boundary.allowed_roots();
    /// let refused = roots.create_dir_all(".git/hooks").unwrap_err();
    /// assert_eq!(refused.code(), "protected");
    /// let refused = roots.read(".env", 1024).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn protect(mut self, pattern: impl Into<String>, protection: Protection) -> Self {
        self.protected.push((pattern.into(), protection));
        self
    }

    /// Makes the names in [`PROTECTED_DEFAULTS`] read-only.
    pub fn protect_defaults(self) -> Self {
        PROTECTED_DEFAULTS
            .into_iter()
            .fold(self, |builder, name| builder.protect(name, Protection::ReadOnly))
    }

    /// Builds the boundary and resolves the allowed directories.
    ///
    /// # Errors
    ///
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`no_directories`) if
    ///   there are no directories and [`client_roots_only`](Self::client_roots_only) was not
    ///   called.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) (`invalid_options`) if
    ///   [`client_roots_only`](Self::client_roots_only) was called and there are directories.
    /// - [`RootsFailed`](crate::ErrorKind::RootsFailed) (`too_many_roots`) if there are more than
    ///   [`ROOT_LIST_ENTRIES`] directories.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`access_conflict`) if
    ///   two directories with different access are the same, or if one is inside the other or would
    ///   be once it is created.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`invalid_pattern`) if a
    ///   pattern for protected names is invalid.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`access_conflict`) if a
    ///   directory is hidden by a pattern that matches below another one.
    /// - [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) if a directory's path
    ///   runs through a symlink inside another one.
    /// - Any error from resolving a directory, except that an optional directory may be missing.
    pub fn build(mut self) -> Result<Boundary> {
        if self.directories.is_empty() && !self.client_roots_only {
            return Err(Code::NoDirectories.into());
        }
        if self.client_roots_only && !self.directories.is_empty() {
            let text =
                "client_roots_only and directories are mutually exclusive: leave one of them out";
            return Err(Error::new(Code::InvalidOptions).says(text));
        }
        if self.directories.len() > ROOT_LIST_ENTRIES {
            return Err(Code::TooManyRoots.into());
        }
        for directory in &mut self.directories {
            directory.path = std::path::absolute(&directory.path)
                .map_err(|error| Error::from(error).at("open root", directory.path.as_os_str()))?;
            // Windows itself uses short names for some of a user's directories, such as `%TEMP%`.
            #[cfg(windows)]
            if Location::from_path(&directory.path)
                .is_err_and(|error| error.reason() == Code::ShortName)
            {
                if let Ok(long) = std::fs::canonicalize(&directory.path) {
                    directory.path = long;
                }
            }
        }
        let protected = Patterns::parse(&self.protected)?;
        let boundary = Boundary {
            inner: Arc::new(Inner {
                directories: self.directories,
                bare_paths: self.bare_paths,
                policy: self.policy,
                #[cfg(not(windows))]
                filesystem_root: volumes::filesystem_root(if self.client_roots_only {
                    protected.at_filesystem_root()
                } else {
                    Protected::default()
                })?,
                protected,
                allowed: Mutex::new(Roots::new(Vec::new(), self.policy, Vec::new())),
                generation: AtomicU64::new(0),
                granted: Mutex::default(),
                snapshots: WeakTable::default(),
            }),
        };
        let mut allowed = boundary.resolve_allowed();
        if let Some(bad) =
            allowed.rejected.iter().position(|rejected| boundary.is_required(rejected))
        {
            return Err(allowed.rejected.swap_remove(bad).error);
        }
        boundary.check_missing_directories(&allowed)?;
        *lock(&boundary.inner.allowed) = allowed.into_roots(boundary.inner.policy);
        Ok(boundary)
    }
}

impl Directory {
    pub(super) fn entry(&self) -> Entry {
        Entry {
            text: self.path.to_string_lossy().into_owned(),
            location: Location::from_path(&self.path),
            name: None,
            access: Some(self.access),
        }
    }
}
