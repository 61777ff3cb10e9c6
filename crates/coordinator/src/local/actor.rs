//! The thread that has the store of an arbiter: it votes, and leads the registry when it is elected.
//!
//! Its clock goes on while the machine is suspended, as a term and a pledge have to. What it has decided is durable before it is
//! said. It waits for its disk and for nothing else.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cards_core::Instant;
use cards_register::{
    Accepted, Ballot, Candidates, LeaderTiming, Led, ProposerId, Replica, ReplicaTiming, Reply, ReplyBody,
    Request, RequestBody, StoreId, Timing, arbiters_for,
};
use cards_wire::register::StoreState;
use tokio::sync::{mpsc, oneshot, watch};

use crate::arbiter::ArbiterStore;
use crate::change::{Applied, Change};
use crate::ids::{History, Revision, WallClock, random};
use crate::kept::{Kept, Route};
use crate::lease::BootTime;
use crate::led::{LedError, LedOutput, LedRegistry};
use crate::record::{Certificate, Member, MemberState, Record};
use crate::refusal::Refusal;
use crate::registry::records_in;
use crate::remote::Seen;

use super::mailbox::{Nothing, Receiver};
use super::{Published, lookout, outdated};

/// Shortest and longest term of a leader. A third of a lease, between these.
const TERMS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));
/// How often a leader asks nodes that could be arbiters whether they are there.
const PROBE: Duration = Duration::from_millis(500);
/// How long a node counts as one that is there after it has answered.
const FRESH: Duration = Duration::from_secs(3);
/// Nodes that are asked so at a time.
const PROBES: usize = 8;
/// Messages that are heard before the time is looked at.
const HEARD_MAX: usize = 256;
/// How long the thread waits if nothing is due.
const IDLE: Duration = Duration::from_secs(60);

/// What the thread is told.
pub(crate) enum Message {
    /// A change is asked for.
    Ask {
        /// What the asker has shown.
        shown: Option<Certificate>,
        change: Box<Change>,
        /// The latest that the asker has heard of.
        seen: Seen,
        answer: oneshot::Sender<Result<Applied, NotHere>>,
    },
    /// A request to the arbiter.
    Request { request: Request<Led<Vec<u8>>>, reply: oneshot::Sender<Option<Reply<Led<Vec<u8>>>>> },
    /// The reply of another arbiter.
    Reply(Reply<Led<Vec<u8>>>),
    /// Others keep a registry that may be later than this one.
    Outdated(Kept),
    /// Others keep a registry that may have succeeded this one.
    Succeeded(Kept),
    /// Who keeps the registry, as others say; perhaps not this node any more.
    Heard(Kept),
    /// The process ends soon: another node is to lead, if this one does.
    Resign,
    /// The end.
    Stop,
}

/// A request, and where it is to go.
pub(super) struct Parcel {
    pub(super) route: Route,
    pub(super) request: Request<Led<Vec<u8>>>,
}

/// Why this node has not done what was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotHere {
    /// It is refused.
    Refused(Refusal),
    /// Another node leads, or none.
    NotLeader,
    /// It may be done or not.
    Unknown,
    /// Too much waits.
    Busy,
    /// The store cannot be used.
    Failed,
}

/// The times of leaders in a registry with leases of this length: all nodes have to reckon with the same ones.
pub(super) fn timing(lease: Duration) -> ReplicaTiming {
    let term = (lease / 3).clamp(TERMS.0, TERMS.1);
    ReplicaTiming { proposer: Timing::default(), leader: LeaderTiming::new(term) }
}

pub(super) fn now() -> Instant {
    Instant(u64::try_from(BootTime::now().since_boot().as_nanos()).unwrap_or(u64::MAX))
}

/// What the store says of the members, by their stores.
#[derive(Default)]
struct Roll {
    routes: BTreeMap<StoreId, Route>,
    history: Option<History>,
    succeeds: Vec<History>,
}

pub(super) struct Actor {
    node: LedRegistry,
    store: ArbiterStore,
    id: StoreId,
    own: Route,
    lost_after: Duration,
    /// How long a leader may act without being confirmed.
    term: Duration,
    published: watch::Sender<Published>,
    parcels: mpsc::UnboundedSender<Parcel>,
    waiting: HashMap<u64, oneshot::Sender<Result<Applied, NotHere>>>,
    tickets: u64,
    roll: Roll,
    /// The version of the value of which the roll is, and of that which was published.
    rolled: Option<(u64, Ballot)>,
    told: Option<(u64, Ballot)>,
    /// The revision that was published last, while this node leads.
    shown: Option<Revision>,
    /// Nodes that could be arbiters: when they have last answered.
    heard: HashMap<StoreId, Instant>,
    next_probe: Instant,
    /// The version of the value by which it was last looked whether others should be arbiters.
    offered: Option<(u64, Ballot)>,
    /// Since when this leader knows that a member is dead.
    dead: BTreeMap<String, Instant>,
}

impl Actor {
    pub(super) fn new(
        (store, state): (ArbiterStore, StoreState),
        own: Route,
        lease: Duration,
        is_free: bool,
        lost_after: Duration,
        published: watch::Sender<Published>,
        parcels: mpsc::UnboundedSender<Parcel>,
    ) -> Self {
        let (now, id) = (now(), state.store);
        let replica = Replica::new(state, ProposerId(number()), timing(lease), is_free, now);
        let mut actor = Self {
            node: LedRegistry::new(replica),
            store,
            id,
            own,
            lost_after,
            term: timing(lease).leader.term,
            published,
            parcels,
            waiting: HashMap::new(),
            tickets: 0,
            roll: Roll::default(),
            rolled: None,
            told: None,
            shown: None,
            heard: HashMap::new(),
            next_probe: now,
            offered: None,
            dead: BTreeMap::new(),
        };
        actor.publish();
        actor
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        let Err(failed) = self.work(messages) else { return };
        tracing::error!("{failed}");
        // Nobody is led from here any more, and nobody is voted for.
        self.published.send_modify(|published| {
            *published = Published { view: None, failed: Some(failed), ..published.clone() }
        });
        self.waiting.drain().for_each(|(_, answer)| drop(answer.send(Err(NotHere::Unknown))));
        while let Ok(message) = messages.receive() {
            match message {
                Message::Ask { answer, .. } => drop(answer.send(Err(NotHere::Failed))),
                Message::Request { reply, .. } => drop(reply.send(None)),
                Message::Succeeded(kept) => drop(self.yield_to(&kept)),
                // Whoever has found that this copy is an old one did not know who keeps the later one.
                Message::Outdated(kept) => {
                    if let Err(failed) = self.retire(&kept) {
                        tracing::error!("{failed}");
                        self.published.send_modify(|published| published.failed = Some(failed));
                    }
                }
                Message::Reply(_) | Message::Heard(_) | Message::Resign => {}
                Message::Stop => return,
            }
        }
    }

    /// The same, or until the store cannot be used: in words.
    fn work(&mut self, messages: &Receiver<Message>) -> Result<(), String> {
        loop {
            self.turn()?;
            let now = now();
            let wait = match self.next_timeout() {
                Some(at) => Duration::from_nanos(at.0.saturating_sub(now.0)),
                None => IDLE,
            };
            let mut next = match messages.receive_within(wait) {
                Ok(message) => Some(message),
                Err(Nothing::Yet) => None,
                Err(Nothing::Ever) => return Ok(()),
            };
            // What has come by now is heard before the time is looked at: who has renewed in time is not found dead.
            for _ in 0..HEARD_MAX {
                let Some(message) = next else { break };
                if !self.hear(message)? {
                    return Ok(());
                }
                next = messages.try_receive().ok();
            }
            if let Some(message) = next
                && !self.hear(message)?
            {
                return Ok(());
            }
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.node.next_timeout()
    }

    /// Time has passed.
    fn turn(&mut self) -> Result<(), String> {
        let now = now();
        self.node.timeout(now, WallClock::now(), number());
        self.flush()?;
        if self.node.leads(now) {
            // A leader has a turn three times in a term at least: it is not woken for this alone.
            let accepted = self.accepted();
            if self.next_probe <= now || self.offered != accepted {
                self.offer(now);
                self.flush()?;
                self.offered = self.accepted();
            }
        } else {
            self.offered = None;
            self.dead.clear();
        }
        self.publish();
        Ok(())
    }

    /// Does what it is told; false if that is to stop.
    fn hear(&mut self, message: Message) -> Result<bool, String> {
        let (now, wall) = (now(), WallClock::now());
        match message {
            Message::Ask { shown, change, seen, answer } => {
                self.check(now, seen)?;
                self.tickets += 1;
                self.waiting.insert(self.tickets, answer);
                self.node.submit_as(now, wall, self.tickets, shown, *change);
            }
            Message::Request { request, reply } => drop(reply.send(self.decide(&request)?)),
            Message::Reply(reply) => match reply.body {
                // To a question whether it is there: no ballot of a proposer is that one.
                ReplyBody::Confirm { ballot: Ballot::FIRST, .. }
                | ReplyBody::Reject { ballot: Ballot::FIRST, .. } => {
                    self.heard.insert(reply.store, now);
                }
                _ => self.node.receive(now, wall, number(), reply),
            },
            Message::Outdated(kept) => self.retire(&kept)?,
            Message::Succeeded(kept) => self.yield_to(&kept)?,
            Message::Heard(kept) => self.dismiss(&kept),
            Message::Resign => self.node.resign(now, wall),
            Message::Stop => return Ok(false),
        }
        self.flush()?;
        Ok(true)
    }

    /// Who leads knows all that anybody has heard of. If it does not, its store is an old copy.
    fn check(&self, now: Instant, seen: Seen) -> Result<(), String> {
        let Some(registry) = self.node.registry(now) else { return Ok(()) };
        let head = registry.head();
        if seen.epoch <= head.epoch && seen.revision <= head.revision {
            return Ok(());
        }
        Err(outdated(&format!(
            "a node has heard of epoch {} and revision {}, here they are {} and {}",
            seen.epoch, seen.revision, head.epoch, head.revision
        )))
    }

    /// A store that is the only arbiter by what it says, while another node leads others that keep a later registry, is put out of the way,
    /// and never counted again. One of several that has merely missed something hears of it from the leader.
    fn retire(&mut self, kept: &Kept) -> Result<(), String> {
        if !(self.is_lone() && self.is_later(kept)) {
            return Ok(());
        }
        let names: Vec<&str> = kept.arbiters.iter().map(|route| route.node.as_str()).collect();
        // It is to them that this node turns now.
        self.published.send_modify(|published| published.kept = kept.clone());
        let aside = self.store.set_aside(".old").map_err(|error| error.to_string())?;
        Err(outdated(&format!("{} keep a later one (this one is {} now)", names.join(", "), aside.display())))
    }

    /// A part of a registry that another one has succeeded is put out of the way, and never counted again.
    fn yield_to(&mut self, kept: &Kept) -> Result<(), String> {
        if !kept.has_succeeded(self.published.borrow().kept.history) {
            return Ok(());
        }
        self.published.send_modify(|published| published.kept = kept.clone());
        let aside = self.store.set_aside(".old").map_err(|error| error.to_string())?;
        let names: Vec<&str> = kept.arbiters.iter().map(|route| route.node.as_str()).collect();
        Err(format!(
            "the registry was recovered at another node while this one was away, and is kept by {}: this node's part of the earlier one \
             is {} now, and counts no more. The node is a member like others; it can keep a part again once its daemon is restarted",
            names.join(", "),
            aside.display()
        ))
    }

    /// Others keep the registry now. That a value with a set of arbiters is there says that the change to them was chosen, whether the
    /// value itself was or not: without most of them nothing is decided.
    fn dismiss(&mut self, kept: &Kept) {
        let is_replaced = {
            let own = &self.published.borrow().kept;
            let is_among = kept.arbiters.iter().any(|route| route.node == self.own.node);
            kept.history == own.history && kept.version > own.version && !kept.changes && !is_among
        };
        if is_replaced && !kept.arbiters.is_empty() {
            self.node.replica().dismiss(kept.version);
        }
    }

    /// This store is the only arbiter, by what it says.
    fn is_lone(&mut self) -> bool {
        let accepted = self.node.replica().state().accepted.as_ref();
        accepted.is_some_and(|Accepted { value, .. }| value.arbiters.stores().all(|store| store == self.id))
    }

    /// Others keep a later registry than this node, and another one leads it. What this node itself has proposed a moment ago may have got to
    /// others before it got to its own disk.
    fn is_later(&mut self, kept: &Kept) -> bool {
        let version = self.node.replica().state().accepted.as_ref().map_or(0, |last| last.value.version);
        let published = &self.published.borrow().kept;
        let has_leader = kept.leader.as_ref().is_some_and(|leader| leader.node != self.own.node);
        has_leader && kept.history == published.history && lookout::is_later(kept, version)
    }

    /// An arbiter's answer, durable before it is told.
    fn decide(&mut self, request: &Request<Led<Vec<u8>>>) -> Result<Option<Reply<Led<Vec<u8>>>>, String> {
        let Some(decision) = self.node.decide(now(), request) else { return Ok(None) };
        if let Some(state) = decision.state {
            let began = std::time::Instant::now();
            self.store.keep(&state).map_err(|error| {
                format!("{error}. Until then the other arbiters keep the registry without this node")
            })?;
            let slow = slowness(self.store.file(), began.elapsed(), self.term);
            self.published.send_if_modified(|published| {
                let is_news = published.slow.is_some() != slow.is_some();
                published.slow = slow;
                is_news
            });
            self.node.replica().take(state);
        }
        Ok(Some(decision.reply))
    }

    fn flush(&mut self) -> Result<(), String> {
        while let Some(output) = self.node.poll() {
            match output {
                LedOutput::Send(request) if request.store == self.id => {
                    if let Some(reply) = self.decide(&request)? {
                        self.node.receive(now(), WallClock::now(), number(), reply);
                    }
                }
                LedOutput::Send(request) => self.send(request),
                LedOutput::Answer { ticket, answer } => {
                    // Who is told of something finds it.
                    self.publish();
                    let answer = answer.map_err(|error| match error {
                        LedError::Refused(refusal) => NotHere::Refused(refusal),
                        LedError::NotLeader { .. } => NotHere::NotLeader,
                        LedError::OutcomeUnknown => NotHere::Unknown,
                        LedError::Full => NotHere::Busy,
                        LedError::Damaged(damage) => {
                            tracing::error!("the registry is damaged: {damage}");
                            NotHere::Failed
                        }
                    });
                    if let Some(asker) = self.waiting.remove(&ticket) {
                        let _ = asker.send(answer);
                    }
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, request: Request<Led<Vec<u8>>>) {
        self.read_roll();
        // One whose node is not known any more was lost.
        if let Some(route) = self.roll.routes.get(&request.store) {
            let _ = self.parcels.send(Parcel { route: route.clone(), request });
        }
    }

    /// Has the arbiters changed if others should be some.
    fn offer(&mut self, now: Instant) {
        let Some(accepted) = &self.node.replica().state().accepted else { return };
        let present = accepted.value.arbiters.current().clone();
        let Some(registry) = self.node.registry(now) else { return };
        let view = registry.view();
        let joined =
            |name: &str| view.members.get(name).is_some_and(|member| member.state == MemberState::Joined);
        // A member without a store has an earlier release, and knows one place only where the registry can be; also when it comes back
        // after it was declared dead.
        let earlier =
            |member: &&Member| member.state != MemberState::Left && !view.stores.contains_key(&member.name);
        let away = view.members.values().filter(earlier).filter(|member| !member.state.is_live());
        let away: Vec<&str> = away.map(|member| member.name.as_str()).collect();
        let held_up = (!away.is_empty()).then(|| {
            format!(
                "the nodes that keep the registry stay as they are: {} went before it ran this release, and would look for the registry \
                 where it was then; start it, or run `cards forget` for it",
                away.join(", ")
            )
        });
        self.published.send_if_modified(|published| {
            let is_news = published.held_up != held_up;
            published.held_up = held_up;
            is_news
        });
        let has_earlier = view.members.values().any(|member| earlier(&member));
        if has_earlier || view.stores.values().all(|store| store.store != self.id) {
            return;
        }
        let is_dead =
            |name: &str| view.members.get(name).is_some_and(|member| member.state == MemberState::Dead);
        self.dead.retain(|name, _| is_dead(name));
        let mut candidates = Candidates::default();
        let mut silent = Vec::new();
        for store in view.stores.values() {
            let (id, name) = (store.store, store.node.as_str());
            let is_present = present.contains(&id);
            let is_fresh = self.heard.get(&id).is_some_and(|at| now < *at + FRESH);
            if id == self.id && joined(name) {
                candidates.up.insert(0, id);
            } else if joined(name) && (is_present || is_fresh) {
                candidates.up.push(id);
            } else if is_dead(name) {
                let since = *self.dead.entry(name.to_owned()).or_insert(now);
                match now < since + self.lost_after {
                    true => candidates.away.push(id),
                    false => candidates.lost.push(id),
                }
            } else if is_present
                && view.members.get(name).is_some_and(|member| member.state == MemberState::Leaving)
            {
                candidates.away.push(id);
            }
            if joined(name) && !is_present {
                silent.push(id);
            }
        }
        self.node.offer(now, WallClock::now(), &candidates);
        if self.next_probe > now {
            return;
        }
        self.next_probe = now + PROBE;
        candidates.up.extend(silent.iter().filter(|id| !candidates.up.contains(id)).collect::<Vec<_>>());
        if arbiters_for(&present, &candidates).is_some() {
            let body = || RequestBody::Confirm { ballot: Ballot::FIRST, number: 0 };
            silent.into_iter().take(PROBES).for_each(|store| self.send(Request { store, body: body() }));
        }
    }

    /// The version of the value that was accepted last, and its ballot.
    fn accepted(&mut self) -> Option<(u64, Ballot)> {
        let accepted = self.node.replica().state().accepted.as_ref();
        accepted.map(|Accepted { ballot, value }| (value.version, *ballot))
    }

    /// Where the stores are that the value names, if it is another one than before.
    fn read_roll(&mut self) {
        let Some(Accepted { ballot, value }) = &self.node.replica().state().accepted else { return };
        let of = (value.version, *ballot);
        if self.rolled == Some(of) {
            return;
        }
        let records = records_in(&value.content.content).unwrap_or_default();
        let mut addresses = BTreeMap::new();
        let mut stores = Vec::new();
        let (mut history, mut succeeds) = (None, Vec::new());
        for record in records {
            match record {
                Record::Head(head) => (history, succeeds) = (head.history, head.succeeds),
                Record::Member(member) => drop(addresses.insert(member.name, member.address)),
                Record::Store(store) => stores.push(store),
                _ => {}
            }
        }
        let routes = stores.into_iter().filter_map(|store| {
            let address = addresses.get(&store.node)?.clone();
            Some((store.store, Route { node: store.node, address }))
        });
        self.roll = Roll { routes: routes.collect(), history, succeeds };
        self.roll.routes.entry(self.id).or_insert_with(|| self.own.clone());
        self.rolled = Some(of);
    }

    /// Says what others have to know, if it is another than before.
    fn publish(&mut self) {
        let now = now();
        self.read_roll();
        let is_told = self.told == self.rolled;
        let registry = self.node.registry(now);
        let revision = registry.map(|registry| registry.head().revision);
        let view = (revision != self.shown).then(|| registry.map(|registry| Arc::new(registry.view())));
        self.shown = revision;
        if view.is_none() && is_told {
            return;
        }
        self.told = self.rolled;
        let kept = self.kept();
        let accepted = self.node.replica().state().accepted.as_ref();
        let keeps = accepted
            .is_some_and(|Accepted { value, .. }| value.arbiters.stores().any(|store| store == self.id));
        self.published.send_modify(|published| {
            if let Some(view) = view {
                published.view = view;
            }
            published.kept = kept;
            published.keeps = keeps;
        });
    }

    /// Who keeps the registry, as the value says that was accepted last.
    fn kept(&mut self) -> Kept {
        let Some(Accepted { value, .. }) = &self.node.replica().state().accepted else {
            return Kept::default();
        };
        let route = |store: &StoreId| match self.roll.routes.get(store) {
            Some(route) => route.clone(),
            // What it had kept counts until others have taken its place.
            None => Route {
                node: "a node that was forgotten or has lost its store".into(),
                address: String::new(),
            },
        };
        let mut arbiters: Vec<Route> = value.arbiters.stores().map(|store| route(&store)).collect();
        arbiters.sort();
        Kept {
            history: self.roll.history,
            version: value.version,
            leader: value.content.leader.as_ref().map(route),
            arbiters,
            changes: !value.arbiters.next().is_empty(),
            succeeds: self.roll.succeeds.clone(),
        }
    }
}

/// What is wrong with a disk that takes that long for a vote. Whoever asks for one must have most of them within a term, or leads nothing.
fn slowness(file: &Path, took: Duration, term: Duration) -> Option<String> {
    (took > term / 2).then(|| {
        format!(
            "the disk of {} has taken {:.1} s for a vote on the registry: with more than {:.1} s, a third of the lease, at most of the nodes \
             that keep it no node can lead it, and nothing can change; see to that disk and its load, or move state_dir to another",
            file.display(),
            took.as_secs_f64(),
            term.as_secs_f64()
        )
    })
}

/// Any number.
fn number() -> u64 {
    let [low @ .., _, _, _, _, _, _, _, _] = random().to_le_bytes();
    u64::from_le_bytes(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_takes_half_a_term_for_a_vote_is_named() {
        let slow = |ms| slowness(Path::new("/var/lib/cards/register"), Duration::from_millis(ms), TERMS.1);
        assert_eq!(slow(900), None);
        let says = slow(1300).expect("it is slow");
        assert!(
            says.contains("/var/lib/cards/register") && says.contains("1.3 s") && says.contains("2.0 s"),
            "{says}"
        );
    }
}
