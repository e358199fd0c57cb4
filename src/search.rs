//! Where the entries of a root list lead.
//!
//! Goes in: one entry after the other, and the roots around them: the operator's, or `/`. Comes out: the places that an entry names,
//! opened, each with the links on the way; not yet granted. What is true after: nothing outside the roots around was looked at, and a
//! list took no more work and time than its bounds.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use path_clean::PathClean as _;

use crate::beneath::{Cursor, Look};
use crate::due::Turns;
use crate::error::{ErrorKind, Result};
use crate::granted::Candidate;
use crate::handles::Opened;
use crate::location::Location;
use crate::metadata::FileType;
use crate::names::{components, ends_as_directory, is_absolute};
use crate::policy::{Access, Whose};
use crate::resolve::{Intent, Place, resolve};
use crate::roots::{Held, Questions, Root, Roots, Trail, directory};

/// One entry of a list, before it is resolved.
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) location: Result<Location>,
    pub(crate) name: Option<String>,
    /// The operator's word; a client's entry has what the directory around it has.
    pub(crate) access: Option<Access>,
}

/// The search for the places of one list.
pub(crate) struct Search<'a> {
    around: &'a Roots,
    whose: Whose,
    /// Names that were walked so far.
    names: usize,
    effort: &'a Effort,
}

/// How long a list may be resolved: until a time, or until nobody waits for it any more.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    until: Instant,
    given_up: Arc<AtomicBool>,
}

impl Default for Effort {
    fn default() -> Self {
        Self::new(None, Arc::default())
    }
}

impl Effort {
    /// At most [`LIST_TIME`], and until `given_up` is set.
    pub(crate) fn new(until: Option<Instant>, given_up: Arc<AtomicBool>) -> Self {
        let longest = Instant::now() + LIST_TIME;
        Self { until: until.map_or(longest, |until| until.min(longest)), given_up }
    }

    /// Whether it is over: what is left undone then is [`TooCostly`](ErrorKind::TooCostly).
    pub(crate) fn is_spent(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

impl<'a> Search<'a> {
    pub(crate) fn new(around: &'a Roots, whose: Whose, effort: &'a Effort) -> Self {
        Self { around, whose, names: 0, effort }
    }

    /// The places that an entry names beneath `around`: one, or the roots that it is an ancestor of.
    pub(crate) fn find(&mut self, entry: &Entry) -> Result<Vec<Candidate>> {
        let around = self.around;
        let location = match &entry.location {
            Ok(location) => location.as_os_str(),
            Err(error) => return Err(error.kind().into()),
        };
        if !is_absolute(location) {
            return Err(ErrorKind::NotAbsolute.into());
        }
        // On Windows its volume may not be there: a disk that is not plugged in.
        if self.whose == Whose::Operator && around.spellings().begin(location).is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        if self.names > LIST_NAMES || self.effort.is_spent() {
            return Err(ErrorKind::TooCostly.into());
        }
        let as_listed = |mut root: Root, walked: usize| {
            root.access = entry.access.unwrap_or(root.access);
            root.name.clone_from(&entry.name);
            if walked <= GIVEN_NAMES {
                let given = given(Path::new(location), &root.canonical).filter(|given| !root.given.contains(given));
                root.given.extend(given);
            }
            root
        };
        if let Some(found) = self.find_plain(location) {
            let names = components(location).count();
            return Ok(vec![Candidate { root: as_listed(found?, names * names / 2), trail: Trail::new() }]);
        }
        let mut questions = Questions::new(around);
        let place = resolve(&mut questions, around.spellings(), None, location, Intent::Existing);
        let walked = questions.names;
        let trail = questions.into_trail();
        // What a trail keeps is memory until the list is judged.
        self.names += walked + TRAIL_COST * trail.iter().map(|link| link.identities.len()).sum::<usize>();
        match place? {
            Place::Inside { root, path, .. } => {
                let root = as_listed(self.open(around.root(root)?, &path)?, walked);
                Ok(vec![Candidate { root, trail }])
            }
            // A link that a tool made can lead up, too.
            Place::Above(node) => {
                let roots = around.spellings().beneath(node);
                self.names += ROOT_COST * roots.len();
                let name = if roots.len() == 1 { &entry.name } else { &None };
                let copy = |number: usize| {
                    let outer = around.root(number)?;
                    let mut root = self.open(outer, Path::new(""))?;
                    root.name.clone_from(name);
                    root.given.clone_from(&outer.given);
                    Ok(Candidate { root, trail: trail.clone() })
                };
                roots.into_iter().map(copy).collect()
            }
        }
    }

    /// What an entry of plain names leads to, if there is no link on the way: one question, however deep it is. None where it has to
    /// be walked.
    fn find_plain(&mut self, location: &OsStr) -> Option<Result<Root>> {
        let (number, rest) = self.around.spellings().begin(location)?;
        let outer = self.around.root(number).ok()?;
        if outer.is_file() || components(rest).any(|(name, _)| name == "..") {
            return None;
        }
        let path: PathBuf = components(rest).map(|(name, _)| name).filter(|name| *name != ".").collect();
        self.names += path.iter().count();
        let ends_as_directory = ends_as_directory(rest) || components(rest).last().is_some_and(|(name, _)| name == ".");
        match self.open(outer, &path) {
            Err(error) if error.kind() == ErrorKind::Changed => None,
            Ok(root) if root.is_file() && ends_as_directory => Some(Err(ErrorKind::NotADirectory.into())),
            found => Some(found),
        }
    }

    /// Makes a root of the place at `path` in `outer`.
    fn open(&self, outer: &Root, path: &Path) -> Result<Root> {
        let (handle, mounts) = (outer.handle()?, self.around.policy().mounts);
        let place = outer.beneath_handle(path);
        let (handle, leaf) = match handle.dir(&place, mounts) {
            Ok(directory) if outer.leaf.is_none() => (directory, None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                let (parent, leaf) = crate::beneath::split(&place).ok_or(ErrorKind::NotADirectory)?;
                match handle.look(&place, mounts, &mut Cursor::default())? {
                    Look::Other(metadata) if metadata.file_type() == FileType::File => {}
                    Look::Other(_) => return Err(ErrorKind::SpecialFile.into()),
                    _ => return Err(ErrorKind::Changed.into()),
                }
                (handle.dir(parent, mounts)?, Some(leaf.to_owned()))
            }
            // A file root that has become a directory.
            Ok(_) => return Err(ErrorKind::RootUnavailable.into()),
            Err(error) => return Err(error),
        };
        let canonical = if path.as_os_str().is_empty() { outer.canonical.clone() } else { outer.canonical.join(path) };
        let identity = handle.metadata()?.identity();
        let around = self.around.clone();
        let held = match Opened::hold(handle, directory(&canonical, leaf.is_some()), identity, self.whose) {
            Some(opened) => Held::Open(opened, around),
            None => Held::OnUse(around),
        };
        let (gone, given_verified) = (AtomicBool::new(false), Turns::new());
        let given = aliases(&canonical);
        Ok(Root {
            canonical,
            given,
            name: None,
            access: outer.access,
            leaf,
            held,
            identity,
            gone,
            one_is_gone: Arc::default(),
            given_verified,
        })
    }
}

/// The spelling as it was given, cleaned of `//`, `.` and a trailing slash, where it is another than the canonical path. With a `..`
/// it names no fixed place, and gives none.
fn given(path: &Path, canonical: &Path) -> Option<PathBuf> {
    if path.components().any(|component| component == Component::ParentDir) {
        return None;
    }
    Some(path.clean()).filter(|cleaned| cleaned != canonical)
}

/// The paths that macOS itself has for a place besides, by links that are read once.
#[cfg(target_vendor = "apple")]
fn aliases(canonical: &Path) -> Vec<PathBuf> {
    use crate::names::apple;
    static LINKS: std::sync::LazyLock<Vec<(PathBuf, PathBuf)>> = std::sync::LazyLock::new(|| {
        let read = |link: &str| Some((link.into(), Path::new("/").join(std::fs::read_link(link).ok()?)));
        apple::LINKS.into_iter().filter_map(read).collect()
    });
    apple::aliases(canonical, &LINKS)
}

#[cfg(not(target_vendor = "apple"))]
fn aliases(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}

/// A spelling that takes more names to walk than a path of 200 is not kept: it would be walked again to verify it.
const GIVEN_NAMES: usize = 20_000;

/// The most names walked to resolve one list. Ten thousand entries of 20 plain names need a hundredth of it.
const LIST_NAMES: usize = 20_000_000;

/// The longest that a list is resolved, where a name costs more than a kernel's step; a hundred times what 10,000 entries need.
const LIST_TIME: Duration = Duration::from_secs(30);

/// What a directory on the trail of links costs, in names: memory of some ten bytes each, kept until the list is judged.
const TRAIL_COST: usize = 10;

/// What it costs to open a root, in names.
const ROOT_COST: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_looked_up_while_somebody_waits() {
        let directory = tempfile::tempdir().unwrap();
        let around = Roots::from_dirs([directory.path()]).unwrap();
        let location = || Location::from_path(directory.path());
        let entry = || Entry { text: String::new(), location: location(), name: None, access: None };
        let given_up = Arc::new(AtomicBool::new(false));
        let (waited_for, late) =
            (Effort::new(None, given_up.clone()), Effort::new(Some(Instant::now()), Arc::default()));
        let find = |effort: &Effort| {
            let found = Search::new(&around, Whose::Client, effort).find(&entry());
            found.map(|found| found.len()).map_err(|error| error.kind())
        };
        assert_eq!((find(&waited_for), find(&late)), (Ok(1), Err(ErrorKind::TooCostly)));
        given_up.store(true, Ordering::Relaxed);
        assert_eq!(find(&waited_for), Err(ErrorKind::TooCostly));
    }
}
