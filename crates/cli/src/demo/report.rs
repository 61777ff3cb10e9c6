//! Where every block came from.

use std::fmt;
use std::time::Duration;

use cards_admin::Counters;
use cards_config::size;

use crate::table::{Align, Table, count};

/// One node's reading of the whole volume.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) what: &'static str,
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    /// What the node counted meanwhile.
    pub(super) counters: Counters,
}

impl Pass {
    fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Two readings, cold and warm.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) passes: [Pass; 2],
    /// Blocks read from the disk for both.
    pub(super) disk_reads: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = Align::Right;
        let mut table = Table::new(&[
            ("", Align::Left),
            ("blocks", right),
            ("local cache", right),
            ("peer's cache", right),
            ("disk", right),
            ("time", right),
            ("speed", right),
        ]);
        for pass in &self.passes {
            let c = &pass.counters;
            table.row([
                pass.what.into(),
                count(c.reads),
                count(c.local_hits),
                count(c.remote_hits),
                count(c.disk_reads),
                format!("{:.2} s", pass.elapsed.as_secs_f64()),
                format!("{}/s", size::human(pass.bytes_per_second() as u64)),
            ]);
        }
        let [cold, warm] = &self.passes;
        let reads = cold.counters.reads + warm.counters.reads;
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "  Node 3 was {:.1} times as fast as node 2. The disk read {} blocks for {} that were asked for:",
            warm.bytes_per_second() / cold.bytes_per_second(),
            count(self.disk_reads),
            count(reads)
        )?;
        writeln!(
            f,
            "  it was spared {} blocks. Every byte was compared with the disk image.",
            count(reads.saturating_sub(self.disk_reads))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effect_is_stated() {
        let pass = |what, seconds, local_hits, remote_hits, disk_reads| Pass {
            what,
            bytes: 256 << 20,
            elapsed: Duration::from_secs(seconds),
            counters: Counters { reads: 4096, local_hits, remote_hits, disk_reads, ..Counters::default() },
        };
        let report =
            Report { passes: [pass("cold", 8, 96, 0, 4000), pass("warm", 1, 96, 4000, 0)], disk_reads: 4096 };
        let text = report.to_string();
        for part in ["8.0 times", "32 MiB/s", "256 MiB/s", "4 096 blocks for 8 192", "spared 4 096 blocks"] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
