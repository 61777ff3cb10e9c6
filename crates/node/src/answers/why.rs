//! The way that a read of one block would take, and what all nodes know of the block.

use std::sync::Arc;

use cards_admin::{Block, Course, NodeBlock, Refusal, RefusalKind, Step, Why};
use cards_config::size;
use cards_core::{BlockId, NodeId, VolumeSpec};

use super::{block, words};
use crate::inquiry::{Question, ask, ask_members};
use crate::locks::limits::REGION_BYTES;
use crate::node::Node;
use crate::problems::policy_failure;

/// Nodes on a way at most: more than a request may pass.
const STEPS_MAX: usize = 8;

/// Explains what a read at this offset of the volume would do here. Must be called in a runtime.
///
/// # Errors
/// There is no such volume or offset, or the volume is not attached here.
pub(crate) async fn why(node: &Arc<Node>, volume: &str, offset: u64) -> Result<Why, Refusal> {
    let spec = find(node, volume, offset)?;
    let bytes = u64::from(spec.block_bytes);
    let index = u32::try_from(offset / bytes).unwrap_or(u32::MAX);
    let card = node.cards.find(&spec.name);
    let id = card
        .as_ref()
        .and_then(|card| card.parts())
        .map_or(BlockId::new(spec.id, index), |parts| parts.block(index));
    let here = block::here(node, id)?;
    let shard = id.shard(node.shard_count());
    let (volume, block) = (id.volume.0, id.index);
    let answers = ask_members::<Block>(node, &Question::Block { volume, block }).await;
    let nodes: Vec<NodeBlock> = answers
        .into_iter()
        .map(|(peer, answer)| {
            let (block, error) = match answer {
                Ok(block) => (Some(block), None),
                Err(error) => (None, Some(error.to_string())),
            };
            NodeBlock { node: node.name(peer), block, error }
        })
        .collect();
    let way = follow(node, id, &here).await;
    let mut why = Why {
        node: node.name(node.me),
        policy: policy_of(node, &spec),
        volume: spec.name,
        disk_node: node.primary_name(id.volume),
        offset,
        block: index,
        block_offset: u64::from(index) * bytes,
        block_bytes: spec.block_bytes,
        shard,
        region: offset / REGION_BYTES,
        home: here.home.clone(),
        sentence: String::new(),
        way,
        nodes,
    };
    why.sentence = words::sentence(&why, &here);
    Ok(why)
}

/// The policy in force, and who has chosen it, for people.
fn policy_of(node: &Node, spec: &VolumeSpec) -> String {
    let volume = node.volume_name(spec);
    if let Some(auto) = node.policies.auto(&volume, &spec.policy) {
        return format!("auto, which has {} in force", auto.in_force);
    }
    let Some(chosen) = node.policies.modules.chosen(&volume) else { return spec.policy.clone() };
    let shown = node.policies.table().shown(&chosen);
    match policy_failure(node, &volume, &chosen) {
        Some(failure) => format!("rd instead of {shown}: {failure}"),
        None => shown,
    }
}

/// The volume, if it is attached here and has that offset.
fn find(node: &Node, volume: &str, offset: u64) -> Result<VolumeSpec, Refusal> {
    let refused = |kind, message| Refusal { kind, message };
    let spec = node.volume(volume).ok_or_else(|| Refusal::no_such_volume(volume))?;
    if offset >= spec.size_bytes {
        let message = format!(
            "offset {offset} is beyond the end of volume {volume:?}, which has {} ({} bytes)",
            size::human(spec.size_bytes),
            spec.size_bytes
        );
        return Err(refused(RefusalKind::BadRequest, message));
    }
    if node.cards.find(volume).is_none_or(|card| card.volume() != Some(spec.id)) {
        let message = format!(
            "volume {volume:?} is not attached here, so nothing would be read; ask a node where it is attached, or \
             run `cards volume attach {volume}`"
        );
        return Err(refused(RefusalKind::NotAttached, message));
    }
    Ok(spec)
}

/// Asks one node after the other what it would do, as the request would reach them.
async fn follow(node: &Arc<Node>, id: BlockId, here: &Block) -> Vec<Step> {
    let mut way = vec![Step { node: node.name(node.me), course: Some(here.course.clone()), error: None }];
    let (mut via, mut hops) = (node.me, 0);
    while way.len() < STEPS_MAX
        && let Some(Course::Asks { to, from_disk }) = way.last().and_then(|step| step.course.clone())
        && let Some(peer) = number(node, &to)
    {
        let question = Question::Request {
            volume: id.volume.0,
            block: id.index,
            requester: node.me.0,
            via: via.0,
            hops,
            from_disk,
        };
        let (course, error) = match ask::<Course>(node, peer, &question).await {
            Ok(course) => (Some(course), None),
            Err(error) => (None, Some(error.to_string())),
        };
        way.push(Step { node: to, course, error });
        (via, hops) = (peer, hops + 1);
    }
    way
}

fn number(node: &Node, name: &str) -> Option<NodeId> {
    node.members().find(name).map(|(number, _)| number)
}
