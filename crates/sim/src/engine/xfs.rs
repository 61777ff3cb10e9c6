//! xFS, as Cortes, Girona and Labarta compare their PAFS with it: Design Issues of a Cooperative Cache with no
//! Coherence Problems, IOPADS 1997, sections 4 to 6.
//!
//! Each node caches what its own processes use (XFS-1), writes back, and forwards the only copy of a block a
//! few times before it gives it up (N-Chance, XFS-3). A manager for each block knows all copies and says who may
//! write (XFS-2). `docs/internals/xfs.md` says what each operation costs, and what the paper leaves open.
//!
//! What a request does to caches and directory is decided when it is issued, all at once; messages, copies and disks then
//! take their time. So two requests never disagree about who has a block, and who asks for a block that is on its
//! way waits for it.

mod access;
mod caches;
mod config;
pub(super) mod errands;
mod evict;
pub(super) mod key;
#[cfg(test)]
mod tests;

use cards_core::Instant;
use cards_policies::Replacement;
use cards_trace::Op;

use self::caches::Caches;
use self::config::Config;
pub use self::errands::Arrival;
use self::errands::{ErrandId, Errands, Step};
use self::key::{Draw, Key};
use super::{Counts, Engine};
use crate::kernel::{Io, Kernel};
use crate::setup::{Setup, SetupError};

/// All nodes with their servers, and the managers.
pub struct Xfs {
    config: Config,
    nodes: u16,
    block_bytes: u32,
    /// Blocks in a row that have the same manager.
    run: u32,
    caches: Caches,
    errands: Errands,
    draw: Draw,
    /// The nodes whose syncer has something to do at its next round.
    sync_due: Vec<bool>,
    counts: Counts,
}

/// What happens to it.
#[derive(Clone, Copy, Debug)]
pub enum XfsEvent {
    /// A message is there, or a disk has finished.
    Arrival(Arrival),
    /// A node's syncer wakes up.
    Sync {
        /// The node.
        node: u16,
    },
}

impl From<Arrival> for XfsEvent {
    fn from(arrival: Arrival) -> Self {
        Self::Arrival(arrival)
    }
}

/// xFS has a manager for each file. Volumes have no files, and most files of the paper's traces are smaller than this.
const RUN_BYTES: u32 = 1 << 20;

impl Xfs {
    /// All nodes up, nothing cached.
    ///
    /// # Errors
    /// A parameter that makes no sense, another replacement than LRU, or more buffers than can be numbered.
    pub fn new(setup: &Setup) -> Result<Self, SetupError> {
        let config = Config::parse(&setup.policy)?;
        require_lru(setup, "lru: xfs is defined with no other")?;
        require_numbers(setup)?;
        Ok(Self {
            config,
            nodes: setup.nodes,
            block_bytes: setup.block_bytes,
            run: (RUN_BYTES / setup.block_bytes).max(1),
            caches: Caches::new((0..setup.nodes).map(|node| setup.cache_of(node))),
            errands: Errands::new(setup.block_bytes),
            draw: Draw::new(setup.seed),
            sync_due: vec![false; usize::from(setup.nodes)],
            counts: Counts::default(),
        })
    }

    const fn manager(&self, key: Key) -> u16 {
        key.manager(self.run, self.nodes)
    }

    /// A question about the file at the start of the request: its manager has the metadata, too.
    fn metadata(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, at: Instant) {
        let first = io.offset / u64::from(self.block_bytes);
        let manager = self.manager(Key::new(io.volume, first));
        let errand = self.errands.open();
        self.errands.add(errand, Step::Ask { from: io.node, to: manager });
        self.errands.add(errand, Step::Tell { from: manager, to: io.node });
        self.errands.add(errand, Step::Done { token: io.token });
        self.errands.start(kernel, errand, at);
    }

    /// The blocks of a deleted file leave all caches; changes of them need not be written. Files begin at the start
    /// of a block, so a block whose first part is kept belongs to another file.
    fn unlink(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, at: Instant) {
        let size = u64::from(self.block_bytes);
        let end = io.first + u64::from(io.blocks);
        let mut first = io.offset.div_ceil(size);
        let errand = self.errands.open();
        while first < end {
            let run_end = ((first / u64::from(self.run) + 1) * u64::from(self.run)).min(end);
            let manager = self.manager(Key::new(io.volume, first));
            self.errands.add(errand, Step::Ask { from: io.node, to: manager });
            let mut holders = Vec::new();
            for key in (first..run_end).map(|index| Key::new(io.volume, index)) {
                while let Some(copy) = self.caches.any(key) {
                    holders.push(self.caches.get(copy).node());
                    self.caches.remove(copy);
                }
            }
            holders.sort_unstable();
            holders.dedup();
            for holder in holders.into_iter().filter(|&holder| holder != io.node) {
                self.notify(errand, manager, holder);
            }
            self.errands.add(errand, Step::Tell { from: manager, to: io.node });
            first = run_end;
        }
        self.errands.add(errand, Step::Done { token: io.token });
        self.errands.start(kernel, errand, at);
    }

    /// A manager has a holder drop copies, and waits for its answer.
    fn notify(&mut self, errand: ErrandId, manager: u16, holder: u16) {
        if manager != holder {
            let fork = self.errands.fork(errand);
            self.errands.add(fork, Step::Ask { from: manager, to: holder });
            self.errands.add(fork, Step::Tell { from: holder, to: manager });
        }
    }

    /// All changes made at the node go to disk, and the process waits for the disks.
    fn flush(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, at: Instant) {
        let errand = self.errands.open();
        for key in self.take_dirty(io.node) {
            let fork = self.errands.fork(errand);
            let disk = self.send_to_disk(kernel, fork, io.node, key);
            self.errands.add(fork, Step::DiskWrite { key, wait: true });
            self.errands.add(fork, Step::Tell { from: disk, to: io.node });
        }
        self.errands.add(errand, Step::Done { token: io.token });
        self.errands.start(kernel, errand, at);
    }

    /// The dirty blocks of a node, from now on clean, but for those whose contents are still on the way.
    fn take_dirty(&mut self, node: u16) -> Vec<Key> {
        if self.caches.dirty_at(node) == 0 {
            return Vec::new();
        }
        let in_place = |id: &_| !self.errands.in_transit(self.caches.get(*id).arrival());
        let dirty: Vec<_> = self
            .caches
            .oldest_first(node)
            .filter(|&id| self.caches.get(id).is_dirty())
            .filter(in_place)
            .collect();
        dirty.iter().for_each(|&id| self.caches.set_dirty(id, false));
        dirty.into_iter().map(|id| self.caches.get(id).key()).collect()
    }

    /// The syncer of a node that has something dirty wakes up at its next round. The rounds of the nodes are spread
    /// evenly over the interval.
    fn arm_syncer(&mut self, kernel: &mut Kernel<XfsEvent>, node: u16) {
        if self.caches.dirty_at(node) == 0 || self.sync_due[usize::from(node)] {
            return;
        }
        self.sync_due[usize::from(node)] = true;
        let interval = self.config.syncer.as_nanos() as u64;
        let phase = interval / u64::from(self.nodes) * u64::from(node);
        let now = kernel.now().0;
        let rounds = now.checked_sub(phase).map_or(0, |since| since / interval + 1);
        let next = Instant(phase.saturating_add(rounds.saturating_mul(interval)));
        kernel.at(next, XfsEvent::Sync { node });
    }

    fn sync(&mut self, kernel: &mut Kernel<XfsEvent>, node: u16) {
        self.sync_due[usize::from(node)] = false;
        let now = kernel.now();
        for key in self.take_dirty(node) {
            self.clean_aside(kernel, node, key, now);
        }
        self.arm_syncer(kernel, node);
    }
}

/// The node of a block's disk. The disks are spread evenly over the nodes (PAFS, section 2.1), whatever the volume.
pub(super) fn disk_node<E>(kernel: &Kernel<E>, key: Key) -> u16 {
    let disk = kernel.model.disk_of(key.volume.into(), key.index.into());
    (disk * kernel.model.nodes() / usize::from(kernel.model.machine().disks)) as u16
}

/// Refuses any other replacement than LRU.
pub(super) fn require_lru(setup: &Setup, want: &'static str) -> Result<(), SetupError> {
    if setup.replacement == Replacement::Lru {
        return Ok(());
    }
    Err(SetupError::Bad { parameter: "replacement", value: setup.replacement.name().into(), want })
}

/// Refuses memories with more buffers than 32 bits can number.
pub(super) fn require_numbers(setup: &Setup) -> Result<(), SetupError> {
    if setup.cache_of_all() < u64::from(u32::MAX) {
        return Ok(());
    }
    Err(SetupError::Bad {
        parameter: "cache",
        value: format!("{} blocks over all nodes", setup.cache_of_all()),
        want: "less than 4294967295 blocks over all nodes",
    })
}

impl Engine for Xfs {
    type Event = XfsEvent;

    fn submit(&mut self, kernel: &mut Kernel<XfsEvent>, io: Io) {
        // The file system is a server outside the kernel: every request is a message to it (XFS-4).
        let at = kernel.model.send(kernel.now(), io.node, io.node);
        let parts = if io.op.is_data() { io.blocks } else { 1 };
        if parts == 0 {
            kernel.complete(io.token, at);
            return;
        }
        self.errands.expect(io.token, parts, at);
        match io.op {
            Op::Read | Op::Write => {
                for index in io.first..io.first + u64::from(io.blocks) {
                    let key = Key::new(io.volume, index);
                    match io.op {
                        Op::Read => self.read(kernel, &io, key, at),
                        _ => self.write(kernel, &io, key, at),
                    }
                }
                self.arm_syncer(kernel, io.node);
            }
            Op::Trim => self.unlink(kernel, &io, at),
            Op::Flush => self.flush(kernel, &io, at),
            Op::Open | Op::Close | Op::Send { .. } => self.metadata(kernel, &io, at),
        }
    }

    fn event(&mut self, kernel: &mut Kernel<XfsEvent>, event: XfsEvent) {
        match event {
            XfsEvent::Arrival(arrival) => self.errands.arrive(kernel, arrival),
            XfsEvent::Sync { node } => self.sync(kernel, node),
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn is_idle(&self) -> bool {
        self.errands.is_idle()
    }

    fn table_bytes(&self) -> usize {
        self.caches.table_bytes()
    }

    fn cached_blocks(&self) -> u64 {
        self.caches.resident()
    }

    fn check(&self, _now: Instant) {
        self.caches.check(self.config.level_b);
        assert_eq!(self.counts.forwarded, self.counts.stored_for_others);
    }
}
