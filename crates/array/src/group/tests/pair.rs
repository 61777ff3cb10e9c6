//! The group at one node of two: what the other node says, when a disk has done something, and what time it is, says a test.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::{Duration, Instant, NodeId};
use cards_layout::format::Uuid;

use crate::group::{
    Answer, Command, Disk, Extent, Extents, Group, GroupTiming, Map, MapColumn, Marks, Member, Memory,
    Message, Op, Origins, Output, Record, Report, Size, State, Term, Token, Work,
};

const HERE: NodeId = NodeId(0);
const THERE: NodeId = NodeId(1);
const UNIT: u64 = 4096;
/// No promise of an earlier process is left.
const BEGIN: Instant = Instant(1 << 50);

struct Pair {
    group: Group<u64>,
    now: Instant,
    /// What the register holds.
    map: Map,
    /// The disk does at once what it is asked for.
    works: bool,
    /// The other node is sealed, and opens the term, when it is told so.
    answers: bool,
    open: Vec<(Op, Work<u64>)>,
    /// What the other column's disk says.
    record: Record,
    sent: Vec<Message<u64>>,
    proposed: Vec<Map>,
}

fn member(node: NodeId) -> Member {
    Member { node, incarnation: 1 }
}

impl Pair {
    /// A process that was just started.
    fn new(primary: NodeId, timing: GroupTiming) -> Self {
        let disks = [(Uuid([1; 16]), HERE), (Uuid([2; 16]), THERE)];
        let map = Map::first(Uuid([9; 16]), 0, member(primary), &disks).unwrap();
        let (dirty, missed) = (Extents::default(), Extents::default());
        let found = Disk { disk: disks[0].0, record: Record::default(), dirty, missed, marks: Marks(0) };
        let size = Size { bytes: 64 * UNIT, copy_bytes: UNIT, unit_bytes: UNIT };
        let record = found.record;
        let group = Group::new(member(HERE), found, size, timing, Instant(0));
        let (open, sent, proposed) = (Vec::new(), Vec::new(), Vec::new());
        Self { group, now: BEGIN, map, works: true, answers: true, open, record, sent, proposed }
    }

    /// The primary, which serves.
    fn serving(timing: GroupTiming) -> Self {
        let mut pair = Self::new(HERE, timing);
        pair.tick();
        pair.group.cards_void(pair.now);
        pair.tick();
        assert!(pair.group.serves(pair.now));
        pair
    }

    /// Time passes as far as something is to be done now.
    fn tick(&mut self) {
        self.group.timeout(self.now);
        self.settle();
    }

    fn hear(&mut self, message: Message<u64>) {
        self.group.receive(self.now, THERE, message);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(output) = self.group.poll() {
            match output {
                Output::ReadMap => self.group.register(self.now, Answer::Read(self.map.clone())),
                Output::Propose(map) => self.proposed.push(map),
                Output::Work { op, .. } if self.works => self.group.done(self.now, op, Ok(None)),
                Output::Work { op, work } => self.open.push((op, work)),
                Output::Send { to: THERE, message: Message::Beacon { member, sequence, .. } } => {
                    self.group.receive(self.now, THERE, Message::BeaconAck { member, sequence });
                }
                Output::Send { message: Message::Seal(map), .. } if self.answers => {
                    let report = Box::new(self.report());
                    let Term { generation, epoch } = map.term;
                    self.record = Record { generation, sealed_epoch: epoch, ..self.record };
                    let message = Message::Sealed { term: map.term, report };
                    self.group.receive(self.now, THERE, message);
                }
                Output::Send { message: Message::Open { term, .. }, .. } if self.answers => {
                    self.record.in_sync_epoch = term.epoch;
                    self.group.receive(self.now, THERE, Message::Opened { term });
                }
                Output::Send { message, .. } => self.sent.push(message),
                _ => {}
            }
        }
    }

    /// What the other column has.
    fn report(&self) -> Report {
        Report {
            memory: Memory::Intact,
            sealed_before: self.record.term(),
            in_sync_epoch: self.record.in_sync_epoch,
            unstable: Extents::default(),
            missed: Extents::default(),
            origins: Origins::beginning(1),
        }
    }

    /// The register holds the map that was proposed.
    fn take(&mut self) {
        self.map = self.proposed.pop().expect("a proposal");
        self.group.register(self.now, Answer::Taken);
        self.settle();
    }

    /// A client writes so many units; the numbers of what is written at the other column.
    fn write(&mut self, first: u64, units: u64) -> Vec<u64> {
        let extent = Extent { offset: first * UNIT, length: units * UNIT };
        let command = Command::Write { extent, payload: first, origin: None };
        self.group.command(self.now, Token(first), command);
        self.settle();
        self.said()
            .iter()
            .filter_map(|message| match message {
                Message::Put { number, .. } => Some(*number),
                _ => None,
            })
            .collect()
    }

    /// What was said to the other node since this was asked last.
    fn said(&mut self) -> Vec<Message<u64>> {
        core::mem::take(&mut self.sent)
    }
}

#[test]
fn a_column_is_sealed_for_no_map_that_has_another_disk_in_its_place_or_gives_it_no_writes() {
    let changes: [fn(&mut MapColumn); 2] =
        [|column| column.disk = Uuid([7; 16]), |column| column.state = State::Stale { since: 1 }];
    for change in changes {
        let mut pair = Pair::new(THERE, GroupTiming::default());
        pair.works = false;
        let mut map = pair.map.clone();
        change(&mut map.columns[0]);
        pair.hear(Message::Seal(Box::new(map)));
        assert_eq!((&pair.open, &pair.sent), (&[].into(), &[].into()));
        pair.hear(Message::Seal(Box::new(pair.map.clone())));
        assert!(matches!(pair.open[..], [(_, Work::SetRecord(_))]), "{:?}", pair.open);
    }
}

/// A primary that seals a column asks again until that has an answer: what it asks besides need not say the same.
#[test]
fn a_column_that_is_being_sealed_says_nothing_to_a_beacon_of_that_term() {
    let mut pair = Pair::new(THERE, GroupTiming::default());
    pair.works = false;
    let (term, primary) = (pair.map.term, pair.map.primary);
    let beacon = |term| Message::Beacon { term, member: primary, sequence: 1, floor: 0, marks: Marks(0) };
    pair.hear(Message::Seal(Box::new(pair.map.clone())));
    // The process ends.
    pair.group.leave(pair.now, None);
    pair.settle();
    pair.hear(beacon(term));
    assert_eq!(pair.said(), []);
    let before = Term { epoch: term.epoch - 1, ..term };
    pair.hear(beacon(before));
    assert_eq!(pair.said(), [Message::Failed { term: before }]);
    pair.hear(Message::Seal(Box::new(pair.map.clone())));
    assert_eq!(pair.said(), [Message::Failed { term }]);
}

#[test]
fn a_write_without_an_answer_is_sent_again_after_pauses_that_double_up_to_four_times_the_first() {
    let lease = Duration::from_secs(1000);
    let timing = GroupTiming { lease, put_timeout: lease, ..GroupTiming::default() };
    let mut pair = Pair::serving(timing);
    let begin = pair.now;
    assert_eq!(pair.write(5, 1).len(), 1);
    let mut times = Vec::new();
    while times.len() < 5 {
        pair.now = pair.group.next_timeout(pair.now);
        pair.tick();
        let puts = pair.said().into_iter().filter(|message| matches!(message, Message::Put { .. }));
        times.extend(puts.map(|_| pair.now.since(begin).as_nanos() / timing.resend.as_nanos()));
    }
    assert_eq!(times, [1, 3, 7, 11, 15]);
}

/// The map that drops a column says it: a disk that says less by then was put back to what it was.
#[test]
fn what_a_disk_has_counted_is_known_as_long_as_its_column_gets_writes() {
    let mut pair = Pair::serving(GroupTiming::default());
    let term = pair.map.term;
    let number = pair.write(5, 1)[0];
    pair.hear(Message::PutDone { term, number, marks: Marks(50) });
    while pair.proposed.is_empty() {
        pair.now = pair.group.next_timeout(pair.now);
        pair.tick();
    }
    pair.take();
    assert!(pair.map.term > term && pair.group.serves(pair.now), "the term before is confirmed");
    pair.hear(Message::Failed { term: pair.map.term });
    pair.take();
    let MapColumn { state, marks, .. } = pair.map.columns[1];
    assert!(matches!(state, State::Stale { .. }), "{state:?}");
    assert_eq!(marks, Marks(50));
}
