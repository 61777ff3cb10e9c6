//! What the registry says of this node: its disks, the volumes on them, and what is attached here.
//!
//! The registry follows the node, a moment later. No I/O waits for it, and nothing depends on it but what people and
//! other programs read there; who may use a volume is decided by its disk node.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use cards_coordinator::{AttachMode, Error, Seat, View, Volume};

use super::session::Session;
use crate::cards::CardState;
use crate::config::Mode;
use crate::node::Node;

/// When to try again what did not succeed.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps the registry's word on this node right.
pub(super) async fn run(session: Rc<Session>) {
    let mut wrong = false;
    loop {
        if wrong {
            let _ = tokio::time::timeout(AGAIN, session.look.notified()).await;
        } else {
            session.look.notified().await;
        }
        let Some(node) = session.node.borrow().clone() else { continue };
        // A node that leaves takes its disks out: what is put in meanwhile would stay there for good.
        if session.leaving.get() {
            continue;
        }
        let view = session.known();
        let seat = session.seat.borrow().clone();
        let problems = register(&session, &node, &view, &seat).await;
        wrong = !problems.is_empty();
        node.membership.set_unregistered(problems);
    }
}

/// Submits what differs; says what was refused.
async fn register(session: &Session, node: &Node, view: &View, seat: &Seat) -> Vec<String> {
    let mut problems = Vec::new();
    let mut note = |what: &str, result: Result<(), Error>| {
        // What is wrong with the coordinator itself is said elsewhere.
        if let Err(Error::Refused(refusal)) = result {
            problems.push(format!("the registry does not follow {what}: {refusal}"));
        }
    };
    let registry = &session.coordinator;
    for (number, (spec, disk)) in node.own.iter().zip(&node.disks).enumerate() {
        let id = disk_id(&seat.name, number);
        let bytes = disk.size();
        let known = view.disks.get(&id).is_some_and(|known| known.node == seat.name && known.bytes == bytes);
        if !known {
            note(&format!("disk {:?}", spec.name), registry.put_disk(seat, &id, bytes).await.map(drop));
        }
        let volume = Volume {
            name: spec.name.clone(),
            disk: id.clone(),
            block_bytes: u64::from(spec.block_bytes),
            policy: spec.policy.clone(),
            modes: modes(spec.read_only),
        };
        let result = match view.volumes.get(&volume.name) {
            Some(known) if *known == volume => Ok(()),
            Some(known) if known.disk != id && is_live(view, known) => {
                // The status names both disks of that name.
                Ok(())
            }
            _ => registry.put_volume(volume).await.map(drop),
        };
        note(&format!("volume {:?}", spec.name), result);
    }
    let cards = node.cards.all();
    let wanted: Vec<(&str, AttachMode)> = cards
        .iter()
        .filter(|card| card.state() == CardState::Attached)
        .map(|card| (card.attach.volume.as_str(), mode(card.attach.mode)))
        .collect();
    let here = || view.attachments.iter().filter(|attachment| attachment.node == seat.name);
    for attachment in here() {
        if wanted.iter().all(|(volume, _)| *volume != attachment.volume) {
            let what = format!("the end of the attachment of {:?}", attachment.volume);
            note(&what, registry.detach(seat, &attachment.volume).await.map(drop));
        }
    }
    for (volume, mode) in wanted {
        if here().all(|attachment| attachment.volume != volume || attachment.mode != mode) {
            let what = format!("the attachment of {volume:?}");
            note(&what, registry.attach(seat, volume, mode).await.map(drop));
        }
    }
    problems
}

/// What the registry calls a disk: its node and its number there.
pub(super) fn disk_id(node: &str, number: usize) -> String {
    format!("{node}:{number}")
}

/// The volume is on a disk that is another live member's.
fn is_live(view: &View, volume: &Volume) -> bool {
    let node = view.disks.get(&volume.disk).and_then(|disk| view.members.get(&disk.node));
    node.is_some_and(|member| member.state.is_live())
}

fn modes(read_only: bool) -> BTreeSet<AttachMode> {
    match read_only {
        true => BTreeSet::from([AttachMode::Ro]),
        false => BTreeSet::from([AttachMode::Rw, AttachMode::Ro, AttachMode::Exclusive]),
    }
}

fn mode(mode: Mode) -> AttachMode {
    match mode {
        Mode::Ro => AttachMode::Ro,
        Mode::Rw => AttachMode::Rw,
        Mode::Exclusive => AttachMode::Exclusive,
    }
}
