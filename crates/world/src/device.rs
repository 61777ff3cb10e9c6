//! A volume as a local device of a node, and the pages that a kernel keeps of it.
//!
//! A device is a process of its own: it outlives its node's and goes on while that stands still. These are its rules:
//!
//! - It passes answers on, which then are pages, only while its node knows that pages are kept and its lease runs.
//! - A page that is there is used until it is gone, whatever has been asked meanwhile.
//! - An answer is void if its block has been withdrawn since the question: it is asked anew.
//! - While its block is being withdrawn, an answer is void, or becomes a page that goes with the others.
//! - Without a lease, or without its node, all pages go and all questions are void.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use cards_core::{Instant, Token, WithdrawalId};

use crate::memory::Tags;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// A client has it open.
    pub(crate) open: bool,
    /// The life of the node that it is connected to.
    pub(crate) connection: Option<u64>,
    /// All pages are being withdrawn, because of the lease or the node.
    pub(crate) clearing: bool,
    /// By the node's clock.
    valid_until: Instant,
    keeping: bool,
    /// How often it has told its node whether it keeps pages, and has no answer yet.
    unanswered: u32,
    pages: BTreeMap<u32, Tags>,
    /// Reads of its clients.
    reads: BTreeMap<Token, DeviceRead>,
    /// What is being withdrawn.
    pending: BTreeMap<u64, Vec<Range<u32>>>,
    /// What it has said, and to which life of its node, that has not arrived: words do not overtake each other, whatever
    /// makes their node stand still.
    pub(crate) words: VecDeque<(u64, Word)>,
    /// When the last word and the last notice arrive.
    pub(crate) last_word: Instant,
    pub(crate) last_notice: Instant,
}

#[derive(Clone, Copy, Debug)]
struct DeviceRead {
    block: u32,
    /// The node has been asked, and the answer is not void yet.
    question: Option<Token>,
}

/// What becomes of an answer of the node.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is passed on to this client.
    Passed { client: Token, block: u32 },
    /// Void while it was under way, and now asked anew when the pages are gone and the lease runs.
    Held { block: u32 },
    /// Expired before: no client waits for it.
    Unwanted,
}

/// What a device says to its node, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// It is here.
    Watch,
    /// Whether it keeps pages.
    Keeps(bool),
    /// The pages are gone.
    Withdrawn(u64),
}

/// What a node says to its device, in order.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// The lease runs for so long from now on, in nanoseconds; none: for ever.
    Valid(Option<u64>),
    /// Answers [`Word::Keeps`].
    Keeping(bool),
    /// These pages must go.
    Withdraw { id: u64, blocks: Vec<Range<u32>> },
}

/// A node's side of a device.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) pages: bool,
    last: u64,
    /// Who waits for pages to go.
    pub(crate) open: BTreeMap<u64, Waiter>,
}

/// Who waits for pages to go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Shard(u16, WithdrawalId),
    Control,
}

impl Watch {
    /// Names a withdrawal that `waiter` waits for.
    pub(crate) fn enter(&mut self, waiter: Waiter) -> u64 {
        self.last += 1;
        self.open.insert(self.last, waiter);
        self.last
    }
}

impl Device {
    /// Whether an answer that comes now becomes a page.
    pub(crate) fn may_pass(&self, now: Instant) -> bool {
        let keeps = self.open && self.keeping && self.unanswered == 0;
        keeps && self.connection.is_some() && !self.clearing && now < self.valid_until
    }

    /// Whether its node's last process has left something here.
    pub(crate) fn is_orphan(&self) -> bool {
        self.connection.is_some() || !self.pages.is_empty()
    }

    pub(crate) fn page(&self, block: u32) -> Option<&Tags> {
        self.pages.get(&block)
    }

    pub(crate) fn connected(&mut self, life: u64) {
        self.connection = Some(life);
    }

    pub(crate) fn says_keeps(&mut self) {
        self.unanswered += 1;
    }

    pub(crate) fn keeping(&mut self, pages: bool) {
        self.unanswered -= 1;
        self.keeping = pages;
    }

    /// The lease runs until then. True when it was not known to run so long, or to end.
    pub(crate) fn valid(&mut self, until: Instant) -> bool {
        let before = self.valid_until;
        // Its node was the primary, which needs no lease, and is that no more.
        let is_bounded = before == Instant::NEVER && until != Instant::NEVER;
        self.valid_until = if is_bounded { until } else { before.max(until) };
        is_bounded || until > before
    }

    /// A client reads; [`Self::asked`] follows.
    pub(crate) fn read(&mut self, client: Token, block: u32) {
        self.reads.insert(client, DeviceRead { block, question: None });
    }

    /// Reads of which the node has not been asked, and their blocks.
    pub(crate) fn unasked(&self) -> Vec<(Token, u32)> {
        let reads = self.reads.iter().filter(|(_, read)| read.question.is_none());
        reads.map(|(client, read)| (*client, read.block)).collect()
    }

    pub(crate) fn asked(&mut self, client: Token, question: Token) {
        if let Some(read) = self.reads.get_mut(&client) {
            read.question = Some(question);
        }
    }

    /// The node has answered.
    pub(crate) fn answered(&mut self, now: Instant, question: Token) -> Fate {
        let passes = self.may_pass(now);
        let read = self.reads.iter_mut().find(|(_, read)| read.question == Some(question));
        let Some((&client, read)) = read else { return Fate::Unwanted };
        let block = read.block;
        let withdrawn = self.pending.values().flatten().any(|range| range.contains(&block));
        // As often one as the other: a real device waits only for some answers, and not for ever.
        let awaited = question.0 & 2 != 0;
        if !passes || withdrawn && !awaited {
            read.question = None;
            return Fate::Held { block };
        }
        self.reads.remove(&client);
        Fate::Passed { client, block }
    }

    pub(crate) fn fill(&mut self, block: u32, tags: Tags) {
        self.pages.insert(block, tags);
    }

    pub(crate) fn withdraw(&mut self, id: u64, blocks: Vec<Range<u32>>) {
        self.pending.insert(id, blocks);
    }

    /// The pages of a withdrawal are gone. Which those were.
    pub(crate) fn withdrawn(&mut self, id: u64) -> Vec<Range<u32>> {
        let blocks = self.pending.remove(&id).unwrap_or_default();
        let concerns = |block: u32| blocks.iter().any(|range| range.contains(&block));
        self.pages.retain(|&block, _| !concerns(block));
        self.reads.values_mut().filter(|read| concerns(read.block)).for_each(|read| read.question = None);
        blocks
    }

    /// The lease runs out, if it is not longer by now: whatever was asked is void.
    pub(crate) fn lapses(&mut self, now: Instant) -> bool {
        let lapses = now >= self.valid_until && !self.pages.is_empty() && !self.clearing;
        if now >= self.valid_until {
            self.void();
        }
        self.clearing |= lapses;
        lapses
    }

    /// Its node is gone.
    pub(crate) fn broken(&mut self) {
        self.connection = None;
        (self.keeping, self.unanswered) = (false, 0);
        self.valid_until = Instant::default();
        self.pending.clear();
        self.clearing = true;
        self.void();
    }

    fn void(&mut self) {
        self.reads.values_mut().for_each(|read| read.question = None);
    }

    /// All pages are gone. How many those were.
    pub(crate) fn clear(&mut self) -> usize {
        self.clearing = false;
        std::mem::take(&mut self.pages).len()
    }

    /// Closes the device.
    pub(crate) fn close(&mut self) {
        self.open = false;
        self.keeping = false;
        self.pages.clear();
    }

    /// The reads of its clients end without an answer.
    pub(crate) fn abandon(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.reads).into_keys().collect()
    }
}
