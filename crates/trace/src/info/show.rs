//! A page on a trace, for people.

use std::fmt;

use super::Info;

/// Sizes of the LRU caches that are shown, in percent of the different blocks.
const CACHE_PERCENTS: [u64; 8] = [1, 2, 5, 10, 20, 40, 60, 80];
const PERCENTILES: [f64; 5] = [25.0, 50.0, 75.0, 90.0, 99.0];

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let mut row = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<32} {value}");
        row("requests", &self.requests)?;
        let mean = |count: u64, bytes: f64| format!("{count} of {bytes:.0} bytes on average");
        row("  reads", &mean(self.reads, self.mean_read_bytes()))?;
        row("  writes", &mean(self.writes, self.mean_write_bytes()))?;
        for (name, count) in [
            ("  trims", self.trims),
            ("  flushes", self.flushes),
            ("  opens and closes", self.metadata),
            ("  messages", self.sends),
        ] {
            if count > 0 {
                row(name, &count)?;
            }
        }
        row("reads among reads and writes", &percent(self.read_share()))?;
        if self.skipped.total() > 0 {
            row("left out or put right", &self.skipped)?;
        }
        match self.span {
            Some(span) => row("time", &format!("{:.3} s", span.as_secs_f64()))?,
            None => row("time", &"not recorded")?,
        }
        let (nodes, processes, volumes) = (self.nodes, self.processes, self.volumes);
        row("nodes, processes, volumes", &format!("{nodes}, {processes}, {volumes}"))?;
        row("bytes read, written", &format!("{}, {}", self.bytes_read, self.bytes_written))?;
        row("block size", &self.block_bytes)?;
        row("block reads, writes", &format!("{}, {}", self.block_reads, self.block_writes))?;
        if self.sample > 1 {
            row("the rest is estimated from", &format!("one block in {}", self.sample))?;
        }
        row("different blocks", &format!("{} ({} bytes)", self.blocks, self.footprint_bytes()))?;
        let of_blocks = percent(self.shared_block_share());
        row("  touched by several nodes", &format!("{} ({of_blocks})", self.shared_blocks))?;
        let of_reads = |count: u64, share: f64| format!("{count} ({} of the block reads)", percent(share));
        row("reads after another node", &of_reads(self.reads_after_other, self.after_other_share()))?;
        let written = of_reads(self.reads_after_write_of_other, self.after_write_of_other_share());
        row("reads of another node's write", &written)?;
        for wanted in PERCENTILES {
            let name = format!("reuse distance, {wanted:.0} % up to");
            match self.reuse.percentile(wanted) {
                Some(distance) => row(&name, &format!("{distance} blocks"))?,
                None => row(&name, &"no reuse")?,
            }
        }
        for size in CACHE_PERCENTS {
            let blocks = (self.blocks * size / 100).max(1);
            let ratio = percent(self.reuse.lru_hit_ratio(blocks));
            row(&format!("LRU cache of {size} %"), &format!("{ratio} hits ({blocks} blocks)"))?;
        }
        Ok(())
    }
}
