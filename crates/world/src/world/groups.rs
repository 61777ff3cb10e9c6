//! Volumes whose medium is a group of copies: a [`Group`] at each node that has a column, wired to the node's core as a daemon does it.
//!
//! The order is what a driver owes:
//!
//! - A command of the core goes to the group with its origin, and is answered when the group says that it is done. A durable write is one
//!   when a flush after it is done, too.
//! - [`Output::Serves`] begins a term of the core, whose epoch is the one in which the process took over ([`Map::since`]). It comes
//!   again while that goes on, and changes nothing then.
//! - [`Output::Stopped`] ends the term: the core hears first that another node is the primary, then how its open commands ended.
//! - When the right to serve grows, the control hears of it. When writes are allowed, the group does.
//! - Other nodes hear who the primary is from the register, sooner or later.

use std::collections::{BTreeMap, BTreeSet};

use cards_array::group::{
    Answer, Client, Command, CommandError, Extent, Group, GroupTiming, KeptExclusivity, Map, Member, Message,
    Op, Origin, Output, Size, State, Term, Token as GroupToken, Work,
};
use cards_core::{
    CommandKind, CommandOrigin, ControlInput, DiskJournal, DiskWork, Duration, Exclusivity, Input, Instant,
    IoError, KnownCards, NodeId, OpId, Payload, Persistence, PgId, Term as CoreTerm, VolumeSpec, mix,
};
use cards_layout::format::Uuid;

use super::columns::{ColumnEvent, Plan};
use super::{Action, EnvelopeBody, Event, Loss, World};
use crate::column::Column;
use crate::memory::Tags;
use crate::models::Models;
use crate::node::{Alarm, Unit};

/// A node has heard of a change within this, ...
const NEWS: Duration = Duration::from_millis(60);

/// ... or, if the news are late, within this.
const LATE_NEWS: Duration = Duration::from_millis(2_500);

/// Sectors that are copied, or compared with their checksums, at a time.
pub(super) const COPY: u64 = 16;

/// A register that says nothing for so long is asked again.
pub(super) const ANSWER: Duration = Duration::from_millis(30);

/// A volume whose medium is a group of copies.
#[derive(Clone, Debug)]
pub struct MirrorConfig {
    /// Its number, which is that of no plain disk.
    pub volume: PgId,
    /// The nodes that have columns at first.
    pub columns: Vec<NodeId>,
    /// Sectors that have one checksum: a divisor of a block's.
    pub unit: u64,
    /// The times of the group.
    pub timing: GroupTiming,
    /// Questions to the register, and answers, that are lost, per mille.
    pub register_loss: u32,
    /// News of a new primary that a node hears late, per mille.
    pub late_news: u32,
    /// Operations of a column's disk that take long, per mille.
    pub slow: u32,
    /// What the driver does wrong, to show that it is found.
    pub mistake: Option<DriverMistake>,
}

/// What a driver of groups can do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverMistake {
    /// Commands go to the group without their origins.
    IgnoreOrigins,
    /// The core does not hear until when it has the right to serve.
    IgnoreRight,
    /// The core does not wait until cards of the last primary are void.
    ForgetAcquainted,
    /// The core does not hear that a loss of power has begun another life.
    ForgetLife,
    /// A durable write is answered without a flush.
    ForgetFua,
    /// Commands that are open when the primary stops count as done.
    AnswerStopped,
    /// Cards are given before it is kept who has the volume for itself.
    ForgetExclusivity,
    /// What is said of that counts, whoever is the primary.
    NoteUnfenced,
    /// Copies and repairs of an earlier term are done, as if they were of the present one.
    UnfencedCopies,
    /// A scrub compares nothing.
    BlindScrub,
    /// A column that takes another one's place is called in sync at once.
    AddInSync,
    /// A process that leaves a group it leads counts what is open as done, and answers it.
    AnswerLeaving,
}

impl DriverMistake {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::IgnoreOrigins,
        Self::IgnoreRight,
        Self::ForgetAcquainted,
        Self::ForgetLife,
        Self::ForgetFua,
        Self::AnswerStopped,
        Self::ForgetExclusivity,
        Self::NoteUnfenced,
        Self::UnfencedCopies,
        Self::BlindScrub,
        Self::AddInSync,
        Self::AnswerLeaving,
    ];
}

/// What is the same for all nodes of a group.
pub(super) struct Mirror {
    pub(super) config: MirrorConfig,
    /// What the register holds.
    pub(super) register: Map,
    /// Which card has the volume for itself, as the register holds it beside the map.
    pub(super) exclusivity: KeptExclusivity,
    /// The last that named each node the writer.
    pub(super) writers: BTreeMap<NodeId, KeptExclusivity>,
    /// Questions of each node with lower numbers have no effect any more.
    fenced: BTreeMap<NodeId, u64>,
    /// Nodes that do not reach the register until then.
    pub(super) cut_off: BTreeMap<NodeId, Instant>,
    /// The node that has begun to serve last, and in which of its terms.
    leader: (NodeId, u64),
    /// The persistence life that was served last.
    life: u64,
    /// All columns in sync have lost their power since.
    pub(super) power_lost: bool,
    /// Every column remembers everything: all were in sync when a term was opened, and none of their processes has ended since.
    pub(super) is_whole: bool,
    /// Proposals on their way to the register, by the numbers of the questions, that leave a column behind: it may take them when who asks is dead.
    leaves_behind: BTreeSet<u64>,
    /// The term of the register when a column's process ended last: none up to it has all columns remember everything.
    ended: Term,
    /// The column that takes the place of another one.
    pub(super) plan: Option<Plan>,
    /// Disks that were ever columns.
    pub(super) disks: u8,
    /// Makes what is drawn here.
    drawn: u64,
    pub(super) counts: MirrorCounts,
}

/// What has happened to the groups of a world.
#[derive(Clone, Copy, Default, Debug)]
pub struct MirrorCounts {
    /// Changes of maps.
    pub maps: u64,
    /// Terms of the core.
    pub terms: u64,
    /// Columns that became in sync again.
    pub admissions: u64,
    /// Terms that have begun another persistence life.
    pub lives: u64,
    /// Losses of power at all columns in sync.
    pub power_lost: u64,
    /// Commands of which no column knew any more whether they were applied.
    pub in_doubt: u64,
    /// Commands that an earlier term had begun, and that were given to a group.
    pub repeated: u64,
    /// Commands that were open when a group stopped.
    pub stopped: u64,
    /// Primaries that have found that a card had the volume for itself.
    pub goes_on: u64,
    /// Units that began to rot.
    pub rotten: u64,
    /// Damages that were written anew from another column.
    pub repaired: u64,
    /// Damages of which no column in sync could be asked.
    pub unrepaired: u64,
    /// Columns that have left when another one had their place.
    pub replaced: u64,
    /// Times that a process with a column said that it ends.
    pub left: u64,
}

impl MirrorCounts {
    /// Counts these, too.
    pub fn add(&mut self, other: &Self) {
        let Self { maps, terms, admissions, lives, power_lost, in_doubt, repeated, stopped, goes_on, .. } =
            *other;
        let Self { rotten, repaired, unrepaired, replaced, left, .. } = *other;
        self.maps += maps;
        self.terms += terms;
        self.admissions += admissions;
        self.lives += lives;
        self.power_lost += power_lost;
        self.in_doubt += in_doubt;
        self.repeated += repeated;
        self.stopped += stopped;
        self.goes_on += goes_on;
        self.rotten += rotten;
        self.left += left;
        self.repaired += repaired;
        self.unrepaired += unrepaired;
        self.replaced += replaced;
    }
}

/// A group at a node while its process lives.
pub(crate) struct GroupLife {
    pub(super) group: Group<Tags>,
    pub(crate) alarm: Alarm,
    /// Operations of the disk that are on their way, and the writes that syncs among them cover.
    works: BTreeMap<Op, (Work<Tags>, u64)>,
    /// What the core waits for.
    commands: BTreeMap<GroupToken, Asked>,
    /// The epoch in which the core's term has begun.
    pub(super) serving: Option<u64>,
    /// What is to be kept of the core's term, as long as it is not known to be.
    pub(super) noting: Option<KeptExclusivity>,
    /// The end of the right that the core knows.
    right: Instant,
}

/// A command of the core.
struct Asked {
    shard: u16,
    op: OpId,
    work: DiskWork,
    /// The write is done, and is being made durable.
    is_hardening: bool,
}

impl GroupLife {
    /// When a timer is wanted.
    pub(crate) fn next_timeout(&self, now: Instant) -> Instant {
        self.group.next_timeout(now)
    }
}

impl Mirror {
    pub(super) fn new(config: &MirrorConfig, seed: u64) -> Self {
        let disks: Vec<(Uuid, NodeId)> =
            (1..).map(|number| Uuid([number; 16])).zip(config.columns.iter().copied()).collect();
        let primary = Member { node: config.columns[0], incarnation: 0 };
        let register = Map::first(Uuid([9; 16]), 0, primary, &disks).expect("columns at different nodes");
        Self {
            config: config.clone(),
            register,
            exclusivity: KeptExclusivity::default(),
            writers: BTreeMap::new(),
            fenced: BTreeMap::new(),
            cut_off: BTreeMap::new(),
            leader: (config.columns[0], 0),
            life: 0,
            power_lost: false,
            is_whole: false,
            leaves_behind: BTreeSet::new(),
            ended: Term::default(),
            plan: None,
            disks: config.columns.len() as u8,
            drawn: mix(seed ^ u64::from(config.volume.0)),
            counts: MirrorCounts::default(),
        }
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.drawn = mix(self.drawn);
        self.drawn >> 8
    }

    pub(super) fn chance(&mut self, per_mille: u32) -> bool {
        self.draw() % 1000 < u64::from(per_mille)
    }

    /// A time of up to so many microseconds, and 50 at least.
    pub(super) fn takes(&mut self, micros: u64) -> Duration {
        Duration::from_micros(50 + self.draw() % micros)
    }

    /// The nodes whose columns are in sync.
    pub(super) fn in_sync(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.register.in_sync().map(|number| self.register.columns[usize::from(number)].node)
    }

    /// The nodes that have columns.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let columns = self.register.columns.iter().filter(|column| column.state != State::None);
        columns.map(|column| column.node)
    }

    /// A node with a column that is not this one, to be taken for the primary while none is known.
    fn other(&self, node: NodeId) -> NodeId {
        self.nodes().find(|&other| other != node).unwrap_or(node)
    }
}

impl<M: Models> World<M> {
    /// The volume's medium is a group of copies.
    #[must_use]
    pub fn is_mirror(&self, volume: PgId) -> bool {
        self.mirrors.contains_key(&volume)
    }

    /// The node that has begun to serve the group last, and in which of its terms.
    pub(super) fn leader(&self, volume: PgId) -> Option<(NodeId, u64)> {
        self.mirrors.get(&volume).map(|mirror| mirror.leader)
    }

    /// What has happened to the groups.
    #[must_use]
    pub fn mirror_counts(&self) -> MirrorCounts {
        let mut sum = MirrorCounts::default();
        self.mirrors.values().for_each(|mirror| sum.add(&mirror.counts));
        sum
    }

    /// What the register of a group has of who has it for itself.
    #[must_use]
    pub fn exclusivity(&self, volume: PgId) -> Option<Exclusivity> {
        self.mirrors.get(&volume).map(|mirror| mirror.exclusivity.exclusivity)
    }

    /// The register has been told that the node is not the writer any more, by the primary that knew it as that or a later one.
    #[must_use]
    pub fn is_writer_no_more(&self, volume: PgId, node: NodeId) -> bool {
        self.mirrors.get(&volume).is_some_and(|mirror| {
            let named = mirror.writers.get(&node);
            named.is_some_and(|named| mirror.exclusivity.is_later_than(named))
        })
    }

    /// Every column of the group is in sync, and remembers everything.
    #[must_use]
    pub fn is_whole(&self, volume: PgId) -> bool {
        self.mirrors.get(&volume).is_some_and(|mirror| {
            mirror.is_whole && mirror.register.is_whole() && mirror.leaves_behind.is_empty()
        })
    }

    /// The columns of a group that are in sync by the register.
    pub fn columns_in_sync(&self, volume: PgId) -> impl Iterator<Item = (NodeId, &crate::Media)> {
        let nodes = self.mirrors.get(&volume).into_iter().flat_map(Mirror::in_sync);
        nodes.filter_map(move |node| Some((node, &self.columns.get(&(node, volume))?.media)))
    }

    /// A node does not reach the register of a group until then, and hears nothing from it.
    pub fn cut_off(&mut self, node: NodeId, volume: PgId, until: Instant) {
        trace!(self, "{node:?} does not reach the register of {volume:?} until {until:?}");
        self.mirror(volume).cut_off.insert(node, until);
    }

    /// The node has a column of a group.
    #[must_use]
    pub fn has_column(&self, node: NodeId) -> bool {
        self.columns.range((node, PgId(0))..=(node, PgId(u32::MAX))).next().is_some()
    }

    /// The columns of all groups, as they were made.
    pub(super) fn new_columns(config: &super::WorldConfig) -> BTreeMap<(NodeId, PgId), Column> {
        let mut columns = BTreeMap::new();
        for mirror in &config.mirrors {
            let spec =
                config.volumes.iter().find(|spec| spec.id == mirror.volume).expect("a volume of the world");
            for (number, node) in (1..).zip(&mirror.columns) {
                let column = Column::new(Uuid([number; 16]), spec, config.sectors, mirror.unit);
                columns.insert((*node, mirror.volume), column);
            }
        }
        columns
    }

    pub(super) fn mirror(&mut self, volume: PgId) -> &mut Mirror {
        self.mirrors.get_mut(&volume).expect("a volume with a group")
    }

    pub(super) fn column(&mut self, node: NodeId, volume: PgId) -> &mut Column {
        self.columns.get_mut(&(node, volume)).expect("the node has a column")
    }

    fn spec_of(&self, volume: PgId, primary: NodeId, epoch: u64) -> VolumeSpec {
        let spec = self.config.volumes.iter().find(|spec| spec.id == volume).expect("a volume of the world");
        VolumeSpec { primary, epoch, ..spec.clone() }
    }

    /// A process has started: it opens its columns, and hears what the register holds.
    pub(super) fn begin_groups(&mut self, node: NodeId) {
        let volumes: Vec<PgId> = self.mirrors.keys().copied().collect();
        for volume in volumes {
            self.tell_map(node, volume);
            self.begin_group(node, volume);
        }
    }

    /// The node drives its column, if the map has it.
    pub(super) fn begin_group(&mut self, node: NodeId, volume: PgId) {
        if !self.has_place(node, volume) {
            return;
        }
        let me = Member { node, incarnation: self.place(node).incarnation };
        let sectors = self.column(node, volume).media.sectors();
        let disk = self.column(node, volume).open();
        let MirrorConfig { timing, unit, .. } = self.mirror(volume).config;
        let size = Size { bytes: sectors, copy_bytes: COPY, unit_bytes: unit };
        let now = self.clock(node);
        let group = Group::new(me, disk, size, timing, now);
        let life = GroupLife {
            group,
            alarm: Alarm::new(),
            works: BTreeMap::new(),
            commands: BTreeMap::new(),
            serving: None,
            noting: None,
            right: Instant(0),
        };
        self.running(node).groups.insert(volume, life);
        self.with_group(node, volume, |_, _| {});
    }

    /// A process ends in order: what was on its way to its disks is done, and durable.
    pub(super) fn close_columns(&mut self, node: NodeId) {
        let groups = &mut self.running(node).groups;
        let works: Vec<_> =
            groups.iter_mut().map(|(volume, life)| (*volume, std::mem::take(&mut life.works))).collect();
        for (volume, works) in works {
            let column = self.columns.get_mut(&(node, volume)).expect("the node has a column");
            column.close(works.into_values().map(|(work, _)| work));
        }
    }

    /// A process ends: of what was on its way to its disks, any part is done.
    pub(super) fn end_groups(&mut self, node: NodeId) {
        let groups = std::mem::take(&mut self.running(node).groups);
        for (volume, life) in groups {
            let mirror = self.mirror(volume);
            (mirror.is_whole, mirror.ended) = (false, mirror.register.term);
            for (work, _) in life.works.into_values() {
                let Self { mirrors, columns, .. } = self;
                let mirror = mirrors.get_mut(&volume).expect("a volume with a group");
                let column = columns.get_mut(&(node, volume)).expect("the node has a column");
                column.tear(&work, || mirror.chance(500));
            }
        }
    }

    /// A group of a running node.
    pub(super) fn group_of(&self, node: NodeId, volume: PgId) -> Option<&GroupLife> {
        self.place(node).running.as_ref()?.groups.get(&volume)
    }

    /// The machine of a node loses its power.
    pub(super) fn cut_columns(&mut self, node: NodeId) {
        let volumes: Vec<PgId> = self.mirrors.keys().copied().collect();
        for volume in volumes {
            let Self { mirrors, columns, .. } = self;
            let mirror = mirrors.get_mut(&volume).expect("a volume with a group");
            if let Some(column) = columns.get_mut(&(node, volume)) {
                column.lose_power(|| mirror.chance(500));
            }
            self.judge_power(volume);
            self.spare_last(volume);
        }
    }

    /// When all columns in sync have lost their power, what was not flushed may be gone.
    fn judge_power(&mut self, volume: PgId) {
        let mirror = &self.mirrors[&volume];
        let is_lossy = |node: NodeId| self.columns[&(node, volume)].record.is_lossy;
        if mirror.in_sync().all(is_lossy) && !mirror.power_lost {
            let mirror = self.mirror(volume);
            mirror.power_lost = true;
            mirror.counts.power_lost += 1;
        }
    }

    /// Something happens to a group. What comes out of it is carried out next.
    pub(super) fn with_group(
        &mut self,
        node: NodeId,
        volume: PgId,
        act: impl FnOnce(&mut Group<Tags>, Instant),
    ) {
        let now = self.clock(node);
        let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
        act(&mut life.group, now);
        let life = self.place(node).life;
        self.events.push(self.now, Event::GroupActs { node, life, volume });
    }

    /// What a group wants is done, in order; then it is seen when it wants to be called again.
    pub(super) fn group_acts(&mut self, node: NodeId, volume: PgId) {
        loop {
            let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
            let Some(output) = life.group.poll() else { break };
            self.carry_out(node, volume, output);
        }
        let now = self.clock(node);
        let ignores = self.mirror(volume).config.mistake == Some(DriverMistake::IgnoreRight);
        let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
        let until = life.group.right_ends().filter(|_| life.serving.is_some() && !ignores);
        if let Some(until) = until.filter(|&until| until != life.right) {
            life.right = until;
            self.control_input(node, ControlInput::Right { volume, until });
        }
        let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
        let due = life.next_timeout(now);
        if life.alarm.set(due) {
            self.set_timer(node, Unit::Group(volume), due);
        }
    }

    fn carry_out(&mut self, node: NodeId, volume: PgId, output: Output<Tags>) {
        trace!(self, "{node:?} {volume:?} < {output:?}");
        match output {
            Output::Send { to, message } => {
                self.send(node, to, EnvelopeBody::Group { volume, message: Box::new(message) });
            }
            Output::Work { op, work } => {
                let covered = self.column(node, volume).begin(&work);
                let mirror = self.mirror(volume);
                let slow = mirror.config.slow;
                let is_slow = mirror.chance(slow);
                let after = mirror.takes(if is_slow { 60_000 } else { 2_000 });
                self.running(node)
                    .groups
                    .get_mut(&volume)
                    .expect("it wants it")
                    .works
                    .insert(op, (work, covered));
                let life = self.place(node).life;
                self.events.push(self.now + after, Event::GroupWork { node, life, volume, op });
            }
            Output::Release(extent) => self.column(node, volume).release(extent),
            Output::CaughtUp(extents) => self.column(node, volume).caught_up(&extents),
            Output::ReadMap => self.ask_register(node, volume, None),
            Output::Propose(map) => self.ask_register(node, volume, Some(map)),
            Output::Damaged { is_repaired, .. } => self.damaged(volume, is_repaired),
            Output::Serves(_) => self.serves(node, volume),
            Output::Stopped => self.stopped(node, volume),
            Output::Changed(_) => {}
            Output::Done { token, result } => self.group_done(node, volume, token, result),
        }
    }

    /// An operation of a column's disk has ended.
    pub(super) fn group_work(&mut self, node: NodeId, volume: PgId, op: Op) {
        let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
        let Some((work, covered)) = life.works.remove(&op) else { return };
        let is_blind = self.mirror(volume).config.mistake == Some(DriverMistake::BlindScrub);
        let result = match work {
            Work::Verify { .. } if is_blind => Ok(None),
            work => self.column(node, volume).apply(&work, covered),
        };
        let marks = self.column(node, volume).marks();
        self.with_group(node, volume, |group, now| {
            group.marked(marks);
            group.done(now, op, result);
        });
    }

    pub(super) fn group_message(&mut self, node: NodeId, from: NodeId, volume: PgId, message: Message<Tags>) {
        trace!(self, "{node:?} {volume:?} > {from:?} {message:?}");
        let message = self.unfenced(volume, message);
        self.with_group(node, volume, |group, now| group.receive(now, from, message));
    }

    pub(super) fn group_timeout(&mut self, node: NodeId, volume: PgId) {
        self.with_group(node, volume, |group, now| group.timeout(now));
    }

    fn ask_register(&mut self, node: NodeId, volume: PgId, proposal: Option<Map>) {
        let life = self.place(node).life;
        let now = self.now;
        self.last_question += 1;
        let number = self.last_question;
        let mirror = self.mirror(volume);
        // What was asked before has no effect any more.
        mirror.fenced.insert(node, number);
        let loss = mirror.config.register_loss;
        let is_cut_off = mirror.cut_off.get(&node).is_some_and(|&until| now < until);
        if !is_cut_off && !mirror.chance(loss) {
            let after = mirror.takes(4_000);
            if proposal.as_ref().is_some_and(|map| !map.is_whole()) {
                mirror.leaves_behind.insert(number);
            }
            self.events.push(now + after, Event::Register { node, life, volume, number, proposal });
        }
        let answer = Answer::Unknown;
        self.events.push(now + ANSWER, Event::Registered { node, life, volume, number, answer });
    }

    /// A question arrives at the register.
    pub(super) fn register(
        &mut self,
        node: NodeId,
        life: u64,
        volume: PgId,
        number: u64,
        proposal: Option<Map>,
    ) {
        let now = self.now;
        let mirror = self.mirror(volume);
        mirror.leaves_behind.remove(&number);
        if mirror.fenced.get(&node).is_some_and(|&fenced| fenced > number) {
            return;
        }
        let answer = match proposal {
            None => Answer::Read(mirror.register.clone()),
            Some(map) if map.term.epoch == mirror.register.term.epoch + 1 && mirror.is_planned(&map) => {
                self.map_changes(volume, map);
                Answer::Taken
            }
            Some(_) => Answer::NotTaken,
        };
        let mirror = self.mirror(volume);
        let loss = mirror.config.register_loss;
        let is_cut_off = mirror.cut_off.get(&node).is_some_and(|&until| now < until);
        if !is_cut_off && !mirror.chance(loss) {
            let after = mirror.takes(3_000);
            self.events.push(now + after, Event::Registered { node, life, volume, number, answer });
        }
    }

    /// Only the first answer to a question counts.
    pub(super) fn registered(&mut self, node: NodeId, volume: PgId, number: u64, answer: Answer) {
        let fenced = self.mirror(volume).fenced.entry(node).or_default();
        if *fenced > number {
            return;
        }
        *fenced = number + 1;
        trace!(self, "{node:?} {volume:?} > register {answer:?}");
        self.with_group(node, volume, |group, now| group.register(now, answer));
    }

    /// The register holds another map.
    fn map_changes(&mut self, volume: PgId, map: Map) {
        trace!(self, "{volume:?} has map {map:?}");
        let mirror = self.mirror(volume);
        let map = mirror.as_kept(map);
        let before = std::mem::replace(&mut mirror.register, map.clone());
        mirror.counts.maps += 1;
        self.columns_change(volume, &before, &map);
        self.judge_power(volume);
        self.spare_last(volume);
        if before.since == map.since {
            return;
        }
        for node in (0..self.places.len() as u16).map(NodeId) {
            let mirror = self.mirror(volume);
            let late_news = mirror.config.late_news;
            let within = if mirror.chance(late_news) { LATE_NEWS } else { NEWS };
            let after = Duration::from_nanos(mirror.draw() % within.as_nanos() as u64);
            self.tell_later(node, volume, self.now + after);
        }
    }

    /// A node hears what the register holds, some time later.
    fn tell_later(&mut self, node: NodeId, volume: PgId, at: Instant) {
        self.column_events.push_back(ColumnEvent::News { node, volume, at });
        self.schedule(at, Action::TellRole { at: node, volume });
    }

    /// A node hears what the register holds. That it is the primary itself, its group says.
    pub(super) fn tell_map(&mut self, node: NodeId, volume: PgId) {
        if !self.is_running(node) {
            return;
        }
        let now = self.now;
        let known = self.control(node).and_then(|control| control.volume(volume)).map(|spec| spec.epoch);
        let cut_off = self.mirror(volume).cut_off.get(&node).copied();
        if let Some(until) = cut_off.filter(|&until| now < until && known.is_some()) {
            return self.tell_later(node, volume, until);
        }
        let map = self.mirror(volume).register.clone();
        if known.is_some_and(|known| known >= map.since) {
            return;
        }
        let member = Member { node, incarnation: self.place(node).incarnation };
        if map.primary == member {
            return;
        }
        let primary =
            if map.primary.node == node { self.mirror(volume).other(node) } else { map.primary.node };
        let spec = self.spec_of(volume, primary, map.since);
        self.control_input(node, ControlInput::Group { spec, term: None });
    }

    /// The node's group has begun to serve. The core's term begins when it is known who had the volume for itself.
    fn serves(&mut self, node: NodeId, volume: PgId) {
        let life = &self.running(node).groups[&volume];
        let (map, serving) = (life.group.map().cloned(), life.serving);
        let Some(map) = map else { return };
        let mirror = self.mirror(volume);
        mirror.is_whole = map.is_whole() && map.term > mirror.ended;
        let since = map.since;
        if serving == Some(since) {
            return;
        }
        if serving.is_some() {
            self.stopped(node, volume);
        }
        self.read_exclusivity(node, volume, since);
    }

    /// The core's term begins.
    pub(super) fn begin_term(&mut self, node: NodeId, volume: PgId, exclusivity: Exclusivity) {
        let group = &self.running(node).groups[&volume].group;
        let (map, life, is_new_life) = (group.map().cloned(), group.life(), group.is_new_life());
        let outlived = group.outlived();
        let (Some(map), Some(life)) = (map, life) else { return };
        let since = map.since;
        trace!(self, "{node:?} serves {volume:?} since {since}, life {life}");
        let mistake = self.mirror(volume).config.mistake;
        // A node that stood still may begin when another one has taken over.
        if since >= self.mirror(volume).leader.1 {
            self.begin_life(node, volume, life);
            self.mirror(volume).leader = (node, since);
        }
        self.mirror(volume).counts.terms += 1;
        let group = self.running(node).groups.get_mut(&volume).expect("it serves");
        (group.serving, group.noting, group.right) = (Some(since), None, Instant(0));
        let life = if mistake == Some(DriverMistake::ForgetLife) { 1 } else { life };
        let journal = DiskJournal {
            volume,
            persistence: Persistence(life),
            loss: cards_core::Loss::Power,
            held: is_new_life,
        };
        let all = (0..self.places.len() as u16).map(NodeId).filter(|node| Some(*node) != outlived);
        let acquainted = all.filter(|_| mistake != Some(DriverMistake::ForgetAcquainted)).collect();
        let cards = KnownCards::Exclusivity(exclusivity);
        let term = Some(CoreTerm { journal, cards, acquainted });
        let spec = self.spec_of(volume, node, since);
        self.control_input(node, ControlInput::Group { spec, term });
    }

    /// Another persistence life: what was acknowledged and not flushed may be lost.
    fn begin_life(&mut self, node: NodeId, volume: PgId, life: u64) {
        let mirror = self.mirror(volume);
        if std::mem::replace(&mut mirror.life, life) == life {
            return;
        }
        mirror.counts.lives += 1;
        let power_lost = std::mem::take(&mut mirror.power_lost);
        let media = &self.columns[&(node, volume)].media;
        let changed = media.written_sectors().map(|sector| (sector, media.tag(sector)));
        let changed = if power_lost { changed.collect() } else { Vec::new() };
        self.losses.push_back(Loss { volume, changed });
    }

    /// The node's group serves no more, and knows of no other that does.
    pub(super) fn stopped(&mut self, node: NodeId, volume: PgId) {
        let mistake = self.mirror(volume).config.mistake;
        let other = self.mirror(volume).other(node);
        let life = self.running(node).groups.get_mut(&volume).expect("it has stopped");
        let asked = std::mem::take(&mut life.commands);
        let serving = life.serving.take();
        self.mirror(volume).counts.stopped += asked.len() as u64;
        let Some(since) = serving else { return };
        let spec = self.spec_of(volume, other, since);
        self.control_input(node, ControlInput::Group { spec, term: None });
        for asked in asked.into_values() {
            let is_write = matches!(asked.work, DiskWork::Command { .. });
            let counts_as_done = is_write && mistake == Some(DriverMistake::AnswerStopped);
            self.disk_ends(node, &asked, if counts_as_done { Ok(()) } else { Err(IoError::NotAttached) });
        }
    }

    /// By mistake: what a group has not done yet counts as done.
    fn answer_open(&mut self, node: NodeId, volume: PgId) {
        let Some(life) = self.running(node).groups.get_mut(&volume) else { return };
        let open = life.commands.extract_if(.., |_, asked| matches!(asked.work, DiskWork::Command { .. }));
        let open: Vec<Asked> = open.map(|(_, asked)| asked).collect();
        open.iter().for_each(|asked| self.disk_ends(node, asked, Ok(())));
    }

    fn disk_ends(&mut self, node: NodeId, asked: &Asked, result: Result<(), IoError>) {
        if let DiskWork::Read { slot, .. } = asked.work {
            self.shard(node, asked.shard).memory.filled(slot);
        }
        self.shard_input(node, asked.shard, Input::DiskDone { op: asked.op, result });
    }

    /// The core wants something of the group.
    pub(super) fn group_start(&mut self, node: NodeId, shard: u16, op: OpId, volume: PgId, work: DiskWork) {
        if let DiskWork::Read { slot, .. } = work {
            self.shard(node, shard).memory.fill(slot);
        }
        let asked = Asked { shard, op, work, is_hardening: false };
        let is_serving = self.running(node).groups.get(&volume).is_some_and(|life| life.serving.is_some());
        if !is_serving {
            // Its term is about to end, or has: after what the shard is saying.
            let life = self.place(node).life;
            return self.events.push(self.now, Event::GroupRefuses { node, life, shard, op, work });
        }
        let command = self.command_of(node, shard, volume, work);
        self.give(node, volume, asked, command);
    }

    /// The core has asked a group that does not serve.
    pub(super) fn group_refuses(&mut self, node: NodeId, shard: u16, op: OpId, work: DiskWork) {
        let asked = Asked { shard, op, work, is_hardening: false };
        self.disk_ends(node, &asked, Err(IoError::NotAttached));
    }

    fn give(&mut self, node: NodeId, volume: PgId, asked: Asked, command: Command<Tags>) {
        self.last_question += 1;
        let token = GroupToken(self.last_question);
        trace!(self, "{node:?} {volume:?} > {token:?} {command:?}");
        let life = self.running(node).groups.get_mut(&volume).expect("it serves");
        life.commands.insert(token, asked);
        self.with_group(node, volume, |group, now| group.command(now, token, command));
    }

    /// What the group is to do, with extents in sectors.
    fn command_of(&mut self, node: NodeId, shard: u16, volume: PgId, work: DiskWork) -> Command<Tags> {
        let ignores = self.mirror(volume).config.mistake == Some(DriverMistake::IgnoreOrigins);
        let (sector_bytes, per_block) = (u64::from(self.sector_bytes()), u64::from(self.config.sectors));
        match work {
            DiskWork::Read { block, .. } => {
                let offset = u64::from(block) * per_block;
                let length = per_block.min(self.column(node, volume).media.sectors() - offset);
                Command::Read { extent: Extent { offset, length } }
            }
            DiskWork::Command { kind: CommandKind::Flush { .. }, .. } => Command::Flush,
            DiskWork::Command { kind, offset, length, payload, origin, .. } => {
                let (offset, length) = (offset / sector_bytes, u64::from(length) / sector_bytes);
                let payload = match (kind, payload) {
                    (CommandKind::Write, Payload::Buffer(buffer)) => {
                        self.shard(node, shard).memory.buffer(buffer).to_vec()
                    }
                    _ => vec![0; length as usize],
                };
                let epoch = self.leader(volume).map_or(0, |(_, epoch)| epoch);
                let is_repeated = origin.is_some_and(|origin| origin.first_epoch < epoch);
                self.mirror(volume).counts.repeated += u64::from(is_repeated);
                let origin = origin.filter(|_| !ignores).map(origin_of);
                Command::Write { extent: Extent { offset, length }, payload, origin }
            }
        }
    }

    /// A command of the core has ended.
    fn group_done(
        &mut self,
        node: NodeId,
        volume: PgId,
        token: GroupToken,
        result: Result<Option<Tags>, CommandError>,
    ) {
        let life = self.running(node).groups.get_mut(&volume).expect("it has ended a command");
        let Some(mut asked) = life.commands.remove(&token) else { return };
        let result = match result {
            Ok(payload) => {
                if let DiskWork::Read { slot, .. } = asked.work {
                    let per_block = self.config.sectors as usize;
                    let tags =
                        payload.unwrap_or_default().into_iter().chain(std::iter::repeat(0)).take(per_block);
                    let tags: Tags = tags.collect();
                    let memory = &mut self.shard(node, asked.shard).memory;
                    tags.into_iter().enumerate().for_each(|(n, tag)| memory.fill_sector(slot, n, tag));
                }
                Ok(())
            }
            Err(CommandError::NotPrimary) => Err(IoError::NotAttached),
            Err(CommandError::InDoubt) => {
                self.mirror(volume).counts.in_doubt += 1;
                Err(IoError::OutcomeUnknown)
            }
            Err(CommandError::Answered) => Err(IoError::NoAnswer),
            Err(CommandError::Damaged) => Err(IoError::Io),
        };
        let is_durable = matches!(asked.work, DiskWork::Command { fua: true, .. });
        let forgets = self.mirror(volume).config.mistake == Some(DriverMistake::ForgetFua);
        if is_durable && result.is_ok() && !asked.is_hardening && !forgets {
            asked.is_hardening = true;
            return self.give(node, volume, asked, Command::Flush);
        }
        self.disk_ends(node, &asked, result);
    }

    /// A group is left to another node, if that has a column and runs.
    pub(super) fn hand_over(&mut self, volume: PgId, to: NodeId) {
        let from = self.mirror(volume).leader.0;
        if from == to
            || !self.is_running(from)
            || !self.is_running(to)
            || !self.columns.contains_key(&(to, volume))
        {
            return;
        }
        trace!(self, "{from:?} is to leave {volume:?} to {to:?}");
        let to = Member { node: to, incarnation: self.place(to).incarnation };
        self.with_group(from, volume, |group, now| group.hand_over(now, to));
    }

    /// A process is to end: others have its groups, and do not wait for its columns.
    pub(super) fn leave_groups(&mut self, node: NodeId) {
        if !self.is_running(node) || self.place(node).pauses.iter().any(|&end| end > self.now) {
            return;
        }
        let columns = self.columns.range((node, PgId(0))..=(node, PgId(u32::MAX)));
        let volumes: Vec<PgId> = columns.map(|((_, volume), _)| *volume).collect();
        for volume in volumes {
            let heir = self.mirrors[&volume].in_sync().find(|&heir| heir != node && self.is_running(heir));
            let heir = heir.map(|heir| Member { node: heir, incarnation: self.place(heir).incarnation });
            trace!(self, "{node:?} leaves {volume:?} to {heir:?}");
            self.mirror(volume).counts.left += 1;
            if self.mirror(volume).config.mistake == Some(DriverMistake::AnswerLeaving) {
                self.answer_open(node, volume);
            }
            self.with_group(node, volume, |group, now| group.leave(now, heir));
        }
    }

    /// Cards of earlier primaries are void: the group may write.
    pub(super) fn group_writes(&mut self, node: NodeId, volume: PgId) {
        self.with_group(node, volume, |group, now| group.cards_void(now));
    }
}

/// As the array says it.
const fn origin_of(origin: CommandOrigin) -> Origin {
    let CommandOrigin { node, life, shard, number, oldest, first_epoch } = origin;
    let client = Client { member: Member { node, incarnation: life }, shard };
    Origin { client, request: number, oldest, first_epoch }
}
