//! What the registry says of this node: its disks, the volumes on them, and what is attached here.
//!
//! The registry follows the node, a moment later. No I/O waits for it, and nothing depends on it but what people and
//! other programs read there; who may use a volume is decided by its disk node.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use cards_config::Mode;
use cards_coordinator::{
    AttachMode, Change, Coordinator, Error, GroupState, GroupVolume, Member, Refusal, Seat, View, Volume,
};
use cards_core::PgId;

use super::session::Session;
use crate::alarm::Alarm;
use crate::node::Node;
use crate::node::card::{Card, CardState};

/// When to try again what did not succeed.
const AGAIN: Duration = Duration::from_secs(1);
/// When to look again if nothing was said: cards are given up, and come back, without a word to the registrar.
const REVIEW: Duration = Duration::from_secs(5);

/// Keeps the registry's word on this node right.
pub(super) async fn run(session: Rc<Session>) {
    let mut wrong = false;
    let alarm = Alarm::new();
    loop {
        let patience = if wrong { AGAIN } else { REVIEW };
        tokio::select! {
            () = alarm.sleep(patience) => {}
            () = session.look.notified() => {}
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
    if let Coordinator::Local(local) = registry
        && let Some(store) = local.store()
        // A keeper of an earlier release knows of no stores.
        && local.history().is_some()
        && view.stores.get(&seat.name).is_none_or(|known| known.store != store)
    {
        let put = Change::PutStore { seat: seat.clone(), store };
        note("this node's part of it", registry.submit(put).await.map(drop));
    }
    for (spec, disk) in node.own.iter().zip(&node.disks) {
        let id = disk_id(&seat.name, spec.id);
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
            Some(known)
                if known.disk != id
                    && live_node_of(view, known).is_some_and(|other| other.name != seat.name) =>
            {
                // The status names both disks of that name.
                Ok(())
            }
            _ => registry.put_volume(volume).await.map(drop),
        };
        note(&format!("volume {:?}", spec.name), result);
    }
    for volume in gone(view, seat, node) {
        note(&format!("the end of volume {volume:?}"), registry.remove_volume(volume).await.map(drop));
    }
    let unused = view.disks.values().filter(|disk| disk.node == seat.name && !is_own(node, seat, &disk.id));
    for disk in unused {
        note(&format!("the end of disk {}", disk.id), registry.remove_disk_with_volumes(&disk.id).await);
    }
    let cards = node.cards.all();
    let wanted: Vec<Wanted<'_>> = cards.iter().filter_map(|card| wanted(node, card)).collect();
    let here = || view.attachments.iter().filter(|attachment| attachment.node == seat.name);
    for attachment in here() {
        if wanted.iter().all(|wanted| wanted.volume != attachment.volume) {
            let what = format!("the end of the attachment of {:?}", attachment.volume);
            note(&what, registry.detach(seat, &attachment.volume).await.map(drop));
        }
    }
    for Wanted { volume, mode, is_valid } in wanted {
        let known = here().any(|attachment| attachment.volume == volume && attachment.mode == mode);
        // A volume that the registry does not have, because its node was forgotten, has no attachments there; one that is being removed
        // gets none.
        let is_ready = |group: &GroupVolume| group.state == GroupState::Ready;
        let is_shared = view.striped.get(volume).is_some_and(|striped| striped.state == GroupState::Ready);
        let is_there =
            view.volumes.contains_key(volume) || is_shared || view.groups.get(volume).is_some_and(is_ready);
        if known || !is_there {
            continue;
        }
        let result = match mode {
            // The disk node gives the volume to one at a time: whatever else the registry says is over.
            AttachMode::Exclusive if is_valid => registry.take_over(seat, volume, mode).await,
            AttachMode::Exclusive => continue,
            AttachMode::Rw | AttachMode::Ro => registry.attach(seat, volume, mode).await.map(drop),
        };
        match result {
            // The registry, or this card, has not heard yet that the volume was taken over or given back.
            Err(Error::Refused(
                Refusal::AttachConflict { .. } | Refusal::UnknownVolume { .. } | Refusal::NotReady { .. },
            )) => {}
            result => note(&format!("the attachment of {volume:?}"), result),
        }
    }
    problems
}

/// An attachment as the registry should have it.
struct Wanted<'a> {
    volume: &'a str,
    mode: AttachMode,
    /// The disk node has not given the card up.
    is_valid: bool,
}

fn wanted<'a>(node: &Node, card: &'a Card) -> Option<Wanted<'a>> {
    let is_attached = card.state() == CardState::Attached && card.refused(node).is_none();
    let volume = card.volume().filter(|_| is_attached)?;
    let is_valid = card.ids().all(|part| match node.cards.lease_of(part) {
        Some(until) => node.now() < until,
        // One of the disk node itself has none.
        None => node.control().cards().any(|status| status.volume == part && status.attached),
    });
    let read_only = node.control().volume(volume).is_some_and(|spec| spec.read_only);
    let mode = match card.attach.mode {
        // A card of what nobody can write reads, whatever was asked for.
        Mode::Rw if read_only => AttachMode::Ro,
        asked => mode(asked),
    };
    Some(Wanted { volume: &card.attach.volume, mode, is_valid })
}

/// What the registry calls a disk: its node and its number there.
pub(super) fn disk_id(node: &str, volume: PgId) -> String {
    format!("{node}:{}", volume.disk())
}

/// Volumes of this node's disks in the registry that are not in its configuration any more, and whose place another disk has.
fn gone<'a>(view: &'a View, seat: &Seat, node: &Node) -> impl Iterator<Item = &'a str> {
    let volumes = view.volumes.values().filter(|volume| is_own(node, seat, &volume.disk));
    volumes.map(|volume| volume.name.as_str()).filter(|&name| node.own.iter().all(|spec| spec.name != name))
}

/// The registry's name of a disk is that of one of this node's.
fn is_own(node: &Node, seat: &Seat, id: &str) -> bool {
    node.own.iter().any(|spec| disk_id(&seat.name, spec.id) == id)
}

/// The live member on whose disk a volume is.
pub(super) fn live_node_of<'a>(view: &'a View, volume: &Volume) -> Option<&'a Member> {
    let node = view.disks.get(&volume.disk).and_then(|disk| view.members.get(&disk.node));
    node.filter(|member| member.state.is_live())
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
