//! Random numbers that are the same on every machine and in every version: Marsaglia's xorshift64.

pub(crate) struct Rng(u64);

impl Rng {
    /// A generator whose numbers follow from `seed` alone.
    pub(crate) fn new(seed: u64) -> Self {
        // The state must not be zero; the odd factor spreads small seeds over all bits.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from -1 up to 1, on a grid of 2^-15.
    pub(crate) fn uniform(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let [high, low, ..] = self.0.to_be_bytes();
        f32::from(i16::from_be_bytes([high, low])) / 32_768.0
    }
}
