//! The groups' machines, one for each column, and the maps that a register would keep.

use std::collections::VecDeque;

use cards_array::group::{
    Answer, Disk, Extents, Group, GroupTiming, Map, Marks, Member, Message, Output, Record, Size, State,
};
use cards_core::{Instant, NodeId};
use cards_layout::format::Uuid;

use super::volume::{BUNDLE, Places, UNIT};

/// What stands for bytes: how many.
pub(super) type Bytes = u32;

/// A column at the node that has its disk.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) group: usize,
    pub(super) disk: usize,
    pub(super) node: u16,
    /// Where it begins on the disk, in bytes.
    pub(super) begin: u64,
    pub(super) machine: Group<Bytes>,
    /// When its timer goes off, by the clock of the groups.
    pub(super) timer: Instant,
}

/// All columns of all groups.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) all: Vec<Column>,
    /// The first column of each group, whose node orders its commands.
    pub(super) firsts: Vec<usize>,
    maps: Vec<Map>,
    /// The groups' clock is so far ahead of the clients': they serve since before these come.
    started: Instant,
}

/// Groups serve after a promise and a grace; a lease and a half, and as much again.
const STARTS_WITHIN: u32 = 20;

const VOLUME: Uuid = Uuid([0xff; 16]);

impl Columns {
    /// Groups that serve.
    pub(super) fn new(places: &Places, nodes: u16, timing: GroupTiming) -> Self {
        let size = Size { bytes: places.column_bytes, copy_bytes: BUNDLE, unit_bytes: UNIT.into() };
        let node = |disk: usize| nodes - 1 - disk as u16;
        let member = |disk: usize| Member { node: NodeId(node(disk)), incarnation: 1 };
        let uuid = |disk: usize| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(disk as u64 + 1).to_le_bytes());
            Uuid(bytes)
        };
        let (mut all, mut firsts, mut maps) = (Vec::new(), Vec::new(), Vec::new());
        for (group, (disks, begins)) in places.groups.iter().zip(&places.begins).enumerate() {
            let named: Vec<_> = disks.iter().map(|&disk| (uuid(disk), NodeId(node(disk)))).collect();
            let map = Map::first(VOLUME, group as u16, member(disks[0]), &named);
            maps.push(map.unwrap_or_else(|error| unreachable!("placed columns are apart: {error}")));
            firsts.push(all.len());
            for (&disk, &begin) in disks.iter().zip(begins) {
                let found = Disk {
                    disk: uuid(disk),
                    record: Record::default(),
                    dirty: Extents::default(),
                    missed: Extents::default(),
                    marks: Marks(0),
                };
                let machine = Group::new(member(disk), found, size, timing, Instant(0));
                let node = node(disk);
                all.push(Column { group, disk, node, begin, machine, timer: Instant::NEVER });
            }
        }
        let mut columns = Self { all, firsts, maps, started: Instant(0) };
        columns.start(timing);
        columns
    }

    /// The time of the groups' clock.
    pub(super) fn time(&self, now: Instant) -> Instant {
        Instant(now.0 + self.started.0)
    }

    /// The clients' time, of a time of the groups' clock.
    pub(super) const fn clients_time(&self, time: Instant) -> Instant {
        Instant(time.0.saturating_sub(self.started.0))
    }

    /// The column of a group at a node.
    pub(super) fn at_node(&self, group: usize, node: NodeId) -> Option<usize> {
        let first = self.firsts[group];
        let of_group = self.all[first..].iter().take_while(|column| column.group == group);
        of_group.zip(first..).find(|(column, _)| column.node == node.0).map(|(_, number)| number)
    }

    /// What a group asks of the register, and what it says of itself; what is left is for the machine's parts.
    pub(super) fn settle(&mut self, column: usize, now: Instant) -> Option<Output<Bytes>> {
        let Column { machine, group, .. } = &mut self.all[column];
        while let Some(output) = machine.poll() {
            match output {
                Output::ReadMap => machine.register(now, Answer::Read(self.maps[*group].clone())),
                Output::Propose(map) => {
                    self.maps[*group] = map;
                    machine.register(now, Answer::Taken);
                }
                // No card was there before.
                Output::Serves(_) => machine.cards_void(now),
                Output::Release(_)
                | Output::CaughtUp(_)
                | Output::Stopped
                | Output::Changed(_)
                | Output::Damaged { .. } => {}
                Output::Send { .. } | Output::Work { .. } | Output::Done { .. } => return Some(output),
            }
        }
        None
    }

    /// All groups begin, with messages and disks that take no time, until they serve.
    fn start(&mut self, timing: GroupTiming) {
        let limit = Instant(0) + (timing.promise() + timing.grace) * STARTS_WITHIN;
        let mut mail: VecDeque<(usize, NodeId, Message<Bytes>)> = VecDeque::new();
        // The registry tells who the primaries are.
        for (&first, map) in self.firsts.iter().zip(&self.maps) {
            let node = NodeId(self.all[first].node);
            mail.push_back((first, node, Message::HandOver(Box::new(map.clone()))));
        }
        loop {
            let now = self.started;
            for column in 0..self.all.len() {
                if self.all[column].machine.next_timeout(now) <= now {
                    self.all[column].machine.timeout(now);
                }
                self.post(column, now, &mut mail);
            }
            while let Some((to, from, message)) = mail.pop_front() {
                self.all[to].machine.receive(now, from, message);
                self.post(to, now, &mut mail);
            }
            if self.firsts.iter().all(|&first| self.all[first].machine.serves(now)) {
                return;
            }
            let next = self.all.iter().map(|column| column.machine.next_timeout(now)).min();
            self.started = next.unwrap_or(Instant::NEVER).max(Instant(now.0 + 1));
            assert!(self.started < limit, "groups with sound disks serve soon");
        }
    }

    fn post(&mut self, column: usize, now: Instant, mail: &mut VecDeque<(usize, NodeId, Message<Bytes>)>) {
        while let Some(output) = self.settle(column, now) {
            match output {
                Output::Work { op, .. } => self.all[column].machine.done(now, op, Ok(None)),
                Output::Send { to, message } => {
                    let Column { group, node, .. } = self.all[column];
                    mail.extend(self.at_node(group, to).map(|to| (to, NodeId(node), message)));
                }
                _ => {}
            }
        }
    }

    /// Panics when a column was dropped, or a group has another primary than at first.
    pub(super) fn check(&self, now: Instant) {
        for (map, &first) in self.maps.iter().zip(&self.firsts) {
            assert!(
                map.columns.iter().all(|column| column.state == State::Sync),
                "a column is dropped: {map:?}"
            );
            assert!(self.all[first].machine.serves(self.time(now)), "its primary serves: {map:?}");
        }
    }
}
