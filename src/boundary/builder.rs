//! The builder of a [`Boundary`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::entries::Entry;
#[cfg(not(windows))]
use super::volumes;
use super::{Boundary, ClientRoots, Inner, aliases, lock, process_start};
use crate::dir::{Access, Policy, Rule};
use crate::error::{Code, Error, Result};
use crate::limits::{ALIASES, ROOT_LIST_ENTRIES};
use crate::path::protect::Pattern;
use crate::path::{Location, PROTECTED_DEFAULTS, Protection};
use crate::roots::{Roots, Snapshot, Throttle};

/// Builds a [`Boundary`] from the operator's configuration.
#[derive(Clone, Debug)]
#[must_use]
pub struct BoundaryBuilder {
    pub(super) directories: Vec<Directory>,
    /// Whether the boundary is meant to have no directories.
    pub(super) is_unbounded: bool,
    pub(super) client_roots: ClientRoots,
    pub(super) bare_paths: bool,
    pub(super) policy: Policy,
    pub(super) protected: Vec<(String, Protection)>,
    pub(super) exempt: Vec<OsString>,
    pub(super) links_until: Option<SystemTime>,
}

/// An allowed directory's access and options, for [`BoundaryBuilder::directory`]. An [`Access`]
/// alone is that of a directory that must exist and that client roots narrow.
///
/// ```
/// use mcp_roots_guard::{Access, Boundary, DirectoryOptions, ListRootsResult};
///
/// # let top = tempfile::tempdir().unwrap();
/// # for name in ["home", "home/work", "external"] {
/// #     std::fs::create_dir(top.path().join(name)).unwrap();
/// # }
/// # let (home, external) = (top.path().join("home"), top.path().join("external"));
/// // Client roots narrow `home`. Every client can read `external`.
/// let boundary = Boundary::builder()
///     .directory(&home, Access::ReadWrite)
///     .directory(&external, DirectoryOptions::from(Access::ReadOnly).always())
///     .build()?;
/// # let uri = url::Url::from_file_path(home.join("work")).unwrap();
/// let roots = boundary.resolve(&ListRootsResult::from_uris([uri]))?;
/// let always: Vec<_> = roots.iter().map(|root| root.is_always()).collect();
/// assert_eq!(always, [false, true]);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct DirectoryOptions {
    pub(super) access: Access,
    pub(super) optional: bool,
    pub(super) always: bool,
    pub(super) aliases: Vec<PathBuf>,
}

impl DirectoryOptions {
    /// Allows the directory to be missing. If it is missing, [`Boundary::allowed_roots`] looks it
    /// up again. The names that are missing on its path are not created through other allowed
    /// directories.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Makes the directory always in force. Client roots do not narrow such a directory: it is in
    /// force even if the client lists other directories, lists none, or fails to send a list. This
    /// applies to the directory itself: one inside it that is not in force has this one's access.
    ///
    /// These directories follow the client's roots, in configuration order. A directory that the
    /// client lists, either directly or through an ancestor, takes the position of that entry
    /// instead. Relative requests still start at the first root that the client lists. If that root
    /// is rejected, or the client has no root in force, relative requests are refused, so that they
    /// do not start at another directory.
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// Adds an alias: another path that clients can use for the directory in their root lists and
    /// requests. A directory can have up to eight aliases.
    ///
    /// There are three kinds of aliases:
    ///
    /// - A path that resolves to the directory on this system, such as `/home/me` for
    ///   `/var/home/me`. The target of a symlink may also begin with it.
    /// - A path that does not exist on this system, such as `/Users/me/project` on the host of a
    ///   container that has the directory at `/workspace`. If a directory is created at that path
    ///   later, the alias still refers to the allowed directory.
    /// - On systems other than Windows, a Windows path such as `C:\project`. Requests may use
    ///   either separator, ASCII letters in either case, or a URI (`file:///c%3A/project`).
    ///
    /// An alias matches only whole names. The rest of the request is parsed as a path of this
    /// system. However, if the request begins with a Windows alias and is not a URI, a backslash
    /// also separates names on Unix. Both `C:\project\a\b` and `C:\project/a/b` then name the file
    /// `b` in `a`.
    ///
    /// An alias must be absolute and cannot contain `.` or `..`. It must not equal, contain, or be
    /// inside another allowed directory or alias, so none can be declared if `/` is allowed.
    /// [`BoundaryBuilder::build`] also fails if the alias exists on this system and is a different
    /// directory.
    ///
    /// ```
    /// use mcp_roots_guard::{Access, Boundary, DirectoryOptions, ListRootsResult};
    ///
    /// # let workspace = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(workspace.path().join("site")).unwrap();
    /// # std::fs::write(workspace.path().join("site/a.txt"), "a").unwrap();
    /// # let host = if cfg!(windows) { r"Q:\Users\me\project" } else { "/Users/me/project" };
    /// # if cfg!(windows) { return Ok(()) }
    /// // On the host, the workspace is at `/Users/me/project`.
    /// let options = DirectoryOptions::from(Access::ReadWrite).alias(host);
    /// let boundary = Boundary::builder().directory(workspace.path(), options).build()?;
    /// let list = ListRootsResult::from_uris(["file:///Users/me/project/site"]);
    /// let roots = boundary.resolve(&list)?;
    /// assert_eq!(roots.read_to_string("/Users/me/project/site/a.txt", 1024)?, "a");
    /// let shown: Vec<_> = roots.iter().map(|root| root.client_path()).collect();
    /// assert_eq!(shown, ["/Users/me/project/site"]);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn alias(mut self, path: impl Into<PathBuf>) -> Self {
        self.aliases.push(path.into());
        self
    }
}

impl From<Access> for DirectoryOptions {
    fn from(access: Access) -> Self {
        Self { access, optional: false, always: false, aliases: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) options: DirectoryOptions,
}

impl BoundaryBuilder {
    /// Adds an allowed directory (or a single file), which must exist when the boundary is built. A
    /// relative path is resolved against the current directory at that time. Symlinks are followed,
    /// because the operator is trusted. On Windows, short names (`PROGRA~1`) are expanded at that
    /// time, and a symlink or junction to another volume is followed only if the path of some
    /// allowed directory starts with that volume.
    ///
    /// The second argument is the directory's [`Access`], or [`DirectoryOptions`].
    ///
    /// Directories can be nested. A place has the access of the innermost root in force that
    /// contains it, compared by canonical path, byte for byte. An inner directory may have more
    /// access than an outer one, such as a writable workspace in a readable `/`, and never less: to
    /// make a part of a writable directory read-only, [`protect`](Self::protect) it. If the inner
    /// directory is not in force, because it is missing or the client does not list it, the outer
    /// one counts.
    ///
    /// Relative requests start at the first directory, so add the one from which relative paths
    /// should start before all others.
    ///
    /// ```
    /// use mcp_roots_guard::{Access, Boundary, ErrorKind};
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
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn directory(
        mut self,
        path: impl Into<PathBuf>,
        options: impl Into<DirectoryOptions>,
    ) -> Self {
        self.directories.push(Directory { path: path.into(), options: options.into() });
        self
    }

    /// Sets how a client's roots determine the roots in force. The default is
    /// [`ClientRoots::Narrow`].
    ///
    /// ```
    /// use mcp_roots_guard::{Access, Boundary, ClientRoots, ListRootsResult};
    ///
    /// # let work = tempfile::tempdir().unwrap();
    /// // A client that lists no roots gets the allowed directories.
    /// let boundary = Boundary::builder()
    ///     .directory(work.path(), Access::ReadWrite)
    ///     .client_roots(ClientRoots::NarrowIfListed)
    ///     .build()?;
    /// assert_eq!(boundary.resolve(&ListRootsResult::default())?.iter().count(), 1);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn client_roots(mut self, client_roots: ClientRoots) -> Self {
        self.client_roots = client_roots;
        self
    }

    /// Accepts bare absolute paths in root lists, which are used unchanged, without
    /// percent-decoding. The protocol requires `file://` URIs, so bare paths are refused by default
    /// ([`InvalidPath`](crate::ErrorKind::InvalidPath): `not_absolute`). The client Cursor is known
    /// to send bare paths.
    pub fn allow_bare_paths(mut self) -> Self {
        self.bare_paths = true;
        self
    }

    /// Sets until when symlinks in writable allowed directories are trusted. An entry of a root
    /// list is refused (`through_link`) if it runs through a symlink there that was created,
    /// renamed or changed at this time or later (`st_ctime`, inode(7)), because a tool may have
    /// created it to widen the list. The default is the time at which the process built its first
    /// boundary.
    ///
    /// Set a later time if symlinks that are created while the server runs, such as those that a
    /// deployment switches, may lead to client roots, and no tool can create any. On Windows, which
    /// does not record this time, no such symlink is trusted whatever is set here.
    pub fn trust_links_until(mut self, time: SystemTime) -> Self {
        self.links_until = Some(time);
        self
    }

    /// Refuses regular files with more than one hard link, because another one may be outside the
    /// roots. They are allowed by default. Refusing them takes no additional system call, but
    /// package managers and version control systems create thousands of hard links.
    pub fn refuse_hard_links(mut self) -> Self {
        self.policy.hard_links = Rule::Refuse;
        self
    }

    /// Refuses filesystems and bind mounts that are mounted inside an allowed directory, also at or
    /// above a client's root. They are allowed by default. If `openat2` is not available, a mount is
    /// recognized by its mount ID (Linux 5.8 or later) or else by its device number. A bind mount of
    /// the same filesystem has the same device number, so only a mount ID reveals it.
    /// [Without directories](Boundary::without_directories), mounts above a client's root are not
    /// refused.
    ///
    /// An allowed directory beyond a mount is served by its own absolute path. A request that leads
    /// to it from a directory around it crosses the mount.
    pub fn refuse_mounts(mut self) -> Self {
        self.policy.mounts = Rule::Refuse;
        self
    }

    /// Allows FIFOs, sockets and devices to be opened. They are refused by default. If allowed,
    /// they are opened in non-blocking mode (`O_NONBLOCK`) and remain in it.
    pub fn allow_special_files(mut self) -> Self {
        self.policy.special_files = Rule::Allow;
        self
    }

    /// Adds the roots in force to the text of a refusal of what is outside them
    /// ([`OutsideRoots`](crate::ErrorKind::OutsideRoots)), and the writable ones to the text of a
    /// refusal to write ([`ReadOnly`](crate::ErrorKind::ReadOnly)), as the client knows them, so
    /// that a model sees where it may look or write. At most eight are named. By default, the text
    /// names none.
    ///
    /// ```
    /// # use mcp_roots_guard::{Access, Boundary};
    /// # let work = tempfile::tempdir().unwrap();
    /// let boundary =
    ///     Boundary::builder().directory(work.path(), Access::ReadOnly).name_roots_in_refusals();
    /// let refused = boundary.build()?.allowed_roots().read("../a", 1).unwrap_err().to_string();
    /// assert!(refused.starts_with(r#"read "../a": not inside the allowed directories; allowed: ""#));
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn name_roots_in_refusals(mut self) -> Self {
        self.policy.names_roots = true;
        self
    }

    /// Makes each name that matches a pattern read-only, and everything below it: it can be read,
    /// listed and described, and every change is refused ([`Protected`](crate::ErrorKind::Protected)).
    /// Call this once for each pattern. If a name must not be read either, use
    /// [`deny`](Self::deny).
    ///
    /// A pattern consists of names separated by `/`. A pattern that begins with `/` matches
    /// directly below each allowed directory, and any other pattern matches at any depth. The last
    /// name may contain `*`, which matches any number of characters, and `?`, which matches exactly
    /// one. No other character is special. Without allowed directories, patterns match below the
    /// filesystem root, or below each volume on Windows.
    ///
    /// | pattern | matches in the allowed directory `/srv` |
    /// | --- | --- |
    /// | `.git` | `/srv/.git`, `/srv/a/b/.git` |
    /// | `/secrets` | `/srv/secrets`, but not `/srv/a/secrets` |
    /// | `.github/workflows` | `/srv/.github/workflows`, `/srv/a/.github/workflows` |
    /// | `.env*` | `/srv/.env`, `/srv/a/.env.local` |
    ///
    /// Patterns are compared with the canonical path of the file, so symlinks, aliases and client
    /// roots make no difference. Whole names are compared. On every system, the comparison ignores
    /// differences that any supported filesystem ignores: case, Unicode normalization, invisible
    /// characters, and trailing dots and spaces. A name is protected whether or not it exists.
    ///
    /// Patterns apply in every allowed directory, except to the names that lead to it: a match
    /// counts if its last name is below the allowed directory of the innermost root in force. So a
    /// worktree in `.codex/worktrees` can be an allowed directory although `.codex` is protected,
    /// and names below the worktree are protected as usual. An allowed directory inside a denied
    /// name is reached by its own path or alias, but not through the denied name, and `..` does not
    /// lead from it into the denied place.
    ///
    /// Nothing makes a protected name appear. If `.github/workflows` is protected, `.github` can be
    /// created as a directory, but no file, symlink or renamed directory can get this name. A
    /// directory that contains a protected name can be neither renamed nor removed. It is searched
    /// for such names first, so both operations are refused if it has more than
    /// [`WALK_ENTRIES`](crate::limits::WALK_ENTRIES) entries.
    ///
    /// `docs/defenses.md` lists the limits of this protection. For example, it does not apply to
    /// child processes, and confining the process does not enforce it.
    ///
    /// ```
    /// use mcp_roots_guard::{Access, Boundary, ErrorKind};
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
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn protect(mut self, pattern: impl Into<String>) -> Self {
        self.protected.push((pattern.into(), Protection::ReadOnly));
        self
    }

    /// Denies each name that matches a pattern, and everything below it: every request is refused
    /// ([`Protected`](crate::ErrorKind::Protected)), and listings and walks omit the name. Patterns
    /// are as described at [`protect`](Self::protect), and a name that matches both kinds is denied.
    pub fn deny(mut self, pattern: impl Into<String>) -> Self {
        self.protected.push((pattern.into(), Protection::Denied));
        self
    }

    /// Exempts a name from the patterns of [`protect`](Self::protect) and [`deny`](Self::deny): a
    /// match is ignored if its last name is exactly this one. Entries inside it are still compared
    /// with the patterns, and so are other spellings, such as one in capital letters.
    ///
    /// ```
    /// # use mcp_roots_guard::{Access, Boundary, ErrorKind};
    /// # let work = tempfile::tempdir().unwrap();
    /// # for name in [".env", ".env.example"] {
    /// #     std::fs::write(work.path().join(name), "KEY=").unwrap();
    /// # }
    /// let boundary = Boundary::builder()
    ///     .directory(work.path(), Access::ReadWrite)
    ///     .deny(".env*")
    ///     .exempt(".env.example")
    ///     .build()?;
    /// let roots = boundary.allowed_roots();
    /// assert_eq!(roots.read_to_string(".env.example", 99)?, "KEY=");
    /// assert_eq!(roots.read(".env", 99).unwrap_err().kind(), ErrorKind::Protected);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
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
    /// - [`InvalidPath`](crate::ErrorKind::InvalidPath) (`empty`) if the path of a directory is empty.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`no_directories`) if
    ///   there are no directories, unless the builder is that of
    ///   [`Boundary::without_directories`].
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) (`invalid_options`) if a boundary without
    ///   directories is given one, which would not limit what a client can list, or a
    ///   [`ClientRoots`] that puts its directories in force; or if bare paths are allowed with
    ///   [`ClientRoots::Ignore`], which reads no list.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_roots`) if there are more than
    ///   [`ROOT_LIST_ENTRIES`] directories.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`access_conflict`) if a
    ///   read-only directory is inside a writable one, or would be once it is created. The error
    ///   contains the call of [`protect`](Self::protect) to write instead. Also if one directory is
    ///   configured as read-only and as writable. Paths are compared like patterns, so they also
    ///   conflict if they differ only in case.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`invalid_pattern`) if a
    ///   pattern for protected names is invalid, or if none matches an exempt name.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`invalid_alias`) if an
    ///   [alias](DirectoryOptions::alias) is not absolute or contains `.` or `..`, or if a
    ///   directory has more than eight aliases.
    /// - [`InvalidConfiguration`](crate::ErrorKind::InvalidConfiguration) (`alias_conflict`) if an
    ///   alias exists and is a different directory, or if it equals, contains, or is inside another
    ///   allowed directory or alias.
    /// - [`RootRejected`](crate::ErrorKind::RootRejected) (`through_link`) if a directory's path
    ///   runs through a symlink inside another one.
    /// - Any error from resolving a directory, except that an optional directory may be missing.
    pub fn build(mut self) -> Result<Boundary> {
        let invalid = |text| Err(Error::from(Code::InvalidOptions).with_text(text));
        match (self.is_unbounded, self.directories.is_empty()) {
            (false, true) => return Err(Code::NoDirectories.into()),
            (true, false) => {
                return invalid("the boundary is without directories: leave directory out");
            }
            (true, true) if self.client_roots != ClientRoots::Require => {
                return invalid(
                    "without directories, only what a client lists is in force: leave client_roots \
                     out",
                );
            }
            _ => {}
        }
        if self.bare_paths && self.client_roots == ClientRoots::Ignore {
            return invalid("client roots are ignored: leave allow_bare_paths out");
        }
        if self.directories.len() > ROOT_LIST_ENTRIES {
            return Err(Code::TooManyRoots.into());
        }
        for directory in &mut self.directories {
            if directory.path.as_os_str().is_empty() {
                let text = "the path of the directory is empty; is a variable unset?";
                return Err(Error::from(Code::Empty).with_text(text));
            }
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
            let aliases = &mut directory.options.aliases;
            if let Some(alias) = aliases.get(ALIASES) {
                let error = Error::from(Code::InvalidAlias).with_text("more than 8 aliases");
                return Err(error.at("declare alias", alias.as_os_str()));
            }
            for alias in aliases {
                *alias = aliases::parse(alias)?;
            }
        }
        let protected = Pattern::parse_all(&self.protected, &self.exempt)?;
        // The start is read before the first list is resolved.
        let links_until = self.links_until.unwrap_or_else(process_start);
        let boundary = Boundary {
            inner: Arc::new(Inner {
                directories: self.directories,
                client_roots: self.client_roots,
                bare_paths: self.bare_paths,
                policy: self.policy,
                #[cfg(not(windows))]
                filesystem_root: volumes::filesystem_root(if self.is_unbounded {
                    &protected
                } else {
                    &[]
                })?,
                protected,
                allowed: Mutex::new(Roots::from(Snapshot::default())),
                generation: AtomicU64::new(0),
                resolved: Throttle::new(),
                links_until,
            }),
        };
        let mut allowed = boundary.resolve_allowed(None);
        if let Some(bad) =
            allowed.rejected.iter().position(|rejected| boundary.is_required(rejected))
        {
            return Err(allowed.rejected.swap_remove(bad).error);
        }
        boundary.check_access(&allowed)?;
        let (protected, policy) = (&boundary.inner.protected, boundary.inner.policy);
        *lock(&boundary.inner.allowed) = allowed.into_roots(protected, policy);
        Ok(boundary)
    }
}

impl Directory {
    pub(super) fn entry(&self) -> Entry {
        Entry {
            text: self.path.to_string_lossy().into_owned(),
            location: Location::from_path(&self.path),
            name: None,
        }
    }

    /// Returns entries that name the volumes of the aliases.
    pub(super) fn alias_entries(&self) -> impl Iterator<Item = Entry> {
        self.options.aliases.iter().map(|alias| Entry {
            text: String::new(),
            location: Location::from_path(alias),
            name: None,
        })
    }
}
