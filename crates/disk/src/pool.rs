//! A small pool of threads that do jobs by blocking system calls.
//!
//! The whole back end where io_uring is refused; beside a ring it does what has no ring operation (extents), is
//! rare (zero, trim), or what a ring is slow at (small buffered writes). One pool per disk, its threads start on
//! demand.
//!
//! The kernel does the buffered writes of one file one after the other, whichever threads ask. So the small writes
//! that an engine starts in one turn are one thread's: it sorts them, writes neighbours in one call, and answers all
//! together.

mod queue;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::JobError;
use crate::exec;
use crate::file::Files;
use crate::job::{Op, Work};
use crate::mailbox::{Mailbox, Reply};
use queue::Queue;

/// Work, what it works on, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) work: Work,
    pub(crate) files: Arc<Files>,
    pub(crate) reply: Reply,
}

impl Task {
    /// Whether it is worth being written together with others.
    fn is_small_write(&self) -> bool {
        is_small_write(&self.files, &self.work) && self.work.first_max == usize::MAX
    }
}

/// Whether `work` is a buffered write of less than [`SMALL`] bytes.
pub(crate) fn is_small_write(files: &Files, work: &Work) -> bool {
    matches!(work.op, Op::Write { buf, .. } if buf.len() < SMALL) && files.fd(&work.op, 0) == files.buffered()
}

/// From how many bytes on a buffered write costs more than the way to it.
const SMALL: usize = 64 << 10;
/// Most writes that one thread takes at a time: the first is answered with the last.
const BATCH_MAX: usize = 64;

/// What a thread takes from the queue.
#[derive(Debug)]
enum Item {
    One(Task),
    /// Small writes to one file, sorted by offset.
    Writes(Vec<Task>),
}

/// The pool of one disk.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads_max: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug)]
struct State {
    queue: Queue<Item>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stop: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Self {
        let threads_max = threads_max.max(1);
        let queue = Queue::new(threads_max.div_ceil(4));
        let state = State { queue, threads: Vec::new(), idle: 0, stop: false };
        let shared = Shared { state: Mutex::new(state), arrived: Condvar::new() };
        Self { shared: Arc::new(shared), threads_max }
    }

    /// Queues the tasks of one engine; each is answered through its mailbox.
    pub(crate) fn submit(&self, tasks: impl Iterator<Item = Task>) {
        let (mut writes, others): (Vec<Task>, Vec<Task>) = tasks.partition(Task::is_small_write);
        writes.sort_by_key(|task| task.work.op.range());
        let mut items: Vec<Item> = others.into_iter().map(Item::One).collect();
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(BATCH_MAX));
            items.push(Item::Writes(std::mem::replace(&mut writes, rest)));
        }
        let count = items.len();
        let mut state = self.shared.lock();
        for item in items {
            let clears = item.clears();
            state.queue.push(item, clears);
        }
        while state.idle < state.queue.takers() && state.threads.len() < self.threads_max {
            match self.spawn() {
                Ok(thread) => {
                    state.threads.push(thread);
                    state.idle += 1;
                }
                Err(error) if state.threads.is_empty() => {
                    tracing::warn!(%error, "no thread for the disk pool");
                    let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                    let refused = state.queue.remove(|_| true);
                    drop(state);
                    refused.into_iter().for_each(|item| item.fail(JobError::Os { errno }));
                    return;
                }
                Err(_) => break,
            }
        }
        drop(state);
        for _ in 0..count {
            self.shared.arrived.notify_one();
        }
    }

    /// Answers the queued tasks of `mailbox` without doing them; running ones end by themselves.
    pub(crate) fn cancel(&self, mailbox: &Arc<Mailbox>) {
        let cancelled = self.shared.lock().queue.remove(|item| item.is_for(mailbox));
        cancelled.into_iter().for_each(|item| item.fail(JobError::Os { errno: libc::ECANCELED }));
    }

    /// A thread that counts as idle from the start.
    fn spawn(&self) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new()
            .name("cards-disk".into())
            .stack_size(128 << 10)
            .spawn(move || shared.serve())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let threads = {
            let mut state = self.shared.lock();
            state.stop = true;
            std::mem::take(&mut state.threads)
        };
        self.shared.arrived.notify_all();
        for thread in threads {
            // A thread that panicked has nothing left to wait for.
            let _ = thread.join();
        }
    }
}

impl Item {
    fn run(self) {
        match self {
            Self::One(Task { work, files, reply }) => reply.send(exec::run(&files, &work)),
            Self::Writes(tasks) => {
                let works: Vec<Work> = tasks.iter().map(|task| task.work).collect();
                let results = match tasks.first() {
                    Some(task) => exec::write_all(&task.files, &works),
                    None => Vec::new(),
                };
                Reply::send_all(tasks.into_iter().map(|task| task.reply).zip(results));
            }
        }
    }

    /// Whether it zeroes or trims.
    fn clears(&self) -> bool {
        matches!(self, Self::One(task) if matches!(task.work.op, Op::Zero { .. } | Op::Trim { .. }))
    }

    /// Whether the answers go to `mailbox`; the tasks of an item are of one engine.
    fn is_for(&self, mailbox: &Arc<Mailbox>) -> bool {
        match self {
            Self::One(task) => task.reply.is_for(mailbox),
            Self::Writes(tasks) => tasks.iter().all(|task| task.reply.is_for(mailbox)),
        }
    }

    fn fail(self, error: JobError) {
        match self {
            Self::One(task) => task.reply.send(Err(error)),
            Self::Writes(tasks) => tasks.into_iter().for_each(|task| task.reply.send(Err(error))),
        }
    }
}

impl Shared {
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((item, clears)) = state.queue.take() {
                state.idle -= 1;
                drop(state);
                item.run();
                state = self.lock();
                state.idle += 1;
                state.queue.done(clears);
            } else if state.stop {
                return;
            } else {
                state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
