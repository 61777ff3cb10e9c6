//! Locks exclude each other: where a card writes without asking another, that one uses no copy without asking.

use cards_core::BlockId;

use crate::run::Run;

/// Where the disk node believes that a card has given its lock up, that card has no copies, and will ask. Returns the
/// number of ranges looked at.
pub(crate) fn exclusion(run: &Run) -> Result<u64, String> {
    let mut judged = 0;
    for disk_node in run.running_nodes() {
        for (number, shard) in run.world.shards(disk_node).enumerate() {
            for (volume, node, generation, blocks) in shard.given_up_ranges() {
                if !run.world.is_running(node) {
                    continue;
                }
                let Some(card) = run.world.shards(node).nth(number) else { continue };
                if card.card(volume) != Some(generation) {
                    continue;
                }
                judged += 1;
                let holds = |&index: &u32| card.may_use(BlockId::new(volume, index));
                if let Some(index) = blocks.into_iter().find(holds) {
                    return Err(format!(
                        "{disk_node:?} believes that {node:?} has no lock on block {index} of {volume:?}, but it has"
                    ));
                }
            }
        }
    }
    Ok(judged)
}
