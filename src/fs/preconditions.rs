//! What must hold before an entry is created, replaced, moved or removed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

use crate::check::{Proof, named_as_directory};
use crate::dir::{Handle, Rule, Stat};
use crate::error::{Code, Error, Result};
use crate::roots::{Root, Roots};

impl Proof {
    /// Returns an error if an entry that is put here could make a protected name appear, because
    /// the place is the beginning of a pattern. Call this before anything is put here, except an
    /// empty directory.
    pub(super) fn ensure_may_appear(&self) -> Result<()> {
        let place = [self.root().path(), self.relative()];
        // A symlink or a renamed directory must not make a protected name appear.
        if self.roots().protected().is_some_and(|protected| protected.begin_at(&place)) {
            let text = "protected: only a new directory can have this name";
            return Err(Error::from(Code::Protected).with_text(text));
        }
        Ok(())
    }

    /// Refuses a file where the request names a directory, whether or not there is one (open(2)).
    pub(super) fn ensure_names_file(&self) -> Result<()> {
        // Defense: A request that names a directory never becomes a file.
        match (self.names_directory(), self.existed()) {
            (false, _) => Ok(()),
            (true, true) => Err(Code::IsADirectory.into()),
            (true, false) => Err(named_as_directory()),
        }
    }

    /// Verifies that the directory opened by [`place`](Self::place) is still at the path that was
    /// checked, so that it has not been moved to where less is allowed. `opened` is the directory
    /// of the last name. Call this immediately before a change. Opening a file by its whole path
    /// beneath the allowed directory needs no such verification.
    pub(super) fn ensure_not_moved(&self, opened: &Handle) -> Result<()> {
        self.ensure_ancestor_not_moved(opened, 1)
    }

    /// Like [`ensure_not_moved`](Self::ensure_not_moved), for the directory that is this many names
    /// above the place.
    pub(super) fn ensure_ancestor_not_moved(&self, opened: &Handle, above: usize) -> Result<()> {
        let place = self.root().beneath_handle(self.relative());
        let parent = place.ancestors().nth(above).ok_or(Code::RootItself)?;
        // This comes last, so that hardly any time passes before the change.
        self.ensure_at(opened, self.root(), parent)
    }

    /// Refuses an operation that would remove or move a root of this snapshot, an allowed
    /// directory, or a directory that contains one.
    pub(super) fn ensure_not_root(&self) -> Result<()> {
        if self.holds_root(&self.canonical()) {
            return Err(Code::RootItself.into());
        }
        Ok(())
    }

    /// Whether a root of this snapshot or an allowed directory, even a missing one, is at this
    /// canonical path or below it.
    pub(super) fn holds_root(&self, canonical: &Path) -> bool {
        self.roots().with_allowed().any(|roots| roots.hold(canonical))
    }

    /// Like [`ensure_not_root`](Self::ensure_not_root), but recognizes such a directory or file
    /// under another name, for example through a bind mount, or in a different case on a
    /// case-insensitive filesystem. Call this for a name in its open directory, immediately before
    /// the name is removed, renamed or replaced.
    pub(super) fn ensure_not_root_alias(&self, directory: &Handle, name: &OsStr) -> Result<()> {
        match directory.look_in(name, Rule::Allow)? {
            Stat::Other(metadata) if metadata.is_dir() => {
                let mut seen = HashSet::new();
                for root in self.kept_roots() {
                    self.roots().ensure_not_ended()?;
                    // Defense: A root is not removed under another name, such as a bind mount.
                    if root.is_at_or_below(metadata.identity(), &mut seen)? {
                        return Err(Code::RootItself.into());
                    }
                }
                Ok(())
            }
            Stat::Other(_) => self.ensure_not_file_root_alias(directory, name),
            _ => Ok(()),
        }
    }

    /// Like [`ensure_not_root_alias`](Self::ensure_not_root_alias), for an operation that does not
    /// affect directories.
    pub(super) fn ensure_not_file_root_alias(
        &self,
        directory: &Handle,
        name: &OsStr,
    ) -> Result<()> {
        let mut files = self.kept_roots().filter_map(|root| Some((root, root.leaf()?))).peekable();
        if files.peek().is_none() {
            return Ok(());
        }
        let here = directory.identity()?;
        let look = |name: &OsStr| directory.look_in(name, Rule::Allow);
        let Stat::Other(found) = look(name)? else { return Ok(()) };
        let is_found = |leaf: &OsStr| match look(leaf) {
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

    /// The roots that no operation may remove or move: those of the snapshot, and the allowed
    /// directories.
    fn kept_roots(&self) -> impl Iterator<Item = &Root> {
        self.roots().with_allowed().flat_map(Roots::iter)
    }

    /// Returns an error unless the entry may be removed, renamed or replaced. The entry must be
    /// writable, and must neither be nor contain a root. The request must not end in `.` or `..`.
    pub(super) fn ensure_removable(&self) -> Result<()> {
        self.ensure_writable()?;
        self.ensure_not_root()?;
        self.ensure_names_entry()
    }
}
