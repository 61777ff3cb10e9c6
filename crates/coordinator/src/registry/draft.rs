//! Effects of one change while they are being decided.

use crate::change::Applied;
use crate::ids::{Epoch, Now, WallClock};
use crate::record::{Head, Member, MemberState, Record, Write};
use crate::refusal::Refusal;
use crate::seat::Seat;

use super::{Registry, check_name};

/// What a change leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effects {
    /// Changes of the records, to be made all or none; empty if the change changes nothing. The new head is last.
    pub writes: Vec<Write>,
    /// Changes of the leases, after the writes.
    pub leases: Vec<LeaseChange>,
    /// The answer once all this is done.
    pub applied: Applied,
}

/// A change of one member's lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseChange {
    /// A lease begins.
    Begin(String),
    /// The lease is a full one again.
    Extend(String),
    /// There is no lease any more.
    End(String),
}

/// A change in the making: reads the registry as it is, collects what is to become of it.
pub(super) struct Draft<'a> {
    pub(super) registry: &'a Registry,
    pub(super) now: Now,
    head: Head,
    writes: Vec<Write>,
    leases: Vec<LeaseChange>,
    id: Option<u16>,
    dead: Vec<String>,
    coordinator_clock: Option<WallClock>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(registry: &'a Registry, now: Now) -> Self {
        Self {
            registry,
            now,
            head: registry.head.clone(),
            writes: Vec::new(),
            leases: Vec::new(),
            id: None,
            dead: Vec::new(),
            coordinator_clock: None,
        }
    }

    pub(super) fn finish(mut self) -> Effects {
        let changed = !self.writes.is_empty();
        if changed {
            self.head.revision.0 += 1;
            self.writes.push(Write::Put(Record::Head(self.head.clone())));
        }
        let applied = Applied {
            changed,
            epoch: self.head.epoch,
            revision: self.head.revision,
            id: self.id,
            dead: self.dead,
            coordinator_clock: self.coordinator_clock,
        };
        Effects { writes: self.writes, leases: self.leases, applied }
    }

    pub(super) fn write(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// Whether a group's record is deleted by what is collected so far.
    pub(super) fn deletes_group(&self, name: &str) -> bool {
        self.writes.iter().any(|write| matches!(write, Write::DeleteGroup(deleted) if deleted == name))
    }

    pub(super) fn lease(&mut self, change: LeaseChange) {
        self.leases.push(change);
    }

    /// The answer is about the member with this number.
    pub(super) const fn answer_id(&mut self, id: u16) {
        self.id = Some(id);
    }

    /// The answer is to a member whose clock is far from the coordinator's.
    pub(super) const fn answer_clock(&mut self) {
        self.coordinator_clock = Some(self.now.wall);
    }

    /// A member comes into another state: the one place where an epoch begins.
    pub(super) fn transition(&mut self, member: Member) {
        self.head.epoch = Epoch(self.head.epoch.0 + 1);
        if member.state == MemberState::Dead {
            self.dead.push(member.name.clone());
        }
        if !member.state.is_live() {
            self.leases.push(LeaseChange::End(member.name.clone()));
            self.drop_attachments(&member.name);
        }
        self.writes.push(Write::Put(Record::Member(Member { since: self.head.epoch, ..member })));
    }

    /// The attachments of a life end with it.
    pub(super) fn drop_attachments(&mut self, name: &str) {
        if self.registry.attachments_of(name).next().is_some() {
            self.writes.push(Write::DeleteAttachmentsOf(name.to_owned()));
        }
    }

    /// The member in the life that asks, if that life has a lease.
    pub(super) fn live(&self, seat: &Seat) -> Result<&'a Member, Refusal> {
        let name = seat.name.clone();
        let Some(member) = self.registry.members.get(&name) else {
            check_name("node", &name)?;
            return Err(Refusal::UnknownMember { name });
        };
        let incarnation = seat.incarnation;
        if incarnation < member.incarnation {
            let (latest, address) = (member.incarnation, member.address.clone());
            return Err(Refusal::NameTaken { name, incarnation, latest, address });
        }
        if incarnation > member.incarnation {
            return Err(Refusal::NotJoined { name, incarnation, latest: member.incarnation });
        }
        match member.state {
            MemberState::Left => Err(Refusal::HasLeft { name, epoch: member.since }),
            MemberState::Dead => Err(Refusal::LeaseEnded { name, incarnation }),
            MemberState::Joined | MemberState::Leaving if self.registry.lease_ended(&name, self.now) => {
                Err(Refusal::LeaseEnded { name, incarnation })
            }
            MemberState::Joined | MemberState::Leaving => Ok(member),
        }
    }

    /// The same, if it is not about to leave.
    pub(super) fn joined(&self, seat: &Seat) -> Result<&'a Member, Refusal> {
        let member = self.live(seat)?;
        if member.state == MemberState::Leaving {
            return Err(Refusal::Leaving { name: seat.name.clone() });
        }
        Ok(member)
    }
}
