//! The state machine against a model of a kernel, a daemon and other writers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

const PAGE: u64 = 4096;
const PAGES: usize = 6;

fn bytes(pages: std::ops::Range<usize>) -> Range {
    pages.start as u64 * PAGE..pages.end as u64 * PAGE
}

fn pages(range: &Range) -> std::ops::Range<usize> {
    (range.start / PAGE) as usize..((range.end / PAGE) as usize).min(PAGES)
}

fn outputs(machine: &mut Withdrawals) -> Vec<Output> {
    std::iter::from_fn(|| machine.poll()).collect()
}

fn valid() -> Withdrawals {
    let mut machine = Withdrawals::new(PAGE);
    machine.valid();
    machine
}

#[test]
fn a_withdrawal_is_done_when_the_kernel_has_dropped_the_pages() {
    let mut machine = valid();
    machine.withdraw(Cause::Daemon(1), &[bytes(1..3)]);
    let Some(Output::Notify { token, range }) = machine.poll() else { panic!("no notification") };
    assert_eq!(range, bytes(1..3));
    assert_eq!(machine.poll(), None);
    machine.notified(token);
    assert_eq!(outputs(&mut machine), [Output::Done(Cause::Daemon(1))]);
}

/// Both answers wait for the same write. The next withdrawal comes right behind them.
#[test]
fn pages_that_a_read_fills_are_not_waited_for_and_the_read_is_asked_again_at_once() {
    let mut machine = valid();
    machine.received(7, bytes(1..2));
    assert_eq!(outputs(&mut machine), [Output::Ask(7)]);
    machine.withdraw(Cause::Daemon(1), &[bytes(1..2)]);
    assert_eq!(outputs(&mut machine), [Output::Done(Cause::Daemon(1)), Output::Ask(7)]);
    assert!(!machine.replied(7, false));
    assert!(machine.replied(7, true));
}

#[test]
fn an_answer_that_comes_before_the_next_question_is_sent_is_not_taken_for_the_answer_to_that() {
    let mut machine = valid();
    machine.received(7, bytes(1..2));
    assert_eq!(outputs(&mut machine), [Output::Ask(7)]);
    machine.withdraw(Cause::Daemon(1), &[bytes(1..2)]);
    assert!(!machine.replied(7, true));
    assert_eq!(outputs(&mut machine), [Output::Done(Cause::Daemon(1)), Output::Ask(7)]);
    assert!(machine.replied(7, true));
}

#[test]
fn questions_that_nobody_answers_are_bounded() {
    let mut machine = valid();
    machine.received(7, bytes(1..2));
    let mut open = 0;
    for id in 1..=20 {
        machine.withdraw(Cause::Daemon(id), &[bytes(1..2)]);
        machine.overdue(7);
        open += outputs(&mut machine).iter().filter(|output| **output == Output::Ask(7)).count();
    }
    assert_eq!(open, OPEN_MAX as usize);
    assert!(!machine.replied(7, true));
    assert_eq!(outputs(&mut machine), [Output::Ask(7)]);
}

/// A machine, a READ of page 1 whose first answer was thrown away and that was asked again, and a withdrawal of pages 0 to
/// 3, named 2, that waits for it; the rest of these pages is dropped already.
fn awaiting() -> Withdrawals {
    let mut machine = valid();
    machine.received(7, bytes(1..2));
    assert_eq!(outputs(&mut machine), [Output::Ask(7)]);
    machine.withdraw(Cause::Daemon(1), &[bytes(1..2)]);
    assert_eq!(outputs(&mut machine), [Output::Done(Cause::Daemon(1)), Output::Ask(7)]);
    assert!(!machine.replied(7, false));
    machine.withdraw(Cause::Daemon(2), &[bytes(0..4)]);
    assert_eq!(machine.poll(), Some(Output::Await { read: 7, voided: 1 }));
    for pages in [0..1, 2..4] {
        let Some(Output::Notify { token, range }) = machine.poll() else { panic!("no notification") };
        assert_eq!((range, machine.poll()), (bytes(pages), None));
        machine.notified(token);
    }
    assert_eq!(outputs(&mut machine), []);
    machine
}

#[test]
fn a_read_that_was_asked_in_vain_is_waited_for_and_its_pages_are_dropped() {
    let mut machine = awaiting();
    assert!(machine.replied(7, true));
    assert_eq!(outputs(&mut machine), []);
    machine.answered(7);
    let Some(Output::Notify { token, range }) = machine.poll() else { panic!("no notification") };
    assert_eq!((range, machine.poll()), (bytes(1..2), None));
    machine.overdue(7);
    assert_eq!(outputs(&mut machine), []);
    machine.notified(token);
    assert_eq!(outputs(&mut machine), [Output::Done(Cause::Daemon(2))]);
}

#[test]
fn a_read_that_waits_for_the_write_itself_is_not_waited_for_for_ever() {
    let mut machine = awaiting();
    machine.overdue(7);
    assert_eq!(outputs(&mut machine), [Output::Done(Cause::Daemon(2)), Output::Ask(7)]);
    assert!(!machine.replied(7, false));
    machine.withdraw(Cause::Daemon(3), &[bytes(1..2)]);
    assert_eq!(outputs(&mut machine), [Output::Await { read: 7, voided: 2 }]);
}

#[test]
fn nothing_is_waited_for_when_pages_may_be_used_no_more() {
    let mut machine = awaiting();
    machine.lapsed();
    assert_eq!(machine.poll(), Some(Output::Done(Cause::Daemon(2))));
    assert!(!machine.replied(7, true));
    let mut machine = awaiting();
    machine.lost();
    assert!(!outputs(&mut machine).contains(&Output::Done(Cause::Daemon(2))));
}

/// Writers elsewhere never pause: a withdrawal overtakes each answer.
#[test]
fn a_read_beside_writers_is_answered() {
    let mut machine = valid();
    machine.received(7, bytes(1..2));
    let mut open = 0;
    for id in 1..=10 {
        open += outputs(&mut machine).iter().filter(|output| **output == Output::Ask(7)).count();
        machine.withdraw(Cause::Daemon(id), &[bytes(1..2)]);
        open += outputs(&mut machine).iter().filter(|output| **output == Output::Ask(7)).count();
        open -= 1;
        if machine.replied(7, open == 0) {
            return;
        }
    }
    panic!("ten answers were thrown away");
}

#[test]
fn a_read_that_arrives_in_a_withdrawal_splits_it_and_waits_for_its_end() {
    let mut machine = valid();
    machine.withdraw(Cause::Daemon(1), &[bytes(0..4)]);
    assert_eq!(outputs(&mut machine).len(), 1);
    machine.received(7, bytes(1..2));
    let Some(Output::Notify { token: left, range }) = machine.poll() else { panic!("no notification") };
    assert_eq!((range, machine.poll()), (bytes(0..1), None));
    machine.notified(left);
    let Some(Output::Notify { token: right, range }) = machine.poll() else { panic!("no notification") };
    assert_eq!((range, machine.poll()), (bytes(2..4), None));
    machine.notified(right);
    assert_eq!(outputs(&mut machine), [Output::Done(Cause::Daemon(1)), Output::Ask(7)]);
}

#[test]
fn nothing_is_asked_for_pages_before_they_may_be_used() {
    let mut machine = Withdrawals::new(PAGE);
    machine.received(7, 100..200);
    assert_eq!(outputs(&mut machine), []);
    machine.valid();
    assert_eq!(outputs(&mut machine), [Output::Ask(7)]);
    machine.lost();
    assert!(matches!(outputs(&mut machine)[..], [Output::Notify { .. }]));
}

#[test]
fn a_lost_daemon_is_told_nothing() {
    let mut machine = valid();
    machine.withdraw(Cause::Daemon(1), &[bytes(0..1)]);
    let Some(Output::Notify { token, .. }) = machine.poll() else { panic!("no notification") };
    machine.lost();
    machine.notified(token);
    let said = outputs(&mut machine);
    assert!(!said.contains(&Output::Done(Cause::Daemon(1))), "{said:?}");
}

/// A page of the kernel's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cached {
    Absent,
    /// By this READ.
    Locked(Read),
    /// With this version of the data.
    Present(u64),
}

/// A thread that has the kernel drop pages, one after the other; it stops at a locked one.
#[derive(Debug)]
struct Notification {
    token: u64,
    range: std::ops::Range<usize>,
}

/// A write by another node, for which pages are withdrawn.
#[derive(Clone, Debug)]
struct Write {
    id: u64,
    range: std::ops::Range<usize>,
}

/// What the daemon is able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daemon {
    Valid,
    /// Its lease has run out: it answers no reads.
    Lapsed,
    Dead,
}

/// Everything around the state machine.
#[derive(Debug)]
struct World {
    machine: Withdrawals,
    cache: [Cached; PAGES],
    disk: [u64; PAGES],
    reads: BTreeMap<Read, std::ops::Range<usize>>,
    next: u64,
    /// READs in the kernel's queue.
    queued: VecDeque<Read>,
    /// READs the daemon was asked for, and the question's name.
    asked: Vec<(Read, u64)>,
    /// The name of the last question for each.
    last: BTreeMap<Read, u64>,
    /// The daemon's answers on their way: the versions read.
    replies: VecDeque<(Read, u64, Vec<u64>)>,
    /// Withdrawals on their way to the device.
    notices: VecDeque<Write>,
    /// Writes that wait for their withdrawal.
    writes: BTreeMap<u64, Write>,
    notifications: Vec<Notification>,
    /// READs that withdrawals wait for.
    awaited: Vec<Read>,
    daemon: Daemon,
}

impl World {
    fn new() -> Self {
        Self {
            machine: valid(),
            cache: [Cached::Absent; PAGES],
            disk: [0; PAGES],
            reads: BTreeMap::new(),
            next: 0,
            queued: VecDeque::new(),
            asked: Vec::new(),
            last: BTreeMap::new(),
            replies: VecDeque::new(),
            notices: VecDeque::new(),
            writes: BTreeMap::new(),
            notifications: Vec::new(),
            awaited: Vec::new(),
            daemon: Daemon::Valid,
        }
    }

    fn outputs(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Ask(read) => {
                    assert_ne!(self.daemon, Daemon::Dead, "asked nobody");
                    self.next += 1;
                    self.asked.push((read, self.next));
                    self.last.insert(read, self.next);
                }
                Output::Notify { token, range } => {
                    self.notifications.push(Notification { token, range: pages(&range) });
                }
                Output::Await { read, .. } => self.awaited.push(read),
                Output::Done(Cause::Daemon(id)) => {
                    let write = self.writes.remove(&id).expect("a withdrawal is done once");
                    self.write(write.range);
                }
                Output::Done(Cause::Nobody) => {}
                Output::Done(Cause::Opening | Cause::Closed) => panic!("nothing was opened or closed"),
            }
        }
    }

    fn write(&mut self, range: std::ops::Range<usize>) {
        for page in range {
            self.disk[page] += 1;
        }
        self.check();
    }

    /// No page is older than the disk.
    fn check(&self) {
        for (page, cached) in self.cache.iter().enumerate() {
            if let Cached::Present(version) = cached {
                assert_eq!(*version, self.disk[page], "page {page} is stale: {self:#?}");
            }
        }
    }

    /// A process reads pages that are not there: the kernel locks the first run of them and queues a READ.
    fn kernel_reads(&mut self, range: std::ops::Range<usize>) {
        let absent = |page: &usize| self.cache[*page] == Cached::Absent;
        let Some(start) = range.clone().find(absent) else { return };
        let end = (start..range.end).find(|page| !absent(page)).unwrap_or(range.end);
        self.next += 1;
        let read = self.next as Read;
        self.cache[start..end].fill(Cached::Locked(read));
        self.reads.insert(read, start..end);
        self.queued.push_back(read);
    }

    fn device_receives(&mut self) {
        if let Some(read) = self.queued.pop_front() {
            self.machine.received(read, bytes(self.reads[&read].clone()));
        }
    }

    /// The daemon reads, unless pages of the range are being withdrawn: their lock is on its way to somebody else.
    fn daemon_answers(&mut self, which: usize) {
        if self.asked.is_empty() || self.daemon != Daemon::Valid {
            return;
        }
        let index = which % self.asked.len();
        let (read, question) = self.asked[index];
        let Some(range) = self.reads.get(&read).cloned() else {
            self.asked.remove(index);
            return;
        };
        if self.writes.values().any(|write| write.range.start < range.end && range.start < write.range.end) {
            return;
        }
        self.asked.remove(index);
        self.replies.push_back((read, question, self.disk[range].to_vec()));
    }

    fn device_gets_reply(&mut self) {
        let Some((read, question, versions)) = self.replies.pop_front() else { return };
        if !self.reads.contains_key(&read) {
            return;
        }
        if self.machine.replied(read, self.last[&read] == question) {
            let range = self.reads.remove(&read).expect("a READ is answered once");
            for (page, version) in range.zip(versions) {
                assert_eq!(self.cache[page], Cached::Locked(read));
                self.cache[page] = Cached::Present(version);
            }
            self.machine.answered(read);
            self.check();
        }
    }

    fn daemon_withdraws(&mut self, range: std::ops::Range<usize>) {
        if self.daemon == Daemon::Valid {
            self.next += 1;
            let write = Write { id: self.next, range };
            self.notices.push_back(write.clone());
            self.writes.insert(write.id, write);
        }
    }

    fn device_withdraws(&mut self) {
        if let Some(Write { id, range }) = self.notices.pop_front() {
            self.machine.withdraw(Cause::Daemon(id), &[bytes(range)]);
        }
    }

    /// One notification drops one page, if that is not locked.
    fn kernel_drops(&mut self, which: usize) -> bool {
        if self.notifications.is_empty() {
            return false;
        }
        let index = which % self.notifications.len();
        let notification = &mut self.notifications[index];
        match notification.range.next() {
            Some(page) if matches!(self.cache[page], Cached::Locked(_)) => {
                notification.range.start = page;
                return false;
            }
            Some(page) => self.cache[page] = Cached::Absent,
            None => {
                let token = self.notifications.remove(index).token;
                self.machine.notified(token);
            }
        }
        true
    }

    /// A READ has been waited for long enough; perhaps it is answered by now.
    fn device_waits_no_more(&mut self, which: usize) {
        if !self.awaited.is_empty() {
            let read = self.awaited.remove(which % self.awaited.len());
            self.machine.overdue(read);
        }
    }

    fn daemon_dies(&mut self) {
        if self.daemon != Daemon::Dead {
            self.daemon = Daemon::Dead;
            self.asked.clear();
            self.replies.clear();
            self.notices.clear();
            self.writes.clear();
            self.machine.lost();
        }
    }

    fn daemon_lapses(&mut self) {
        if self.daemon == Daemon::Valid {
            self.daemon = Daemon::Lapsed;
            self.machine.lapsed();
        }
    }

    fn daemon_returns(&mut self) {
        self.daemon = Daemon::Valid;
        self.machine.valid();
    }

    /// Others write without asking a daemon whose lease has run out, which is after the pages were dropped.
    fn others_write(&mut self, range: std::ops::Range<usize>) {
        if self.daemon != Daemon::Valid && self.machine.withdrawals.is_empty() {
            self.write(range);
        }
    }

    /// Lets everything that can happen by itself happen.
    fn settle(&mut self) {
        self.daemon_returns();
        for _ in 0..10_000 {
            self.outputs();
            self.device_receives();
            self.device_withdraws();
            self.daemon_answers(0);
            self.device_gets_reply();
            self.device_waits_no_more(0);
            self.outputs();
            let open: BTreeSet<u64> = self.notifications.iter().map(|one| one.token).collect();
            let moved = (0..open.len()).filter(|which| self.kernel_drops(*which)).count();
            if moved == 0 && self.reads.is_empty() && self.writes.is_empty() && open.is_empty() {
                return;
            }
        }
        panic!("stuck: {self:#?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    KernelReads(std::ops::Range<usize>),
    DeviceReceives,
    /// It does what the state machine says, after one input or several.
    DeviceSettles,
    DaemonAnswers(usize),
    DeviceGetsReply,
    DaemonWithdraws(std::ops::Range<usize>),
    DeviceWithdraws,
    KernelDrops(usize),
    DeviceWaitsNoMore(usize),
    DaemonDies,
    DaemonLapses,
    DaemonReturns,
    OthersWrite(std::ops::Range<usize>),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..PAGES, 1..=PAGES).prop_map(|(start, length)| start..(start + length).min(PAGES));
    prop_oneof![
        6 => range().prop_map(Step::KernelReads),
        6 => Just(Step::DeviceReceives),
        16 => Just(Step::DeviceSettles),
        6 => (0..4usize).prop_map(Step::DaemonAnswers),
        6 => Just(Step::DeviceGetsReply),
        3 => range().prop_map(Step::DaemonWithdraws),
        4 => Just(Step::DeviceWithdraws),
        12 => (0..4usize).prop_map(Step::KernelDrops),
        1 => (0..4usize).prop_map(Step::DeviceWaitsNoMore),
        1 => Just(Step::DaemonDies),
        1 => Just(Step::DaemonLapses),
        2 => Just(Step::DaemonReturns),
        2 => range().prop_map(Step::OthersWrite),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_page_is_ever_stale_and_nothing_waits_for_ever(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::KernelReads(range) => world.kernel_reads(range),
                Step::DeviceReceives => world.device_receives(),
                Step::DeviceSettles => world.outputs(),
                Step::DaemonAnswers(which) => world.daemon_answers(which),
                Step::DeviceGetsReply => world.device_gets_reply(),
                Step::DaemonWithdraws(range) => world.daemon_withdraws(range),
                Step::DeviceWithdraws => world.device_withdraws(),
                Step::KernelDrops(which) => drop(world.kernel_drops(which)),
                Step::DeviceWaitsNoMore(which) => world.device_waits_no_more(which),
                Step::DaemonDies => world.daemon_dies(),
                Step::DaemonLapses => world.daemon_lapses(),
                Step::DaemonReturns => world.daemon_returns(),
                Step::OthersWrite(range) => world.others_write(range),
            }
        }
        world.settle();
    }
}
