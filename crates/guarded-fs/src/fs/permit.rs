//! What must hold before an entry is changed: [`ChangePermit`].
//!
//! [`Proof::permit`] opens the directory of an entry, and decides the row of the [`ChangeKind`] by
//! names. Only *under another name* and *in it* are decided by the entry that is there, in part by
//! other functions below. Immediately before the change, the [`Slot`] asks the permit whether the
//! roots have ended or the directory has moved. Every change requires a writable place and roots
//! that have not ended.
//!
//! | change | requires |
//! | --- | --- |
//! | `Modify` | |
//! | `Overwrite` | a file's name |
//! | `CreateFile` | no root; a file's name |
//! | `CreateDir` | no root |
//! | `CreateLink` | no root; an entry; a file's name |
//! | `Replace` | no root, also no file under another name; a file's name |
//! | `Link` | no root; an entry |
//! | `RemoveFile` | no root, also no file under another name; an entry |
//! | `RemoveDir` | no root, also under another name; an entry |
//! | `RemoveTree`, `MoveFrom` | the same; no protected name in it |
//! | `MoveTo` | no root, if it replaces also under another name; an entry; no beginning of a pattern |
//!
//! - *no root*: the place is neither a root nor does it contain one.
//! - *an entry*: the request does not end in `.` or `..`.
//! - *a file's name*: the request names no directory, and the place is no beginning of a pattern.
//!
//! The first three open the entry by its path beneath the handle of its root. For the others, and
//! for a listed entry, the open directory must still be at its path.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::version::{Condition, ContentHash};
use crate::check::{Proof, named_as_directory, without_parent};
use crate::dir::{Beneath, Handle, Permit, Rule, Slot, Stat, split};
use crate::error::{Code, Error, Result};
use crate::roots::{Presence, Root, Roots};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// An existing file or directory gets other attributes, or a file is opened for writing.
    Modify,
    Overwrite,
    CreateFile,
    CreateDir,
    CreateLink,
    /// A file is created, or replaced by a new one.
    Replace,
    Link,
    RemoveFile,
    RemoveDir,
    RemoveTree,
    MoveFrom,
    MoveTo {
        replaces: bool,
    },
}

pub(super) struct ChangePermit<'a> {
    place: &'a Proof,
    kind: ChangeKind,
    /// The name in its directory, or the path from the handle of the root.
    at: Beneath,
    /// How many names the directory is above the place. `None` for a path from the handle.
    above: Option<usize>,
}

impl Proof {
    /// Permits a change, and opens the directory of the entry, or that of the root for an entry
    /// that is changed by opening it.
    ///
    /// # Errors
    ///
    /// Those of the table; `NotFound` if the directory does not exist.
    pub(super) fn permit(&self, kind: ChangeKind) -> Result<ChangePermit<'_>> {
        self.ensure_may_change(kind)?;
        self.ensure_may_be_put(kind).map_err(|error| match (error.reason(), self.found()) {
            // As for open(2), a missing directory matters before a slash at the end.
            (Code::IsADirectory, Presence::Missing(2..)) => without_parent(),
            _ => error,
        })?;
        if matches!(kind, ChangeKind::Modify | ChangeKind::Overwrite | ChangeKind::CreateFile) {
            return self.permit_at(kind, self.place()?, None);
        }
        self.permit_at(kind, self.parent_dir()?, Some(1))
    }

    pub(super) fn permit_at(
        &self,
        kind: ChangeKind,
        at: Beneath,
        above: Option<usize>,
    ) -> Result<ChangePermit<'_>> {
        let permit = ChangePermit { place: self, kind, at, above };
        permit.ensure_no_root()?;
        if kind == ChangeKind::MoveFrom {
            permit.search_as(self)?;
        }
        Ok(permit)
    }

    /// The permit to create a directory on the path to this place, in one `above` names above it.
    pub(super) fn permit_parent(&self, at: Beneath, above: usize) -> ChangePermit<'_> {
        ChangePermit { place: self, kind: ChangeKind::CreateDir, at, above: Some(above) }
    }

    /// Opens the directory that contains the last name, and returns it with that name.
    pub(super) fn parent_dir(&self) -> Result<Beneath> {
        let Beneath { directory, path, mounts } = self.place()?;
        let (parent, name) = split(&path).ok_or(Code::RootItself)?;
        let parent = directory.dir(parent, mounts).map_err(|error| match error.reason() {
            Code::NotFound => without_parent(),
            _ => error,
        })?;
        Ok(Beneath { directory: Arc::new(parent), path: name.into(), mounts })
    }

    pub(super) fn ensure_may_change(&self, kind: ChangeKind) -> Result<()> {
        // Defense: Nothing is changed, and nothing is moved to a place, that is read-only.
        self.ensure_writable()?;
        match kind {
            ChangeKind::Replace if self.is_root_directory() => Err(Code::IsADirectory.into()),
            // Whether a place that contains a root is a directory is not known yet.
            ChangeKind::Modify | ChangeKind::Overwrite | ChangeKind::Replace => Ok(()),
            ChangeKind::CreateDir if self.existed() => {
                self.ensure_not_root().map_err(|_| Code::AlreadyExists.into())
            }
            ChangeKind::CreateDir | ChangeKind::CreateFile => self.ensure_not_root(),
            _ => {
                self.ensure_not_root()?;
                self.ensure_names_entry()
            }
        }
    }

    /// Decides by the names whether something other than a new directory may be put at the place.
    pub(super) fn ensure_may_be_put(&self, kind: ChangeKind) -> Result<()> {
        match kind {
            ChangeKind::Overwrite | ChangeKind::CreateFile | ChangeKind::Replace => {
                self.ensure_names_file()?;
            }
            ChangeKind::CreateLink => self.ensure_names_file().map_err(|_| {
                let text = "there is no such directory; omit the slash at the end to name a new \
                            entry";
                // symlink(2), link(2)
                if self.existed() {
                    return Code::AlreadyExists.into();
                }
                Error::from(Code::NotFound).with_text(text)
            })?,
            ChangeKind::MoveTo { .. } => {}
            _ => return Ok(()),
        }
        let place = [self.root().path(), self.relative()];
        // A file, a symlink or a renamed directory must not make a protected name appear.
        if self.roots().protected().is_some_and(|protected| protected.begin_at(&place)) {
            let text = "protected: only a new directory can have this name";
            return Err(Error::from(Code::Protected).with_text(text));
        }
        Ok(())
    }

    /// Refuses a request that names a directory, whether or not there is one (open(2)).
    pub(super) fn ensure_names_file(&self) -> Result<()> {
        // Defense: A request that names a directory never becomes a file.
        match (self.names_directory(), self.existed()) {
            (false, _) => Ok(()),
            (true, true) => Err(Code::IsADirectory.into()),
            (true, false) => Err(named_as_directory()),
        }
    }

    fn is_root_directory(&self) -> bool {
        self.relative().as_os_str().is_empty() && !self.root().is_file()
    }

    fn ensure_not_root(&self) -> Result<()> {
        if self.holds_root(&self.canonical()) { Err(Code::RootItself.into()) } else { Ok(()) }
    }

    /// Whether a root or an allowed directory, even a missing one, is at or below this canonical
    /// path.
    pub(super) fn holds_root(&self, canonical: &Path) -> bool {
        self.roots().with_allowed().any(|roots| roots.have_root_at_or_below(canonical))
    }

    fn kept_roots(&self) -> impl Iterator<Item = &Root> {
        self.roots().with_allowed().flat_map(Roots::iter)
    }
}

impl ChangePermit<'_> {
    pub(super) fn slot(&self) -> Slot<'_> {
        Slot::new(&self.at, self)
    }

    pub(super) fn into_at(self) -> Beneath {
        self.at
    }

    pub(super) fn place(&self) -> &Proof {
        self.place
    }

    pub(super) fn at(&self) -> &Beneath {
        &self.at
    }

    pub(super) fn look(&self) -> Result<Stat> {
        match self.above {
            None => self.at.look(),
            Some(_) => self.at.look_in(),
        }
    }

    pub(super) fn condition(&self, version: Option<ContentHash>) -> Option<Condition<'_>> {
        Condition::new(self.place, &self.at, version)
    }

    /// Refuses to remove, move or replace a root under another name, for example through a bind
    /// mount, or in a different case on a case-insensitive filesystem.
    fn ensure_no_root(&self) -> Result<()> {
        match self.kind {
            ChangeKind::Replace => match self.place.ensure_not_root() {
                Ok(()) => self.ensure_no_file_root(),
                // rename(2)
                Err(error) => match self.look()? {
                    Stat::Other(metadata) if metadata.is_dir() => Err(Code::IsADirectory.into()),
                    _ => Err(error),
                },
            },
            ChangeKind::RemoveFile => self.ensure_no_file_root(),
            ChangeKind::RemoveDir
            | ChangeKind::RemoveTree
            | ChangeKind::MoveFrom
            | ChangeKind::MoveTo { replaces: true } => match self.look_anywhere()? {
                Stat::Other(metadata) if metadata.is_dir() => {
                    let mut seen = HashSet::new();
                    for root in self.place.kept_roots() {
                        self.place.roots().ensure_usable()?;
                        // Defense: A root is not removed under another name, such as a bind mount.
                        if root.is_at_or_below(metadata.identity(), &mut seen)? {
                            return Err(Code::RootItself.into());
                        }
                    }
                    Ok(())
                }
                Stat::Other(_) => self.ensure_no_file_root(),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn look_anywhere(&self) -> Result<Stat> {
        self.at.directory.look_in(self.at.name(), Rule::Allow)
    }

    fn ensure_no_file_root(&self) -> Result<()> {
        let roots = self.place.kept_roots();
        let mut files = roots.filter_map(|root| Some((root, root.leaf()?))).peekable();
        if files.peek().is_none() {
            return Ok(());
        }
        let here = self.at.directory.identity()?;
        let Stat::Other(found) = self.look_anywhere()? else { return Ok(()) };
        let is_found = |leaf| match self.at.directory.look_in(leaf, Rule::Allow) {
            Ok(Stat::Other(leaf)) => leaf.identity() == found.identity(),
            _ => false,
        };
        let is_here = |root: &Root| {
            root.handle().and_then(|parent| parent.identity()).is_ok_and(|parent| parent == here)
        };
        if files.any(|(root, leaf)| is_here(root) && is_found(leaf)) {
            return Err(Code::RootItself.into());
        }
        Ok(())
    }

    /// Refuses a directory with a protected name if it is, or will be, at this place.
    pub(super) fn search_as(&self, place: &Proof) -> Result<()> {
        if place.roots().protected().is_none() {
            return Ok(());
        }
        match self.look()? {
            Stat::Other(metadata) if metadata.is_dir() => place.search(&self.at.dir()?),
            _ => Ok(()),
        }
    }

    pub(super) fn open_tree(&self) -> Result<(Handle, ContentPermit<'_>)> {
        let place = self.place;
        // A filesystem can also be mounted on the directory itself.
        let tree = self.at.directory.dir(&self.at.path, Rule::Refuse).map_err(|error| {
            if place.found() == Presence::Link { Code::NotADirectory.into() } else { error }
        })?;
        if place.roots().protected().is_some() {
            place.search(&tree)?;
        }
        self.ask()?;
        Ok((tree, ContentPermit::of(place)))
    }
}

impl Permit for ChangePermit<'_> {
    /// Fails if the request has ended, or if the open directory is no longer at the path that was
    /// checked, because less can be allowed where it is.
    fn ask(&self) -> Result<()> {
        let place = self.place;
        place.roots().ensure_usable()?;
        // An entry of a listing is opened beneath the listed directory.
        let Some(above) = self.above else { return place.ensure_writable() };
        let path = place.root().beneath_handle(place.relative());
        let parent = path.ancestors().nth(above).ok_or(Code::RootItself)?;
        // This comes last, so that hardly any time passes before the change.
        place.ensure_at(&self.at.directory, place.root(), parent)
    }
}

/// The permit to remove what is in a tree whose own permit was asked.
pub(super) struct ContentPermit<'a>(&'a Roots);

impl<'a> ContentPermit<'a> {
    pub(super) fn of(place: &'a Proof) -> Self {
        Self(place.roots())
    }
}

impl Permit for ContentPermit<'_> {
    fn ask(&self) -> Result<()> {
        self.0.ensure_usable()
    }
}
