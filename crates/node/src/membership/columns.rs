//! This node's managed disks in the registry, and the columns on them: made and removed as the registry says.
//!
//! A volume over managed disks is created in the registry, and each node with a column of it makes that column and says so. It is removed
//! there first, too, and a node that was away removes its column when it is back. What is done here can be done again: a column that
//! is on its disk is not made, one that is not is not removed, and the registry hears of both as often as it takes.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cards_array::group::State;
use cards_array::store::ColumnKey;
use cards_config::duration::exact;
use cards_coordinator::{
    Change, ColumnState, Error, GroupColumn, GroupMap, GroupState, GroupVolume, ManagedDisk, Refusal, Seat,
    ToldColumn, ToldDisk, View,
};
use cards_disk::{Managed, ManagedColumn, ManagedError};

use super::overdue::Overdue;
use super::session::Session;
use super::volumes::disks_at;
use super::whose::Disputed;
use crate::alarm::Alarm;
use crate::node::{Local, Node};

/// When to try again what did not succeed.
const AGAIN: Duration = Duration::from_secs(1);
/// When to look again if nothing was said: the space of a disk changes without a word.
const REVIEW: Duration = Duration::from_secs(5);

/// Keeps the disks in the registry, and the columns on the disks, right.
pub(super) async fn run(session: Rc<Session>) {
    let mut wrong = false;
    let mut overdue = Overdue::default();
    let alarm = Alarm::new();
    loop {
        let patience = if wrong { AGAIN } else { REVIEW };
        tokio::select! {
            () = alarm.sleep(patience) => {}
            () = session.columns.notified() => {}
        }
        let Some(node) = session.node.borrow().clone() else { continue };
        if session.leaving.get() {
            continue;
        }
        let look = Look {
            session: &session,
            node: &node,
            view: session.known(),
            seat: session.seat.borrow().clone(),
            waits: Cell::new(false),
        };
        let mut problems = look.act().await;
        wrong = !problems.is_empty() || look.waits.get();
        problems.extend(look.rebuild(&mut overdue).await);
        node.membership.set_columns(problems);
        node.review_columns();
    }
}

/// One look at what the registry says of this node.
struct Look<'a> {
    session: &'a Session,
    node: &'a Node,
    view: View,
    seat: Seat,
    /// Something is due of this node that it cannot do yet, and that is no problem.
    waits: Cell<bool>,
}

impl Look<'_> {
    /// Does what is due; says what cannot be done.
    async fn act(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut note = |result: Result<(), String>| problems.extend(result.err());
        for managed in &self.node.managed {
            note(self.tell_disk(managed).await);
        }
        let own = self.view.managed.iter().filter(|disk| disk.node == self.seat.name);
        for gone in own.filter(|disk| self.disk(disk).is_none()) {
            note(self.tell_gone(gone).await);
        }
        problems.extend(self.node.managed.iter().flat_map(|managed| self.strays(managed)));
        let mut note = |result: Result<(), String>| problems.extend(result.err());
        let mut groups: Vec<&GroupVolume> = self.view.groups.values().collect();
        groups.sort_by_key(|group| group.number);
        for group in groups {
            for (number, column) in group.columns_at(&self.seat.name) {
                note(self.settle(group, number, column).await);
                note(self.grow(group, number, column).await);
                note(self.tell_put_back(group, number, column).await);
                note(self.tell_failed(group, number, column).await);
            }
            note(self.serve_growth(group).await);
        }
        problems
    }

    /// Tells the registry of a disk, if it knows something else.
    async fn tell_disk(&self, managed: &Managed) -> Result<(), String> {
        let sizes = &managed.superblock().sizes;
        let disk = ToldDisk {
            uuid: managed.uuid(),
            name: managed.disk_name().to_string(),
            bytes: sizes.space(),
            free: managed.free_bytes(),
            piece_bytes: sizes.piece(),
            domain: managed.domain().map(ToString::to_string),
        };
        let known = self.view.managed.iter().find(|known| known.uuid == disk.uuid);
        let is_known = known.is_some_and(|known| {
            let told = ManagedDisk {
                uuid: disk.uuid,
                name: disk.name.clone(),
                node: self.seat.name.clone(),
                bytes: disk.bytes,
                free: disk.free,
                piece_bytes: disk.piece_bytes,
                domain: disk.domain.clone().unwrap_or_else(|| self.seat.name.clone()),
            };
            *known == told
        });
        if is_known {
            return Ok(());
        }
        let name = disk.name.clone();
        let put = Change::PutManagedDisk { seat: self.seat.clone(), disk };
        match self.refusal(put).await {
            None => Ok(()),
            Some(Refusal::DiskCloned { disk, node: owner, .. }) => {
                let mut known = self.view.managed.iter().filter(|known| known.node == self.seat.name);
                let own = known.find(|known| known.name == name).map(|known| known.uuid);
                let there = disks_at(self.node, &self.view, &owner).await;
                let uuid = managed.uuid();
                Err(Disputed { disk: &disk, uuid, owner: &owner, there, own }.to_string())
            }
            Some(refusal) => Err(not_followed(&format!("managed disk {name}"), &refusal)),
        }
    }

    /// Tells the registry that a disk is not here any more. One with copies of volumes is missed.
    async fn tell_gone(&self, gone: &ManagedDisk) -> Result<(), String> {
        match self.refusal(Change::RemoveManagedDisk { disk: gone.uuid }).await {
            None => Ok(()),
            Some(Refusal::HasColumn { volume, .. }) => {
                let whole = volume.split('/').next().unwrap_or_default();
                let (name, uuid, place) = (&gone.name, gone.uuid, gone.place());
                Err(format!(
                    "managed disk {name} ({uuid}) of this node has a copy of volume {volume}, and is not here: put it back. Only if it is gone \
                     for good, run `cards volume replace {whole} --from {place}`"
                ))
            }
            Some(refusal) => Err(not_followed(&format!("the end of managed disk {}", gone.name), &refusal)),
        }
    }

    /// The columns of volumes that the registry does not have, or not there. They may be all that is left of a volume whose registry was lost.
    fn strays(&self, managed: &Managed) -> Vec<String> {
        let is_known = |column: &&ManagedColumn| {
            let is_it = |group: &&GroupVolume| group.uuid == column.volume && group.group() == column.group;
            let group = self.view.groups.values().find(is_it);
            group.is_some_and(|group| group.there().any(|(_, known)| known.disk == managed.uuid()))
        };
        let disk = managed.disk_name();
        let say = |column: ManagedColumn| {
            format!(
                "managed disk {disk} has a copy of volume {column}, which the registry does not have: bring the registry back that had it, or \
                 stop this daemon and run `cards volume remove {} --disk {} --force={}`",
                column.name,
                managed.path(),
                column.volume
            )
        };
        let columns = managed.columns().into_iter();
        columns.filter(|column| !is_known(&column)).map(say).collect()
    }

    /// Makes or removes a column of this node, if that is due, and says so.
    async fn settle(&self, group: &GroupVolume, number: u8, column: &GroupColumn) -> Result<(), String> {
        let (volume, disk) = (group.volume(), &column.disk_name);
        let is_due = match group.state {
            GroupState::Making => column.state == ColumnState::Missing,
            GroupState::Ready => match column.state {
                ColumnState::Missing => true,
                ColumnState::Leaving => !self.is_in_map(group, number),
                ColumnState::Made | ColumnState::Removed => false,
            },
            GroupState::Removing => column.state != ColumnState::Removed,
        };
        if !is_due {
            return Ok(());
        }
        let goes = group.state == GroupState::Removing || column.state == ColumnState::Leaving;
        let managed = self.disk_of(group, column)?;
        let told = |free| self.told(group, column, free);
        match goes {
            true => {
                remove(managed, group, number).await.map_err(|error| {
                    format!(
                        "the copy of volume {volume} on managed disk {disk}, which is to be removed: {error}"
                    )
                })?;
                let what = || format!("the end of the copy of volume {volume}");
                self.submit(Change::ColumnRemoved(told(managed.free_bytes())), what).await?;
                tracing::info!(volume, disk, "a copy of a volume is removed");
            }
            false => {
                make(managed, group, number).await.map_err(|error| {
                    format!(
                        "a copy of volume {volume} is not made, on managed disk {disk}: {error}; make room there, or run {}",
                        match group.state {
                            GroupState::Ready => format!("`cards volume replace {volume} --from {}`", column.place()),
                            _ => format!("`cards volume remove {volume}` and create it elsewhere"),
                        }
                    )
                })?;
                let what = || format!("the copy of volume {volume}");
                self.submit(Change::ColumnMade(told(managed.free_bytes())), what).await?;
                tracing::info!(volume, disk, "a copy of a volume is made");
            }
        }
        Ok(())
    }

    /// Gives a column of this node the size that its group is to have, if that is due, and says so.
    async fn grow(&self, group: &GroupVolume, number: u8, column: &GroupColumn) -> Result<(), String> {
        let is_there = match column.state {
            ColumnState::Made => true,
            ColumnState::Leaving => self.is_in_map(group, number),
            ColumnState::Missing | ColumnState::Removed => false,
        };
        if group.state != GroupState::Ready || !is_there {
            return Ok(());
        }
        let is_awaited = group.grows.is_some() && !column.grown;
        let (volume, disk, bytes) = (group.volume(), &column.disk_name, group.column_bytes());
        let key = ColumnKey { volume: group.uuid.key(), group: group.group(), column: number };
        let managed = match self.disk_of(group, column) {
            Err(problem) => return if is_awaited { Err(problem) } else { Ok(()) },
            Ok(managed) => managed,
        };
        // A disk that was put back may have it as it was before it grew.
        let is_small = managed.columns().iter().any(|there| there.key() == key && there.bytes < bytes);
        if !is_awaited && !is_small {
            return Ok(());
        }
        // Its size is what shows that: it stays until its group has seen it, and a person has forced it or the map counts on it no more.
        let least = if column.grown { bytes } else { group.served_bytes() };
        let was_larger = managed.columns().iter().any(|there| there.key() == key && there.bytes < least);
        if was_larger && self.is_in_map(group, number) {
            match self.node.groups.found_put_back(group.pg()) {
                Some(None) => {}
                Some(Some(_)) => return Ok(()),
                None => {
                    self.waits.set(true);
                    return Ok(());
                }
            }
        }
        // After a growth that was cancelled it may be larger.
        let is_large = managed.columns().iter().any(|there| there.key() == key && there.bytes > bytes);
        let grown = if is_large { Ok(()) } else { managed.grow_column(key, bytes).await };
        grown.map_err(|error| {
            format!(
                "volume {volume} is to grow to {bytes} bytes, and its copy on managed disk {disk} does not: {error}; make room there, run `cards \
                 volume replace {volume} --from {}`, or keep its size: `cards volume resize {volume} --cancel`",
                column.place()
            )
        })?;
        // Before others count on it: a fill that begins now copies all that the column has.
        let (of, home) = (group.pg(), self.node.home_of(group.pg()));
        self.node.on_data_thread(home, move |local| local.column_grown(of)).await;
        if is_small {
            tracing::info!(volume, disk, bytes, "a copy of a volume has grown");
        }
        if !is_awaited {
            return Ok(());
        }
        let what = || format!("the growth of the copy of volume {volume}");
        let column = self.told(group, column, managed.free_bytes());
        self.submit(Change::ColumnGrown { column, bytes }, what).await
    }

    /// Tells the registry whether the disk of a column was put back to an earlier image, if it knows something else.
    async fn tell_put_back(
        &self,
        group: &GroupVolume,
        number: u8,
        column: &GroupColumn,
    ) -> Result<(), String> {
        let found = self.node.groups.found_put_back(group.pg());
        let Some(epoch) = found.filter(|epoch| *epoch != column.put_back && self.is_in_map(group, number))
        else {
            return Ok(());
        };
        let Ok(managed) = self.disk_of(group, column) else { return Ok(()) };
        let what = || format!("what was found of the copy of volume {}", group.volume());
        let column = self.told(group, column, managed.free_bytes());
        self.submit(Change::ColumnPutBack { column, epoch }, what).await
    }

    /// Tells the registry whether the copy of this node is given up, if it knows something else.
    async fn tell_failed(&self, group: &GroupVolume, number: u8, column: &GroupColumn) -> Result<(), String> {
        let map = self.view.maps.get(&group.number).and_then(|map| map.decode().ok());
        let Some(held) = map.as_ref().and_then(|map| map.column(number)) else { return Ok(()) };
        let failed = held.state == State::Sync && self.node.groups.failed_copy(group.pg()).is_some();
        let Ok(managed) = self.disk_of(group, column) else { return Ok(()) };
        if failed == column.failed {
            return Ok(());
        }
        let what = || format!("what has become of the copy of volume {}", group.volume());
        let column = self.told(group, column, managed.free_bytes());
        self.submit(Change::ColumnFailed { column, failed }, what).await
    }

    /// Has the primary of a group, if that is this process, take commands up to the new size, and says so.
    async fn serve_growth(&self, group: &GroupVolume) -> Result<(), String> {
        let Some(growth) = group.grows.filter(|growth| growth.made && !growth.served) else { return Ok(()) };
        let map = self.view.maps.get(&group.number).and_then(|map| map.decode().ok());
        if map.is_none_or(|map| map.primary.node != self.node.me) {
            return Ok(());
        }
        let (of, bytes) = (group.pg(), growth.bytes);
        let serves = move |local: &Rc<Local>| local.serve_size(of, bytes);
        let Some(since) = self.node.on_data_thread(self.node.home_of(of), serves).await.flatten() else {
            // Its term is about to begin, or to end.
            self.waits.set(true);
            return Ok(());
        };
        let seat = self.seat.clone();
        match self.refusal(Change::SizeServed { seat, number: group.number, since, bytes }).await {
            None | Some(Refusal::NotPrimary { .. }) => Ok(()),
            Some(refusal) => {
                Err(not_followed(&format!("the growth of volume {}", group.described()), &refusal))
            }
        }
    }

    /// The managed disk of a column of this node.
    fn disk_of(&self, group: &GroupVolume, column: &GroupColumn) -> Result<&Arc<Managed>, String> {
        let found = self.node.managed.iter().find(|managed| managed.uuid() == column.disk);
        found.ok_or_else(|| {
            format!(
                "volume {} has a copy on managed disk {} ({}) of this node, which it does not have: bring the disk back",
                group.volume(),
                column.disk_name,
                column.disk
            )
        })
    }

    /// A column, as the registry is told of it.
    fn told(&self, group: &GroupVolume, column: &GroupColumn, free: u64) -> ToldColumn {
        let (volume, group, disk) = (group.uuid, group.group(), column.disk);
        ToldColumn { seat: self.seat.clone(), volume, group, disk, free }
    }

    /// Whether the map of a volume has the column; one that cannot be read may.
    fn is_in_map(&self, group: &GroupVolume, number: u8) -> bool {
        let map = self.view.maps.get(&group.number).map(GroupMap::decode);
        map.is_none_or(|map| {
            map.map_or(true, |map| map.column(number).is_some_and(|column| column.state != State::None))
        })
    }

    /// Has copies replaced that have been stale for too long; says which cannot be.
    async fn rebuild(&self, overdue: &mut Overdue) -> Vec<String> {
        let limit = self.node.config.rebuild_after;
        if limit.is_zero() {
            return Vec::new();
        }
        let own = self.node.member();
        let led =
            self.view.groups.values().filter(|group| group.state == GroupState::Ready).filter_map(|group| {
                let map = self.view.maps.get(&group.number)?.decode().ok()?;
                (map.primary == own).then_some((group, map))
            });
        let mut problems = Vec::new();
        for (group, column) in overdue.look(Instant::now(), limit, led) {
            let (volume, place, since) = (group.described(), column.place(), exact(limit));
            let change =
                Change::ReplaceColumn { volume: group.name.clone(), from: column.disk, to: Vec::new() };
            match self.session.coordinator.submit(change).await {
                Ok(_) => {
                    tracing::warn!(volume, "the copy on {place} has been stale for {since}, and is replaced by one on another disk");
                }
                Err(Error::Refused(refusal)) => problems.push(format!(
                    "the copy of volume {volume} on {place} has been stale for {since} and is not replaced (`rebuild_after`): {refusal}"
                )),
                // What is wrong with the coordinator itself is said elsewhere.
                Err(_) => {}
            }
        }
        problems
    }

    fn disk(&self, disk: &ManagedDisk) -> Option<&Arc<Managed>> {
        self.node.managed.iter().find(|managed| managed.uuid() == disk.uuid)
    }

    /// Says what was refused. What is wrong with the coordinator itself is said elsewhere.
    async fn submit(&self, change: Change, what: impl Fn() -> String) -> Result<(), String> {
        self.refusal(change).await.map_or(Ok(()), |refusal| Err(not_followed(&what(), &refusal)))
    }

    async fn refusal(&self, change: Change) -> Option<Refusal> {
        match self.session.coordinator.submit(change).await {
            Err(Error::Refused(refusal)) => Some(refusal),
            Ok(_) | Err(_) => None,
        }
    }
}

fn not_followed(what: &str, refusal: &Refusal) -> String {
    format!("the registry does not follow {what}: {refusal}")
}

/// A column as its disk has it in its table.
fn column_of(group: &GroupVolume, number: u8) -> Option<ManagedColumn> {
    let name = group.volume().parse().ok()?;
    let (volume, bytes) = (group.uuid, group.column_bytes());
    Some(ManagedColumn { volume, name, group: group.group(), column: number, bytes })
}

/// Makes a column, if the disk does not have it.
async fn make(managed: &Managed, group: &GroupVolume, number: u8) -> Result<(), String> {
    let Some(column) = column_of(group, number) else {
        return Err("its name cannot be written to a disk".into());
    };
    // It may be larger: the group was to grow when it was made, and is not any more.
    let is_there = |there: &ManagedColumn| ManagedColumn { bytes: column.bytes, ..there.clone() } == column;
    if managed.columns().iter().any(|there| is_there(there) && there.bytes >= column.bytes) {
        return Ok(());
    }
    managed.create_column(&column).await.map_err(|error: ManagedError| error.to_string())
}

/// Removes a column, if the disk has it.
async fn remove(managed: &Managed, group: &GroupVolume, number: u8) -> Result<(), ManagedError> {
    let is_it = |column: &&ManagedColumn| {
        column.volume == group.uuid && column.group == group.group() && column.column == number
    };
    match managed.columns().iter().find(is_it) {
        Some(column) => managed.remove_column(column.key()).await,
        None => Ok(()),
    }
}
