//! When all is quiet, all columns of a group are in sync, and the same.

use crate::run::Run;

/// Compares the columns of all groups, with those of their primaries.
pub(crate) fn mirrors(run: &Run) -> Result<(), String> {
    let counts = run.world.mirror_counts();
    if run.options.one_at_a_time && (counts.lives, counts.in_doubt) != (1, 0) {
        return Err(format!("one column was away at a time, and something was forgotten: {counts:?}"));
    }
    for mirror in &run.options.world.mirrors {
        let volume = mirror.volume;
        if !run.world.is_placed(volume) {
            return Err(format!("a column of {volume:?} has not given way to another one at the end"));
        }
        let rotten = run.world.rotten(volume);
        if !rotten.is_empty() {
            return Err(format!("units of {volume:?} do not fit their checksums after a scrub: {rotten:?}"));
        }
        let in_sync: Vec<_> = run.world.columns_in_sync(volume).collect();
        let nodes: Vec<_> = in_sync.iter().map(|(node, _)| *node).collect();
        let columns = run.world.column_nodes(volume);
        if let Some(node) = columns.iter().find(|node| !nodes.contains(node)) {
            return Err(format!(
                "the column of {volume:?} at {node:?} is not in sync at the end, only {nodes:?}"
            ));
        }
        if columns.len() != mirror.columns.len() {
            return Err(format!(
                "{volume:?} has columns at {columns:?} at the end, and had {:?}",
                mirror.columns
            ));
        }
        let primary = run.world.media(volume);
        for (node, media) in in_sync {
            let differs = |sector: &u64| media.tag(*sector) != primary.tag(*sector);
            if let Some(sector) = (0..media.sectors()).find(differs) {
                return Err(format!(
                    "sector {sector} of {volume:?} is {:#x} at {node:?}, and {:#x} at its primary",
                    media.tag(sector),
                    primary.tag(sector)
                ));
            }
        }
    }
    Ok(())
}
