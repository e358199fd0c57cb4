//! A configured directory: [`Directory`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use path_clean::PathClean as _;

use super::listed::aliases_of;
use crate::dir::{Access, Budget, Rule};
use crate::error::{Code, Error, Result};
use crate::limits::ALIASES;
use crate::path::index::RootKind;
#[cfg(unix)]
use crate::path::names::drive;
use crate::path::names::{components, is_absolute, is_same};
use crate::path::{Location, unexpanded};
use crate::roots::{
    LastName, Links, Lookups, PlaceInRoot, RejectedEntry, Root, Roots, join, kind_of, retry_changed,
};

/// An allowed directory's access and options, for
/// [`BoundaryBuilder::directory`](crate::BoundaryBuilder::directory). By default, the directory
/// must exist, and client roots narrow it.
///
/// ```
/// use guarded_fs::{Access, Boundary, DirectoryOptions};
///
/// # let top = tempfile::tempdir().unwrap();
/// # for name in ["home", "home/work", "external"] {
/// #     std::fs::create_dir(top.path().join(name)).unwrap();
/// # }
/// # let (home, external) = (top.path().join("home"), top.path().join("external"));
/// // Lists narrow `home`. Every client can read `external`.
/// let boundary = Boundary::builder()
///     .directory(&home, Access::ReadWrite)
///     .directory(&external, DirectoryOptions::from(Access::ReadOnly).always())
///     .build()?;
/// # let work = home.join("work");
/// let listed = [work.to_str().unwrap()];
/// let roots = boundary.narrow(listed)?;
/// let names: Vec<_> = roots.iter().filter_map(|root| root.path().file_name()).collect();
/// assert_eq!(names, ["work", "external"]);
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct DirectoryOptions {
    pub(super) access: Access,
    optional: bool,
    always: bool,
    pub(super) aliases: Vec<PathBuf>,
}

impl DirectoryOptions {
    /// Allows the directory to be missing.
    /// [`Boundary::allowed_roots`](crate::Boundary::allowed_roots) then looks for it again. The
    /// missing names on its path are not created through other allowed directories.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Keeps the directory in force even if the client lists others or none, or fails to send a
    /// list. This applies to the directory itself: one inside it that is not in force has this
    /// one's access.
    ///
    /// These directories follow the client's roots, in configuration order, unless the client lists
    /// one, directly or through an ancestor, which gives it the position of that entry. Relative
    /// requests still start at the first root that the client lists. If that one is rejected, or
    /// the client has none in force, they are refused, so that they do not start at another
    /// directory.
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    /// Adds an alias: another path by which clients can name the directory in their root lists and
    /// requests. A directory can have up to eight, of three kinds:
    ///
    /// - A path that resolves to the directory on this system, such as `/home/me` for
    ///   `/var/home/me`. The target of a symlink may also begin with it.
    /// - A path that does not exist on this system, such as `/Users/me/project` on the host of a
    ///   container that has the directory at `/workspace`. If a directory is created there later,
    ///   the alias still refers to the allowed one.
    /// - On systems other than Windows, a Windows path such as `C:\project`. Requests may use
    ///   either separator, ASCII letters in either case, or a URI (`file:///c%3A/project`).
    ///
    /// An alias matches only whole names. The rest of the request is a path of this system. After a
    /// Windows alias that is not in a URI, a backslash also separates names on Unix: both
    /// `C:\project\a\b` and `C:\project/a/b` name the file `b` in `a`.
    ///
    /// [`BoundaryBuilder::build`](crate::BoundaryBuilder::build) fails if an alias is not absolute,
    /// contains `.` or `..`, or is the ninth (`invalid_alias`); or if it exists and is a different
    /// directory, or equals, contains or is inside another allowed directory or alias
    /// (`alias_conflict`). So none can be declared if `/` is allowed.
    ///
    /// ```
    /// use guarded_fs::{Access, Boundary, DirectoryOptions, ListEntry};
    ///
    /// # let workspace = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(workspace.path().join("site")).unwrap();
    /// # std::fs::write(workspace.path().join("site/a.txt"), "a").unwrap();
    /// # let host = if cfg!(windows) { r"Q:\Users\me\project" } else { "/Users/me/project" };
    /// # if cfg!(windows) { return Ok(()) }
    /// // On the host, the workspace is at `/Users/me/project`.
    /// let options = DirectoryOptions::from(Access::ReadWrite).alias(host);
    /// let boundary = Boundary::builder().directory(workspace.path(), options).build()?;
    /// let listed = [ListEntry::uri("file:///Users/me/project/site")];
    /// let roots = boundary.narrow(listed)?;
    /// assert_eq!(roots.read_to_string("/Users/me/project/site/a.txt", 1024)?, "a");
    /// let shown: Vec<_> = roots.iter().map(|root| root.client_path()).collect();
    /// assert_eq!(shown, ["/Users/me/project/site"]);
    /// # Ok::<(), guarded_fs::Error>(())
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
    /// As its path was last resolved, with the options of this directory, whatever others lead to
    /// it.
    pub(super) root: Result<Arc<Root>, Absence>,
}

#[derive(Clone, Debug)]
pub(super) struct Absence {
    code: Code,
    /// If nothing is at the path, the canonical path that the directory would have.
    planned: Option<PathBuf>,
}

impl Directory {
    pub(super) fn new(path: &Path, mut options: DirectoryOptions) -> Result<Self> {
        if path.as_os_str().is_empty() {
            let text = "the path of the directory is empty; is a variable unset?";
            return Err(Error::from(Code::Empty).with_text(text));
        }
        let refused = |error: Error| error.with_request("open root", path.as_os_str());
        // On Windows, `absolute` only says that an argument is invalid.
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(refused(Code::Nul.into()));
        }
        let path = std::path::absolute(path).map_err(|error| refused(error.into()))?;
        if let Some(alias) = options.aliases.get(ALIASES) {
            let error = Error::from(Code::InvalidAlias).with_text("more than 8 aliases");
            return Err(error.with_request("declare alias", alias.as_os_str()));
        }
        for alias in &mut options.aliases {
            *alias = parse_alias(alias)?;
        }
        let root = Err(Absence { code: Code::NotFound, planned: None });
        Ok(Self { path: with_long_names(path), options, root })
    }

    pub(super) fn locations(&self) -> impl Iterator<Item = Location> {
        let paths = std::iter::once(&self.path).chain(&self.options.aliases);
        paths.filter_map(|path| Location::from_path(path).ok())
    }

    pub(super) fn root(&self) -> Option<&Root> {
        self.root.as_deref().ok()
    }

    pub(super) fn planned(&self) -> Option<&Path> {
        self.root.as_ref().err()?.planned.as_deref()
    }

    /// Whether the directory has no root, unless it is optional and missing.
    pub(super) fn is_invalid(&self) -> bool {
        self.root.as_ref().is_err_and(|Absence { code, planned }| {
            !self.options.optional || *code != Code::NotFound || planned.is_none()
        })
    }

    /// Whether the path is the canonical one, so that it always leads to the same root.
    pub(super) fn is_settled(&self) -> bool {
        let path = Location::from_path(&self.path);
        path.is_ok_and(|path| {
            let path = path.as_unchecked_path().clean();
            self.root().is_some_and(|root| is_same(&path, root.path()))
        })
    }

    /// Keeps the root if the path is its canonical one, or cannot be resolved now. Also returns the
    /// symlinks that were followed, or why there is no root.
    pub(super) fn resolve(&self, filesystem: &Roots, mounts: Rule) -> (Self, Result<Links>) {
        let mut directory = self.clone();
        // The handle of a root is opened again at each use.
        if self.is_settled() {
            return (directory, Ok(Links::default()));
        }
        let mut planned = None;
        let links = match retry_changed(|| self.open(filesystem, mounts, &mut planned)) {
            Ok((root, links)) => {
                directory.root = Ok(Arc::new(root));
                Ok(links)
            }
            Err(_) if self.root.is_ok() => Ok(Links::default()),
            Err(error) => {
                let is_missing = error.reason() == Code::NotFound;
                let planned = planned.filter(|_| is_missing);
                directory.root = Err(Absence { code: error.reason(), planned });
                let hint = unexpanded(self.path.as_os_str()).filter(|_| is_missing);
                Err(hint.map(str::to_owned).into_iter().fold(error, Error::with_outcome))
            }
        };
        (directory, links)
    }

    /// If nothing is there, notes where it would be.
    fn open(
        &self,
        filesystem: &Roots,
        mounts: Rule,
        planned: &mut Option<PathBuf>,
    ) -> Result<(Root, Links)> {
        let location = Location::from_path(&self.path).map_err(|error| error.reason())?;
        // On Windows, the volume may be missing, for example if a disk is unplugged.
        if filesystem.index().strip_root(location.as_os_str()).is_none() {
            *planned = Some(location.as_unchecked_path().to_owned());
            return Err(Code::NotFound.into());
        }
        let mut budget = Budget::new();
        let mut lookups = Lookups::recording(filesystem, &mut budget);
        let PlaceInRoot { root, path, .. } =
            filesystem.locate_with(&mut lookups, &location, LastName::Any)?;
        let top = filesystem.root(root)?;
        *planned = Some(join(top.path(), &path));
        let kind = kind_of(&lookups.look_up(root, &path)?)?.ok_or(Code::NotFound)?;
        let found = top.below(&path, kind);
        let (directory, names) = match (kind, path.parent(), path.file_name()) {
            (RootKind::File, Some(parent), Some(leaf)) => (parent, PathBuf::from(leaf)),
            _ => (path.as_path(), PathBuf::new()),
        };
        let aliases = aliases_of(location.as_unchecked_path(), &found.canonical);
        let consented = components(found.canonical.as_os_str()).count();
        let directory = top.directory.below(directory, consented)?;
        let (access, is_always) = (self.options.access, self.options.always);
        let root = Root { directory, names, aliases, access, is_always, mounts, ..found };
        Ok((root, lookups.into_links()))
    }

    pub(super) fn reject(&mut self, error: Error) -> Error {
        let planned = self.planned().map(Path::to_owned);
        self.root = Err(Absence { code: error.reason(), planned });
        error
    }

    pub(super) fn rejected(&self, index: usize, error: Error) -> RejectedEntry {
        RejectedEntry::new(index, &self.path.to_string_lossy(), error)
    }
}

/// Windows itself uses short names for some of a user's directories, such as `%TEMP%`.
fn with_long_names(path: PathBuf) -> PathBuf {
    #[cfg(windows)]
    if Location::from_path(&path).is_err_and(|error| error.reason() == Code::ShortName) {
        return std::fs::canonicalize(&path).unwrap_or(path);
    }
    path
}

fn parse_alias(alias: &Path) -> Result<PathBuf> {
    let invalid =
        || Error::from(Code::InvalidAlias).with_request("declare alias", alias.as_os_str());
    let location = Location::from_path(alias).map_err(|_| invalid())?;
    #[cfg(unix)]
    if let Some(names) = drive::names(location.as_os_str()) {
        let names: Vec<_> = names.map(|(name, _)| name).collect();
        if names.iter().any(|name| name == "." || name == "..") {
            return Err(invalid());
        }
        return Ok(Path::new("/").join(names.iter().collect::<PathBuf>()));
    }
    let text = alias.as_os_str();
    let mut names = components(text).map(|(name, _)| name).peekable();
    if !is_absolute(location.as_os_str())
        || names.peek().is_none()
        || names.any(|name| name == "." || name == "..")
    {
        return Err(invalid());
    }
    Ok(location.as_unchecked_path().clean())
}
