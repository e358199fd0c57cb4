//! What must hold for any input.
//!
//! Goes in: any bytes. What is proven stands in each module; its function `hold` is that of the fuzz target of the same
//! name, and `seeds` replays it over committed seeds. What decides whether it holds is not the guard's own code: a naive rule
//! ([`model`](crate::support::model)) and the kernel ([`kernel`](crate::support::kernel)), on trees made from text ([`world`](crate::support::world)).

#[cfg(unix)]
pub(crate) mod location;
pub(crate) mod windows;
#[cfg(unix)]
pub(crate) mod contain;
#[cfg(target_os = "linux")]
pub(crate) mod check;
#[cfg(target_os = "linux")]
pub(crate) mod operations;
pub(crate) mod wire;
pub(crate) mod session;
