//! Whether a proof from an earlier request is still allowed.

use crate::check::Proof;
use crate::dir::Access;
use crate::error::{Code, Result};
use crate::path::Protection;
use crate::path::index::TOP;
use crate::roots::Roots;

impl Roots {
    /// Checks whether these roots still allow the place of a proof from another snapshot. Call this
    /// before each step of a long operation. Only paths are compared, so there is no I/O.
    ///
    /// # Errors
    ///
    /// - The error of the [scope](crate::host::Scope) of the roots, if it has ended.
    /// - [`OutsideRoots`](crate::ErrorKind::OutsideRoots) if the place is in none of these roots, or
    ///   their [`failure`](Self::failure), if they have one.
    /// - [`ReadOnly`](crate::ErrorKind::ReadOnly) or [`Protected`](crate::ErrorKind::Protected) if
    ///   it is now read-only and the proof allowed writing.
    /// - [`Protected`](crate::ErrorKind::Protected) if it is now denied.
    pub fn still_allows(&self, checked: &Proof) -> Result<()> {
        self.ensure_usable()?;
        let canonical = checked.canonical();
        let Some((_, number)) = self.index().roots_on(TOP, &canonical).last() else {
            return Err(match self.failure() {
                Some(failure) => failure.repeated(),
                None => self.with_reason(Code::OutsideRoots.into()),
            });
        };
        let root = self.root(number)?;
        let pattern = self.protected().and_then(|it| it.of(&[&canonical], root.consented()));
        let was_writable = checked.access() == Access::ReadWrite;
        match pattern.map(|pattern| pattern.protection) {
            Some(protection) if was_writable || protection == Protection::Denied => {
                Err(protection.refusal())
            }
            None if was_writable && root.access == Access::ReadOnly => {
                Err(self.with_reason(Code::ReadOnly.into()))
            }
            _ => Ok(()),
        }
    }
}
