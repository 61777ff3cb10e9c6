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
    /// Bytes per second of the modelled disk; 0 is no limit.
    pub(super) disk_rate: u64,
    /// The share of the processors that other programs used during the second reading.
    pub(super) others: f64,
}

/// From this ratio of the two times on, the difference is the disk's and not chance.
const FASTER: f64 = 2.0;
/// From this share of the processors on, other programs are the reason for a slow reading.
pub(super) const BUSY: f64 = 0.25;

impl Report {
    /// What came of it, by counting: blocks do not depend on how busy the machine is.
    fn spared(&self) -> String {
        let [_, warm] = &self.passes;
        let c = &warm.counters;
        let mut text = format!(
            "Of the {} blocks that node 3 read, {} came out of the memory of other nodes, {} from the disk.",
            count(c.reads),
            count(c.remote_hits),
            count(c.disk_reads)
        );
        if self.disk_rate > 0 && c.remote_hits > 0 {
            let bytes = warm.bytes as f64 * c.remote_hits as f64 / c.reads.max(1) as f64;
            text +=
                &format!(" The disk would\n  have needed {:.1} s for them", bytes / self.disk_rate as f64);
            text += &format!("; node 3 took {:.2} s in all.", warm.elapsed.as_secs_f64());
        }
        text
    }

    /// What the times say, or why they say nothing.
    fn speed(&self) -> String {
        let [cold, warm] = &self.passes;
        let ratio = warm.bytes_per_second() / cold.bytes_per_second();
        let percent = 100.0 * self.others;
        match ratio {
            FASTER.. => format!("Node 3 was {ratio:.1} times as fast as node 2."),
            _ if self.others >= BUSY => format!(
                "The times do not compare the disk with the caches: this machine is busy. Other programs used {percent:.0} % of\n  \
                 its processors while node 3 read; run this again when they have ended."
            ),
            _ if self.disk_rate == 0 => {
                "The times do not compare the disk with the caches: the disk is as fast as they are here; add --disk-rate 60M.".into()
            }
            _ => "The times do not compare the disk with the caches: the processors of this machine were the limit, not the disk;\n  \
                  a lower --disk-rate shows the difference."
                .into(),
        }
    }
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
        let reads: u64 = self.passes.iter().map(|pass| pass.counters.reads).sum();
        writeln!(f, "{table}\n  {}\n  {}", self.spared(), self.speed())?;
        writeln!(
            f,
            "  The disk read {} blocks for {} that were asked for. Every byte was compared with the disk image.",
            count(self.disk_reads),
            count(reads)
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
        let report = |cold, warm, others, disk_rate| Report {
            passes: [pass("cold", cold, 96, 0, 4000), pass("warm", warm, 96, 4000, 0)],
            disk_reads: 4096,
            disk_rate,
            others,
        };
        let text = report(8, 1, 0.0, 32 << 20).to_string();
        for part in [
            "8.0 times as fast",
            "32 MiB/s",
            "256 MiB/s",
            "4 096 blocks for 8 192",
            "Of the 4 096 blocks that node 3 read, 4 000 came out of the memory of other nodes, 0 from the disk.",
            "have needed 7.8 s for them; node 3 took 1.00 s in all.",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        // What is counted is said all the same; what is not measured is not.
        for (slow, why) in [
            (report(8, 8, 0.93, 32 << 20), "this machine is busy. Other programs used 93 % of"),
            (report(8, 7, 0.1, 32 << 20), "the processors of this machine were the limit"),
            (report(1, 1, 0.1, 0), "add --disk-rate"),
        ] {
            let text = slow.to_string();
            assert!(text.contains(why) && text.contains("4 000 came out of the memory"), "{text}");
            assert!(!text.contains("times as fast"), "{text}");
        }
    }
}
