//! What has happened as all members say.

use std::sync::Arc;
use std::time::Duration;

use cards_core::NodeId;

use crate::inquiry::{Question, ask_members};
use crate::node::Node;
use crate::node::history::event::{Event, merge};

/// How old the answer may be: nodes look for news every five seconds.
const FRESH: Duration = Duration::from_secs(2);
/// Nodes of a cluster that are asked; of a larger one, this node tells what it has noted itself.
const NODES_MAX: usize = 64;

/// What has happened as all members say, in order, at most [`FRESH`] ago. Must be called in a runtime.
pub(crate) async fn events(node: &Arc<Node>) -> Arc<Vec<Event>> {
    node.inquiries.events.get(FRESH, gather(node)).await
}

async fn gather(node: &Arc<Node>) -> Vec<Event> {
    if node.members().live().count() > NODES_MAX {
        return merge(here(node));
    }
    let answers = ask_members::<Vec<Event>>(node, &Question::Events {}).await;
    let silent = answers.iter().filter(|(_, told)| told.is_err()).map(|(peer, _)| node.name(*peer));
    let kept: Vec<Event> =
        silent.filter_map(|name| node.history.past(&name)).flat_map(|past| past.events).collect();
    merge(answers.into_iter().filter_map(|(_, told)| told.ok()).flatten().chain(kept))
}

/// What this node says: what it has noted, and what it keeps of members that are away.
pub(super) fn here(node: &Node) -> Vec<Event> {
    let members = node.members();
    let is_there = |peer: NodeId| peer == node.me || node.links[usize::from(peer.0)].is_up();
    let away = members.all().filter(|(peer, member)| !member.state.is_live() || !is_there(*peer));
    let kept = away.filter_map(|(_, member)| node.history.past(&member.name)).flat_map(|past| past.events);
    node.history.events().into_iter().chain(kept).collect()
}
