//! What this node knows of one block.

use cards_admin::{Block, ByteRange, Course, Holder, Lease, Refusal, RefusalKind};
use cards_core::policy::Asker;
use cards_core::{BlockId, Explanation, Instant, NodeId, PgId, Route, UnderWay};

use crate::node::Node;

/// What the shard of the block knows.
///
/// # Errors
/// The volume is not known, or the block is beyond its end.
pub(super) fn here(node: &Node, block: BlockId) -> Result<Block, Refusal> {
    let now = node.now();
    let shard = block.shard(node.shard_count());
    let explained = node.shards[usize::from(shard)].lock().shard.explain(now, block);
    let explanation = explained.ok_or_else(|| unknown(block.volume))?;
    let size = node.control().volumes().find(|spec| spec.id == block.volume).map(|spec| spec.size_bytes);
    Ok(describe(node, now, size.unwrap_or(u64::MAX), &explanation))
}

/// What a request of another node for the block would lead to here.
///
/// # Errors
/// The volume is not known.
pub(super) fn asked(node: &Node, block: BlockId, asker: Asker) -> Result<Course, Refusal> {
    let now = node.now();
    let shard = block.shard(node.shard_count());
    let route = node.shards[usize::from(shard)].lock().shard.explain_request(now, block, asker);
    route.map(|route| course(node, route)).ok_or_else(|| unknown(block.volume))
}

fn unknown(volume: PgId) -> Refusal {
    let message =
        format!("it does not know volume number {}; it may have been started a moment ago", volume.0);
    Refusal { kind: RefusalKind::NoSuchVolume, message }
}

fn describe(node: &Node, now: Instant, size: u64, explanation: &Explanation) -> Block {
    let name = |of: NodeId| node.name(of);
    let bytes = node.arena.block() as u64;
    // A lock is on whole regions, the last of which may reach beyond the volume's end.
    let range = |(first, last): (u32, u32)| ByteRange {
        start: u64::from(first) * bytes,
        end: ((u64::from(last) + 1) * bytes).min(size),
    };
    let holders = explanation.holders.iter().map(|holder| Holder {
        node: name(holder.node),
        generation: holder.generation.0,
        reads_only: holder.reads_only,
        lost: holder.lost,
        held: holder.held.map(range),
    });
    let under_way = explanation.under_way.map(|waits| match waits {
        UnderWay::Waits => "the card, or the end of a write".into(),
        UnderWay::Lock => "the lock on a range around the block".into(),
        UnderWay::Place => "a place in the cache".into(),
        UnderWay::Asked(peer) => format!("the answer of {}", name(peer)),
        UnderWay::Disk => "the disk here".into(),
    });
    Block {
        home: name(explanation.home),
        cached: explanation.cached,
        locked: explanation.locked,
        hosted: explanation.hosted,
        ahead: explanation.ahead,
        leaving_to: explanation.leaving_to.map(name),
        under_way,
        being_written: explanation.is_being_written,
        previous: explanation.previous.map(name),
        next: explanation.next.map(name),
        believed_holders: explanation.believed_holders.iter().map(|&holder| name(holder)).collect(),
        card: explanation.card.map(|card| Lease {
            generation: card.generation.0,
            lease_ms: card.lease_until.map(|until| until.since(now).as_millis() as u64),
        }),
        held: explanation.held.map(range),
        asks_lock: explanation.asks_lock,
        course: course(node, explanation.route),
        holders: holders.collect(),
        last_writer: explanation.last_writer.map(name),
    }
}

fn course(node: &Node, route: Route) -> Course {
    match route {
        Route::Served => Course::Served,
        Route::Joins => Course::Joins,
        Route::WaitsForCard => Course::WaitsForCard,
        Route::WaitsForWrite => Course::WaitsForWrite,
        Route::WaitsForLock => Course::WaitsForLock,
        Route::Disk => Course::Disk,
        Route::Asks { node: to, from_disk } => Course::Asks { to: node.name(to), from_disk },
        Route::Fails(_) => Course::Fails,
    }
}
