//! A small pool of threads that do jobs by blocking system calls.
//!
//! The whole back end where io_uring is refused; beside a ring it does what has no ring operation (extents)
//! or is rare (zero, trim). One pool per disk, its threads start on demand.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::JobError;
use crate::exec;
use crate::file::Files;
use crate::job::Work;
use crate::mailbox::{Mailbox, Reply};

/// Work, what it works on, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) work: Work,
    pub(crate) files: Arc<Files>,
    pub(crate) reply: Reply,
}

/// The pool of one disk.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Task>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stop: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: usize) -> Self {
        Self { shared: Arc::default(), threads_max: threads_max.max(1) }
    }

    /// Queues tasks; each is answered through its mailbox.
    pub(crate) fn submit(&self, tasks: impl Iterator<Item = Task>) {
        let mut state = self.shared.lock();
        state.queue.extend(tasks);
        while state.idle < state.queue.len() && state.threads.len() < self.threads_max {
            match self.spawn() {
                Ok(thread) => {
                    state.threads.push(thread);
                    state.idle += 1;
                }
                Err(error) if state.threads.is_empty() => {
                    tracing::warn!(%error, "no thread for the disk pool");
                    let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                    let refused = std::mem::take(&mut state.queue);
                    drop(state);
                    for task in refused {
                        task.reply.send(Err(JobError::Os { errno }));
                    }
                    return;
                }
                Err(_) => break,
            }
        }
        drop(state);
        self.shared.arrived.notify_all();
    }

    /// Answers the queued tasks of `mailbox` without doing them; running ones end by themselves.
    pub(crate) fn cancel(&self, mailbox: &Arc<Mailbox>) {
        let cancelled: Vec<Task>;
        {
            let queue = &mut self.shared.lock().queue;
            let kept;
            (cancelled, kept) = queue.drain(..).partition(|task| task.reply.is_for(mailbox));
            *queue = VecDeque::<Task>::from(kept);
        }
        for task in cancelled {
            task.reply.send(Err(JobError::Os { errno: libc::ECANCELED }));
        }
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

impl Shared {
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.queue.pop_front() {
                state.idle -= 1;
                drop(state);
                let result = exec::run(&task.files, &task.work);
                task.reply.send(result);
                state = self.lock();
                state.idle += 1;
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
