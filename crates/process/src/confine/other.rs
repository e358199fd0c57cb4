//! Systems that cannot confine a process.

use std::path::Path;

use guarded_fs::{Boundary, Proof, Result};

use super::{Confinement, ConfinementReport, unavailable};

pub(super) fn confine(_: &Boundary, _: &Confinement) -> Result<ConfinementReport> {
    Err(unavailable())
}

pub(crate) enum ChildConfinement {}

pub(crate) enum Restriction {}

pub(crate) fn prepare(_: &Proof, _: &Confinement, _: &Path) -> Result<ChildConfinement> {
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
