//! What a card has heard to be complete is complete: by the word of the primary whose term the stamps are of.

use cards_core::PgId;

use crate::run::Run;

/// Compares what all cards have heard with what their primaries know. Returns the number of those that could be judged.
pub(crate) fn heard(run: &Run) -> Result<u64, String> {
    let mut judged = 0;
    let volumes: Vec<PgId> = run.options.world.volumes.iter().map(|spec| spec.id).collect();
    for node in run.running_nodes() {
        for (number, card) in run.world.shards(node).enumerate() {
            for &volume in &volumes {
                let primary = run.world.shards(run.world.primary(volume)).nth(number);
                let (Some((_, heard)), Some((first, through))) =
                    (card.heard(volume), primary.and_then(|primary| primary.complete(volume)))
                else {
                    continue;
                };
                // What it has heard of other terms says nothing of this one.
                judged += u64::from(heard > first);
                if heard > through && heard.0 >> 20 == first.0 >> 20 {
                    return Err(format!(
                        "{node:?} has heard that all writes to {volume:?} up to {heard:?} are complete, which are so up to {through:?}"
                    ));
                }
            }
        }
    }
    Ok(judged)
}
