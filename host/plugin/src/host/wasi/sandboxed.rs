//! WASI state of an instance: a clock, a seed and two unfinished lines.

/// WASI state of an instance.
#[derive(Debug, Default)]
pub(crate) struct Wasi {
    /// The monotonic clock of the guest, nanoseconds since the instance began.
    pub(super) clock: u64,
    /// State of the random generator.
    seed: u64,
    /// Output to stdout and to stderr since the last end of line.
    pub(crate) unfinished: [Vec<u8>; 2],
}

/// Clock and seed of an instance at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WasiStart {
    clock: u64,
    seed: u64,
}

impl Wasi {
    /// The clock and the seed, from which a later request begins as the first one did.
    pub(crate) fn start(&self) -> WasiStart {
        WasiStart { clock: self.clock, seed: self.seed }
    }

    /// Sets clock and seed back.
    pub(crate) fn begin_again(&mut self, start: WasiStart) {
        (self.clock, self.seed) = (start.clock, start.seed);
    }

    /// The next random number (SplitMix64, which needs no more than a counter).
    pub(super) fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_are_the_same_every_time() {
        let (mut own, mut two) = (Wasi::default(), Wasi::default());
        let first = own.random();
        assert_eq!(first, two.random());
        assert_ne!(first, own.random());
    }
}
