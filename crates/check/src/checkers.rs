//! Those who judge a run. None of them draws random numbers.

pub mod errors;
pub mod linearizable;

use std::collections::HashSet;

use cards_core::{BlockId, Coherence, Stats};
use cards_world::initial_tag;

use crate::history::Step;
use crate::run::Run;

/// What clients read is what clients wrote, and so is what the disks hold at the end. Returns the number of
/// operations judged.
pub(crate) fn contents(run: &mut Run) -> Result<u64, String> {
    let specs = run.options.world.volumes.clone();
    for spec in &specs {
        for sector in 0..run.world.media(spec.id).sectors() {
            let now = run.tick();
            let tag = run.world.media(spec.id).tag(sector);
            run.history.read((spec.id, sector), tag, now, now);
        }
    }
    let mut judged = 0;
    for ((volume, sector), ops) in run.history.iter() {
        let spec = specs.iter().find(|spec| spec.id == volume).expect("a volume of the run");
        let initial = initial_tag(volume, sector);
        judged += ops.len() as u64;
        let verdict = match spec.coherence {
            Coherence::Confirmed => linearizable::check(initial, ops),
            Coherence::Policy => written(initial, ops),
        };
        let blocks = run.options.world.sectors;
        verdict.map_err(|story| {
            format!("sector {sector} of {volume:?} (block {}) is {story}", sector / u64::from(blocks))
        })?;
    }
    Ok(judged)
}

/// All that is promised without coherence: what is read was written, before.
fn written(initial: u64, ops: &[crate::history::Op]) -> Result<(), String> {
    let begun = |tag: u64, by: Step| ops.iter().any(|op| op.write && op.tag == tag && op.invoked < by);
    match ops.iter().find(|op| !op.write && op.tag != initial && !begun(op.tag, op.returned)) {
        Some(op) => Err(format!("made up: step {} reads {:#x}, which nobody wrote", op.returned, op.tag)),
        None => Ok(()),
    }
}

/// Where the disk node believes that a card has given its lock up, that card has no copies, and will ask.
pub(crate) fn exclusion(run: &Run) -> Result<(), String> {
    for disk_node in run.running_nodes() {
        for (number, shard) in run.world.shards(disk_node).enumerate() {
            for (volume, node, generation, blocks) in shard.given_up_ranges() {
                if !run.world.is_running(node) {
                    continue;
                }
                let Some(card) = run.world.shards(node).nth(number) else { continue };
                let holds = |&index: &u32| card.may_use(BlockId::new(volume, index));
                if card.card(volume) == Some(generation)
                    && let Some(index) = blocks.into_iter().find(holds)
                {
                    return Err(format!(
                        "{disk_node:?} believes that {node:?} has no lock on block {index} of {volume:?}, but it has"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// When nothing is going on, nothing is held.
pub(crate) fn leaks(run: &Run) -> Result<(), String> {
    for node in run.running_nodes() {
        let (slots, buffers) = run.world.in_use(node);
        if slots + buffers > 0 {
            return Err(format!("{node:?} still uses {slots} slots and {buffers} buffers at the end"));
        }
        for (number, shard) in run.world.shards(node).enumerate() {
            if !shard.is_quiet() {
                return Err(format!("{node:?}.{number} is still at work at the end"));
            }
        }
    }
    Ok(())
}

/// Every read is counted once, and where it came from. Returns the sum over all nodes.
pub(crate) fn counters(run: &Run) -> Result<Stats, String> {
    let mut sum = Stats::default();
    for node in run.running_nodes() {
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

/// Many nodes that ask for one cold block cost one disk read.
pub(crate) fn single_flight(run: &mut Run) -> Result<(), String> {
    for spec in run.options.world.volumes.clone() {
        // A network-attached disk's node keeps nothing. Then somebody must know who has asked already.
        if spec.network_attached && !spec.policy.starts_with("hscc") {
            continue;
        }
        let reads = run.world.models().disk_reads.get(&spec.id).copied().unwrap_or(0);
        if reads != spec.blocks() {
            return Err(format!(
                "all nodes together read {} blocks of {:?} ({}) once each, the disk was asked {reads} times",
                spec.blocks(),
                spec.id,
                spec.policy
            ));
        }
    }
    Ok(())
}

/// Index entries that lead to a node without a copy. They cost a hop, never a wrong byte.
pub(crate) fn stale_hints(run: &Run) -> u64 {
    let mut stale = 0;
    for spec in &run.options.world.volumes {
        for block in (0..spec.blocks() as u32).map(|index| BlockId::new(spec.id, index)) {
            let shard = usize::from(block.shard(run.options.world.shards));
            let holders: HashSet<_> = run
                .running_nodes()
                .into_iter()
                .filter(|node| run.world.shards(*node).nth(shard).is_some_and(|shard| shard.contains(block)))
                .collect();
            for node in run.running_nodes() {
                let (_, next) =
                    run.world.shards(node).nth(shard).expect("a shard of the node").index_entry(block);
                stale += u64::from(next.is_some_and(|next| !holders.contains(&next)));
            }
        }
    }
    stale
}
