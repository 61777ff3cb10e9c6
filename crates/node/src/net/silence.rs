//! Peers that stay connected and say nothing: the kernel of a process that stands still keeps its connections.
//!
//! Nothing is asked of a peer for this. A node with a card renews it four times in a lease, and its disk node answers
//! each time: a node that hears nothing for most of two renewals suspects the other, and one that hears nothing for a lease knows
//! that the other stands still. Of other peers nothing is known.

use std::collections::BTreeSet;
use std::time::Duration;

use cards_core::{Instant, NodeId};

use crate::alarm::Alarm;
use crate::node::Node;
use crate::node::card::CardState;

/// Looks in a lease at a peer that is suspected.
const LOOKS: u32 = 8;
/// A peer is suspected after this, at least: on a busy machine threads wait that long.
const SUSPECTED: Duration = Duration::from_millis(500);

/// Notes which peers are silent, for as long as the runtime runs. Not that of a data thread, which has better things to do.
pub(crate) async fn watch(node: &Node) {
    let lease = node.config.lease;
    let pause = (lease / LOOKS).max(Duration::from_millis(10));
    let suspected = (lease * 2 / 5).max(SUSPECTED);
    let alarm = Alarm::new();
    // What came before cannot have been received by now.
    let mut excused = node.now();
    let mut rest = suspected;
    loop {
        let began = node.now();
        alarm.sleep(rest).await;
        let now = node.now();
        if now.since(began) > rest + pause * 3 {
            // This node stood still itself: what came meanwhile is not received yet.
            excused = now;
        }
        rest = look(node, now, excused, (pause, suspected));
    }
}

/// Looks at all peers; says after how long the next look is due. `pause`: while one is suspected. While none is, one that falls silent is
/// suspected in time, or half of `suspected` later.
fn look(node: &Node, now: Instant, excused: Instant, (pause, suspected): (Duration, Duration)) -> Duration {
    let lease = node.config.lease;
    let talkers = talkers(node);
    let mut rest = suspected;
    for (peer, member) in node.members().live().filter(|&(peer, _)| peer != node.me) {
        let link = &node.links[usize::from(peer.0)];
        if !link.is_up() {
            link.set_quiet(None);
            link.set_silent(None);
            continue;
        }
        let heard = link.heard().max(excused);
        let quiet = now.since(heard);
        if quiet < suspected {
            link.set_quiet(None);
            if let Some(since) = link.silent_since() {
                link.set_silent(None);
                tracing::info!(
                    peer = member.name,
                    "it is heard again, after {:.1} s",
                    now.since(since).as_secs_f64()
                );
            }
        } else if talkers.contains(&peer) {
            link.set_quiet(Some(heard));
            if link.silent_since().is_none() && quiet > lease {
                link.set_silent(Some(heard));
                tracing::warn!(
                    peer = member.name,
                    address = member.address,
                    "silent for more than a lease ({lease:?}) although it is connected: it stands still or is overloaded"
                );
            }
        }
        if link.quiet_since().is_some() {
            rest = pause;
        } else if talkers.contains(&peer) {
            rest = rest.min((suspected - quiet).max(suspected / 2));
        }
    }
    rest
}

/// The peers that renew cards of volumes of this node, or answer this node's renewals.
fn talkers(node: &Node) -> BTreeSet<NodeId> {
    let mut talkers: BTreeSet<NodeId> = BTreeSet::new();
    for card in node.cards.all().iter().filter(|card| card.state() == CardState::Attached) {
        let parts = card.parts().into_iter().flat_map(|parts| parts.all());
        talkers.extend(parts.filter(|part| part.lease().is_some()).filter_map(|part| node.primary(part.id)));
    }
    let control = node.control();
    for spec in node.own.iter().filter(|spec| !spec.read_only) {
        talkers.extend(control.cards_of(spec.id));
    }
    for known in node.groups.all() {
        talkers.extend(control.cards_of(known.record.pg()));
    }
    talkers
}
