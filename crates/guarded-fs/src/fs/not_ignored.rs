//! Stands for `ignored.rs` without the feature `ignore`: there are no rules.

use std::ffi::OsStr;
use std::path::Path;

use crate::check::Proof;
use crate::dir::Handle;
use crate::error::{Code, Result};

#[derive(Debug)]
pub(super) enum IgnoreRules {}

impl IgnoreRules {
    pub(super) fn above(_: &Proof) -> Result<Self> {
        Err(Code::Unsupported.into())
    }

    pub(super) fn enter(&mut self, _: &Handle, _: &Path) -> Result<()> {
        match *self {}
    }

    pub(super) fn leave(&mut self) {
        match *self {}
    }

    pub(super) fn decide(&mut self, _: &OsStr, _: bool) -> Result<Option<bool>> {
        match *self {}
    }
}
