//! The operations that only a proof or a change set has, each as one step with the check that its
//! documentation asks for.

use std::borrow::Borrow;
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as OwnedFd;
use std::path::{Path, PathBuf};

use mcp_roots_guard::{
    AtomicFile, Attribute, FileVersion, Intent, IntoLocation, Result, Roots, WriteOptions,
};

macro_rules! one_step {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $intent:expr;)*) => {
        #[allow(dead_code, reason = "some test programs do not use all of it")]
        pub(crate) trait OneStep: Borrow<Roots> {
            fn symlink(&self, target: impl AsRef<Path>, at: impl IntoLocation) -> Result<()> {
                self.borrow().check(at, Intent::NoFollow)?.symlink(target)
            }

            fn hard_link(&self, from: impl IntoLocation, to: impl IntoLocation) -> Result<()> {
                let from = self.borrow().check(from, Intent::NoFollow)?;
                from.hard_link(&self.borrow().check(to, Intent::NoFollow)?)
            }

            fn remove_file_if_unchanged(
                &self,
                path: impl IntoLocation,
                version: FileVersion,
            ) -> Result<()> {
                let mut changes = self.borrow().change_set();
                changes.remove_file_if_unchanged(path, version)?;
                Ok(changes.commit()?)
            }

            $(
                fn $name(&self, path: impl IntoLocation, $($argument: $type),*) -> Result<$result> {
                    self.borrow().check(path, $intent)?.$name($($argument),*)
                }
            )*
        }
    };
}

one_step! {
    atomic_file(options: WriteOptions) -> AtomicFile, new(options);
    create_dir() -> (), Intent::NewTree;
    open_unguarded_dir() -> OwnedFd, Intent::Existing;
    read_link() -> PathBuf, Intent::NoFollow;
    remove_dir() -> (), Intent::NoFollow;
    set_attribute(attribute: Attribute) -> (), Intent::Existing;
    version(limit: u64) -> FileVersion, Intent::Existing;
}

impl OneStep for Roots {}

fn new(options: WriteOptions) -> Intent {
    if options == options.create_parents() { Intent::NewTree } else { Intent::New }
}
