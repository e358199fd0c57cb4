//! The files that are asked for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// How many names a request has below its root.
pub(crate) const DEPTHS: [usize; 3] = [2, 8, 16];

/// A root and a place outside, with a file at each depth, and beside each file in the root a link out and one that comes back.
pub(crate) struct Tree {
    _keep: TempDir,
    pub(crate) root: PathBuf,
    outside: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let keep = tempfile::tempdir().unwrap();
        let top = keep.path().canonicalize().unwrap();
        let tree = Self { _keep: keep, root: top.join("root"), outside: top.join("outside") };
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

    pub(crate) fn missing(&self, depth: usize) -> PathBuf {
        self.file(depth).with_file_name("missing")
    }

    pub(crate) fn outside(&self, depth: usize) -> PathBuf {
        self.outside.join(names(depth))
    }

    /// As deep in the root as the others, and then out of it.
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

/// Makes a file so many names below a directory.
pub(crate) fn grow(directory: &Path, depth: usize) {
    let path = directory.join(names(depth));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "content").unwrap();
}

/// So many names, the last a file's.
pub(crate) fn names(depth: usize) -> PathBuf {
    (1..depth).map(|number| format!("directory{number}")).chain([format!("file{depth}")]).collect()
}
