//! From configuration and client lists to the roots in force.

#[cfg(unix)]
pub(crate) mod host;
#[cfg(unix)]
pub(crate) mod deployments;
#[cfg(unix)]
pub(crate) mod narrowing;
#[cfg(unix)]
pub(crate) mod nothing;
#[cfg(target_os = "linux")]
pub(crate) mod options;
#[cfg(target_os = "linux")]
pub(crate) mod planted;
pub(crate) mod roots;
