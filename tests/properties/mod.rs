//! Properties that hold for every input.
//!
//! Each module describes its input, which is any bytes, and its properties. Its function `hold` is
//! called by the fuzz target of the same name, and the test `fuzz_seeds` calls it with the
//! committed seeds. The oracles are independent of the guard's code: a naive rule
//! ([`model`](crate::support::model)) and the kernel ([`kernel`](crate::support::kernel)), on trees
//! built from text ([`world`](crate::support::world)).

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
