//! Checks whether a proof from an earlier request is still allowed.

use std::path::PathBuf;

use crate::check::CheckedPath;
use crate::dir::Access;
use crate::error::{Code, Result};
use crate::path::Protection;
use crate::path::names::is_same;
use crate::roots::{Root, Roots};

impl Roots {
    /// Checks by path whether these roots still allow the place of a proof from another snapshot.
    /// Call this before each step of a long operation.
    ///
    /// The check also verifies, with a few system calls, that the paths of the proof's root still
    /// resolve to it. If that root is also one of these roots, it is verified at most once every
    /// [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY).
    ///
    /// # Errors
    ///
    /// [`OutsideRoots`](crate::ErrorKind::OutsideRoots) if the place is in none of these roots;
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) if it is now read-only and the proof allowed
    /// writing; [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if the root's paths no
    /// longer resolve to it.
    pub fn still_allows(&self, checked: &CheckedPath) -> Result<()> {
        self.ensure_active()?;
        let proved = &checked.root;
        let by_name = |root: &&Root| !root.is_file() || is_same(root.path(), &checked.canonical());
        let enclosing = self.index().enclosing_roots(proved.path());
        // Finds the proof's own root, or the innermost root that contains it. If there is neither,
        // finds a root that is inside the proof's root and contains the place.
        let root = enclosing
            .into_iter()
            .rev()
            .filter_map(|number| self.root(number).ok())
            .find(by_name)
            .or_else(|| {
                let inner = self.index().enclosing_roots(&checked.canonical());
                inner.into_iter().rev().filter_map(|number| self.root(number).ok()).find(by_name)
            });
        let Some(root) = root else { return Err(self.explain_empty(Code::OutsideRoots.into())) };
        let is_the_root = is_same(root.path(), proved.path());
        let stands = root.is_available()
            && if is_the_root {
                root.is_same_object(proved) && proved.verify_if_due()
            } else {
                proved.verify()
            };
        match (stands, proved.access, root.access) {
            (false, ..) => return Err(Code::RootUnavailable.into()),
            (true, Access::ReadWrite, Access::ReadOnly) => return Err(Code::ReadOnly.into()),
            (true, ..) => {}
        }
        let canonical = checked.canonical();
        let below: PathBuf = canonical.iter().skip(root.path().iter().count()).collect();
        let now = root.protected.below(&below).protection();
        match now.filter(|now| Some(*now) > checked.protected().protection()) {
            None => Ok(()),
            Some(Protection::ReadOnly) => Err(Code::Protected.into()),
            Some(Protection::Hidden) => Err(self.explain_empty(Code::OutsideRoots.into())),
        }
    }
}
