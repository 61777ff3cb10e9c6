//! The group at one node of two: what the other node says, when a disk has done something, and what time it is, says a test.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cards_core::{Duration, Instant, NodeId};
use cards_layout::format::Uuid;

use crate::group::{
    Answer, Change, Client, Command, CommandError, Disk, DropCause, Extent, Extents, Group, GroupTiming, Map,
    MapColumn, Marks, Member, Memory, Message, Op, Origin, Origins, Output, Placement, Record, Report, Size,
    State, Term, Token, Work, WorkError,
};

const HERE: NodeId = NodeId(0);
const THERE: NodeId = NodeId(1);
const UNIT: u64 = 4096;
/// No promise of an earlier process is left.
const BEGIN: Instant = Instant(1 << 50);

#[derive(Clone)]
struct Pair {
    group: Group<u64>,
    now: Instant,
    /// What the register holds.
    map: Map,
    /// The disk does at once what it is asked for.
    works: bool,
    /// And reads, if it does.
    reads: bool,
    /// The units around what is written do not fit their checksums.
    is_rotten: bool,
    /// The other node is sealed, and opens the term, when it is told so.
    answers: bool,
    open: Vec<(Op, Work<u64>)>,
    /// What the other column has.
    report: Report,
    sent: Vec<Message<u64>>,
    proposed: Vec<Map>,
    changes: Vec<Change>,
    done: Vec<Token>,
    failed: Vec<(Token, CommandError)>,
}

fn member(node: NodeId) -> Member {
    Member { node, incarnation: 1 }
}

impl Pair {
    /// A process that was just started.
    fn new(primary: NodeId, timing: GroupTiming) -> Self {
        Self::with_record(primary, timing, Record::default())
    }

    fn with_record(primary: NodeId, timing: GroupTiming, record: Record) -> Self {
        let disks = [(Uuid([1; 16]), HERE), (Uuid([2; 16]), THERE)];
        let map = Map::first(Uuid([9; 16]), 0, member(primary), &disks).unwrap();
        let (dirty, missed) = (Extents::default(), Extents::default());
        let found = Disk { disk: disks[0].0, record, dirty, missed, marks: Marks(0) };
        let size = Size { bytes: 64 * UNIT, copy_bytes: 2 * UNIT, unit_bytes: UNIT };
        let report = Report {
            memory: Memory::Intact,
            sealed_before: Term::default(),
            in_sync_epoch: 0,
            unstable: Extents::default(),
            missed: Extents::default(),
            origins: Origins::beginning(1),
        };
        let group = Group::new(member(HERE), found, size, timing, Instant(0));
        let (open, sent, proposed, changes, done) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let failed = Vec::new();
        Self {
            group,
            now: BEGIN,
            map,
            works: true,
            reads: true,
            is_rotten: false,
            answers: true,
            open,
            report,
            sent,
            proposed,
            changes,
            done,
            failed,
        }
    }

    /// The primary, which serves.
    fn serving(timing: GroupTiming) -> Self {
        let mut pair = Self::new(HERE, timing);
        pair.begin();
        pair
    }

    /// The process, which the register's map names, becomes the primary, and serves.
    fn begin(&mut self) {
        self.tick();
        self.group.cards_void(self.now);
        self.tick();
        assert!(self.group.serves(self.now));
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
                Output::Done { token, result: Ok(_) } => self.done.push(token),
                Output::Done { token, result: Err(error) } => self.failed.push((token, error)),
                Output::Propose(map) => self.proposed.push(map),
                Output::Changed(change) => self.changes.push(change),
                Output::Work { op, work: Work::Write { extent, .. } } if self.is_rotten => {
                    self.group.done(self.now, op, Err(WorkError::Damaged(extent)));
                }
                Output::Work { op, work }
                    if self.works && (self.reads || !matches!(work, Work::Read { .. })) =>
                {
                    let bytes = matches!(work, Work::Read { .. }).then_some(0);
                    self.group.done(self.now, op, Ok(bytes));
                }
                Output::Work { op, work } => self.open.push((op, work)),
                Output::Send { to, message: Message::Beacon { member, sequence, .. } } => {
                    let acknowledged = Message::BeaconAck { member, sequence, hangs: false };
                    self.group.receive(self.now, to, acknowledged);
                }
                Output::Send { to, message: Message::Seal(map) } if self.answers => {
                    let report = Box::new(self.report.clone());
                    self.report.sealed_before = map.term;
                    let message = Message::Sealed { term: map.term, report };
                    self.group.receive(self.now, to, message);
                }
                Output::Send { to, message: Message::Open { term, .. } } if self.answers => {
                    self.report.in_sync_epoch = term.epoch;
                    self.group.receive(self.now, to, Message::Opened { term });
                }
                Output::Send { message, .. } => self.sent.push(message),
                _ => {}
            }
        }
    }

    /// The register holds the map that was proposed.
    fn take(&mut self) {
        self.map = self.proposed.pop().expect("a proposal");
        self.group.register(self.now, Answer::Taken);
        self.settle();
    }

    /// The next term begins some time later: nothing else changes. What the other node is told then is to be seen.
    fn next_term(&mut self) {
        while self.proposed.is_empty() {
            self.now = self.group.next_timeout(self.now);
            self.tick();
        }
        self.take();
    }

    /// The disk has read.
    fn has_read(&mut self, extent: Extent, result: Result<Option<u64>, WorkError>) {
        let at = self.open.iter().position(|(_, work)| *work == Work::Read { extent });
        let (op, _) =
            self.open.swap_remove(at.unwrap_or_else(|| panic!("no read of {extent:?}: {:?}", self.open)));
        self.group.done(self.now, op, result);
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
    pair.next_term();
    assert!(pair.map.term > term && pair.group.serves(pair.now), "the term before is confirmed");
    pair.hear(Message::Failed { term: pair.map.term });
    pair.take();
    let MapColumn { state, marks, .. } = pair.map.columns[1];
    assert!(matches!(state, State::Stale { .. }), "{state:?}");
    assert_eq!(marks, Marks(50));
}

/// The disk is an earlier image if it says less when the primary's process has ended, though that one had written nothing.
#[test]
fn a_primary_says_from_the_beginning_what_its_disk_has_counted() {
    let mut pair = Pair::new(HERE, GroupTiming::default());
    pair.group.marked(Marks(7));
    pair.group.timeout(pair.now);
    let said = loop {
        match pair.group.poll().expect("a beacon") {
            Output::ReadMap => pair.group.register(pair.now, Answer::Read(pair.map.clone())),
            Output::Send { message: Message::Beacon { marks, .. }, .. } => break marks,
            _ => {}
        }
    };
    assert_eq!(said, Marks(7));
}

#[test]
fn a_copy_is_doubtful_if_columns_know_different_commands_or_one_of_them_has_forgotten_some() {
    let extent = Extent { offset: 5 * UNIT, length: UNIT };
    let client = Client { member: member(NodeId(7)), shard: 0 };
    let same = Origins::beginning(1);
    let more = same.clone().with_client(client, 1, [1]);
    for (memory, origins, is_doubtful) in [
        (Memory::Intact, &same, false),
        (Memory::Intact, &more, true),
        (Memory::Restarted, &same, true),
        (Memory::Restarted, &more, true),
    ] {
        let mut pair = Pair::serving(GroupTiming::default());
        pair.report = Report {
            memory,
            origins: origins.clone(),
            unstable: [extent].into_iter().collect(),
            ..pair.report
        };
        pair.next_term();
        let said = pair.said();
        let is_it =
            |message: &&Message<u64>| matches!(message, Message::Put { extent: of, .. } if *of == extent);
        let Some(Message::Put { doubtful, .. }) = said.iter().find(is_it) else { panic!("{said:?}") };
        assert_eq!(*doubtful, is_doubtful, "{memory:?}, {origins:?}");
    }
}

/// The column that the others are made like has rotted in a part of what is copied.
#[test]
fn what_was_repaired_while_columns_are_made_the_same_is_copied_all_the_same() {
    let mut pair = Pair::serving(GroupTiming::default());
    let extent = Extent { offset: 6 * UNIT, length: 2 * UNIT };
    let damaged = Extent { length: UNIT, ..extent };
    pair.report.unstable = [extent].into_iter().collect();
    pair.reads = false;
    pair.next_term();
    let term = pair.map.term;
    pair.has_read(extent, Err(WorkError::Damaged(damaged)));
    let said = pair.said();
    let [Message::Get { number, extent: of, .. }] = said[..] else { panic!("{said:?}") };
    assert_eq!(of, damaged);
    pair.hear(Message::Got { term, number, payload: 0 });
    pair.has_read(extent, Ok(Some(0)));
    let said = pair.said();
    assert!(matches!(said[..], [Message::Put { extent: of, .. }] if of == extent), "{said:?}");
}

/// A flush of what was written in another life fails.
#[test]
fn the_life_of_a_group_is_as_old_as_what_a_column_remembers() {
    let rows =
        [(Memory::Intact, 3, 3), (Memory::Restarted, 3, 3), (Memory::Restarted, 0, 7), (Memory::Lossy, 3, 7)];
    for (memory, said, life) in rows {
        let mut pair = Pair::new(HERE, GroupTiming::default());
        (pair.map.term.epoch, pair.map.since) = (7, 7);
        (pair.report.memory, pair.report.origins) = (memory, Origins::beginning(3).with_life(said));
        pair.begin();
        assert_eq!(pair.group.life(), Some(life), "{memory:?}");
        pair.next_term();
        assert_eq!(pair.group.life(), Some(life), "{memory:?}, and another term");
    }
}

/// The process has ended in order: its disk says which life that was, and the disk of one that was killed does not.
#[test]
fn a_column_that_was_closed_knows_the_life_of_its_group_if_its_history_goes_on() {
    let led = |life, change: fn(&mut Map)| {
        let record = Record { generation: 1, sealed_epoch: 5, in_sync_epoch: 5, life, ..Record::default() };
        let mut pair = Pair::with_record(HERE, GroupTiming::default(), record);
        (pair.map.term.epoch, pair.map.since) = (6, 6);
        pair.report.memory = Memory::Restarted;
        pair.report.sealed_before = Term { generation: 1, epoch: 5 };
        pair.report.origins = Origins::default();
        change(&mut pair.map);
        pair.begin();
        pair.group.life()
    };
    assert_eq!(led(3, |_| {}), Some(3));
    assert_eq!(led(0, |_| {}), Some(6));
    let forced = led(3, |map| {
        map.term.generation = 2;
        map.columns[1].state = State::Stale { since: 0 };
    });
    assert_eq!(forced, Some(6), "what others had is given up");
}

#[test]
fn a_column_that_answers_and_does_not_confirm_a_write_is_dropped() {
    let timing = GroupTiming::default();
    let mut pair = Pair::serving(timing);
    let begin = pair.now;
    pair.write(5, 1);
    pair.next_term();
    assert!(matches!(pair.map.columns[1].state, State::Stale { .. }), "{:?}", pair.map);
    let [Change::Dropped { column: 1, cause: DropCause::Unconfirmed(time), .. }] = pair.changes[..] else {
        panic!("{:?}", pair.changes)
    };
    assert_eq!(time, pair.now.since(begin));
    assert!(time > timing.put_timeout);
}

#[test]
fn a_group_is_handed_over_when_the_commands_that_have_begun_are_done() {
    let extent = Extent { offset: 0, length: UNIT };
    for command in [
        Command::Write { extent, payload: 0, origin: None },
        Command::Read { extent },
        Command::Verify { extent },
        Command::Flush,
    ] {
        let mut pair = Pair::serving(GroupTiming::default());
        pair.works = false;
        pair.group.command(pair.now, Token(1), command.clone());
        pair.group.hand_over(pair.now, member(THERE));
        pair.settle();
        assert_eq!(pair.proposed, [], "{command:?} is open");
        for (op, work) in core::mem::take(&mut pair.open) {
            let bytes = matches!(work, Work::Read { .. }).then_some(0);
            pair.group.done(pair.now, op, Ok(bytes));
        }
        for message in pair.said() {
            pair.hear(match message {
                Message::Put { term, number, .. } => Message::PutDone { term, number, marks: Marks(0) },
                Message::Verify { term, number, .. } => Message::Verified { term, number },
                Message::Harden { term, number, .. } => Message::Hardened { term, number },
                other => panic!("{command:?}: {other:?}"),
            });
        }
        pair.settle();
        let to: Vec<_> = pair.proposed.iter().map(|map| map.primary.node).collect();
        assert_eq!((&to[..], &pair.done[..]), (&[THERE][..], &[Token(1)][..]), "{command:?} is done");
    }
}

/// The own column was to be made like the other one, and could not: it has something that a command has replaced.
fn lacking_a_unit(is_lossy: bool, change: impl FnOnce(&mut Map)) -> Pair {
    let record = Record { is_lossy, ..Record::default() };
    let mut pair = Pair::with_record(HERE, GroupTiming::default(), record);
    change(&mut pair.map);
    pair.report.unstable = [Extent { offset: 0, length: UNIT }].into_iter().collect();
    pair.is_rotten = true;
    pair.tick();
    let said = pair.said();
    let [Message::Get { term, number, .. }] = said[..] else { panic!("{said:?}") };
    pair.hear(Message::Got { term, number, payload: 0 });
    assert!(pair.group.is_outdated() && pair.group.map().is_none());
    pair.said();
    pair
}

/// That a primary is told that its disk has failed spares it the question whether what others have may be less.
#[test]
fn a_column_that_lacks_a_unit_says_that_it_has_failed_or_with_lost_power_that_it_is_outdated() {
    for is_lossy in [false, true] {
        let mut pair = lacking_a_unit(is_lossy, |_| {});
        let map = pair.map.taken_over(member(THERE)).unwrap();
        let term = map.term;
        pair.hear(Message::Seal(Box::new(map)));
        let said = if is_lossy { Message::Outdated { term } } else { Message::Failed { term } };
        assert_eq!(pair.said(), [said]);
    }
}

#[test]
fn a_column_that_lacks_a_unit_is_in_sync_by_a_force_that_comes_later_and_by_none_before() {
    let mut pair = lacking_a_unit(false, |map| map.forced = true);
    let later = |pair: &mut Pair| {
        for _ in 0..100 {
            pair.now = pair.group.next_timeout(pair.now).min(pair.now + Duration::from_secs(1));
            pair.tick();
        }
    };
    later(&mut pair);
    assert!(pair.group.is_outdated() && pair.proposed.is_empty(), "{:?}", pair.proposed);
    pair.map = pair.map.forced(member(HERE)).unwrap();
    later(&mut pair);
    assert!(!pair.group.is_outdated() && pair.group.map() == Some(&pair.map));
}

#[test]
fn a_column_that_is_not_sealed_for_a_term_takes_nothing_of_it() {
    let map = Pair::new(THERE, GroupTiming::default()).map;
    let term = map.term;
    let extent = Extent { offset: 0, length: UNIT };
    let get = || Message::Get { term, number: 1, extent };
    // The last process was sealed for it.
    let record = Record { generation: term.generation, sealed_epoch: term.epoch, ..Record::default() };
    let mut pair = Pair::with_record(THERE, GroupTiming::default(), record);
    for message in [get(), Message::Seal(Box::new(map.clone()))] {
        pair.hear(message);
        assert_eq!(pair.said(), [Message::Restarted { term }]);
    }
    // This one is being sealed for it.
    let mut pair = Pair::new(THERE, GroupTiming::default());
    pair.works = false;
    pair.hear(Message::Seal(Box::new(map)));
    pair.hear(get());
    assert!(matches!(pair.open[..], [(_, Work::SetRecord(_))]), "{:?}", pair.open);
    pair.open.drain(..).for_each(|(op, _)| pair.group.done(pair.now, op, Ok(None)));
    pair.hear(get());
    assert_eq!(pair.open.iter().map(|(_, work)| work).collect::<Vec<_>>(), [&Work::Read { extent }]);
}

/// A copy is no command. One that may make or undo a command costs the column what it remembers, until it is told which ones count, or has all of
/// the command that this was a part of.
#[test]
fn a_column_forgets_by_a_doubtful_copy_and_by_no_other_one() {
    for (doubtful, is_open, rest, memory) in [
        (false, false, None, Memory::Intact),
        (true, false, None, Memory::Restarted),
        (true, true, None, Memory::Restarted),
        (true, true, Some(0), Memory::Intact),
        (true, true, Some(1), Memory::Restarted),
    ] {
        let mut pair = Pair::new(THERE, GroupTiming::default());
        let mut map = pair.map.clone();
        let seal = |pair: &mut Pair, map: &Map| {
            pair.hear(Message::Seal(Box::new(map.clone())));
            let said = pair.said();
            let [Message::Sealed { report, .. }] = &said[..] else { panic!("{said:?}") };
            report.memory
        };
        let open = |pair: &mut Pair, term| {
            let (origins, missed) = (Box::new(Origins::beginning(1)), Box::default());
            pair.hear(Message::Open { term, origins, missed });
            assert_eq!(pair.said(), [Message::Opened { term }]);
        };
        assert_eq!(seal(&mut pair, &map), Memory::Restarted);
        open(&mut pair, map.term);
        map = map.confirmed(map.primary).unwrap();
        assert_eq!(seal(&mut pair, &map), Memory::Intact);
        let term = map.term;
        if is_open {
            open(&mut pair, term);
        }
        let extent = Extent { offset: 0, length: UNIT };
        let (number, floor, payload, missed, origin) = (1, 0, 0, false, None);
        pair.hear(Message::Put { term, number, floor, extent, payload, missed, doubtful, origin });
        assert_eq!(pair.said(), [Message::PutDone { term, number, marks: Marks(0) }]);
        if let Some(unit) = rest {
            let (number, doubtful, extent) = (2, false, Extent { offset: unit * UNIT, length: 512 });
            pair.hear(Message::Put { term, number, floor, extent, payload, missed, doubtful, origin });
            assert_eq!(pair.said(), [Message::PutDone { term, number, marks: Marks(0) }]);
        }
        map = map.confirmed(map.primary).unwrap();
        assert_eq!(seal(&mut pair, &map), memory, "doubtful: {doubtful}, open: {is_open}, rest: {rest:?}");
        // What it has forgotten it knows again when it is told.
        open(&mut pair, map.term);
        map = map.confirmed(map.primary).unwrap();
        assert_eq!(seal(&mut pair, &map), Memory::Intact);
    }
}

/// The other column cannot read a unit for a write, and the own one, which has done it, has rotted in another one meanwhile.
#[test]
fn a_unit_from_a_column_that_has_done_a_write_is_a_part_of_it() {
    let mut pair = Pair::serving(GroupTiming::default());
    pair.reads = false;
    let term = pair.map.term;
    let unit = |unit: u64| Extent { offset: unit * UNIT, length: UNIT };
    let extent = Extent { offset: 6 * UNIT + 512, length: 2 * UNIT };
    pair.group.command(pair.now, Token(1), Command::Write { extent, payload: 3, origin: None });
    pair.settle();
    let puts = |pair: &mut Pair| {
        let said = pair.said();
        let [Message::Put { number, extent, payload, doubtful, .. }] = said[..] else { panic!("{said:?}") };
        (number, (extent, payload, doubtful))
    };
    let (number, write) = puts(&mut pair);
    pair.hear(Message::Damaged { term, number, extent: unit(6) });
    pair.has_read(Extent { offset: 6 * UNIT, length: 3 * UNIT }, Err(WorkError::Damaged(unit(8))));
    pair.has_read(unit(6), Ok(Some(5)));
    let (repair, part) = puts(&mut pair);
    assert_eq!(part, (unit(6), 5, true));
    pair.hear(Message::PutDone { term, number: repair, marks: Marks(0) });
    let (again, rest) = puts(&mut pair);
    assert_eq!((rest, write), ((extent, 3, false), (extent, 3, false)));
    // What is late of the first time says nothing.
    pair.hear(Message::Damaged { term, number, extent: unit(6) });
    assert_eq!((pair.said(), &pair.done[..]), (Vec::new(), &[][..]));
    pair.hear(Message::PutDone { term, number: again, marks: Marks(0) });
    assert_eq!((&pair.done[..], &pair.proposed[..]), (&[Token(1)][..], &[][..]));
}

#[test]
fn what_a_column_says_of_an_earlier_term_is_void() {
    let mut pair = Pair::serving(GroupTiming::default());
    let before = pair.map.term;
    pair.next_term();
    let term = pair.map.term;
    let number = pair.write(5, 1)[0];
    pair.group.command(pair.now, Token(6), Command::Flush);
    let says = [
        |term, number| Message::PutDone { term, number, marks: Marks(0) },
        |term, number| Message::Hardened { term, number: number + 1 },
        |term, _| Message::Restarted { term },
        |term, _| Message::Failed { term },
        |term, _| Message::Outdated { term },
    ];
    for message in says {
        pair.hear(message(before, number));
        assert_eq!((&pair.done[..], &pair.proposed[..]), (&[][..], &[][..]), "{:?}", message(before, number));
    }
    says[..2].iter().for_each(|message| pair.hear(message(term, number)));
    assert_eq!(pair.done, [Token(5), Token(6)]);
    for message in &says[2..] {
        let mut pair = pair.clone();
        pair.hear(message(term, number));
        assert_eq!(pair.proposed.len(), 1, "{:?}", message(term, number));
    }
}

/// The own disk is slow, and is sealed after the other one's.
#[test]
fn a_column_that_has_opened_what_the_own_one_was_not_sealed_for_is_filled_whole() {
    for (in_sync_epoch, since) in [(8, 0), (4, 3)] {
        let record = Record { generation: 1, sealed_epoch: 5, in_sync_epoch: 5, ..Record::default() };
        let mut pair = Pair::with_record(HERE, GroupTiming::default(), record);
        (pair.map.term.epoch, pair.map.since) = (12, 12);
        let (disk, node, state) = (Uuid([3; 16]), NodeId(2), State::Stale { since: 3 });
        pair.map.columns.push(MapColumn { disk, node, state, marks: Marks(0) });
        pair.report.sealed_before = Term { generation: 1, epoch: 9 };
        pair.report.in_sync_epoch = 5;
        pair.works = false;
        pair.tick();
        pair.works = true;
        pair.open.drain(..).for_each(|(op, _)| pair.group.done(pair.now, op, Ok(None)));
        pair.settle();
        pair.begin();
        let here = Message::Here { disk, generation: 1, in_sync_epoch, marks: Marks(0) };
        pair.group.receive(pair.now, node, here);
        pair.settle();
        pair.take();
        assert_eq!(pair.map.columns[2].state, State::Fill { since }, "in sync in {in_sync_epoch}");
    }
}

#[test]
fn a_range_is_verified_when_each_column_has_said_so_of_itself() {
    let mut pair = Pair::serving(GroupTiming::default());
    pair.works = false;
    let extent = Extent { offset: 0, length: UNIT };
    pair.group.command(pair.now, Token(1), Command::Verify { extent });
    pair.settle();
    let said = pair.said();
    let [Message::Verify { term, number, .. }] = said[..] else { panic!("{said:?}") };
    // The own column is asked first.
    for number in [number - 1, number] {
        pair.hear(Message::Verified { term, number });
        assert_eq!(pair.done, []);
    }
    let Some((op, Work::Verify { .. })) = pair.open.pop() else { panic!("{:?}", pair.open) };
    pair.group.done(pair.now, op, Ok(None));
    pair.settle();
    assert_eq!(pair.done, [Token(1)]);
}

#[test]
fn commands_of_other_places_and_reads_of_the_same_one_wait_for_no_read() {
    let mut pair = Pair::serving(GroupTiming::default());
    pair.works = false;
    let extent = |unit| Extent { offset: unit * UNIT, length: UNIT };
    let write = |unit| Command::Write { extent: extent(unit), payload: 0, origin: None };
    let read = |unit| Command::Read { extent: extent(unit) };
    let commands = [read(0), read(0), read(5), write(9), write(0)];
    for (token, command) in commands.into_iter().enumerate() {
        pair.group.command(pair.now, Token(token as u64), command);
    }
    pair.settle();
    let begun: Vec<_> = pair.open.iter().map(|(_, work)| work.clone()).collect();
    let asked = |unit| Work::Read { extent: extent(unit) };
    let written = |unit| Work::Write { extent: extent(unit), payload: 0, missed: false };
    assert_eq!(begun, [asked(0), asked(0), asked(5), written(9)]);
    (0..2).for_each(|_| pair.has_read(extent(0), Ok(Some(0))));
    assert_eq!(pair.open.last().map(|(_, work)| work.clone()), Some(written(0)));
}

/// None of them knows more commands than the primary has counted.
#[test]
fn columns_are_told_the_most_that_a_client_has_said_of_what_it_repeats_no_more() {
    let mut pair = Pair::serving(GroupTiming::default());
    let client = Client { member: member(NodeId(7)), shard: 0 };
    let mut told = Vec::new();
    for (request, oldest) in [(5, 4), (6, 1), (7, 6)] {
        let origin = Some(Origin { client, request, oldest, first_epoch: 1 });
        let extent = Extent { offset: request * UNIT, length: UNIT };
        pair.group.command(pair.now, Token(request), Command::Write { extent, payload: 0, origin });
        pair.settle();
        told.extend(pair.said().into_iter().filter_map(|message| match message {
            Message::Put { origin, .. } => origin.map(|origin| (origin.request, origin.oldest)),
            _ => None,
        }));
    }
    assert_eq!(told, [(5, 4), (6, 4), (7, 6)]);
}

/// The other column is being filled: 8 units of it may differ.
fn filling(since: u64) -> Pair {
    let record = Record { generation: 1, sealed_epoch: 11, in_sync_epoch: 11, ..Record::default() };
    let mut pair = Pair::with_record(HERE, GroupTiming::default(), record);
    (pair.map.term.epoch, pair.map.since) = (12, 12);
    pair.map.columns[1].state = State::Stale { since };
    pair.report.sealed_before = Term { generation: 1, epoch: 9 };
    pair.report.in_sync_epoch = 5;
    pair.report.unstable = [Extent { offset: 0, length: 8 * UNIT }].into_iter().collect();
    pair.begin();
    pair.hear(Message::Here { disk: Uuid([2; 16]), generation: 1, in_sync_epoch: 5, marks: Marks(0) });
    pair.take();
    assert_eq!(pair.map.columns[1].state, State::Fill { since });
    pair
}

/// Other columns know what a column has missed until it is in sync, but for one whose disk has what the map says: what is copied to that one they
/// forget at once.
#[test]
fn what_is_copied_to_a_disk_that_is_not_trusted_is_forgotten_when_it_is_in_sync() {
    for (since, is_early) in [(3, true), (0, false)] {
        let mut pair = filling(since);
        let (mut told, mut is_over, mut last) = (false, false, 0);
        while !is_over {
            let said = pair.said();
            assert!(!said.is_empty(), "the fill stands still");
            for message in said {
                match message {
                    Message::Put { term, number, .. } => {
                        last = number;
                        pair.hear(Message::PutDone { term, number, marks: Marks(0) });
                    }
                    // The next write may miss what is forgotten.
                    Message::CaughtUp { number, .. } => {
                        assert_eq!(number, last);
                        told = true;
                    }
                    Message::Harden { .. } => is_over = true,
                    _ => {}
                }
            }
        }
        assert_eq!(told, is_early, "since {since}");
    }
}

/// A slow disk has much to make durable when all was copied to it.
#[test]
fn nobody_waits_until_what_was_copied_is_durable() {
    let mut pair = filling(3);
    let (term, mut syncs) = (pair.map.term, Vec::new());
    while syncs.len() < 2 {
        let said = pair.said();
        assert!(!said.is_empty(), "the fill stands still");
        for message in said {
            match message {
                Message::Put { number, .. } => {
                    pair.hear(Message::PutDone { term, number, marks: Marks(0) });
                }
                Message::Harden { number, admits, .. } => {
                    syncs.push(admits);
                    pair.group.command(pair.now, Token(syncs.len() as u64), Command::Flush);
                    pair.settle();
                    assert_eq!(pair.done, [Token(1)]);
                    pair.hear(Message::Hardened { term, number });
                }
                _ => {}
            }
        }
    }
    assert_eq!(syncs, [false, true]);
}

/// A write is open when it is time to say that the map was opened; its number.
fn about_to_confirm(timing: GroupTiming) -> (Pair, u64) {
    let mut pair = Pair::serving(timing);
    let confirm_at = pair.now + timing.confirm;
    while pair.now + timing.beacon() * 2 < confirm_at {
        pair.now = pair.now + timing.beacon();
        pair.tick();
    }
    let [number] = pair.write(0, 1)[..] else { panic!("one write") };
    for _ in 0..3 {
        pair.now = pair.now + timing.beacon();
        pair.tick();
    }
    assert!(pair.now > confirm_at && pair.proposed.is_empty(), "a write is open");
    pair.said();
    (pair, number)
}

/// What is open when a term begins would be copied to the other column, which did not know which commands it has until the term is open.
#[test]
fn writes_end_before_the_map_says_that_it_was_opened() {
    let (mut pair, number) = about_to_confirm(GroupTiming::default());
    assert_eq!(pair.write(9, 1), [], "others wait");
    pair.hear(Message::PutDone { term: pair.map.term, number, marks: Marks(0) });
    assert_eq!(pair.proposed.len(), 1);
    assert_eq!(pair.write(5, 1), [], "and go on waiting");
    pair.take();
    let writes: Vec<_> = pair.said();
    let is_write =
        |message: &&Message<u64>| matches!(message, Message::Put { doubtful: false, origin: None, .. });
    assert_eq!(writes.iter().filter(is_write).count(), 2, "{writes:?}");
    assert!(!writes.iter().any(|message| matches!(message, Message::Put { doubtful: true, .. })));
}

/// Most of those that keep the register are away.
#[test]
fn writes_do_not_wait_for_a_register_that_does_not_answer() {
    let timing = GroupTiming::default();
    let (mut pair, number) = about_to_confirm(timing);
    assert_eq!(pair.write(9, 1), []);
    pair.hear(Message::PutDone { term: pair.map.term, number, marks: Marks(0) });
    assert_eq!(pair.proposed.len(), 1, "it is asked");
    pair.now = pair.now + timing.lease;
    pair.tick();
    let said = pair.said();
    assert!(said.iter().any(|message| matches!(message, Message::Put { number: 2, .. })), "{said:?}");
    assert_eq!(pair.write(20, 1).len(), 1);
}

#[test]
fn writes_end_before_a_column_is_let_in_or_added() {
    let (disk, node) = (Uuid([3; 16]), NodeId(2));
    let asks: [fn(&mut Pair, Uuid, NodeId); 2] = [
        |pair, disk, node| {
            let here = Message::Here { disk, generation: 1, in_sync_epoch: 0, marks: Marks(0) };
            pair.group.receive(pair.now, node, here);
        },
        |pair, disk, node| pair.group.place(pair.now, [Placement::Add { column: 2, disk, node }].into()),
    ];
    for (asked, state) in asks.into_iter().zip([State::Stale { since: 3 }, State::None]) {
        let mut pair = Pair::new(HERE, GroupTiming::default());
        pair.map.columns.push(MapColumn { disk, node, state, marks: Marks(0) });
        (pair.map.term.epoch, pair.map.since) = (12, 12);
        pair.begin();
        let [number] = pair.write(0, 1)[..] else { panic!("one write") };
        asked(&mut pair, disk, node);
        pair.settle();
        assert_eq!(pair.write(9, 1), [], "others wait");
        assert!(pair.proposed.is_empty(), "{:?}", pair.proposed);
        pair.hear(Message::PutDone { term: pair.map.term, number, marks: Marks(0) });
        let [map] = &pair.proposed[..] else { panic!("{:?}", pair.proposed) };
        assert!(!matches!(map.columns[2].state, State::None | State::Sync), "{map:?}");
    }
}

/// The other disk, and then the own one, takes all that is written and makes nothing durable.
#[test]
fn a_flush_waits_for_no_disk_that_does_not_answer() {
    let timing = GroupTiming { confirm: Duration::from_secs(1000), ..GroupTiming::default() };
    for own in [false, true] {
        let mut pair = Pair::serving(timing);
        let until = pair.now + timing.flush_timeout();
        pair.works = !own;
        pair.group.command(pair.now, Token(7), Command::Flush);
        pair.settle();
        let number = pair.said().iter().find_map(|message| match message {
            Message::Harden { number, .. } => Some(*number),
            _ => None,
        });
        let number = number.expect("both are asked");
        if own {
            pair.hear(Message::Hardened { term: pair.map.term, number });
        }
        while pair.now <= until {
            assert!(pair.group.serves(pair.now) && pair.done.is_empty());
            pair.now = pair.group.next_timeout(pair.now);
            pair.tick();
        }
        if own {
            assert!(!pair.group.serves(pair.now), "the other column has everything");
            continue;
        }
        let [map] = &pair.proposed[..] else { panic!("{:?}", pair.proposed) };
        assert!(matches!(map.columns[1].state, State::Stale { .. }), "{map:?}");
        pair.take();
        assert_eq!(pair.done, [Token(7)]);
        let [Change::Dropped { column: 1, cause: DropCause::Unflushed(_), .. }] = pair.changes[..] else {
            panic!("{:?}", pair.changes)
        };
    }
}

/// The other disk does nothing any more, and the own one does all that it is asked, but slowly: something is open there at each time.
#[test]
fn a_disk_that_is_slow_keeps_no_other_one_in_sync_that_does_not_answer() {
    let timing = GroupTiming { confirm: Duration::from_secs(1000), ..GroupTiming::default() };
    let mut pair = Pair::serving(timing);
    let until = pair.now + timing.put_timeout * 4;
    pair.reads = false;
    pair.write(5, 1);
    let unit = |unit: u64| Extent { offset: unit * UNIT, length: UNIT };
    let mut read = 0;
    while pair.now <= until && pair.proposed.is_empty() {
        pair.group.command(pair.now, Token(100 + read), Command::Read { extent: unit(10 + read) });
        pair.settle();
        // Each takes twice as long as a node may say nothing.
        if let Some(begun) = read.checked_sub(6) {
            pair.has_read(unit(10 + begun), Ok(Some(0)));
        }
        read += 1;
        pair.now = pair.now + timing.silence() / 3;
        pair.tick();
    }
    let [map] = &pair.proposed[..] else { panic!("the write waits, {:?} reads are done", pair.done.len()) };
    assert!(matches!(map.columns[1].state, State::Stale { .. }), "{map:?}");
}

/// The last of so many columns is being filled, has everything, and is making it durable; its node.
fn hardening(columns: usize) -> (Pair, NodeId) {
    let record = Record { generation: 1, sealed_epoch: 11, in_sync_epoch: 11, ..Record::default() };
    let mut pair = Pair::with_record(HERE, GroupTiming::default(), record);
    (pair.map.term.epoch, pair.map.since) = (12, 12);
    pair.report.sealed_before = Term { generation: 1, epoch: 11 };
    pair.report.in_sync_epoch = 5;
    let (disk, node) = (Uuid([columns as u8; 16]), NodeId(columns as u16 - 1));
    let stale = MapColumn { disk, node, state: State::Stale { since: 3 }, marks: Marks(0) };
    pair.map.columns.truncate(columns - 1);
    pair.map.columns.push(stale);
    pair.begin();
    let here = Message::Here { disk, generation: 1, in_sync_epoch: 5, marks: Marks(0) };
    pair.group.receive(pair.now, node, here);
    pair.settle();
    pair.take();
    let said = pair.said();
    assert!(said.iter().any(|message| matches!(message, Message::Harden { admits: true, .. })), "{said:?}");
    (pair, node)
}

/// The last column in sync cannot read a unit for a write. The one that is about to be admitted has done that, and the same unit of it has rotted
/// since: nobody has it, and the group goes on without.
#[test]
fn a_unit_that_neither_the_last_column_in_sync_has_nor_a_filled_one_costs_a_write_and_not_the_group() {
    let (mut pair, filled) = hardening(2);
    let term = pair.map.term;
    pair.is_rotten = true;
    let extent = Extent { offset: 6 * UNIT + 512, length: UNIT };
    pair.group.command(pair.now, Token(1), Command::Write { extent, payload: 3, origin: None });
    pair.settle();
    let said = pair.said();
    let [Message::Put { number, .. }] = said[..] else { panic!("{said:?}") };
    pair.group.receive(pair.now, filled, Message::PutDone { term, number, marks: Marks(0) });
    pair.settle();
    let said = pair.said();
    let [Message::Get { number, extent: whole, .. }] = said[..] else { panic!("{said:?}") };
    assert_eq!(whole, extent.whole(UNIT));
    let damaged = Extent { length: UNIT, ..whole };
    pair.group.receive(pair.now, filled, Message::Damaged { term, number, extent: damaged });
    pair.settle();
    assert!(!pair.group.is_outdated() && pair.group.serves(pair.now), "the group stands still");
    assert_eq!(pair.failed, [(Token(1), CommandError::Damaged)]);
    // It has what nobody else has.
    pair.take();
    assert!(matches!(pair.map.columns[1].state, State::Stale { .. }), "{:?}", pair.map);
    assert!(pair.group.serves(pair.now));
}

/// A column cannot read a unit for a write. One that is being filled has done that, and another one in sync, which has that unit as it was, is yet to
/// answer. In the end nobody can do the write: both in sync have the same.
#[test]
fn a_column_gets_no_part_of_a_write_that_another_one_may_have_the_unit_without() {
    let (mut pair, filled) = hardening(3);
    let term = pair.map.term;
    let unit = |unit: u64| Extent { offset: unit * UNIT, length: UNIT };
    pair.works = false;
    let extent = Extent { offset: 6 * UNIT + 512, length: 2 * UNIT };
    pair.group.command(pair.now, Token(1), Command::Write { extent, payload: 3, origin: None });
    pair.settle();
    let said = pair.said();
    let [Message::Put { number, .. }, Message::Put { .. }] = said[..] else { panic!("{said:?}") };
    let [(own, Work::Write { .. })] = pair.open[..] else { panic!("{:?}", pair.open) };
    pair.open.clear();
    pair.group.receive(pair.now, filled, Message::PutDone { term, number, marks: Marks(0) });
    pair.hear(Message::Damaged { term, number, extent: unit(6) });
    let said = pair.said();
    let [Message::Get { number, .. }] = said[..] else { panic!("{said:?}") };
    pair.group.receive(pair.now, filled, Message::Damaged { term, number, extent: unit(8) });
    pair.settle();
    // What the other column in sync has of the unit in the end: 0 without the write, 1 with a part of it.
    let mut has = None;
    let answers = |pair: &mut Pair, has: &mut Option<u64>| {
        for _ in 0..8 {
            for message in pair.said() {
                match message {
                    Message::Get { term, number, .. } => pair.hear(Message::Got { term, number, payload: 1 }),
                    Message::Put { number, extent, payload, .. } if extent == unit(6) => {
                        *has = Some(payload);
                        pair.hear(Message::PutDone { term, number, marks: Marks(0) });
                    }
                    Message::Put { number, .. } => {
                        pair.hear(Message::Damaged { term, number, extent: unit(8) })
                    }
                    _ => {}
                }
            }
            if let [(_, Work::Read { extent })] = pair.open[..] {
                pair.has_read(extent, Ok(Some(0)));
            }
        }
    };
    answers(&mut pair, &mut has);
    pair.group.receive(pair.now, filled, Message::Failed { term });
    pair.settle();
    pair.group.done(pair.now, own, Err(WorkError::Damaged(unit(8))));
    pair.settle();
    answers(&mut pair, &mut has);
    assert_eq!(pair.failed, [(Token(1), CommandError::Damaged)]);
    assert_eq!(has, Some(0), "the own column has 0");
}
