//! The home and the sessions of one node, and what goes between them and others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use cards_core::rendezvous::Members;
use cards_core::{Instant, NodeId};
use cards_locks::{
    ClientConfig, ClientInput, ClientOutput, GroupKey, HomeConfig, HomeInput, HomeOutput, LockBody,
    LockClient, LockHome, LockMessage, SessionId, Wait, Want,
};
use tokio::sync::oneshot;

use super::lives::Lives;
use super::session::{Answer, Group, Session, SessionInfo, Stage};
use super::{LockView, Refusal, limits};

/// See the module's head.
pub(crate) struct Service {
    pub(super) me: NodeId,
    lease: Duration,
    pub(super) home: LockHome,
    pub(super) sessions: BTreeMap<u64, Session>,
    /// The number of the last session; those of a later life are higher.
    last_session: u64,
    /// When sessions want to be woken.
    wakes: BTreeSet<(Instant, u64)>,
    lives: Lives,
    /// None before the first view.
    pub(super) members: Option<Members>,
    /// From this node to itself.
    local: VecDeque<LockMessage>,
    sends: Vec<(NodeId, LockMessage)>,
}

impl Service {
    /// The service of node `me` in its life `incarnation`, a number of milliseconds.
    pub(crate) fn new(me: NodeId, incarnation: u64, lease: Duration, now: Instant) -> Self {
        let config = HomeConfig {
            node: me,
            lease,
            resend: limits::RESEND,
            region_size: limits::REGION_BYTES,
            limits: limits::HOME,
        };
        Self {
            me,
            lease,
            home: LockHome::new(config, now),
            sessions: BTreeMap::new(),
            // A life that opens a million sessions takes longer than the millisecond this leaves for them.
            last_session: incarnation << 20,
            wakes: BTreeSet::new(),
            lives: Lives::default(),
            members: None,
            local: VecDeque::new(),
            sends: Vec::new(),
        }
    }

    /// The members have changed.
    pub(crate) fn view(&mut self, now: Instant, view: LockView) {
        let LockView { members, joined, lives } = view;
        if self.members.as_ref().is_some_and(|known| members.epoch() <= known.epoch()) {
            return;
        }
        let copied = self.lives.view(members.epoch(), joined, &lives);
        tracing::debug!(epoch = members.epoch(), joined, copied, "the lock service has a new view");
        self.members = Some(members.clone());
        self.home_input(now, HomeInput::View { members: members.clone(), joined, copied });
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.session_input(now, session, ClientInput::View { members: members.clone() });
        }
        self.deliver(now);
    }

    /// Something for the home.
    pub(crate) fn home(&mut self, now: Instant, input: HomeInput) {
        self.home_input(now, input);
        self.deliver(now);
    }

    /// A message has arrived.
    pub(crate) fn message(&mut self, now: Instant, from: NodeId, message: LockMessage) {
        self.route(now, from, message);
        self.deliver(now);
    }

    /// The time of [`Self::next_timeout`] has come.
    pub(crate) fn timeout(&mut self, now: Instant) {
        if self.home.next_timeout().is_some_and(|(at, _)| at <= now) {
            self.home_input(now, HomeInput::Timeout);
        }
        let due: Vec<u64> = self.wakes.range(..=(now, u64::MAX)).map(|&(_, session)| session).collect();
        for number in due {
            if self.sessions.get(&number).is_some_and(|s| !s.closing && s.expires <= now) {
                self.close_session(now, number);
            } else {
                self.session_input(now, number, ClientInput::Timeout);
            }
        }
        self.deliver(now);
    }

    /// When to call [`Self::timeout`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let home = self.home.next_timeout().map(|(at, _)| at);
        self.wakes.first().map(|&(at, _)| at).into_iter().chain(home).min()
    }

    /// What other nodes are to be sent.
    pub(crate) fn take_sends(&mut self) -> Vec<(NodeId, LockMessage)> {
        std::mem::take(&mut self.sends)
    }

    /// Opens a session whose client may be silent for `ttl`.
    ///
    /// # Errors
    /// There are no members or too many sessions.
    pub(crate) fn open(&mut self, now: Instant, name: String, ttl: Duration) -> Result<SessionId, Refusal> {
        let members = self.members.clone().ok_or(Refusal::NoCoordinator)?;
        if self.sessions.len() >= limits::SESSIONS {
            return Err(Refusal::TooManySessions);
        }
        self.last_session += 1;
        let number = self.last_session;
        let session = SessionId { node: self.me, number };
        let config = ClientConfig {
            session,
            lease: self.lease,
            resend: limits::RESEND,
            region_size: limits::REGION_BYTES,
            groups: limits::GROUPS,
            parts: limits::GROUP_PARTS,
        };
        self.sessions.insert(number, Session::new(LockClient::new(config, now), name, ttl, now));
        self.session_input(now, number, ClientInput::View { members });
        Ok(session)
    }

    /// The client of a session lives: what it has.
    ///
    /// # Errors
    /// No such session.
    pub(crate) fn keep_alive(&mut self, now: Instant, id: SessionId) -> Result<SessionInfo, Refusal> {
        let session = self.open_session(id)?;
        session.expires = now + session.ttl;
        self.rewake(id.number);
        self.info(now, id.number).ok_or(Refusal::NoSession(id))
    }

    /// Closes a session and gives up its groups.
    ///
    /// # Errors
    /// No such session.
    pub(crate) fn close(&mut self, now: Instant, id: SessionId) -> Result<(), Refusal> {
        self.open_session(id)?;
        self.close_session(now, id.number);
        self.deliver(now);
        Ok(())
    }

    /// Asks for a group: its name. `answer` hears what becomes of it; when nobody listens any more, the group is
    /// given up.
    ///
    /// # Errors
    /// No such session, or the request makes no sense.
    pub(crate) fn acquire(
        &mut self,
        now: Instant,
        id: SessionId,
        wants: Vec<Want>,
        wait: Wait,
        answer: Answer,
    ) -> Result<GroupKey, Refusal> {
        let session = self.open_session(id)?;
        let regions = |want: &Want| {
            let range = want.locked.range;
            (range.end() - 1) / limits::REGION_BYTES - range.start() / limits::REGION_BYTES + 1
        };
        let given = wants.iter().map(regions).fold(0, u64::saturating_add);
        if given > limits::GROUP_PARTS as u64 {
            return Err(Refusal::TooManyParts { given });
        }
        session.expires = session.expires.max(now + session.ttl);
        session.last_group += 1;
        let group = session.last_group;
        let stage = Stage::Waiting(answer);
        session.groups.insert(group, Group::new(wants.clone(), stage));
        self.session_input(now, id.number, ClientInput::Acquire { group, wants, wait });
        self.deliver(now);
        Ok(GroupKey { session: id, group })
    }

    /// Only reads from now on what a group writes that is held; `done` hears when the homes know, and is dropped if
    /// the group is given up before.
    ///
    /// # Errors
    /// No such session, or it holds no such group.
    pub(crate) fn downgrade(
        &mut self,
        now: Instant,
        key: GroupKey,
        done: oneshot::Sender<()>,
    ) -> Result<(), Refusal> {
        let session = self.open_session(key.session)?;
        let held = session.client.grant(now, key.group).is_some();
        let group = session.groups.get_mut(&key.group).filter(|_| held).ok_or(Refusal::NoGroup(key))?;
        group.downgraded.push(done);
        self.session_input(now, key.session.number, ClientInput::Downgrade { group: key.group });
        self.deliver(now);
        Ok(())
    }

    /// Gives a group up; `done` hears of its end, at once if it is gone already.
    ///
    /// # Errors
    /// No such session, or it never had such a group.
    pub(crate) fn release(
        &mut self,
        now: Instant,
        key: GroupKey,
        done: oneshot::Sender<()>,
    ) -> Result<(), Refusal> {
        let session = self.open_session(key.session)?;
        if key.group == 0 || key.group > session.last_group {
            return Err(Refusal::NoGroup(key));
        }
        if let Some(group) = session.groups.get_mut(&key.group) {
            group.released.push(done);
            group.stage = Stage::Releasing;
        } else {
            // Whoever has gone does not need to know.
            let _ = done.send(());
        }
        self.session_input(now, key.session.number, ClientInput::Release { group: key.group });
        self.deliver(now);
        Ok(())
    }

    fn open_session(&mut self, id: SessionId) -> Result<&mut Session, Refusal> {
        let known = self.sessions.get_mut(&id.number).filter(|s| id.node == self.me && !s.closing);
        known.ok_or(Refusal::NoSession(id))
    }

    fn close_session(&mut self, now: Instant, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        session.closing = true;
        let groups: Vec<u64> = session.groups.keys().copied().collect();
        for group in groups {
            if let Some(known) = self.sessions.get_mut(&number).and_then(|s| s.groups.get_mut(&group)) {
                known.stage = Stage::Releasing;
            }
            self.session_input(now, number, ClientInput::Release { group });
        }
        // It may have had none.
        self.session_input(now, number, ClientInput::Timeout);
    }

    fn home_input(&mut self, now: Instant, input: HomeInput) {
        self.home.handle(now, input);
        while let Some(output) = self.home.poll() {
            match output {
                HomeOutput::Send { to, message } => self.send(to, message),
                HomeOutput::Settled { epoch } => self.lives.settled(epoch),
            }
        }
    }

    fn session_input(&mut self, now: Instant, number: u64, input: ClientInput) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        session.client.handle(now, input);
        let mut sends = Vec::new();
        let mut unwanted = Vec::new();
        while let Some(output) = session.client.poll() {
            match output {
                ClientOutput::Send { to, message } => sends.push((to, message)),
                output => unwanted.extend(session.tell(output)),
            }
        }
        sends.into_iter().for_each(|(to, message)| self.send(to, message));
        for group in unwanted {
            self.session_input(now, number, ClientInput::Release { group });
        }
        self.rewake(number);
    }

    /// Notes when a session wants to be woken; forgets one that is closed and has nothing more to say.
    fn rewake(&mut self, number: u64) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        self.wakes.remove(&(session.wake, number));
        if session.closing && session.client.is_quiet() {
            self.sessions.remove(&number);
            return;
        }
        session.wake = session.next_timeout();
        self.wakes.insert((session.wake, number));
    }

    fn send(&mut self, to: NodeId, message: LockMessage) {
        if to == self.me {
            self.local.push_back(message);
        } else {
            self.sends.push((to, message));
        }
    }

    /// What this node has to say to itself.
    fn deliver(&mut self, now: Instant) {
        while let Some(message) = self.local.pop_front() {
            self.route(now, self.me, message);
        }
    }

    fn route(&mut self, now: Instant, from: NodeId, message: LockMessage) {
        let session = match &message.body {
            LockBody::Granted { key, .. }
            | LockBody::Refused { key, .. }
            | LockBody::Released { key, .. } => key.session,
            LockBody::Renewed { session, .. } => *session,
            LockBody::Acquire { .. }
            | LockBody::Release { .. }
            | LockBody::Renew { .. }
            | LockBody::Takeover
            | LockBody::Collected { .. }
            | LockBody::Replicate { .. }
            | LockBody::Replicated { .. } => {
                return self.home_input(now, HomeInput::Message { from, message });
            }
        };
        if session.node == self.me {
            self.session_input(now, session.number, ClientInput::Message { from, message });
        }
    }
}
