//! Chance that can be had again.

/// A generator of numbers that is the same in every run with the same seed.
pub struct Numbers(u64);

/// What `MGMT_SEED` says, or one.
pub fn seed() -> u64 {
    std::env::var("MGMT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

impl Numbers {
    /// A generator that starts from a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper bits are the better ones.
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    /// One of several, which are not none.
    pub fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}
