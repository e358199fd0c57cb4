//! What the operations do on the filesystem.

pub(crate) mod copy;
#[cfg(target_os = "linux")]
pub(crate) mod crash;
#[cfg(target_os = "linux")]
pub(crate) mod directories;
pub(crate) mod entries;
#[cfg(target_os = "linux")]
pub(crate) mod failures;
pub(crate) mod open_file;
#[cfg(target_os = "linux")]
pub(crate) mod operate;
pub(crate) mod operations;
#[cfg(target_os = "linux")]
pub(crate) mod permissions;
pub(crate) mod protected;
#[cfg(target_os = "linux")]
pub(crate) mod protected_attacks;
#[cfg(target_os = "linux")]
pub(crate) mod races;
#[cfg(target_os = "linux")]
pub(crate) mod syscall_counts;
#[cfg(target_os = "linux")]
pub(crate) mod syscall_trace;
#[cfg(target_os = "linux")]
pub(crate) mod trailing_slashes;
pub(crate) mod writing;
