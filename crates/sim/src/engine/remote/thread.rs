//! The thread that serves a disk, where completions do not (RDD-5, RDD-6).

use std::collections::VecDeque;

use super::disk::Wanted;
use super::volume::Delivery;

/// What it has before it.
#[derive(Debug)]
pub(super) struct Thread {
    /// Blocks of a batch, at most.
    most: usize,
    /// Asked for, and not launched.
    waiting: VecDeque<Wanted>,
    /// Launched, and not read.
    launched: usize,
    /// Read, and not sent.
    read: VecDeque<Wanted>,
    is_sending: bool,
}

/// What it does next.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Has these read.
    Launch(Vec<Wanted>),
    /// Sends this one; it has been woken up for it.
    Send {
        wanted: Wanted,
        has_slept: bool,
    },
    Sleep,
}

impl Thread {
    /// None if completions send.
    pub(super) fn new(delivery: Delivery) -> Option<Self> {
        let most = match delivery {
            Delivery::Event => return None,
            Delivery::Sync => 1,
            Delivery::Thread(most) => most as usize,
        };
        Some(Self { most, waiting: VecDeque::new(), launched: 0, read: VecDeque::new(), is_sending: false })
    }

    pub(super) fn ask(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    pub(super) fn read(&mut self, wanted: Vec<Wanted>) {
        self.launched -= wanted.len();
        self.read.extend(wanted);
    }

    /// It has sent what it was given.
    pub(super) fn sent(&mut self) {
        self.is_sending = false;
    }

    /// What it does next, unless it is at something: after every other call. `has_slept`: it was not just [sending](Self::sent).
    pub(super) fn next(&mut self, has_slept: bool) -> Step {
        if self.is_sending {
            return Step::Sleep;
        }
        if let Some(wanted) = self.read.pop_front() {
            self.is_sending = true;
            return Step::Send { wanted, has_slept };
        }
        if self.launched > 0 || self.waiting.is_empty() {
            return Step::Sleep;
        }
        self.launched = self.waiting.len().min(self.most);
        Step::Launch(self.waiting.drain(..self.launched).collect())
    }

    pub(super) fn is_idle(&self) -> bool {
        !self.is_sending && self.launched == 0 && self.waiting.is_empty() && self.read.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_sent_one_by_one_before_the_next_is_launched() {
        let mut thread = Thread::new(Delivery::Thread(2)).unwrap();
        let [a, b, c] = [1, 2, 3].map(|block| Wanted { server: 0, block });
        [a, b, c].into_iter().for_each(|one| thread.ask(one));
        assert_eq!(thread.next(true), Step::Launch(vec![a, b]));
        assert_eq!(thread.next(true), Step::Sleep);
        thread.read(vec![b]);
        assert_eq!(thread.next(true), Step::Send { wanted: b, has_slept: true });
        thread.read(vec![a]);
        assert_eq!(thread.next(true), Step::Sleep);
        thread.sent();
        assert_eq!(thread.next(false), Step::Send { wanted: a, has_slept: false });
        assert_eq!(thread.next(true), Step::Sleep);
        thread.sent();
        assert_eq!(thread.next(false), Step::Launch(vec![c]));
        thread.read(vec![c]);
        thread.next(true);
        thread.sent();
        assert_eq!((thread.next(false), thread.is_idle()), (Step::Sleep, true));
        assert!(Thread::new(Delivery::Event).is_none());
    }
}
