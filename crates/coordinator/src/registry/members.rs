//! Who is in: joining, renewing, leaving, dying.

use std::collections::BTreeSet;

use cards_register::StoreId;

use crate::change::Join;
use crate::ids::{Now, WallClock};
use crate::record::{Member, MemberState, Record, Store, Write};
use crate::refusal::Refusal;
use crate::seat::Seat;

use super::certificates;
use super::draft::{Draft, LeaseChange};
use super::{ADDRESS_BYTES_MAX, DEATHS_MAX, MEMBERS_MAX, Registry, check_name, printable};

pub(super) fn join(draft: &mut Draft<'_>, join: &Join) -> Result<(), Refusal> {
    let registry = draft.registry;
    let name = &join.seat.name;
    check_name("node", name)?;
    if join.cluster != registry.head.cluster {
        return Err(Refusal::WrongCluster {
            node: name.clone(),
            wanted: printable(&join.cluster),
            cluster: registry.head.cluster.clone(),
        });
    }
    check_address(name, &join.address)?;
    if is_far(draft, join.clock) {
        return Err(Refusal::ClockOff {
            name: name.clone(),
            node: join.clock,
            coordinator: draft.now.wall,
            bound_ms: registry.head.clock_bound_ms,
        });
    }
    if join.seen > registry.head.epoch {
        let epoch = registry.head.epoch;
        return Err(Refusal::RegistryBehind { name: name.clone(), seen: join.seen, epoch });
    }
    let before = registry.members.get(name);
    if let Some(member) = before {
        if member.state.is_live() {
            let again = member.seat() == join.seat && member.address == join.address;
            if again && !registry.lease_ended(name, draft.now) {
                draft.lease(LeaseChange::Extend(name.clone()));
                draft.answer_id(member.id);
                return Ok(());
            }
            if join.succeeds != Some(member.incarnation) {
                return Err(Refusal::NameInUse {
                    name: name.clone(),
                    address: member.address.clone(),
                    incarnation: member.incarnation,
                    wait_ms: registry.lease_left_ms(name, draft.now),
                });
            }
        }
        if join.seat.incarnation <= member.incarnation {
            return Err(Refusal::OldIncarnation {
                name: name.clone(),
                incarnation: join.seat.incarnation,
                latest: member.incarnation,
            });
        }
    }
    let mut others = registry.members.values().filter(|other| other.name != *name && other.state.is_live());
    if let Some(other) = others.find(|other| other.address == join.address) {
        return Err(Refusal::AddressInUse {
            node: name.clone(),
            address: join.address.clone(),
            name: other.name.clone(),
        });
    }
    let id = match before {
        Some(member) => member.id,
        None => registry.free_id()?,
    };
    // There are some only of a life that this join ends.
    draft.drop_attachments(name);
    draft.transition(Member {
        name: name.clone(),
        id,
        address: join.address.clone(),
        incarnation: join.seat.incarnation,
        state: MemberState::Joined,
        since: registry.head.epoch,
    });
    draft.lease(LeaseChange::Begin(name.clone()));
    draft.answer_id(id);
    Ok(())
}

/// Whatever its clock says: no lease is measured by it, and a clock that somebody sets must end no membership. If it
/// were the coordinator's own, it would end all of them.
pub(super) fn renew(draft: &mut Draft<'_>, seat: &Seat, clock: WallClock) -> Result<(), Refusal> {
    let member = draft.live(seat)?;
    if is_far(draft, clock) {
        draft.answer_clock();
    }
    draft.lease(LeaseChange::Extend(seat.name.clone()));
    draft.answer_id(member.id);
    Ok(())
}

pub(super) fn put_store(draft: &mut Draft<'_>, seat: &Seat, store: StoreId) -> Result<(), Refusal> {
    draft.live(seat)?;
    let node = seat.name.clone();
    let mut others = draft.registry.stores.values().filter(|known| known.node != node);
    if let Some(other) = others.find(|known| known.store == store) {
        return Err(Refusal::StoreInUse { node, other: other.node.clone() });
    }
    if draft.registry.stores.get(&node).is_none_or(|known| known.store != store) {
        draft.write(Write::Put(Record::Store(Store { node, store })));
    }
    Ok(())
}

pub(super) fn leave(draft: &mut Draft<'_>, seat: &Seat) -> Result<(), Refusal> {
    let member = draft.live(seat)?;
    if member.state == MemberState::Joined {
        draft.transition(Member { state: MemberState::Leaving, ..member.clone() });
    }
    Ok(())
}

pub(super) fn left(draft: &mut Draft<'_>, seat: &Seat) -> Result<(), Refusal> {
    let registry = draft.registry;
    let gone = |member: &Member| member.state == MemberState::Left && member.seat() == *seat;
    if registry.members.get(&seat.name).is_some_and(gone) {
        return Ok(());
    }
    let member = draft.live(seat)?;
    if let Some(attachment) = registry.attachments_of(&seat.name).next() {
        let volume = attachment.volume.clone();
        return Err(Refusal::NotDrained { name: seat.name.clone(), volume });
    }
    draft.transition(Member { state: MemberState::Left, ..member.clone() });
    Ok(())
}

pub(super) fn expire(draft: &mut Draft<'_>) {
    let registry = draft.registry;
    let live = registry.members.values().filter(|member| member.state.is_live());
    let ended = live.filter(|member| registry.lease_ended(&member.name, draft.now)).take(DEATHS_MAX);
    for member in ended.cloned().collect::<Vec<_>>() {
        draft.transition(Member { state: MemberState::Dead, ..member });
    }
}

pub(super) fn forget(draft: &mut Draft<'_>, name: &str) -> Result<(), Refusal> {
    let Some(member) = draft.registry.members.get(name) else {
        check_name("node", name)?;
        // A machine may have a certificate and never have joined.
        certificates::forget(draft, name);
        return Ok(());
    };
    if member.state.is_live() {
        return Err(Refusal::StillLive { name: name.to_owned() });
    }
    if let Some(disk) = draft.registry.disks.values().find(|disk| disk.node == name) {
        return Err(Refusal::HasDisk { name: name.to_owned(), disk: disk.id.clone() });
    }
    if let Some(disk) = draft.registry.managed.values().find(|disk| disk.node == name) {
        return Err(Refusal::HasDisk { name: name.to_owned(), disk: disk.name.clone() });
    }
    draft.write(Write::DeleteMember(name.to_owned()));
    if draft.registry.stores.contains_key(name) {
        draft.write(Write::DeleteStore(name.to_owned()));
    }
    certificates::forget(draft, name);
    Ok(())
}

fn check_address(node: &str, address: &str) -> Result<(), Refusal> {
    let port =
        address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if port && address.len() <= ADDRESS_BYTES_MAX && address.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(Refusal::BadAddress { node: node.to_owned(), address: printable(address) })
}

/// Whether a node's clock is too far from the coordinator's to join with.
fn is_far(draft: &Draft<'_>, clock: WallClock) -> bool {
    clock.distance(draft.now.wall) > draft.registry.head.clock_bound()
}

impl Registry {
    /// Whether the lease of a live member has ended. Without a lease it has.
    pub(super) fn lease_ended(&self, name: &str, now: Now) -> bool {
        self.leases.get(name).is_none_or(|end| *end <= now.mono)
    }

    fn lease_left_ms(&self, name: &str, now: Now) -> u64 {
        let end = self.leases.get(name).copied().unwrap_or_default();
        let left = end.saturating_sub(now.mono).min(self.head.lease());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// The least number that no member has, the dead included.
    fn free_id(&self) -> Result<u16, Refusal> {
        let taken: BTreeSet<u16> = self.members.values().map(|member| member.id).collect();
        let mut ids = (0..=u16::MAX).take(MEMBERS_MAX);
        let free = ids.find(|id| !taken.contains(id));
        free.ok_or_else(|| Refusal::TooMany { kind: "members".to_owned(), max: MEMBERS_MAX })
    }
}
