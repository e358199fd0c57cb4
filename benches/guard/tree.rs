//! The directory tree for the benchmarks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The number of names in a request beneath its root.
pub(crate) const DEPTHS: [usize; 3] = [2, 8, 16];

/// A root and a directory outside it, each with a file at each depth. Next to each file in the root
/// are two symlinks with absolute targets, one outside the root and one inside. The root also has a
/// symlink to the directory that contains all files.
pub(crate) struct Tree {
    _keep: TempDir,
    pub(crate) root: PathBuf,
    outside: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// Creates a tree in memory, if the system has the usual tmpfs. Other filesystems take most of
    /// the time to create a file, and a different time for each.
    pub(crate) fn in_memory() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn at(keep: TempDir) -> Self {
        let top = keep.path().canonicalize().unwrap();
        let tree = Self { _keep: keep, root: top.join("root"), outside: top.join("outside") };
        fs::create_dir(&tree.root).unwrap();
        symlink("directory1", tree.root.join("linked")).unwrap();
        for depth in DEPTHS {
            grow(&tree.root, depth);
            grow(&tree.outside, depth);
            symlink(tree.outside.join(names(depth)), tree.link_out(depth)).unwrap();
            symlink(tree.file(depth), tree.absolute_link(depth)).unwrap();
        }
        tree
    }

    pub(crate) fn file(&self, depth: usize) -> PathBuf {
        self.root.join(names(depth))
    }

    /// The path of the same file through a symlink with a relative target.
    pub(crate) fn linked(&self, depth: usize) -> PathBuf {
        let below = names(depth);
        self.root.join("linked").join(below.strip_prefix("directory1").unwrap())
    }

    pub(crate) fn missing(&self, depth: usize) -> PathBuf {
        self.file(depth).with_file_name("missing")
    }

    pub(crate) fn outside(&self, depth: usize) -> PathBuf {
        self.outside.join(names(depth))
    }

    /// A path that leaves the root with `..` after as many names as the other paths have.
    pub(crate) fn dots_out(&self, depth: usize) -> PathBuf {
        self.file(depth)
            .parent()
            .unwrap()
            .join("../".repeat(depth))
            .join("outside")
            .join(names(depth))
    }

    pub(crate) fn link_out(&self, depth: usize) -> PathBuf {
        self.file(depth).with_file_name("out")
    }

    pub(crate) fn absolute_link(&self, depth: usize) -> PathBuf {
        self.file(depth).with_file_name("back")
    }
}

/// Creates a file at a path of `depth` names beneath a directory.
pub(crate) fn grow(directory: &Path, depth: usize) {
    let path = directory.join(names(depth));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "content").unwrap();
}

/// A relative path of `depth` names. The last one is the name of the file.
pub(crate) fn names(depth: usize) -> PathBuf {
    (1..depth).map(|number| format!("directory{number}")).chain([format!("file{depth}")]).collect()
}
