//! Volumes, attached and detached on request.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cards_admin::{MemberState, Refusal, RefusalKind, Status, Volume, VolumeState};
use cards_config::Attach;
use cards_core::{ControlInput, Input, Refusal as CoreRefusal};
use cards_nearest::nearest;
use cards_policies::policy::{self, PolicyError};

use crate::answers;
use crate::attach::{self, not_attached};
use crate::mirrors;
use crate::node::card::CardState;
use crate::node::{Event, Local, Node};

/// How long an attachment may take before it is given up.
const ATTACH: Duration = Duration::from_secs(5);
/// Time between two looks whether it is made.
const LOOK: Duration = Duration::from_millis(20);

/// Attaches a volume, and waits until its disk node has answered.
///
/// # Errors
/// It is refused, or there is no answer: nothing is attached then that was not before.
pub(super) async fn attach(node: &Arc<Node>, attach: Attach) -> Result<(), Refusal> {
    let name = attach.volume.clone();
    if let Some(wanted) = &attach.policy
        && let Err(error) = policy::normalize(&wanted.to_string())
    {
        let message = match error {
            PolicyError::UnknownPolicy { name } => unknown_policy(&name),
            error => error.to_string(),
        };
        return Err(Refusal { kind: RefusalKind::BadRequest, message });
    }
    // A takeover may have to wait for the leases of cards that do not answer.
    let patience = if attach.takeover { ATTACH + node.config.lease * 2 } else { ATTACH };
    // What is refused here is no reason not to take the volume over: its card comes back if that fails.
    let before = node.cards.find(&name).filter(|card| card.attach.volume == name);
    let card = match &before {
        None => node.cards.add(attach.clone()),
        Some(before) if attach.takeover && before.clients() == 0 && before.refused(node).is_some() => {
            remove(node, &name).await;
            node.cards.add(attach.clone())
        }
        Some(_) => None,
    };
    let Some(card) = card else { return Err(already_attached(node, &name, attach.takeover)) };
    node.threads[0].post(Event::ResolveCards);
    let deadline = tokio::time::Instant::now() + patience;
    // Somebody may detach it meanwhile, and attach it otherwise.
    let is_there = || node.cards.find(&name).is_some_and(|now| Arc::ptr_eq(&now, &card));
    let refusal = loop {
        if !is_there() {
            let message =
                format!("volume {name:?} was detached while it was being attached; attach it again");
            return Err(Refusal { kind: RefusalKind::NotAttached, message });
        }
        match card.state() {
            CardState::Attached => return Ok(()),
            CardState::Refused(refusal, mut message) => {
                if let (CoreRefusal::InUse(_), Some(volume)) = (&refusal, card.volume())
                    && node.primary(volume) != Some(node.me)
                {
                    message = all_holders(node, &name).await.unwrap_or(message);
                }
                let kind = match refusal {
                    CoreRefusal::NoSuchVolume => RefusalKind::NoSuchVolume,
                    CoreRefusal::PolicyIs(_) => RefusalKind::PolicyMismatch,
                    CoreRefusal::ReadOnly => RefusalKind::ReadOnly,
                    CoreRefusal::NotAllowed(_) => RefusalKind::NotAllowed,
                    CoreRefusal::NoAnswer => RefusalKind::Unreachable,
                    CoreRefusal::Overtaken(_) => RefusalKind::Overtaken,
                    CoreRefusal::Exclusive(_) | CoreRefusal::InUse(_) | CoreRefusal::Attached(_) => {
                        RefusalKind::Busy
                    }
                };
                break Refusal { kind, message };
            }
            CardState::Waiting if tokio::time::Instant::now() < deadline => tokio::time::sleep(LOOK).await,
            CardState::Waiting if card.volume().is_none() && node.all_up() => {
                break mirrors::unready(node, &name).unwrap_or_else(|| Refusal::no_such_volume(&name));
            }
            CardState::Waiting if card.volume().is_none() => {
                if let Some(refusal) = mirrors::unready(node, &name) {
                    break refusal;
                }
                if let Some(message) = node.away(&name) {
                    break Refusal { kind: RefusalKind::Unreachable, message };
                }
                let message = format!(
                    "no node that is up has a volume {name:?}; correct the name (`cards volume list`), or see in `cards status` which node is \
                     down, and start it if it is that one's"
                );
                break Refusal { kind: RefusalKind::Unreachable, message };
            }
            CardState::Waiting => {
                if let Some(refusal) = mirrors::unready(node, &name) {
                    break refusal;
                }
                let message = node.away(&name).unwrap_or_else(|| {
                    format!("the node that has volume {name:?} does not answer; see `cards status`")
                });
                break Refusal { kind: RefusalKind::Unreachable, message };
            }
        }
    };
    // Of a device that cannot go on, `cards status` is to tell until somebody has ended it.
    if refusal.kind == RefusalKind::Overtaken {
        return Err(refusal);
    }
    remove(node, &name).await;
    if let Some(before) = before
        && node.cards.add(Attach { limit: before.limiter().limit(), ..before.attach.clone() }).is_some()
    {
        node.threads[0].post(Event::ResolveCards);
    }
    Err(refusal)
}

/// Who has a volume, as all members say: its disk node names only one to a node that wants the volume for itself.
async fn all_holders(node: &Arc<Node>, volume: &str) -> Option<String> {
    let cluster = answers::cluster(node).await;
    // One that waits for its disk node, or was refused, is in nobody's way.
    let is_held = |known: &Volume| known.attached.is_some() && known.state == VolumeState::Ready;
    let has_card =
        |status: &Status| status.volumes.iter().any(|known| known.name == volume && is_held(known));
    let answers = cluster.nodes.iter().filter(|other| other.state != MemberState::Here);
    let (said, silent): (Vec<_>, Vec<_>) = answers.partition(|other| other.status.is_some());
    let holders = said.into_iter().filter(|other| other.status.as_deref().is_some_and(has_card));
    let holders: Vec<String> = holders.map(|other| other.name.clone()).collect();
    let more = if silent.is_empty() { "" } else { ", and nodes that do not answer may have" };
    (!holders.is_empty()).then(|| attach::in_use(volume, &holders, more))
}

/// Names those that nodes run; the simulator has more.
fn unknown_policy(name: &str) -> String {
    let runs = policy::registry().iter().filter(|entry| entry.lacks().is_none()).map(|entry| entry.name);
    let near =
        nearest(name, runs.clone()).map_or_else(String::new, |near| format!("did you mean {near}? Else "));
    let names: Vec<&str> = runs.collect();
    format!("unknown policy {name:?}: {near}a volume can have {}", names.join(", "))
}

fn already_attached(node: &Node, name: &str, takeover: bool) -> Refusal {
    let card = node.cards.find(name);
    let mode = match node.volume(name) {
        Some(spec) if spec.read_only => "ro",
        _ => card.as_ref().map_or("rw", |card| card.attach.mode.name()),
    };
    let message = match card.as_ref().and_then(|card| Some((card.clients(), card.refused(node)?))) {
        Some((clients, _)) if takeover && clients > 0 => format!(
            "volume {name:?} is refused here, and {clients} client(s) still use it; disconnect them, then take it over"
        ),
        Some((_, reason)) => {
            format!("volume {name:?} is to be attached here as {mode}, and refused: {reason}")
        }
        None => format!(
            "volume {name:?} is attached here as {mode} already; to change that, run `cards volume detach {name}` first"
        ),
    };
    Refusal { kind: RefusalKind::AlreadyAttached, message }
}

/// Detaches a volume that nobody uses.
///
/// # Errors
/// It is not attached, or in use.
pub(super) async fn detach(node: &Node, name: &str) -> Result<(), Refusal> {
    let card = node.cards.find(name).filter(|card| card.attach.volume == name);
    let card = card.ok_or_else(|| not_attached(node, name))?;
    // A device that has found its card may not have connected yet.
    let has_device = card.volume().is_some_and(|volume| node.devices.has_one(volume));
    if card.clients() > 0 || has_device {
        let device = card.volume().and_then(|volume| node.devices.device(volume));
        let mut message = match device {
            Some(device) => format!(
                "volume {name:?} is the device {} here; run `cards detach {name}` (or `cards umount`) first",
                device.path.display()
            ),
            None if has_device => format!("volume {name:?} becomes a device here just now; try again"),
            None => format!("volume {name:?} has {} client(s) here; disconnect them first", card.clients()),
        };
        if let Some(reason) = card.refused(node).filter(|_| card.is_over()) {
            message = format!("{message}; {reason}");
        }
        return Err(Refusal { kind: RefusalKind::Busy, message });
    }
    remove(node, name).await;
    Ok(())
}

async fn remove(node: &Node, name: &str) {
    if let Some(card) = node.cards.remove(name).filter(|card| card.volume().is_some()) {
        let detach = move |local: &Rc<Local>| {
            for volume in card.ids() {
                // What is pinned (`cards pin`) would keep its room, which nothing else gives back when there is no card.
                local.all_shards(&Input::Retain { volume, ranges: Arc::default() });
                local.control(ControlInput::Detach { volume });
            }
        };
        node.on_data_thread(0, detach).await;
        tracing::info!(volume = name, "detached");
        node.membership.look();
    }
}
