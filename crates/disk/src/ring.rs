//! io_uring: one ring per engine, its descriptor in the data thread's runtime.
//!
//! Reads, writes and syncs go through the ring; small buffered writes do not, because most file systems cannot do
//! them without blocking, and the kernel's own workers take longer over each than the pool does over a batch. The SQEs of a turn of the loop enter the kernel together;
//! completions are taken from shared memory without a system call, and the runtime watches the ring's
//! descriptor only while none is there. Whatever the ring cannot do is set aside for the pool.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::error::JobError;
use crate::exec::{TRANSFER_MAX, no_progress};
use crate::file::Files;
use crate::job::{Finished, Op, Outcome, Work};
use crate::pool::is_small_write;
use crate::slab::Slab;

/// Submission queue entries; the most jobs of one `io_uring_enter`.
const ENTRIES: u32 = 128;
/// Completion queue entries; the most jobs in the kernel at a time.
const IN_FLIGHT_MAX: u32 = 512;

/// An engine's ring.
#[derive(Debug)]
pub(crate) struct Ring {
    uring: AsyncFd<Uring>,
    files: Arc<Files>,
    /// Works from their SQE to their last CQE; the index is the `user_data`.
    slots: Slab<Slot>,
    /// Works that have no SQE yet.
    backlog: VecDeque<Work>,
    /// Slots whose SQE is in the queue and not yet consumed by the kernel, oldest first.
    queued: VecDeque<u32>,
    /// Works for the pool.
    aside: Vec<Work>,
    /// `io_uring_enter` fails for good; set once, everything new is set aside.
    broken: bool,
}

#[derive(Debug)]
struct Slot {
    work: Work,
    /// Bytes transferred by earlier SQEs.
    done: usize,
}

/// `IoUring` with the trait its holder needs.
struct Uring(IoUring);

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").finish_non_exhaustive()
    }
}

impl std::os::fd::AsRawFd for Uring {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

impl Ring {
    /// A ring that was seen to work, or why there is none.
    pub(crate) fn new(files: Arc<Files>) -> io::Result<Self> {
        let mut uring = IoUring::builder().dontfork().setup_cqsize(IN_FLIGHT_MAX).build(ENTRIES)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        if ![opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE]
            .iter()
            .all(|&op| probe.is_supported(op))
        {
            return Err(io::Error::other("the kernel's io_uring cannot read and write (older than 5.6)"));
        }
        // Filters may allow the set-up and refuse the use.
        let nop = opcode::Nop::new().build();
        // SAFETY: a no-op uses no memory.
        unsafe { uring.submission().push(&nop) }.expect("a new queue has room");
        uring.submit_and_wait(1)?;
        if uring.completion().next().is_none() {
            return Err(io::Error::other("io_uring completed nothing"));
        }
        // SAFETY: `IoUring` owns its descriptor and answers with the same one until it is dropped.
        let uring = unsafe { AsyncFd::register_with_interest(Uring(uring), Interest::READABLE) }
            .map_err(|error| error.into_parts().1)?;
        Ok(Self {
            uring,
            files,
            slots: Slab::new(),
            backlog: VecDeque::new(),
            queued: VecDeque::new(),
            aside: Vec::new(),
            broken: false,
        })
    }

    /// Takes `work`; it starts at the next [`Self::turn`].
    pub(crate) fn push(&mut self, work: Work) {
        match work.op {
            Op::Write { .. } if is_small_write(&self.files, &work) => self.aside.push(work),
            Op::Read { .. } | Op::Write { .. } | Op::Flush if !self.broken => self.backlog.push_back(work),
            _ => self.aside.push(work),
        }
    }

    /// What the pool is to do instead.
    pub(crate) fn aside(&mut self) -> std::vec::Drain<'_, Work> {
        self.aside.drain(..)
    }

    /// Starts what waits and collects what is done; if that is nothing, arranges for `cx` to be woken.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>, out: &mut Vec<Finished>) {
        loop {
            let stalled = self.enter();
            self.reap(out);
            if !out.is_empty() {
                return; // the caller comes back for the rest
            }
            if self.unsent() && !stalled {
                continue; // a short transfer goes on, or completions made room
            }
            // Edge triggered: look at the queue once more after clearing, then it is safe to sleep.
            match self.uring.poll_read_ready(cx) {
                Poll::Ready(Ok(mut guard)) => guard.clear_ready(),
                // The runtime shuts down and polls nothing any more.
                Poll::Ready(Err(_)) => return,
                Poll::Pending => {
                    if stalled && self.unsent() {
                        // The kernel was short of memory; nothing else may wake the task.
                        cx.waker().wake_by_ref();
                    }
                    return;
                }
            }
        }
    }

    /// Whether something could enter the kernel now.
    fn unsent(&self) -> bool {
        !self.queued.is_empty() || !self.backlog.is_empty() && self.slots.len() < IN_FLIGHT_MAX as usize
    }

    /// Fills the submission queue and enters the kernel, once unless there is more than a queue of work. Says
    /// whether the kernel refused for the moment.
    fn enter(&mut self) -> bool {
        while self.unsent() {
            while self.slots.len() < IN_FLIGHT_MAX as usize && self.queued.len() < ENTRIES as usize {
                let Some(work) = self.backlog.pop_front() else { break };
                let slot = self.slots.insert(Slot { work, done: 0 });
                self.queue(slot);
            }
            match self.uring.get_ref().0.submit() {
                Ok(consumed) => _ = self.queued.drain(..consumed.min(self.queued.len())),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Out of memory, or the completion queue is full: after the next completions.
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => return true,
                    _ => self.give_up(&error),
                },
            }
        }
        false
    }

    /// Puts the SQE for the rest of `slot` in the queue, which has room.
    fn queue(&mut self, slot: u32) {
        let Slot { work, done } = self.slots.get_mut(slot);
        let sqe = entry(&self.files, work, *done).user_data(u64::from(slot));
        // SAFETY: the buffer of the work is lent until its completion, which follows the slot's last CQE; the
        // descriptors live in `self.files`, which outlives the kernel's work because `drop` waits for it.
        unsafe { self.uring.get_mut().0.submission().push(&sqe) }
            .expect("never more queued than the queue has entries");
        self.queued.push_back(slot);
    }

    /// Takes completions; short transfers go on.
    fn reap(&mut self, out: &mut Vec<Finished>) {
        loop {
            let Some(cqe) = self.uring.get_mut().0.completion().next() else { return };
            let slot = u32::try_from(cqe.user_data()).expect("user_data is a slot number");
            match self.slots.get_mut(slot).advance(cqe.result()) {
                Advance::Done => out.push((self.slots.remove(slot).work.id, Ok(Outcome::Done))),
                Advance::Failed(error) => out.push((self.slots.remove(slot).work.id, Err(error))),
                Advance::Refused => self.aside.push(self.slots.remove(slot).work),
                Advance::More if self.broken => self.aside.push(self.slots.remove(slot).work),
                // Full only while the kernel stalls.
                Advance::More if self.queued.len() == ENTRIES as usize => {
                    self.aside.push(self.slots.remove(slot).work);
                }
                Advance::More => self.queue(slot),
            }
        }
    }

    /// The kernel refuses further submissions (a filter installed later): the pool takes over.
    fn give_up(&mut self, error: &io::Error) {
        tracing::warn!(%error, "io_uring stopped working; the disk goes on with threads");
        self.broken = true;
        for slot in self.queued.drain(..) {
            self.aside.push(self.slots.remove(slot).work);
        }
        self.aside.extend(self.backlog.drain(..));
    }
}

impl Drop for Ring {
    /// Waits until the kernel has finished with every buffer.
    fn drop(&mut self) {
        // SQEs the kernel has not seen die with the queue.
        for slot in std::mem::take(&mut self.queued) {
            self.slots.remove(slot);
        }
        self.broken = true;
        let mut forgotten = Vec::new();
        while self.slots.len() > 0 {
            self.reap(&mut forgotten);
            self.aside.clear();
            if self.slots.len() > 0 {
                // Not `submit_and_wait`: it would submit what is left in the queue.
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

enum Advance {
    Done,
    More,
    /// Cannot be done by the ring.
    Refused,
    Failed(JobError),
}

impl Slot {
    /// Takes the result of an SQE.
    fn advance(&mut self, result: i32) -> Advance {
        let len = match self.work.op {
            Op::Read { buf, .. } | Op::Write { buf, .. } => buf.len(),
            _ => 0,
        };
        match usize::try_from(result) {
            Ok(0) if self.done < len => {
                let (offset, _) = self.work.op.range().expect("a transfer has a range");
                Advance::Failed(no_progress(&self.work.op, offset + self.done as u64))
            }
            Ok(n) => {
                self.done += n;
                if self.done >= len { Advance::Done } else { Advance::More }
            }
            Err(_) => match -result {
                libc::EINTR if len > 0 => Advance::More,
                libc::EAGAIN => Advance::Refused,
                errno => Advance::Failed(JobError::Os { errno }),
            },
        }
    }
}

/// The SQE for what is left of `work` after `done` bytes.
fn entry(files: &Files, work: &Work, done: usize) -> squeue::Entry {
    let max = if done == 0 { work.first_max.min(TRANSFER_MAX) } else { TRANSFER_MAX };
    let fd = types::Fd(files.fd(&work.op, done));
    match work.op {
        Op::Read { offset, buf } => {
            let rest = buf.skip(done);
            opcode::Read::new(fd, rest.as_ptr(), rest.len().min(max) as u32)
                .offset(offset + done as u64)
                .build()
        }
        Op::Write { offset, buf, .. } => {
            let rest = buf.skip(done);
            opcode::Write::new(fd, rest.as_ptr(), rest.len().min(max) as u32)
                .offset(offset + done as u64)
                .build()
        }
        Op::Flush => {
            let fd = types::Fd(files.buffered());
            opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
        }
        Op::Zero { .. } | Op::Trim { .. } | Op::Extents { .. } => unreachable!("`push` sets them aside"),
    }
}
