//! Commands in flight under attack: random writes and reads of a few blocks, with contents, while messages are lost, repeated
//! and overtaken, connections break, commands are given up and cards attached anew.
//!
//! The disk says what a read may return: what it held at some time while the read was under way. A write that was answered
//! was done once between its question and its answer, one that was given up once at most. When the faults stop, all ends.

use std::collections::BTreeMap;
use std::env;

use cards_core::*;
use cards_policies::{BuiltIn, Replacement};

const V: PgId = PgId::plain(NodeId(0), 0);
const BLOCKS: u32 = 3;
const BLOCK_BYTES: u32 = 4096;
/// What is written at once, and has contents of its own: half a block.
const PART: u32 = BLOCK_BYTES / 2;
const STEPS: u32 = 1_000;
/// Runs of the test.
pub(crate) const SEEDS: u64 = 200;
/// A storm may leave much to wait for, but each wait is bounded.
const CALM: Duration = Duration::from_secs(60);

type Bytes = Vec<u64>;

#[derive(Clone)]
struct Sent {
    from: NodeId,
    to: NodeId,
    message: Message,
    bytes: Option<Bytes>,
}

struct Node {
    shard: Shard,
    slots: Vec<Bytes>,
    buffers: BTreeMap<BufferId, Bytes>,
    /// How far it is on its way from one card to the next.
    card: CardState,
}

#[derive(Clone, Copy, PartialEq)]
enum CardState {
    Attached,
    Suspended,
    /// And the disk node has given the card up.
    Detached,
    /// The disk node has attached the next one.
    Known(Generation),
}

struct Write {
    parts: std::ops::Range<u32>,
    begun: u32,
    done: Option<u32>,
    /// The disk node has said that it will not do it.
    is_void: bool,
}

struct World {
    random: u64,
    now: Instant,
    /// Counts everything that happens.
    step: u32,
    nodes: Vec<Node>,
    wire: Vec<Sent>,
    /// What was on a connection that has ended, and may come yet.
    late: Vec<Sent>,
    cut: Vec<(u16, u16)>,
    disk: Vec<(OpId, DiskWork, bool)>,
    /// What each part of the disk has held, and since when.
    held: Vec<Vec<(u32, u64)>>,
    /// By their tokens, which are also what they write.
    writes: BTreeMap<u64, Write>,
    /// The tokens of what was sent to the disk node.
    sent: BTreeMap<(NodeId, RequestId), u64>,
    reads: BTreeMap<u64, u32>,
    last: u64,
    wrong: Option<String>,
    told: bool,
    /// Of 100 steps so many are writes.
    busy: u64,
}

/// Runs a seed; what is wrong with it.
pub(crate) fn run(seed: u64) -> Result<(), String> {
    let mut world = World::new(seed);
    (0..STEPS).for_each(|_| world.storm());
    world.calm();
    world.wrong.map_or(Ok(()), Err)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = mix(seed);
        let mut draw = |most: u64| {
            random = mix(random);
            random % most
        };
        let nodes = 2 + draw(2) as u16;
        let (slots, busy) = (1 << draw(3), [4, 15][draw(2) as usize]);
        let spec = VolumeSpec {
            id: V,
            primary: NodeId(0),
            epoch: 1,
            name: "disk".to_string(),
            size_bytes: u64::from(BLOCKS * BLOCK_BYTES),
            block_bytes: BLOCK_BYTES,
            policy: ["rd", "hscc"][draw(2) as usize].to_string(),
            read_only: false,
            content: 0,
            network_attached: draw(2) == 0,
            coherence: Coherence::Confirmed,
            handover: [Handover::Cache, Handover::Disk][draw(2) as usize],
        };
        let config = |node| ShardConfig {
            node: NodeId(node),
            nodes,
            incarnation: 1,
            shard: 0,
            shards: 1,
            capacity_blocks: 2,
            block_bytes: BLOCK_BYTES,
            algorithms: BuiltIn::with(Replacement::Lru),
            placement: Placement::new(PlacementKind::Modulo, nodes),
            peer_timeout: Duration::from_millis(40),
            hedge: false,
            disk_wait: Duration::from_millis(400),
            marks: BTreeMap::new(),
            park: true,
            limits: Limits { slots, ..Limits::default() },
        };
        let node = |node| {
            let shard = Shard::new(config(node), seed);
            let slots = vec![vec![u64::MAX; 2]; shard.slots() as usize];
            let card = if node == 0 { CardState::Attached } else { CardState::Detached };
            Node { shard, slots, buffers: BTreeMap::new(), card }
        };
        let mut world = Self {
            random,
            now: Instant(0),
            step: 0,
            nodes: (0..nodes).map(node).collect(),
            wire: Vec::new(),
            late: Vec::new(),
            cut: (0..nodes).flat_map(|node| (0..node).map(move |peer| (node, peer))).collect(),
            disk: Vec::new(),
            held: vec![vec![(0, 0)]; (BLOCKS * 2) as usize],
            writes: BTreeMap::new(),
            sent: BTreeMap::new(),
            reads: BTreeMap::new(),
            last: 0,
            wrong: None,
            busy,
            told: env::var("CARDS_WINDOW_SEED").is_ok(),
        };
        (0..nodes).for_each(|node| world.give(node, Input::Volume { spec: spec.clone() }));
        world.give(0, Input::WritesAllowed { volume: V });
        world.attach(0, Generation(1));
        world.attach_all();
        world.join();
        world
    }

    fn draw(&mut self, most: u64) -> u64 {
        self.random = mix(self.random);
        self.random % most
    }

    fn some_node(&mut self) -> u16 {
        self.draw(self.nodes.len() as u64) as u16
    }

    fn tell(&self, line: impl FnOnce() -> String) {
        if self.told {
            println!("{:>6} {:>7.3} {}", self.step, self.now.0 as f64 / 1e9, line());
        }
    }

    fn fail(&mut self, what: String) {
        self.tell(|| format!("WRONG: {what}"));
        self.wrong.get_or_insert(what);
    }

    fn storm(&mut self) {
        let node = self.some_node();
        match self.draw(100) {
            at if at < self.busy => self.write(node),
            0..25 => self.read(node),
            25..65 => self.deliver_some(),
            65..83 => self.work(),
            83..95 => self.pass(),
            95 => self.cut_some(),
            96..98 => self.join(),
            _ if node > 0 => self.next_card(node),
            _ => self.give(node, Input::DropCaches),
        }
    }

    fn read(&mut self, node: u16) {
        let block = BlockId::new(V, self.draw(u64::from(BLOCKS)) as u32);
        self.last += 1;
        self.reads.insert(self.last, self.step + 1);
        self.give(node, Input::Read { token: Token(self.last), block });
    }

    /// A part of a block, a whole one, or parts of two; one in eight is a flush.
    fn write(&mut self, node: u16) {
        self.last += 1;
        let first = self.draw(u64::from(BLOCKS * 2)) as u32;
        let parts = first..(first + 1 + self.draw(2) as u32).min(BLOCKS * 2);
        let (kind, parts) = match self.draw(8) {
            0 => (CommandKind::Flush { since: Persistence::NONE }, 0..0),
            _ => (CommandKind::Write, parts),
        };
        let payload = match kind {
            CommandKind::Write => {
                let buffer = BufferId(self.last);
                self.nodes[usize::from(node)].buffers.insert(buffer, vec![self.last; parts.len()]);
                Payload::Buffer(buffer)
            }
            _ => Payload::None,
        };
        let (token, offset, length) =
            (Token(self.last), u64::from(parts.start * PART), parts.len() as u32 * PART);
        self.writes.insert(self.last, Write { parts, begun: self.step + 1, done: None, is_void: false });
        self.give(node, Input::Command { token, volume: V, kind, offset, length, fua: false, payload });
    }

    /// The first message of a connection, but sometimes another, or one from before; sometimes lost, sometimes left to come again.
    fn deliver_some(&mut self) {
        let from_late = !self.late.is_empty() && self.draw(32) == 0;
        let pool = if from_late { self.late.len() } else { self.wire.len() };
        if pool == 0 {
            return;
        }
        let mut at = self.draw(pool as u64) as usize;
        if !from_late && self.draw(16) != 0 {
            let is_same = |one: &Sent, other: &Sent| (one.from, one.to) == (other.from, other.to);
            at = self.wire.iter().position(|sent| is_same(sent, &self.wire[at])).unwrap_or(at);
        }
        let sent = if from_late { self.late.remove(at) } else { self.wire.remove(at) };
        match self.draw(64) {
            0 => self.tell(|| format!("lost: {:?} -> {:?} {:?}", sent.from, sent.to, sent.message.body)),
            1 => self.late.push(sent),
            2 => {
                self.late.push(sent.clone());
                self.arrive(sent, false);
            }
            3 => self.arrive(sent, true),
            _ => self.arrive(sent, false),
        }
    }

    fn arrive(&mut self, Sent { from, to, message, bytes }: Sent, breaks_off: bool) {
        self.tell(|| format!("{to:?} <- {from:?} {:?}", message.body));
        if let Body::CommandDone { request, result: Err(IoError::NoAnswer), .. } = message.body
            && let Some(write) = self.sent.get(&(to, request)).and_then(|token| self.writes.get_mut(token))
        {
            write.is_void = true;
        }
        let node = &mut self.nodes[usize::from(to.0)];
        let landing = match bytes.is_some() {
            true => node.shard.landing(from, &message),
            false => Landing::Discard,
        };
        let payload = match (landing, bytes) {
            (Landing::Slot(slot), Some(_)) if breaks_off => {
                return self.give(to.0, Input::LandingAborted { slot });
            }
            (Landing::Buffer, Some(_)) if breaks_off => return,
            (Landing::Slot(slot), Some(bytes)) => {
                node.slots[slot.0 as usize] = bytes;
                Payload::Slot(slot)
            }
            (Landing::Buffer, Some(bytes)) => {
                self.last += 1;
                node.buffers.insert(BufferId(self.last), bytes);
                Payload::Buffer(BufferId(self.last))
            }
            _ => Payload::None,
        };
        self.give(to.0, Input::Message { from, message, payload });
    }

    /// Some work of the disk takes effect, or is said to be done.
    fn work(&mut self) {
        if self.disk.is_empty() {
            return;
        }
        let at = self.draw(self.disk.len() as u64) as usize;
        if !self.disk[at].2 {
            self.disk[at].2 = true;
            return self.take_effect(self.disk[at].1);
        }
        let (op, ..) = self.disk.remove(at);
        self.give(0, Input::DiskDone { op, result: Ok(()) });
    }

    fn take_effect(&mut self, work: DiskWork) {
        self.step += 1;
        let (step, node) = (self.step, &mut self.nodes[0]);
        match work {
            DiskWork::Read { block, slot, .. } => {
                let parts = &self.held[(block * 2) as usize..][..2];
                node.slots[slot.0 as usize] = parts.iter().map(|held| held[held.len() - 1].1).collect();
            }
            DiskWork::Command { offset, payload: Payload::Buffer(buffer), .. } => {
                let first = offset as usize / PART as usize;
                let bytes = node.buffers[&buffer].clone();
                let mut again = self.writes.get(&bytes[0]).is_some_and(|write| write.is_void);
                for (held, &value) in self.held[first..].iter_mut().zip(&bytes) {
                    again |= held.iter().any(|&(_, before)| before == value);
                    held.push((step, value));
                }
                self.tell(|| format!("the disk has {bytes:?} from part {first} on"));
                if again {
                    self.fail(format!("write {} is done again, or after it was void", bytes[0]));
                }
            }
            DiskWork::Command { .. } => {}
        }
    }

    /// A little time passes, or much.
    fn pass(&mut self) {
        let most = if self.draw(16) == 0 { 1_500 } else { 40 };
        self.now = self.now + Duration::from_millis(self.draw(most));
        self.wake();
    }

    fn wake(&mut self) {
        for node in 0..self.nodes.len() as u16 {
            let due = |(at, _)| at <= self.now;
            if self.nodes[usize::from(node)].shard.next_timeout().is_some_and(due) {
                self.give(node, Input::Timeout);
            }
        }
    }

    /// A connection ends. What was on it is lost, or comes some time.
    fn cut_some(&mut self) {
        let (one, other) = (self.some_node(), self.some_node());
        if one != other {
            self.cut.push((one, other));
            self.tell(|| format!("n{one} and n{other} are apart"));
            let is_on_it = |sent: &mut Sent| [(one, other), (other, one)].contains(&(sent.from.0, sent.to.0));
            let gone: Vec<Sent> = self.wire.extract_if(.., is_on_it).collect();
            for sent in gone {
                if self.draw(2) == 0 {
                    self.late.push(sent);
                }
            }
            for (node, peer) in [(one, other), (other, one)] {
                self.give(node, Input::PeerDown { node: NodeId(peer) });
            }
        }
    }

    /// Those that are apart find each other again.
    fn join(&mut self) {
        for (one, other) in std::mem::take(&mut self.cut) {
            self.give(one, Input::PeerUp { node: NodeId(other) });
            self.give(other, Input::PeerUp { node: NodeId(one) });
        }
    }

    fn attach_all(&mut self) {
        for node in 1..self.nodes.len() as u16 {
            while self.nodes[usize::from(node)].card != CardState::Attached {
                self.next_card(node);
            }
        }
    }

    /// A node goes a step further on its way to its next card.
    fn next_card(&mut self, node: u16) {
        let (volume, peer) = (V, NodeId(node));
        let next = match self.nodes[usize::from(node)].card {
            CardState::Attached => {
                self.give(node, Input::Suspended { volume });
                CardState::Suspended
            }
            CardState::Suspended => {
                self.give(0, Input::CardDetached { volume, node: peer });
                CardState::Detached
            }
            CardState::Detached => {
                self.last += 1;
                let (life, generation, access) = (1, Generation(self.last), Access::Write);
                self.give(0, Input::CardAttached { volume, node: peer, life, generation, access });
                CardState::Known(generation)
            }
            CardState::Known(generation) => {
                self.attach(node, generation);
                CardState::Attached
            }
        };
        self.nodes[usize::from(node)].card = next;
    }

    fn attach(&mut self, node: u16, generation: Generation) {
        self.tell(|| format!("n{node} is attached as {generation:?}"));
        self.give(node, Input::Attached { volume: V, generation, access: Access::Write });
        self.give(node, Input::Lease { volume: V, until: Instant::NEVER });
    }

    fn give(&mut self, node: u16, input: Input) {
        self.step += 1;
        self.nodes[usize::from(node)].shard.handle(self.now, input);
        while let Some(output) = self.nodes[usize::from(node)].shard.poll() {
            self.output(node, output);
        }
        self.nodes[usize::from(node)].shard.check();
    }

    fn output(&mut self, at: u16, output: Output) {
        let node = &mut self.nodes[usize::from(at)];
        match output {
            Output::Send { to, message, payload } => {
                let bytes = match payload {
                    Payload::None => None,
                    Payload::Slot(slot) => Some(node.slots[slot.0 as usize].clone()),
                    Payload::Buffer(buffer) => Some(node.buffers[&buffer].clone()),
                };
                if let Payload::Slot(slot) = payload {
                    node.shard.unpin(slot);
                }
                if let (Body::Command { request, .. }, Some(bytes)) = (&message.body, &bytes) {
                    self.sent.insert((NodeId(at), *request), bytes[0]);
                }
                if !self.cut.iter().any(|&(a, b)| [(a, b), (b, a)].contains(&(at, to.0))) {
                    self.wire.push(Sent { from: NodeId(at), to, message, bytes });
                }
            }
            Output::Disk { op, work, .. } => self.disk.push((op, work, false)),
            Output::Ready { token, block, slot, .. } => {
                let bytes = node.slots[slot.0 as usize].clone();
                node.shard.unpin(slot);
                self.tell(|| format!("n{at} has read {} ({}): {bytes:?}", block.index, token.0));
                self.has_read(token, block.index, &bytes);
            }
            Output::Failed { token, .. } => _ = self.reads.remove(&token.0),
            Output::Done { token, result, .. } => {
                self.tell(|| format!("n{at} has written {}: {result:?}", token.0));
                self.has_written(token, result);
            }
            Output::Patch { slot, slot_offset, length, from } => {
                for part in 0..length / PART {
                    let value = match from {
                        Patch::Buffer { buffer, offset } => {
                            node.buffers[&buffer][(offset / PART + part) as usize]
                        }
                        Patch::Zero => 0,
                    };
                    node.slots[slot.0 as usize][(slot_offset / PART + part) as usize] = value;
                }
            }
            Output::Release { buffer } => _ = node.buffers.remove(&buffer),
            Output::SyncFailed { .. }
            | Output::Unseal { .. }
            | Output::Silent { .. }
            | Output::Withdraw { .. } => {}
        }
    }

    /// The disk held each part at some time since the read was asked for.
    fn has_read(&mut self, token: Token, block: u32, bytes: &[u64]) {
        let Some(begun) = self.reads.remove(&token.0) else {
            return self.fail(format!("read {} is answered again", token.0));
        };
        for (part, value) in (block * 2..).zip(bytes) {
            let held = &self.held[part as usize];
            let until = |at: usize| held.get(at + 1).map_or(u32::MAX, |&(step, _)| step);
            let is_current = |at: usize| held[at].1 == *value && until(at) > begun;
            if !(0..held.len()).any(is_current) {
                let text = format!("read {} of part {part} since {begun} has {value} of {held:?}", token.0);
                self.fail(text);
            }
        }
    }

    fn has_written(&mut self, token: Token, result: Result<(), IoError>) {
        let Some(write) = self.writes.get_mut(&token.0).filter(|write| write.done.is_none()) else {
            return self.fail(format!("write {} is answered again", token.0));
        };
        write.done = Some(self.step);
        let (parts, begun) = (write.parts.clone(), write.begun);
        let is_done = |part: u32| {
            self.held[part as usize].iter().any(|&(step, value)| value == token.0 && step >= begun)
        };
        match result {
            Ok(()) if parts.clone().all(is_done) => {}
            Err(IoError::NoAnswer) => {}
            _ => self.fail(format!("write {} to {parts:?} ended with {result:?}", token.0)),
        }
    }

    /// No faults any more: all that was asked is answered, nothing is left of it, and every node reads what the disk has.
    fn calm(&mut self) {
        self.tell(|| "calm".to_string());
        self.late.clear();
        self.cut.clear();
        let nodes = self.nodes.len() as u16;
        self.attach_all();
        self.join();
        self.settle();
        for (node, block) in (0..nodes).flat_map(|node| (0..BLOCKS).map(move |block| (node, block))) {
            self.last += 1;
            self.reads.insert(self.last, self.step + 1);
            self.give(node, Input::Read { token: Token(self.last), block: BlockId::new(V, block) });
        }
        self.settle();
        let pending = self.writes.values().filter(|write| write.done.is_none()).count() + self.reads.len();
        if pending > 0 {
            self.fail(format!("{pending} questions have no answer"));
        }
        for at in 0..nodes {
            let node = &self.nodes[usize::from(at)];
            let (left, buffers) = (node.shard.table_entries(), node.buffers.len());
            if (left, buffers) != (0, 0) || !node.shard.is_quiet() {
                self.fail(format!("n{at} has {left} entries and {buffers} buffers left"));
            }
        }
    }

    fn settle(&mut self) {
        let end = self.now + CALM;
        while self.now < end && self.wrong.is_none() {
            while !self.wire.is_empty() || !self.disk.is_empty() {
                if !self.wire.is_empty() {
                    let sent = self.wire.remove(0);
                    self.arrive(sent, false);
                }
                self.work();
            }
            if self.nodes.iter().all(|node| node.shard.is_quiet()) {
                return;
            }
            self.now = self.now + Duration::from_millis(100);
            self.wake();
        }
    }
}
