//! What all members have in memory of one volume.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cards_admin::{NodeStatus, Refusal};
use cards_core::{PgId, VolumeSpec};
use serde::Serialize;
use tokio::task::JoinSet;

use super::{FRESH, Question, Round, ask, cluster};
use crate::node::Node;
use crate::web::map::Map;

/// Nodes whose map is told.
const NODES_MAX: usize = 64;

/// What is cached of a volume, by node.
#[derive(Debug, Serialize)]
pub(crate) struct Maps {
    volume: String,
    /// Bytes of the volume.
    size: u64,
    /// Bytes of a block.
    block: u32,
    /// In the order of the members; of many, those that cache most of it.
    nodes: Vec<MapOf>,
    /// So many are left out.
    more: usize,
}

/// What is cached of it at one node.
#[derive(Debug, Serialize)]
struct MapOf {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<Map>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The last round for each volume that somebody looks at.
#[derive(Default)]
pub(super) struct Rounds(Mutex<BTreeMap<PgId, Arc<Round<Maps>>>>);

impl Rounds {
    /// That of a volume. Those that are stale are forgotten, so no more are kept than are looked at.
    fn of(&self, volume: PgId) -> Arc<Round<Maps>> {
        let mut rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.retain(|_, round| Arc::strong_count(round) > 1 || !round.is_stale(FRESH));
        Arc::clone(rounds.entry(volume).or_default())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_rounds_are_kept_than_are_looked_at() {
        let rounds = Rounds::default();
        let first = rounds.of(PgId(0));
        for volume in 1..1_000 {
            rounds.of(PgId(volume));
        }
        assert!(Arc::ptr_eq(&first, &rounds.of(PgId(0))), "somebody waits for it");
        assert_eq!(rounds.0.lock().unwrap().len(), 1);
    }
}
