//! What depends on the operating system.

#[cfg(all(target_os = "linux", feature = "process"))]
pub(crate) mod child;
#[cfg(target_os = "linux")]
pub(crate) mod folding_filesystem;
#[cfg(target_vendor = "apple")]
pub(crate) mod macos_names;
#[cfg(target_os = "linux")]
pub(crate) mod mounts;
#[cfg(windows)]
pub(crate) mod windows_filesystem;
#[cfg(target_os = "linux")]
pub(crate) mod without_openat2;
