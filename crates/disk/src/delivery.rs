//! When reads start and when their completions are delivered: the three modes of the remote disk driver.
//!
//! Remote disk drivers paper, sections 5 and 6.1 (RDD-5 to RDD-7). There one kernel thread serves a disk;
//! here one engine per data thread does, and each keeps its own discipline. Only reads pass through it: it is
//! about the overlap of disk reads with the sending of blocks.

use std::collections::VecDeque;

/// How an engine paces reads and hands out their completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// A read starts at once and is delivered when it completes (section 6.1, "event driven"): the most
    /// overlap, and no fairness between requesters.
    #[default]
    Event,
    /// A worker launches every read that waits, sleeps until the first completes and delivers them one after
    /// another; it takes no new batch until the last is delivered (section 6.1, "asynchronous"). Disk reads
    /// of a batch overlap; delivery does not overlap with taking requests.
    Thread,
    /// One read at a time, delivered before the next starts (section 5; rejected there, kept for comparison).
    Sync,
}

/// The queue in front of an engine. Reads are numbers; the engine knows what they mean.
#[derive(Debug)]
pub(crate) struct Discipline {
    mode: Delivery,
    waiting: VecDeque<u32>,
    /// Reads of the current batch that may still be launched.
    launchable: usize,
    /// Reads of the current batch whose delivery has not ended. Not counted in `Event` mode.
    batch: usize,
    /// Whether a read was handed to the worker, who has not come back for more: its delivery goes on.
    delivering: bool,
}

impl Discipline {
    pub(crate) fn new(mode: Delivery) -> Self {
        Self { mode, waiting: VecDeque::new(), launchable: 0, batch: 0, delivering: false }
    }

    /// A read arrived.
    pub(crate) fn push(&mut self, id: u32) {
        self.waiting.push_back(id);
    }

    /// The worker is back for more: what it was handed is delivered.
    pub(crate) fn worker_back(&mut self) {
        if std::mem::take(&mut self.delivering) {
            self.batch -= 1;
        }
        if self.batch == 0 {
            self.launchable = match self.mode {
                Delivery::Event => 0,
                Delivery::Thread => self.waiting.len(),
                Delivery::Sync => self.waiting.len().min(1),
            };
            self.batch = self.launchable;
        }
    }

    /// The next read to start, if one may start now.
    pub(crate) fn launch(&mut self) -> Option<u32> {
        if self.mode == Delivery::Event {
            return self.waiting.pop_front();
        }
        self.launchable = self.launchable.checked_sub(1)?;
        self.waiting.pop_front()
    }

    /// Whether completed reads are handed out one by one, with [`Self::handed`] after each.
    pub(crate) fn one_by_one(&self) -> bool {
        self.mode != Delivery::Event
    }

    /// A completed read is handed to the worker.
    pub(crate) fn handed(&mut self) {
        if self.one_by_one() {
            assert!(!self.delivering, "the worker delivers one read at a time");
            self.delivering = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch_all(queue: &mut Discipline) -> Vec<u32> {
        std::iter::from_fn(|| queue.launch()).collect()
    }

    #[test]
    fn event_starts_reads_at_once() {
        let mut queue = Discipline::new(Delivery::Event);
        queue.worker_back();
        queue.push(1);
        assert_eq!(launch_all(&mut queue), [1]);
        queue.push(2);
        queue.push(3);
        assert_eq!(launch_all(&mut queue), [2, 3]);
    }

    #[test]
    fn thread_takes_no_batch_before_the_last_is_delivered() {
        let mut queue = Discipline::new(Delivery::Thread);
        queue.push(1);
        queue.push(2);
        queue.worker_back();
        assert_eq!(launch_all(&mut queue), [1, 2]);
        queue.push(3);
        queue.push(4);
        queue.worker_back();
        assert_eq!(launch_all(&mut queue), [], "the batch runs");
        queue.handed();
        queue.worker_back();
        assert_eq!(launch_all(&mut queue), [], "one of two delivered");
        queue.handed();
        assert_eq!(launch_all(&mut queue), [], "the second is being delivered");
        queue.worker_back();
        assert_eq!(launch_all(&mut queue), [3, 4]);
    }

    #[test]
    fn sync_runs_one_at_a_time() {
        let mut queue = Discipline::new(Delivery::Sync);
        queue.push(1);
        queue.push(2);
        queue.worker_back();
        assert_eq!(launch_all(&mut queue), [1]);
        queue.handed();
        assert_eq!(launch_all(&mut queue), []);
        queue.worker_back();
        assert_eq!(launch_all(&mut queue), [2]);
    }
}
