//! Checks whether a proof from an earlier request is still allowed.

use crate::check::CheckedPath;
use crate::dir::Access;
use crate::error::{Code, Result};
use crate::path::names::is_same;
use crate::roots::{Root, Roots};

impl Roots {
    /// Checks whether these roots still allow a proof from another snapshot, as far as names can
    /// show this. Call it before each step of a long operation.
    ///
    /// It compares names, and verifies the names of the proof's root with a few system calls. If
    /// that root is one of these roots, they are verified at most once every
    /// [`VERIFY_EVERY`](crate::limits::VERIFY_EVERY).
    ///
    /// # Errors
    ///
    /// [`OutsideRoots`](crate::ErrorKind::OutsideRoots) if the place is in none of these roots;
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) if it is now read-only and the proof allowed
    /// writing; [`RootUnavailable`](crate::ErrorKind::RootUnavailable) if the root's names no
    /// longer resolve to it.
    pub fn still_allows(&self, checked: &CheckedPath) -> Result<()> {
        #[cfg(feature = "rmcp")]
        self.ensure_active()?;
        let proved = &checked.root;
        let by_name = |root: &&Root| !root.is_file() || is_same(root.path(), &checked.canonical());
        let enclosing = self.index().enclosing_roots(proved.path());
        // The proof's own root or the innermost root that contains it. If there is none, a root
        // inside it that contains the place.
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
        match (stands, proved.access(), root.access()) {
            (false, ..) => Err(Code::RootUnavailable.into()),
            (true, Access::ReadWrite, Access::ReadOnly) => Err(Code::ReadOnly.into()),
            (true, ..) => Ok(()),
        }
    }
}
