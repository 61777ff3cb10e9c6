//! Whose past this node keeps: that of the two live members before it in the order of their numbers, and of those that were such
//! members and are away.

use std::sync::Arc;

use cards_core::NodeId;
use tokio::task::JoinSet;

use crate::inquiry::{Question, ask};
use crate::node::Node;
use crate::node::history::{SAMPLES_MAX, Told};

/// Members of whom each node keeps the past: so that of a node is kept twice, and lost with its second keeper.
const KEPT_OF: usize = 2;

/// The live members whose past the node `me` keeps, of all of them in order: those before it, the last before the first.
fn wards<T: Copy>(live: &[(NodeId, T)], me: NodeId) -> Vec<(NodeId, T)> {
    let at = live.iter().position(|(node, _)| *node >= me).unwrap_or_default();
    let before = live[..at].iter().rev().chain(live[at..].iter().rev());
    before.filter(|(node, _)| *node != me).take(KEPT_OF).copied().collect()
}

/// Asks for what this node has to keep since it asked last. Those that do not answer are asked again in the next step.
pub(super) async fn gather(node: &Arc<Node>) {
    node.history.pasts.expire(super::now(node).1.saturating_sub(SAMPLES_MAX as u64));
    let members = node.members();
    let live: Vec<(NodeId, &str)> =
        members.live().map(|(peer, member)| (peer, member.name.as_str())).collect();
    let mut asking = JoinSet::new();
    for (peer, name) in wards(&live, node.me) {
        let (node, name) = (Arc::clone(node), name.to_owned());
        asking.spawn(async move {
            let question = Question::History { after: node.history.pasts.end(&name) };
            (name, ask::<Told>(&node, peer, &question).await)
        });
    }
    while let Some(Ok((name, answer))) = asking.join_next().await {
        if let Ok(told) = answer {
            node.history.pasts.add(&name, told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_is_kept_by_two_others() {
        let live: Vec<(NodeId, ())> = [0, 2, 3, 7].map(|number| (NodeId(number), ())).into();
        let of = |live: &[(NodeId, ())], me| {
            wards(live, NodeId(me)).iter().map(|(node, ())| node.0).collect::<Vec<_>>()
        };
        assert_eq!((of(&live, 0), of(&live, 2)), (vec![7, 3], vec![0, 7]));
        assert_eq!((of(&live, 3), of(&live, 7)), (vec![2, 0], vec![3, 2]));
        assert_eq!((of(&live[..2], 0), of(&live[..1], 0), of(&[], 0)), (vec![2], vec![], vec![]));
        assert_eq!(of(&live[..3], 7), [3, 2], "one that is dead to the others may still run");
    }
}
