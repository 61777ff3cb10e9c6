//! What clients read is what they wrote, and so is what the disks hold in the end.

use std::collections::BTreeSet;

use cards_core::Coherence;
use cards_world::initial_tag;

use super::linearizable;
use crate::history::{Op, Step};
use crate::run::Run;

/// What clients read is what clients wrote, and so is what the disks hold at the end. Returns the number of
/// operations judged.
pub(crate) fn contents(run: &mut Run) -> Result<u64, String> {
    let specs = run.options.world.volumes.clone();
    for spec in &specs {
        // No other sector can be anything but what it was at first.
        let touched = run.history.of_volume(spec.id).map(|((_, sector), _)| sector);
        let sectors: BTreeSet<u64> = touched.chain(run.world.media(spec.id).written_sectors()).collect();
        for sector in sectors {
            let now = run.tick();
            let tag = run.world.media(spec.id).tag(sector);
            run.history.read((spec.id, sector), tag, now, now);
        }
    }
    let mut judged = 0;
    for ((volume, sector), ops) in run.history.iter() {
        if run.observers.is_doubtful(volume, sector / u64::from(run.options.world.sectors)) {
            continue;
        }
        let spec = specs.iter().find(|spec| spec.id == volume).expect("a volume of the run");
        let initial = initial_tag(volume, sector);
        judged += ops.len() as u64;
        let losses = run.history.losses((volume, sector));
        let verdict = match spec.coherence {
            Coherence::Confirmed if losses.is_empty() => linearizable::check(initial, ops),
            Coherence::Confirmed => linearizable::check(initial, &[ops, losses].concat()),
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
fn written(initial: u64, ops: &[Op]) -> Result<(), String> {
    let begun = |tag: u64, by: Step| ops.iter().any(|op| op.write && op.tag == tag && op.invoked < by);
    match ops.iter().find(|op| !op.write && op.tag != initial && !begun(op.tag, op.returned)) {
        Some(op) => Err(format!("made up: step {} reads {:#x}, which nobody wrote", op.returned, op.tag)),
        None => Ok(()),
    }
}
