//! The samples of this node, and of all: what clients ask for, for `cards advise`.

use std::sync::Arc;
use std::time::Duration;

use cards_admin::{Refusal, Sampled, Samples, Silent};
use cards_core::{PgId, VolumeSpec};
use tokio::sync::Notify;

use crate::inquiry::{self, Question};
use crate::node::Node;

/// References, and uses of blocks before them, that one other node sends: a third of it at most are references of up to
/// 30 bytes, the others are blocks of up to 11. An answer may have 1 MiB.
const REMOTE_MAX: usize = 60_000;
/// The same of all other nodes together.
const ALL_MAX: usize = 400_000;

/// How often the threads' rings are emptied while there is much in them, and while there is little. While there is nothing, nothing is
/// done.
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// References at a time that are much.
const MUCH: usize = 4096;

/// Empties the threads' rings from time to time while clients ask for blocks of samples; never ends.
pub(crate) async fn run(node: &Node) {
    let stirred = Arc::new(Notify::new());
    let stir = Arc::clone(&stirred);
    node.probe.on_sample(move || stir.notify_one());
    let mut pause = PAUSE_MAX;
    loop {
        let taken = node.probe.collect_samples(node.clock.now_and_utc_us());
        pause = if taken > MUCH { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
        match taken {
            0 => stirred.notified().await,
            _ => tokio::time::sleep(pause).await,
        }
    }
}

/// Blocks that the cache of this node has room for.
fn cache_blocks(node: &Node) -> u64 {
    node.config.cache / node.arena.block() as u64
}

/// What this node knows of the references to a volume; at most `most` of them, and blocks before.
///
/// # Errors
/// There is no such volume.
pub(crate) fn tell(node: &Node, volume: &str, most: usize) -> Result<Sampled, Refusal> {
    let spec = node.volume(volume).ok_or_else(|| Refusal::no_such_volume(volume))?;
    let (now, utc_us) = node.clock.now_and_utc_us();
    node.probe.collect_samples((now, utc_us));
    let (sample, marks) = node.probe.sample(spec.id, most, utc_us);
    let all = cache_blocks(node);
    Ok(Sampled {
        node: node.config.node.clone(),
        attached: node.cards.find(volume).is_some_and(|card| card.attach.volume == volume),
        disk_node: node.primary(spec.id) == Some(node.me),
        network_attached: spec.network_attached,
        policy: in_force(node, &spec),
        replacement: node.config.replacement,
        block: spec.block_bytes,
        cache_blocks: all,
        share_blocks: share_blocks(node, volume),
        lost: node.probe.samples_lost(),
        marks,
        sample,
    })
}

/// Blocks that the cache of this node has room for, without those that other volumes use now.
pub(crate) fn share_blocks(node: &Node, volume: &str) -> u64 {
    cache_blocks(node).saturating_sub(cached_of_others(node, volume)).max(1)
}

/// The policy that a volume has now.
fn in_force(node: &Node, spec: &VolumeSpec) -> String {
    let volume = node.volume_name(spec);
    let auto = node.policies.auto(&volume, &spec.policy).map(|auto| auto.in_force);
    auto.or_else(|| node.policies.modules.chosen(&volume)).unwrap_or_else(|| spec.policy.clone())
}

/// Blocks of other volumes in this node's cache.
fn cached_of_others(node: &Node, volume: &str) -> u64 {
    let own: Vec<PgId> = node.parts(volume).map(|parts| parts.ids().collect()).unwrap_or_default();
    let others: Vec<PgId> =
        node.control().volumes().map(|spec| spec.id).filter(|id| !own.contains(id)).collect();
    others.into_iter().map(|id| node.cached(id)).sum()
}

/// The same of all nodes, this one first. What a node does not tell is left out, with the reason.
///
/// # Errors
/// There is no such volume.
pub(crate) async fn tell_all(node: &Arc<Node>, volume: &str) -> Result<Samples, Refusal> {
    let mut nodes = vec![tell(node, volume, usize::MAX)?];
    let mut silent = Vec::new();
    let members = node.members().live().count();
    let most = (ALL_MAX / members.max(1)).min(REMOTE_MAX);
    let question = Question::Sample { volume: volume.into(), most };
    for (peer, answer) in inquiry::ask_members::<Sampled>(node, &question).await {
        match answer {
            // It has told all it knows above.
            _ if peer == node.me => {}
            Ok(told) => nodes.push(told),
            Err(error) => silent.push(Silent { node: node.name(peer), reason: error.to_string() }),
        }
    }
    Ok(Samples { nodes, silent })
}
