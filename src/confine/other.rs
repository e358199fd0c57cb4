//! Systems that cannot confine a child process.

use std::path::Path;

use super::{ChildScope, Confined, Confinement};
use crate::check::CheckedPath;
use crate::error::{Code, Result};

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
