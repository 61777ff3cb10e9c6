//! What all members have in memory of one volume.

use std::sync::Arc;

use cards_admin::{NodeStatus, Refusal};
use cards_core::VolumeSpec;
use tokio::task::JoinSet;

use super::cluster;
use crate::inquiry::{Question, ask};
use crate::node::Node;
use crate::node::inquiries::FRESH;
use crate::node::inquiries::maps::{Map, MapOf, Maps};

/// Nodes whose map is told.
const NODES_MAX: usize = 64;

/// What is cached of the volume `name` at all nodes, at most [`FRESH`] ago. Must be called in a runtime.
///
/// # Errors
/// There is no such volume.
pub(crate) async fn maps(node: &Arc<Node>, name: &str) -> Result<Arc<Maps>, Refusal> {
    let volume = node.volume(name).ok_or_else(|| Refusal::no_such_volume(name))?;
    let round = node.inquiries.maps.of(volume.id);
    Ok(round.get(FRESH, gather(node, volume)).await)
}

async fn gather(node: &Arc<Node>, volume: VolumeSpec) -> Maps {
    let (mut nodes, more) = holders(node, &volume.name).await;
    let mut asking = JoinSet::new();
    for (at, of) in nodes.iter().enumerate() {
        // One that has not told its status now does not tell this either.
        if of.error.is_none()
            && let Some((peer, _)) = node.members().find(&of.name)
        {
            let (node, question) = (Arc::clone(node), Question::Map { volume: volume.name.clone() });
            asking.spawn(async move { (at, ask::<Map>(&node, peer, &question).await) });
        }
    }
    while let Some(Ok((at, answer))) = asking.join_next().await {
        match answer {
            Ok(map) => nodes[at].map = Some(map),
            Err(error) => nodes[at].error = Some(error.to_string()),
        }
    }
    Maps { size: volume.size_bytes, block: volume.block_bytes, volume: volume.name, nodes, more }
}

/// The members to ask about a volume, and how many others there are.
async fn holders(node: &Arc<Node>, volume: &str) -> (Vec<MapOf>, usize) {
    let cluster = cluster(node).await;
    let cached = |member: &NodeStatus| {
        let volumes = member.status.iter().flat_map(|status| &status.volumes);
        volumes.filter(|known| known.name == volume).map(|known| known.cached_blocks).max()
    };
    let mut members: Vec<(usize, &NodeStatus)> = cluster.nodes.iter().enumerate().collect();
    if members.len() > NODES_MAX {
        members.sort_by_key(|(_, member)| std::cmp::Reverse(cached(member)));
        members.truncate(NODES_MAX);
        members.sort_by_key(|(at, _)| *at);
    }
    let more = cluster.nodes.len() - members.len();
    let unknown = |(_, NodeStatus { name, error, .. }): (usize, &NodeStatus)| MapOf {
        name: name.clone(),
        map: None,
        error: error.clone(),
    };
    (members.into_iter().map(unknown).collect(), more)
}
