//! When nothing is going on, nothing is held: no slots, no buffers, no timers, no cards of the dead.

use cards_core::{ControlTimer, Instant, NodeId, Timer};

use crate::run::Run;

/// Looks at every node when the run is healed and quiet. Returns the number of shards looked at.
pub(crate) fn leaks(run: &Run) -> Result<u64, String> {
    let mut judged = 0;
    for node in run.running_nodes() {
        let (slots, buffers) = run.world.in_use(node);
        if slots + buffers > 0 {
            return Err(format!("{node:?} still uses {slots} slots and {buffers} buffers at the end"));
        }
        let withdrawals = run.world.withdrawals(node);
        if withdrawals > 0 {
            return Err(format!("{node:?} still waits for {withdrawals} withdrawals of pages at the end"));
        }
        shards(run, node)?;
        cards(run, node)?;
        judged += run.world.shards(node).count() as u64;
    }
    Ok(judged)
}

/// Some primary keeps what it has answered to a card that is gone.
pub(crate) fn answers_are_kept(run: &Run) -> bool {
    let shards = run.running_nodes().into_iter().flat_map(|node| run.world.shards(node));
    shards.filter_map(cards_core::Shard::next_timeout).any(|(_, timer)| matches!(timer, Timer::Answers(_)))
}

fn shards(run: &Run, node: NodeId) -> Result<(), String> {
    for (number, shard) in run.world.shards(node).enumerate() {
        if !shard.is_quiet() {
            return Err(format!("{node:?}.{number} is still at work at the end"));
        }
        let entries = shard.table_entries();
        if entries > 0 {
            return Err(format!("{node:?}.{number} is quiet, but has {entries} entries in its tables"));
        }
        // What is resident belongs to the volumes of the run, and there is no more than fits.
        let known: u64 = run.options.world.volumes.iter().map(|spec| shard.cached(spec.id)).sum();
        let (resident, capacity) =
            (u64::from(shard.resident()), run.options.world.nodes[usize::from(node.0)].capacity_blocks);
        if resident != known || resident > u64::from(capacity) {
            return Err(format!(
                "{node:?}.{number} caches {resident} blocks, {known} of them of volumes, and has room for {capacity}"
            ));
        }
        match shard.next_timeout() {
            None | Some((_, Timer::Policy(_))) => {}
            Some((at, timer)) => {
                return Err(format!("{node:?}.{number} is quiet, but {timer:?} is set for {at:?}"));
            }
        }
    }
    Ok(())
}

/// The disk node knows the cards of those who live, and no others.
fn cards(run: &Run, node: NodeId) -> Result<(), String> {
    let Some(control) = run.world.control(node) else { return Ok(()) };
    let leased = |spec: &&cards_core::VolumeSpec| run.world.primary(spec.id) == node && !spec.read_only;
    for spec in run.options.world.volumes.iter().filter(leased) {
        if let Some(dead) = control.cards_of(spec.id).find(|&other| !run.world.is_running(other)) {
            return Err(format!("{node:?} still has a card of {:?} for {dead:?}, which is dead", spec.id));
        }
    }
    match control.next_timeout() {
        Some((at, timer @ (ControlTimer::Attach(_) | ControlTimer::Request(_) | ControlTimer::Grace(_))))
            if at != Instant::NEVER =>
        {
            Err(format!("{node:?} has nothing to ask for at the end, but {timer:?} is set for {at:?}"))
        }
        _ => Ok(()),
    }
}
