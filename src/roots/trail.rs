//! The directories that a path to a root passed before it followed symlinks.
//!
//! A root is not granted through a symlink that a tool could have created. So each directory on the
//! trail is compared with all that were ever granted, by identity and by canonical path. A path is
//! stored as a hash, because it is only compared. A collision (one in 2^64, with keys drawn by this
//! process) refuses a root that could have been granted.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::LazyLock;

use crate::dir::Identity;
use crate::path::names::{components, key};

/// The directories on the path, each once.
pub(crate) type Trail = Vec<TrailEntry>;

/// A directory that contains a symlink which was followed, or an ancestor of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrailEntry {
    /// The hash of its canonical path.
    pub(crate) path: PathHash,
    /// `None` above the root, where nothing is looked up.
    pub(crate) identity: Option<Identity>,
}

/// The hash of a canonical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathHash(pub(crate) u64);

impl PathHash {
    pub(crate) fn of(path: &Path) -> Self {
        path_hashes(path).fold(Self(0), |_, longer| longer)
    }
}

/// The hashes of an absolute path's ancestors and of the path itself, from the filesystem root on.
pub(crate) fn path_hashes(path: &Path) -> impl Iterator<Item = PathHash> {
    let mut hasher = KEYS.build_hasher();
    let root = PathHash(hasher.finish());
    let below = components(path.as_os_str()).map(move |(name, _)| {
        key(name).hash(&mut hasher);
        PathHash(hasher.finish())
    });
    std::iter::once(root).chain(below)
}

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_stands_for_the_names_of_a_path() {
        let hashes = |path: &str| path_hashes(Path::new(path)).collect::<Vec<_>>();
        assert_eq!(hashes("/a/b").len(), 3);
        assert_eq!(hashes("/a/b")[..2], hashes("/a/c")[..2]);
        assert_ne!(hashes("/a/b")[2], hashes("/a/c")[2]);
        assert_ne!(PathHash::of(Path::new("/ab/c")), PathHash::of(Path::new("/a/bc")));
        assert_eq!(PathHash::of(Path::new("/a//b/")), hashes("/a/b")[2]);
        assert_eq!(PathHash::of(Path::new("/")), hashes("/")[0]);
    }
}
