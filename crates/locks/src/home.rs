//! The home of regions: grants their locks, keeps sessions alive, and copies what it grants.
//!
//! In each view a home goes through three phases. It *collects*: asks every member what it knows of the
//! regions that are now its own. If more members were lost since everything was last copied than there were
//! copies, it then leaves the sessions *grace*, a term in which they say what they hold. Then it *serves*. A region that was
//! its own before, and that it served, it goes on serving throughout.
//!
//! What is granted is answered when the region's successor has copied it. So a home that the others have left
//! behind grants nothing more: whoever would copy for it is in a later view and does not.

mod copies;
mod query;
mod replicate;
mod serve;
mod takeover;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use cards_core::rendezvous::{Members, RegionId};
use cards_core::{Duration, Instant, NodeId, PlacementKind};

use super::fence::Fence;
use super::message::{Beat, Evidence, GroupKey, LockBody, LockMessage, Part, SessionId};
use super::table::{RangeLocks, RecordState, TableLimits};
use crate::mistakes::{Mistake, makes};

use copies::Copies;
pub use query::{Holding, HoldingState};
use replicate::Stream;

/// What a [`LockHome`] is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct HomeConfig {
    /// This node.
    pub node: NodeId,
    /// How long a session believes in what it holds without a word from the home. The home waits half as long
    /// again, which is enough while no clock runs more than a third faster than another.
    pub lease: Duration,
    /// When an unanswered message to a member is repeated.
    pub resend: Duration,
    /// Positions (bytes or blocks) of a region; the same at all nodes and sessions. At least one.
    pub region_size: u64,
    /// What bounds its memory.
    pub limits: HomeLimits,
}

/// What bounds the memory of a [`LockHome`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HomeLimits {
    /// Sessions.
    pub sessions: usize,
    /// Parts of groups in all regions, held and waiting.
    pub parts: usize,
    /// Parts of which it keeps copies for other homes. Beyond that it copies nothing, and they do not grant.
    pub copies: usize,
    /// The table of one region.
    pub table: TableLimits,
}

/// Everything that can happen to a [`LockHome`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HomeInput {
    /// The members have changed.
    View {
        /// The members.
        members: Members,
        /// The epoch of the first view with this life of this node: what it knows from before counts no more.
        joined: u64,
        /// No record can be lost: since the last view in which any home said [`HomeOutput::Settled`] no member
        /// (life of a node) has gone, or one has and that view had at least two.
        copied: bool,
    },
    /// This node is a member until then, by its own clock: after that it answers nothing.
    Member {
        /// The end of its membership if that is not renewed.
        until: Instant,
    },
    /// A message has arrived.
    Message {
        /// The sender.
        from: NodeId,
        /// The message.
        message: LockMessage,
    },
    /// The time of [`LockHome::next_timeout`] has come.
    Timeout,
}

/// Everything a [`LockHome`] can want done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HomeOutput {
    /// Send a message to the home at a node, or to the session there that the message names.
    Send {
        /// To whom.
        to: NodeId,
        /// The message.
        message: LockMessage,
    },
    /// Every record is at two nodes (or at the only one) in the view of this epoch: those lost before do not
    /// count any more.
    Settled {
        /// The epoch.
        epoch: u64,
    },
}

/// Why a [`LockHome`] wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HomeTimer {
    /// When a session has not been renewed for too long.
    Session(SessionId),
    /// When to ask members again that have not said what they know.
    Collect,
    /// When no session can hold anything that it has not named.
    Grace,
    /// When to send a member again what it has not copied.
    Replicate(NodeId),
}

/// See the module's head.
pub struct LockHome {
    config: HomeConfig,
    now: Instant,
    members: Members,
    member_until: Instant,
    /// See [`HomeInput::View`].
    copied: bool,
    phase: Phase,
    tables: BTreeMap<RegionId, Table>,
    sessions: BTreeMap<SessionId, Session>,
    /// Parts of all tables.
    parts: usize,
    /// What is on its way to each other member's copies.
    streams: BTreeMap<NodeId, Stream>,
    /// All members have what this home began to serve the view with.
    complete: bool,
    copies: Copies,
    settled: bool,
    /// Grants in this view.
    grants: u64,
    outputs: VecDeque<HomeOutput>,
}

enum Phase {
    /// Not a member of any view.
    Out,
    /// See the module's head.
    Collecting { unheard: BTreeSet<NodeId>, evidence: Vec<(NodeId, Evidence)>, resend_at: Instant },
    /// See the module's head.
    Grace { until: Instant },
    /// See the module's head.
    Serving,
}

/// The locks of one region.
struct Table {
    /// This home has served the region since it became its home.
    ready: bool,
    locks: RangeLocks<GroupKey>,
    grants: BTreeMap<GroupKey, Granting>,
}

/// A part that is held.
#[derive(Clone, Copy)]
struct Granting {
    token: Fence,
    /// It is copied, so the session may know.
    copied: bool,
}

struct Session {
    expires: Instant,
    beat: Beat,
    /// Its parts, by region and group, and the number of the message that asked for each.
    parts: BTreeMap<(RegionId, u64), u64>,
}

impl LockHome {
    /// The home at a node that starts now and is no member yet.
    #[must_use]
    pub fn new(config: HomeConfig, now: Instant) -> Self {
        Self {
            config,
            now,
            members: Members::new(0, Vec::new(), PlacementKind::Rendezvous),
            member_until: Instant(0),
            copied: false,
            phase: Phase::Out,
            tables: BTreeMap::new(),
            sessions: BTreeMap::new(),
            parts: 0,
            streams: BTreeMap::new(),
            complete: false,
            copies: Copies::new(config.limits.copies),
            settled: false,
            grants: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain the outputs before the next.
    pub fn handle(&mut self, now: Instant, input: HomeInput) {
        self.now = now;
        match input {
            HomeInput::Member { until } => self.member_until = until,
            HomeInput::View { members, joined, copied } => self.view(members, joined, copied),
            HomeInput::Message { .. } | HomeInput::Timeout if !self.is_member() => return,
            HomeInput::Message { from, message } => {
                // A message may have waited longer than what is due.
                self.timeout();
                self.message(from, message);
            }
            HomeInput::Timeout => {}
        }
        if self.is_member() {
            self.timeout();
        }
    }

    /// The next output, until there is none.
    pub fn poll(&mut self) -> Option<HomeOutput> {
        self.outputs.pop_front()
    }

    /// When to come back with [`HomeInput::Timeout`], and why; never, while the node is not a member.
    #[must_use]
    pub fn next_timeout(&self) -> Option<(Instant, HomeTimer)> {
        if !self.is_member() {
            return None;
        }
        let phase = match self.phase {
            Phase::Collecting { resend_at, .. } => Some((resend_at, HomeTimer::Collect)),
            Phase::Grace { until } => Some((until, HomeTimer::Grace)),
            Phase::Out | Phase::Serving => None,
        };
        let sessions = self.sessions.iter().map(|(&id, session)| (session.expires, HomeTimer::Session(id)));
        let streams = self.streams.iter().filter_map(|(&node, stream)| {
            stream.resend_at.map(|resend_at| (resend_at, HomeTimer::Replicate(node)))
        });
        phase.into_iter().chain(sessions).chain(streams).min()
    }

    /// It knows all there is to know of the regions whose home it is, and grants their locks.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    fn is_member(&self) -> bool {
        self.now < self.member_until
    }

    fn timeout(&mut self) {
        while let Some((at, timer)) = self.next_timeout() {
            if at > self.now {
                return;
            }
            match timer {
                HomeTimer::Session(session) => self.end_session(session),
                HomeTimer::Collect => self.send_takeover(),
                HomeTimer::Grace => self.serve(),
                HomeTimer::Replicate(node) => self.send_changes(node),
            }
        }
    }

    fn message(&mut self, from: NodeId, message: LockMessage) {
        if message.epoch != self.members.epoch() || !self.members.contains(from) {
            return;
        }
        match message.body {
            LockBody::Acquire { region, key, ranges, try_only, beat } if key.session.node == from => {
                self.acquire(region, key, &ranges, try_only, beat);
            }
            LockBody::Release { region, key, beat } if key.session.node == from => {
                self.release(region, key, beat);
            }
            LockBody::Renew { session, beat, held, wanted } if session.node == from => {
                self.renew(session, beat, &held, &wanted);
            }
            LockBody::Takeover if from != self.config.node => self.answer_takeover(from),
            LockBody::Collected { evidence, copied } => self.collected(from, evidence, copied),
            LockBody::Replicate { first, changes } if from != self.config.node => {
                self.copy(from, first, changes);
            }
            LockBody::Replicated { through } => self.replicated(from, through),
            // What is said to sessions, or in another's name.
            _ => {}
        }
    }

    fn is_home(&self, region: RegionId) -> bool {
        self.members.home(region) == Some(self.config.node)
    }

    /// This home may decide about the region.
    fn is_ready(&self, region: RegionId) -> bool {
        self.is_home(region)
            && (self.is_serving() || self.tables.get(&region).is_some_and(|table| table.ready))
    }

    /// How long it waits for a session: longer than the session believes in its lease.
    fn term(&self) -> Duration {
        if makes(Mistake::EndSessionsEarly) {
            return self.config.lease;
        }
        self.config.lease + self.config.lease / 2
    }

    fn push_send(&mut self, to: NodeId, body: LockBody) {
        let message = LockMessage { epoch: self.members.epoch(), body };
        self.outputs.push_back(HomeOutput::Send { to, message });
    }
}

impl Table {
    fn new(limits: TableLimits) -> Self {
        Self { ready: false, locks: RangeLocks::new(limits), grants: BTreeMap::new() }
    }

    /// What is held, and whether the session may know of it.
    fn parts(&self, region: RegionId) -> impl Iterator<Item = (Part, bool)> {
        self.locks.records().filter(|(_, state, _)| *state == RecordState::Held).filter_map(
            move |(key, _, ranges)| {
                let granting = self.grants.get(&key)?;
                Some((Part { region, key, ranges: ranges.to_vec(), token: granting.token }, granting.copied))
            },
        )
    }
}
