//! The thread that makes durable what the journals are to say, so that no data thread waits for `state_dir`; and that seals disks
//! which are idle.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cards_core::{CardNote, ControlInput, DiskJournal, Input, Loss, Marks, Persistence, PgId, Quiet};
use cards_disk::{Disk, Engine, Job, Op};

use crate::journal::{Journal, RETRY, Task};
use crate::marks::Medium;
use crate::node::{Event, Node};
use crate::state_dir::remedy;

/// A disk that was not written for so long is sealed.
const SEAL_AFTER: Duration = Duration::from_secs(2);
/// Sealing takes at most one part in so many of the time.
const SEAL_SHARE: u32 = 20;
/// How long until it is tried again after it has failed.
const SEAL_RETRY: Duration = Duration::from_secs(60);

/// Starts the thread.
///
/// # Errors
/// It cannot be had.
pub(crate) fn start(node: &Arc<Node>) -> io::Result<JoinHandle<()>> {
    let mut keeper = Keeper::new(node);
    std::thread::Builder::new().name("cards-journal".into()).spawn(move || keeper.run())
}

struct Keeper {
    node: Arc<Node>,
    /// What is noted and not durable, for each volume.
    notes: BTreeMap<PgId, Vec<(u64, CardNote)>>,
    /// The last number of these, if it was not said to be durable.
    number: Option<u64>,
    /// Disks that are to be written.
    unsealing: BTreeSet<PgId>,
    /// Shards are being told that a disk is not sealed. If it were sealed before they have heard, the word would open that.
    opening: Arc<AtomicUsize>,
    watches: BTreeMap<PgId, Watch>,
}

/// What is seen of a disk that is not sealed.
#[derive(Default)]
struct Watch {
    /// A sync is under way that began when the shards were quiet like that, then.
    syncing: Option<(Vec<Quiet>, Instant)>,
    /// No seal is tried before.
    not_before: Option<Instant>,
}

impl Keeper {
    fn new(node: &Arc<Node>) -> Self {
        Self {
            node: Arc::clone(node),
            notes: BTreeMap::new(),
            number: None,
            unsealing: BTreeSet::new(),
            opening: Arc::default(),
            watches: BTreeMap::new(),
        }
    }

    fn run(&mut self) {
        let mut wait = SEAL_AFTER / 2;
        while let Some(tasks) = self.node.changes.take(wait) {
            tasks.into_iter().for_each(|task| self.take(task));
            let problem = self.unseal().err().or(self.keep().err());
            wait = match problem {
                Some(_) => RETRY,
                None if self.look_for_quiet() => SEAL_AFTER / 2,
                None => Duration::MAX,
            };
            let said = self.node.changes.problem();
            if problem != said
                && let Some(problem) = &problem
            {
                tracing::error!("state_dir: {problem}");
            }
            self.node.changes.set_problem(problem);
        }
    }

    fn take(&mut self, task: Task) {
        match task {
            Task::Note { number, volume, since, note } => {
                self.notes.entry(volume).or_default().push((since, note));
                self.number = Some(number);
            }
            Task::SyncFailed(volume) => self.sync_failed(volume),
            Task::Release => self.node.release_journals(),
            Task::Unseal(volume) => _ = self.unsealing.insert(volume),
            Task::Synced(volume, synced) => self.synced(volume, synced),
        }
    }

    /// Something for all shards.
    fn tell(&self, input: Input) {
        self.node.threads[0].post(Event::Call(Box::new(move |local| local.all_shards(&input))));
    }

    /// The name of a disk of this node.
    fn name(&self, volume: PgId) -> &str {
        self.node.disk_index(volume).map_or("", |index| &self.node.own[index].name)
    }

    fn problem(&self, volume: PgId, error: &io::Error, so: &str) -> String {
        let disk = self.name(volume);
        let path = self.node.config.state_dir.display();
        format!("the journal of disk {disk} cannot be written in {path}: {error}; {}, {so}", remedy(error))
    }

    /// Until it is durable, nobody is attached and no write goes on without a card that is gone.
    fn keep(&mut self) -> Result<(), String> {
        while let Some(entry) = self.notes.first_entry() {
            let (&volume, notes) = (entry.key(), entry.get());
            if let Some(mut journal) = self.node.journal(volume)
                && let Err(error) = journal.keep(notes, |number| self.node.name(number))
            {
                drop(journal);
                // It is in what will be written as a whole.
                let last = notes[notes.len() - 1];
                self.notes.insert(volume, vec![last]);
                return Err(self.problem(volume, &error, "for nobody is attached before that"));
            }
            self.notes.remove(&volume);
        }
        if let Some(number) = self.number.take() {
            self.node.threads[0].post(Event::Control(Box::new(ControlInput::Journaled { number })));
        }
        Ok(())
    }

    /// A disk of this node failed to sync. Flushes are answered when that is durable.
    fn sync_failed(&self, volume: PgId) {
        let Some(mut journal) = self.node.journal(volume) else {
            // Nobody writes it, so nothing is lost; what waits is answered.
            return self.tell(Input::Persistence { volume, life: Persistence::NONE, loss: Loss::Sync });
        };
        if let Err(error) = journal.sync_failed() {
            tracing::error!(disk = self.name(volume), "{}", journal.unwritten(&error));
        }
        let DiskJournal { persistence: life, loss, .. } = journal.of(volume);
        drop(journal);
        self.tell(Input::Persistence { volume, life, loss });
    }

    fn unseal(&mut self) -> Result<(), String> {
        while let Some(&volume) = self.unsealing.first() {
            if let Some(mut journal) = self.node.journal(volume)
                && let Err(error) = journal.unseal()
            {
                drop(journal);
                return Err(self.problem(volume, &error, "for the disk is not written before that"));
            }
            self.unsealing.remove(&volume);
            let opening = Arc::clone(&self.opening);
            opening.fetch_add(1, Ordering::Relaxed);
            self.node.threads[0].post(Event::Call(Box::new(move |local| {
                local.all_shards(&Input::Unsealed { volume });
                opening.fetch_sub(1, Ordering::Release);
            })));
        }
        Ok(())
    }

    /// Begins to seal disks that are idle. Whether to look again.
    fn look_for_quiet(&mut self) -> bool {
        let node = Arc::clone(&self.node);
        let mut again = false;
        for (spec, disk) in node.own.iter().zip(&node.disks) {
            let volume = spec.id;
            let may_seal =
                |journal: &Journal| !journal.is_sealed() && journal.may_be_synced() && journal.is_told();
            let look = node.journal(volume).and_then(|journal| may_seal(&journal).then(|| journal.look()));
            let Some(look) = look else { continue };
            if disk.sync_failed() || node.draining() {
                continue;
            }
            again = true;
            let watch = self.watches.entry(volume).or_default();
            if watch.syncing.is_some() || watch.not_before.is_some_and(|at| Instant::now() < at) {
                continue;
            }
            let now = node.now();
            let is_idle = |quiet: &Quiet| quiet.since + to_core(SEAL_AFTER) <= now;
            let quiet = node.shards.iter().map(|cell| cell.lock().shard.quiet(volume).filter(is_idle));
            let Some(quiet) = quiet.collect::<Option<Vec<Quiet>>>() else { continue };
            let changes = Arc::clone(&node.changes);
            let sync = move || changes.push(Task::Synced(volume, look()));
            // It may take long, and cards are not to wait for it.
            match std::thread::Builder::new().name("cards-sync".into()).spawn(sync) {
                Ok(_) => watch.syncing = Some((quiet, Instant::now())),
                Err(error) => tracing::warn!(%error, "a disk is not sealed"),
            }
        }
        again
    }

    /// The times that tell who has written a file are durable as well, so the sync is one of its own; and what it fails with, the
    /// next flush fails with as well.
    fn synced(&mut self, volume: PgId, synced: io::Result<Option<Medium>>) {
        let node = Arc::clone(&self.node);
        let Some(spec) = node.disk_index(volume).map(|index| &node.own[index]) else { return };
        let Some(watch) = self.watches.get_mut(&volume) else { return };
        let Some((quiet, since)) = watch.syncing.take() else { return };
        let now = Instant::now();
        watch.not_before = Some(now + (now - since) * SEAL_SHARE);
        let medium = match synced {
            Ok(Some(medium)) => medium,
            Ok(None) => {
                watch.not_before = Some(Instant::now() + SEAL_RETRY);
                return;
            }
            Err(error) => {
                tracing::error!(disk = spec.name, %error, "sync failed: unsynced writes may be lost");
                return self.sync_failed(volume);
            }
        };
        let mut marks: Vec<Marks> = Vec::new();
        let mut is_sealed = self.opening.load(Ordering::Acquire) == 0;
        for (cell, quiet) in node.shards.iter().zip(quiet) {
            let mut state = cell.lock();
            is_sealed = is_sealed && state.shard.seal(volume, quiet);
            marks.extend(state.shard.marks(volume).filter(|_| is_sealed));
        }
        // A sync that failed meanwhile has ended the life.
        let journal = node.journal(volume).filter(|journal| journal.may_be_synced());
        let Some(mut journal) = journal.filter(|_| is_sealed) else {
            node.shards.iter().for_each(|cell| cell.lock().shard.seal_failed(volume));
            return;
        };
        let sealed = journal.seal(Some(&medium), node.config.block as u32, &marks);
        drop(journal);
        if let Err(error) = sealed {
            self.watches.entry(volume).or_default().not_before = Some(now + SEAL_RETRY);
            let path = node.config.state_dir.display();
            tracing::warn!(
                disk = spec.name,
                "{path}: the marks cannot be written: {error}; {}: if this daemon is killed, caches elsewhere start cold",
                remedy(&error)
            );
            self.unsealing.insert(volume);
        }
    }
}

fn to_core(time: Duration) -> cards_core::Duration {
    cards_core::Duration::from_nanos(time.as_nanos() as u64)
}

/// At a clean stop, when no data thread runs any more: syncs the disks and seals them.
pub(crate) fn close(node: &Node) {
    for ((disk, spec), journal) in node.disks.iter().zip(&node.own).zip(&node.journals) {
        let Some(journal) = journal else { continue };
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        if journal.is_sealed() {
            continue;
        }
        let marks: Vec<Marks> =
            node.shards.iter().filter_map(|cell| cell.lock().shard.marks(spec.id)).collect();
        let mut has_failed = false;
        let synced = match journal.may_be_synced() {
            true => sync(disk)
                .inspect_err(|_| has_failed = disk.sync_failed())
                .and_then(|()| journal.look()().inspect_err(|_| has_failed = true)),
            false => Err(io::Error::other("a sync has failed")),
        };
        // The kernel has told of it, and tells the next daemon nothing.
        if has_failed && let Err(error) = journal.sync_failed() {
            tracing::error!(disk = spec.name, "{}", journal.unwritten(&error));
        }
        let seal = |medium: Option<Medium>| journal.seal(medium.as_ref(), node.config.block as u32, &marks);
        if let Err(error) = synced.and_then(seal) {
            tracing::warn!(
                disk = spec.name,
                "not closed clean: {error}; unflushed writes may be lost with the machine, and caches elsewhere start cold"
            );
        }
    }
}

/// In a thread of its own: the end of a ring interrupts system calls of the thread that had it.
fn sync(disk: &Arc<Disk>) -> io::Result<()> {
    std::thread::scope(|scope| {
        let done =
            std::thread::Builder::new().name("cards-sync".into()).spawn_scoped(scope, || flush(disk))?;
        done.join().unwrap_or_else(|_| Err(io::Error::other("the sync has panicked")))
    })
}

fn flush(disk: &Arc<Disk>) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let engine = Engine::new(disk);
        engine.submit(Job { tag: 0, op: Op::Flush });
        let mut done = Vec::new();
        engine.completions(&mut done).await;
        done.into_iter().try_for_each(|completion| completion.result.map(drop)).map_err(io::Error::other)
    })
}
