//! The primary's directory names at least what cards hold: where a card is not asked before a write, it uses no copy.

use crate::run::Run;

/// Every segment whose blocks a card may use without asking is one that the directory of its disk node names the card for.
/// Returns the number of segments looked at.
pub(crate) fn exclusion(run: &Run) -> Result<u64, String> {
    let mut judged = 0;
    for node in run.running_nodes() {
        for (number, card) in run.world.shards(node).enumerate() {
            for (volume, generation, block) in card.held_segments() {
                let disk_node = run.world.primary(volume);
                if !run.world.is_running(disk_node) {
                    continue;
                }
                let Some(primary) = run.world.shards(disk_node).nth(number) else { continue };
                // None: the card is not the one that the disk node knows, and its lease tells what it may do.
                let Some(named) = primary.may_hold_lock(node, generation, block) else { continue };
                judged += 1;
                if !named {
                    return Err(format!(
                        "{node:?} holds the lock on {block:?}, and {disk_node:?} would not ask it"
                    ));
                }
            }
        }
    }
    Ok(judged)
}
