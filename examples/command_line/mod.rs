//! The command line options that configure the boundary. The examples `check` and `operate` share
//! them.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, DirectoryOptions, ListRootsResult, Location, Roots,
};

/// The description of the options, for `--help`.
pub(crate) const OPTIONS: &str = "  --root DIR_OR_URI   a directory or `file:` URI to allow
  --read-only-dir DIR a directory to allow for reading only
  --always DIR        a directory to allow regardless of a client's list
  --alias PATH=DIR    accept PATH as another path of the allowed directory DIR
  --protect NAME      make files and directories with this name read-only
  --deny NAME         refuse any access to files and directories with this name
  --exempt NAME       a name that --protect and --deny do not apply to
  --protect-defaults  protect the names through which a tool could run code later, such as `.git`
  --refuse hard-links refuse files with more than one hard link
  --refuse mounts     refuse other filesystems that are mounted inside the directories
  --allow special     allow FIFOs, sockets and devices
  --list URI          decide for a client that lists this root
  --list-none         decide for a client that lists no roots
  --empty deny        a client that lists no roots can access nothing (default)
  --empty allow       a client that lists no roots can access all allowed directories";

/// The values of the options.
pub(crate) struct Options {
    /// Has the options that do not concern a single directory.
    builder: BoundaryBuilder,
    /// All allowed directories, without duplicates, in the order of the options.
    directories: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    always: Vec<PathBuf>,
    /// The aliases, each with its directory.
    aliases: Vec<(String, PathBuf)>,
    list: Vec<String>,
    lists_none: bool,
    allows_empty: bool,
}

impl Options {
    /// Parses the arguments. `own` receives each option that is not one of [`OPTIONS`] with its
    /// value, and returns false if the program does not have this option.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = OsString>,
        mut own: impl FnMut(&str, &str) -> bool,
    ) -> Result<Self, String> {
        let mut options = Self {
            builder: Boundary::builder(),
            directories: Vec::new(),
            read_only: Vec::new(),
            always: Vec::new(),
            aliases: Vec::new(),
            list: Vec::new(),
            lists_none: false,
            allows_empty: false,
        };
        while let Some(option) = arguments.next() {
            match option.to_str() {
                Some("--list-none") => {
                    options.lists_none = true;
                    continue;
                }
                Some("--protect-defaults") => {
                    options.builder = options.builder.protect_defaults();
                    continue;
                }
                _ => {}
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("option {} requires a value", option.to_string_lossy()))?;
            let is_known = match (option.to_str(), value.to_str()) {
                (Some(option), value_text) => {
                    options.set(option, &value, value_text)?
                        || value_text.is_some_and(|value| own(option, value))
                }
                (None, _) => false,
            };
            if !is_known {
                return Err(format!(
                    "unknown option or value: {} {}",
                    option.to_string_lossy(),
                    value.to_string_lossy()
                ));
            }
        }
        Ok(options)
    }

    /// Sets an option. Returns false if there is no such option or value.
    fn set(&mut self, option: &str, value: &OsStr, text: Option<&str>) -> Result<bool, String> {
        let builder = || self.builder.clone();
        match (option, text) {
            ("--root", _) => self.allow(directory(value)?),
            ("--read-only-dir", _) => {
                self.read_only.push(directory(value)?);
                self.allow(directory(value)?);
            }
            ("--always", _) => {
                self.always.push(directory(value)?);
                self.allow(directory(value)?);
            }
            ("--alias", Some(alias)) => {
                let (alias, path) =
                    alias.split_once('=').ok_or("option --alias requires PATH=DIR")?;
                self.aliases.push((alias.to_owned(), directory(path.as_ref())?));
            }
            ("--protect", Some(name)) => {
                self.builder = builder().protect(name);
            }
            ("--deny", Some(name)) => self.builder = builder().deny(name),
            ("--exempt", _) => self.builder = builder().exempt(value),
            ("--refuse", Some("hard-links")) => self.builder = builder().refuse_hard_links(),
            ("--refuse", Some("mounts")) => self.builder = builder().refuse_mounts(),
            ("--allow", Some("special")) => self.builder = builder().allow_special_files(),
            ("--list", Some(uri)) => self.list.push(uri.to_owned()),
            ("--empty", Some("deny")) => self.allows_empty = false,
            ("--empty", Some("allow")) => self.allows_empty = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn allow(&mut self, directory: PathBuf) {
        if !self.directories.contains(&directory) {
            self.directories.push(directory);
        }
    }

    /// Returns the allowed directories, or the roots in force for the client's list if there is
    /// one.
    pub(crate) fn roots(self) -> Result<Roots, String> {
        if self.directories.is_empty() {
            return Err("at least one --root is required".into());
        }
        if self.lists_none && !self.list.is_empty() {
            return Err("--list and --list-none are mutually exclusive".into());
        }
        let unknown = self.aliases.iter().find(|(_, path)| !self.directories.contains(path));
        if let Some((alias, path)) = unknown {
            let path = path.display();
            return Err(format!("--alias {alias}={path}: not one of the allowed directories"));
        }
        let mut boundary = self.builder;
        for path in &self.directories {
            let is_read_only = self.read_only.contains(path);
            let access = if is_read_only { Access::ReadOnly } else { Access::ReadWrite };
            let mut options = DirectoryOptions::from(access);
            if self.always.contains(path) {
                options = options.always();
            }
            for (alias, _) in self.aliases.iter().filter(|(_, directory)| directory == path) {
                options = options.alias(alias);
            }
            boundary = boundary.directory(path, options);
        }
        let boundary = boundary.build().map_err(|error| error.to_string())?;
        if self.list.is_empty() && (self.allows_empty || !self.lists_none) {
            return Ok(boundary.allowed_roots());
        }
        boundary
            .narrow(&ListRootsResult::from_uris(self.list).roots)
            .map_err(|error| error.to_string())
    }
}

/// Parses a directory or a URI, and makes it absolute. A value that is not valid UTF-8 can only be
/// a path, because a URI is always UTF-8.
fn directory(value: &OsStr) -> Result<PathBuf, String> {
    let location = value.to_str().map_or_else(|| Location::try_from(value), Location::parse);
    let location = location.map_err(|error| error.to_string())?;
    std::path::absolute(location.as_unchecked_path()).map_err(|error| error.to_string())
}
