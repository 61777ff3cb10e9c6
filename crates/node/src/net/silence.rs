//! Peers that stay connected and say nothing: the kernel of a process that stands still keeps its connections.
//!
//! Nothing is asked of a peer for this. A node with a card renews it four times in a lease, and its disk node answers
//! each time: a node that hears nothing for most of two renewals suspects the other, and one that hears nothing for a lease knows
//! that the other stands still. Of other peers nothing is known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cards_core::{Instant, NodeId};

use crate::node::Node;
use crate::node::card::CardState;
use crate::traffic::Traffic;

/// Looks in a lease.
const LOOKS: u32 = 8;
/// A peer is suspected after this, at least: on a busy machine threads wait that long.
const SUSPECTED: Duration = Duration::from_millis(500);

/// What was heard of a peer last.
struct Heard {
    bytes: u64,
    at: Instant,
}

/// Notes which peers are silent, for as long as the runtime runs. Not that of a data thread, which has better things to do.
pub(crate) async fn watch(node: &Node) {
    let lease = node.config.lease;
    let pause = (lease / LOOKS).max(Duration::from_millis(10));
    let suspected = (lease * 2 / 5).max(SUSPECTED);
    let mut heard: BTreeMap<NodeId, Heard> = BTreeMap::new();
    let mut last = node.now();
    loop {
        tokio::time::sleep(pause).await;
        let now = node.now();
        // This node stood still itself: what came meanwhile is not received yet.
        let is_late = now.since(last) > pause * 4;
        last = now;
        let talkers = talkers(node);
        for (peer, member) in node.members().live().filter(|&(peer, _)| peer != node.me) {
            let link = &node.links[usize::from(peer.0)];
            if !link.is_up() {
                link.set_quiet(None);
                link.set_silent(None);
                heard.remove(&peer);
                continue;
            }
            let bytes = Traffic::get(&link.traffic.received);
            let before = heard.entry(peer).or_insert(Heard { bytes, at: now });
            if before.bytes != bytes || is_late {
                *before = Heard { bytes, at: now };
                link.set_quiet(None);
                if let Some(since) = link.silent_since() {
                    link.set_silent(None);
                    tracing::info!(
                        peer = member.name,
                        "it is heard again, after {:.1} s",
                        now.since(since).as_secs_f64()
                    );
                }
                continue;
            }
            let quiet = now.since(before.at);
            if !talkers.contains(&peer) || quiet < suspected {
                continue;
            }
            link.set_quiet(Some(before.at));
            if link.silent_since().is_none() && quiet > lease {
                link.set_silent(Some(before.at));
                tracing::warn!(
                    peer = member.name,
                    address = member.address,
                    "silent for more than a lease ({lease:?}) although it is connected: it stands still or is overloaded"
                );
            }
        }
    }
}

/// The peers that renew cards of volumes of this node, or answer this node's renewals.
fn talkers(node: &Node) -> BTreeSet<NodeId> {
    let leased = |card: &std::sync::Arc<crate::node::card::Card>| {
        let volume = card.volume().filter(|_| card.state() == CardState::Attached)?;
        node.cards.lease_of(volume).and_then(|_| node.primary(volume))
    };
    let mut talkers: BTreeSet<NodeId> = node.cards.all().iter().filter_map(leased).collect();
    let control = node.control();
    for spec in node.own.iter().filter(|spec| !spec.read_only) {
        talkers.extend(control.cards_of(spec.id));
    }
    for known in node.groups.all() {
        talkers.extend(control.cards_of(known.record.pg()));
    }
    talkers
}
