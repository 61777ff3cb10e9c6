//! How good the hints are in the end. Nothing depends on it but speed.

use std::collections::HashSet;

use cards_core::BlockId;

use crate::run::Run;

/// Index entries that lead to a node without a copy. They cost a hop, never a wrong byte.
pub(crate) fn stale_hints(run: &Run) -> u64 {
    let mut stale = 0;
    for spec in &run.options.world.volumes {
        let spots = 0..run.options.spots(spec);
        for block in spots.map(|number| BlockId::new(spec.id, run.options.spot(number))) {
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
