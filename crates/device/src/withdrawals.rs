//! Which pages the kernel must drop, and which READs must wait for it: a state machine without threads or sockets.
//!
//! It is told what happens and says what to do ([`Output`]). See the crate's documentation for why it is right.
//!
//! - [`received`](Withdrawals::received): a READ that fills pages has come from the kernel;
//! - [`replied`](Withdrawals::replied): the daemon has answered it. If the answer may be passed on, pass it on and say
//!   [`answered`](Withdrawals::answered); otherwise throw it away: an [`Output::Ask`] follows in time;
//! - [`withdraw`](Withdrawals::withdraw): pages must be dropped; [`notified`](Withdrawals::notified): these are;
//! - [`overdue`](Withdrawals::overdue): the answer that a withdrawal waits for has not come in time;
//! - [`valid`](Withdrawals::valid), [`lapsed`](Withdrawals::lapsed): pages may be used, or no more;
//! - [`lost`](Withdrawals::lost): the daemon is gone, and with it the answers to all that was asked.
//!
//! After each, take all outputs with [`poll`](Withdrawals::poll).

mod ranges;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use ranges::{Range, without};

/// Names a READ: what the caller likes, unique among those that are not answered.
pub(crate) type Read = usize;

/// Most questions that are open at a time for one READ.
const OPEN_MAX: u32 = 4;

/// Who waits for a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The daemon, under the name it gave.
    Daemon(u64),
    /// Pages may be kept from now on, and those that are there came before.
    Opening,
    /// The last file that used pages was closed.
    Closed,
    /// Nobody: pages ran out of time.
    Nobody,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Ask the daemon for the data of this READ.
    Ask(Read),
    /// Have the kernel drop these pages, on a thread, as it may block; then say [`Withdrawals::notified`]. Another
    /// such output may come before that: then this one is blocked, and the other must not wait for it.
    Notify {
        /// Its name.
        token: u64,
        /// The pages, as bytes.
        range: Range,
    },
    /// A withdrawal waits for the answer to this READ. It must not for ever: say [`Withdrawals::overdue`] after a time
    /// that is short, and the longer the more often the READ was asked in vain.
    Await {
        /// The READ.
        read: Read,
        /// How many of its answers were thrown away; at least one.
        voided: u32,
    },
    /// No page of the withdrawal is left.
    Done(Cause),
}

/// A READ between its arrival and its answer.
#[derive(Debug)]
struct Waiting {
    pages: Range,
    state: State,
    /// Questions that are not answered, of which only the last can be of use.
    open: u32,
    /// Answers that were thrown away, or will be.
    voided: u32,
    /// Withdrawals that wait for the answer, to drop its pages then.
    awaited_by: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Must not be asked for yet, or asked for again; what was asked before must be thrown away.
    Held,
    /// To be asked for at the next [`Withdrawals::poll`]: what is answered until then was asked before.
    Due,
    /// Asked for; the answer may be passed on.
    Asked,
}

#[derive(Debug)]
struct Withdrawal {
    cause: Cause,
    ranges: Vec<Range>,
    /// Intervals that the kernel has not dropped, and READs whose answers are waited for.
    left: usize,
}

/// A part of a withdrawal that is dropped at one go.
#[derive(Clone, Debug)]
struct Interval {
    withdrawal: u64,
    range: Range,
}

/// The state machine.
#[derive(Debug)]
pub(crate) struct Withdrawals {
    /// Bytes of a page.
    page: u64,
    valid: bool,
    reads: BTreeMap<Read, Waiting>,
    withdrawals: BTreeMap<u64, Withdrawal>,
    /// Intervals the kernel has not been told of.
    queue: VecDeque<Interval>,
    /// The one it has been told of, and the notification's name.
    active: Option<(u64, Interval)>,
    /// The next name, of withdrawals and of notifications.
    next: u64,
    outputs: VecDeque<Output>,
}

impl Withdrawals {
    /// Nothing is kept, and nothing may be. A page has `page` bytes, a power of two.
    pub(crate) fn new(page: u64) -> Self {
        Self {
            page,
            valid: false,
            reads: BTreeMap::new(),
            withdrawals: BTreeMap::new(),
            queue: VecDeque::new(),
            active: None,
            next: 0,
            outputs: VecDeque::new(),
        }
    }

    /// The next thing to do.
    pub(crate) fn poll(&mut self) -> Option<Output> {
        while let Some(output) = self.outputs.pop_front() {
            let Output::Ask(read) = output else { return Some(output) };
            // It may have been withdrawn again, or answered with an error, meanwhile.
            if let Some(waiting) = self.reads.get_mut(&read)
                && waiting.state == State::Due
            {
                waiting.state = State::Asked;
                waiting.open += 1;
                return Some(output);
            }
        }
        None
    }

    /// A READ has arrived that fills the pages that `range` touches. They are locked until it is answered.
    pub(crate) fn received(&mut self, read: Read, range: Range) {
        let pages = self.pages(range);
        self.split(&pages);
        self.reads
            .insert(read, Waiting { pages, state: State::Held, open: 0, voided: 0, awaited_by: Vec::new() });
        self.release();
        self.advance();
    }

    /// The daemon has answered the READ with data; `last`: what was asked last. Whether the data may go to the kernel.
    pub(crate) fn replied(&mut self, read: Read, last: bool) -> bool {
        let Some(waiting) = self.reads.get_mut(&read) else { return last };
        waiting.open = waiting.open.saturating_sub(1);
        if last && waiting.state == State::Asked {
            return true;
        }
        self.release();
        false
    }

    /// The READ has been answered, with data or an error: its pages are unlocked, and dropped if that is waited for.
    pub(crate) fn answered(&mut self, read: Read) {
        let Some(Waiting { pages, awaited_by, .. }) = self.reads.remove(&read) else { return };
        for name in awaited_by {
            let Some(withdrawal) = self.withdrawals.get_mut(&name) else { continue };
            let parts = withdrawal.ranges.iter().filter(|range| overlap(range, &pages));
            let parts = parts.map(|range| range.start.max(pages.start)..range.end.min(pages.end));
            let before = self.queue.len();
            self.queue.extend(parts.map(|range| Interval { withdrawal: name, range }));
            withdrawal.left += self.queue.len() - before;
            self.drop_interval(name);
        }
        self.advance();
    }

    /// The answer to the READ has not come in time: no withdrawal waits for it any more, and it will be thrown away.
    pub(crate) fn overdue(&mut self, read: Read) {
        if self.reads.get(&read).is_some_and(|waiting| !waiting.awaited_by.is_empty()) {
            self.void(read);
        }
    }

    /// No page of `ranges` may be used any more. [`Output::Done`] follows when none can.
    pub(crate) fn withdraw(&mut self, cause: Cause, ranges: &[Range]) {
        let ranges: Vec<Range> = ranges.iter().map(|range| self.pages(range.clone())).collect();
        let mut locked: Vec<Range> = Vec::new();
        let mut void: Vec<Read> = Vec::new();
        let mut left = 0;
        let name = self.name();
        for (&read, waiting) in &mut self.reads {
            if !ranges.iter().any(|range| overlap(range, &waiting.pages)) {
                continue;
            }
            locked.push(waiting.pages.clone());
            if waiting.state != State::Asked {
                waiting.state = State::Held;
                continue;
            }
            // Only a daemon that withdraws pages for others goes on answering.
            if waiting.voided == 0 || !matches!(cause, Cause::Daemon(_)) {
                void.push(read);
                continue;
            }
            if waiting.awaited_by.is_empty() {
                self.outputs.push_back(Output::Await { read, voided: waiting.voided });
            }
            waiting.awaited_by.push(name);
            left += 1;
        }
        locked.sort_unstable_by_key(|range| range.start);
        let before = self.queue.len();
        for range in &ranges {
            let rest = without(range.clone(), &locked);
            self.queue.extend(rest.into_iter().map(|range| Interval { withdrawal: name, range }));
        }
        left += self.queue.len() - before;
        self.withdrawals.insert(name, Withdrawal { cause, ranges, left });
        void.into_iter().for_each(|read| self.void(read));
        self.finish(name);
        self.advance();
    }

    /// No page at all may be used any more.
    pub(crate) fn withdraw_all(&mut self, cause: Cause) {
        self.withdraw(cause, std::slice::from_ref(&(0..u64::MAX)));
    }

    /// The kernel has dropped the pages of the notification `token`.
    pub(crate) fn notified(&mut self, token: u64) {
        // One that a READ blocked is not waited for: its interval was split when the READ arrived.
        if let Some((_, interval)) = self.active.take_if(|(active, _)| *active == token) {
            self.drop_interval(interval.withdrawal);
            self.advance();
        }
    }

    /// From now on pages may be used.
    pub(crate) fn valid(&mut self) {
        self.valid = true;
        self.release();
    }

    /// From now on no page may be used.
    pub(crate) fn lapsed(&mut self) {
        if std::mem::replace(&mut self.valid, false) {
            self.withdraw_all(Cause::Nobody);
        }
    }

    /// The daemon is gone: nothing it was asked for will be answered, and it waits for nothing any more.
    pub(crate) fn lost(&mut self) {
        self.lapsed();
        for withdrawal in self.withdrawals.values_mut() {
            if let Cause::Daemon(_) | Cause::Opening = withdrawal.cause {
                withdrawal.cause = Cause::Nobody;
            }
        }
        for waiting in self.reads.values_mut() {
            (waiting.state, waiting.open) = (State::Held, 0);
        }
        self.outputs.retain(|output| {
            !matches!(output, Output::Ask(_) | Output::Done(Cause::Daemon(_) | Cause::Opening))
        });
    }

    /// Whether pages are being withdrawn.
    pub(crate) fn is_dropping(&self) -> bool {
        !self.withdrawals.is_empty()
    }

    /// The pages that `range` touches.
    fn pages(&self, range: Range) -> Range {
        let mask = self.page - 1;
        range.start & !mask..range.end.saturating_add(mask) & !mask
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Takes `pages`, which have been locked, out of all intervals: nobody can use them, and a notification of them
    /// would wait for the READ that locked them.
    fn split(&mut self, pages: &Range) {
        let blocked = self.active.take_if(|(_, interval)| overlap(&interval.range, pages));
        let queued = std::mem::take(&mut self.queue);
        for interval in blocked.into_iter().map(|(_, interval)| interval).chain(queued) {
            if !overlap(&interval.range, pages) {
                self.queue.push_back(interval);
                continue;
            }
            let rest = without(interval.range, std::slice::from_ref(pages));
            if let Some(withdrawal) = self.withdrawals.get_mut(&interval.withdrawal) {
                withdrawal.left += rest.len();
            }
            let name = interval.withdrawal;
            self.queue.extend(rest.into_iter().map(|range| Interval { withdrawal: name, range }));
            self.drop_interval(name);
        }
    }

    /// The answer to the READ, which was asked for, must be thrown away.
    fn void(&mut self, read: Read) {
        let Some(waiting) = self.reads.get_mut(&read) else { return };
        waiting.state = State::Held;
        waiting.voided = waiting.voided.saturating_add(1);
        for name in std::mem::take(&mut waiting.awaited_by) {
            self.drop_interval(name);
        }
    }

    /// One of the things a withdrawal waits for is done with.
    fn drop_interval(&mut self, name: u64) {
        if let Some(withdrawal) = self.withdrawals.get_mut(&name) {
            withdrawal.left -= 1;
        }
        self.finish(name);
    }

    /// Says that a withdrawal is done, if it is.
    fn finish(&mut self, name: u64) {
        if self.withdrawals.get(&name).is_some_and(|withdrawal| withdrawal.left == 0) {
            if let Some(withdrawal) = self.withdrawals.remove(&name) {
                self.outputs.push_back(Output::Done(withdrawal.cause));
            }
            self.release();
        }
    }

    /// Asks for every READ that need not wait any more.
    fn release(&mut self) {
        if !self.valid {
            return;
        }
        for (read, waiting) in &mut self.reads {
            let withdrawn = || {
                let mut ranges = self.withdrawals.values().flat_map(|withdrawal| &withdrawal.ranges);
                ranges.any(|range| overlap(range, &waiting.pages))
            };
            if waiting.state == State::Held && waiting.open < OPEN_MAX && !withdrawn() {
                waiting.state = State::Due;
                self.outputs.push_back(Output::Ask(*read));
            }
        }
    }

    /// Tells the kernel of the next interval, if it is not busy with one.
    fn advance(&mut self) {
        if self.active.is_none()
            && let Some(interval) = self.queue.pop_front()
        {
            let token = self.name();
            self.outputs.push_back(Output::Notify { token, range: interval.range.clone() });
            self.active = Some((token, interval));
        }
    }
}

fn overlap(a: &Range, b: &Range) -> bool {
    a.start < b.end && b.start < a.end
}
