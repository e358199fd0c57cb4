//! A random number generator for tests, which print their seed when they fail.

use std::time::{SystemTime, UNIX_EPOCH};

/// The 64-bit xorshift generator (Marsaglia, 2003).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A different seed for each run.
    pub(crate) fn seed() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos()) + 1
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
}
