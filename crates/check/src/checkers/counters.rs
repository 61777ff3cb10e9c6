//! The counters of the shards add up.

use cards_core::Stats;

use super::Observer;
use crate::run::Run;

/// Every read is counted once, and where it came from. Returns the sum over all nodes.
pub(crate) fn counters(run: &mut Run) -> Result<Stats, String> {
    let mut sum = Stats::default();
    for node in run.running_nodes() {
        run.observers.count(Observer::Counters, run.world.shards(node).count() as u64);
        for (number, shard) in run.world.shards(node).enumerate() {
            let stats = shard.stats();
            let answered = stats.local_hits + stats.remote_hits + stats.disk_reads;
            if stats.reads != answered {
                return Err(format!(
                    "{node:?}.{number} counts {} reads but {} local hits + {} remote hits + {} disk reads",
                    stats.reads, stats.local_hits, stats.remote_hits, stats.disk_reads
                ));
            }
            sum.add(stats);
        }
    }
    Ok(sum)
}
