//! Systems that cannot confine a process, and builds without the feature `landlock`.

use std::path::Path;

use super::{ChildScope, Confined, Confinement};
use crate::boundary::Boundary;
use crate::check::CheckedPath;
use crate::error::{Code, Result};

pub(super) fn confine(_: &Boundary, _: &Confinement) -> Result<Confined> {
    Err(Code::ConfinementUnavailable.into())
}

pub(crate) enum Prepared {}

pub(crate) enum Restriction {}

pub(crate) fn prepare(
    _: &CheckedPath,
    _: &Confinement,
    _: &Path,
    _: ChildScope,
) -> Result<Prepared> {
    Err(Code::ConfinementUnavailable.into())
}

impl Prepared {
    pub(crate) fn for_thread(&self) -> Result<Restriction> {
        match *self {}
    }
}

impl Restriction {
    pub(crate) fn restrict(self) -> Result<Confined> {
        match self {}
    }
}
