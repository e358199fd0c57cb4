//! The operations that only a proof or a change set has, each as one step with the check that its
//! documentation asks for.

use std::borrow::Borrow;
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as OwnedFd;
use std::path::{Path, PathBuf};

use mcp_roots_guard::{
    AtomicFile, Attribute, ContentHash, IntoLocation, Precondition, Result, Roots, WriteOptions,
};

macro_rules! one_step {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $check:ident;)*) => {
        #[allow(dead_code, reason = "some test programs do not use all of it")]
        pub(crate) trait OneStep: Borrow<Roots> {
            fn symlink(&self, target: impl AsRef<Path>, at: impl IntoLocation) -> Result<()> {
                self.borrow().check_entry(at)?.symlink(target)
            }

            fn hard_link(&self, from: impl IntoLocation, to: impl IntoLocation) -> Result<()> {
                let from = self.borrow().check_entry(from)?;
                from.hard_link(&self.borrow().check_entry(to)?)
            }

            fn remove_file_if(
                &self,
                path: impl IntoLocation,
                version: ContentHash,
            ) -> Result<()> {
                let mut changes = self.borrow().change_set();
                changes.remove_file(path, Precondition::Unchanged(version))?;
                Ok(changes.commit()?)
            }

            $(
                fn $name(&self, path: impl IntoLocation, $($argument: $type),*) -> Result<$result> {
                    self.borrow().$check(path)?.$name($($argument),*)
                }
            )*
        }
    };
}

one_step! {
    atomic_file(options: WriteOptions) -> AtomicFile, check;
    open_unguarded_dir() -> OwnedFd, check;
    read_link() -> PathBuf, check_entry;
    set_attribute(attribute: Attribute) -> (), check;
    content_hash(limit: u64) -> ContentHash, check;
}

impl OneStep for Roots {}
