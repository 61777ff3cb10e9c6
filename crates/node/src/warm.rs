//! Ranges of a volume that are fetched into the cache of this node, or of another one on its behalf.

use std::sync::Arc;

use cards_admin::{Refusal, RefusalKind, Warmed};
use cards_core::NodeId;
use cards_nearest::nearest;
use tokio::sync::oneshot;

use crate::attach::not_attached;
use crate::front;
use crate::inquiry::{self, Question};
use crate::node::Node;
use crate::node::card::CardState;

/// Fetches ranges of a volume, offsets and lengths in bytes, into this node's cache, and waits until the last block is there.
///
/// # Errors
/// The volume is not attached here, or the ranges are not in it or too long.
pub(crate) async fn here(node: &Node, volume: &str, ranges: &[(u64, u64)]) -> Result<Warmed, Refusal> {
    let card = node.cards.find(volume).filter(|card| card.attach.volume == volume);
    let card =
        card.filter(|card| card.state() == CardState::Attached).ok_or_else(|| not_attached(node, volume))?;
    let spec = node.volume(volume).ok_or_else(|| Refusal::no_such_volume(volume))?;
    let blocks = front::blocks_to_warm(node, &spec, ranges)?;
    let (done, wait) = oneshot::channel();
    node.on_data_thread(0, move |local| local.warm(&card, blocks.into_iter(), done)).await;
    wait.await.map_err(|_| Refusal {
        kind: RefusalKind::Failed,
        message: format!(
            "volume {volume:?} was not warmed: the daemon is ending, or the volume was detached"
        ),
    })
}

/// Has the member `name` do the same, which may be this node.
///
/// # Errors
/// No member has this name, it does not answer, or it refuses as [`here`].
pub(crate) async fn at(
    node: &Arc<Node>,
    name: &str,
    volume: String,
    ranges: Vec<(u64, u64)>,
) -> Result<Warmed, Refusal> {
    Ok(inquiry::ask(node, member(node, name)?, &Question::Warm { volume, ranges }).await?)
}

/// The number of the member `name`.
///
/// # Errors
/// There is none.
pub(crate) fn member(node: &Node, name: &str) -> Result<NodeId, Refusal> {
    let members = node.members();
    members.number(name).ok_or_else(|| {
        let names = members.live().map(|(_, member)| member.name.as_str());
        let near =
            nearest(name, names).map_or_else(String::new, |near| format!("did you mean {near:?}? Else "));
        let message = format!("no node {name:?} in this cluster; {near}see `cards status`");
        Refusal { kind: RefusalKind::BadRequest, message }
    })
}
