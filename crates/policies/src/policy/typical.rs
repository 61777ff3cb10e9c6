//! Times that blocks take, as policies remember them.

/// Nanoseconds; what takes longer costs no more. So products of times and shares fit.
pub(in crate::policy) const LONGEST: u64 = 1 << 40;

/// A time that about half of the measured ones exceed, in nanoseconds; zero before the first.
#[derive(Clone, Copy, Default)]
pub(in crate::policy) struct Typical(pub(in crate::policy) u64);

impl Typical {
    /// Goes an eighth of the way at most, so that single times that are far off mean little.
    pub(in crate::policy) fn add(&mut self, ns: u64) {
        let ns = ns.min(LONGEST);
        let step = self.0 / 16 + 1;
        self.0 = match self.0 {
            0 => ns.max(1),
            usual if ns > usual => (usual + step).min(ns),
            usual => usual.saturating_sub(step).max(ns).max(1),
        };
    }

    pub(in crate::policy) fn get(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}
