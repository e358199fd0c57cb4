//! File trees from text, in a fresh temporary directory.
//!
//! One thing a line (or between semicolons): `dir PATH`, `file PATH [= CONTENT]`, `link PATH -> TARGET`, `hard PATH = EXISTING`,
//! `fifo PATH`, `socket PATH`. Parents are made as needed; a file without content holds its own path; `$T` stands for the top directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mcp_roots_guard::Roots;

/// A directory with a tree in it, removed when dropped.
pub(crate) struct Tree {
    _keep: tempfile::TempDir,
    top: PathBuf,
}

impl Tree {
    /// Builds the tree.
    pub(crate) fn new(text: &str) -> Self {
        Self::beneath(&std::env::temp_dir(), text)
    }

    /// Builds it in memory where there is a memory file system: for many files.
    pub(crate) fn in_memory(text: &str) -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::beneath(memory, text) } else { Self::new(text) }
    }

    fn beneath(directory: &Path, text: &str) -> Self {
        let keep = tempfile::Builder::new().prefix("guard-").tempdir_in(directory).unwrap();
        let tree = Self { top: keep.path().canonicalize().unwrap(), _keep: keep };
        tree.add(text);
        tree
    }

    /// Adds to it.
    pub(crate) fn add(&self, text: &str) {
        for line in text.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()) {
            self.add_line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    fn add_line(&self, line: &str) -> std::io::Result<()> {
        let (kind, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}: no path"));
        let at = |path: &str| self.top.join(path.trim());
        let made = |path: &str| {
            let path = at(path);
            fs::create_dir_all(path.parent().unwrap()).map(|()| path)
        };
        match kind {
            "dir" => fs::create_dir_all(at(rest)),
            "file" => {
                let (path, content) = rest.split_once('=').unwrap_or((rest, rest));
                fs::write(made(path)?, content.trim())
            }
            "link" => {
                let (path, target) = rest.split_once("->").expect("link PATH -> TARGET");
                symlink(self.expand(target.trim()), made(path)?)
            }
            "hard" => {
                let (path, existing) = rest.split_once('=').expect("hard PATH = EXISTING");
                fs::hard_link(at(existing), made(path)?)
            }
            "fifo" => {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                Ok(mknodat(CWD, made(rest)?, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
            }
            "socket" => std::os::unix::net::UnixListener::bind(made(rest)?).map(drop),
            _ => panic!("{line}: unknown kind"),
        }
    }

    /// The absolute path of something in the tree.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.top.join(path)
    }

    /// `$T` replaced by the top directory.
    pub(crate) fn expand(&self, text: &str) -> String {
        text.replace("$T", self.top.to_str().unwrap())
    }

    /// Directories of the tree as roots.
    pub(crate) fn roots<const N: usize>(&self, directories: [&str; N]) -> Roots {
        Roots::from_dirs(directories.map(|directory| self.path(directory))).unwrap()
    }

    /// Everything in the tree below a path, one line each, with content: to see that nothing changed.
    pub(crate) fn snapshot(&self, path: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut todo = vec![self.path(path)];
        while let Some(path) = todo.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let what = match metadata.file_type() {
                t if t.is_dir() => {
                    todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                    "dir".into()
                }
                t if t.is_file() => format!("file {:?}", fs::read(&path).unwrap()),
                t if t.is_symlink() => format!("link {}", fs::read_link(&path).unwrap().display()),
                t => format!("{t:?}"),
            };
            lines.push(format!("{}: {what}", path.display()));
        }
        lines.sort();
        lines
    }
}
