//! Random numbers from a seed.

/// The splitmix64 sequence.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Create the stream `stream` of a seed: draws from one stream do not affect another.
    #[must_use]
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed, stream))
    }

    /// Return the next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finish(self.0)
    }

    /// Return a number in `0..bound`; `bound` is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// Return a number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Return an index of a slice with `len` elements.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Return true in `percent` of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn finish(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Mix a value into a hash.
#[must_use]
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    finish(hash.rotate_left(23) ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
