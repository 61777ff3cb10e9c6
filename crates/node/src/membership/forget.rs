//! Dropping a member that does not come back, with what only it could serve.

use cards_admin::{Forgotten, ForgottenDisk};
use cards_coordinator::{Disk, Error, ManagedDisk, View};
use cards_tls::Name;

use super::session::Session;

/// Drops the record of a member that is dead or has left, and has its certificates good for nothing; its disks and their volumes only if that is wished.
///
/// # Errors
/// There is no such member, it lives, it has disks, or the coordinator does not answer. In words.
pub(super) async fn forget(session: &Session, name: &str, with_disks: bool) -> Result<Forgotten, String> {
    let failed = |error: Error| match error {
        Error::Refused(refusal) => refusal.to_string(),
        error => session.unanswered(&error),
    };
    let registry = &session.coordinator;
    let view = registry.view().await.map_err(failed)?;
    let is_live = match view.members.get(name) {
        Some(member) => member.state.is_live(),
        // A machine was certified by the name and has never joined.
        None if is_certified(&view, name) => false,
        None => return Err(unknown(&view, name)),
    };
    let disks: Vec<&Disk> = view.disks.values().filter(|disk| disk.node == name).collect();
    let managed: Vec<&ManagedDisk> = view.managed.iter().filter(|disk| disk.node == name).collect();
    let told =
        disks.iter().map(|disk| told(&view, disk)).chain(managed.iter().map(|disk| told_managed(disk)));
    let forgotten = Forgotten { node: name.into(), disks: told.collect() };
    // A live one is refused below; it keeps its disks.
    if !is_live && !forgotten.disks.is_empty() {
        if !with_disks {
            return Err(has_disks(&forgotten));
        }
        for disk in managed {
            registry.remove_managed_disk(disk.uuid).await.map_err(failed)?;
        }
        for disk in disks {
            registry.remove_disk_with_volumes(&disk.id).await.map_err(failed)?;
        }
    }
    registry.forget(name).await.map_err(failed)?;
    Ok(forgotten)
}

fn is_certified(view: &View, name: &str) -> bool {
    let dns = Name::new(&view.cluster, name).dns();
    view.certificates.iter().any(|known| !known.revoked && dns.as_ref().is_ok_and(|dns| *dns == known.name))
}

fn unknown(view: &View, name: &str) -> String {
    let names: Vec<&str> = view.members.keys().map(String::as_str).collect();
    format!("no node {name:?} in the registry; members are {}", names.join(", "))
}

fn told(view: &View, disk: &Disk) -> ForgottenDisk {
    let volumes = view.volumes.values().filter(|volume| volume.disk == disk.id);
    let volumes = volumes.map(|volume| volume.name.clone()).collect();
    ForgottenDisk { id: disk.id.clone(), bytes: disk.bytes, volumes }
}

/// The volumes that have a copy on it have others, or are being removed: none is dropped with it.
fn told_managed(disk: &ManagedDisk) -> ForgottenDisk {
    ForgottenDisk { id: disk.place(), bytes: disk.bytes, volumes: Vec::new() }
}

fn has_disks(forgotten: &Forgotten) -> String {
    let name = &forgotten.node;
    let disks: Vec<String> = forgotten.disks.iter().map(ForgottenDisk::describe).collect();
    format!(
        "node {name} has the {}; run `cards forget {name} --with-disks` if that disk does not come back",
        disks.join(" and the ")
    )
}
