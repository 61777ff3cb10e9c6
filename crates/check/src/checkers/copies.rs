//! A copy that may be used is what the disk holds, unless a write to its block is in hand.
//!
//! This finds a stale copy that no client happens to read.

use crate::run::Run;

/// Compares the copies of all nodes. Returns the number of those that could be judged.
pub(crate) fn copies(run: &Run) -> Result<u64, String> {
    let mut judged = 0;
    for node in run.running_nodes() {
        for (number, block, tags) in run.world.copies(node) {
            let (volume, primary_node) = (block.volume, run.world.primary(block.volume));
            if run.observers.is_doubtful(volume, u64::from(block.index)) {
                continue;
            }
            let is_fixed = run.options.world.volumes.iter().any(|spec| spec.id == volume && spec.read_only);
            let Some(primary) = run.world.shards(primary_node).nth(number) else { continue };
            if node != primary_node && !is_fixed {
                let Some(card) = run.world.shards(node).nth(number) else { continue };
                // None: the card is not the one that the primary knows, and its lease tells what it may do.
                let generation = card.heard(volume).map(|(generation, _)| generation);
                if generation.and_then(|known| primary.may_hold_lock(node, known, block)).is_none() {
                    continue;
                }
            }
            // Nor is that of a primary that has yet to hear of it: until then its card is one of the last term.
            if node == primary_node && primary.heard(volume).is_some() {
                continue;
            }
            if primary.is_in_hand(block) {
                continue;
            }
            judged += 1;
            let disk = run.world.contents(block);
            if tags != disk {
                return Err(format!(
                    "{node:?} may use a copy of {block:?} that is {tags:x?}, and the disk has {disk:x?}"
                ));
            }
        }
    }
    Ok(judged)
}
