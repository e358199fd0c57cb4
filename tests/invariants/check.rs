//! Deciding a request.
//!
//! Goes in: a small tree and requests, as text in which any byte means something:
//!
//! ```text
//! 0                 the roots: r; r and o/a; r and r/a; r/a
//! dr/b  fr/b/c      a directory; a file
//! lr/a>T/o/../r     a link and its target
//! nXtarget          links r/n0 to r/n1 and so on, as many as X % 48, the last to the target
//! ?a/../b           a request: relative to the first root, or absolute
//! ```
//!
//! Paths are of the letters `a b c n 0 r o . /`, and `T` for the directory around it all. What is proven: what `std`
//! canonicalizes to a place inside a root is allowed and found just there, unless the way leaves the roots (DESIGN
//! decision 7); what leads or passes outside is refused as outside; what the kernel can not find is refused for the
//! kernel's reason, the 41st link among them. What is opened is what was checked, and what may be made has its parent
//! inside.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use mcp_roots_guard::{CheckedPath, Error, ErrorKind, Intent, LINK_HOPS, Roots};

/// All of it.
pub(crate) fn hold(bytes: &[u8]) {
    let Ok(keep) = directory() else { return };
    let top = keep.path().canonicalize().unwrap();
    let [r, ra, oa] = ["r", "r/a", "o/a"].map(|path| top.join(path));
    for directory in [&ra, &oa] {
        fs::create_dir_all(directory).unwrap();
    }
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let roots = match lines.next().and_then(<[u8]>::first).map_or(0, |byte| byte % 4) {
        0 => vec![r],
        1 => vec![r, oa],
        2 => vec![r, ra],
        _ => vec![ra],
    };
    let guard = Roots::from_dirs(&roots).unwrap();
    let world = World { top, roots, guard };
    for line in lines.take(LINES) {
        match line.split_first().map(|(kind, rest)| (kind, rest.get(..LINE_BYTES).unwrap_or(rest))) {
            None => {}
            Some((b'd' | b'f' | b'l' | b'n', _)) => world.add(line),
            Some((_, request)) => world.ask(&world.text(request)),
        }
    }
}

struct World {
    top: PathBuf,
    roots: Vec<PathBuf>,
    guard: Roots,
}

impl World {
    /// Adds to the tree, as far as it can be done; nothing is made outside the top directory.
    fn add(&self, line: &[u8]) {
        let mut fields = line.get(1..).unwrap_or_default().splitn(2, |&byte| byte == b'>');
        let (path, target) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let _ = match line.first() {
            Some(b'n') => {
                let (&count, target) = path.split_first().unwrap_or((&0, &[]));
                let last = usize::from(count % 48);
                let target = |link| if link == last { self.text(target) } else { format!("n{link}") };
                (1..=last).try_for_each(|link| symlink(target(link), self.top.join(format!("r/n{}", link - 1))))
            }
            Some(b'd') => self.place(path).map_or(Ok(()), fs::create_dir),
            Some(b'f') => self.place(path).map_or(Ok(()), |path| fs::write(path, "content")),
            _ => self.place(path).map_or(Ok(()), |path| symlink(self.text(target), path)),
        };
    }

    /// Where an entry is made: parents are made, too, and none of them may lead out. Nothing is replaced.
    fn place(&self, path: &[u8]) -> Option<PathBuf> {
        let path = PathBuf::from(self.text(path));
        let mut names = path.components().filter(|name| matches!(name, Component::Normal(_))).peekable();
        let mut place = self.top.clone();
        while let Some(name) = names.next() {
            place.push(name);
            if names.peek().is_some() {
                let _ = fs::create_dir(&place);
                place = place.canonicalize().ok().filter(|place| place.starts_with(&self.top))?;
            }
        }
        place.symlink_metadata().is_err().then_some(place)
    }

    /// A path as the line means it.
    fn text(&self, bytes: &[u8]) -> String {
        let top = self.top.to_str().unwrap();
        let letter = |&byte: &u8| match byte {
            b'T' => top.to_owned(),
            byte if LETTERS.contains(&byte) => char::from(byte).to_string(),
            byte => char::from(LETTERS[usize::from(byte) % LETTERS.len()]).to_string(),
        };
        bytes.iter().map(letter).collect()
    }

    fn ask(&self, request: &str) {
        let start = if request.starts_with('/') { Path::new("/") } else { &self.roots[0] };
        let really = fs::canonicalize(format!("{}/{request}", start.display()));
        let expected = match really {
            _ if request.is_empty() => Err(ErrorKind::Empty),
            _ if self.leaves(start, request) => Err(ErrorKind::OutsideRoots),
            Ok(path) if self.inside(&path) => Ok(path),
            Ok(_) => Err(ErrorKind::OutsideRoots),
            Err(error) => Err(kind(&error)),
        };
        let checked = self.guard.check(request, Intent::Existing);
        let decided = checked.as_ref().map(CheckedPath::to_unguarded_path).map_err(Error::kind);
        assert_eq!(decided, expected, "{request:?} in {self}");

        let expected = expected.and_then(|path| if path.is_dir() { Err(ErrorKind::IsADirectory) } else { Ok(path) });
        let content = expected.map(|path| fs::read(path).unwrap());
        let read = self.guard.read(request, 1 << 10).map_err(|error| error.kind());
        assert_eq!(read, content, "reading {request:?} in {self}");

        for intent in [Intent::New, Intent::Entry] {
            if let Ok(made) = self.guard.check(request, intent) {
                let path = made.to_unguarded_path();
                let is_root = made.relative().as_os_str().is_empty();
                let parent = if is_root { path.as_path() } else { path.parent().unwrap() };
                let is_inside = self.inside(parent) && parent.canonicalize().is_ok_and(|real| real == parent);
                assert!(is_inside, "{intent:?} of {request:?} is {made:?} in {self}");
            }
        }
    }

    /// Whether the way leaves the roots: walked by hand, one name at a time, up to the first error.
    fn leaves(&self, start: &Path, request: &str) -> bool {
        let mut at = start.to_owned();
        let mut todo: VecDeque<String> = request.split('/').map(Into::into).collect();
        let mut hops = 0;
        while let Some(name) = todo.pop_front() {
            if !at.is_dir() {
                return false;
            }
            match name.as_str() {
                "" | "." => continue,
                ".." => drop(at.pop()),
                _ if !self.inside(&at) => at.push(name),
                _ => match at.join(&name).symlink_metadata() {
                    Err(_) => return false,
                    Ok(metadata) if metadata.is_symlink() => {
                        hops += 1;
                        let target = fs::read_link(at.join(&name)).unwrap();
                        let target = target.to_str().unwrap();
                        if hops > LINK_HOPS {
                            return false;
                        }
                        if target.starts_with('/') {
                            at = "/".into();
                        }
                        target.split('/').rev().for_each(|name| todo.push_front(name.into()));
                    }
                    Ok(_) => at.push(name),
                },
            }
            if !self.inside(&at) && !self.roots.iter().any(|root| root.starts_with(&at)) {
                return true;
            }
        }
        false
    }

    fn inside(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}

/// The tree and the roots, as far as they can be told in a line.
impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut todo = vec![self.top.clone()];
        write!(f, "{:?}:", self.roots)?;
        while let Some(path) = todo.pop() {
            match fs::read_link(&path) {
                Ok(target) => write!(f, " {} -> {};", path.display(), target.display())?,
                Err(_) if path.is_dir() => todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path())),
                Err(_) => write!(f, " {};", path.display())?,
            }
        }
        Ok(())
    }
}

/// In memory where that can be had: a tree is made for each input.
fn directory() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("guard-").tempdir_in(place)
}

fn kind(error: &std::io::Error) -> ErrorKind {
    match error.raw_os_error() {
        Some(2) => ErrorKind::NotFound,
        Some(20) => ErrorKind::NotADirectory,
        Some(40) => ErrorKind::TooManyLinks,
        _ => ErrorKind::Io,
    }
}

const LETTERS: &[u8] = b"abcn0ro./";
const LINES: usize = 32;
const LINE_BYTES: usize = 48;
