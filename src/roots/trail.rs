//! The directories that contain the symlinks on the path to a root, with their ancestors.
//!
//! A root is not granted through a symlink that a tool could have created. Each directory on the
//! trail is therefore compared with all directories that were ever granted, by identity and by
//! canonical path. Paths are stored as hashes, because they are only compared. A hash collision
//! (one in 2^64, with random keys for each process) can only cause the refusal of a root that could
//! otherwise be granted.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::LazyLock;

use crate::dir::Identity;
use crate::path::names::{components, key};

/// The directories on the trail, without duplicates.
pub(crate) type Trail = Vec<TrailEntry>;

/// A directory that contains a symlink that was followed, or an ancestor of such a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrailEntry {
    /// The hash of its canonical path.
    pub(crate) path: PathHash,
    /// `None` if the directory was not looked up, for example because it is an ancestor of the
    /// enclosing root.
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

/// The hashes of an absolute path's ancestors and of the path itself, starting at the filesystem
/// root.
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
    fn path_hash_identifies_the_names_of_a_path() {
        let hashes = |path: &str| path_hashes(Path::new(path)).collect::<Vec<_>>();
        assert_eq!(hashes("/a/b").len(), 3);
        assert_eq!(hashes("/a/b")[..2], hashes("/a/c")[..2]);
        assert_ne!(hashes("/a/b")[2], hashes("/a/c")[2]);
        assert_ne!(PathHash::of(Path::new("/ab/c")), PathHash::of(Path::new("/a/bc")));
        assert_eq!(PathHash::of(Path::new("/a//b/")), hashes("/a/b")[2]);
        assert_eq!(PathHash::of(Path::new("/")), hashes("/")[0]);
    }
}
