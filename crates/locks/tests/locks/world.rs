//! Homes, sessions and a coordinator in one simulated world, with observers.
//!
//! What is injected is what the service claims to survive: messages lost, repeated, delayed and overtaken;
//! nodes cut off, paused for longer than a lease, killed and started anew; clocks that differ by any amount
//! and run up to a third faster than others. Members are found dead by the coordinator, which is taken to
//! work. A session whose node is killed goes on believing what it was told until its lease is over.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::rendezvous::{Members, RegionId};
use cards_core::{Duration, Instant, NodeId, PgId, PlacementKind, mix};
use cards_locks::{
    ClientConfig, ClientInput, ClientOutput, Fence, HomeConfig, HomeInput, HomeLimits, HomeOutput, LockBody,
    LockClient, LockError, LockHome, LockMessage, LockRange, Locked, Mode, Part, SessionId, TableLimits,
    Wait, Want,
};

pub(crate) const LEASE: Duration = Duration::from_millis(3_000);
const MEMBERSHIP: Duration = Duration::from_millis(900);
const RESEND: Duration = Duration::from_millis(100);
pub(crate) const REGION: u64 = 16;
pub(crate) const TICK_MS: u64 = 10;
pub(crate) const V: PgId = PgId::plain(NodeId(0), 0);
pub(crate) const W: PgId = PgId::plain(NodeId(1), 0);

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(mix(self.0)) % bound
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

pub(crate) struct Node {
    pub(crate) home: Option<LockHome>,
    pub(crate) sessions: BTreeMap<SessionId, LockClient>,
    /// Which life of it.
    life: u64,
    /// Where its clock stood at the beginning, in nanoseconds, and how fast it runs, in percent.
    pub(crate) clock: (u64, u64),
    /// It does nothing before then.
    pub(crate) paused_until_ms: u64,
    /// It is cut off before then.
    pub(crate) cut_until_ms: u64,
    /// It is started again then.
    pub(crate) starts_at_ms: u64,
}

/// What the coordinator knows.
struct Coordinator {
    epoch: u64,
    /// The lives of the members, when they were last heard of, and the epochs in which they joined.
    members: BTreeMap<NodeId, (u64, u64, u64)>,
    /// Members lost since a home said that all was settled, and the members then.
    lost: usize,
    settled: usize,
}

/// What is given to a node besides messages.
struct Word {
    life: u64,
    sent: Instant,
    members: Members,
    joined: u64,
    copied: bool,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) ms: u64,
    pub(crate) nodes: Vec<Node>,
    coordinator: Coordinator,
    /// By time of arrival, in milliseconds, and number.
    wire: BTreeMap<(u64, u64), (NodeId, NodeId, LockMessage)>,
    words: BTreeMap<(u64, u64), (NodeId, Word)>,
    posted: u64,
    pub(crate) loss_percent: u64,
    pub(crate) repeat_percent: u64,
    /// Believed by sessions of nodes that were killed: until when, by the world's clock.
    ghosts: Vec<(u64, Vec<Part>)>,
    /// The highest tokens of readers and of writers that were granted, by position.
    tokens: BTreeMap<(RegionId, u64), (Fence, Fence)>,
    pub(crate) outputs: Vec<(SessionId, ClientOutput)>,
    /// The coordinator's lease: the shorter, the more of a session's own is left when it has noticed a death.
    pub(crate) membership: Duration,
    /// A session has heard something: it may believe more than before.
    news: bool,
    pub(crate) exclusion_violations: usize,
    pub(crate) lost_groups: usize,
    pub(crate) granted_groups: usize,
    pub(crate) downgraded_groups: usize,
    pub(crate) errors: BTreeSet<&'static str>,
}

pub(crate) fn want(volume: PgId, start: u64, end: u64, mode: Mode) -> Want {
    Want { volume, locked: Locked { range: LockRange::new(start, end).unwrap(), mode } }
}

impl World {
    /// All nodes are up, and none knows of the others yet.
    pub(crate) fn new(nodes: u16, sessions: u64, seed: u64) -> Self {
        let mut random = Random(mix(seed));
        let nodes = (0..nodes).map(|_| {
            let rate = 100 + random.below(34);
            Node {
                home: None,
                sessions: BTreeMap::new(),
                life: 0,
                clock: (random.below(1 << 45), rate),
                paused_until_ms: 0,
                cut_until_ms: 0,
                starts_at_ms: 0,
            }
        });
        let nodes = nodes.collect();
        let coordinator = Coordinator { epoch: 0, members: BTreeMap::new(), lost: 0, settled: 0 };
        let mut world = Self {
            random,
            ms: 0,
            nodes,
            coordinator,
            wire: BTreeMap::new(),
            words: BTreeMap::new(),
            posted: 0,
            loss_percent: 0,
            repeat_percent: 0,
            ghosts: Vec::new(),
            tokens: BTreeMap::new(),
            outputs: Vec::new(),
            membership: MEMBERSHIP,
            news: false,
            exclusion_violations: 0,
            lost_groups: 0,
            granted_groups: 0,
            downgraded_groups: 0,
            errors: BTreeSet::new(),
        };
        for node in 0..world.nodes.len() {
            world.start(node, sessions);
        }
        world
    }

    pub(crate) fn local(&self, node: usize) -> Instant {
        let (origin, rate) = self.nodes[node].clock;
        Instant(origin + self.ms * 10_000 * rate)
    }

    pub(crate) fn start(&mut self, node: usize, sessions: u64) {
        let now = self.local(node);
        let table = TableLimits { records: 64, ranges: 8 };
        let limits = HomeLimits { sessions: 64, parts: 256, copies: 4_096, table };
        let id = NodeId(node as u16);
        let config = HomeConfig { node: id, lease: LEASE, resend: RESEND, region_size: REGION, limits };
        let this = &mut self.nodes[node];
        this.life += 1;
        this.starts_at_ms = 0;
        this.home = Some(LockHome::new(config, now));
        for number in 0..sessions {
            let session = SessionId { node: id, number: this.life << 8 | number };
            let config = ClientConfig {
                session,
                lease: LEASE,
                resend: RESEND,
                region_size: REGION,
                groups: 8,
                parts: 16,
            };
            this.sessions.insert(session, LockClient::new(config, now));
        }
    }

    /// Kills a node: the users of its sessions believe what they were told until it is over.
    pub(crate) fn kill(&mut self, node: usize, starts_at_ms: u64) {
        let now = self.local(node);
        let rate = self.nodes[node].clock.1;
        for (_, client) in std::mem::take(&mut self.nodes[node].sessions) {
            for (_, grant) in client.grants(now) {
                let left_ms = grant.until.since(now).as_nanos() as u64 / (10_000 * rate);
                self.ghosts.push((self.ms + left_ms, grant.parts));
            }
        }
        self.nodes[node].home = None;
        self.nodes[node].starts_at_ms = starts_at_ms;
    }

    pub(crate) fn acquire(&mut self, session: SessionId, group: u64, wants: Vec<Want>, wait: Wait) {
        self.give_session(session, ClientInput::Acquire { group, wants, wait });
    }

    pub(crate) fn downgrade(&mut self, session: SessionId, group: u64) {
        self.give_session(session, ClientInput::Downgrade { group });
    }

    pub(crate) fn release(&mut self, session: SessionId, group: u64) {
        self.give_session(session, ClientInput::Release { group });
    }

    /// One tick: what is due arrives and is done.
    pub(crate) fn tick(&mut self) {
        self.ms += TICK_MS;
        self.coordinate();
        while let Some(entry) = self.words.first_entry().filter(|entry| entry.key().0 <= self.ms) {
            let (to, word) = entry.remove();
            self.give_word(to, word);
        }
        // What arrives at a node that is paused arrives when it goes on.
        let due: Vec<_> = self.wire.range(..=(self.ms, u64::MAX)).map(|(&at, _)| at).collect();
        for at in due {
            let (from, to, message) = self.wire.remove(&at).unwrap();
            if self.is_paused(usize::from(to.0)) {
                self.wire.insert((self.nodes[usize::from(to.0)].paused_until_ms, at.1), (from, to, message));
            } else {
                self.deliver(from, to, message);
            }
        }
        for node in 0..self.nodes.len() {
            if !self.is_paused(node) {
                self.wake(node);
            }
        }
        if std::mem::take(&mut self.news) {
            self.observe();
        }
    }

    pub(crate) fn run_ms(&mut self, ms: u64) {
        (0..ms / TICK_MS).for_each(|_| self.tick());
    }

    /// All live sessions.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.nodes.iter().flat_map(|node| node.sessions.keys().copied()).collect()
    }

    pub(crate) fn client(&self, session: SessionId) -> &LockClient {
        &self.nodes[usize::from(session.node.0)].sessions[&session]
    }

    /// What a session may rely on, by its own clock.
    pub(crate) fn granted(&self, session: SessionId, group: u64) -> Option<Vec<Part>> {
        let now = self.local(usize::from(session.node.0));
        self.client(session).grant(now, group).map(|grant| grant.parts)
    }

    pub(crate) fn members(&self) -> Members {
        let members = self.coordinator.members.keys().copied().collect();
        Members::new(self.coordinator.epoch, members, PlacementKind::Rendezvous)
    }

    pub(crate) fn is_settled(&self) -> bool {
        let homes = || self.nodes.iter().filter_map(|node| node.home.as_ref());
        self.coordinator.lost == 0
            && homes().count() == self.coordinator.members.len()
            && homes().all(LockHome::is_serving)
    }

    fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].paused_until_ms > self.ms
    }

    fn is_cut(&self, node: usize) -> bool {
        self.nodes[node].cut_until_ms > self.ms
    }

    /// Members say that they live, every third of a membership; the coordinator gives up those that do not.
    fn coordinate(&mut self) {
        // Its clock runs a third faster than the slowest.
        let patience = (self.membership + self.membership / 2).as_millis() as u64 * 3 / 4;
        let dead = self.coordinator.members.iter();
        let dead: Vec<NodeId> =
            dead.filter(|(_, (_, heard, _))| heard + patience < self.ms).map(|(&n, _)| n).collect();
        self.lose(&dead);
        if self.ms % (self.membership.as_millis() as u64 / 3) >= TICK_MS {
            return;
        }
        for node in 0..self.nodes.len() {
            let id = NodeId(node as u16);
            let lost = self.random.percent(self.loss_percent);
            if self.nodes[node].home.is_none() || self.is_paused(node) || self.is_cut(node) || lost {
                continue;
            }
            let life = self.nodes[node].life;
            match self.coordinator.members.get_mut(&id) {
                Some((known, heard, _)) if *known == life => *heard = self.ms,
                known => {
                    // An earlier life of it is over.
                    self.coordinator.lost += usize::from(known.is_some());
                    self.coordinator.epoch += 1;
                    let joined = self.coordinator.epoch;
                    self.coordinator.members.insert(id, (life, self.ms, joined));
                }
            }
            let joined = self.coordinator.members[&id].2;
            let (sent, members) = (self.local(node), self.members());
            let Coordinator { lost, settled, .. } = self.coordinator;
            // Who has just come does not know what was lost before, unless nobody has ever gone.
            let epoch = self.coordinator.epoch;
            let knows = joined < epoch || epoch == self.coordinator.members.len() as u64;
            let copied = knows && (lost == 0 || (lost == 1 && settled > 1));
            let at = self.ms + self.random.below(60);
            self.posted += 1;
            self.words.insert((at, self.posted), (id, Word { life, sent, members, joined, copied }));
        }
    }

    fn lose(&mut self, dead: &[NodeId]) {
        for node in dead {
            self.coordinator.members.remove(node);
            self.coordinator.lost += 1;
            self.coordinator.epoch += 1;
        }
    }

    fn give_word(&mut self, to: NodeId, word: Word) {
        let node = usize::from(to.0);
        if self.nodes[node].life != word.life || self.is_paused(node) || self.is_cut(node) {
            return;
        }
        self.give_home(node, HomeInput::Member { until: word.sent + self.membership });
        let Word { members, joined, copied, .. } = word;
        self.give_home(node, HomeInput::View { members: members.clone(), joined, copied });
        let sessions: Vec<SessionId> = self.nodes[node].sessions.keys().copied().collect();
        for session in sessions {
            self.give_session(session, ClientInput::View { members: members.clone() });
        }
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, message: LockMessage) {
        let session = match &message.body {
            LockBody::Granted { key, .. }
            | LockBody::Refused { key, .. }
            | LockBody::Released { key, .. } => Some(key.session),
            LockBody::Renewed { session, .. } => Some(*session),
            _ => None,
        };
        match session {
            Some(session) => {
                self.news = true;
                self.give_session(session, ClientInput::Message { from, message });
            }
            None => self.give_home(usize::from(to.0), HomeInput::Message { from, message }),
        }
    }

    fn wake(&mut self, node: usize) {
        let now = self.local(node);
        if self.nodes[node].home.as_ref().and_then(LockHome::next_timeout).is_some_and(|(at, _)| at <= now) {
            self.give_home(node, HomeInput::Timeout);
        }
        let due =
            self.nodes[node].sessions.iter().filter(|(_, c)| c.next_timeout().is_some_and(|at| at <= now));
        let due: Vec<SessionId> = due.map(|(&session, _)| session).collect();
        due.into_iter().for_each(|session| self.give_session(session, ClientInput::Timeout));
    }

    fn give_home(&mut self, node: usize, input: HomeInput) {
        let now = self.local(node);
        let Some(home) = &mut self.nodes[node].home else { return };
        home.handle(now, input);
        let outputs: Vec<_> = std::iter::from_fn(|| home.poll()).collect();
        for output in outputs {
            match output {
                HomeOutput::Send { to, message } => self.post(NodeId(node as u16), to, message),
                HomeOutput::Settled { epoch } if epoch == self.coordinator.epoch => {
                    self.coordinator.lost = 0;
                    self.coordinator.settled = self.coordinator.members.len();
                }
                HomeOutput::Settled { .. } => {}
            }
        }
    }

    fn give_session(&mut self, session: SessionId, input: ClientInput) {
        let node = usize::from(session.node.0);
        let now = self.local(node);
        let Some(client) = self.nodes[node].sessions.get_mut(&session) else { return };
        client.handle(now, input);
        let outputs: Vec<_> = std::iter::from_fn(|| client.poll()).collect();
        for output in outputs {
            match output {
                ClientOutput::Send { to, message } => self.post(session.node, to, message),
                output => self.heard(session, output),
            }
        }
    }

    fn heard(&mut self, session: SessionId, output: ClientOutput) {
        match &output {
            ClientOutput::Granted { group } => {
                self.granted_groups += 1;
                let parts = self.granted(session, *group).expect("granted and lost at once");
                parts.iter().for_each(|part| self.check_token(part));
            }
            ClientOutput::Downgraded { .. } => self.downgraded_groups += 1,
            ClientOutput::Lost { .. } => self.lost_groups += 1,
            ClientOutput::Refused { error, .. } => {
                self.errors.insert(match error {
                    LockError::TimedOut => "timed out",
                    LockError::LeaseEnded => "lease ended",
                    LockError::WouldBlock => "would block",
                    _ => "other",
                });
            }
            ClientOutput::Released { .. } | ClientOutput::Send { .. } => {}
        }
        self.outputs.push((session, output));
    }

    fn post(&mut self, from: NodeId, to: NodeId, message: LockMessage) {
        let local = from == to;
        let cut = self.is_cut(usize::from(from.0)) || self.is_cut(usize::from(to.0));
        if !local && (cut || self.random.percent(self.loss_percent)) {
            return;
        }
        let copies = if self.random.percent(self.repeat_percent) { 2 } else { 1 };
        for _ in 0..copies {
            // Now and then one is very late.
            let late = if self.repeat_percent > 0 && self.random.percent(1) { 6_000 } else { 60 };
            let at = self.ms + self.random.below(if local { 10 } else { late });
            self.posted += 1;
            self.wire.insert((at, self.posted), (from, to, message.clone()));
        }
    }

    /// A grant's token is higher than those of all that conflict with it and were granted before.
    fn check_token(&mut self, part: &Part) {
        for locked in &part.ranges {
            for position in locked.range.start()..locked.range.end() {
                let (read, written) = self.tokens.entry((part.region, position)).or_default();
                match locked.mode {
                    Mode::Read => {
                        assert!(part.token > *written, "token {:?} after {written:?}", part.token);
                        *read = part.token.max(*read);
                    }
                    Mode::Write => {
                        assert!(part.token > *written.max(read), "token {:?} after {read:?}", part.token);
                        *written = part.token;
                    }
                }
            }
        }
    }

    /// Nobody has, by his own clock, what another has by his.
    fn observe(&mut self) {
        self.ghosts.retain(|(until, _)| *until > self.ms);
        let mut held: Vec<(usize, Part)> = Vec::new();
        for (owner, (_, parts)) in self.ghosts.iter().enumerate() {
            held.extend(parts.iter().map(|part| (owner, part.clone())));
        }
        let mut owner = self.ghosts.len();
        for node in 0..self.nodes.len() {
            let now = self.local(node);
            for client in self.nodes[node].sessions.values() {
                for (_, grant) in client.grants(now) {
                    held.extend(grant.parts.into_iter().map(|part| (owner, part)));
                    owner += 1;
                }
            }
        }
        for (i, (first, a)) in held.iter().enumerate() {
            for (second, b) in &held[..i] {
                let clash = || a.ranges.iter().any(|x| b.ranges.iter().any(|y| x.conflicts(*y)));
                if first != second && a.region == b.region && clash() {
                    self.exclusion_violations += 1;
                }
            }
        }
    }
}

/// Everything that is left anywhere: sessions, parts and copies at homes, and groups at sessions.
pub(crate) fn leftovers(world: &World) -> Vec<(usize, usize, usize)> {
    let homes = world.nodes.iter().filter_map(|node| node.home.as_ref());
    let sizes: Vec<_> = homes.map(LockHome::sizes).collect();
    let clients = world.nodes.iter().flat_map(|node| node.sessions.values());
    let groups = clients.filter(|client| !client.is_quiet()).count();
    sizes.into_iter().chain(vec![(groups, 0, 0)]).filter(|sizes| *sizes != (0, 0, 0)).collect()
}
