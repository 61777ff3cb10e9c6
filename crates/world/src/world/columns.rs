//! Columns of groups that rot, are compared with their checksums, and give way to others.
//!
//! No unit is lost: when no column in sync would be left that has it, one recovers, as from a bad cable. So no client may be told of an error
//! but while the column that has it cannot be asked.

use cards_array::group::{COLUMNS_MAX, Command, Extent, Map, Message, Placement, State, Token as GroupToken};
use cards_core::{Duration, Instant, NodeId, PgId};
use cards_layout::format::Uuid;

use super::groups::{COPY, DriverMistake, Mirror};
use super::{Action, World};
use crate::column::Column;
use crate::memory::Tags;
use crate::models::Models;

/// A column that takes the place of another one: what the registry wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// The number and the node of the one that leaves.
    leaves: (u8, NodeId),
    column: u8,
    disk: Uuid,
    node: NodeId,
}

/// What has happened to a column of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnEvent {
    /// It has become in sync.
    Admitted {
        /// Of which volume.
        volume: PgId,
        /// At which node.
        node: NodeId,
    },
    /// Units of a volume were found damaged, and no other column could be asked for them.
    Unrepaired(PgId),
    /// A node hears only then that the group may have another primary.
    News {
        /// Which node.
        node: NodeId,
        /// Of which volume.
        volume: PgId,
        /// When it hears of it.
        at: Instant,
    },
    /// The map was changed as it must not be.
    Wrong(String),
}

impl Mirror {
    fn state(&self, column: u8) -> State {
        self.register.column(column).map_or(State::None, |column| column.state)
    }

    /// The register takes no other columns than are wanted: a primary may not have heard of its last word.
    pub(super) fn is_planned(&self, map: &Map) -> bool {
        (0..map.columns.len() as u8).all(|number| {
            let has = map.column(number).filter(|column| column.state != State::None);
            match (self.state(number), has) {
                (State::None, Some(has)) => {
                    self.plan.is_some_and(|plan| (plan.column, plan.disk) == (number, has.disk))
                }
                (State::None, None) | (_, Some(_)) => true,
                (_, None) => self.plan.is_some_and(|plan| plan.leaves.0 == number),
            }
        })
    }

    /// The map as the register keeps it: as it is, but by mistake.
    pub(super) fn as_kept(&self, mut map: Map) -> Map {
        if self.config.mistake == Some(DriverMistake::AddInSync) {
            for number in 0..map.columns.len() {
                if self.state(number as u8) == State::None && map.columns[number].state != State::None {
                    map.columns[number].state = State::Sync;
                }
            }
        }
        map
    }
}

impl<M: Models> World<M> {
    /// The node has the column that the map names.
    pub(super) fn has_place(&self, node: NodeId, volume: PgId) -> bool {
        let map = &self.mirrors[&volume].register;
        let column = map.column_at(node).and_then(|number| map.column(number));
        let disk = self.columns.get(&(node, volume)).map(Column::disk);
        column.is_some_and(|column| Some(column.disk) == disk)
    }

    /// The nodes that have columns of a group, by its map.
    #[must_use]
    pub fn column_nodes(&self, volume: PgId) -> Vec<NodeId> {
        self.mirrors.get(&volume).map(|mirror| mirror.nodes().collect()).unwrap_or_default()
    }

    /// No column of the group is to give way to another one.
    #[must_use]
    pub fn is_placed(&self, volume: PgId) -> bool {
        self.mirrors.get(&volume).is_none_or(|mirror| mirror.plan.is_none())
    }

    /// Units of columns in sync that do not fit their checksums.
    #[must_use]
    pub fn rotten(&self, volume: PgId) -> Vec<(NodeId, u64)> {
        let nodes = self.mirrors.get(&volume).into_iter().flat_map(Mirror::in_sync);
        nodes.flat_map(|node| self.columns[&(node, volume)].rotten().map(move |unit| (node, unit))).collect()
    }

    /// A unit of a column does not fit its checksum from now on, unless no other column in sync has it.
    pub fn rot(&mut self, node: NodeId, volume: PgId, unit: u64) {
        let is_last = !self.sound(volume, unit).any(|other| other != node);
        let Some(column) = self.columns.get_mut(&(node, volume)) else { return };
        let unit = unit % column.units();
        if is_last || column.is_rotten(unit) {
            return;
        }
        column.rots(unit);
        self.mirror(volume).counts.rotten += 1;
        trace!(self, "unit {unit} of {volume:?} rots at {node:?}");
    }

    /// The columns in sync that have a unit, and have lost nothing.
    fn sound(&self, volume: PgId, unit: u64) -> impl Iterator<Item = NodeId> + '_ {
        self.mirrors[&volume].in_sync().filter(move |&node| {
            let column = &self.columns[&(node, volume)];
            !column.record.is_lossy && !column.is_rotten(unit % column.units())
        })
    }

    /// What no column in sync would have is there again.
    pub(super) fn spare_last(&mut self, volume: PgId) {
        for (node, unit) in self.rotten(volume) {
            if self.sound(volume, unit).next().is_none() {
                self.column(node, volume).recovers(unit);
            }
        }
    }

    /// Has a part of the group compared with its checksums, if a primary serves.
    pub fn scrub(&mut self, volume: PgId, pieces: std::ops::Range<u64>) {
        let Some((node, _)) = self.leader(volume) else { return };
        if self.group_of(node, volume).is_none_or(|life| life.serving.is_none()) {
            return;
        }
        let sectors = self.column(node, volume).media.sectors();
        let unit = self.mirror(volume).config.unit;
        for piece in pieces.start..pieces.end.min(sectors.div_ceil(COPY)) {
            let offset = piece * COPY;
            let length = COPY.min(sectors.next_multiple_of(unit) - offset);
            self.last_question += 1;
            let token = GroupToken(self.last_question);
            let command = Command::Verify { extent: Extent { offset, length } };
            trace!(self, "{node:?} {volume:?} > {token:?} {command:?}");
            self.with_group(node, volume, |group, now| group.command(now, token, command));
        }
    }

    /// So many pieces are all of a group.
    #[must_use]
    pub fn pieces(&self, volume: PgId) -> u64 {
        self.media(volume).sectors().div_ceil(COPY)
    }

    /// A column was found damaged.
    pub(super) fn damaged(&mut self, volume: PgId, is_repaired: bool) {
        let counts = &mut self.mirror(volume).counts;
        counts.repaired += u64::from(is_repaired);
        counts.unrepaired += u64::from(!is_repaired);
        if !is_repaired {
            self.column_events.push_back(ColumnEvent::Unrepaired(volume));
        }
    }

    /// By mistake, a copy of an earlier term is done as if it were of this one.
    pub(super) fn unfenced(&mut self, volume: PgId, message: Message<Tags>) -> Message<Tags> {
        let mirror = self.mirror(volume);
        let now = mirror.register.term;
        match message {
            Message::Put { term, number, extent, payload, missed, doubtful, origin: None, .. }
                if term < now && mirror.config.mistake == Some(DriverMistake::UnfencedCopies) =>
            {
                // No number of the present term.
                let number = number | 1 << 40;
                Message::Put { term: now, number, floor: 0, extent, payload, missed, doubtful, origin: None }
            }
            message => message,
        }
    }

    /// The column of a node is to give way to one of a node without.
    pub fn replace_column(&mut self, volume: PgId, from: NodeId, to: NodeId) {
        let mirror = &self.mirrors[&volume];
        let numbers = mirror.register.columns.len() as u8;
        let free = (0..numbers).find(|&number| mirror.state(number) == State::None).unwrap_or(numbers);
        let (Some(leaves), None) = (mirror.register.column_at(from), mirror.register.column_at(to)) else {
            return;
        };
        if mirror.plan.is_some() || self.has_left(to, volume) || usize::from(free) >= COLUMNS_MAX {
            return;
        }
        let spec = self.config.volumes.iter().find(|spec| spec.id == volume).expect("a volume of the world");
        let mirror = self.mirrors.get_mut(&volume).expect("a volume with a group");
        mirror.disks = mirror.disks.wrapping_add(1);
        let disk = Uuid([mirror.disks; 16]);
        let plan = Plan { leaves: (leaves, from), column: free, disk, node: to };
        mirror.plan = Some(plan);
        let column = Column::new(disk, spec, self.config.sectors, mirror.config.unit);
        self.columns.insert((to, volume), column);
        trace!(self, "{volume:?}: {plan:?}");
        self.schedule(self.now, Action::Place(volume));
    }

    /// The node has a column that is not in the map, nor to be.
    fn has_left(&self, node: NodeId, volume: PgId) -> bool {
        let mirror = &self.mirrors[&volume];
        self.columns.contains_key(&(node, volume))
            && mirror.register.column_at(node).is_none()
            && mirror.plan.is_none_or(|plan| plan.node != node)
    }

    /// What is wanted is told to each node with a column, unless it does not hear it; columns begin, and are removed.
    pub(super) fn place_columns(&mut self, volume: PgId) {
        let nodes: Vec<NodeId> = (0..self.places.len() as u16).map(NodeId).collect();
        for &node in nodes.iter().filter(|&&node| self.has_left(node, volume)).collect::<Vec<_>>() {
            self.remove_column(node, volume);
        }
        for &node in &nodes {
            if self.is_running(node) && self.group_of(node, volume).is_none() {
                self.begin_group(node, volume);
            }
        }
        let is_left = nodes.iter().any(|&node| self.has_left(node, volume));
        if let Some(plan) = self.mirrors[&volume].plan {
            self.tell_plan(&nodes, volume, plan);
        } else if !is_left {
            return;
        }
        let after = Duration::from_micros(10_000 + self.mirror(volume).draw() % 50_000);
        self.schedule(self.now + after, Action::Place(volume));
    }

    fn tell_plan(&mut self, nodes: &[NodeId], volume: PgId, plan: Plan) {
        let Plan { leaves: (leaves, from), column, disk, node } = plan;
        // One that is stale stays until another one has its place: if all others are lost it is all that is left.
        let wanted = match self.mirrors[&volume].state(column) {
            State::Sync => vec![Placement::Retire { column: leaves, successor: Some(column) }],
            State::None => vec![Placement::Add { column, disk, node }],
            _ => Vec::new(),
        };
        for &at in nodes {
            let hears = self.mirror(volume).chance(700);
            let stands_still = self.place(at).pauses.iter().any(|&end| end > self.now);
            if hears && !stands_still && self.group_of(at, volume).is_some() {
                self.with_group(at, volume, |group, now| group.place(now, wanted.clone()));
            }
        }
        let mirror = &self.mirrors[&volume];
        // The primary's own column leaves when another node is the primary.
        if mirror.register.primary.node == from && mirror.state(column) == State::Sync {
            self.hand_over(volume, node);
        }
    }

    /// A node removes a column that has left.
    fn remove_column(&mut self, node: NodeId, volume: PgId) {
        let serves = self.leader(volume).is_some_and(|(leader, _)| leader == node);
        let stands_still = self.place(node).pauses.iter().any(|&end| end > self.now);
        // The core hears of the next primary first.
        if serves || stands_still || !self.mirror(volume).chance(300) {
            return;
        }
        trace!(self, "{node:?} removes its column of {volume:?}");
        if self.group_of(node, volume).is_some() {
            self.stopped(node, volume);
            self.running(node).groups.remove(&volume);
        }
        self.columns.remove(&(node, volume));
    }

    /// The register holds another map.
    pub(super) fn columns_change(&mut self, volume: PgId, before: &Map, map: &Map) {
        let mirror = self.mirrors.get_mut(&volume).expect("a volume with a group");
        for (number, column) in map.columns.iter().enumerate() {
            let was = before.column(number as u8).map_or(State::None, |column| column.state);
            let is_lossy = || self.columns[&(column.node, volume)].record.is_lossy;
            if was != State::Sync && column.state == State::Sync {
                mirror.counts.admissions += 1;
                if !mirror.power_lost && !is_lossy() {
                    let node = column.node;
                    self.column_events.push_back(ColumnEvent::Admitted { volume, node });
                }
            }
            if was != State::None && column.state == State::None {
                mirror.counts.replaced += 1;
                // Columns are made the same first.
                mirror.is_whole = false;
                let plan = mirror.plan.take();
                let successor = plan.and_then(|plan| before.column(plan.column));
                // It may have been dropped since it was in sync.
                let follows =
                    successor.is_some_and(|successor| successor.state.has_up_to() >= was.has_up_to());
                if !follows {
                    let why =
                        format!("column {number} of {volume:?} leaves before another one has its place");
                    self.column_events.push_back(ColumnEvent::Wrong(why));
                }
            }
        }
    }
}
