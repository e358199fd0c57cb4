//! A small tree and its roots, built from text. Every byte sequence is valid text.
//!
//! ```text
//! 0                 the first line selects the roots: r; r and o/a; r and r/a; r/a
//! dr/b  fr/b/c      a directory; a file
//! pr/b              a FIFO
//! hr/b>r/c          a hard link to a file inside the roots
//! lr/a>T/o/../r     a symlink and its target
//! nXtarget          X % 48 chained symlinks r/n0, r/n1, ...; the last one points to the target
//! ```
//!
//! Paths consist of the letters `a b c n 0 r o . /`, and of `T`, which stands for the directory
//! that contains the tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use mcp_roots_guard::Roots;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::model::Name;

pub(crate) struct World {
    _keep: tempfile::TempDir,
    pub(crate) top: PathBuf,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) guard: Roots,
}

impl World {
    /// Creates the directories `r/a` and `o/a`, and the roots that the first line selects.
    pub(crate) fn new(line: &[u8]) -> Self {
        // Use an in-memory filesystem if there is one, because each input builds a tree.
        let made = |place: &Path| tempfile::Builder::new().prefix("guard-").tempdir_in(place);
        let keep = made(Path::new("/dev/shm")).or_else(|_| made(&std::env::temp_dir())).unwrap();
        let top = keep.path().canonicalize().unwrap();
        let [r, ra, oa] = ["r", "r/a", "o/a"].map(|path| top.join(path));
        for directory in [&ra, &oa] {
            fs::create_dir_all(directory).unwrap();
        }
        let roots = match line.first().map_or(0, |byte| byte % 4) {
            0 => vec![r],
            1 => vec![r, oa],
            2 => vec![r, ra],
            _ => vec![ra],
        };
        let guard = Roots::from_dirs(&roots).unwrap();
        Self { _keep: keep, top, roots, guard }
    }

    /// Adds the entry that a line describes to the part of the tree below `within`. An entry that
    /// cannot be created is ignored, and nothing is replaced. Returns false if the line describes
    /// no entry.
    pub(crate) fn add(&self, line: &[u8], within: &Path) -> bool {
        let mut fields = line.get(1..).unwrap_or_default().splitn(2, |&byte| byte == b'>');
        let (path, target) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let place = || self.place(path, within);
        let done = match line.first() {
            Some(b'n') => {
                let (&count, target) = path.split_first().unwrap_or((&0, &[]));
                let last = usize::from(count % 48);
                let target =
                    |link| if link == last { self.text(target) } else { format!("n{link}") };
                (1..=last).try_for_each(|link| {
                    symlink(target(link), self.top.join(format!("r/n{}", link - 1)))
                })
            }
            Some(b'd') => place().map_or(Ok(()), fs::create_dir),
            Some(b'f') => place().map_or(Ok(()), |path| fs::write(path, "content")),
            Some(b'l') => place().map_or(Ok(()), |path| symlink(self.text(target), path)),
            Some(b'p') => place().map_or(Ok(()), |path| {
                Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
            }),
            Some(b'h') => {
                let existing =
                    self.top.join(self.text(target).trim_start_matches('/')).canonicalize().ok();
                let existing = existing.filter(|existing| self.is_inside(existing));
                place()
                    .zip(existing)
                    .map_or(Ok(()), |(path, existing)| fs::hard_link(existing, path))
            }
            _ => return false,
        };
        // An entry that could not be created is ignored.
        drop(done);
        true
    }

    /// Returns the path below `within` at which to create an entry, after creating missing parents.
    /// Returns `None` if an entry already exists there, or if a parent cannot be created or
    /// resolves to a place outside the tree.
    fn place(&self, path: &[u8], within: &Path) -> Option<PathBuf> {
        let path = PathBuf::from(self.text(path));
        let mut names =
            path.components().filter(|name| matches!(name, Component::Normal(_))).peekable();
        let mut place = self.top.clone();
        while let Some(name) = names.next() {
            place.push(name);
            if names.peek().is_some() {
                if place.starts_with(within) {
                    let _ = fs::create_dir(&place);
                }
                place = place.canonicalize().ok().filter(|place| place.starts_with(&self.top))?;
            }
        }
        (place.starts_with(within) && place.symlink_metadata().is_err()).then_some(place)
    }

    /// Decodes a path from the bytes of a line.
    pub(crate) fn text(&self, bytes: &[u8]) -> String {
        let top = self.top.to_str().unwrap();
        let letter = |&byte: &u8| match byte {
            b'T' => top.to_owned(),
            byte if LETTERS.contains(&byte) => char::from(byte).to_string(),
            byte => char::from(LETTERS[usize::from(byte) % LETTERS.len()]).to_string(),
        };
        bytes.iter().map(letter).collect()
    }

    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// The type of the entry at a path. A symlink is not followed.
    pub(crate) fn look(path: &Path) -> Name {
        match path.symlink_metadata() {
            Err(_) => Name::Missing,
            Ok(metadata) if metadata.is_symlink() => {
                Name::Link(fs::read_link(path).unwrap().to_str().unwrap().into())
            }
            Ok(metadata) if metadata.is_dir() => Name::Directory,
            Ok(_) => Name::Other,
        }
    }
}

/// Shows the roots and the tree on one line.
impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut todo = vec![self.top.clone()];
        write!(f, "{:?}:", self.roots)?;
        while let Some(path) = todo.pop() {
            match Self::look(&path) {
                Name::Link(target) => write!(f, " {} -> {target};", path.display())?,
                Name::Directory => {
                    todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                }
                _ => write!(f, " {};", path.display())?,
            }
        }
        Ok(())
    }
}

/// The characters of paths.
const LETTERS: &[u8] = b"abcn0ro./";

/// The maximum number of lines, and the maximum length of a line. The rest of the input is ignored.
pub(crate) const LINES: usize = 32;
pub(crate) const LINE_BYTES: usize = 48;
