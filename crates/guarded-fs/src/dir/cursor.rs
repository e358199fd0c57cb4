//! Repeated look-ups beneath a directory: [`Cursor`].

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf, is_separator};

#[cfg(target_os = "linux")]
use super::kernel;
use super::{Budget, Handle, Rule, Stat, split};
use crate::error::{Code, Result};
use crate::limits::CURSOR_HANDLES;
#[cfg(target_os = "linux")]
use crate::limits::PATH_BYTES;

/// Keeps the last few directories on the path of the previous look-up open, so that a look-up near
/// it does not walk the whole path again.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The path of the directory that was opened last.
    path: PathBuf,
    /// The open directories on that path, deepest last, each with the length of its path in bytes.
    open_dirs: VecDeque<(usize, Handle)>,
}

impl Cursor {
    /// Describes the name at `path` beneath `base`. All its names are plain, and known to be
    /// directories except the last.
    pub(crate) fn look(
        &mut self,
        base: &Handle,
        path: &Path,
        mounts: Rule,
        budget: &mut Budget<'_>,
    ) -> Result<Stat> {
        budget.spend(1)?;
        // The kernel would refuse a later operation on the whole path with ENAMETOOLONG
        // (openat2(2)).
        #[cfg(target_os = "linux")]
        if path.as_os_str().len() >= PATH_BYTES
            && kernel::dir(&base.dir, Path::new(""), mounts).is_some()
        {
            return Err(Code::TooLong.into());
        }
        let Some((parent, name)) = split(path) else { return Ok(Stat::Other(base.metadata()?)) };
        match self.open_dir(base, parent, mounts, budget) {
            Err(error) if error.reason() == Code::NotFound => Ok(Stat::Missing),
            directory => directory?.look_in(name, mounts),
        }
    }

    fn open_dir<'a>(
        &'a mut self,
        base: &'a Handle,
        path: &Path,
        mounts: Rule,
        budget: &mut Budget<'_>,
    ) -> Result<&'a Handle> {
        let (length, from, rest) = self.nearest_open(base, path);
        if !rest.as_os_str().is_empty() {
            let opened = from.dir_within_budget(&rest, mounts, budget)?;
            self.hold(length, path, opened);
        }
        Ok(self.open_dirs.back().map_or(base, |(_, directory)| directory))
    }

    /// Closes the directories that are not on the way to `path`. Returns the nearest one, with the
    /// length of its path, and the rest of `path` beneath it.
    fn nearest_open<'a, 'p>(
        &'a mut self,
        base: &'a Handle,
        path: &'p Path,
    ) -> (usize, &'a Handle, Cow<'p, Path>) {
        let (last, next) =
            (self.path.as_os_str().as_encoded_bytes(), path.as_os_str().as_encoded_bytes());
        let common = common_length(last, next);
        let is_on_the_way = |length: usize| {
            length <= common && next.get(length).is_none_or(|byte| is_separator(char::from(*byte)))
        };
        while self.open_dirs.back().is_some_and(|(length, _)| !is_on_the_way(*length)) {
            self.open_dirs.pop_back();
        }
        let (length, from) =
            self.open_dirs.back().map_or((0, base), |(length, directory)| (*length, directory));
        if length == 0 {
            return (length, from, Cow::Borrowed(path));
        }
        // Each remaining name is preceded by one separator.
        let names = count_separators(next.get(length..).unwrap_or_default());
        let names: Vec<&OsStr> = path.iter().rev().take(names).collect();
        (length, from, Cow::Owned(names.into_iter().rev().collect()))
    }

    /// Keeps a directory open, and closes the shallowest if [`CURSOR_HANDLES`] already are. `from`
    /// is the length of the path of the directory that it was opened from.
    fn hold(&mut self, from: usize, path: &Path, directory: Handle) {
        debug_assert!(
            from < path.as_os_str().len(),
            "the directory must be below the one that it was opened from"
        );
        if self.open_dirs.len() == CURSOR_HANDLES {
            self.open_dirs.pop_front();
        }
        self.open_dirs.push_back((path.as_os_str().len(), directory));
        self.path.clear();
        self.path.push(path);
    }
}

/// Counts in blocks that fit in a `u8`, so the compiler can vectorize the loop.
fn count_separators(path: &[u8]) -> usize {
    let in_block = |block: &[u8]| {
        block.iter().map(|byte| u8::from(is_separator(char::from(*byte)))).sum::<u8>()
    };
    path.chunks(usize::from(u8::MAX)).map(|block| usize::from(in_block(block))).sum()
}

fn common_length(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let blocks = one
        .chunks_exact(BLOCK)
        .zip(other.chunks_exact(BLOCK))
        .take_while(|(one, other)| one == other);
    let equal = BLOCK * blocks.count();
    let (one, other) = (one.iter().skip(equal), other.iter().skip(equal));
    equal + one.zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::limits::NAMES_PER_LOOKUP;

    #[test]
    fn look_up_costs_the_walk_from_the_nearest_open_directory() {
        let directory = tempfile::tempdir().unwrap();
        let deep = PathBuf::from("d/".repeat(160));
        std::fs::create_dir_all(directory.path().join(&deep)).unwrap();
        let handle = Handle::ambient(directory.path()).unwrap();
        let (mut cursor, mut budget) = (Cursor::default(), Budget::new());
        let mut cost = |path: &Path| {
            let before = budget.spent();
            assert!(matches!(
                cursor.look(&handle, path, Rule::Allow, &mut budget),
                Ok(Stat::Missing)
            ));
            assert!(cursor.open_dirs.len() <= CURSOR_HANDLES);
            budget.spent() - before
        };
        let walked = |names: usize| 1 + names / NAMES_PER_LOOKUP;
        assert_eq!(cost(&deep.join("none")), walked(160));
        assert_eq!(cost(&deep.join("none")), 1);
        assert_eq!(cost(&deep.parent().unwrap().join("none")), walked(159));
        assert_eq!(cost(&deep.join("none")), walked(1));
        let ancestors: Vec<_> = deep.ancestors().collect();
        let names = |up: usize| ancestors[up].join("none");
        assert_eq!(
            (cost(&names(100)), cost(&names(101)), cost(&names(99))),
            (walked(60), walked(59), walked(2))
        );
        assert_eq!(cost(Path::new("none")), 1);
    }
}
