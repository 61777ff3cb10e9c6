//! Leaving the cluster: nothing is left behind that others need.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cards_coordinator::{Coordinator, Error, Refusal};
use cards_core::ControlInput;

use super::registrar::disk_id;
use super::session::Session;
use crate::node::{Event, Node};

/// How long a node that leaves waits for others to keep the registry without it.
const HAND_OVER: Duration = Duration::from_secs(5);
/// Volumes that are named of those that have copies here.
const NAMED_MAX: usize = 4;

/// Drains this node and ends its membership.
///
/// # Errors
/// Somebody needs the node, and it is not to leave by force; or the coordinator does not let it go. In words.
pub(super) async fn leave(session: &Rc<Session>, force: bool) -> Result<(), String> {
    let Some(node) = session.node.borrow().clone() else {
        return Err("the daemon is starting; try again".into());
    };
    let needed = needed_by(session, &node);
    if !needed.is_empty() && !force {
        return Err(format!("{}; or leave with --force", needed.join("; ")));
    }
    let failed = |error: Error| session.unanswered(&error);
    let seat = session.seat.borrow().clone();
    let registry = &session.coordinator;
    registry.leave(&seat).await.map_err(failed)?;
    for card in node.cards.all() {
        if node.cards.remove(&card.attach.volume).is_some() {
            for volume in card.ids() {
                node.threads[0].post(Event::Control(Box::new(ControlInput::Detach { volume })));
            }
        }
    }
    let view = registry.view().await.map_err(failed)?;
    for attachment in view.attachments.iter().filter(|attachment| attachment.node == seat.name) {
        registry.detach(&seat, &attachment.volume).await.map_err(failed)?;
    }
    for spec in &node.own {
        let disk = disk_id(&seat.name, spec.id);
        registry.remove_disk_with_volumes(&disk).await.map_err(failed)?;
    }
    for disk in view.managed.iter().filter(|disk| disk.node == seat.name) {
        match registry.remove_managed_disk(disk.uuid).await {
            // By force: its copies are stale from now on, and there again when it comes back.
            Err(Error::Refused(Refusal::HasColumn { .. })) => {}
            removed => drop(removed.map_err(failed)?),
        }
    }
    registry.left(&seat).await.map_err(failed)?;
    hand_over(session, &seat.name).await;
    tracing::info!("left the cluster");
    Ok(())
}

/// Waits, for a while, until other nodes keep the registry without this one.
async fn hand_over(session: &Session, node: &str) {
    let Coordinator::Local(local) = &session.coordinator else { return };
    let began = Instant::now();
    let keeps = || {
        let kept = local.kept();
        kept.changes || kept.arbiters.iter().any(|route| route.node == node)
    };
    while keeps() && session.known().joined().any(|other| other.name != node) && began.elapsed() < HAND_OVER {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Who would miss this node, and what to do about each.
fn needed_by(session: &Session, node: &Arc<Node>) -> Vec<String> {
    let mut needed = Vec::new();
    if session.config.is_keeper() && session.known().joined().count() > 1 {
        needed.push(
            "this node is the one where others look for the registry first, and keeps the registry or the cluster's authority; let it \
             leave last"
                .into(),
        );
    }
    let own = &session.config.node;
    let known = session.known();
    let groups = || known.groups.values();
    let copies: BTreeSet<&str> =
        groups().filter(|group| group.columns_at(own).next().is_some()).map(|group| group.volume()).collect();
    needed.extend(has_copies(own, &copies));
    for card in node.cards.all() {
        if card.clients() > 0 {
            needed.push(format!(
                "volume {0:?} has {1} client(s) here; {2}",
                card.attach.volume,
                card.clients(),
                match card.volume().and_then(|volume| node.devices.device(volume)) {
                    Some(_) => format!(
                        "it is a device of this machine: run `cards umount {0}`, or `cards detach {0}`",
                        card.attach.volume
                    ),
                    None => "disconnect them".to_owned(),
                }
            ));
        }
    }
    let members = node.members();
    let control = node.control();
    for spec in &node.own {
        let names: Vec<&str> =
            control.cards_of(spec.id).filter_map(|other| Some(members.get(other)?.name.as_str())).collect();
        if !names.is_empty() {
            needed.push(format!(
                "volume {:?} is on a disk of this node and attached at {}; run `cards volume detach {}` there (`cards umount` where it is mounted)",
                spec.name,
                names.join(", "),
                spec.name
            ));
        }
    }
    needed
}

/// What to do about the copies of volumes on the managed disks of a node, all at once: a node may have hundreds.
fn has_copies(node: &str, volumes: &BTreeSet<&str>) -> Option<String> {
    let named: Vec<String> = volumes.iter().take(NAMED_MAX).map(|volume| format!("{volume:?}")).collect();
    let (copies, named) = match volumes.len() {
        0 => return None,
        1 => ("a copy of volume", named.concat()),
        count if count > NAMED_MAX => {
            ("copies of volumes", format!("{} and {} more", named.join(", "), count - NAMED_MAX))
        }
        _ => ("copies of volumes", named.join(", ")),
    };
    Some(format!(
        "this node has {copies} {named} on its managed disks: run `cards disk drain {node} --wait`, which moves all of them to other nodes and \
         names those that cannot go, then leave; to stop the daemon for a while is no reason to leave"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_volumes_are_drained_together() {
        let told = |volumes: &[&str]| has_copies("n2", &volumes.iter().copied().collect());
        assert_eq!(told(&[]), None);
        let one = told(&["data"]).unwrap();
        assert!(one.starts_with("this node has a copy of volume \"data\" on its managed disks: "), "{one}");
        assert!(one.contains("run `cards disk drain n2 --wait`") && !one.contains("replace"), "{one}");
        let many = told(&["a", "b", "c", "d", "e", "f"]).unwrap();
        assert!(many.contains("copies of volumes \"a\", \"b\", \"c\", \"d\" and 2 more on"), "{many}");
    }
}
