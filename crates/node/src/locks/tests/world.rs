//! Several services, what is on its way between them, and who may believe in what.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_core::rendezvous::Members;
use cards_core::{Instant, NodeId, PgId, PlacementKind, mix};
use cards_locks::{GroupKey, HomeInput, LockError, LockRange, Locked, Mode, Part, SessionId, Wait, Want};
use cards_wire::peer::{self, HEADER_SIZE, Header, VERSION};
use tokio::sync::oneshot;

use crate::locks::{LockView, Refusal, Service, limits};

pub(super) const LEASE: Duration = Duration::from_secs(9);
pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const V: PgId = PgId(0);
const STEP_MS: u64 = 10;
const FOREVER: Duration = Duration::from_secs(1 << 30);

pub(super) type Heard = oneshot::Receiver<Result<(), LockError>>;

/// A range of a volume, to be locked.
pub(super) fn want(start: u64, length: u64, mode: Mode) -> Want {
    let range = LockRange::new(start, start + length).expect("a range");
    Want { volume: V, locked: Locked { range, mode } }
}

pub(super) struct World {
    pub(super) ms: u64,
    seed: u64,
    /// None while it is dead.
    pub(super) nodes: Vec<Option<Service>>,
    lives: Vec<u64>,
    /// The epochs in which the present lives joined.
    joined: BTreeMap<NodeId, u64>,
    pub(super) epoch: u64,
    /// Frames by time of arrival, in milliseconds, and number.
    wire: BTreeMap<(u64, u64), (NodeId, NodeId, Vec<u8>)>,
    sent: u64,
    pub(super) loss_percent: u64,
    pub(super) repeat_percent: u64,
    pub(super) delay_ms: u64,
    /// Believed by clients of nodes that are dead: until when, in milliseconds.
    ghosts: Vec<(u64, Vec<Part>)>,
}

impl World {
    /// All nodes are up and members; everything is copied.
    pub(super) fn new(nodes: usize, seed: u64) -> Self {
        let mut world = Self {
            ms: 1_000,
            seed,
            nodes: (0..nodes).map(|_| None).collect(),
            lives: vec![0; nodes],
            joined: BTreeMap::new(),
            epoch: 0,
            wire: BTreeMap::new(),
            sent: 0,
            loss_percent: 0,
            repeat_percent: 0,
            delay_ms: 2,
            ghosts: Vec::new(),
        };
        (0..nodes).for_each(|node| world.start(node));
        world.tell_view();
        // A new cluster knows nothing, so it waits for sessions of which it has not heard.
        world.run_ms(14_000);
        world
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        mix(mix(self.seed)) % bound
    }

    pub(super) fn now(&self) -> Instant {
        Instant(self.ms * 1_000_000)
    }

    /// A new life of a node, which is in no view yet.
    pub(super) fn start(&mut self, node: usize) {
        self.lives[node] += 1;
        let service = Service::new(NodeId(node as u16), self.lives[node], LEASE, self.now());
        self.nodes[node] = Some(service);
    }

    /// Kills a node; its clients believe what they were told until it is over.
    pub(super) fn kill(&mut self, node: usize) {
        let now = self.now();
        let Some(service) = self.nodes[node].take() else { return };
        for group in service.sessions(now).into_iter().flat_map(|session| session.groups) {
            if let Some((left, parts)) = group.held {
                self.ghosts.push((self.ms + left.as_millis() as u64, parts));
            }
        }
    }

    /// All that live are members, and are told so.
    pub(super) fn tell_view(&mut self) {
        self.epoch += 1;
        let lives: Vec<(NodeId, u64)> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, service)| service.is_some())
            .map(|(node, _)| (NodeId(node as u16), self.lives[node]))
            .collect();
        let nodes: Vec<NodeId> = lives.iter().map(|(node, _)| *node).collect();
        self.joined.retain(|node, _| nodes.contains(node));
        for node in &nodes {
            self.joined.entry(*node).or_insert(self.epoch);
        }
        let members = Members::new(self.epoch, nodes, PlacementKind::Rendezvous);
        for (node, _) in &lives {
            let view = LockView { members: members.clone(), joined: self.joined[node], lives: lives.clone() };
            self.with(usize::from(node.0), |service, now| {
                service.home(now, HomeInput::Member { until: now + FOREVER });
                service.view(now, view);
            });
        }
    }

    /// A node that was dead is back, in a life of its own.
    pub(super) fn come_back(&mut self, node: usize) {
        self.joined.remove(&NodeId(node as u16));
        self.start(node);
        self.tell_view();
    }

    /// Calls a service and posts what comes of it.
    pub(super) fn with<R>(&mut self, node: usize, call: impl FnOnce(&mut Service, Instant) -> R) -> R {
        let now = self.now();
        let service = self.nodes[node].as_mut().expect("the node lives");
        let result = call(service, now);
        for (to, message) in service.take_sends() {
            let mut frame = peer::encode_locks(&message).expect("a message within the limits");
            peer::seal(&mut frame, VERSION);
            self.post(NodeId(node as u16), to, frame);
        }
        result
    }

    fn post(&mut self, from: NodeId, to: NodeId, frame: Vec<u8>) {
        if self.below(100) < self.loss_percent {
            return;
        }
        let copies = 1 + u64::from(self.below(100) < self.repeat_percent);
        for _ in 0..copies {
            self.sent += 1;
            let at = self.ms + 1 + self.below(self.delay_ms);
            self.wire.insert((at, self.sent), (from, to, frame.clone()));
        }
    }

    pub(super) fn run_ms(&mut self, ms: u64) {
        let end = self.ms + ms;
        while self.ms < end {
            self.ms += STEP_MS;
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.ms) {
                let (from, to, frame) = entry.remove();
                let (header, body) = frame.split_first_chunk::<HEADER_SIZE>().expect("a whole frame");
                let Ok(Header::Body(header)) = peer::decode_header(header, VERSION) else {
                    panic!("{header:?}")
                };
                let Ok(peer::Body::Locks(message)) = header.decode(body.to_vec()) else {
                    panic!("{header:?}")
                };
                if self.nodes[usize::from(to.0)].is_some() {
                    self.with(usize::from(to.0), |service, now| service.message(now, from, message));
                }
            }
            for node in 0..self.nodes.len() {
                let due = self.nodes[node].as_ref().and_then(Service::next_timeout);
                if due.is_some_and(|at| at <= self.now()) {
                    self.with(node, |service, now| service.timeout(now));
                }
            }
            self.check_exclusion();
        }
    }

    pub(super) fn open(&mut self, node: usize) -> SessionId {
        let opened = self.with(node, |service, now| service.open(now, String::new(), TTL));
        opened.expect("a session")
    }

    pub(super) fn acquire(
        &mut self,
        session: SessionId,
        wants: Vec<Want>,
        wait: Wait,
    ) -> Result<(GroupKey, Heard), Refusal> {
        let (answer, heard) = oneshot::channel();
        let node = usize::from(session.node.0);
        let key = self.with(node, |service, now| service.acquire(now, session, wants, wait, answer))?;
        Ok((key, heard))
    }

    pub(super) fn release(&mut self, key: GroupKey) -> Result<oneshot::Receiver<()>, Refusal> {
        let (done, heard) = oneshot::channel();
        let node = usize::from(key.session.node.0);
        self.with(node, |service, now| service.release(now, key, done))?;
        Ok(heard)
    }

    /// What a group holds, as its client is told.
    pub(super) fn held(&self, key: GroupKey) -> Option<Vec<Part>> {
        let service = self.nodes[usize::from(key.session.node.0)].as_ref()?;
        service.group(self.now(), key)?.held.map(|(_, parts)| parts)
    }

    /// What all homes know of a session.
    pub(super) fn known(&self, session: SessionId) -> usize {
        self.nodes.iter().flatten().map(|service| service.by_session(session).len()).sum()
    }

    /// Keeps all sessions alive but one.
    pub(super) fn keep_alive(&mut self, but: Option<SessionId>) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_some() {
                self.with(node, |service, now| {
                    for session in service.sessions(now).iter().filter(|s| Some(s.id) != but) {
                        // One that is being closed does not live on.
                        let _ = service.keep_alive(now, session.id);
                    }
                });
            }
        }
    }

    /// No two clients may believe in locks that conflict.
    fn check_exclusion(&mut self) {
        self.ghosts.retain(|(until, _)| *until > self.ms);
        let now = self.now();
        let live = self.nodes.iter().flatten().flat_map(|service| service.sessions(now));
        let groups = live.flat_map(|session| session.groups).filter_map(|group| Some(group.held?.1));
        let believed: Vec<Vec<Part>> =
            groups.chain(self.ghosts.iter().map(|(_, parts)| parts.clone())).collect();
        for (index, one) in believed.iter().enumerate() {
            for other in &believed[index + 1..] {
                let both = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
                for (a, b) in both.filter(|(a, b)| a.region == b.region && a.key != b.key) {
                    let clash = a.ranges.iter().any(|x| b.ranges.iter().any(|y| x.conflicts(*y)));
                    assert!(!clash, "at {} ms both {a:?} and {b:?} are believed in", self.ms);
                }
            }
        }
    }
}

/// The first bytes of regions whose home is `home`, in ascending order.
pub(super) fn starts_at(world: &World, home: usize) -> impl Iterator<Item = u64> + use<> {
    let members = world.nodes.iter().flatten().next().and_then(|service| service.members().cloned());
    let members = members.expect("a view");
    let of_home = move |&index: &u32| {
        members.home(cards_core::rendezvous::RegionId { volume: V, index }) == Some(NodeId(home as u16))
    };
    (0..).filter(of_home).map(|index| u64::from(index) * limits::REGION_BYTES)
}
