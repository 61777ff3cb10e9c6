//! The thread of a managed disk: it does what the store asks for, and tells it of the ends.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use cards_array::store::{Answer, ColumnKey, DamagedSums, Effect, Io, Store, StoreError, Ticket};
use cards_layout::format::UNIT;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::buffer::Buffer;
use super::open::Found;
use super::ranges::Ranges;
use super::{Counts, ManagedError, ManagedOptions, open, resum};
use crate::disk::Disk;
use crate::engine::Engine;
use crate::error::JobError;
use crate::job::{Completion, Job, Op, Outcome, RawBuf, Work};
use crate::mailbox::Reply;
use crate::seldom::Seldom;

/// How often the store hears that time passes.
const TICK: Duration = Duration::from_secs(1);

/// What is asked of the thread.
pub(super) enum Command {
    Work { key: ColumnKey, work: Work, reply: Reply },
    Call(Box<dyn FnOnce(Rc<Driver>) + Send>),
    Stop,
}

/// The state of the thread.
pub(super) struct Driver {
    /// Dropped first: that waits for the kernel, which uses memory of `state` until then.
    engine: Engine,
    pub(super) disk: Arc<Disk>,
    state: RefCell<State>,
    pub(super) ranges: Ranges,
    pub(super) counts: Arc<Counts>,
    began: Instant,
    /// Requests and calls that have not ended.
    open: Cell<usize>,
    ended: Notify,
    /// A job has ended.
    turned: Notify,
    /// Something has become unsure.
    pub(super) doubt: Notify,
    /// Lines of the log about damage, of which one disk can have any number.
    pub(super) damage_told: Seldom,
    pub(super) stops: Cell<bool>,
}

struct State {
    store: Store,
    requests: HashMap<Ticket, Request>,
    ios: HashMap<u64, Running>,
    next_ticket: u64,
    next_io: u64,
}

/// Data of a request, which the store has moved when their turn has come.
pub(super) enum Transfer {
    None,
    Read(RawBuf),
    Write(RawBuf),
    Zero { length: u64, no_hole: bool },
}

/// The store's answer, and what the disk said of the data.
pub(super) type Answered = (Result<Answer, StoreError>, Option<JobError>);

/// A request at the store.
struct Request {
    transfer: Transfer,
    /// Keeps the memory of the transfer, if it is the thread's.
    _keep: Option<Buffer>,
    /// A job has the memory of the transfer.
    moves: bool,
    /// What the disk said of the data.
    error: Option<JobError>,
    /// The store has answered.
    result: Option<Result<Answer, StoreError>>,
    answer: oneshot::Sender<Answered>,
}

/// A job of the engine.
enum Running {
    Page {
        io: Io,
        page: Buffer,
    },
    Pages {
        io: Io,
        _pages: Buffer,
    },
    Sync {
        io: Io,
    },
    Clear {
        io: Io,
    },
    Data {
        io: Io,
        ticket: Ticket,
    },
    /// Not the store's.
    Own {
        _keep: Option<Buffer>,
        answer: oneshot::Sender<Result<Outcome, JobError>>,
    },
}

/// Runs until it is told to stop; `opened` hears whether the disk can be used.
pub(super) async fn run(
    disk: Arc<Disk>,
    options: ManagedOptions,
    counts: Arc<Counts>,
    mut inbox: UnboundedReceiver<Command>,
    opened: mpsc::SyncSender<Result<Found, ManagedError>>,
) {
    let engine = Engine::new(&disk);
    let (store, first, found) = match open::open(&engine, disk.size(), &options).await {
        Ok(found) => found,
        Err(error) => {
            // The opener waits for this; it cannot have gone.
            let _ = opened.send(Err(error));
            return;
        }
    };
    let state = State { store, requests: HashMap::new(), ios: HashMap::new(), next_ticket: 0, next_io: 0 };
    let driver = Rc::new(Driver {
        engine,
        disk,
        state: RefCell::new(state),
        ranges: Ranges::default(),
        counts,
        began: Instant::now(),
        open: Cell::new(0),
        ended: Notify::new(),
        turned: Notify::new(),
        doubt: Notify::new(),
        damage_told: Seldom::default(),
        stops: Cell::new(false),
    });
    driver.count_unsure();
    driver.list();
    first.into_iter().for_each(|effect| driver.perform(effect));
    tokio::task::spawn_local(Rc::clone(&driver).complete());
    driver.announced().await;
    let _ = opened.send(Ok(found));
    tokio::task::spawn_local(Rc::clone(&driver).tick());
    driver.spawn(async |driver| resum::run(&driver).await);
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Work { key, work, reply } => {
                driver.spawn(async move |driver| {
                    let result = driver.serve(key, work.op).await;
                    reply.send(result);
                });
            }
            Command::Call(call) => call(Rc::clone(&driver)),
            Command::Stop => break,
        }
    }
    driver.stop().await;
}

impl Driver {
    /// Runs a task that the end waits for.
    pub(super) fn spawn(self: &Rc<Self>, task: impl AsyncFnOnce(Rc<Self>) + 'static) {
        self.open.set(self.open.get() + 1);
        let driver = Rc::clone(self);
        tokio::task::spawn_local(async move {
            task(Rc::clone(&driver)).await;
            driver.open.set(driver.open.get() - 1);
            driver.ended.notify_one();
        });
    }

    /// Hands ends of jobs to the store.
    async fn complete(self: Rc<Self>) {
        let mut batch = Vec::new();
        loop {
            self.engine.completions(&mut batch).await;
            batch.drain(..).for_each(|completion| self.completed(completion));
        }
    }

    async fn tick(self: Rc<Self>) {
        loop {
            tokio::time::sleep(TICK).await;
            self.act(|store, now, out| store.tick(now, out));
        }
    }

    /// Waits until the disk says that it is open, or has failed.
    async fn announced(&self) {
        while !self.look(|store| store.is_announced() || store.has_failed()) {
            self.turned.notified().await;
        }
    }

    /// Finishes what is open, and has the disk say that it was closed.
    async fn stop(&self) {
        self.stops.set(true);
        self.doubt.notify_one();
        while self.open.get() > 0 {
            self.ended.notified().await;
        }
        if let Err(error) = self.ask(|ticket, store, now, out| store.close(ticket, now, out)).await {
            tracing::error!(
                disk = self.disk.name(),
                %error,
                "the managed disk is not closed; what was being written is looked at when it is opened again"
            );
        }
        // What a store that has failed leaves to the next process is on its way. Jobs that the engine has not begun end with it.
        while !self.state.borrow().ios.is_empty() {
            self.turned.notified().await;
        }
    }

    /// Has the store do something, and does what it asks for.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut Store, u64, &mut Vec<Effect>) -> T) -> T {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut out = Vec::new();
        let mut state = self.state.borrow_mut();
        let result = act(&mut state.store, now, &mut out);
        self.counts.marks.store(state.store.marks().0, Relaxed);
        drop(state);
        out.into_iter().for_each(|effect| self.perform(effect));
        result
    }

    /// What the store says.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.state.borrow().store)
    }

    /// Has the store do something that has no data, and waits for its answer.
    pub(super) async fn ask(
        &self,
        ask: impl FnOnce(Ticket, &mut Store, u64, &mut Vec<Effect>),
    ) -> Result<Answer, ManagedError> {
        let (result, _) = self.request(Transfer::None, None, ask).await;
        Ok(result?)
    }

    /// Has the store take a request at once; its answer comes at the end of its transfer.
    pub(super) fn begin(
        &self,
        transfer: Transfer,
        keep: Option<Buffer>,
        ask: impl FnOnce(Ticket, &mut Store, u64, &mut Vec<Effect>),
    ) -> oneshot::Receiver<Answered> {
        let (answer, end) = oneshot::channel();
        let ticket = {
            let mut state = self.state.borrow_mut();
            state.next_ticket += 1;
            let ticket = Ticket(state.next_ticket);
            let request = Request { transfer, _keep: keep, moves: false, error: None, result: None, answer };
            state.requests.insert(ticket, request);
            ticket
        };
        self.act(|store, now, out| ask(ticket, store, now, out));
        end
    }

    /// [`Self::begin`], and waits for the end.
    pub(super) async fn request(
        &self,
        transfer: Transfer,
        keep: Option<Buffer>,
        ask: impl FnOnce(Ticket, &mut Store, u64, &mut Vec<Effect>),
    ) -> Answered {
        // Requests stay in the map until they are answered.
        self.begin(transfer, keep, ask).await.unwrap_or((Err(StoreError::Failed), None))
    }

    /// Has the engine do something that the store does not know of.
    pub(super) async fn own(&self, op: Op, keep: Option<Buffer>) -> Result<Outcome, JobError> {
        let (answer, end) = oneshot::channel();
        self.submit(op, Running::Own { _keep: keep, answer });
        end.await.unwrap_or(Err(JobError::Os { errno: libc::EIO }))
    }

    fn submit(&self, op: Op, running: Running) {
        let tag = {
            let mut state = self.state.borrow_mut();
            state.next_io += 1;
            let tag = state.next_io;
            state.ios.insert(tag, running);
            tag
        };
        self.engine.submit(Job { tag, op });
    }

    fn perform(&self, effect: Effect) {
        match effect {
            Effect::ReadPage { io, at } => {
                let page = Buffer::new(UNIT);
                let op = Op::Read { offset: at, buf: page.lend(0, UNIT) };
                self.submit(op, Running::Page { io, page });
            }
            Effect::WritePages { io, at, pages } => {
                let bytes: Vec<u8> = pages.iter().flat_map(|page| page.iter().copied()).collect();
                let pages = Buffer::of(&bytes);
                let op = Op::Write { offset: at, buf: pages.lend(0, bytes.len()), fua: false };
                self.submit(op, Running::Pages { io, _pages: pages });
            }
            Effect::Sync { io } => self.submit(Op::Flush, Running::Sync { io }),
            Effect::Clear { io, at, length } => {
                let op = Op::Zero { offset: at, len: length, no_hole: false, fast: false };
                self.submit(op, Running::Clear { io });
            }
            Effect::Data { io, ticket, at } => self.transfer(io, ticket, at),
            Effect::Answer { ticket, result } => {
                let mut state = self.state.borrow_mut();
                if let Some(request) = state.requests.get_mut(&ticket) {
                    request.result = Some(result);
                }
                state.finish(ticket);
            }
        }
    }

    fn transfer(&self, io: Io, ticket: Ticket, at: u64) {
        let op = {
            let mut state = self.state.borrow_mut();
            let Some(request) = state.requests.get_mut(&ticket) else { return };
            request.moves = true;
            match request.transfer {
                Transfer::None => Op::Flush,
                Transfer::Read(buf) => Op::Read { offset: at, buf },
                Transfer::Write(buf) => Op::Write { offset: at, buf, fua: false },
                Transfer::Zero { length, no_hole } => {
                    Op::Zero { offset: at, len: length, no_hole, fast: false }
                }
            }
        };
        self.submit(op, Running::Data { io, ticket });
    }

    fn completed(&self, Completion { tag, result }: Completion) {
        let Some(running) = self.state.borrow_mut().ios.remove(&tag) else { return };
        let is_done = result.is_ok();
        match running {
            Running::Page { io, page } => {
                // SAFETY: the job that had the memory is complete.
                let bytes = unsafe { page.bytes() }.first_chunk().filter(|_| is_done);
                let damaged = self.act(|store, now, out| store.page_read(io, bytes, now, out));
                self.doubt.notify_one();
                damaged.into_iter().for_each(|damaged| self.warn_of_sums(&damaged));
            }
            Running::Pages { io, .. } | Running::Sync { io } | Running::Clear { io } => {
                if let Err(error) = result {
                    let mut failure = self.counts.failure.lock().unwrap_or_else(PoisonError::into_inner);
                    failure.get_or_insert(error);
                    drop(failure);
                    tracing::error!(
                        disk = self.disk.name(),
                        %error,
                        "the tables of a managed disk cannot be written: nothing on it is served until it is opened again"
                    );
                }
                self.act(|store, now, out| store.done(io, is_done, now, out));
            }
            Running::Data { io, ticket } => {
                if let Some(request) = self.state.borrow_mut().requests.get_mut(&ticket) {
                    request.moves = false;
                    request.error = result.err();
                }
                self.act(|store, now, out| store.done(io, is_done, now, out));
                self.state.borrow_mut().finish(ticket);
                if !is_done {
                    self.doubt.notify_one();
                }
            }
            Running::Own { answer, .. } => {
                // Who asked may have gone.
                let _ = answer.send(result);
            }
        }
        self.turned.notify_one();
    }

    /// Says that checksums are damaged that nothing was being written to; at most once a second, as a damaged disk has many of them.
    fn warn_of_sums(&self, damaged: &DamagedSums) {
        if !self.damage_told.may() {
            return;
        }
        let &DamagedSums { key, offset, length, is_lost } = damaged;
        let what = match is_lost {
            true => {
                "checksums are damaged: what they are of is damaged, too, until it is written again, by a repair from another copy or a client"
            }
            false => "checksums are damaged: what they are of is taken as it is, as nobody else has it",
        };
        let volume = format_args!("{:016x}", key.volume);
        tracing::warn!(disk = self.disk.name(), volume, offset, length, "{what}");
    }

    /// [`Self::ask`] for what changes which columns there are.
    pub(super) async fn change(
        &self,
        ask: impl FnOnce(Ticket, &mut Store, u64, &mut Vec<Effect>),
    ) -> Result<(), ManagedError> {
        let result = self.ask(ask).await;
        self.list();
        result.map(drop)
    }

    /// Tells what is on the disk.
    fn list(&self) {
        let (free, lists) = self.look(|store| (store.free(), open::lists(store)));
        self.counts.free.store(free.into(), Relaxed);
        if let Ok(lists) = lists {
            *self.counts.lists.lock().unwrap_or_else(PoisonError::into_inner) = lists;
        }
    }

    /// Counts what is unsure, for those who ask.
    pub(super) fn count_unsure(&self) {
        let unsure = self.look(|store| store.unsure().count());
        self.counts.unsure.store(unsure as u64, Relaxed);
    }
}

impl State {
    /// Answers a request that has its answer and whose memory no job has.
    fn finish(&mut self, ticket: Ticket) {
        let is_done = |request: &Request| !request.moves && request.result.is_some();
        if self.requests.get(&ticket).is_some_and(is_done)
            && let Some(Request { result: Some(result), error, answer, .. }) = self.requests.remove(&ticket)
        {
            // Who asked may have gone.
            let _ = answer.send((result, error));
        }
    }
}
