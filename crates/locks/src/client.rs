//! A session of the lock service: acquires groups of locks, keeps them alive, and says what it still has.
//!
//! The parts of a group are acquired one after the other, in the order of their regions. Whoever waits holds
//! only regions before the one it waits for, so no circle of waiting can close. A group is all or nothing: it
//! is granted when its last part is, and when a part is refused or lost all the others are given up.
//!
//! A session that waits for one group while it holds another can still be part of a circle, as with any lock
//! manager: take all in one group, or wait for a limited time.

mod acquire;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use cards_core::rendezvous::{Members, RegionId};
use cards_core::{Duration, Instant, NodeId, PgId, PlacementKind};

use super::error::LockError;
use super::fence::Fence;
use super::message::{Beat, GroupKey, LockBody, LockMessage, Part, SessionId};
use super::range::Locked;

/// What a [`LockClient`] is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct ClientConfig {
    /// The session.
    pub session: SessionId,
    /// The homes' lease: after that time they need not be told any more that a group was given up.
    pub lease: Duration,
    /// When an unanswered message is repeated.
    pub resend: Duration,
    /// As in [`super::HomeConfig::region_size`].
    pub region_size: u64,
    /// Groups at one time.
    pub groups: usize,
    /// Parts of one group: ranges, counted once for each region they touch.
    pub parts: usize,
}

/// What to do about a conflict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Refuse.
    Try,
    /// Wait until then.
    Until(Instant),
    /// Wait.
    Forever,
}

/// A range of a volume that a group is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The volume.
    pub volume: PgId,
    /// What of it, and how.
    pub locked: Locked,
}

/// Everything that can happen to a [`LockClient`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientInput {
    /// The members have changed.
    View {
        /// The members.
        members: Members,
    },
    /// A message has arrived.
    Message {
        /// The sender.
        from: NodeId,
        /// The message.
        message: LockMessage,
    },
    /// Acquire a group.
    Acquire {
        /// Its number: higher than that of all earlier ones.
        group: u64,
        /// What it is to have.
        wants: Vec<Want>,
        /// What to do about conflicts.
        wait: Wait,
    },
    /// Only read from now on what a group that is granted writes.
    Downgrade {
        /// The group.
        group: u64,
    },
    /// Give a group up, granted or not.
    Release {
        /// The group.
        group: u64,
    },
    /// The time of [`LockClient::next_timeout`] has come.
    Timeout,
}

/// Everything a [`LockClient`] can want done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientOutput {
    /// Send a message to the home at a node.
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        message: LockMessage,
    },
    /// The group is granted.
    Granted {
        /// The group.
        group: u64,
    },
    /// The group is not granted.
    Refused {
        /// The group.
        group: u64,
        /// Why.
        error: LockError,
    },
    /// The homes have heard that the group only reads: other readers may have what it has.
    Downgraded {
        /// The group.
        group: u64,
    },
    /// The homes have heard that the group is given up, or will find out.
    Released {
        /// The group.
        group: u64,
    },
    /// The group was granted and is lost.
    Lost {
        /// The group.
        group: u64,
    },
}

/// What a group holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// It may be relied on before then, by the session's clock, if it is not lengthened.
    pub until: Instant,
    /// Its parts, each with the token to show to storage.
    pub parts: Vec<Part>,
}

/// See the module's head.
pub struct LockClient {
    config: ClientConfig,
    now: Instant,
    members: Members,
    groups: BTreeMap<u64, Group>,
    last_group: Option<u64>,
    last_sequence: u64,
    /// When the lease may be renewed again, if an answer is missing.
    renew_again_at: Instant,
    outputs: VecDeque<ClientOutput>,
}

struct Group {
    /// By region.
    parts: Vec<Piece>,
    stage: Stage,
    /// When to say again what was not answered.
    resend_at: Instant,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Waits for the part of this position; has all before.
    Acquiring { next: usize, until: Instant, try_only: bool },
    /// Has all parts.
    Held,
    /// Gives up all parts; forgets the group then, and tells if that was asked for.
    Releasing { until: Instant, tell: bool },
}

/// A part of a group.
struct Piece {
    region: RegionId,
    ranges: Vec<Locked>,
    /// The home may know of it.
    asked: bool,
    token: Option<Fence>,
    /// Once it has a token, it is good before then.
    until: Instant,
    /// Once it is asked for, its home is to be told then what the session has there.
    renew_at: Instant,
    /// It was downgraded after the message of this number, and the home has not confirmed it since.
    downgraded: Option<u64>,
}

impl LockClient {
    /// A session that begins now.
    #[must_use]
    pub fn new(config: ClientConfig, now: Instant) -> Self {
        Self {
            config,
            now,
            members: Members::new(0, Vec::new(), PlacementKind::Rendezvous),
            groups: BTreeMap::new(),
            last_group: None,
            last_sequence: 0,
            renew_again_at: now,
            outputs: VecDeque::new(),
        }
    }

    /// What a group holds: none if it is not granted, or if the lease of any part is over.
    #[must_use]
    pub fn grant(&self, now: Instant, group: u64) -> Option<Grant> {
        let held = self.groups.get(&group).filter(|group| group.stage == Stage::Held)?;
        let until = held.until();
        let session = self.config.session;
        let parts = held.parts.iter().filter_map(|piece| piece.part(GroupKey { session, group }));
        (now < until).then(|| Grant { until, parts: parts.collect() })
    }

    /// All groups that are granted, by number.
    pub fn grants(&self, now: Instant) -> impl Iterator<Item = (u64, Grant)> {
        self.groups.keys().filter_map(move |&group| Some((group, self.grant(now, group)?)))
    }

    /// No group is held, waits or is being given up.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes one input. Drain the outputs before the next.
    pub fn handle(&mut self, now: Instant, input: ClientInput) {
        self.now = now;
        // First what is over, whatever has arrived meanwhile.
        self.timeout();
        match input {
            ClientInput::View { members } => self.view(members),
            ClientInput::Message { from, message } => self.message(from, message),
            ClientInput::Acquire { group, wants, wait } => self.acquire(group, &wants, wait),
            ClientInput::Downgrade { group } => self.downgrade(group),
            ClientInput::Release { group } => self.release(group),
            ClientInput::Timeout => {}
        }
    }

    /// The next output, until there is none.
    pub fn poll(&mut self) -> Option<ClientOutput> {
        self.outputs.pop_front()
    }

    /// When to come back with [`ClientInput::Timeout`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.groups.values().map(Group::next_timeout).chain(self.renew_at()).min()
    }

    fn renew_at(&self) -> Option<Instant> {
        let live = self.groups.values().filter(|group| group.is_live());
        let asked = live.flat_map(|group| &group.parts).filter(|piece| piece.asked);
        let due = |piece: &Piece| if piece.downgraded.is_some() { self.now } else { piece.renew_at };
        Some(asked.map(due).min()?.max(self.renew_again_at))
    }

    fn timeout(&mut self) {
        let now = self.now;
        let due: Vec<u64> =
            self.groups.iter().filter(|(_, g)| g.next_timeout() <= now).map(|(&group, _)| group).collect();
        for id in due {
            let Some(group) = self.groups.get_mut(&id) else { continue };
            match group.stage {
                Stage::Releasing { until, .. } if until <= now => self.forget(id),
                Stage::Acquiring { .. } | Stage::Held if group.until() <= now => {
                    self.give_up(id, LockError::LeaseEnded);
                }
                Stage::Acquiring { until, .. } if until <= now => self.give_up(id, LockError::TimedOut),
                Stage::Acquiring { .. } | Stage::Held | Stage::Releasing { .. } => self.send_group(id),
            }
        }
        if self.renew_at().is_some_and(|at| at <= now) {
            self.send_renew();
        }
    }

    fn view(&mut self, members: Members) {
        if members.epoch() <= self.members.epoch() {
            return;
        }
        self.members = members;
        // What was not answered in the old view will not be.
        let groups: Vec<u64> = self.groups.keys().copied().collect();
        groups.into_iter().for_each(|group| self.send_group(group));
        self.send_renew();
    }

    fn message(&mut self, from: NodeId, message: LockMessage) {
        if message.epoch != self.members.epoch() {
            return;
        }
        let from_home = |region| self.members.home(region) == Some(from);
        match message.body {
            LockBody::Granted { region, key, token, beat, lease }
                if key.session == self.config.session && from_home(region) =>
            {
                self.granted(key.group, region, token, beat.sent, lease);
            }
            LockBody::Refused { region, key, error }
                if key.session == self.config.session && from_home(region) =>
            {
                self.refused(key.group, region, error);
            }
            LockBody::Released { region, key } if key.session == self.config.session && from_home(region) => {
                self.released(key.group, region);
            }
            LockBody::Renewed { session, beat, lease, confirmed, lost } if session == self.config.session => {
                for (region, group) in confirmed {
                    self.confirmed(from, group, region, beat, lease);
                }
                for (region, group) in lost {
                    self.lost(from, group, region);
                }
            }
            // What is said to homes, or to another session.
            _ => {}
        }
    }

    fn confirmed(&mut self, from: NodeId, id: u64, region: RegionId, beat: Beat, lease: Duration) {
        if self.members.home(region) != Some(from) {
            return;
        }
        let Some(group) = self.groups.get_mut(&id) else { return };
        let Some(piece) = group.piece(region) else { return };
        piece.renew(beat.sent, lease);
        if piece.downgraded.is_some_and(|after| beat.sequence > after) {
            piece.downgraded = None;
            if group.is_known() {
                self.outputs.push_back(ClientOutput::Downgraded { group: id });
            }
        }
    }

    fn lost(&mut self, from: NodeId, id: u64, region: RegionId) {
        let held = self.groups.get_mut(&id).and_then(|group| group.piece(region));
        if self.members.home(region) == Some(from) && held.is_some_and(|piece| piece.token.is_some()) {
            self.give_up(id, LockError::LeaseEnded);
        }
    }

    /// Says to each home what the session has there. Also where it only waits: what it gave up, and the home has not
    /// heard of, may be what it waits for.
    fn send_renew(&mut self) {
        self.renew_again_at = self.now + self.config.resend;
        let held = self.held();
        let mut wanted: Vec<(RegionId, u64)> = Vec::new();
        for (&id, group) in &mut self.groups {
            if let Stage::Acquiring { next, .. } = group.stage
                && let Some(piece) = group.parts.get_mut(next)
            {
                wanted.push((piece.region, id));
                piece.renew_at = self.now + self.config.lease / 3;
            }
        }
        let regions = held.iter().map(|part| part.region).chain(wanted.iter().map(|(region, _)| *region));
        let homes: BTreeSet<NodeId> = regions.filter_map(|region| self.members.home(region)).collect();
        let session = self.config.session;
        for home in homes {
            let at_home = |region| self.members.home(region) == Some(home);
            let held = held.iter().filter(|part| at_home(part.region)).cloned().collect();
            let wanted = wanted.iter().copied().filter(|&(region, _)| at_home(region)).collect();
            let beat = self.next_beat();
            self.push_send(home, LockBody::Renew { session, beat, held, wanted });
        }
    }

    /// All parts that are held, of groups that are not being given up.
    fn held(&self) -> Vec<Part> {
        let session = self.config.session;
        let live = self.groups.iter().filter(|(_, group)| group.is_live());
        live.flat_map(|(&group, g)| g.parts.iter().filter_map(move |p| p.part(GroupKey { session, group })))
            .collect()
    }

    fn next_beat(&mut self) -> Beat {
        self.last_sequence += 1;
        Beat { sequence: self.last_sequence, sent: self.now }
    }

    fn push_send(&mut self, to: NodeId, body: LockBody) {
        let message = LockMessage { epoch: self.members.epoch(), body };
        self.outputs.push_back(ClientOutput::Send { to, message });
    }
}

impl Group {
    fn piece(&mut self, region: RegionId) -> Option<&mut Piece> {
        self.parts.iter_mut().find(|piece| piece.region == region)
    }

    /// The homes know that it has been downgraded, if it has.
    fn is_known(&self) -> bool {
        self.parts.iter().all(|piece| piece.downgraded.is_none())
    }

    fn is_live(&self) -> bool {
        !matches!(self.stage, Stage::Releasing { .. })
    }

    /// When the lease of any part ends that it has.
    fn until(&self) -> Instant {
        let held = self.parts.iter().filter(|piece| piece.token.is_some());
        held.map(|piece| piece.until).min().unwrap_or(Instant::NEVER)
    }

    fn next_timeout(&self) -> Instant {
        match self.stage {
            Stage::Acquiring { until, .. } => self.until().min(until).min(self.resend_at),
            Stage::Held => self.until(),
            Stage::Releasing { until, .. } => until.min(self.resend_at),
        }
    }
}

impl Piece {
    fn renew(&mut self, sent: Instant, lease: Duration) {
        self.until = self.until.max(sent + lease);
        self.renew_at = self.renew_at.max(sent + lease / 3);
    }

    fn part(&self, key: GroupKey) -> Option<Part> {
        let token = self.token?;
        Some(Part { region: self.region, key, ranges: self.ranges.clone(), token })
    }
}
