//! A node: its clock, its disk, its process.

use std::collections::VecDeque;

use cards_array::group::{Group, Map, Member, Message};
use cards_core::{Instant, NodeId};
use cards_layout::format::Uuid;

use super::Instance;
use super::instance::{SIZE, TICK};
use super::medium::Medium;

/// A node with a column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    pub(crate) number: usize,
    /// Ticks of its clock.
    pub(crate) clock: u8,
    /// Processes that it has had.
    incarnation: u64,
    pub(crate) medium: Medium,
    /// None: it is down.
    pub(crate) process: Option<Process>,
}

/// A process of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Process {
    pub(crate) group: Group<u8>,
    /// What it has asked the register.
    pub(crate) asks: Option<Ask>,
    /// It stands still: what has arrived waits. Its clock goes on, and a command may be what it sees first when it wakes up.
    pub(crate) inbox: Option<VecDeque<Message<u8>>>,
}

/// A question to the register.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ask {
    Read,
    Propose(Map),
}

impl Node {
    pub(crate) fn new(number: usize) -> Self {
        let medium = Medium::new(disk_of(number));
        Self { number, clock: 0, incarnation: 0, medium, process: None }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(0) + TICK * self.clock.into()
    }

    pub(crate) fn start(&mut self, instance: &Instance) {
        self.incarnation += 1;
        let me = Member { node: id_of(self.number), incarnation: self.incarnation };
        let group = (instance.group)(me, self.medium.open(), SIZE, instance.timing(), self.now());
        self.process = Some(Process { group, asks: None, inbox: None });
    }

    /// Whether it may tell clients something now.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.group.serves(self.now()))
    }

    /// Whether its process takes itself for the primary.
    pub(crate) fn is_primary(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.group.map().is_some())
    }

    /// Whether its process is up and does not stand still.
    pub(crate) fn goes_on(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.inbox.is_none())
    }
}

pub(crate) fn disk_of(number: usize) -> Uuid {
    Uuid([number as u8 + 1; 16])
}

pub(crate) fn id_of(number: usize) -> NodeId {
    NodeId(number as u16)
}
