//! Every bound of this crate, and what keeps to it.
//!
//! Each input is bounded in CPU time and memory. A bound that a request or a client hits is a
//! refusal that names it.

mod budget;
mod throttle;

pub use budget::LOOKUPS;
pub(crate) use budget::{Budget, Effort, NAMES_PER_LOOKUP};
pub use throttle::VERIFY_EVERY;
pub(crate) use throttle::{Due, Start, Turns};
