//! The steps of a window of reads, summed.

use crate::costs::Costs;
use crate::path::Path;

/// What is not on a read's path keeps processors and links busy that other reads wait for: it costs so much of what it would
/// cost on the path.
const BESIDE: f64 = 0.5;

/// Steps that reads waited for, and those beside them and of writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    reads: u32,
    path: Path,
    beside: Path,
}

impl Steps {
    /// A reference has led to these.
    pub(crate) fn add(&mut self, is_read: bool, path: Path, beside: Path) {
        self.reads += u32::from(is_read);
        self.path = self.path + path;
        self.beside = self.beside + beside;
    }

    /// Mean nanoseconds of a read.
    pub(crate) fn mean_ns(&self, costs: &Costs) -> f64 {
        let price = |Path { hops, blocks, disks }: Path| {
            f64::from(hops) * costs.hop + f64::from(blocks) * costs.block + f64::from(disks) * costs.disk
        };
        costs.own + (price(self.path) + BESIDE * price(self.beside)) / f64::from(self.reads.max(1))
    }
}
