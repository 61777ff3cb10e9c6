//! Volumes over managed disks of several nodes, created and removed in the registry. Their nodes do the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cards_admin::Status;
use cards_coordinator::{
    Change, ColumnState, Error, GroupColumn, GroupVolume, ManagedDisk, NewGroup, NewStriped, Refusal, View,
};
use cards_core::NodeId;
use cards_disk::Uuid;

use super::session::Session;
use crate::inquiry::{self, Question};
use crate::node::Node;

/// The managed disks that the registry has, in the order of their nodes and names.
///
/// # Errors
/// The coordinator does not answer. In words.
pub(super) async fn disks(session: &Session) -> Result<Vec<cards_admin::ManagedDisk>, String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    let node = session.node.borrow().clone();
    // The registry knows of a node that was stopped when its lease has ended; the connection to it has ended with it.
    let answers = |name: &str| {
        let member = view.members.get(name).filter(|member| member.state.is_live());
        let number = member.map(|member| NodeId(member.id));
        number.is_some_and(|number| {
            let link =
                |node: &Arc<Node>| node.links.get(usize::from(number.0)).is_some_and(|link| link.answers());
            node.as_ref().is_none_or(|node| node.me == number || link(node))
        })
    };
    let mut disks: Vec<_> = view.managed.iter().map(|disk| shown(&view, disk, answers(&disk.node))).collect();
    disks.sort_by(|one, other| (&one.node, &one.name).cmp(&(&other.node, &other.name)));
    Ok(disks)
}

fn shown(view: &View, disk: &ManagedDisk, is_up: bool) -> cards_admin::ManagedDisk {
    // Of a volume that has several parts here, whether all of them leave.
    let mut here: BTreeMap<&str, bool> = BTreeMap::new();
    for group in view.groups.values() {
        for (_, column) in group.there().filter(|(_, column)| column.disk == disk.uuid) {
            *here.entry(group.volume()).or_insert(true) &= column.state == ColumnState::Leaving;
        }
    }
    let with = |leaves: bool| {
        let here = here.iter().filter(|(_, is_leaving)| !leaves || **is_leaving);
        here.map(|(volume, _)| (*volume).to_owned()).collect()
    };
    cards_admin::ManagedDisk {
        node: disk.node.clone(),
        name: disk.name.clone(),
        uuid: disk.uuid.to_string(),
        domain: disk.domain.clone(),
        bytes: disk.bytes,
        free: disk.room(view.groups.values()),
        is_up,
        copies: with(false),
        leaving: with(true),
    }
}

/// Creates a volume; `on` names disks as `NODE:DISK`, or is empty.
///
/// # Errors
/// A disk is not known, the registry refuses, or the coordinator does not answer. In words.
pub(super) async fn create(session: &Session, new: Change, on: &[String]) -> Result<(), String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    let on = on.iter().map(|place| find(&view, place)).collect::<Result<_, _>>()?;
    let create = match new {
        Change::CreateGroup(new) => Change::CreateGroup(NewGroup { on, ..new }),
        Change::CreateStriped(new) => Change::CreateStriped(NewStriped { on, ..new }),
        other => other,
    };
    session.coordinator.submit(create).await.map(drop).map_err(|error| failed(session, error))
}

/// Removes a volume. Its nodes remove what they have of it, those that are away when they are back.
///
/// # Errors
/// There is no such volume, it is attached, or the coordinator does not answer. In words.
pub(super) async fn remove(session: &Session, volume: String) -> Result<(), String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    on_nodes(&view, &volume, |shown, node| {
        format!(
            "volume {shown:?} is on one disk of node {node}. If that is a plain disk (`path` or `uri` in [[disk]]), take it out of node.toml there, and \
             restart the daemon; if it is a managed one, stop the daemon there, and run `cards volume remove {shown} --disk PATH`"
        )
    })?;
    let until = Instant::now() + DETACHED;
    loop {
        let remove = Change::RemoveGroup { volume: volume.clone() };
        let refused = match session.coordinator.submit(remove).await {
            Err(Error::Refused(refusal @ Refusal::StillAttached { .. })) => refusal,
            done => return done.map(drop).map_err(|error| failed(session, error)),
        };
        let users = users(session, &volume).await;
        if !users.is_empty() {
            return Err(format!(
                "volume {volume} is attached at {}: run `cards volume detach {volume}` (or `cards detach {volume}`, `cards umount`) there first",
                users.join(", ")
            ));
        }
        if Instant::now() >= until {
            return Err(refused.to_string());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Has a volume become larger. Its nodes do the rest.
///
/// # Errors
/// There is no such volume, the registry refuses, or the coordinator does not answer. In words.
pub(super) async fn grow(session: &Session, volume: String, bytes: u64) -> Result<(), String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    on_nodes(&view, &volume, |shown, node| {
        format!(
            "volume {shown:?} is on one disk of node {node}, and only volumes over managed disks of several nodes grow: create one of that size \
             (`cards volume create --layout`), and copy to it. A plain disk has the size of its file or device when its daemon is started"
        )
    })?;
    let grow = Change::GrowVolume { volume, bytes };
    session.coordinator.submit(grow).await.map(drop).map_err(|error| failed(session, error))
}

/// A volume is one over managed disks of several nodes; `other` says what to do with one on a disk, whose node it is told.
fn on_nodes(view: &View, volume: &str, other: impl Fn(&str, &str) -> String) -> Result<(), String> {
    if view.groups.get(volume).is_some_and(|group| group.part.is_none()) || view.striped.contains_key(volume)
    {
        return Ok(());
    }
    let shown = &volume[..volume.floor_char_boundary(200)];
    Err(match view.volumes.get(volume) {
        Some(plain) => {
            let node = view.disks.get(&plain.disk).map_or("another node", |disk| &disk.node);
            other(shown, node)
        }
        None => format!("there is no volume {shown:?}; see `cards volume list`"),
    })
}

/// How long the registry may take to hear that a volume was detached.
const DETACHED: Duration = Duration::from_secs(5);
/// Time between two looks whether it has.
const LOOK: Duration = Duration::from_millis(50);

/// The nodes that have a volume attached, of those of which the registry says so, as they say themselves: it follows them a moment later. One that
/// does not answer may have it.
async fn users(session: &Session, volume: &str) -> Vec<String> {
    let (Ok(view), Some(node)) = (session.coordinator.view().await, session.node.borrow().clone()) else {
        return Vec::new();
    };
    let mut users = Vec::new();
    for attachment in view.attachments.iter().filter(|attachment| attachment.volume == volume) {
        let is_there = |status: &Status| {
            status.volumes.iter().any(|known| known.name == volume && known.attached.is_some())
        };
        let has_it = match view.members.get(&attachment.node).map(|member| NodeId(member.id)) {
            Some(number) => {
                let told = inquiry::ask::<Status>(&node, number, &Question::Status {}).await;
                told.map_or(true, |status| is_there(&status))
            }
            None => false,
        };
        if has_it {
            users.push(format!("node {}", attachment.node));
        }
    }
    users
}

/// Has a copy of a volume replaced; `from` and `to` name a disk as `NODE:DISK`, or the node alone.
///
/// # Errors
/// There is no such volume, copy or disk, the registry refuses, or the coordinator does not answer. In words.
pub(super) async fn replace(
    session: &Session,
    volume: String,
    from: &str,
    to: Option<&str>,
) -> Result<(), String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    if view.striped.contains_key(&volume) {
        return replace_parts(session, &view, volume, from, to).await;
    }
    let group = group(&view, &volume)?;
    let is_named = |column: &GroupColumn| column.node == from || column.place() == from;
    let Some((number, column)) = group.there().find(|(_, column)| is_named(column)) else {
        let shown = &from[..from.floor_char_boundary(200)];
        let there: Vec<String> = group.there().map(|(_, column)| column.place()).collect();
        return Err(format!(
            "volume {volume} has no copy at {shown:?}: its copies are on {}",
            there.join(", ")
        ));
    };
    if column.state == ColumnState::Leaving {
        let (from, by) =
            (column.place(), group.successor(number).map(|(_, by)| by.place()).unwrap_or_default());
        return Err(Refusal::BeingReplaced { volume, from, by }.to_string());
    }
    let to = to.map(|to| find_at(&view, to)).transpose()?;
    let replace = Change::ReplaceColumn { volume, from: column.disk, to: to.into_iter().collect() };
    session.coordinator.submit(replace).await.map(drop).map_err(|error| failed(session, error))
}

/// The same of all parts of a volume that have a copy there.
async fn replace_parts(
    session: &Session,
    view: &View,
    volume: String,
    from: &str,
    to: Option<&str>,
) -> Result<(), String> {
    let parts = view.groups.values().filter(|group| group.part.is_some() && group.volume() == volume);
    let columns: Vec<&GroupColumn> = parts.flat_map(|part| part.there().map(|(_, column)| column)).collect();
    let is_named = |column: &&&GroupColumn| column.node == from || column.place() == from;
    // Of those that leave already the registry says by what.
    let disks: BTreeSet<[u8; 16]> = columns.iter().filter(is_named).map(|column| column.disk.0).collect();
    if disks.is_empty() {
        let shown = &from[..from.floor_char_boundary(200)];
        let there: BTreeSet<String> = columns.iter().map(|column| column.place()).collect();
        let there: Vec<String> = there.into_iter().collect();
        return Err(format!(
            "volume {volume} has no copy at {shown:?}: its copies are on {}",
            there.join(", ")
        ));
    }
    let to = to.map(|to| find_at(view, to)).transpose()?;
    for disk in disks {
        let (volume, to) = (volume.clone(), to.into_iter().collect());
        let replace = Change::ReplaceColumn { volume, from: Uuid(disk), to };
        session.coordinator.submit(replace).await.map_err(|error| failed(session, error))?;
    }
    Ok(())
}

/// Gives up all histories of a volume but the one of a node's copy, as the map of this epoch has it.
///
/// # Errors
/// There is no such volume or copy, its node does not have its disk or does not say so, a copy in sync is there, or the coordinator does not
/// answer. In words.
pub(super) async fn force(session: &Session, volume: String, node: String, epoch: u64) -> Result<(), String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    let copy = group(&view, &volume)?;
    let of_node = session.node.borrow().clone();
    if let (Some(column), Some(of_node)) = (live_copy(&view, copy, &node), of_node) {
        has_disk(&volume, column, disks_at(&of_node, &view, &node).await)?;
    }
    let force = Change::ForceMap { volume, node, epoch };
    session.coordinator.submit(force).await.map(drop).map_err(|error| failed(session, error))
}

/// The copy that a live node has of a volume; of all others the registry says what is wrong.
fn live_copy<'a>(view: &View, group: &'a GroupVolume, node: &str) -> Option<&'a GroupColumn> {
    let member = view.members.get(node).filter(|member| member.state.is_live())?;
    let map = view.maps.get(&group.number)?.decode().ok()?;
    group.columns.get(usize::from(map.column_at(NodeId(member.id))?))
}

/// Another disk in the place of that of a copy has nothing that could be the truth, and only its node knows.
fn has_disk(volume: &str, column: &GroupColumn, there: Result<Vec<String>, String>) -> Result<(), String> {
    let (node, place, disk) = (&column.node, column.place(), column.disk);
    let put = format!(
        "put the disk with UUID {disk} there, start the daemon of {node} again, and then try again; nothing was changed"
    );
    match there {
        Ok(there) if there.contains(&disk.to_string()) => Ok(()),
        Ok(there) => Err(format!(
            "volume {volume}: its copy at node {node} is on managed disk {place} ({disk}), which {node} does not have: it has {}; {put}",
            if there.is_empty() { "none".to_owned() } else { there.join(", ") }
        )),
        Err(error) => Err(format!(
            "volume {volume}: whether node {node} has managed disk {place} ({disk}) with its copy is not known: {error}; try again when {node} \
             answers; nothing was changed"
        )),
    }
}

/// The UUIDs of the managed disks that a node has, as it says itself.
///
/// # Errors
/// It does not. In words.
pub(super) async fn disks_at(node: &Node, view: &View, name: &str) -> Result<Vec<String>, String> {
    let Some(member) = view.members.get(name) else {
        return Err(format!("node {name} is no member"));
    };
    inquiry::ask(node, NodeId(member.id), &Question::ManagedDisks {}).await.map_err(|error| error.to_string())
}

fn group<'a>(view: &'a View, volume: &str) -> Result<&'a GroupVolume, String> {
    let shown = &volume[..volume.floor_char_boundary(200)];
    if view.striped.contains_key(volume) {
        return Err(format!(
            "volume {shown:?} is shared among several parts: name the part, as in {shown}/0; `cards volume show {shown}` lists them"
        ));
    }
    view.groups.get(volume).ok_or_else(|| match view.volumes.contains_key(volume) {
        true => format!("volume {shown:?} is on one disk, and has no other copies"),
        false => format!("there is no volume {shown:?}; see `cards volume list`"),
    })
}

/// The managed disk that `NODE:DISK` names, or the only one of `NODE`.
fn find_at(view: &View, place: &str) -> Result<Uuid, String> {
    let mut own = view.managed.iter().filter(|disk| disk.node == *place);
    match (own.next(), own.next()) {
        (Some(disk), None) => Ok(disk.uuid),
        (Some(one), Some(other)) => Err(format!(
            "node {place} has several managed disks, {} and {} among them: name one",
            one.place(),
            other.place()
        )),
        _ => find(view, place),
    }
}

pub(super) fn failed(session: &Session, error: Error) -> String {
    match error {
        Error::Refused(refusal) => refusal.to_string(),
        error => session.unanswered(&error),
    }
}

/// The managed disk that `NODE:DISK` names.
fn find(view: &View, place: &str) -> Result<Uuid, String> {
    if let Some(disk) = view.managed.iter().find(|disk| disk.place() == *place) {
        return Ok(disk.uuid);
    }
    let shown = &place[..place.floor_char_boundary(200)];
    let there: Vec<String> = view.managed.iter().map(ManagedDisk::place).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Err(format!(
        "no node has a managed disk {shown:?}: those of the cluster are {there}. Write NODE:DISK, the disk as [[disk]] in node.toml names it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_chosen_only_at_a_node_that_says_that_it_has_the_disk() {
        let disk = Uuid([1; 16]);
        let column = GroupColumn {
            node: "n1".into(),
            disk,
            disk_name: "fast".into(),
            state: ColumnState::Made,
            replaces: None,
            grown: false,
            kept: 0,
            put_back: None,
            failed: false,
        };
        assert_eq!(has_disk("data", &column, Ok(vec![Uuid([2; 16]).to_string(), disk.to_string()])), Ok(()));
        let other = has_disk("data", &column, Ok(vec![Uuid([2; 16]).to_string()])).unwrap_err();
        let expected = format!("n1:fast ({disk}), which n1 does not have: it has {}", Uuid([2; 16]));
        assert!(other.contains(&expected) && other.contains("nothing was changed"), "{other}");
        assert!(has_disk("data", &column, Ok(Vec::new())).unwrap_err().contains("it has none"));
        let silent = has_disk("data", &column, Err("node n1 is not connected".into())).unwrap_err();
        assert!(silent.contains("is not known: node n1 is not connected"), "{silent}");
    }
}
