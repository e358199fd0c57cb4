//! Systems that cannot confine a process, and builds without the feature `landlock`.

use std::path::Path;

use super::{ChildScope, Confinement, ConfinementReport, unavailable};
use crate::boundary::Boundary;
use crate::check::Proof;
use crate::error::Result;

pub(super) fn confine(_: &Boundary, _: &Confinement) -> Result<ConfinementReport> {
    Err(unavailable())
}

pub(crate) enum ChildConfinement {}

pub(crate) enum Restriction {}

pub(crate) fn prepare(
    _: &Proof,
    _: &Confinement,
    _: &Path,
    _: ChildScope,
) -> Result<ChildConfinement> {
    Err(unavailable())
}

impl ChildConfinement {
    pub(crate) fn verified(self) -> Result<(ConfinementReport, Restriction)> {
        match self {}
    }
}

impl Restriction {
    #[cfg(target_os = "linux")]
    pub(crate) fn enforce(&mut self) -> std::io::Result<()> {
        match *self {}
    }
}
