//! Local devices: what they and their nodes tell each other, and what becomes of pages.

use std::ops::Range;

use cards_core::{BlockId, Control, ControlInput, Input, Instant, NodeId, PgId, Token};

use super::{Asker, Event, World};
use crate::client::{Outcome, Request};
use crate::device::{Device, Fate, Notice, Waiter, Watch, Word};
use crate::models::{Models, Why};

/// What happens at a device.
pub(super) enum AtDevice {
    /// It finds its node.
    Connect,
    /// Its node tells it something.
    Notice(Notice),
    /// Its node has answered a read.
    Answer { question: Token, outcome: Outcome },
    /// The pages of a withdrawal are gone.
    Gone(u64),
    /// Its lease may have run out.
    Lapse,
    /// It notices that its node's process has ended.
    Broken,
    /// No page is left, after a lapse or the end of its node's process.
    Cleared(Why),
}

/// What happened to pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageEvent {
    /// An answer became a page.
    Filled(NodeId, BlockId),
    /// A page was read.
    Used(NodeId, BlockId),
    /// An answer was thrown away, since pages of its block were withdrawn, or the lease ran out.
    Voided(NodeId, BlockId),
    /// Pages are gone because a write will follow.
    Withdrawn(NodeId, PgId, Vec<Range<u32>>),
    /// All pages are gone: so many.
    Cleared(NodeId, PgId, Why, usize),
}

impl<M: Models> World<M> {
    /// The next thing that happened to a page, in order.
    pub fn page_event(&mut self) -> Option<PageEvent> {
        self.page_events.pop_front()
    }

    /// Whether a device of the node still has pages that it got from the node's last process, or has not noticed its end.
    #[must_use]
    pub fn has_orphans(&self, node: NodeId) -> bool {
        !self.is_running(node) && self.devices.range(of(node)).any(|(_, device)| device.is_orphan())
    }

    /// What waits at a running node for pages to go.
    #[must_use]
    pub fn withdrawals(&self, node: NodeId) -> usize {
        let life = self.place(node).running.iter();
        life.flat_map(|life| life.watches.values()).map(|watch| watch.open.len()).sum()
    }

    fn device(&mut self, node: NodeId, volume: PgId) -> &mut Device {
        self.devices.get_mut(&(node, volume)).expect("a device of the configuration")
    }

    /// A client opens the device.
    pub(super) fn open_device(&mut self, node: NodeId, volume: PgId) {
        let device = self.device(node, volume);
        if !std::mem::replace(&mut device.open, true) && device.connection.is_some() {
            self.say_keeps(node, volume, true);
        }
    }

    /// Closes the device. Clients that came while it was closed already get no answer, either.
    pub(super) fn close_device(&mut self, node: NodeId, volume: PgId) {
        for client in self.device(node, volume).abandon() {
            self.complete(client, Outcome::Lost);
        }
        let device = self.device(node, volume);
        if !device.open {
            return;
        }
        device.close();
        let is_connected = device.connection.is_some();
        self.page_events.push_back(PageEvent::Withdrawn(node, volume, everything()));
        if is_connected {
            self.say_keeps(node, volume, false);
        }
    }

    /// A client of the device reads.
    pub(super) fn device_read(&mut self, token: Token, node: NodeId, block: BlockId) {
        let device = self.device(node, block.volume);
        if let Some(tags) = device.page(block.index).cloned() {
            self.page_events.push_back(PageEvent::Used(node, block));
            return self.complete(token, Outcome::Read { tags, origin: None });
        }
        device.read(token, block.index);
        self.ask(node, block.volume);
    }

    /// Asks the node for what clients of the device wait for and it has not been asked for, if it may.
    fn ask(&mut self, node: NodeId, volume: PgId) {
        let now = self.clock(node);
        let device = self.device(node, volume);
        let Some(life) = device.connection.filter(|_| device.may_pass(now)) else { return };
        for (client, index) in device.unasked() {
            self.last_token += 1;
            let question = Token(self.last_token);
            self.device(node, volume).asked(client, question);
            let at = self.now + self.models.word(node, volume);
            let block = BlockId::new(volume, index);
            self.events.push(at, Event::Question { node, life, question, block });
        }
    }

    /// A device's read arrives at its node.
    pub(super) fn question(&mut self, node: NodeId, life: u64, question: Token, block: BlockId) {
        if self.lives(node, life) {
            self.outstanding.insert(question, Asker::Device(node, block.volume));
            // As often by one way as by the other.
            let inline = question.0.is_multiple_of(2);
            self.request(question, node, Request::Read { block, inline });
        }
    }

    /// The node has answered a device's read.
    pub(super) fn answer(&mut self, node: NodeId, volume: PgId, question: Token, outcome: Outcome) {
        let at = self.now + self.models.answer(node, volume);
        self.at_device(at, node, volume, AtDevice::Answer { question, outcome });
    }

    fn at_device(&mut self, at: Instant, node: NodeId, volume: PgId, what: AtDevice) {
        let life = self.place(node).life;
        self.events.push(at, Event::AtDevice { node, volume, life, what });
    }

    pub(super) fn device_event(&mut self, node: NodeId, volume: PgId, life: u64, what: AtDevice) {
        let is_connected = self.device(node, volume).connection == Some(life);
        match what {
            AtDevice::Connect if is_connected || !self.lives(node, life) => {}
            AtDevice::Connect => {
                let device = self.device(node, volume);
                assert!(
                    device.connection.is_none(),
                    "a node starts when the devices of its last process are rid of it"
                );
                device.connected(life);
                let open = device.open;
                self.say(node, volume, Word::Watch);
                if open {
                    self.say_keeps(node, volume, true);
                }
            }
            AtDevice::Notice(notice) if is_connected => self.notice(node, volume, notice),
            AtDevice::Answer { question, outcome } if is_connected => {
                self.answered(node, volume, question, outcome);
            }
            AtDevice::Gone(id) if is_connected => {
                let blocks = self.device(node, volume).withdrawn(id);
                trace!(self, "{node:?} device of {volume:?}: {blocks:?} withdrawn");
                self.page_events.push_back(PageEvent::Withdrawn(node, volume, blocks));
                self.say(node, volume, Word::Withdrawn(id));
                self.ask(node, volume);
            }
            AtDevice::Broken if is_connected => {
                trace!(self, "{node:?} device of {volume:?}: its node is gone");
                self.device(node, volume).broken();
                self.clear(node, volume, Why::Orphaned);
            }
            AtDevice::Notice(_) | AtDevice::Answer { .. } | AtDevice::Gone(_) | AtDevice::Broken => {}
            AtDevice::Lapse => {
                let now = self.clock(node);
                if self.device(node, volume).lapses(now) {
                    trace!(self, "{node:?} device of {volume:?}: lapse");
                    self.clear(node, volume, Why::Lapsed);
                }
            }
            AtDevice::Cleared(why) => {
                let pages = self.device(node, volume).clear();
                trace!(self, "{node:?} device of {volume:?}: {pages} pages gone, {why:?}");
                self.page_events.push_back(PageEvent::Cleared(node, volume, why, pages));
                self.ask(node, volume);
            }
        }
    }

    fn clear(&mut self, node: NodeId, volume: PgId, why: Why) {
        let at = self.now + self.models.withdraw(node, volume, why);
        self.at_device(at, node, volume, AtDevice::Cleared(why));
    }

    fn notice(&mut self, node: NodeId, volume: PgId, notice: Notice) {
        trace!(self, "{node:?} device of {volume:?} > {notice:?}");
        match notice {
            Notice::Valid(time) => {
                let until = time.map_or(Instant::NEVER, |time| Instant(self.clock(node).0 + time));
                if self.device(node, volume).valid(until) && until != Instant::NEVER {
                    let at = self.models.shows(node, until);
                    self.at_device(at, node, volume, AtDevice::Lapse);
                }
                self.ask(node, volume);
            }
            Notice::Keeping(pages) => {
                self.device(node, volume).keeping(pages);
                self.ask(node, volume);
            }
            Notice::Withdraw { id, blocks } => {
                self.device(node, volume).withdraw(id, blocks);
                let at = self.now + self.models.withdraw(node, volume, Why::Wanted);
                self.at_device(at, node, volume, AtDevice::Gone(id));
            }
        }
    }

    fn answered(&mut self, node: NodeId, volume: PgId, question: Token, outcome: Outcome) {
        let now = self.clock(node);
        match self.device(node, volume).answered(now, question) {
            Fate::Passed { client, block } => {
                if let Outcome::Read { tags, .. } = &outcome {
                    self.device(node, volume).fill(block, tags.clone());
                    self.page_events.push_back(PageEvent::Filled(node, BlockId::new(volume, block)));
                }
                self.complete(client, outcome);
            }
            Fate::Held { block } => {
                self.page_events.push_back(PageEvent::Voided(node, BlockId::new(volume, block)));
            }
            Fate::Unwanted => {}
        }
    }

    /// The volume is attached at the node: its device can connect.
    pub(super) fn device_connects(&mut self, node: NodeId, volume: PgId) {
        if self.devices.contains_key(&(node, volume)) {
            let at = self.now + self.models.word(node, volume);
            self.at_device(at, node, volume, AtDevice::Connect);
        }
    }

    /// The node's process ends: its devices notice it, each in its own time.
    pub(super) fn orphan_devices(&mut self, node: NodeId) {
        let volumes: Vec<PgId> = self.devices.range(of(node)).map(|((_, volume), _)| *volume).collect();
        for volume in volumes {
            let at = self.now + self.models.notice(node, volume);
            self.at_device(at, node, volume, AtDevice::Broken);
        }
    }

    fn say_keeps(&mut self, node: NodeId, volume: PgId, pages: bool) {
        self.device(node, volume).says_keeps();
        self.say(node, volume, Word::Keeps(pages));
    }

    /// The device says something to its node.
    fn say(&mut self, node: NodeId, volume: PgId, word: Word) {
        let at = self.now + self.models.word(node, volume);
        let device = self.device(node, volume);
        let Some(life) = device.connection else { return };
        let at = at.max(device.last_word);
        device.last_word = at;
        device.words.push_back((life, word));
        self.events.push(at, Event::Word { node, volume });
    }

    /// The node says something to its device.
    fn tell(&mut self, node: NodeId, volume: PgId, notice: Notice) {
        let at = self.now + self.models.word(node, volume);
        let device = self.device(node, volume);
        let at = at.max(device.last_notice);
        device.last_notice = at;
        self.at_device(at, node, volume, AtDevice::Notice(notice));
    }

    /// A device's word arrives at its node.
    pub(super) fn word(&mut self, node: NodeId, volume: PgId) {
        let (life, word) = self.device(node, volume).words.pop_front().expect("one event for each word");
        if !self.lives(node, life) {
            return;
        }
        trace!(self, "{node:?} device of {volume:?} < {word:?}");
        match word {
            Word::Watch => {
                self.running(node).watches.insert(volume, Watch::default());
                self.tell_lease(node, volume);
            }
            Word::Keeps(kept) => {
                let watch = self.running(node).watches.entry(volume).or_default();
                watch.pages = kept;
                let waiting = if kept { Default::default() } else { std::mem::take(&mut watch.open) };
                self.control_input(node, ControlInput::Pages { volume, kept });
                for shard in 0..self.config.shards {
                    self.shard_input(node, shard, Input::Pages { volume, kept });
                }
                for waiter in waiting.into_values() {
                    self.pages_gone(node, life, volume, waiter);
                }
                self.tell(node, volume, Notice::Keeping(kept));
            }
            Word::Withdrawn(id) => {
                let watch = self.running(node).watches.get_mut(&volume);
                if let Some(waiter) = watch.and_then(|watch| watch.open.remove(&id)) {
                    self.pages_gone(node, life, volume, waiter);
                }
            }
        }
    }

    /// What a device is told of the lease when it comes, or its node becomes the primary; later ones are told as they come.
    pub(super) fn tell_lease(&mut self, node: NodeId, volume: PgId) {
        let read_only = self.config.volumes.iter().any(|spec| spec.id == volume && spec.read_only);
        let is_primary = |control: &Control| control.volume(volume).is_some_and(|spec| spec.primary == node);
        if read_only || self.control(node).is_some_and(is_primary) {
            self.tell(node, volume, Notice::Valid(None));
        } else if let Some(&until) = self.running(node).leases.get(&volume) {
            self.leased(node, volume, until);
        }
    }

    /// The card's lease runs until then.
    pub(super) fn leased(&mut self, node: NodeId, volume: PgId, until: Instant) {
        let now = self.clock(node);
        let life = self.running(node);
        life.leases.insert(volume, until);
        if life.watches.contains_key(&volume) {
            self.tell(node, volume, Notice::Valid(Some(until.0.saturating_sub(now.0))));
        }
    }

    /// The core of the node wants pages withdrawn. No page is gone at once.
    pub(super) fn withdraw(&mut self, node: NodeId, volume: PgId, waiter: Waiter, blocks: Vec<Range<u32>>) {
        let life = self.place(node).life;
        let watch = self.running(node).watches.get_mut(&volume).filter(|watch| watch.pages);
        match watch.map(|watch| watch.enter(waiter)) {
            Some(id) => self.tell(node, volume, Notice::Withdraw { id, blocks }),
            None => self.events.push(self.now, Event::NoPages { node, life, volume, waiter }),
        }
    }

    /// Tells the core that the pages it wanted withdrawn are gone.
    pub(super) fn pages_gone(&mut self, node: NodeId, life: u64, volume: PgId, waiter: Waiter) {
        if !self.lives(node, life) {
            return;
        }
        match waiter {
            Waiter::Shard(shard, id) => self.shard_input(node, shard, Input::Withdrawn { id }),
            Waiter::Control => self.control_input(node, ControlInput::Withdrawn { volume }),
        }
    }
}

/// All blocks of a volume.
pub(super) fn everything() -> Vec<Range<u32>> {
    vec![Range { start: 0, end: u32::MAX }]
}

/// The devices of a node.
fn of(node: NodeId) -> std::ops::RangeInclusive<(NodeId, PgId)> {
    (node, PgId(0))..=(node, PgId(u32::MAX))
}
