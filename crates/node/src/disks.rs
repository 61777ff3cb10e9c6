//! From the core's disk operations to the engines of this thread, and back.

use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

use cards_config::duration;
use cards_core::{CommandKind, ControlInput, DiskWork, Extent, Input, IoError, NodeId, OpId, Payload, PgId};
use cards_disk::{DiskStats, ExtentKind, Job, JobError, Op, Outcome, RawBuf, Seldom, Uuid};

use crate::failures::{Asked, ERRORS_REMEMBERED, Kind};
use crate::node::disk_job::DiskJob;
use crate::node::{Local, Node};
use crate::silence::{self, Lasts, News, Silence};
use crate::slab::Key;

/// How often is looked whether the disks answer.
const LOOK: Duration = Duration::from_millis(500);

/// A file, device or server that a node has open, and how long it has answered nothing.
struct Opened<'a> {
    name: &'a str,
    path: &'a str,
    is_remote: bool,
    /// The disk, if it is a managed one.
    managed: Option<Uuid>,
    stats: &'a DiskStats,
    silence: &'a Silence,
}

impl Opened<'_> {
    /// What to say of a silence: what has failed, and what to do.
    fn told(&self, node: &Node, lasts: Lasts) -> (String, String) {
        let remedy = match self.is_remote {
            true => format!(
                "what waits fails after disk_wait ({}): see its server and the network to it",
                duration::exact(node.config.disk_wait)
            ),
            false => {
                "see the kernel's log (dmesg) and what it is attached to; what waits goes on when it answers"
                    .into()
            }
        };
        (format!("disk {}: {}", self.name, lasts.described(self.path)), remedy)
    }
}

impl Node {
    /// What this node has open; a managed disk once, with all that is on it.
    fn opened(&self) -> impl Iterator<Item = Opened<'_>> {
        let plain = self.disks.iter().zip(&self.own).zip(&self.disk_silences);
        let plain = plain.filter(|((disk, _), _)| disk.managed().is_none());
        let plain = plain.map(|((disk, spec), silence)| Opened {
            name: &spec.name,
            path: disk.name(),
            is_remote: disk.is_remote(),
            managed: None,
            stats: disk.stats(),
            silence,
        });
        let managed = self.managed.iter().zip(&self.managed_silences).map(|(managed, silence)| Opened {
            name: managed.disk_name().as_str(),
            path: managed.path(),
            is_remote: false,
            managed: Some(managed.uuid()),
            stats: managed.stats(),
            silence,
        });
        managed.chain(plain)
    }

    /// The disks of this node that do not answer what they are asked: what has failed, and what to do.
    pub(crate) fn silent_disks(&self) -> Vec<(String, String)> {
        let told = |opened: Opened<'_>| Some(opened.told(self, opened.silence.lasts(self.now())?));
        self.opened().filter_map(told).collect()
    }

    /// What an error of a disk, by its place in [`Node::disks`], is of.
    fn kind_at(&self, disk: usize, error: JobError) -> Kind {
        let managed = self.disks.get(disk).and_then(|disk| disk.managed());
        managed.map_or_else(|| Kind::of(error), |managed| Kind::at(managed, error))
    }

    /// Says in the log which disks have ceased to answer, and which answer again; and tells it the groups that have copies there.
    fn look_for_answers(&self) {
        let modelled = self.config.disks.iter().map(|disk| disk.delay).max().unwrap_or_default();
        for opened in self.opened() {
            let limit = silence::limit(opened.is_remote, modelled);
            let (disk, path) = (opened.name, opened.path);
            match opened.silence.look(self.now(), limit, &opened.stats.snapshot()) {
                Some(News::Silent(lasts)) => {
                    let (silent, remedy) = opened.told(self, lasts);
                    tracing::error!(disk, "{silent}; {remedy}");
                }
                Some(News::Answers(after)) => {
                    tracing::info!(disk, "disk {disk}: {path} answers again, after {} s", after.as_secs());
                    opened.managed.into_iter().for_each(|disk| self.disk_hangs(disk, false));
                }
                None => {}
            }
            // As long as it lasts: what waits becomes more, and a group may begin meanwhile.
            let hangs = || opened.silence.lasts(self.now()).is_some_and(|lasts| lasts.hangs());
            if let Some(disk) = opened.managed.filter(|_| hangs()) {
                self.disk_hangs(disk, true);
            }
        }
    }
}

impl Local {
    /// Looks at the disks of this node as long as it lives. Only counters are looked at: one that hangs holds up nothing here.
    pub(crate) async fn watch_disks(self: Rc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.node.look_for_answers();
        }
    }

    /// Starts one task for each engine, which hands its completions to their shards.
    pub(crate) fn spawn_disks(self: &Rc<Self>) {
        for disk in 0..self.engines.len() {
            let local = Rc::clone(self);
            tokio::task::spawn_local(async move {
                let mut batch = Vec::new();
                let seldom = Seldom::default();
                loop {
                    local.engines[disk].completions(&mut batch).await;
                    for completion in batch.drain(..) {
                        let (job, asked) = local.job_done(completion.tag);
                        let damage = &local.node.damage[disk];
                        match completion.result {
                            Ok(_) => damage.was_done(&asked),
                            Err(JobError::Damaged { offset, length }) => damage.was_read(offset, length),
                            Err(_) => {}
                        }
                        if let Err(error) = completion.result {
                            if is_of_disk(error) {
                                let (now, kind) = (local.node.now(), local.node.kind_at(disk, error));
                                local.node.disk_errors[disk].note(
                                    now,
                                    ERRORS_REMEMBERED,
                                    asked,
                                    kind,
                                    error.to_string(),
                                );
                            }
                            if seldom.may() {
                                let Asked { name: operation, offset, length } = asked;
                                let disk = &local.node.own[disk].name;
                                tracing::warn!(disk, operation, offset, length, %error, "disk operation failed");
                            }
                        }
                        local.disk_done(job, completion.result);
                    }
                    local.route();
                }
            });
        }
    }

    /// Carries out a shard's disk operation, for the card of a volume that a node has: in its turn.
    pub(crate) fn disk(&self, shard: u16, op: OpId, (volume, card): (PgId, NodeId), work: DiskWork) {
        let Some(index) = self.node.disk_index(volume) else {
            let result = Err(IoError::Invalid);
            let now = self.node.now();
            return self.shard(shard, |state| state.handle(now, Input::DiskDone { op, result }));
        };
        let mut job = DiskJob::Block { shard, op, bytes: None, flush: None, syncs: None };
        let DiskJob::Block { bytes: keep, flush, syncs, .. } = &mut job else { unreachable!("made above") };
        let work = match work {
            DiskWork::Read { block, slot, .. } => {
                let size = self.node.disks[index].size();
                let offset = u64::from(block) * self.node.arena.block() as u64;
                let length = size.saturating_sub(offset).min(self.node.arena.block() as u64) as usize;
                if length < self.node.arena.block() {
                    // SAFETY: the core has made this read the slot's one user.
                    let bytes = unsafe { self.node.arena.bytes_mut(shard, slot) };
                    bytes[length..].fill(0);
                }
                let address = self.node.arena.address(shard, slot);
                // SAFETY: the slot stays with this read, and the arena mapped, until the core is told of the
                // completion; the arena outlives the engines, whose drop waits for the kernel.
                Op::Read { offset, buf: unsafe { RawBuf::new(address, length) } }
            }
            DiskWork::Command { kind: CommandKind::Write, offset, fua, payload, .. } => {
                let bytes = match payload {
                    Payload::Buffer(id) => self.node.buffers.get(id),
                    Payload::None | Payload::Slot(_) => None,
                };
                let bytes = bytes.expect("a write on its way to the disk has a buffer that is not released");
                let start = NonNull::from(&bytes[..]).cast();
                // SAFETY: the job keeps the bytes, unchanged and in place, until its completion is taken.
                let buf = unsafe { RawBuf::new(start, bytes.len()) };
                *keep = Some(bytes);
                *syncs = fua.then_some(index);
                Op::Write { offset, buf, fua }
            }
            DiskWork::Command { kind: CommandKind::Zero { no_hole }, offset, length, fua, .. } => {
                *flush = fua.then_some(index);
                Op::Zero { offset, len: u64::from(length), no_hole, fast: false }
            }
            DiskWork::Command { kind: CommandKind::Trim, offset, length, fua, .. } => {
                *flush = fua.then_some(index);
                Op::Trim { offset, len: u64::from(length) }
            }
            DiskWork::Command { kind: CommandKind::Flush { .. }, .. } => {
                *syncs = Some(index);
                Op::Flush
            }
        };
        self.submit(index, card, job, work);
    }

    /// Asks a disk of this node for its holes.
    pub(crate) fn read_extents(self: &Rc<Self>, op: OpId, volume: PgId, offset: u64, length: u32) {
        if !volume.is_plain() {
            // Copies have no holes yet.
            let result = Ok(vec![Extent { length, hole: false }]);
            return self.control(ControlInput::ExtentsRead { op, result });
        }
        let Some(index) = self.node.disk_index(volume) else {
            return self.control(ControlInput::ExtentsRead { op, result: Err(IoError::Invalid) });
        };
        self.submit(
            index,
            self.node.me,
            DiskJob::Extents { op },
            Op::Extents { offset, len: u64::from(length) },
        );
    }

    /// `index` is the disk's among those of the node.
    fn submit(&self, index: usize, card: NodeId, job: DiskJob, op: Op) {
        let tag = self.jobs.borrow_mut().insert((job, Asked::of(&op))).0;
        self.engines[index].submit_for(card.0.into(), Job { tag, op });
    }

    fn job_done(&self, tag: u64) -> (DiskJob, Asked) {
        self.jobs.borrow_mut().remove(Key(tag)).expect("an engine completes each job once")
    }

    fn disk_done(self: &Rc<Self>, job: DiskJob, result: Result<Outcome, JobError>) {
        match (job, result) {
            (DiskJob::Block { shard, op, flush: Some(index), .. }, Ok(_)) => {
                let job = DiskJob::Block { shard, op, bytes: None, flush: None, syncs: Some(index) };
                self.submit(index, self.node.me, job, Op::Flush);
            }
            (DiskJob::Block { shard, op, bytes, syncs, .. }, result) => {
                drop(bytes);
                let now = self.node.now();
                let lost = syncs.is_some_and(|index| self.node.disks[index].sync_failed());
                let result = match result {
                    Ok(_) => Ok(()),
                    Err(_) if lost => Err(IoError::SyncFailed),
                    Err(error) => Err(io_error(error)),
                };
                self.node.probe.disk_done(shard, op, result.is_err(), now);
                self.shard(shard, |state| state.handle(now, Input::DiskDone { op, result }));
            }
            (DiskJob::Extents { op }, result) => {
                let result = match result {
                    Ok(Outcome::Extents(extents)) => Ok(clip(&extents)),
                    Ok(Outcome::Done) => Ok(Vec::new()),
                    Err(error) => Err(io_error(error)),
                };
                self.control(ControlInput::ExtentsRead { op, result });
            }
        }
    }
}

/// Extents as nodes tell each other: no longer than 32 bits.
fn clip(extents: &[cards_disk::Extent]) -> Vec<Extent> {
    let extents = extents.iter().take(cards_core::ControlMessage::MAX_EXTENTS);
    extents
        .map(|extent| Extent {
            length: u32::try_from(extent.len).unwrap_or(u32::MAX),
            hole: extent.kind == ExtentKind::Hole,
        })
        .collect()
}

/// It says something of the disk, and not of what was asked.
fn is_of_disk(error: JobError) -> bool {
    match error {
        JobError::OutOfRange { .. } | JobError::ReadOnly => false,
        JobError::Os { errno } => !matches!(errno, libc::ECANCELED | libc::EOPNOTSUPP | libc::EINVAL),
        _ => true,
    }
}

fn io_error(error: JobError) -> IoError {
    match error.errno() {
        libc::ENOSPC | libc::EDQUOT => IoError::NoSpace,
        libc::EPERM | libc::EROFS => IoError::NotPermitted,
        libc::EOPNOTSUPP => IoError::NotSupported,
        libc::EINVAL => IoError::Invalid,
        _ => IoError::Io,
    }
}
