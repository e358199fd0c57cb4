//! Stands for `permissions.rs` on Windows, where a new file inherits the access control list of its
//! directory.

#![allow(clippy::unnecessary_wraps, reason = "the signatures are the same on all systems")]

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::permit::ChangePermit;
use crate::dir::{Handle, Metadata};
use crate::error::Result;

#[derive(Clone, Debug)]
pub(super) struct Permissions;

#[derive(Clone, Copy, Debug)]
pub(super) struct KeptPermissions {
    pub(super) is_all: bool,
}

impl KeptPermissions {
    pub(super) fn mode(self) -> Result<u32> {
        Ok(0)
    }
}

impl Permissions {
    pub(super) fn of(_: &File) -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) fn of_replaced(_: &ChangePermit<'_>, _: &Metadata) -> Result<Self> {
        Ok(Self)
    }

    pub(super) fn most_of_new_file(_: &Arc<Handle>) -> Result<u32> {
        Ok(0)
    }

    pub(super) fn carry_to(&self, _: &File) -> io::Result<KeptPermissions> {
        Ok(KeptPermissions { is_all: true })
    }

    pub(super) fn limit_of_copy(&self, _: &Self) -> u32 {
        0
    }
}

pub(super) fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

pub(super) fn narrow_mode(_: &File, _: &Metadata, _: u32) -> io::Result<()> {
    Ok(())
}
