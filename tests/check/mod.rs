//! Which requests are allowed, and what a refusal says.

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
pub(crate) mod within;
