//! The builder of a [`Boundary`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use super::configuration::Resolution;
use super::directory::{Directory, DirectoryOptions};
use super::volumes::Filesystem;
use super::{Boundary, Inner, Limit};
use crate::dir::{Access, Policy, Rule};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::ROOT_LIST_ENTRIES;
use crate::path::protect::{FoldedPaths, Pattern};
use crate::path::{PROTECTED_DEFAULTS, Protection};
use crate::roots::{Root, Roots, Throttle};

/// Builds a [`Boundary`] from the operator's configuration.
#[derive(Clone, Debug)]
#[must_use]
pub struct BoundaryBuilder {
    directories: Vec<(PathBuf, DirectoryOptions)>,
    is_any_listed: bool,
    policy: Policy,
    protected: Vec<(String, Protection)>,
    exempt: Vec<OsString>,
    /// By default, the time at which the process built its first boundary.
    pub(crate) links_until: Option<SystemTime>,
}

impl Boundary {
    /// Returns a builder for a boundary with at least one directory.
    pub fn builder() -> BoundaryBuilder {
        BoundaryBuilder {
            directories: Vec::new(),
            is_any_listed: false,
            policy: Policy::default(),
            protected: Vec::new(),
            exempt: Vec::new(),
            links_until: None,
        }
    }

    /// Returns a builder for a boundary that grants whatever a list names, for reading and writing,
    /// up to the whole filesystem: `file:///` puts `/` in force. It has no directories of its own,
    /// so without a list, or for an empty one, it grants nothing. On Windows, each volume that the
    /// list names can be in force.
    ///
    /// This is the widest grant. [`builder`](Self::builder) requires a directory, so that a
    /// forgotten one does not open the whole system, and [`nothing`](Self::nothing) grants none.
    ///
    /// ```
    /// # use guarded_fs::{Boundary, WhyNone};
    /// # let work = tempfile::tempdir().unwrap();
    /// let boundary = Boundary::any_listed().build()?;
    /// let listed = [work.path().to_str().unwrap()];
    /// assert_eq!(boundary.narrow(listed)?.iter().count(), 1);
    /// assert_eq!(boundary.allowed_roots().why_none(), Some(WhyNone::Unconfigured));
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn any_listed() -> BoundaryBuilder {
        BoundaryBuilder { is_any_listed: true, ..Self::builder() }
    }
}

impl BoundaryBuilder {
    /// Adds an allowed directory (or a single file) with its [`Access`] or [`DirectoryOptions`]. It
    /// must exist when the boundary is built. A relative path is then resolved against the current
    /// directory, and symlinks are followed, because the operator is trusted. Relative requests
    /// start at the first one.
    ///
    /// Directories can be nested. A place has the access of the innermost root in force that
    /// contains it, compared by canonical path, byte for byte. If the inner directory is missing or
    /// not listed, the outer one counts. The inner one may have more access, such as a writable
    /// workspace in a readable `/`, and never less: to make a part of a writable directory
    /// read-only, [`protect`](Self::protect) it.
    ///
    /// A proc filesystem, which shows running processes, is served only to an allowed directory that
    /// is itself in it: `/` includes no `/proc`.
    ///
    /// On Windows, short names (`PROGRA~1`) are expanded, and a symlink or junction to another
    /// volume is followed only if the path of some allowed directory starts with that volume.
    ///
    /// ```
    /// use guarded_fs::{Access, Boundary, ErrorKind};
    ///
    /// # let top = tempfile::tempdir().unwrap();
    /// # let (docs, drafts) = (top.path().join("docs"), top.path().join("docs/drafts"));
    /// # std::fs::create_dir_all(&drafts).unwrap();
    /// let boundary = Boundary::builder()
    ///     .directory(&drafts, Access::ReadWrite)
    ///     .directory(&docs, Access::ReadOnly) // contains `drafts`
    ///     .build()?;
    /// let roots = boundary.allowed_roots();
    /// roots.write("new.txt", "")?;
    /// let refused = roots.write(docs.join("new.txt"), "").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn directory(
        mut self,
        path: impl Into<PathBuf>,
        options: impl Into<DirectoryOptions>,
    ) -> Self {
        self.directories.push((path.into(), options.into()));
        self
    }

    /// Refuses regular files with more than one hard link, because another one may be outside the
    /// roots. This takes no additional system call, but package managers and version control
    /// systems create thousands of hard links.
    pub fn refuse_hard_links(mut self) -> Self {
        self.policy.hard_links = Rule::Refuse;
        self
    }

    /// Refuses filesystems and bind mounts inside an allowed directory, also at or above a client's
    /// root. If [any listed directory](Boundary::any_listed) is in force, those above it are not
    /// refused. An allowed directory beyond a mount is served by its own absolute path, and not
    /// from one around it.
    ///
    /// Without `openat2`, a mount is recognized by its mount ID (Linux 5.8 or later) or else by its
    /// device number, which does not reveal a bind mount of the same filesystem.
    pub fn refuse_mounts(mut self) -> Self {
        self.policy.mounts = Rule::Refuse;
        self
    }

    /// Allows FIFOs, sockets and devices to be opened, in non-blocking mode (`O_NONBLOCK`), in
    /// which they remain.
    pub fn allow_special_files(mut self) -> Self {
        self.policy.special_files = Rule::Allow;
        self
    }

    /// Names the roots in force in refusals of what is outside them
    /// ([`OutsideRoots`](crate::ErrorKind::OutsideRoots)), and the writable ones in refusals to
    /// write ([`ReadOnly`](crate::ErrorKind::ReadOnly)), so that a model sees where it may look or
    /// write. At most eight are named, as the client knows them.
    pub fn name_roots_in_refusals(mut self) -> Self {
        self.policy.names_roots = true;
        self
    }

    /// Makes each name that matches a pattern read-only, and everything below it: every change is
    /// refused ([`Protected`](crate::ErrorKind::Protected)). [`deny`](Self::deny) also refuses
    /// reading.
    ///
    /// A pattern consists of names separated by `/`. If it begins with `/`, it matches directly
    /// below each allowed directory, and otherwise at any depth. The last name may contain `*`,
    /// which matches any number of characters, and `?`, which matches exactly one. No other
    /// character is special. With [`any_listed`](Boundary::any_listed), patterns match below the
    /// filesystem root, or below each volume on Windows.
    ///
    /// | pattern | matches in the allowed directory `/srv` |
    /// | --- | --- |
    /// | `.git` | `/srv/.git`, `/srv/a/b/.git` |
    /// | `/secrets` | `/srv/secrets`, but not `/srv/a/secrets` |
    /// | `.github/workflows` | `/srv/.github/workflows`, `/srv/a/.github/workflows` |
    /// | `.env*` | `/srv/.env`, `/srv/a/.env.local` |
    ///
    /// - Patterns are compared with the canonical path, so symlinks, aliases and client roots make
    ///   no difference. On every system, the comparison ignores what any supported filesystem
    ///   ignores: case, Unicode normalization, invisible characters, and trailing dots and spaces.
    /// - A name is protected whether or not it exists, and nothing makes it appear. If
    ///   `.github/workflows` is protected, `.github` can be created as a directory, but no file,
    ///   symlink or renamed directory can get this name.
    /// - A directory that contains a protected name can be neither renamed nor removed. It is
    ///   searched first, so neither can one with more than
    ///   [`WALK_ENTRIES`](crate::limits::WALK_ENTRIES) entries.
    /// - A match counts if its last name is below the allowed directory of the innermost root in
    ///   force. So `.codex/worktrees/x` can be an allowed directory although `.codex` is protected.
    /// - An allowed directory inside a denied name is reached only by its own path or alias, and
    ///   `..` does not lead from it into the denied place.
    ///
    /// `docs/defenses.md` lists the limits of this protection: for example, it does not apply to
    /// child processes, and confinement does not enforce it.
    ///
    /// ```
    /// use guarded_fs::{Access, Boundary, ErrorKind};
    ///
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::write(work.path().join(".env"), "secret").unwrap();
    /// let boundary = Boundary::builder()
    ///     .directory(work.path(), Access::ReadWrite)
    ///     .protect_defaults()
    ///     .deny(".env*")
    ///     .build()?;
    /// let roots = boundary.allowed_roots();
    /// let refused = roots.create_dir_all(".git/hooks").unwrap_err();
    /// assert_eq!(refused.code(), "protected");
    /// let refused = roots.read(".env", 1024).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Protected);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn protect(mut self, pattern: impl Into<String>) -> Self {
        self.protected.push((pattern.into(), Protection::ReadOnly));
        self
    }

    /// Denies each name that matches a pattern, and everything below it: every request is refused
    /// ([`Protected`](crate::ErrorKind::Protected)), and listings and walks omit the name. Patterns
    /// are those of [`protect`](Self::protect), and a name that matches both kinds is denied.
    pub fn deny(mut self, pattern: impl Into<String>) -> Self {
        self.protected.push((pattern.into(), Protection::Denied));
        self
    }

    /// Exempts a name from the patterns of [`protect`](Self::protect) and [`deny`](Self::deny), for
    /// example `.env.example` from `.env*`: a match is ignored if its last name is exactly this
    /// one. Other spellings, such as one in capital letters, and entries inside it still match.
    pub fn exempt(mut self, name: impl Into<OsString>) -> Self {
        self.exempt.push(name.into());
        self
    }

    /// Makes the names in [`PROTECTED_DEFAULTS`] read-only.
    pub fn protect_defaults(self) -> Self {
        PROTECTED_DEFAULTS.iter().fold(self, |builder, name| builder.protect(*name))
    }

    /// Builds the boundary and resolves the allowed directories.
    ///
    /// # Errors
    ///
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration):
    ///   - `no_directories` without one, unless the builder is that of [`Boundary::any_listed`].
    ///     [`Boundary::nothing`] grants nothing and needs no builder.
    ///   - `access_conflict` if a read-only directory is also configured as writable, or is inside
    ///     a writable one, or would be once it is created. The error contains the call of
    ///     [`protect`](Self::protect) to write instead. Paths are compared like patterns, so they
    ///     can differ in case.
    ///   - `invalid_pattern` if a pattern is invalid, or if none matches an exempt name.
    ///   - `invalid_alias`, `alias_conflict` for an [alias](DirectoryOptions::alias).
    /// - [`InvalidPath`](crate::ErrorKind::InvalidPath) (`empty`) for an empty path.
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) (`invalid_options`) for a directory with
    ///   [`Boundary::any_listed`], which it would not limit.
    /// - [`TooManyRoots`](crate::ErrorKind::TooManyRoots) for more than [`ROOT_LIST_ENTRIES`]
    ///   directories.
    /// - [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) if a path runs through a
    ///   symlink inside a writable directory.
    /// - Any error from resolving a directory, except that an optional one may be missing.
    pub fn build(self) -> Result<Boundary> {
        match (self.is_any_listed, self.directories.is_empty()) {
            (false, true) => return Err(Code::NoDirectories.into()),
            (true, false) => {
                let text = "any listed directory is in force: leave directory out, or use \
                            Boundary::builder, which limits lists to directories";
                return Err(Error::from(Code::InvalidOptions).with_text(text));
            }
            _ => {}
        }
        if self.directories.len() > ROOT_LIST_ENTRIES {
            return Err(Code::TooManyRoots.into());
        }
        let directories = self.directories.into_iter();
        let directories = directories.map(|(path, options)| Directory::new(&path, options));
        let directories = directories.collect::<Result<Vec<_>>>()?;
        let protected = Pattern::parse_all(&self.protected, &self.exempt)?;
        // The start is read before the first list is resolved.
        let links_until = self.links_until.unwrap_or_else(process_start);
        let filesystem = Filesystem::new(if self.is_any_listed { &protected } else { &[] })?;
        let mut resolution = Resolution::new(&directories, &filesystem, self.policy.mounts);
        resolution.ensure_valid()?;
        check_access(&resolution.directories().collect::<Vec<_>>())?;
        let configuration = resolution.into_configuration(&protected, self.policy, 0);
        Ok(Boundary {
            inner: Arc::new(Inner {
                policy: self.policy,
                allowed: Mutex::new(Arc::new(configuration)),
                protected,
                limit: if self.is_any_listed {
                    Limit::AnyListed(filesystem)
                } else {
                    Limit::Directories(filesystem)
                },
                resolved: Throttle::new(),
                links_until,
            }),
        })
    }
}

/// When this process built its first boundary, by the clock that filesystems use for timestamps,
/// which lags a few milliseconds behind the exact one (`CLOCK_REALTIME_COARSE`, clock_gettime(2)).
fn process_start() -> SystemTime {
    static START: OnceLock<SystemTime> = OnceLock::new();
    *START.get_or_init(|| {
        #[cfg(target_os = "linux")]
        {
            use nix::time::{ClockId, clock_gettime};
            let now = clock_gettime(ClockId::CLOCK_REALTIME_COARSE).map(std::time::Duration::from);
            if let Ok(now) = now {
                return SystemTime::UNIX_EPOCH + now;
            }
        }
        SystemTime::now()
    })
}

/// Refuses a read-only directory that is a writable one or inside it, or would be once it is
/// created, by names in folded form.
fn check_access(directories: &[&Directory]) -> Result<()> {
    let of = |access| {
        let directories = directories.iter().filter(move |it| it.options.access == access);
        directories.filter_map(|it| it.root().map(Root::path).or(it.planned()))
    };
    let writable = FoldedPaths::new(of(Access::ReadWrite));
    let Some(inner) = of(Access::ReadOnly).find(|inner| writable.enclose(inner)) else {
        return Ok(());
    };
    let around = |outer: &&Path| FoldedPaths::new(std::iter::once(*outer)).enclose(inner);
    let outer = of(Access::ReadWrite).find(around).unwrap_or(inner);
    let pattern = inner.strip_prefix(outer).map(|below| Path::new("/").join(below));
    let pattern = pattern.ok().and_then(|pattern| Some(pattern.to_str()?.to_owned()));
    let line = pattern.filter(|it| Pattern::stands_for_itself(it));
    let outcome = match line {
        _ if outer == inner => {
            "it is configured as read-only and as writable: leave out one of the two".to_owned()
        }
        Some(pattern) => format!(
            "it is inside the writable directory {}: leave it out, and make it read-only with \
             .protect({pattern:?})",
            quoted(outer.as_os_str()),
        ),
        None => format!(
            "it is in the writable directory {}, or a filesystem could find it there: leave out \
             one of the two",
            quoted(outer.as_os_str())
        ),
    };
    Err(Error::from(Code::AccessConflict)
        .with_outcome(outcome)
        .with_request("open root", inner.as_os_str()))
}

impl Roots {
    /// Creates roots from directories (or single files), all with this access and with the default
    /// options. For others, see [`Boundary::builder`].
    ///
    /// The directories are named by their canonical paths from now on. If another one takes the
    /// place of one, it is served within half a second, but a switched symlink in a configured path
    /// changes nothing: for that, keep a [`Boundary`] and call
    /// [`allowed_roots`](Boundary::allowed_roots) for each request.
    ///
    /// # Errors
    ///
    /// Those of [`BoundaryBuilder::build`].
    pub fn from_dirs<P: Into<PathBuf>>(
        directories: impl IntoIterator<Item = P>,
        access: Access,
    ) -> Result<Self> {
        let add = |builder: BoundaryBuilder, path: P| builder.directory(path, access);
        directories
            .into_iter()
            .fold(Boundary::builder(), add)
            .build()
            .map(|boundary| boundary.allowed_roots())
    }
}
