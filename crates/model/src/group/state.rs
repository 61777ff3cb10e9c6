//! The whole: what there is, and what can happen next.

use std::collections::VecDeque;

use cards_array::group::{
    Answer, Client, Command, CommandError, Extent, Map, Member, Message, Origin, Output, Token,
};
use cards_core::NodeId;
use cards_layout::format::Uuid;

use super::judge::VALUES;
use super::node::{Ask, disk_of, id_of};
use super::{Instance, Judge, Node, Verdict};

const NODES: usize = 2;
/// All of the group.
const ALL: Extent = Extent { offset: 0, length: 1 };
/// The token of a read. Those of writes are lower.
const READ: Token = Token(100);
/// Timers that a process runs in a tick: more are without end.
const TIMERS_MAX: usize = 16;

/// Everything there is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Ticks so far.
    ticks: u8,
    /// Both nodes.
    pub nodes: [Node; NODES],
    links: [Link; NODES],
    register: Map,
    writers: Vec<Writer>,
    left: Left,
    /// What has happened.
    pub judge: Judge,
}

/// What a node sends to the other one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Link {
    is_cut: bool,
    /// On its way: empty but while something happens.
    messages: VecDeque<Message<u8>>,
    /// Lost, but may come late.
    late: Vec<Message<u8>>,
}

/// What may still happen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Left {
    skips: [u8; NODES],
    cuts: u8,
    one_way_cuts: u8,
    heals: u8,
    lates: u8,
    crashes: u8,
    pauses: u8,
    doubts: u8,
}

/// A client that writes one value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Writer {
    /// How often it may send it still; 0 when it has an answer.
    sends: u8,
    origin: Option<Origin>,
    /// Nodes where its command is open.
    open: [bool; NODES],
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Time passes; the clock of a node may stand still.
    Tick(Option<usize>),
    /// What nodes send to each other is lost from now on.
    CutOff,
    /// What a node sends is.
    Cut(usize),
    /// What nodes send to each other arrives again.
    Heal,
    /// A message arrives that the link of this node had lost.
    Late(usize, usize),
    /// The register does what a node has asked, and answers.
    Register(usize),
    /// It does so, and the answer is lost.
    Doubt(usize),
    /// A process ends.
    Crash(usize),
    /// A process starts.
    Start(usize),
    /// A process stands still.
    Stop(usize),
    /// It goes on.
    Wake(usize),
    /// A client sends its write to a node.
    Write(usize, usize),
    /// Somebody reads at a node.
    Read(usize),
}

impl State {
    /// Node 0 serves, and nothing was written.
    ///
    /// # Panics
    /// It never does.
    #[must_use]
    pub fn new(instance: &Instance) -> Self {
        let disks: Vec<_> = (0..NODES).map(|node| (disk_of(node), id_of(node))).collect();
        let primary = Member { node: id_of(0), incarnation: 0 };
        let writer = |sends: &u8| Writer { sends: *sends, origin: None, open: [false; NODES] };
        let mut state = Self {
            ticks: 0,
            nodes: [Node::new(0), Node::new(1)],
            links: Default::default(),
            register: Map::first(Uuid([9; 16]), 0, primary, &disks).expect("two columns"),
            writers: instance.sends.iter().map(writer).collect(),
            left: Left {
                skips: instance.skips,
                cuts: instance.cuts,
                one_way_cuts: instance.one_way_cuts,
                heals: instance.heals,
                lates: instance.lates,
                crashes: instance.crashes,
                pauses: instance.pauses,
                doubts: instance.doubts,
            },
            judge: Judge::new(),
        };
        state.nodes.iter_mut().for_each(|node| node.start(instance));
        while !state.nodes[0].serves() {
            state.tick(None);
            while let Some(node) = (0..NODES).find(|node| state.asks(*node).is_some()) {
                state.ask_register(node, true);
            }
            assert!(state.ticks < 20, "nobody serves");
        }
        state.ticks = 0;
        state
    }

    /// All that can happen next.
    #[must_use]
    pub fn actions(&self, instance: &Instance) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.judge.verdict.is_some() {
            return actions;
        }
        let Left { skips, cuts, one_way_cuts, heals, lates, crashes, pauses, doubts } = self.left;
        if self.ticks < instance.ticks {
            actions.push(Action::Tick(None));
            let skips = (0..NODES).filter(|node| skips[*node] > 0);
            actions.extend(skips.map(|node| Action::Tick(Some(node))));
        }
        if self.links.iter().any(|link| link.is_cut) {
            if heals > 0 {
                actions.push(Action::Heal);
            }
        } else if cuts > 0 {
            actions.push(Action::CutOff);
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let link = &self.links[number];
            if !link.is_cut && one_way_cuts > 0 {
                actions.push(Action::Cut(number));
            }
            if lates > 0 && self.nodes[1 - number].goes_on() {
                actions.extend((0..link.late.len()).map(|message| Action::Late(number, message)));
            }
            let Some(process) = &node.process else {
                actions.push(Action::Start(number));
                continue;
            };
            if process.inbox.is_none() {
                if let Some(ask) = &process.asks {
                    actions.push(Action::Register(number));
                    if doubts > 0 && matches!(ask, Ask::Propose(_)) {
                        actions.push(Action::Doubt(number));
                    }
                }
                if pauses > 0 {
                    actions.push(Action::Stop(number));
                }
            } else {
                actions.push(Action::Wake(number));
            }
            if crashes > 0 {
                actions.push(Action::Crash(number));
            }
            if node.serves() {
                actions.push(Action::Read(number));
            }
            if node.is_primary() {
                let writers = (0..self.writers.len()).filter(|writer| self.may_send(*writer, number));
                actions.extend(writers.map(|writer| Action::Write(writer, number)));
            }
        }
        actions
    }

    /// What is after `action`.
    #[must_use]
    pub fn after(&self, action: Action, instance: &Instance) -> Self {
        let mut next = self.clone();
        match action {
            Action::Tick(skips) => next.tick(skips),
            Action::CutOff => {
                next.left.cuts -= 1;
                next.links.iter_mut().for_each(|link| link.is_cut = true);
            }
            Action::Cut(node) => {
                next.left.one_way_cuts -= 1;
                next.links[node].is_cut = true;
            }
            Action::Heal => {
                next.left.heals -= 1;
                next.links.iter_mut().for_each(|link| link.is_cut = false);
            }
            Action::Late(node, message) => {
                next.left.lates -= 1;
                let message = next.links[node].late.remove(message);
                next.receive(1 - node, message);
            }
            Action::Register(node) => next.ask_register(node, true),
            Action::Doubt(node) => {
                next.left.doubts -= 1;
                next.ask_register(node, false);
            }
            Action::Crash(node) => {
                next.left.crashes -= 1;
                next.end(node);
            }
            Action::Start(node) => next.nodes[node].start(instance),
            Action::Stop(node) => {
                next.left.pauses -= 1;
                next.nodes[node].process.iter_mut().for_each(|process| process.inbox = Some(VecDeque::new()));
            }
            Action::Wake(node) => next.wake(node),
            Action::Write(writer, node) => next.write(writer, node),
            Action::Read(node) => next.read(node),
        }
        next.settle(instance);
        next.judge_all();
        next
    }

    /// Something that a link had lost has arrived.
    #[must_use]
    pub const fn has_come_late(&self, instance: &Instance) -> bool {
        self.left.lates < instance.lates
    }

    /// The write of a client is acknowledged.
    #[must_use]
    pub fn is_acknowledged(&self, writer: usize) -> bool {
        self.judge.acknowledged & 1 << value_of(writer) != 0
    }

    /// The writers begin in their order: before they do, they are alike.
    fn may_send(&self, writer: usize, node: usize) -> bool {
        let begun = |writer: usize| self.writers[writer].origin.is_some();
        let is_next = writer == 0 || begun(writer - 1);
        let Writer { sends, open, .. } = &self.writers[writer];
        is_next && *sends > 0 && !open[node]
    }

    fn asks(&self, node: usize) -> Option<&Ask> {
        self.nodes[node].process.as_ref()?.asks.as_ref()
    }

    fn tick(&mut self, skips: Option<usize>) {
        self.ticks += 1;
        skips.into_iter().for_each(|node| self.left.skips[node] -= 1);
        for node in self.nodes.iter_mut().filter(|node| Some(node.number) != skips) {
            node.clock += 1;
        }
        (0..NODES).for_each(|node| self.run_timers(node));
    }

    fn run_timers(&mut self, node: usize) {
        for _ in 0..TIMERS_MAX {
            let now = self.nodes[node].now();
            let Some(process) = self.nodes[node].process.as_mut().filter(|process| process.inbox.is_none())
            else {
                return;
            };
            if process.group.next_timeout(now) > now {
                return;
            }
            process.group.timeout(now);
            self.run();
        }
        panic!("timers of node {node} have no end");
    }

    /// The register is one object: it takes the map that follows its own.
    fn ask_register(&mut self, node: usize, answers: bool) {
        let now = self.nodes[node].now();
        let Some(process) = &mut self.nodes[node].process else { return };
        let answer = match process.asks.take() {
            None => return,
            Some(Ask::Read) => Answer::Read(self.register.clone()),
            Some(Ask::Propose(map)) if map.term.epoch == self.register.term.epoch + 1 => {
                self.register = map;
                Answer::Taken
            }
            Some(Ask::Propose(_)) => Answer::NotTaken,
        };
        process.group.register(now, if answers { answer } else { Answer::Unknown });
        self.run();
    }

    fn end(&mut self, node: usize) {
        self.nodes[node].process = None;
        self.writers.iter_mut().for_each(|writer| writer.open[node] = false);
    }

    fn wake(&mut self, node: usize) {
        let inbox = self.nodes[node].process.as_mut().and_then(|process| process.inbox.take());
        for message in inbox.into_iter().flatten() {
            self.receive(node, message);
        }
        self.run_timers(node);
    }

    fn write(&mut self, number: usize, node: usize) {
        let writer = &mut self.writers[number];
        writer.sends -= 1;
        writer.open[node] = true;
        let value = value_of(number);
        if writer.origin.is_none() {
            self.judge.begins(value);
        }
        let first_epoch = self.register.since;
        let origin = writer.origin.get_or_insert_with(|| Origin {
            client: Client { member: Member { node: NodeId(10 + number as u16), incarnation: 1 }, shard: 0 },
            request: 1,
            oldest: 1,
            first_epoch,
        });
        let command = Command::Write { extent: ALL, payload: value, origin: Some(*origin) };
        let now = self.nodes[node].now();
        if let Some(process) = &mut self.nodes[node].process {
            process.group.command(now, Token(number as u64), command);
        }
        self.run();
    }

    /// A read that is not answered at once is not looked at: one that comes later, when the node serves, is.
    fn read(&mut self, node: usize) {
        let mut other = self.clone();
        let now = other.nodes[node].now();
        let Some(process) = &mut other.nodes[node].process else { return };
        process.group.command(now, READ, Command::Read { extent: ALL });
        self.judge = {
            other.run();
            other.judge
        };
    }

    fn receive(&mut self, to: usize, message: Message<u8>) {
        let now = self.nodes[to].now();
        let Some(process) = &mut self.nodes[to].process else { return };
        match &mut process.inbox {
            Some(inbox) => inbox.push_back(message),
            None => process.group.receive(now, id_of(1 - to), message),
        }
        self.run();
    }

    /// Does what the groups want done, until they want nothing.
    fn run(&mut self) {
        loop {
            let output = (0..NODES).find_map(|node| {
                let process = self.nodes[node].process.as_mut()?;
                Some((node, process.group.poll()?))
            });
            if let Some((node, output)) = output {
                self.carry_out(node, output);
                continue;
            }
            let Some(from) = (0..NODES).find(|node| !self.links[*node].messages.is_empty()) else { return };
            if let Some(message) = self.links[from].messages.pop_front() {
                let now = self.nodes[1 - from].now();
                let Some(process) = &mut self.nodes[1 - from].process else { continue };
                match &mut process.inbox {
                    Some(inbox) => inbox.push_back(message),
                    None => process.group.receive(now, id_of(from), message),
                }
            }
        }
    }

    fn carry_out(&mut self, number: usize, output: Output<u8>) {
        let node = &mut self.nodes[number];
        let (now, link) = (node.now(), &mut self.links[number]);
        let Some(process) = &mut node.process else { return };
        match output {
            Output::Send { message, .. } if link.is_cut => {
                if !link.late.contains(&message) {
                    link.late.push(message);
                }
            }
            Output::Send { message, .. } => link.messages.push_back(message),
            Output::Work { op, work } => {
                let result = node.medium.apply(&work);
                process.group.marked(node.medium.marks());
                process.group.done(now, op, Ok(result));
            }
            Output::Release(_) => node.medium.release(),
            Output::CaughtUp(extents) => node.medium.caught_up(&extents),
            Output::ReadMap => process.asks = Some(Ask::Read),
            Output::Propose(map) => process.asks = Some(Ask::Propose(map)),
            Output::Stopped => self.writers.iter_mut().for_each(|writer| writer.open[number] = false),
            Output::Done { token: READ, result } => {
                result.ok().flatten().into_iter().for_each(|value| self.judge.reads(value));
            }
            Output::Done { token, result } => self.answered(token, number, result.map(drop)),
            Output::Serves(_) | Output::Changed(_) | Output::Damaged { .. } => {}
        }
    }

    /// A client has an answer to its write.
    fn answered(&mut self, token: Token, node: usize, result: Result<(), CommandError>) {
        let number = token.0 as usize;
        let writer = &mut self.writers[number];
        writer.open[node] = false;
        match result {
            Ok(()) => {
                writer.sends = 0;
                self.judge.acknowledges(value_of(number));
            }
            // It is given up: it may have been done, and may be seen or not.
            Err(CommandError::InDoubt | CommandError::Answered) => writer.sends = 0,
            Err(CommandError::NotPrimary | CommandError::Damaged) => {}
        }
    }

    /// Forgets what makes no difference any more.
    fn settle(&mut self, instance: &Instance) {
        let is_over = self.left.lates == 0;
        for link in &mut self.links {
            link.late.retain(|message| !is_over && (instance.comes_late)(message));
        }
    }

    fn judge_all(&mut self) {
        if self.nodes.iter().all(Node::serves) {
            self.judge.is_wrong(Verdict::BothServe);
        }
        for column in self.register.in_sync() {
            let node = usize::from(self.register.columns[usize::from(column)].node.0);
            let value = self.nodes[node].medium.value;
            if self.judge.is_replaced(value) {
                self.judge.is_wrong(Verdict::NotEverywhere { node, value });
            }
        }
    }
}

const fn value_of(writer: usize) -> u8 {
    assert!(writer + 1 < VALUES);
    writer as u8 + 1
}
