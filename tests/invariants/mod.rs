//! What must hold for any input.
//!
//! Goes in: any bytes. What is proven stands in each module; its function `hold` is that of the fuzz target of the same
//! name, and `seeds` replays it over committed seeds. What decides whether it holds is not the guard's own code: a naive rule
//! ([`model`]) and the kernel ([`kernel`]), on trees made from text ([`world`]).

pub(crate) mod model;
pub(crate) mod kernel;
pub(crate) mod world;
pub(crate) mod location;
pub(crate) mod contain;
pub(crate) mod check;
pub(crate) mod operations;
pub(crate) mod wire;
pub(crate) mod session;
