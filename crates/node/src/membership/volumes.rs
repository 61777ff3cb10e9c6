//! Volumes over managed disks of several nodes, created and removed in the registry. Their nodes do the rest.

use cards_coordinator::{Change, Error, ManagedDisk, NewGroup, View};
use cards_disk::Uuid;

use super::session::Session;

/// Creates a volume; `on` names disks as `NODE:DISK`, or is empty.
///
/// # Errors
/// A disk is not known, the registry refuses, or the coordinator does not answer. In words.
pub(super) async fn create(session: &Session, new: NewGroup, on: &[String]) -> Result<(), String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    let on = on.iter().map(|place| find(&view, place)).collect::<Result<_, _>>()?;
    let create = Change::CreateGroup(NewGroup { on, ..new });
    session.coordinator.submit(create).await.map(drop).map_err(|error| failed(session, error))
}

/// Removes a volume. Its nodes remove what they have of it, those that are away when they are back.
///
/// # Errors
/// There is no such volume, it is attached, or the coordinator does not answer. In words.
pub(super) async fn remove(session: &Session, volume: String) -> Result<(), String> {
    let view = session.coordinator.view().await.map_err(|error| failed(session, error))?;
    if !view.groups.contains_key(&volume) {
        let shown = &volume[..volume.floor_char_boundary(200)];
        return Err(match view.volumes.get(&volume) {
            Some(plain) => {
                let node = view.disks.get(&plain.disk).map_or("another node", |disk| &disk.node);
                format!(
                    "volume {shown:?} is on one disk of node {node}: stop the daemon there, and run `cards volume remove {shown} --disk PATH`"
                )
            }
            None => format!("there is no volume {shown:?}; see `cards volume list`"),
        });
    }
    let remove = Change::RemoveGroup { volume };
    session.coordinator.submit(remove).await.map(drop).map_err(|error| failed(session, error))
}

fn failed(session: &Session, error: Error) -> String {
    match error {
        Error::Refused(refusal) => refusal.to_string(),
        error => format!("the coordinator, {}: {error}", session.describe()),
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
