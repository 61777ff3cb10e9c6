//! A data thread's end of a disk.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::delivery::Discipline;
use crate::disk::{Disk, Storage};
use crate::error::JobError;
use crate::fault::Strike;
use crate::file::Files;
use crate::job::{Completion, Finished, Job, Op, Outcome, Work};
use crate::mailbox::{Mailbox, Reply};
use crate::options::Backend;
use crate::pool::Task;
use crate::ring::Ring;
use crate::slab::Slab;
use crate::sync::Syncs;

/// The number of the sync itself, beside those of the jobs that ride on it.
const SYNC: u32 = u32::MAX;

/// How an engine reaches its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineKind {
    /// One ring of this engine.
    IoUring,
    /// The disk's pool of threads.
    Threads {
        /// Why not io_uring.
        reason: String,
    },
    /// The disk's connection to another NBD server.
    Nbd,
    /// The disk's connections to the server of an object.
    Object,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IoUring => f.write_str("io_uring"),
            Self::Threads { reason } => write!(f, "threads ({reason})"),
            Self::Nbd => f.write_str("nbd"),
            Self::Object => f.write_str("object"),
        }
    }
}

impl EngineKind {
    /// `io_uring`, `threads`, `nbd` or `object`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Threads { .. } => "threads",
            Self::Nbd => "nbd",
            Self::Object => "object",
        }
    }
}

/// One data thread's access to a [`Disk`]; see the crate's head. Not `Send`: it belongs to the runtime it was
/// made in.
#[derive(Debug)]
pub struct Engine {
    kind: EngineKind,
    inner: RefCell<Inner>,
}

impl Engine {
    /// An engine on `disk` for the current runtime. Never fails: where io_uring is refused it uses threads,
    /// and says so in [`Self::kind`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub fn new(disk: &Arc<Disk>) -> Self {
        let (kind, backend) = match &disk.storage {
            Storage::Nbd(_) => (EngineKind::Nbd, BackEnd::Server),
            Storage::Object(_) => (EngineKind::Object, BackEnd::Server),
            Storage::Volume(volume) => (volume.managed.kind().clone(), BackEnd::Server),
            Storage::File { holder, .. } => match holder.files() {
                Ok(files) => file_back_end(disk, Arc::new(files)),
                Err(error) => {
                    // The process is out of descriptors: every job is answered with that.
                    tracing::warn!(%error, "disk engine");
                    let reason = error.to_string();
                    (EngineKind::Threads { reason }, BackEnd::None { errno: libc::EMFILE })
                }
            },
        };
        let inner = Inner {
            discipline: Discipline::new(disk.delivery),
            number: disk.turns.enter(),
            waiting: 0,
            running: 0,
            ended: 0,
            granted: Vec::new(),
            disk: Arc::clone(disk),
            backend,
            jobs: Slab::new(),
            delayed: BinaryHeap::new(),
            delayed_seq: 0,
            sleep: None,
            syncs: Syncs::default(),
            mailbox: Arc::default(),
            posted_out: 0,
            finished: Vec::new(),
            ready: VecDeque::new(),
            reads_ready: VecDeque::new(),
            waker: None,
        };
        Self { kind, inner: RefCell::new(inner) }
    }

    /// What it runs on, and why if that is a fallback.
    pub fn kind(&self) -> &EngineKind {
        &self.kind
    }

    /// [`Self::submit_for`] card 0.
    pub fn submit(&self, job: Job) {
        self.submit_for(0, job);
    }

    /// Queues `job` of a card and returns at once. For files and devices it makes no system call: the task that awaits
    /// [`Self::completions`] starts the job.
    ///
    /// Every job is answered by exactly one completion. The queue has no bound of its own: the caller's
    /// buffers are one.
    pub fn submit_for(&self, card: u32, job: Job) {
        self.inner.borrow_mut().submit(card, job);
    }

    /// Jobs submitted and not yet delivered.
    pub fn in_flight(&self) -> usize {
        let inner = self.inner.borrow();
        inner.jobs.len() + inner.ready.len() + inner.reads_ready.len()
    }

    /// Waits for completions and appends at least one to `out`. With
    /// [`Delivery::Thread`](crate::Delivery::Thread) and `Sync`, at most one read, and calling again says
    /// that it was delivered.
    ///
    /// Cancel safe. Exactly one task may wait at a time.
    pub async fn completions(&self, out: &mut Vec<Completion>) {
        // A disk that answers from the page cache is always ready; the other tasks want their turn too.
        tokio::task::coop::consume_budget().await;
        poll_fn(|cx| self.poll_completions(cx, out)).await;
    }

    /// [`Self::completions`] for hand-written futures.
    pub fn poll_completions(&self, cx: &mut Context<'_>, out: &mut Vec<Completion>) -> Poll<()> {
        self.inner.borrow_mut().poll(cx, out)
    }
}

fn file_back_end(disk: &Disk, files: Arc<Files>) -> (EngineKind, BackEnd) {
    let reason = match disk.backend {
        Backend::Threads => "asked for".to_owned(),
        Backend::Auto if std::env::var_os("CARDS_DISK_BACKEND").is_some_and(|name| name == "threads") => {
            "CARDS_DISK_BACKEND=threads".to_owned()
        }
        Backend::Auto => match Ring::new(Arc::clone(&files)) {
            Ok(ring) => return (EngineKind::IoUring, BackEnd::Ring { ring: Box::new(ring), files }),
            Err(error) => format!("io_uring: {error}"),
        },
    };
    (EngineKind::Threads { reason }, BackEnd::Pool { files, tasks: Vec::new() })
}

#[derive(Debug)]
enum BackEnd {
    Ring {
        ring: Box<Ring>,
        files: Arc<Files>,
    },
    Pool {
        files: Arc<Files>,
        tasks: Vec<Work>,
    },
    /// The thread of the disk that talks to its server, or has its store.
    Server,
    /// There are no descriptors to work with.
    None {
        errno: i32,
    },
}

/// A job until it is ready.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Whose it is.
    card: u32,
    /// When it came, if it has waited for its turn.
    since: Option<Instant>,
    job: Job,
}

#[derive(Debug)]
struct Inner {
    disk: Arc<Disk>,
    backend: BackEnd,
    /// Jobs from submission until they are ready.
    jobs: Slab<Entry>,
    discipline: Discipline,
    /// Among the engines of the disk.
    number: usize,
    /// Jobs that wait for their turn at the disk.
    waiting: usize,
    /// Jobs that take a place at the disk.
    running: usize,
    /// Of these, those that are done there, whose places have not been given back.
    ended: usize,
    /// Scratch: jobs whose turn has come.
    granted: Vec<u32>,
    /// Jobs of a modelled slow disk, by the time they start; the second number keeps equal times in order.
    delayed: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    delayed_seq: u64,
    sleep: Option<Pin<Box<Sleep>>>,
    syncs: Syncs,
    mailbox: Arc<Mailbox>,
    /// Works that other threads have and have not posted back, or that were posted and not collected.
    posted_out: usize,
    /// Scratch: answers of the back end.
    finished: Vec<Finished>,
    /// Completions to deliver.
    ready: VecDeque<Completion>,
    /// Completions of reads that passed the discipline, where those are delivered one by one.
    reads_ready: VecDeque<Completion>,
    /// The drain task, when it waits and nothing was submitted since.
    waker: Option<Waker>,
}

impl Inner {
    fn submit(&mut self, card: u32, job: Job) {
        self.disk.stats.submitted(&job.op);
        if let Err(error) = self.disk.check(&job.op) {
            self.disk.stats.completed(&job.op, &Err(error));
            self.ready.push_back(Completion { tag: job.tag, result: Err(error) });
        } else {
            let id = self.jobs.insert(Entry { card, since: None, job });
            match job.op {
                Op::Read { .. } => self.discipline.push(id),
                _ => self.take_turn(id),
            }
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vec<Completion>) -> Poll<()> {
        self.discipline.worker_back();
        loop {
            while let Some(id) = self.discipline.launch() {
                self.take_turn(id);
            }
            self.start_granted(cx);
            self.start_due(cx);
            self.start_sync();
            self.collect(cx);
            if self.finished.is_empty() {
                break;
            }
            let mut finished = std::mem::take(&mut self.finished);
            for (id, result) in finished.drain(..) {
                self.finish(id, result);
            }
            self.finished = finished;
            self.give_places_back();
            if !self.ready.is_empty() || !self.reads_ready.is_empty() {
                break;
            }
        }
        self.give_places_back();
        let before = out.len();
        out.extend(self.ready.drain(..));
        if let Some(read) = self.reads_ready.pop_front() {
            self.discipline.handed();
            out.push(read);
        }
        self.disk.stats.delivered(out.len() - before);
        if out.len() > before {
            return Poll::Ready(());
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Starts a job if there is room at the disk; else it waits for its turn.
    fn take_turn(&mut self, id: u32) {
        let Entry { card, job: Job { op, .. }, .. } = *self.jobs.get_mut(id);
        if !op.takes_turn() {
            return self.admit(id);
        }
        if self.disk.turns.ask(self.number, card, id, op.transfers()) {
            self.running += 1;
            self.admit(id);
        } else {
            self.jobs.get_mut(id).since = Some(Instant::now());
            self.waiting += 1;
        }
    }

    /// Starts jobs whose turn has come.
    fn start_granted(&mut self, cx: &mut Context<'_>) {
        if self.waiting == 0 {
            return;
        }
        let mut granted = std::mem::take(&mut self.granted);
        self.disk.turns.granted(self.number, &mut granted, cx.waker());
        (self.waiting, self.running) = (self.waiting - granted.len(), self.running + granted.len());
        granted.drain(..).for_each(|id| self.admit(id));
        self.granted = granted;
    }

    /// Leaves the places of jobs that are done at the disk to others.
    fn give_places_back(&mut self) {
        if self.ended > 0 {
            self.running -= self.ended;
            self.disk.turns.done(self.number, std::mem::take(&mut self.ended));
        }
    }

    /// A job passed the queue: injected faults and the modelled slow disk come before the real one.
    fn admit(&mut self, id: u32) {
        let op = self.jobs.get_mut(id).job.op;
        let faults = &self.disk.faults;
        let fault = match op {
            Op::Read { .. } => faults.hit(Strike::ReadEio).then_some(libc::EIO),
            Op::Write { .. } if faults.hit(Strike::WriteNoSpace) => Some(libc::ENOSPC),
            Op::Write { .. } => faults.hit(Strike::WriteEio).then_some(libc::EIO),
            _ => None,
        };
        if let Some(errno) = fault {
            self.finish(id, Err(JobError::Os { errno }));
            return;
        }
        let now = Instant::now();
        let slow = now + self.disk.faults.slow();
        let at = self.disk.throttle.start_at(&op, now).unwrap_or(now).max(slow);
        if at > now {
            self.delayed.push(Reverse((at, self.delayed_seq, id)));
            self.delayed_seq += 1;
        } else {
            self.start(id);
        }
    }

    fn start(&mut self, id: u32) {
        let op = self.jobs.get_mut(id).job.op;
        if matches!(op, Op::Flush) {
            self.syncs.join(id);
            return;
        }
        // A write that will have to be synced is not worth doing when no sync can succeed.
        if matches!(op, Op::Write { fua: true, .. }) && self.disk.sync_failed() {
            self.finish(id, Err(JobError::SyncFailed));
            return;
        }
        let short = match op {
            Op::Read { .. } => self.disk.faults.hit(Strike::ReadShort),
            Op::Write { .. } => self.disk.faults.hit(Strike::WriteShort),
            _ => false,
        };
        let first_max = if short { (op.transfers() as usize / 2).max(1) } else { usize::MAX };
        let since = self.jobs.get_mut(id).since;
        self.push(Work { id, op, since, first_max });
    }

    fn push(&mut self, work: Work) {
        match &mut self.backend {
            BackEnd::Ring { ring, .. } => ring.push(work),
            BackEnd::Pool { tasks, .. } => tasks.push(work),
            BackEnd::Server => {
                self.posted_out += 1;
                self.disk.submit_to_server(work, Reply::new(work.id, &self.mailbox));
            }
            BackEnd::None { errno } => self.finished.push((work.id, Err(JobError::Os { errno: *errno }))),
        }
    }

    /// Starts the delayed jobs whose time has come; arranges a wake-up for the next.
    fn start_due(&mut self, cx: &mut Context<'_>) {
        while let Some(&Reverse((at, _, id))) = self.delayed.peek() {
            if at <= Instant::now() {
                self.delayed.pop();
                self.start(id);
                continue;
            }
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if sleep.deadline() != at {
                sleep.as_mut().reset(at);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return;
            }
            // The timer fired, so the time has come whatever the clock's rounding says.
            self.delayed.pop();
            self.start(id);
        }
    }

    fn start_sync(&mut self) {
        if !self.syncs.start() {
            return;
        }
        if self.disk.sync_failed() {
            self.finished.push((SYNC, Err(JobError::SyncFailed)));
        } else if self.disk.faults.hit(Strike::SyncEio) {
            self.finished.push((SYNC, Err(JobError::Os { errno: libc::EIO })));
        } else {
            self.push(Work { id: SYNC, op: Op::Flush, since: None, first_max: usize::MAX });
        }
    }

    /// Gives the back end its turn; its answers go to `finished`.
    fn collect(&mut self, cx: &mut Context<'_>) {
        let mailbox = &self.mailbox;
        match &mut self.backend {
            BackEnd::Ring { ring, files } => {
                ring.turn(cx, &mut self.finished);
                let aside = ring.aside();
                self.posted_out += aside.len();
                let task =
                    |work: Work| Task { work, files: Arc::clone(files), reply: Reply::new(work.id, mailbox) };
                self.disk.submit_to_pool(aside.map(task));
            }
            BackEnd::Pool { files, tasks } => {
                self.posted_out += tasks.len();
                let task =
                    |work: Work| Task { work, files: Arc::clone(files), reply: Reply::new(work.id, mailbox) };
                self.disk.submit_to_pool(tasks.drain(..).map(task));
            }
            BackEnd::Server | BackEnd::None { .. } => {}
        }
        if self.posted_out > 0 {
            let before = self.finished.len();
            self.mailbox.collect(&mut self.finished, cx.waker());
            self.posted_out -= self.finished.len() - before;
        }
    }

    /// The back end is done with `id`.
    fn finish(&mut self, id: u32, result: Result<Outcome, JobError>) {
        if id == SYNC {
            self.finish_sync(result);
            return;
        }
        let op = self.jobs.get_mut(id).job.op;
        self.ended += usize::from(op.takes_turn());
        if result.is_ok() && matches!(op, Op::Write { fua: true, .. }) {
            self.syncs.join(id);
            return;
        }
        self.complete(id, result);
    }

    fn finish_sync(&mut self, mut result: Result<Outcome, JobError>) {
        match result {
            Ok(_) if self.disk.sync_failed() => result = Err(JobError::SyncFailed),
            Ok(_) => self.disk.stats.synced(),
            // The origin has not answered; that lost nothing, and the next sync covers the same writes.
            Err(JobError::Disconnected) => {}
            Err(error) => self.disk.fail_syncs(error),
        }
        let riders: Vec<u32> = self.syncs.end().collect();
        for id in riders {
            self.complete(id, result.clone());
        }
    }

    fn complete(&mut self, id: u32, result: Result<Outcome, JobError>) {
        let Entry { job, .. } = self.jobs.remove(id);
        self.disk.stats.completed(&job.op, &result);
        let one_by_one = matches!(job.op, Op::Read { .. }) && self.discipline.one_by_one();
        let queue = if one_by_one { &mut self.reads_ready } else { &mut self.ready };
        queue.push_back(Completion { tag: job.tag, result });
    }
}

impl Drop for Inner {
    /// Waits until nobody uses a buffer any more. The ring waits by itself.
    fn drop(&mut self) {
        if self.posted_out > 0 {
            self.disk.cancel(&self.mailbox);
            self.mailbox.wait_for(self.posted_out);
        }
        self.disk.turns.leave(self.number, self.running);
        let undelivered = self.jobs.len() + self.ready.len() + self.reads_ready.len();
        self.disk.stats.delivered(undelivered);
    }
}
