//! Nodes whose clocks differ, their disks, a register, and clients; and what is judged at each event.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use cards_core::{Duration, Instant, NodeId};
use cards_layout::format::Uuid;

use super::history::History;
use super::media::{Media, SUMMED, UNITS, UNITS_BEFORE, units};
use super::random::Random;
use crate::group::mistakes::{Made, Mistake};
use crate::group::{
    Answer, COLUMNS_MAX, Change, Client as Sender, Command, CommandError, Extent, Group, GroupTiming, Map,
    MapColumn, Member, Message, Op, Origin, Output, Placement, Size, State, Term, Token, Work, WorkError,
};

/// The nodes whose columns are in sync.
fn in_sync(map: &Map) -> impl Iterator<Item = usize> + '_ {
    map.in_sync().map(|column| usize::from(map.columns[usize::from(column)].node.0))
}

/// The node that a client asks after this one: any, and in a calm each in its turn.
fn next_node(is_calm: bool, node: usize, count: u64, random: &mut Random) -> usize {
    if is_calm { (node + 1) % count as usize } else { random.below(count) as usize }
}

/// Microseconds of the world's time.
pub(super) type Time = u64;
pub(super) const MS: Time = 1000;

pub(super) const LEASE: Time = 100 * MS;
pub(super) const NEVER: Time = 3600 * 1000 * MS;
const CARD: Time = 150 * MS;
const CLIENTS: usize = 3;
const SIZE: Size = Size { bytes: UNITS as u64, copy_bytes: 4, unit_bytes: SUMMED as u64 };

pub(super) fn timing(faults: &Faults) -> GroupTiming {
    GroupTiming {
        lease: Duration::from_micros(LEASE),
        resend: Duration::from_micros(20 * MS),
        put_timeout: Duration::from_micros(150 * MS),
        rank_delay: Duration::from_micros(20 * MS),
        grace: Duration::from_micros(CARD + CARD / 2),
        confirm: Duration::from_micros(faults.confirm),
        rest: Duration::from_micros(10 * MS),
    }
}

/// How links and the register fail.
#[derive(Clone, Copy)]
pub(super) struct Faults {
    pub(super) loss: u64,
    pub(super) repeats: u64,
    pub(super) late: u64,
    pub(super) register_loss: u64,
    /// Groups remember next to nothing.
    pub(super) little_room: bool,
    /// After so long without a change the register is told that a map was opened.
    pub(super) confirm: Time,
    /// Disks do nothing for a while, and then what they were asked for.
    pub(super) stalls: bool,
}

pub(super) struct Node {
    pub(super) group: Option<Group<Vec<u32>>>,
    pub(super) media: Media,
    pub(super) incarnation: u64,
    rate: u64,
    offset: u64,
    pub(super) paused_until: Time,
    /// Operations of the disk that are on their way.
    works: BTreeMap<Op, Work<Vec<u32>>>,
    timer: Time,
    pub(super) disk_fails: bool,
    /// What the disk was asked to do does not end.
    pub(super) disk_hangs: bool,
    /// Until then the disk does nothing of the kind: all, reads, writes, what is durable afterwards.
    pub(super) stalls: (Time, u64),
    /// The last term that the column was sealed for, if it had lost nothing then.
    sound: Option<Term>,
    commands: BTreeMap<Token, (usize, u64, Extent)>,
    /// Copies that clients were given, by client and unit: the token of the read.
    copies: BTreeMap<(usize, usize), Token>,
    pub(super) serves: bool,
    /// The disk as it was at this time.
    image: Option<(Time, Media)>,
    /// When its process ended last.
    fell: Time,
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Message {
        to: usize,
        from: usize,
        message: Box<Message<Vec<u32>>>,
    },
    Work {
        node: usize,
        incarnation: u64,
        op: Op,
    },
    Timer {
        node: usize,
        incarnation: u64,
    },
    Register {
        node: usize,
        incarnation: u64,
        number: u64,
        proposal: Option<Map>,
        answers: bool,
    },
    Answered {
        node: usize,
        incarnation: u64,
        number: u64,
        answer: Answer,
    },
    Start(usize),
    /// A process that ends says so again, and ends after so many times.
    Leave {
        node: usize,
        incarnation: u64,
        times: u64,
    },
    /// The driver has found that the disk of this node hangs, or does no more.
    Hangs {
        node: usize,
        hangs: bool,
    },
    /// A disk that failed works again, without what was not synced.
    Replug(usize),
    Client(usize),
    Command {
        node: usize,
        client: usize,
        request: u64,
        command: Command<Vec<u32>>,
    },
    Reply {
        client: usize,
        request: u64,
        node: usize,
        epoch: u64,
        result: Reply,
    },
    Fault,
    /// Placement goes on.
    Place,
    /// The node of a column that has left removes what it has of it.
    Remove(usize),
    /// The group is to grow.
    Grow,
    /// The column of this node grows.
    Grown(usize),
}

/// A group that becomes larger, column by column.
struct Growth {
    random: Random,
    /// It is wanted.
    has_begun: bool,
    /// The columns, by node, of which the registry has heard that they have grown, or which were made larger.
    told: Vec<bool>,
    /// All columns in the map have grown: clients may use what is new.
    is_made: bool,
}

/// A column that takes the place of another one.
#[derive(Clone, Copy, Debug)]
struct Plan {
    leaves: u8,
    column: u8,
    disk: Uuid,
    node: usize,
    /// The new column is to leave again, before it is in sync.
    is_given_up: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Done { card: Option<Token>, values: Option<Vec<u32>> },
    Failed(CommandError),
}

struct Client {
    rate: u64,
    request: u64,
    /// The command that is open, when it was begun, and when it was sent first to the node that it was sent to last.
    open: Option<(Command<Vec<u32>>, Time, Time)>,
    /// Since when it asks this node.
    asks_since: Time,
    node: usize,
    epoch: u64,
    /// Copies: value, and until when by the world's time.
    copies: BTreeMap<usize, (u32, Time, usize)>,
    done: u64,
}

/// What was drawn and what came of it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) terms: u64,
    pub(super) take_overs: u64,
    pub(super) drops: u64,
    pub(super) admissions: u64,
    pub(super) hand_overs: u64,
    pub(super) leaves: u64,
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) copies_read: u64,
    pub(super) flushes: u64,
    pub(super) in_doubt: u64,
    pub(super) power_lost: u64,
    /// Lives that went on in processes that know no commands of them.
    pub(super) lives_kept: u64,
    pub(super) old_disks: u64,
    /// Those of columns in sync.
    pub(super) put_back: u64,
    pub(super) disks_failed: u64,
    /// Units that were copied from one node to another.
    pub(super) copied: u64,
    pub(super) added: u64,
    pub(super) retired: u64,
    /// Units that began to rot.
    pub(super) rotten: u64,
    /// Damages that were written anew, and that no column could mend.
    pub(super) repaired: u64,
    pub(super) unrepaired: u64,
    /// Commands that failed for them.
    pub(super) unreadable: u64,
    /// Groups that have grown.
    pub(super) grown: u64,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Time,
    pub(super) nodes: Vec<Node>,
    /// What processes have told of changes of the map.
    pub(super) changes: Vec<(usize, Change)>,
    pub(super) register: Map,
    register_number: u64,
    /// Proposals of a node with lower numbers are taken no more.
    fenced: Vec<u64>,
    pub(super) cuts: BTreeSet<(usize, usize)>,
    pub(super) register_cuts: BTreeSet<usize>,
    pub(super) faults: Faults,
    events: BTreeMap<(Time, u64), Event>,
    next_event: u64,
    clients: Vec<Client>,
    next_token: u64,
    next_value: u32,
    histories: [History; UNITS],
    /// Losses of what was not flushed, and how many there were when each life of the group began.
    losses: u64,
    lives: Vec<(u64, u64)>,
    /// Copies that have arrived.
    copies: BTreeSet<(Term, u64, usize)>,
    mistake: Option<Mistake>,
    pub(super) wrong: Option<String>,
    pub(super) counts: Counts,
    pub(super) trace: Option<Vec<String>>,
    /// No faults come any more.
    pub(super) is_calm: bool,
    /// The times of groups that are started from now on.
    pub(super) timing: GroupTiming,
    /// Clients do nothing.
    pub(super) clients_rest: bool,
    /// Down for good.
    pub(super) dead: Option<usize>,
    /// The disk of this node answers no read.
    pub(super) mute: Option<usize>,
    /// The disk of this node answers nothing.
    pub(super) hangs: Option<usize>,
    plan: Option<Plan>,
    /// The last one that was given up when the new column was in sync already: a primary may not have heard that the old one stays.
    given_up_late: Option<Plan>,
    /// Nodes whose column has left, and is on their disks still.
    left: BTreeSet<usize>,
    /// Nodes whose disks were put back while their columns count as in sync.
    images: BTreeSet<usize>,
    /// When the register's map has changed last.
    changed: Time,
    /// The primary before this one was another node.
    last_primary: Option<usize>,
    /// None: it has its size from the beginning.
    growth: Option<Growth>,
}

impl World {
    pub(super) fn new(seed: u64, count: usize, faults: Faults, mistake: Option<Mistake>) -> Self {
        Self::with_spare(seed, count, 0, faults, mistake)
    }

    /// Of so many nodes, some with a disk that is not in the map.
    pub(super) fn with_spare(
        seed: u64,
        count: usize,
        spare: usize,
        faults: Faults,
        mistake: Option<Mistake>,
    ) -> Self {
        let mut random = Random(seed);
        let disks: Vec<_> = (0..count - spare).map(|n| (Uuid([n as u8 + 1; 16]), NodeId(n as u16))).collect();
        let primary = Member { node: NodeId(0), incarnation: 0 };
        let register = Map::first(Uuid([9; 16]), 0, primary, &disks).unwrap();
        // The slowest clock and the fastest differ as much as is allowed, and a little less than by a third.
        let mut rates: Vec<u64> = (0..count + CLIENTS).map(|_| random.between(1000, 1311)).collect();
        let slow = random.below(rates.len() as u64) as usize;
        rates[slow] = 1000;
        rates[(slow + 1) % (count + CLIENTS)] = 1310;
        let nodes = (0..count).map(|n| Node {
            group: None,
            media: Media::new(Uuid([n as u8 + 1; 16])),
            incarnation: 0,
            rate: rates[n],
            offset: random.below(1_000_000_000),
            paused_until: 0,
            works: BTreeMap::new(),
            timer: Time::MAX,
            disk_fails: false,
            disk_hangs: false,
            stalls: (0, 0),
            sound: None,
            commands: BTreeMap::new(),
            copies: BTreeMap::new(),
            serves: false,
            image: None,
            fell: 0,
        });
        let clients = (0..CLIENTS).map(|n| Client {
            rate: rates[count + n],
            request: 0,
            open: None,
            asks_since: 0,
            node: n % count,
            epoch: 0,
            copies: BTreeMap::new(),
            done: 0,
        });
        let mut world = Self {
            now: 0,
            nodes: nodes.collect(),
            changes: Vec::new(),
            register,
            register_number: 0,
            fenced: alloc::vec![0; count],
            cuts: BTreeSet::new(),
            register_cuts: BTreeSet::new(),
            faults,
            events: BTreeMap::new(),
            next_event: 0,
            clients: clients.collect(),
            next_token: 0,
            next_value: 0,
            histories: core::array::from_fn(|_| History::default()),
            losses: 0,
            lives: Vec::new(),
            copies: BTreeSet::new(),
            mistake,
            wrong: None,
            counts: Counts::default(),
            trace: None,
            is_calm: false,
            timing: timing(&faults),
            clients_rest: false,
            dead: None,
            mute: None,
            hangs: None,
            plan: None,
            given_up_late: None,
            left: BTreeSet::new(),
            images: BTreeSet::new(),
            changed: 0,
            last_primary: None,
            growth: None,
            random: Random(random.next()),
        };
        for node in 0..count {
            world.start(node);
        }
        for client in 0..CLIENTS {
            world.at(10 * MS, Event::Client(client));
        }
        world
    }

    /// The group is smaller now, and grows some time later. What is drawn for that changes nothing else that is drawn.
    pub(super) fn grows(&mut self, seed: u64) {
        let mut random = Random(seed);
        let after = random.between(50 * MS, 900 * MS);
        let told = alloc::vec![false; self.nodes.len()];
        self.growth = Some(Growth { random, has_begun: false, told, is_made: false });
        for node in &mut self.nodes {
            node.media.size = UNITS_BEFORE;
            node.group.as_mut().expect("nothing has happened yet").shrink(UNITS_BEFORE as u64);
        }
        self.at(after, Event::Grow);
    }

    /// Units that clients may use.
    fn units(&self) -> usize {
        if self.growth.as_ref().is_none_or(|growth| growth.is_made) { UNITS } else { UNITS_BEFORE }
    }

    /// Units of a column that is made now.
    fn new_units(&self) -> usize {
        if self.growth.as_ref().is_none_or(|growth| growth.has_begun) { UNITS } else { UNITS_BEFORE }
    }

    fn grow(&mut self) {
        let is_calm = self.is_calm;
        let is_well = self.register.is_whole() && self.plan.is_none();
        let Some(growth) = &mut self.growth else { return };
        if is_calm {
            return;
        }
        if !is_well {
            let after = growth.random.between(10 * MS, 50 * MS);
            return self.at(after, Event::Grow);
        }
        growth.has_begun = true;
        let after: Vec<Time> = (0..self.nodes.len()).map(|_| growth.random.between(100, 300 * MS)).collect();
        self.tell(|| "the group is to grow".into());
        (0..).zip(after).for_each(|(node, after)| self.at(after, Event::Grown(node)));
    }

    /// The column of a node grows, if its process is there; and then the registry hears of it.
    fn grown(&mut self, node: usize) {
        let Some(growth) = &mut self.growth else { return };
        if self.nodes[node].group.is_none() {
            let after = growth.random.between(MS, 30 * MS);
            return self.at(after, Event::Grown(node));
        }
        growth.told[node] = true;
        self.widen(node);
        self.is_made();
    }

    fn widen(&mut self, node: usize) {
        self.tell(|| format!("the column of n{node} has grown"));
        self.nodes[node].media.size = UNITS;
        self.with(node, |group, _| group.grow(UNITS as u64));
    }

    /// Looks whether clients may use what is new.
    fn is_made(&mut self) {
        let Some(growth) = &mut self.growth else { return };
        let there = self.register.columns.iter().filter(|column| column.state != State::None);
        let is_made = there.into_iter().all(|column| growth.told[usize::from(column.node.0)]);
        if growth.has_begun && is_made && !growth.is_made {
            growth.is_made = true;
            self.counts.grown += 1;
            self.tell(|| "the group has grown".into());
        }
    }

    pub(super) fn at(&mut self, after: Time, event: Event) {
        self.next_event += 1;
        self.events.insert((self.now + after, self.next_event), event);
    }

    pub(super) fn fails(&mut self, why: String) {
        if self.wrong.is_none() {
            self.wrong = Some(format!("{}.{:03} ms: {why}", self.now / 1000, self.now % 1000));
        }
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} {}", self.now as f64 / 1000.0, line()));
        }
    }

    /// Runs until `end`, or until something is wrong.
    pub(super) fn run(&mut self, end: Time) {
        while self.wrong.is_none()
            && let Some(((at, number), _)) = self.events.first_key_value().filter(|((at, _), _)| *at <= end)
        {
            let key = (*at, *number);
            self.now = self.now.max(key.0);
            let event = self.events.remove(&key).expect("it is first");
            self.counts.events += 1;
            self.happen(event);
        }
        if self.wrong.is_none() {
            self.now = end;
        }
    }

    /// The event waits while its node stands still.
    fn is_paused(&mut self, event: &Event) -> bool {
        let node = match event {
            Event::Message { to, .. } => *to,
            Event::Work { node, .. }
            | Event::Timer { node, .. }
            | Event::Answered { node, .. }
            | Event::Command { node, .. } => *node,
            _ => return false,
        };
        let until = self.nodes[node].paused_until;
        if until > self.now {
            let after = until - self.now + self.random.below(MS);
            self.at(after, event.clone());
            return true;
        }
        false
    }

    fn happen(&mut self, event: Event) {
        if self.is_paused(&event) {
            return;
        }
        match event {
            Event::Message { to, from, message } => {
                if self.cuts.contains(&(from, to)) {
                    return;
                }
                self.tell(|| format!("n{to} <- n{from} {message:?}"));
                if let Message::Put { origin: None, extent, term, number, .. } = &*message
                    && self.copies.insert((*term, *number, to))
                {
                    self.counts.copied += extent.length;
                }
                self.with(to, |group, now| group.receive(now, NodeId(from as u16), *message));
            }
            Event::Work { node, .. } if self.nodes[node].disk_hangs => {}
            Event::Work { node, incarnation, op } if self.is_stalled(node, op) => {
                let after = self.nodes[node].stalls.0 - self.now + self.random.below(MS);
                self.at(after, Event::Work { node, incarnation, op });
            }
            Event::Work { node, incarnation, op } if incarnation == self.nodes[node].incarnation => {
                let Some(work) = self.nodes[node].works.remove(&op) else { return };
                let fails = self.nodes[node].disk_fails;
                // What fails may be done or not.
                let is_done = !fails || self.random.chance(500);
                let done = is_done.then(|| self.nodes[node].media.apply(&work));
                let result = done.filter(|_| !fails).unwrap_or(Err(WorkError::Disk));
                let marks = self.nodes[node].media.marks();
                if self.nodes[node].media.is_short {
                    self.fails(format!("n{node} is to write behind the end of its column"));
                }
                self.with(node, |group, now| {
                    group.marked(marks);
                    group.done(now, op, result);
                });
            }
            Event::Timer { node, incarnation } if incarnation == self.nodes[node].incarnation => {
                self.nodes[node].timer = Time::MAX;
                self.with(node, |group, now| group.timeout(now));
            }
            Event::Register { node, incarnation, number, proposal, answers } => {
                self.ask(node, incarnation, number, proposal, answers);
            }
            Event::Answered { node, incarnation, number, answer }
                // Only the first answer to a question counts.
                if incarnation == self.nodes[node].incarnation && self.fenced[node] <= number =>
            {
                self.fenced[node] = number + 1;
                self.tell(|| format!("n{node} register {answer:?}"));
                self.with(node, |group, now| group.register(now, answer));
            }
            Event::Leave { node, incarnation, times } => self.leaves_again(node, incarnation, times),
            Event::Start(node) if self.nodes[node].group.is_none() && self.dead != Some(node) => {
                if self.nodes[node].image.is_some() && !self.is_calm && self.random.chance(300) {
                    self.swap_disk(node);
                }
                self.start(node);
            }
            Event::Replug(node) => self.replug(node),
            Event::Hangs { node, hangs } => {
                let hangs = hangs && !self.is_calm;
                self.with(node, |group, now| group.disk_hangs(now, hangs));
            }
            Event::Client(client) => self.client(client),
            Event::Command { node, client, request, command } => self.command(node, client, request, command),
            Event::Reply { client, request, node, epoch, result } => {
                self.reply(client, request, node, epoch, result);
            }
            Event::Fault => self.fault(),
            Event::Place => self.place(),
            Event::Remove(node) => self.remove(node),
            Event::Grow => self.grow(),
            Event::Grown(node) => self.grown(node),
            _ => {}
        }
    }

    /// A question to the register arrives there.
    fn ask(&mut self, node: usize, incarnation: u64, number: u64, proposal: Option<Map>, answers: bool) {
        if self.register_cuts.contains(&node) || self.fenced[node] > number {
            return;
        }
        let answer = match proposal {
            None => Answer::Read(self.register.clone()),
            Some(map) if map.term.epoch == self.register.term.epoch + 1 && self.is_planned(&map) => {
                self.changed(map);
                Answer::Taken
            }
            Some(_) => Answer::NotTaken,
        };
        if answers {
            let after = self.random.between(200, 3 * MS);
            self.at(after, Event::Answered { node, incarnation, number, answer });
        }
    }

    /// The register takes no other columns than placement wants: a primary may not have heard of its last word.
    fn is_planned(&self, map: &Map) -> bool {
        (0..map.columns.len() as u8).all(|number| {
            let has =
                |map: &Map| map.column(number).filter(|column| column.state != State::None).map(|c| c.disk);
            let (had, has) = (has(&self.register), has(map));
            let plan = self.plan.as_ref();
            match (had, has) {
                (None, Some(disk)) => {
                    plan.is_some_and(|plan| plan.column == number && plan.disk == disk && !plan.is_given_up)
                }
                (Some(_), None) => plan
                    .is_some_and(|plan| number == if plan.is_given_up { plan.column } else { plan.leaves }),
                _ => true,
            }
        })
    }

    /// The register holds another map.
    fn changed(&mut self, map: Map) {
        self.tell(|| format!("map {map:?}"));
        let before = core::mem::replace(&mut self.register, map.clone());
        self.changed = self.now;
        self.images.retain(|image| in_sync(&map).any(|node| node == *image));
        self.counts.terms += 1;
        self.counts.take_overs += u64::from(before.primary != map.primary);
        if before.primary.node != map.primary.node {
            self.last_primary = Some(usize::from(before.primary.node.0));
        }
        let allowed =
            |map: &Map| map.term.generation == before.term.generation && map.in_sync().next().is_some();
        if !allowed(&map) {
            self.fails(format!("no such change: {map:?}"));
        }
        if before.columns.len() > map.columns.len() {
            self.fails(format!("columns are lost: {map:?}"));
        }
        for (number, new) in map.columns.iter().enumerate() {
            let old = before.columns.get(number).copied();
            let old = old.unwrap_or(MapColumn { state: State::None, ..*new });
            match (old.state, new.state) {
                (State::None, State::Stale { since: 0 }) => self.counts.added += 1,
                (State::None, State::None) => {}
                (was, State::None) => {
                    self.counts.retired += 1;
                    let node = usize::from(old.node.0);
                    self.left.insert(node);
                    let after = self.random.between(MS, 5 * LEASE);
                    self.at(after, Event::Remove(node));
                    let plans = [self.plan, self.given_up_late].into_iter().flatten();
                    let has_successor = plans
                        .filter(|plan| usize::from(plan.leaves) == number)
                        .filter_map(|plan| before.column(plan.column))
                        .any(|column| column.state == State::Sync);
                    if was == State::Sync && !has_successor {
                        self.fails(format!(
                            "column {number} leaves before its successor is in sync: {map:?}"
                        ));
                    }
                }
                _ if old.disk != new.disk || old.node != new.node => {
                    self.fails(format!("column {number} is on another disk: {map:?}"));
                }
                (old, new) if old == new => {}
                (State::Sync | State::Fill { .. }, State::Stale { .. }) => self.counts.drops += 1,
                (State::Stale { .. }, State::Fill { .. }) => {}
                (State::Fill { .. }, State::Sync) => {
                    self.counts.admissions += 1;
                    self.judge_admission(usize::from(new.node.0));
                }
                (old, new) => self.fails(format!("column {number} became {new} and was {old}")),
            }
        }
        // It may have lost something since it told the primary.
        let is_sound = |node: usize| {
            !self.nodes[node].media.record.is_lossy || self.nodes[node].sound == Some(before.term)
        };
        let (was_sound, is_sound) = (in_sync(&before).any(is_sound), in_sync(&map).any(is_sound));
        // A process that had lost nothing when it proposed may have ended since.
        let proposer = &self.nodes[usize::from(map.primary.node.0)];
        let is_same = proposer.incarnation == map.primary.incarnation;
        if is_same && was_sound && !is_sound {
            self.fails(format!("only columns that have lost something are left in sync: {map:?}"));
        }
        self.judge_power();
        self.is_made();
        // The primary hears of it from the register's nodes, too: before the answer to its proposal, or after it. Not drawn, so that seeds mean
        // what they meant.
        let primary = usize::from(map.primary.node.0);
        let delay = (map.term.epoch * 7 + self.register_number * 3) % 5 * MS / 2;
        let message = Box::new(Message::HandOver(Box::new(map)));
        self.at(delay, Event::Message { to: primary, from: primary, message });
    }

    /// M3: a column that is admitted has everything, and what was flushed durably.
    fn judge_admission(&mut self, column: usize) {
        let node = &self.nodes[column];
        if node.media.record.is_lossy {
            return;
        }
        for unit in 0..UNITS {
            let (history, media) = (&self.histories[unit], &node.media);
            if let Some(by) = history.overwritten(media.current[unit], u64::MAX) {
                let has = media.current[unit];
                return self
                    .fails(format!("M3: n{column} is admitted with {has} and not {by} in unit {unit}"));
            }
            if let Some(by) = history.flush_lost(media.durable[unit]) {
                return self
                    .fails(format!("M10: n{column} is admitted, and {by} of unit {unit} is not durable"));
            }
        }
    }

    /// When all columns in sync have lost power, what was not flushed may be gone.
    fn judge_power(&mut self) {
        if in_sync(&self.register).all(|node| self.nodes[node].media.record.is_lossy) {
            self.counts.power_lost += 1;
            self.losses += 1;
            self.histories.iter_mut().for_each(History::power_lost);
        }
    }

    /// What was acknowledged in a life of the group and is not flushed is there as long as a primary says that this is its life.
    fn judge_life(&mut self, node: usize) {
        let Some(life) = self.nodes[node].group.as_ref().and_then(Group::life) else { return };
        let losses = self.losses;
        if let Some((_, before)) = self.lives.iter().rev().find(|(known, _)| *known == life)
            && *before != losses
        {
            self.fails(format!("n{node} goes on with life {life}, and what was written in it may be lost"));
        } else if self.lives.last() != Some(&(life, losses)) {
            self.lives.push((life, losses));
        }
        let group = self.nodes[node].group.as_ref();
        let is_kept =
            group.is_some_and(|group| group.is_new_life() && group.map().is_some_and(|map| life < map.since));
        self.counts.lives_kept += u64::from(is_kept);
    }

    pub(super) fn local(&self, node: usize) -> Instant {
        let Node { rate, offset, .. } = self.nodes[node];
        Instant((offset + self.now * rate / 1000) * 1000)
    }

    /// Starts a process.
    pub(super) fn start(&mut self, node: usize) {
        let now = self.local(node);
        let found = &mut self.nodes[node];
        // One that is too small, since its disk was put back, grows before its group begins.
        if self.growth.as_ref().is_some_and(|growth| growth.told[node] || growth.is_made) {
            found.media.size = UNITS;
        }
        found.incarnation += 1;
        found.timer = Time::MAX;
        let me = Member { node: NodeId(node as u16), incarnation: found.incarnation };
        let disk = found.media.open();
        let mut made = self.mistake.map_or_else(Made::default, Made::new);
        made.has_little_room = self.faults.little_room;
        let size = Size { bytes: found.media.size as u64, ..SIZE };
        found.group = Some(Group::making(me, disk, size, self.timing, now, made));
        self.tell(|| format!("n{node} starts"));
        self.with(node, |_, _| {});
    }

    /// The process ends, and its machine with it or not.
    pub(super) fn crash(&mut self, node: usize, cuts_power: bool) {
        let now = self.now;
        let found = &mut self.nodes[node];
        found.group = None;
        found.fell = now;
        found.serves = false;
        found.commands.clear();
        found.copies.clear();
        found.incarnation += 1;
        // Any part of what was on its way has been done.
        for work in core::mem::take(&mut found.works).into_values() {
            if self.random.chance(500) {
                // Part of a unit is not written if the rest is damaged.
                let _ = found.media.apply(&work);
            }
        }
        self.tell(|| format!("n{node} ends, power {cuts_power}"));
        if cuts_power {
            let found = &mut self.nodes[node];
            found.media.cut(&mut self.random);
            self.judge_power();
        }
    }

    /// Columns that a node waits for as the primary.
    pub(super) fn awaited(&self, node: usize) -> Vec<u8> {
        let group = self.nodes[node].group.as_ref();
        group.map(|group| group.awaited(self.local(node))).unwrap_or_default()
    }

    /// A person gives up all other histories for what the column of this node has.
    pub(super) fn force(&mut self, node: usize) {
        let me = Member { node: NodeId(node as u16), incarnation: self.nodes[node].incarnation };
        let Ok(forced) = self.register.forced(me) else {
            return self.fails(format!("n{node} has no column: {:?}", self.register));
        };
        let media = &self.nodes[node].media;
        self.histories = core::array::from_fn(|unit| History::of(media.current[unit]));
        self.register = forced.clone();
        self.losses += 1;
        let message = Box::new(Message::HandOver(Box::new(forced)));
        self.at(0, Event::Message { to: node, from: node, message });
    }

    /// Something happens at a node that is up.
    pub(super) fn with(&mut self, node: usize, act: impl FnOnce(&mut Group<Vec<u32>>, Instant)) {
        let now = self.local(node);
        let found = &mut self.nodes[node];
        let Some(group) = &mut found.group else { return };
        act(group, now);
        let mut outputs = Vec::new();
        while let Some(output) = group.poll() {
            outputs.push(output);
        }
        for output in outputs {
            self.carry_out(node, output);
        }
        let found = &mut self.nodes[node];
        let Some(group) = &found.group else { return };
        found.serves = group.serves(now);
        let next = group.next_timeout(now);
        if next != Instant::NEVER {
            let after = next.0.saturating_sub(now.0) / found.rate + 1;
            let incarnation = found.incarnation;
            if self.now + after < found.timer {
                found.timer = self.now + after;
                self.at(after, Event::Timer { node, incarnation });
            }
        }
        self.judge_serving();
    }

    /// M1, M4, M6: one serves at a time.
    fn judge_serving(&mut self) {
        let serving: Vec<usize> = (0..self.nodes.len())
            .filter(|node| {
                let group = self.nodes[*node].group.as_ref();
                self.nodes[*node].serves && group.is_some_and(|group| group.serves(self.local(*node)))
            })
            .collect();
        if serving.len() > 1 {
            self.fails(format!("M6: {serving:?} serve at a time"));
        }
    }

    fn carry_out(&mut self, node: usize, output: Output<Vec<u32>>) {
        match output {
            Output::Send { to, message } => {
                self.judge_message(node, &message);
                self.send(node, usize::from(to.0), message);
            }
            Output::Work { op, work } => {
                let is_read = matches!(work, Work::Read { .. } | Work::Verify { .. });
                self.nodes[node].media.begin(&work);
                self.nodes[node].works.insert(op, work);
                if is_read && self.mute == Some(node) || self.hangs == Some(node) {
                    return;
                }
                let slow = self.random.chance(20) && !self.is_calm;
                let after = self.random.between(50, if slow { 60 * MS } else { 2 * MS });
                let incarnation = self.nodes[node].incarnation;
                self.at(after, Event::Work { node, incarnation, op });
            }
            Output::Release(extent) => self.nodes[node].media.release(extent),
            Output::CaughtUp(extents) => {
                extents.iter().flat_map(units).for_each(|unit| self.judge_cleared(node, unit));
                self.nodes[node].media.caught_up(&extents);
            }
            Output::ReadMap => self.question(node, None),
            Output::Propose(map) => self.question(node, Some(map)),
            Output::Damaged { column, extent, is_repaired } => {
                self.tell(|| format!("column {column} is damaged, {extent:?}, repaired: {is_repaired}"));
                self.counts.repaired += u64::from(is_repaired);
                self.counts.unrepaired += u64::from(!is_repaired);
            }
            Output::Serves(term) => {
                self.tell(|| format!("n{node} serves {term:?}"));
                self.judge_life(node);
            }
            Output::Stopped => {
                self.tell(|| format!("n{node} stops"));
                self.nodes[node].commands.clear();
            }
            Output::Changed(change) => {
                self.tell(|| format!("n{node}: {change:?}"));
                self.changes.push((node, change));
            }
            Output::Done { token, result } => self.done(node, token, result),
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message<Vec<u32>>) {
        let Faults { loss, repeats, late, .. } = self.faults;
        let copies = if self.random.chance(loss) { 0 } else { 1 + u64::from(self.random.chance(repeats)) };
        for _ in 0..copies {
            let is_late = self.random.chance(late);
            let after = self.random.between(100, if is_late { 5 * LEASE } else { 3 * MS });
            self.at(after, Event::Message { to, from, message: Box::new(message.clone()) });
        }
    }

    fn question(&mut self, node: usize, proposal: Option<Map>) {
        self.register_number += 1;
        let (number, incarnation) = (self.register_number, self.nodes[node].incarnation);
        // What was asked before has no effect any more.
        self.fenced[node] = number;
        let (is_lost, answers) = {
            let loss = self.faults.register_loss;
            (self.random.chance(loss), !self.random.chance(loss))
        };
        if !is_lost {
            let after = self.random.between(200, 4 * MS);
            self.at(after, Event::Register { node, incarnation, number, proposal, answers });
        }
        self.at(30 * MS, Event::Answered { node, incarnation, number, answer: Answer::Unknown });
    }

    /// A read fails for damage only if no column in sync has what it reads.
    fn judge_unreadable(&mut self, extent: Extent) {
        let has = |node: usize, unit: usize| !self.nodes[node].media.rotten[unit];
        let is_there = |unit: usize| self.sound().any(|node| has(node, unit));
        let is_readable = units(extent).all(is_there);
        if self.is_calm && self.register.is_whole() && is_readable {
            self.fails(format!("{extent:?} is not read, and a column in sync has it"));
        }
    }

    /// The same of a write, which reads what it leaves of units. A disk that fails, and one whose process was started again, may not have been
    /// dropped yet.
    fn judge_unwritable(&mut self, extent: Extent) {
        let has = |node: usize, unit: usize| {
            let Node { disk_fails, fell, media, .. } = &self.nodes[node];
            !disk_fails && *fell <= self.changed && !media.rotten[unit]
        };
        let is_there = |unit: usize| self.sound().any(|node| has(node, unit));
        if self.register.is_whole() && units(extent.whole(SUMMED as u64)).all(is_there) {
            self.fails(format!("{extent:?} is not written, and columns in sync have all of its units"));
        }
    }

    /// M5.
    fn judge_message(&mut self, node: usize, message: &Message<Vec<u32>>) {
        if let Message::Sealed { term, .. } = message
            && !self.nodes[node].media.record.is_lossy
        {
            self.nodes[node].sound = Some(*term);
        }
        let durable = self.nodes[node].media.record.term();
        let (what, term) = match message {
            Message::Sealed { term, .. } if durable < *term => ("sealed", *term),
            Message::PutDone { term, .. } if *term < durable => ("written", *term),
            _ => return,
        };
        self.fails(format!("M5: n{node} says {what} for {term:?}, and its disk says {durable:?}"));
    }

    /// M9: no column in the map needs a copy that is not known any more.
    fn judge_cleared(&mut self, node: usize, unit: usize) {
        let is_in_sync = self.sound().any(|other| other == node);
        if !self.nodes[node].media.missed[unit] || !is_in_sync {
            return;
        }
        // One of which nothing is known is filled whole, whatever others remember.
        let is_blank =
            |state| matches!(state, State::None | State::Stale { since: 0 } | State::Fill { since: 0 });
        let columns = self.register.columns.iter().filter(|column| !is_blank(column.state));
        for (column, state) in columns.map(|c| (usize::from(c.node.0), c.state)) {
            let has = self.nodes[column].media.current[unit];
            // What the column lost with its power, it knows itself.
            if state != State::Sync
                && !self.nodes[column].media.is_dirty(unit)
                && let Some(by) = self.histories[unit].overwritten(has, u64::MAX)
            {
                return self
                    .fails(format!("M9: n{node} clears unit {unit}, and n{column} has {has} and not {by}"));
            }
        }
    }

    /// A command has ended at a primary.
    fn done(&mut self, node: usize, token: Token, result: Result<Option<Vec<u32>>, CommandError>) {
        let Some((client, request, extent)) = self.nodes[node].commands.remove(&token) else { return };
        let serves = |other: usize| {
            let group = self.nodes[other].group.as_ref();
            other != node && group.is_some_and(|group| group.serves(self.local(other)))
        };
        if result.is_ok()
            && let Some(other) = (0..self.nodes.len()).find(|other| serves(*other))
        {
            self.fails(format!("M4: n{node} answers, and n{other} serves"));
        }
        let open = self.clients[client].open.as_ref().filter(|_| self.clients[client].request == request);
        match open {
            Some((Command::Read { .. }, ..)) if result == Err(CommandError::Damaged) => {
                self.judge_unreadable(extent);
            }
            Some((Command::Write { .. }, ..)) if result == Err(CommandError::Damaged) => {
                self.judge_unwritable(extent);
            }
            _ => {}
        }
        let result = match result {
            Err(error) => Reply::Failed(error),
            Ok(None) => Reply::Done { card: None, values: None },
            Ok(Some(values)) => {
                // No copies are given of what is being written.
                let is_written =
                    self.nodes[node].commands.values().any(|(_, _, other)| other.overlaps(extent));
                if !is_written {
                    units(extent).for_each(|unit| {
                        self.nodes[node].copies.insert((client, unit), token);
                    });
                }
                Reply::Done { card: (!is_written).then_some(token), values: Some(values) }
            }
        };
        let epoch = self.epoch_of(node);
        let after = self.random.between(100, 3 * MS);
        if !self.random.chance(self.faults.loss) {
            if matches!(result, Reply::Done { .. }) {
                self.judge_done(client, request);
            }
            self.at(after, Event::Reply { client, request, node, epoch, result });
        }
    }

    fn epoch_of(&self, node: usize) -> u64 {
        let primary = self.nodes[node].group.as_ref().and_then(|group| group.primary.as_ref());
        primary.map_or(0, |primary| primary.map.term.epoch)
    }

    /// M2 and M10, when a command is acknowledged.
    fn judge_done(&mut self, client: usize, request: u64) {
        if self.clients[client].request != request {
            return;
        }
        let Some((command, begun, _)) = self.clients[client].open.clone() else { return };
        let in_sync: Vec<usize> = self.sound().collect();
        match command {
            Command::Read { .. } | Command::Verify { .. } => {}
            Command::Write { extent, payload, .. } => {
                for (unit, value) in units(extent).zip(payload) {
                    self.histories[unit].seen(value, self.now);
                    // What does not fit its checksum is not read.
                    let counts = |media: &Media| !media.record.is_lossy && !media.rotten[unit];
                    for column in in_sync.iter().filter(|column| counts(&self.nodes[**column].media)) {
                        let has = self.nodes[*column].media.current[unit];
                        if let Some(by) = self.histories[unit].overwritten(has, u64::MAX) {
                            let why = format!("M2: {by} is acknowledged, n{column} has {has} in unit {unit}");
                            return self.fails(why);
                        }
                    }
                }
            }
            Command::Flush => {
                for unit in 0..UNITS {
                    for column in in_sync.iter().filter(|column| !self.nodes[**column].media.rots[unit]) {
                        let has = self.nodes[*column].media.durable[unit];
                        if let Some(by) = self.histories[unit].overwritten(has, begun) {
                            let why = format!("M10: {by} is flushed, n{column} has {has} in unit {unit}");
                            return self.fails(why);
                        }
                    }
                }
                self.histories.iter_mut().for_each(|history| history.flushed(begun));
            }
        }
    }

    /// A client goes on.
    fn client(&mut self, number: usize) {
        let pause = self.random.between(3 * MS, 25 * MS);
        self.at(pause, Event::Client(number));
        if self.clients_rest {
            return;
        }
        let now = self.now;
        let count = self.nodes.len() as u64;
        if self.clients[number].open.is_none() {
            self.begin(number);
        }
        let client = &mut self.clients[number];
        let Some((_, _, sent)) = &mut client.open else { return };
        // Nothing was heard for some time: it tries another node.
        if client.asks_since + 60 * MS < now {
            client.asks_since = now;
            client.node = next_node(self.is_calm, client.node, count, &mut self.random);
        } else if *sent != 0 && !self.random.chance(300) {
            return;
        }
        *sent = now;
        self.send_command(number);
    }

    fn begin(&mut self, number: usize) {
        let offset = self.random.below(UNITS as u64);
        let length = if offset + 1 < UNITS as u64 { self.random.between(1, 3) } else { 1 };
        let offset = offset.min(self.units() as u64 - length);
        let mut extent = Extent { offset, length };
        let what = self.random.below(100);
        let unit = offset as usize;
        // In a calm what no column has is written anew.
        let is_lost = |unit: &usize| self.sound().all(|node| self.nodes[node].media.rotten[*unit]);
        if self.is_calm
            && what >= 55
            && let Some(lost) = (0..UNITS).find(is_lost)
        {
            extent = Extent { offset: lost as u64, length: 1 }.whole(SUMMED as u64);
        }
        let now = self.now;
        if what < 50
            && let Some((value, until, _)) = self.clients[number].copies.get(&unit).copied()
            && now < until
        {
            self.counts.copies_read += 1;
            return self.judge_read(unit, value, now);
        }
        let client = &mut self.clients[number];
        client.request += 1;
        let command = if what < 55 {
            Command::Read { extent }
        } else if what < 95 {
            let mut payload = Vec::new();
            for unit in units(extent) {
                self.next_value += 1;
                self.histories[unit].invoked(self.next_value, now);
                payload.push(self.next_value);
            }
            let origin = Some(Origin {
                client: Sender {
                    member: Member { node: NodeId(100 + number as u16), incarnation: 1 },
                    shard: 0,
                },
                request: client.request,
                oldest: client.request,
                first_epoch: client.epoch,
            });
            Command::Write { extent, payload, origin }
        } else {
            Command::Flush
        };
        client.open = Some((command, now, 0));
        client.asks_since = now;
    }

    fn send_command(&mut self, number: usize) {
        let client = &self.clients[number];
        let Some((command, ..)) = &client.open else { return };
        let event = Event::Command {
            node: client.node,
            client: number,
            request: client.request,
            command: command.clone(),
        };
        let Faults { loss, repeats, late, .. } = self.faults;
        let copies = if self.random.chance(loss) { 0 } else { 1 + u64::from(self.random.chance(repeats)) };
        for _ in 0..copies {
            let is_late = self.random.chance(late);
            let after = self.random.between(100, if is_late { 5 * LEASE } else { 3 * MS });
            self.at(after, event.clone());
        }
    }

    /// A command arrives at a node.
    fn command(&mut self, node: usize, client: usize, request: u64, command: Command<Vec<u32>>) {
        self.next_token += 1;
        let token = Token(self.next_token);
        let extent = match &command {
            Command::Read { extent } | Command::Verify { extent } => *extent,
            Command::Flush => Extent { offset: 0, length: UNITS as u64 },
            Command::Write { extent, .. } => {
                // Copies are invalidated before a write begins.
                for unit in units(*extent) {
                    for client in 0..CLIENTS {
                        if self.nodes[node].copies.remove(&(client, unit)).is_some()
                            && self.clients[client].copies.get(&unit).is_some_and(|copy| copy.2 == node)
                        {
                            self.clients[client].copies.remove(&unit);
                        }
                    }
                }
                *extent
            }
        };
        self.nodes[node].commands.insert(token, (client, request, extent));
        self.with(node, |group, now| group.command(now, token, command));
    }

    fn reply(&mut self, number: usize, request: u64, node: usize, epoch: u64, result: Reply) {
        let now = self.now;
        let client = &mut self.clients[number];
        if client.request != request {
            return;
        }
        let Some((command, begun, _)) = client.open.clone() else { return };
        client.epoch = client.epoch.max(epoch);
        match result {
            Reply::Failed(CommandError::NotPrimary) => {
                if client.node == node {
                    client.asks_since = now;
                    client.node = next_node(self.is_calm, node, self.nodes.len() as u64, &mut self.random);
                }
                return;
            }
            // It is given up: it may have been done, and may be seen or not.
            Reply::Failed(CommandError::InDoubt | CommandError::Answered) => self.counts.in_doubt += 1,
            Reply::Failed(CommandError::Damaged) => self.counts.unreadable += 1,
            Reply::Done { card, values } => match command {
                Command::Read { extent } => {
                    self.counts.reads += 1;
                    for (unit, value) in units(extent).zip(values.unwrap_or_default()) {
                        self.judge_read(unit, value, begun);
                        let has_card =
                            card.is_some() && self.nodes[node].copies.get(&(number, unit)) == card.as_ref();
                        let until = begun + CARD * 1000 / self.clients[number].rate;
                        if has_card && now < until {
                            self.clients[number].copies.insert(unit, (value, until, node));
                        }
                    }
                }
                Command::Write { .. } => self.counts.writes += 1,
                Command::Flush => self.counts.flushes += 1,
                Command::Verify { .. } => {}
            },
        }
        let client = &mut self.clients[number];
        client.open = None;
        client.done += 1;
    }

    fn judge_read(&mut self, unit: usize, value: u32, begun: Time) {
        if let Some(by) = self.histories[unit].overwritten(value, begun) {
            self.fails(format!("a client reads {value} of unit {unit}, where {by} was seen before"));
        }
        self.histories[unit].seen(value, self.now);
    }

    /// Whether the disk does not do this for now.
    fn is_stalled(&self, node: usize, op: Op) -> bool {
        let (until, kind) = self.nodes[node].stalls;
        let is_it = |work: &Work<Vec<u32>>| match work {
            Work::Read { .. } | Work::Verify { .. } => kind < 2,
            Work::Write { .. } => kind == 0 || kind == 2,
            Work::Sync | Work::SetRecord(_) | Work::MarkMissed(_) => kind == 0 || kind == 3,
        };
        until > self.now && self.nodes[node].works.get(&op).is_some_and(is_it)
    }

    /// The disk does nothing of a kind until then.
    pub(super) fn stall(&mut self, node: usize, until: Time, kind: u64) {
        self.nodes[node].stalls = (until, kind);
        self.tell(|| format!("the disk of n{node} does nothing of kind {kind} until {until}"));
    }

    /// Something goes wrong, or is well again.
    fn fault(&mut self) {
        if self.is_calm {
            return;
        }
        let count = self.nodes.len();
        let after = self.random.between(20 * MS, 160 * MS);
        self.at(after, Event::Fault);
        let node = self.random.below(count as u64) as usize;
        let other = self.random.below(count as u64) as usize;
        let primary = usize::from(self.register.primary.node.0);
        let node = if self.random.chance(300) { primary } else { node };
        if self.faults.stalls && self.random.chance(250) {
            let (until, kind) =
                (self.now + self.random.between(50 * MS, 10 * LEASE), self.random.below(6) % 4);
            // Nothing more is drawn for it.
            if until % 2 == 0 {
                self.at(20 * MS, Event::Hangs { node, hangs: true });
                self.at(until + MS - self.now, Event::Hangs { node, hangs: false });
            }
            return self.stall(node, until, kind);
        }
        match self.random.below(100) {
            0..20 => self.fall(node, false),
            20..32 => self.fall(node, true),
            32..36 => {
                self.nodes[node].disk_fails = true;
                self.counts.disks_failed += 1;
                self.tell(|| format!("the disk of n{node} fails"));
                let after = self.random.between(20 * MS, 3 * LEASE);
                self.at(after, Event::Replug(node));
            }
            36..38 => (0..count).for_each(|node| self.fall(node, true)),
            38..48 => {
                let until = self.now + self.random.between(20 * MS, 4 * LEASE);
                self.nodes[node].paused_until = until;
                self.tell(|| format!("n{node} stands still until {until}"));
            }
            48..62 => {
                self.cuts.insert((node, other));
                if self.random.chance(500) {
                    self.cuts.insert((other, node));
                }
                self.tell(|| format!("cut n{node} -> n{other}"));
            }
            62..68 => {
                (0..count).filter(|other| *other != node).for_each(|other| {
                    self.cuts.insert((node, other));
                    self.cuts.insert((other, node));
                });
                if self.random.chance(500) {
                    self.register_cuts.insert(node);
                }
                self.tell(|| format!("n{node} is cut off"));
            }
            68..72 => {
                self.register_cuts.insert(node);
            }
            72..74 => {
                self.hand_over(primary, other);
            }
            74..76 => {
                let times = self.random.below(6);
                self.leave(node, times);
            }
            80..85 => {
                let unit = self.random.below(UNITS as u64) as usize;
                self.rots(node, unit);
                if self.random.chance(200) {
                    self.rots(other, unit);
                }
            }
            76..80 => self.nodes[node].image = Some((self.now, self.nodes[node].media.clone())),
            _ => {
                self.cuts.clear();
                self.register_cuts.clear();
                self.tell(|| "links are well".into());
            }
        }
    }

    /// A unit of a disk does not fit its checksum from now on.
    pub(super) fn rots(&mut self, node: usize, unit: usize) {
        self.counts.rotten += 1;
        self.nodes[node].media.rot(unit);
        self.tell(|| format!("unit {unit} of n{node} rots"));
    }

    /// Has all columns in sync compared with their checksums. No damage is left then that one of them can mend.
    pub(super) fn scrub(&mut self) {
        let primary = usize::from(self.register.primary.node.0);
        for offset in (0..self.units() as u64).step_by(SUMMED) {
            self.next_token += 1;
            let (token, extent) = (Token(self.next_token), Extent { offset, length: SUMMED as u64 });
            self.with(primary, |group, now| group.command(now, token, Command::Verify { extent }));
        }
        self.run(self.now + 100 * MS);
        for unit in 0..UNITS {
            let (rotten, sound): (Vec<usize>, Vec<usize>) =
                in_sync(&self.register).partition(|node| self.nodes[*node].media.rotten[unit]);
            if let (Some(node), Some(other)) = (rotten.first(), sound.first()) {
                return self.fails(format!("unit {unit} of n{node} is rotten, and n{other} has it"));
            }
        }
    }

    pub(super) fn hand_over(&mut self, from: usize, to: usize) {
        let to = Member { node: NodeId(to as u16), incarnation: self.nodes[to].incarnation };
        self.counts.hand_overs += u64::from(self.nodes[from].serves);
        self.with(from, |group, now| group.hand_over(now, to));
    }

    /// A process is to end: says so now, and this many times more before it does.
    pub(super) fn leave(&mut self, node: usize, times: u64) {
        let heir = in_sync(&self.register).find(|heir| *heir != node && self.nodes[*heir].group.is_some());
        let heir =
            heir.map(|heir| Member { node: NodeId(heir as u16), incarnation: self.nodes[heir].incarnation });
        self.counts.leaves += u64::from(self.nodes[node].group.is_some());
        self.with(node, |group, now| group.leave(now, heir));
        let incarnation = self.nodes[node].incarnation;
        self.at(20 * MS, Event::Leave { node, incarnation, times });
    }

    fn leaves_again(&mut self, node: usize, incarnation: u64, times: u64) {
        if self.nodes[node].incarnation != incarnation {
            return;
        }
        match times.checked_sub(1) {
            Some(times) => self.leave(node, times),
            None => {
                let found = &mut self.nodes[node];
                let is_stalled = found.stalls.0 > self.now;
                if found.group.is_some() && !found.disk_fails && !is_stalled {
                    let works = core::mem::take(&mut found.works);
                    found.media.close(works.into_values());
                }
                self.fall(node, false);
            }
        }
    }

    /// A process ends, and begins again after a while.
    fn fall(&mut self, node: usize, cuts_power: bool) {
        if self.nodes[node].group.is_none() {
            return;
        }
        self.crash(node, cuts_power);
        if self.random.chance(300) {
            self.swap_disk(node);
        }
        let is_fast = self.random.chance(400);
        let after = self.random.between(MS, if is_fast { 20 * MS } else { 6 * LEASE });
        self.at(after, Event::Start(node));
    }

    fn replug(&mut self, node: usize) {
        if core::mem::take(&mut self.nodes[node].disk_fails) {
            self.fall(node, true);
        }
    }

    /// The nodes whose columns are in sync, and are what the map takes them for.
    fn sound(&self) -> impl Iterator<Item = usize> + '_ {
        in_sync(&self.register).filter(|node| !self.images.contains(node))
    }

    /// An image of the disk from before the column was sealed for what the register has as opened takes its place, while it counts as in sync. Another
    /// one that does is no such image.
    fn put_back(&mut self, node: usize) {
        let opened = Term { epoch: self.register.opened, ..self.register.term };
        let is_old = |image: &Media| image.record.term() < opened;
        let is_sound = |other: usize| other != node && !is_old(&self.nodes[other].media);
        let is_image = self.nodes[node].image.as_ref().is_some_and(|(_, image)| is_old(image));
        // It may drop the other one.
        let proposes = |event: &Event| matches!(event, Event::Register { proposal: Some(_), .. });
        let is_proposed = self.events.values().any(proposes);
        if opened.epoch > 0
            && is_image
            && !is_proposed
            && !self.is_calm
            && in_sync(&self.register).any(is_sound)
        {
            let image = self.nodes[node].image.take().map(|(_, image)| image);
            self.nodes[node].media = image.expect("an image");
            self.nodes[node].media.record.is_lossy = true;
            self.nodes[node].sound = None;
            self.counts.put_back += 1;
            self.images.insert(node);
            self.tell(|| format!("n{node} was put back"));
        }
    }

    /// An old image of the disk takes its place, or a blank one, while the column is stale.
    fn swap_disk(&mut self, node: usize) {
        let number = self.register.column_at(NodeId(node as u16)).map(usize::from);
        let state = number.map(|number| self.register.columns[number].state);
        if state == Some(State::Sync) {
            return self.put_back(node);
        }
        let Some(State::Stale { since }) = state else {
            return;
        };
        // Who has dropped it has been the primary in that epoch, or the next one after this node: it knows what the disk had counted a
        // lease before that ended.
        let knows = self.register.since <= since || self.last_primary == Some(node);
        let fell = self.nodes[node].fell;
        let image = self.nodes[node]
            .image
            .take()
            .filter(|(taken, image)| image.record.in_sync_epoch < since || knows && taken + 2 * LEASE < fell);
        let image = image.map(|(_, image)| image);
        let blank = Media::of(self.nodes[node].media.disk, self.new_units());
        let found = &mut self.nodes[node];
        if image.is_none() && !self.random.chance(300) {
            return;
        }
        let is_blank = image.is_none();
        found.media = image.unwrap_or(blank);
        found.media.record.is_lossy |= is_blank;
        self.counts.old_disks += 1;
        self.tell(|| format!("n{node} has an old disk"));
    }

    /// Placement has a column replaced, and tells nodes of it, each of which may be away.
    fn place(&mut self) {
        let after = self.random.between(10 * MS, 60 * MS);
        self.at(after, Event::Place);
        let state = |world: &Self, column: u8| {
            world.register.column(column).map_or(State::None, |column| column.state)
        };
        if let Some(plan) = self.plan {
            let (new, old) = (state(self, plan.column), state(self, plan.leaves));
            let is_done = if plan.is_given_up { new == State::None } else { old == State::None };
            if is_done || plan.is_given_up && new == State::Sync {
                self.plan = None;
                self.given_up_late = Some(plan).filter(|_| !is_done);
            }
        }
        if self.plan.is_none() && !self.is_calm {
            self.plan = self.new_plan();
        }
        let Some(plan) = &mut self.plan else { return };
        if self.random.chance(30) && !self.is_calm {
            plan.is_given_up = true;
        }
        let Plan { leaves, column, disk, node, is_given_up } = *plan;
        let wanted = if is_given_up {
            alloc::vec![Placement::Retire { column, successor: None }]
        } else {
            let add = Placement::Add { column, disk, node: NodeId(node as u16) };
            alloc::vec![add, Placement::Retire { column: leaves, successor: Some(column) }]
        };
        for other in 0..self.nodes.len() {
            if self.is_calm || self.random.chance(700) {
                self.with(other, |group, now| group.place(now, wanted.clone()));
            }
        }
        let primary = usize::from(self.register.primary.node.0);
        let is_own = self.register.column_at(NodeId(primary as u16)) == Some(leaves);
        if is_own && !is_given_up && state(self, column) == State::Sync {
            self.hand_over(primary, node);
        }
    }

    /// The node without a column is to have one instead of this column.
    pub(super) fn replace(&mut self, leaves: u8, node: usize) {
        let (column, disk) = (self.register.columns.len() as u8, self.nodes[node].media.disk);
        self.plan = Some(Plan { leaves, column, disk, node, is_given_up: false });
        self.at(0, Event::Place);
    }

    /// Any column gives way to a node without one, if there is such a node.
    fn new_plan(&mut self) -> Option<Plan> {
        let is_free = |node: &usize| {
            self.register.column_at(NodeId(*node as u16)).is_none()
                && !self.left.contains(node)
                && self.nodes[*node].group.is_some()
        };
        let free: Vec<usize> = (0..self.nodes.len()).filter(is_free).collect();
        let there = |number: &u8| self.register.columns[usize::from(*number)].state != State::None;
        let columns: Vec<u8> = (0..self.register.columns.len() as u8).filter(there).collect();
        let leaves = columns[self.random.below(columns.len() as u64) as usize];
        let node = *free.get(self.random.below(free.len().max(1) as u64) as usize)?;
        let is_gap = |number: &u8| {
            let column = self.register.columns[usize::from(*number)];
            column.state == State::None && !self.left.contains(&usize::from(column.node.0))
        };
        let end = self.register.columns.len() as u8;
        let column = (0..end).find(is_gap).or((usize::from(end) < COLUMNS_MAX).then_some(end))?;
        let disk = self.nodes[node].media.disk;
        // It is made now, as large as it is to be.
        if let Some(growth) = self.growth.as_mut().filter(|growth| growth.has_begun) {
            growth.told[node] = true;
            self.widen(node);
        }
        Some(Plan { leaves, column, disk, node, is_given_up: false })
    }

    /// The next column there is on the same disk, or on another one. What is left of the last one should not matter.
    fn remove(&mut self, node: usize) {
        if self.register.column_at(NodeId(node as u16)).is_some() || !self.left.remove(&node) {
            return;
        }
        if self.nodes[node].group.is_some() {
            self.crash(node, false);
            self.at(MS, Event::Start(node));
        }
        let size = self.new_units();
        let media = &mut self.nodes[node].media;
        let next =
            if self.random.chance(500) { Uuid([media.disk.0[0].wrapping_add(16); 16]) } else { media.disk };
        if self.random.chance(300) {
            media.disk = next;
        } else {
            *media = Media::of(next, size);
        }
        self.nodes[node].image = None;
        self.tell(|| format!("n{node} has removed its column"));
    }

    /// Nothing fails any more.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        self.cuts.clear();
        self.register_cuts.clear();
        self.faults = Faults { loss: 0, repeats: 0, late: 0, register_loss: 0, ..self.faults };
        // Disks that failed cost what was not synced, before one is chosen that stays away.
        (0..self.nodes.len()).for_each(|node| self.replug(node));
        let up = |world: &Self, except: usize| {
            in_sync(&world.register).any(|n| n != except && !world.nodes[n].media.record.is_lossy)
        };
        let candidate = self.random.below(self.nodes.len() as u64) as usize;
        // One that leaves may do so to another one that has just ended.
        let leaves = self.events.values().any(|event| matches!(event, Event::Leave { .. }));
        if self.random.chance(250) && !leaves && up(self, candidate) {
            self.dead = Some(candidate);
            // Nor is a proposal of it on its way.
            self.fenced[candidate] = u64::MAX;
            self.crash(candidate, true);
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].paused_until = 0;
            self.nodes[node].stalls = (0, 0);
            self.at(0, Event::Hangs { node, hangs: false });
            let works: Vec<Op> = self.nodes[node].works.keys().copied().collect();
            let incarnation = self.nodes[node].incarnation;
            if self.faults.stalls {
                works.into_iter().for_each(|op| self.at(MS, Event::Work { node, incarnation, op }));
            }
            if self.nodes[node].group.is_none() && self.dead != Some(node) {
                self.start(node);
            }
        }
        self.clients.iter_mut().for_each(|client| client.done = 0);
    }

    /// After the calm all goes on, and all columns are the same.
    pub(super) fn judge_end(&mut self) {
        if self.wrong.is_some() {
            return;
        }
        if let Some(client) = self.clients.iter().position(|client| client.done < 3) {
            let primary = self.register.primary;
            return self
                .fails(format!("client {client} does not go on; map {:?}; {primary:?}", self.register));
        }
        if let Some(plan) = self.plan
            && self.dead != Some(plan.node)
            && self.register.columns.get(usize::from(plan.leaves)).is_some_and(|c| c.state != State::None)
            && !plan.is_given_up
        {
            return self.fails(format!("{plan:?} is not done: {:?}", self.register));
        }
        self.judge_whole();
    }

    /// All columns are in sync, but one that is down for good.
    pub(super) fn judge_whole(&mut self) {
        for (number, column) in self.register.columns.clone().into_iter().enumerate() {
            let is_away = self.dead == Some(usize::from(column.node.0)) || column.state == State::None;
            if !is_away && column.state != State::Sync {
                return self.fails(format!("column {number} is {}", column.state));
            }
        }
    }
}
