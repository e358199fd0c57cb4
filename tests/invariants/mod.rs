//! What must hold for any input.
//!
//! Goes in: any bytes. What is proven stands in each module; its function `hold` is that of the fuzz target of the same
//! name, and `seeds` replays it over committed seeds.

pub(crate) mod check;
pub(crate) mod contain;
pub(crate) mod location;
pub(crate) mod session;
pub(crate) mod wire;
