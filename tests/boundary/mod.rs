//! From configuration and client lists to the roots in force.

#[cfg(target_os = "linux")]
pub(crate) mod options;
pub(crate) mod roots;
