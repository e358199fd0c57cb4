//! The roots in force.
//!
//! Goes in: directories that were resolved, each with its names, an open handle and its identity. Comes out: [`Roots`], an immutable
//! snapshot against which everything is decided. What is true after: a root stays the directory object it was when it was resolved;
//! when its names no longer say so, and that was noticed, it is unavailable, and never silently something else.
//!
//! | the root's names | noticed | then |
//! | --- | --- | --- |
//! | still lead to the same object | | it serves |
//! | lead elsewhere or nowhere: replaced, removed, an ancestor renamed, a link re-pointed | when a snapshot is taken ([`Roots::verify`]), or when an operation fails (a link at most every [`VERIFY_EVERY`](crate::VERIFY_EVERY)) | [`RootUnavailable`](ErrorKind::RootUnavailable) until resolved again |

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use crate::beneath::{Cursor, Handle, Look, count_separators};
use crate::budget::Budget;
use crate::due::{Due, Start, Turns};
use crate::error::{Error, ErrorKind, Result};
use crate::events::SessionId;
use crate::handles::Opened;
use crate::metadata::Identity;
use crate::names::is_same;
use crate::policy::{Access, Policy, Rule};
use crate::resolve::{Found, Intent, Names, Place, Seen, resolve};
use crate::spellings::{GIVEN_NAMES, RootIs, Spellings};
use crate::trail::{OnTrail, Trail, path_hashes};
use crate::wire::{ListRootsResult, ROOT_LIST_ENTRIES};

/// One entry of a root list, resolved: a directory, or a single file.
pub struct Root {
    pub(crate) canonical: PathBuf,
    pub(crate) given: Vec<PathBuf>,
    pub(crate) name: Option<String>,
    pub(crate) access: Access,
    /// A file root is its parent's handle and this name.
    pub(crate) leaf: Option<OsString>,
    pub(crate) held: Held,
    /// Of the directory that is held, as of when it was resolved; and when that was created.
    pub(crate) identity: Identity,
    pub(crate) born: Option<SystemTime>,
    pub(crate) gone: AtomicBool,
    /// Its snapshot's.
    pub(crate) one_is_gone: Arc<AtomicBool>,
    /// When the given paths were last verified.
    pub(crate) given_verified: Turns,
}

/// How a root's directory is reached.
pub(crate) enum Held {
    /// The file system's own root, which nothing is around.
    Top(Arc<Handle>),
    /// Held open, for all roots that are this directory.
    Open(Arc<Opened>, Around),
    /// Opened when it is used, and then verified to be the one that was resolved.
    OnUse(Around),
}

/// The roots that a root was resolved beneath: the operator's, or `/`.
pub(crate) type Around = Roots;

impl Root {
    /// The canonical path, as the names stood when it was resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.canonical
    }

    /// The paths by which requests may name it: canonical, and as given where that differs and has no `..`.
    pub fn spellings(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.canonical.as_path()).chain(self.given.iter().map(PathBuf::as_path))
    }

    /// The canonical path as a `file:` URI.
    #[must_use]
    pub fn uri(&self) -> String {
        file_uri(&self.canonical)
    }

    /// The name that the root list gave it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What may be done beneath it.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether it is a single file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.leaf.is_some()
    }

    /// Whether its names still led to it when that was last verified.
    #[must_use]
    pub fn is_available(&self) -> bool {
        !self.gone.load(Ordering::Relaxed)
    }

    /// Whether it holds `/proc`, or lies in it.
    #[cfg(target_os = "linux")]
    pub(crate) fn meets_proc(&self) -> bool {
        match self.canonical.as_os_str().as_encoded_bytes() {
            b"/" | b"/proc" => true,
            path => path.starts_with(b"/proc/"),
        }
    }

    pub(crate) fn is_top(&self) -> bool {
        matches!(self.held, Held::Top(_))
    }

    /// The directory: the root's own, or a file root's parent.
    pub(crate) fn handle(&self) -> Result<Arc<Handle>> {
        match &self.held {
            _ if !self.is_available() => Err(ErrorKind::RootUnavailable.into()),
            Held::Top(handle) => Ok(handle.clone()),
            Held::Open(opened, _) => Ok(opened.handle().clone()),
            Held::OnUse(_) => Ok(Arc::new(self.notice(self.reach())?)),
        }
    }

    /// Where a path relative to the root lies beneath [`Root::handle`].
    pub(crate) fn beneath_handle(&self, path: &Path) -> PathBuf {
        match &self.leaf {
            Some(leaf) => PathBuf::from(leaf),
            None => path.to_owned(),
        }
    }

    /// Verifies that the names still lead to the object, and remembers when they do not. That they can not be asked now, for want
    /// of descriptors, say, is no answer.
    pub(crate) fn verify(&self) -> bool {
        if self.is_available() {
            // Each given path is a walk, and so not for each failure: what a client gave can be long.
            let _ = self.notice(self.still_named(self.given_verified.take() == Due::Yes));
        }
        self.is_available()
    }

    /// As [`verify_all`](Self::verify_all), at most every [`VERIFY_EVERY`](crate::VERIFY_EVERY).
    pub(crate) fn verify_in_time(&self) -> bool {
        if self.given_verified.take() == Due::Yes { self.verify_all() } else { self.is_available() }
    }

    /// As [`verify`](Self::verify), with each given path whenever that was last done.
    pub(crate) fn verify_all(&self) -> bool {
        if self.is_available() {
            let _ = self.notice(self.still_named(true));
        }
        self.is_available()
    }

    /// Whether both are the same directory object. A number can have been reused unless both directories
    /// are held open, so the time of birth is compared as well where one is not.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        let both_held = self.is_held() && other.is_held();
        self.identity == other.identity && (both_held || is_same_birth(self.born, other.born))
    }

    fn is_held(&self) -> bool {
        !matches!(self.held, Held::OnUse(_))
    }

    /// Whether what its name leads to now is the directory that was resolved.
    ///
    /// A held directory is asked again, as its numbers can change (overlayfs, FUSE) and cannot be reused
    /// by another. One that is opened on use must also have the same time of birth, which overlayfs
    /// changes at the first write.
    fn is(&self, named: &Handle) -> Result<bool> {
        let held = match &self.held {
            Held::Top(handle) => handle,
            Held::Open(opened, _) => opened.handle(),
            Held::OnUse(_) => {
                let named = named.metadata()?;
                return Ok(self.identity == named.identity() && is_same_birth(self.born, named.birth()));
            }
        };
        Ok(held.identity()? == named.identity()?)
    }

    fn says_the_same(&self, other: &Self) -> bool {
        self.is_same_object(other)
            && (&self.canonical, &self.given, &self.name, &self.leaf, self.access)
                == (&other.canonical, &other.given, &other.name, &other.leaf, other.access)
    }

    fn notice<T>(&self, asked: Result<T>) -> Result<T> {
        if asked.as_ref().is_err_and(|error| error.kind() == ErrorKind::RootUnavailable) {
            self.gone.store(true, Ordering::Relaxed);
            self.one_is_gone.store(true, Ordering::Relaxed);
        }
        asked
    }

    fn still_named(&self, with_given: bool) -> Result<()> {
        let Some(around) = self.around() else { return Ok(()) };
        self.reach()?;
        for given in self.given.iter().filter(|_| with_given) {
            // It was resolved within a part of this when the list was.
            let mut budget = Budget::new();
            let mut questions = OneRequest(Questions::new(around, &mut budget));
            let place = resolve(&mut questions, around.spellings(), None, given.as_os_str(), Intent::Existing);
            let here = match place.map_err(no_longer)? {
                Place::Inside { root, path, .. } => is_same(&around.root(root)?.canonical.join(path), &self.canonical),
                Place::Above(_) => false,
            };
            if !here {
                return Err(ErrorKind::RootUnavailable.into());
            }
        }
        Ok(())
    }

    /// The roots that this one was resolved beneath; `/` has none.
    pub(crate) fn around(&self) -> Option<&Around> {
        match &self.held {
            Held::Top(_) => None,
            Held::Open(_, around) | Held::OnUse(around) => Some(around),
        }
    }

    /// The canonical path of the directory that is held: its own, or a file root's parent.
    fn directory(&self) -> &Path {
        directory(&self.canonical, self.is_file())
    }

    /// The root around it that its directory is reached from, and the path from there.
    fn outer(&self) -> Option<(&Self, &Path)> {
        let places = self.around()?.roots().filter_map(|outer| {
            let holds = !outer.is_file() || outer.canonical == self.canonical;
            let path = self.directory().strip_prefix(outer.directory()).ok()?;
            holds.then_some((outer, path))
        });
        // The innermost: one further out may have a mount in between.
        places.min_by_key(|(_, path)| path.iter().count())
    }

    /// Whether a directory is this root's, or one between it and the root around it, whatever its name is.
    /// `seen` has the paths that were compared before.
    pub(crate) fn is_at_or_below<'a>(&'a self, directory: Identity, seen: &mut HashSet<&'a Path>) -> Result<bool> {
        if !self.is_file() && self.identity == directory {
            return Ok(true);
        }
        let Some((outer, path)) = self.outer() else { return Ok(false) };
        let handle = outer.handle()?;
        let between = if self.is_file() { path } else { path.parent().unwrap_or(path) };
        let new = self.directory().ancestors().zip(path.ancestors()).filter(|(_, path)| between.starts_with(path));
        let mut new = new.take_while(|(canonical, path)| !path.as_os_str().is_empty() && seen.insert(canonical));
        Ok(new.any(|(_, path)| {
            let found = handle.dir(path, Rule::Allow).and_then(|found| found.identity());
            found.is_ok_and(|found| found == directory)
        }))
    }

    /// Opens the directory by its canonical path, through no link, and compares its identity.
    fn reach(&self) -> Result<Handle> {
        let around = self.around().ok_or(ErrorKind::RootUnavailable)?;
        let Some((outer, path)) = self.outer().filter(|(outer, _)| outer.verify()) else {
            return Err(ErrorKind::RootUnavailable.into());
        };
        let handle = outer.handle()?.dir(path, around.policy().mounts).map_err(no_longer)?;
        if !self.is(&handle)? {
            return Err(ErrorKind::RootUnavailable.into());
        }
        Ok(handle)
    }
}

/// The canonical path of the directory that is held for a root.
pub(crate) fn directory(canonical: &Path, is_file: bool) -> &Path {
    canonical.parent().filter(|_| is_file).unwrap_or(canonical)
}

/// Whether two times of birth are not known to differ. Some filesystems have none.
fn is_same_birth(one: Option<SystemTime>, other: Option<SystemTime>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// What asking a root's name again can meet when it leads elsewhere or nowhere.
fn no_longer(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::OutsideRoots
        | ErrorKind::TooManyLinks
        | ErrorKind::PermissionDenied
        | ErrorKind::MountCrossing
        | ErrorKind::TooCostly
        | ErrorKind::Changed => ErrorKind::RootUnavailable.into(),
        _ => error,
    }
}

/// The path as a `file:` URI, escaped as far as a path needs it; [`Location`](crate::Location) reads the same path from it.
pub(crate) fn file_uri(path: &Path) -> String {
    url::Url::from_file_path(path).map_or_else(|()| String::new(), String::from)
}

/// The roots in force: an immutable snapshot, cheap to clone and share.
///
/// From configuration alone, [`Roots::from_dirs`]; from a client's list, [`Roots::from_list`]; with operator directories,
/// [`Boundary`](crate::Boundary).
#[derive(Clone)]
pub struct Roots {
    snapshot: Arc<Snapshot>,
    base: Option<usize>,
    /// Who asked for it, for events.
    session: Option<SessionId>,
}

pub(crate) struct Snapshot {
    roots: Vec<Arc<Root>>,
    spellings: Spellings,
    policy: Policy,
    skipped: Vec<Skipped>,
    /// Whether a client listed these.
    is_listed: bool,
    /// The list that it was resolved from, where it may have to be resolved again.
    list: Option<Arc<ListRootsResult>>,
    /// Which of the operator's roots these are, or were resolved beneath; counted by the boundary.
    generation: u64,
    /// Whether a root was found to be unavailable.
    gone: Arc<AtomicBool>,
    /// When the names were last verified.
    verified: Turns,
}

/// An entry of a root list that grants nothing, and why. For the operator: the reason can tell what exists.
#[derive(Debug)]
pub struct Skipped {
    pub(crate) index: usize,
    pub(crate) entry: String,
    pub(crate) error: Error,
}

/// Its own path, and not what is around it.
impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root").field("path", &self.canonical).field("access", &self.access).finish_non_exhaustive()
    }
}

/// The turn to verify a snapshot. Who drops it unused gives it back.
pub(crate) struct ToVerify {
    roots: Roots,
    start: Option<Start>,
}

impl ToVerify {
    /// Verifies every root. How many are gone.
    pub(crate) fn verify(mut self) -> usize {
        self.verify_all()
    }

    /// As [`verify`](Self::verify), with more to do before the turn is over.
    pub(crate) fn verify_all(&mut self) -> usize {
        self.start = Some(Start::now());
        self.roots.roots().filter(|root| !root.verify_all()).count()
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }
}

impl Drop for ToVerify {
    fn drop(&mut self) {
        match self.start {
            Some(start) => self.roots.snapshot.verified.done(start),
            None => self.roots.snapshot.verified.give_back(),
        }
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.roots()).finish()
    }
}

impl Skipped {
    fn says_the_same(&self, other: &Self) -> bool {
        self.index == other.index && self.entry == other.entry && self.error.says_the_same(&other.error)
    }

    /// The entry's number in its list, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The entry's URI or path, as it came.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Why it grants nothing.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl Roots {
    /// The roots, in the order of their list.
    pub fn roots(&self) -> impl ExactSizeIterator<Item = &Root> {
        self.snapshot.roots.iter().map(Arc::as_ref)
    }

    /// The entries that grant nothing, in the order of their list.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.snapshot.skipped
    }

    /// Whether there is no root, so that everything is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshot.roots.is_empty()
    }

    /// The same roots, with relative requests resolved against the root at `path` (any of its spellings) instead of the first.
    ///
    /// # Errors
    ///
    /// [`OutsideRoots`](ErrorKind::OutsideRoots) if no root has that path.
    pub fn with_base(&self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let base = self.roots().position(|root| root.spellings().any(|spelling| is_same(spelling, path)));
        match base {
            Some(base) => Ok(Self { base: Some(base), ..self.clone() }),
            None => Err(self.explained(ErrorKind::OutsideRoots.into()).at("set base", path.as_os_str())),
        }
    }

    /// Verifies that every root's names still lead to the object that was resolved, unless that was done within the last
    /// [`VERIFY_EVERY`](crate::VERIFY_EVERY), or is being done; after one that took long, it rests for longer. True if no root is known to be
    /// unavailable. I/O of a few system calls a root.
    ///
    /// A [`Boundary`](crate::Boundary) does this whenever a snapshot is taken.
    #[must_use]
    pub fn verify(&self) -> bool {
        if let Some(turn) = self.turn_to_verify() {
            turn.verify();
        }
        self.roots().all(Root::is_available)
    }

    /// Whether it is somebody's turn to verify.
    pub(crate) fn is_due(&self) -> bool {
        self.snapshot.verified.is_due()
    }

    /// The turn to verify, if it is due: nobody else has it until it is dropped, or takes absurdly long.
    pub(crate) fn turn_to_verify(&self) -> Option<ToVerify> {
        let due = self.snapshot.verified.take_alone() == Due::Yes;
        due.then(|| ToVerify { roots: self.clone(), start: None })
    }

    /// Whether a root was found to be gone: when its names were verified, or when an operation failed.
    pub(crate) fn has_gone(&self) -> bool {
        self.snapshot.gone.load(Ordering::Relaxed)
    }

    /// The list that it was resolved from, if it is kept.
    pub(crate) fn list(&self) -> Option<&Arc<ListRootsResult>> {
        self.snapshot.list.as_ref()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.snapshot.generation
    }

    /// Before it is shared.
    pub(crate) fn of_generation(mut self, generation: u64) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.generation = generation;
        }
        self
    }

    /// Before it is shared.
    pub(crate) fn of_client(mut self) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.is_listed = true;
        }
        self
    }

    /// Says why nothing is inside, where there is no root: the same for every request.
    pub(crate) fn explained(&self, error: Error) -> Error {
        if !self.is_empty() || error.kind() != ErrorKind::OutsideRoots {
            return error;
        }
        error.says(match (self.snapshot.is_listed, self.skipped().is_empty()) {
            (true, true) => "the client listed no directories",
            (true, false) => "none of the directories that the client listed is allowed",
            (false, true) => "the server has no directories configured",
            (false, false) => "none of the server's directories is available",
        })
    }

    /// Before it is shared.
    pub(crate) fn listed_as(mut self, list: &Arc<ListRootsResult>) -> Self {
        if let Some(snapshot) = Arc::get_mut(&mut self.snapshot) {
            snapshot.list = Some(list.clone());
        }
        self
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// The same roots for a session.
    pub(crate) fn of(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }

    pub(crate) fn downgrade(&self) -> Weak<Snapshot> {
        Arc::downgrade(&self.snapshot)
    }

    /// The roots of a snapshot that somebody still has.
    pub(crate) fn upgrade(snapshot: &Weak<Snapshot>) -> Option<Self> {
        let snapshot = snapshot.upgrade()?;
        let base = if snapshot.roots.is_empty() { None } else { Some(0) };
        Some(Self { snapshot, base, session: None })
    }

    /// Whether both were resolved from the same list to the same places, in every word that can be asked of them; and none is gone.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let (one, two) = (&*self.snapshot, &*other.snapshot);
        one.list == two.list
            && one.policy == two.policy
            && one.roots.len() == two.roots.len()
            && one.roots.iter().zip(&two.roots).all(|(one, two)| one.says_the_same(two))
            && one.skipped.len() == two.skipped.len()
            && one.skipped.iter().zip(&two.skipped).all(|(one, two)| one.says_the_same(two))
            && !self.has_gone()
            && !other.has_gone()
    }

    #[cfg(feature = "rmcp")]
    pub(crate) fn is_same_snapshot(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }

    pub(crate) fn new(mut roots: Vec<Root>, policy: Policy, mut skipped: Vec<Skipped>) -> Self {
        let mut spellings = Spellings::default();
        let gone = Arc::new(AtomicBool::new(false));
        for root in &mut roots {
            root.one_is_gone = gone.clone();
            // Built in steps, and from here on kept for as long as a session lasts.
            root.canonical.shrink_to_fit();
            root.given.shrink_to_fit();
            root.given.iter_mut().for_each(PathBuf::shrink_to_fit);
            spellings.add(&root.canonical, if root.is_file() { RootIs::File } else { RootIs::Directory });
        }
        for (number, root) in roots.iter().enumerate() {
            root.given.iter().for_each(|given| spellings.add_given(given, number));
        }
        spellings.shrink();
        let base = if roots.is_empty() { None } else { Some(0) };
        let mut roots: Vec<_> = roots.into_iter().map(Arc::new).collect();
        roots.shrink_to_fit();
        skipped.shrink_to_fit();
        let verified = Turns::new();
        let (is_listed, list, generation) = (false, None, 0);
        let snapshot = Snapshot { roots, spellings, policy, skipped, is_listed, list, generation, gone, verified };
        Self { snapshot: Arc::new(snapshot), base, session: None }
    }

    pub(crate) fn root(&self, number: usize) -> Result<&Root> {
        self.snapshot.roots.get(number).map(Arc::as_ref).ok_or_else(|| ErrorKind::OutsideRoots.into())
    }

    /// Whether these are the filesystem's own root, or on Windows its volumes.
    pub(crate) fn is_top(&self) -> bool {
        self.roots().all(Root::is_top)
    }

    pub(crate) fn only_root(&self) -> Option<&Root> {
        match self.snapshot.roots.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(crate) fn shared_root(&self, number: usize) -> Result<Arc<Root>> {
        self.snapshot.roots.get(number).cloned().ok_or_else(|| ErrorKind::OutsideRoots.into())
    }

    pub(crate) fn spellings(&self) -> &Spellings {
        &self.snapshot.spellings
    }

    pub(crate) fn policy(&self) -> Policy {
        self.snapshot.policy
    }

    pub(crate) fn base(&self) -> Option<usize> {
        self.base
    }
}

/// Answers the resolver from the filesystem, beneath the roots' handles.
pub(crate) struct Questions<'a, 'b> {
    roots: &'a Roots,
    budget: &'a mut Budget<'b>,
    opened: Option<(usize, Arc<Handle>, Cursor)>,
    trail: Trail,
    /// The directories on the way down, by depth, to the one of the last question.
    way: Vec<Passed>,
}

/// A directory that the resolver passed.
#[derive(Clone, Copy, Default)]
struct Passed {
    identity: Option<Identity>,
    is_on_trail: bool,
}

impl<'a, 'b> Questions<'a, 'b> {
    pub(crate) fn new(roots: &'a Roots, budget: &'a mut Budget<'b>) -> Self {
        Self { roots, budget, opened: None, trail: Trail::new(), way: Vec::new() }
    }

    /// Opens the root's directory, and holds it for the next question.
    fn open(&mut self, number: usize) -> Result<()> {
        if self.opened.as_ref().is_none_or(|(opened, ..)| *opened != number) {
            let handle = self.roots.root(number)?.handle()?;
            self.way.clear();
            self.opened = Some((number, handle, Cursor::default()));
        }
        Ok(())
    }

    pub(crate) fn into_trail(self) -> Trail {
        self.trail
    }

    fn ask(&mut self, number: usize, path: &Path) -> Result<Look> {
        let (root, mounts) = (self.roots.root(number)?, self.roots.policy().mounts);
        self.open(number)?;
        let Some((_, handle, cursor)) = &mut self.opened else { return Err(ErrorKind::RootUnavailable.into()) };
        let seen = cursor.look(handle, &root.beneath_handle(path), mounts, self.budget)?;
        // The one name that a file root is, as long as it is no directory.
        match &seen {
            Look::Other(metadata) if metadata.is_dir() && root.is_file() => Err(ErrorKind::RootUnavailable.into()),
            _ => Ok(seen),
        }
    }

    fn passed(&mut self, number: usize, path: &Path, seen: &Look) -> Result<()> {
        let last = path.as_os_str().as_encoded_bytes();
        let depth = if last.is_empty() { 0 } else { 1 + count_separators(last) };
        match seen {
            Look::Other(metadata) => {
                self.way.resize_with(depth, Passed::default);
                self.way.push(Passed { identity: Some(metadata.identity()), is_on_trail: false });
            }
            Look::Link(..) => {
                self.way.resize_with(depth, Passed::default);
                self.lay_trail(self.roots.root(number)?, path.parent().unwrap_or(path));
            }
            Look::Missing => {}
        }
        Ok(())
    }

    /// Adds a directory that holds a symlink to the trail, and what it lies in.
    ///
    /// Except for the operator's own directories: that one of them was granted as a whole does not make
    /// each symlink in it suspicious. It bounds them.
    fn lay_trail(&mut self, root: &Root, directory: &Path) {
        if self.way.last().is_some_and(|last| last.is_on_trail) {
            return;
        }
        let directory = root.canonical.join(directory);
        let operators = if root.is_top() { Vec::new() } else { self.roots.spellings().depths(&directory) };
        let above = root.canonical.iter().count().saturating_sub(1);
        let is_first = self.way.first().is_none_or(|root| !root.is_on_trail);
        for (depth, path) in path_hashes(&directory).enumerate() {
            let passed = depth.checked_sub(above).and_then(|depth| self.way.get_mut(depth));
            let is_new = match &passed {
                Some(passed) => !passed.is_on_trail,
                None => is_first,
            };
            let identity = passed.and_then(|passed| {
                passed.is_on_trail = true;
                passed.identity
            });
            if is_new && !operators.contains(&depth) {
                self.trail.push(OnTrail { path, identity });
            }
        }
    }
}

impl Names for Questions<'_, '_> {
    fn look(&mut self, number: usize, path: &Path) -> Result<Seen> {
        let seen = self.ask(number, path)?;
        self.passed(number, path, &seen)?;
        Ok(seen.into())
    }
}

impl From<Look> for Seen {
    fn from(look: Look) -> Self {
        match look {
            Look::Missing => Self::Missing,
            Look::Link(text, _) => Self::Link(text),
            Look::Other(metadata) if metadata.is_dir() => Self::Directory,
            Look::Other(_) => Self::Other,
        }
    }
}

/// Answers for a request. Only where its way leads matters, so there is no trail, and many names may be
/// passed at once.
struct OneRequest<'a, 'b>(Questions<'a, 'b>);

impl Names for OneRequest<'_, '_> {
    fn look(&mut self, number: usize, path: &Path) -> Result<Seen> {
        self.0.ask(number, path).map(Seen::from)
    }

    #[cfg(target_os = "linux")]
    fn look_ahead(&mut self, number: usize, path: &Path) -> Option<Seen> {
        let mounts = self.0.roots.policy().mounts;
        let path = self.0.roots.root(number).ok()?.beneath_handle(path);
        self.0.open(number).ok()?;
        let (_, handle, cursor) = self.0.opened.as_mut()?;
        cursor.look_ahead(handle, &path, mounts, self.0.budget)?.ok().map(Seen::from)
    }
}

// Each entry of the longest list has room for ten names of its path as it was given.
const _: () = assert!(GIVEN_NAMES == 10 * ROOT_LIST_ENTRIES);

/// Resolves a request against a snapshot.
pub(crate) fn resolve_in(
    roots: &Roots,
    request: &OsStr,
    intent: Intent,
    budget: &mut Budget<'_>,
) -> Result<(usize, PathBuf, Found)> {
    match resolve(&mut OneRequest(Questions::new(roots, budget)), roots.spellings(), roots.base(), request, intent)? {
        Place::Inside { root, path, found } => Ok((root, path, found)),
        Place::Above(_) => Err(ErrorKind::OutsideRoots.into()),
    }
}

/// Does it again while another process keeps changing the path under it, for a bounded number of times
/// and a bounded time.
pub(crate) fn settled<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let mut done = work();
    let mut first: Option<Instant> = None;
    for _ in 0..CHANGES {
        match done {
            Err(error)
                if error.kind() == ErrorKind::Changed
                    && first.get_or_insert_with(Instant::now).elapsed() < CHANGES_FOR =>
            {
                done = work();
            }
            done => return done,
        }
    }
    done
}

/// How often, and for how long, a path is tried again that changed while it was used. A change takes a
/// system call, as a try does: losing against a process that does nothing else 16 times in a row is no
/// accident. A try usually takes microseconds; one that takes 10 ms is not made 16 times.
const CHANGES: usize = 16;
const CHANGES_FOR: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_tried_again_so_often_and_nothing_else_is() {
        let tried = |changes: usize, then: Result<()>| {
            let mut times = 0;
            let done = settled(|| {
                times += 1;
                if times <= changes {
                    Err(ErrorKind::Changed.into())
                } else {
                    then.as_ref().copied().map_err(|e| e.kind().into())
                }
            });
            (times, done.map_err(|error| error.kind()))
        };
        assert_eq!(tried(0, Ok(())), (1, Ok(())));
        assert_eq!(tried(CHANGES, Ok(())), (1 + CHANGES, Ok(())));
        assert_eq!(tried(CHANGES + 1, Ok(())), (1 + CHANGES, Err(ErrorKind::Changed)));
        assert_eq!(tried(1, Err(ErrorKind::NotFound.into())), (2, Err(ErrorKind::NotFound)));
    }
}
