//! Checks whether a proof from an earlier request is still allowed.

use crate::check::CheckedPath;
use crate::dir::Access;
use crate::error::{Code, Result};
use crate::path::names::is_same;
use crate::roots::{Root, Roots};

impl Roots {
    /// Checks whether these roots still allow the place of a proof from another snapshot. Call this
    /// before each step of a long operation. Only paths are compared, so there is no I/O.
    ///
    /// # Errors
    ///
    /// [`OutsideRoots`](crate::ErrorKind::OutsideRoots) if the place is in none of these roots;
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) if it is now read-only and the proof allowed
    /// writing, or if it is now protected (`protected`).
    pub fn still_allows(&self, checked: &CheckedPath) -> Result<()> {
        self.ensure_not_ended()?;
        let canonical = checked.canonical();
        let by_name = |root: &&Root| !root.is_file() || is_same(root.path(), &canonical);
        let enclosing = self.index().enclosing_roots(&canonical);
        let mut innermost = enclosing.into_iter().rev().filter_map(|number| self.root(number).ok());
        let Some(root) = innermost.find(by_name) else {
            return Err(self.with_reason(Code::OutsideRoots.into()));
        };
        if checked.root.access == Access::ReadWrite && root.access == Access::ReadOnly {
            return Err(Code::ReadOnly.into());
        }
        let protection = |roots: &Roots| roots.protected()?.of(&[&canonical]);
        match protection(self).filter(|now| Some(*now) > protection(&checked.roots)) {
            None => Ok(()),
            Some(protection) => Err(protection.refusal()),
        }
    }
}
