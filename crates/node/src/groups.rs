//! Groups of copies: what the registry and the peers say goes into their state machines, and what those want done comes out.
//!
//! Each group is driven by one data thread. What it is told, and what it wants, passes there; others post it.
//!
//! | file | noun |
//! |---|---|
//! | `news` | what the registry says of groups, and what the core hears of that |
//! | `changes` | what becomes of copies, in the log and in the history |
//! | `commands` | what the core asks of a group at its primary |
//! | `damage` | what does not fit its checksums at a copy, and scrubs |
//! | `failed` | copies that are given up here because their disk has failed |
//! | `exclusivity` | which card has a group's volume for itself, as the registry keeps it |
//! | `place` | columns that take the place of others |
//! | `put_back` | copies whose disks were put back to earlier images |
//! | `still` | groups that nobody serves, and what a person can do |
//! | `register` | the group's questions to the registry |
//! | `shown` | how a mirrored volume stands, for people |

mod changes;
mod commands;
pub(crate) mod damage;
mod exclusivity;
mod failed;
mod news;
mod place;
mod put_back;
mod register;
mod shown;
mod still;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cards_array::group::{Extent, Group, Map, Member, Op, Output, Work, WorkError};
use cards_core::{ControlInput, Instant, NodeId, PgId};
use cards_disk::{JobError, Uuid};

use crate::node::buffers::Bytes;
use crate::node::group_mail::GroupSendError;
use crate::node::groups::Hosted;
use crate::node::{Event, Inbox, Local, Node};

pub(crate) use exclusivity::ask as ask_exclusivity;
pub(crate) use failed::remedy_of_copy;
pub(crate) use register::Registers;
pub(crate) use shown::mirror;
pub(crate) use still::StandsStill;

/// From now on messages of groups go to the threads that drive them.
pub(crate) fn receive(node: &Arc<Node>) {
    let weak = Arc::downgrade(node);
    node.group_mail.receive_with(Box::new(move |from, of, message| {
        let Some(node) = weak.upgrade().filter(|node| node.groups.get(of).is_some()) else { return false };
        node.at_home(of, move |local| local.group(of, |group, now| group.receive(now, from, message)));
        true
    }));
}

/// How often the end looks whether the groups are left.
const LOOK: Duration = Duration::from_millis(20);
/// So long the end waits until primaries elsewhere have dropped the copies here: what they would wait for a copy that is silent.
const DROP: cards_core::Duration = cards_core::Duration::from_millis(750);

/// How far groups are left to others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Leaving {
    /// Nobody waits for this node.
    #[default]
    Done,
    /// A primary elsewhere has not dropped a copy of this node yet.
    Drops,
    /// A group is yet to be handed over, or the core has not heard to whom.
    Leads,
}

impl Node {
    /// This process, as maps name it.
    pub(crate) fn member(&self) -> Member {
        Member { node: self.me, incarnation: self.process }
    }

    /// The data thread that drives a group.
    pub(crate) fn home_of(&self, of: PgId) -> usize {
        of.0 as usize % self.threads.len()
    }

    /// Does something on the thread that drives a group.
    fn at_home(&self, of: PgId, call: impl FnOnce(&Rc<Local>) + Send + 'static) {
        self.threads[self.home_of(of)].post(Event::Call(Box::new(call)));
    }

    /// A managed disk answers nothing, or does again: no group that has a copy there needs to find that out for itself.
    pub(crate) fn disk_hangs(&self, disk: Uuid, hangs: bool) {
        for thread in self.threads.iter() {
            thread.post(Event::Call(Box::new(move |local| local.disk_hangs(disk, hangs))));
        }
    }

    /// Who can be the next primary of a group of this node.
    fn heir_of(&self, map: &Map) -> Option<Member> {
        let nodes = map.in_sync().filter_map(|number| map.column(number)).map(|column| column.node);
        nodes.filter(|node| *node != self.me).find_map(|node| self.heir(node))
    }

    /// The process of a node that can be talked to.
    fn heir(&self, node: NodeId) -> Option<Member> {
        let members = self.members();
        let incarnation = members.live_one(node)?.membership?;
        let is_up = self.links.get(usize::from(node.0)).is_some_and(|link| link.answers());
        is_up.then_some(Member { node, incarnation })
    }
}

/// A data thread, for threads that the node's end waits for: they do not keep the node.
struct Home {
    threads: Arc<[Inbox]>,
    number: usize,
}

impl Home {
    fn call(&self, call: impl FnOnce(&Rc<Local>) + Send + 'static) {
        self.threads[self.number].post(Event::Call(Box::new(call)));
    }
}

impl Local {
    /// This thread.
    fn home(&self) -> Home {
        Home { threads: Arc::clone(&self.node.threads), number: self.index.into() }
    }

    /// Does something on the thread that drives a group: at once, if it is this one.
    fn at_home(self: &Rc<Self>, of: PgId, call: impl FnOnce(&Rc<Self>) + Send + 'static) {
        match self.node.home_of(of) == usize::from(self.index) {
            true => call(self),
            false => self.node.at_home(of, call),
        }
    }

    /// In the core's term of this number, cards of the last primary of a group are void.
    pub(crate) fn group_writes_allowed(self: &Rc<Self>, of: PgId, term: u64) {
        self.at_home(of, move |local| {
            let now = local.node.now();
            local.hosted(of, |hosted| {
                // Another term may have begun meanwhile.
                if hosted.group.map().is_some_and(|map| map.since << news::APART == term) {
                    hosted.group.cards_void(now);
                }
            });
            local.carry_out_wishes();
        });
    }

    fn disk_hangs(self: &Rc<Self>, disk: Uuid, hangs: bool) {
        let is_there = |hosted: &Hosted| hosted.column.managed().uuid() == disk;
        let groups: Vec<PgId> = {
            let groups = self.groups.borrow();
            groups.iter().filter(|(_, hosted)| is_there(hosted)).map(|(of, _)| *of).collect()
        };
        for of in groups {
            self.group(of, |group, now| group.disk_hangs(now, hangs));
        }
    }

    /// When a group of this thread wants to be woken, in nanoseconds.
    pub(crate) fn groups_wake(self: &Rc<Self>) -> u64 {
        let now = self.node.now();
        let due = |(of, hosted): (&PgId, &Hosted)| (hosted.wake <= now).then_some(*of);
        let due: Vec<PgId> = self.groups.borrow().iter().filter_map(due).collect();
        for of in due {
            self.group(of, Group::timeout);
            self.give_up_parked(of);
        }
        self.groups.borrow().values().map(|hosted| hosted.wake.0).min().unwrap_or(u64::MAX)
    }

    /// Calls a group of this thread, and does what comes of it.
    fn group(self: &Rc<Self>, of: PgId, call: impl FnOnce(&mut Group<Bytes>, Instant)) {
        let now = self.node.now();
        self.hosted(of, |hosted| call(&mut hosted.group, now));
        self.carry_out_wishes();
    }

    /// Calls a group of this thread and takes what it wants; [`Self::carry_out_wishes`] must follow.
    fn hosted<R>(&self, of: PgId, call: impl FnOnce(&mut Hosted) -> R) -> Option<R> {
        let mut groups = self.groups.borrow_mut();
        let hosted = groups.get_mut(&of)?;
        let copied = hosted.group.copied();
        let result = call(hosted);
        hosted.counts.has_copied(hosted.group.copied() - copied);
        self.called.borrow_mut().insert(of);
        let mut wishes = self.wishes.borrow_mut();
        while let Some(output) = hosted.group.poll() {
            wishes.push_back((of, output));
        }
        let gives_up = hosted.gives_up(self.node.disk_wait());
        hosted.wake = hosted.group.next_timeout(self.node.now()).min(gives_up);
        self.node.threads[usize::from(self.index)].armed(hosted.wake.0);
        Some(result)
    }

    fn carry_out_wishes(self: &Rc<Self>) {
        if self.wishing.replace(true) {
            return;
        }
        loop {
            let next = self.wishes.borrow_mut().pop_front();
            let Some((of, output)) = next else { break };
            self.carry_out(of, output);
        }
        self.wishing.set(false);
        self.tell_rights();
        self.route();
    }

    fn carry_out(self: &Rc<Self>, of: PgId, output: Output<Bytes>) {
        match output {
            Output::Send { to, message } => {
                if usize::from(to.0) < self.node.links.len()
                    && let Err(error @ GroupSendError::Release { .. }) = self.node.send_group(to, of, message)
                    && self.refusals.may()
                {
                    tracing::error!(group = of.0, "{error}");
                }
            }
            Output::Work { op, work } => self.group_work(of, op, work),
            Output::Release(extent) => drop(self.hosted(of, |hosted| hosted.column.release(extent))),
            Output::CaughtUp(extents) => drop(self.hosted(of, |hosted| hosted.column.caught_up(extents))),
            Output::ReadMap => self.ask_register(of, None),
            Output::Propose(map) => self.ask_register(of, Some(map)),
            Output::Damaged { column, extent, is_repaired } => {
                self.group_damaged(of, column, extent, is_repaired);
            }
            Output::Serves(_) => self.group_serves(of),
            Output::Stopped => self.group_stopped(of),
            Output::Changed(change) => self.group_changed(of, &change),
            Output::Done { token, result } => self.group_done(of, token, result),
        }
    }

    /// Calls a group of this thread, unless another one has its place: what the one before it has asked for is nothing to it.
    fn same_group(self: &Rc<Self>, of: PgId, begun: u64, call: impl FnOnce(&mut Group<Bytes>, Instant)) {
        if self.groups.borrow().get(&of).is_some_and(|hosted| hosted.begun == begun) {
            self.group(of, call);
        }
    }

    fn group_work(&self, of: PgId, op: Op, work: Work<Bytes>) {
        let home = self.home();
        let hosted = self.groups.borrow();
        let Some((column, counts, begun)) =
            hosted.get(&of).map(|hosted| (hosted.column.clone(), Arc::clone(&hosted.counts), hosted.begun))
        else {
            return;
        };
        drop(hosted);
        let written = match &work {
            Work::Write { extent, .. } => extent.length,
            _ => 0,
        };
        let marked = column.clone();
        column.submit(work, move |result: Result<Option<Vec<u8>>, JobError>| {
            match &result {
                Ok(Some(bytes)) => counts.has_read(bytes.len() as u64),
                Ok(None) => counts.has_written(written),
                Err(_) => {}
            }
            let failed = result.as_ref().err().copied();
            let failed = failed.filter(|error| !matches!(error, JobError::Damaged { .. }));
            let result = result.map(|bytes| bytes.map(Bytes::new)).map_err(|error| match error {
                JobError::Damaged { offset, length } => WorkError::Damaged(Extent { offset, length }),
                _ => WorkError::Disk,
            });
            let marks = marked.marks();
            home.call(move |local| {
                if let Some(error) = failed {
                    local.copy_failed(of, begun, error);
                }
                local.same_group(of, begun, |group, now| {
                    group.marked(marks);
                    group.done(now, op, result);
                });
            });
        });
    }

    /// A disk was put back to an earlier image, and another copy has everything.
    fn tell_outdated(&self, of: PgId) {
        let known = self.node.groups.get(of);
        tracing::error!(
            volume = known.map_or_else(String::new, |known| known.record.described()),
            "the copy of this node lacks what was written, though the registry takes it for one in sync: its disk was put back to an earlier \
             image, or is another one. It is filled from another copy in sync; until the node of one is there, the volume waits; if there is none, \
             `cards status` says what to do"
        );
    }

    /// The core hears until when nobody else is the primary; and what came while somebody might have been is told. Only a call of a group
    /// changes that.
    fn tell_rights(self: &Rc<Self>) {
        let called = self.called.take();
        for of in called {
            let changed = self.groups.borrow_mut().get_mut(&of).and_then(|hosted| {
                let was_outdated = std::mem::replace(&mut hosted.is_outdated, hosted.group.is_outdated());
                // Of a disk that has failed that is said.
                if hosted.is_outdated && !was_outdated && self.node.groups.failed_copy(of).is_none() {
                    self.tell_outdated(of);
                }
                let awaited = hosted.group.awaited(self.node.now());
                if awaited != hosted.awaited {
                    self.node.groups.note_awaited(of, awaited.clone());
                    hosted.awaited = awaited;
                }
                // A right that is not that of the core's term is none.
                let ends = hosted.group.right_ends().filter(|_| hosted.reigns());
                let now = hosted.reign.map(|_| ends.unwrap_or(Instant(0)));
                (std::mem::replace(&mut hosted.right, now) != now).then_some(now)?
            });
            if let Some(until) = changed {
                self.control(ControlInput::Right { volume: of, until });
                self.leased(of, until);
            }
            if self.groups.borrow().get(&of).is_some_and(|hosted| !hosted.held.is_empty()) {
                self.tell_held(of);
            }
        }
    }

    /// Leaves the groups of this node to others, and waits until that is done: who needs them goes on without a pause, and nobody waits for a
    /// copy here.
    pub(crate) async fn leave_groups(node: &Arc<Node>) {
        let mut handed_over = node.now();
        loop {
            let mut left = Leaving::Done;
            for thread in 0..node.threads.len() {
                left =
                    left.max(node.on_data_thread(thread, Self::leave_own_groups).await.unwrap_or_default());
            }
            let goes_on = match left {
                Leaving::Done => false,
                Leaving::Drops => node.now().since(handed_over) < DROP,
                Leaving::Leads => {
                    handed_over = node.now();
                    true
                }
            };
            if !goes_on {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends what waits for groups of which the last copy has failed here, before the end waits for it.
    pub(crate) async fn end_lost_groups(node: &Arc<Node>) {
        for thread in 0..node.threads.len() {
            let _ = node.on_data_thread(thread, Self::end_lost).await;
        }
    }

    /// How far the groups of this thread are left.
    fn leave_own_groups(self: &Rc<Self>) -> Leaving {
        let hosted: Vec<(PgId, Option<Map>)> = {
            let groups = self.groups.borrow();
            groups.iter().map(|(of, hosted)| (*of, hosted.group.map().cloned())).collect()
        };
        let mut left = Leaving::Done;
        for (of, led) in hosted {
            let heir = led.as_ref().and_then(|map| self.node.heir_of(map));
            left = left.max(match (&led, heir) {
                (Some(_), Some(_)) => Leaving::Leads,
                // Others wait for this node, or take over when its promise is over.
                (Some(_), None) => continue,
                // Nobody can take over: what waits is asked of the next life.
                (None, _) if self.node.is_lost(of) => Leaving::Done,
                // The next primary begins no write before it has this node's word that it has heard of it.
                (None, _) if self.node.primary(of) == Some(self.node.me) => Leaving::Leads,
                (None, _) if self.is_counted_on(of) => Leaving::Drops,
                (None, _) => Leaving::Done,
            });
            self.group(of, |group, now| group.leave(now, heir));
        }
        left
    }

    /// Whether a primary that can be talked to waits for what is written to be here.
    fn is_counted_on(&self, of: PgId) -> bool {
        let Some(known) = self.node.groups.get(of) else { return false };
        let Some(map) = known.ready() else { return false };
        let own = map.column_at(self.node.me);
        map.written().any(|column| Some(column) == own) && self.node.heir(map.primary.node).is_some()
    }
}
