//! Which requests are allowed, and what a refusal says.

#[cfg(target_os = "linux")]
pub(crate) mod access;
pub(crate) mod checked_path;
#[cfg(target_os = "linux")]
pub(crate) mod comparison;
pub(crate) mod decisions;
pub(crate) mod error_texts;
#[cfg(target_os = "linux")]
pub(crate) mod exhaustive;
pub(crate) mod links;
#[cfg(target_os = "linux")]
pub(crate) mod lookup_limits;
#[cfg(target_os = "linux")]
pub(crate) mod random_policies;
pub(crate) mod nested;
pub(crate) mod scope;
pub(crate) mod within;
