//! PAFS and PACA: Cortes, Girona and Labarta, *Design Issues of a Cooperative Cache with no Coherence Problems*, IOPADS
//! 1997, and *PACA: A Cooperative File System Cache for Parallel Machines*, Euro-Par 1996.
//!
//! What the servers decide is [`cards_pafs`]; this carries it out on the machine's parts, which takes time.
//! `docs/internals/pafs.md` says what each operation costs, and what the papers leave open.
//!
//! - Cache server `s` of `S` is on node `s * nodes / S` (PACA: one, on node 0), the repartition server on node 0, and a
//!   parity server on every node. All are outside the kernel: a message to a server on the own node costs a local port.
//! - The server of disk `d` is on node `d * nodes / disks`.

mod config;
mod disks;
mod mail;
mod parity;
mod repartition;
mod requests;
#[cfg(test)]
mod tests;

use cards_core::{BlockId, Instant};
use cards_pafs::{Action, CacheServer, Frame, Level, Lines, Load, Owners, ParityServer, ServerConfig, deal};

use self::config::Config;
pub use self::mail::{Mail, PafsEvent, Place, Step};
use self::requests::Requests;
use super::{Counts, Engine};
use crate::kernel::{Io, Kernel};
use crate::setup::{Setup, SetupError};

/// All servers.
pub struct Pafs {
    config: Config,
    nodes: u16,
    block_bytes: u32,
    owners: Owners,
    servers: Vec<CacheServer>,
    /// None at level A.
    lines: Option<Lines>,
    /// One for each node.
    parities: Vec<ParityServer>,
    requests: Requests,
    /// What the repartition server has heard of the interval.
    loads: Vec<Load>,
    /// Cache servers that it waits for.
    awaited: u16,
    /// Redistributions so far.
    round: u64,
    /// Messages, copies and disk operations under way.
    under_way: u64,
    /// Buffers of all partitions.
    frames: u64,
    /// Of these, those that are on their way from one to another.
    handed: u64,
    has_begun: bool,
    counts: Counts,
    /// What a server wants done: kept for its memory.
    actions: Vec<Action>,
}

impl Pafs {
    /// All nodes up, nothing cached.
    ///
    /// # Errors
    /// A parameter that makes no sense, another replacement than LRU, or fewer buffers than cache servers.
    pub fn new(setup: &Setup) -> Result<Self, SetupError> {
        let config = Config::parse(setup)?;
        super::xfs::require_lru(setup, "lru: these caches have a replacement of their own, PG-LRU")?;
        let caches: Vec<u32> = (0..setup.nodes).map(|node| setup.cache_of(node)).collect();
        let lines = (config.level != Level::A).then(|| Lines::new(&caches, config.line));
        let partitions = deal(&caches, lines.as_ref(), config.servers);
        let frames: usize = partitions.iter().map(Vec::len).sum();
        if frames < usize::from(config.servers) {
            return Err(SetupError::Bad {
                parameter: "cache",
                value: format!("{frames} buffers for blocks, and {} cache servers", config.servers),
                want: "at least one buffer for each cache server",
            });
        }
        let server =
            ServerConfig { nodes: setup.nodes, tip_percent: config.tip_percent, level: config.level };
        Ok(Self {
            nodes: setup.nodes,
            block_bytes: setup.block_bytes,
            owners: Owners::new(config.servers, config.extent / u64::from(setup.block_bytes)),
            servers: partitions.iter().map(|frames| CacheServer::new(server, frames)).collect(),
            parities: (0..setup.nodes).map(|_| ParityServer::default()).collect(),
            lines,
            requests: Requests::default(),
            loads: vec![Load::default(); usize::from(config.servers)],
            awaited: 0,
            round: 0,
            under_way: 0,
            frames: frames as u64,
            handed: 0,
            has_begun: false,
            counts: Counts::default(),
            actions: Vec::new(),
            config,
        })
    }

    /// The node of a cache server.
    fn node_of(&self, server: u16) -> u16 {
        (u32::from(server) * u32::from(self.nodes) / u32::from(self.config.servers)) as u16
    }

    /// The node with the disk of a block.
    fn disk_node(&self, kernel: &Kernel<PafsEvent>, block: BlockId) -> u16 {
        let disk = kernel.model.disk_of(block.volume.0, block.index.into());
        let disks = usize::from(kernel.model.machine().disks);
        (disk * usize::from(self.nodes) / disks) as u16
    }

    /// The node of the parity server for a frame.
    fn parity_node(&self, frame: Frame) -> u16 {
        let parity = self.lines.as_ref().and_then(|lines| lines.parity_of(frame));
        parity.unwrap_or_else(|| unreachable!("{frame:?} is in a line: else it would hold no blocks")).node.0
    }

    /// Timers begin with the first request.
    fn begin(&mut self, kernel: &mut Kernel<PafsEvent>) {
        self.has_begun = true;
        let now = kernel.now();
        for server in 0..self.config.servers {
            // The syncers' rounds are spread evenly over the interval.
            let phase = self.config.syncer * u32::from(server) / u32::from(self.config.servers);
            kernel.at(now + self.config.syncer + phase, PafsEvent::Sync { server });
        }
        if self.is_repartitioned() {
            kernel.at(now + self.config.interval, PafsEvent::Repartition);
        }
    }

    /// Sends a message; a server on the own node has it as soon as it is sent.
    fn post(&mut self, kernel: &mut Kernel<PafsEvent>, from: u16, to: u16, mail: Mail) {
        self.under_way += 1;
        let at = kernel.model.send(kernel.now(), from, to);
        kernel.at(at, if from == to { PafsEvent::Handle(mail) } else { PafsEvent::Arrive { to, mail } });
    }

    /// Waits for a copy or a disk.
    fn wait(&mut self, kernel: &mut Kernel<PafsEvent>, at: Instant, step: Step) {
        self.under_way += 1;
        kernel.at(at, PafsEvent::Done(step));
    }

    /// A message has crossed the network: the receiver's CPU takes it.
    fn arrive(&mut self, kernel: &mut Kernel<PafsEvent>, to: u16, mail: Mail) {
        let mut at = kernel.model.receive(kernel.now(), to);
        if matches!(mail, Mail::Request { .. }) {
            let service = kernel.model.machine().service;
            at = kernel.model.work(at, to, service);
        }
        kernel.at(at, PafsEvent::Handle(mail));
    }

    fn handle(&mut self, kernel: &mut Kernel<PafsEvent>, mail: Mail) {
        match mail {
            Mail::Request { token, server } => self.serve(kernel, server, token),
            Mail::Reply { token } => self.part_done(kernel, token, kernel.now()),
            Mail::Read(place, block) => self.read_disk(kernel, place, block),
            Mail::Fetched(place) => self.call(kernel, place.server, |s, out| s.fetched(place.buffer, out)),
            Mail::Write(place, block) => self.take_for_disk(kernel, place, block),
            Mail::Flushed(place) => self.call(kernel, place.server, |s, out| s.flushed(place.buffer, out)),
            Mail::Announce(place, block, token) => self.save(kernel, place, block, token),
            Mail::Ready(place) => self.call(kernel, place.server, |s, out| s.ready(place.buffer, out)),
            Mail::Covered(place) => self.call(kernel, place.server, |s, out| s.covered(place.buffer, out)),
            Mail::Uncover(place) => self.take_from_parity(kernel, place),
            Mail::Uncovered(place) => {
                self.call(kernel, place.server, |s, out| s.uncovered(place.buffer, out));
            }
            Mail::Poll { server } => self.answer(kernel, server),
            Mail::Answer { server, load } => self.plan(kernel, server, load),
            Mail::Plan { server, transfers } => self.follow(kernel, server, &transfers),
            Mail::Ask { donor, from } => self.call(kernel, donor, |s, out| s.give_one(from, out)),
            Mail::Hand { to, frames } => {
                self.handed -= frames.len() as u64;
                self.call(kernel, to, |s, out| frames.iter().for_each(|&frame| s.gain(frame, out)));
            }
            Mail::Refuse { to } => self.call(kernel, to, CacheServer::refused),
        }
    }

    fn done(&mut self, kernel: &mut Kernel<PafsEvent>, step: Step) {
        match step {
            Step::DiskRead(place, block) => self.fill(kernel, place, block),
            Step::Filled(place, block) => self.tell_disk_done(kernel, block, Mail::Fetched(place), place),
            Step::Sent(place, block) => self.write_disk(kernel, place, block),
            Step::Written(place, block) => self.tell_disk_done(kernel, block, Mail::Flushed(place), place),
            Step::Saved(place, block, token) => self.saved(kernel, place, block, token),
            Step::Modified(place) => self.call(kernel, place.server, |s, out| s.modified(place.buffer, out)),
            Step::Copied(place) => self.copied(kernel, place),
            Step::Removed(place) => self.removed(kernel, place),
            Step::Acknowledge { token, server } => self.reply(kernel, token, server),
        }
    }

    /// Tells a cache server something and does what it wants done.
    fn call(
        &mut self,
        kernel: &mut Kernel<PafsEvent>,
        server: u16,
        call: impl FnOnce(&mut CacheServer, &mut Vec<Action>),
    ) {
        let mut actions = std::mem::take(&mut self.actions);
        call(&mut self.servers[usize::from(server)], &mut actions);
        self.perform(kernel, server, &actions);
        actions.clear();
        self.actions = actions;
    }

    fn perform(&mut self, kernel: &mut Kernel<PafsEvent>, server: u16, actions: &[Action]) {
        let node = self.node_of(server);
        for action in actions {
            match *action {
                Action::Deliver { access, frame, found } => {
                    self.deliver(kernel, node, &access, frame, found);
                }
                Action::Accept { access, frame, found } => {
                    self.count_write(found);
                    let at = self.copy_from_client(kernel, node, access.token, access.block, frame.node.0);
                    self.part_done(kernel, access.token, at);
                }
                Action::Announce { access, frame, buffer, found } => {
                    self.count_write(found);
                    let announce =
                        Mail::Announce(Place { server, buffer, frame }, access.block, access.token);
                    self.post(kernel, node, self.parity_node(frame), announce);
                }
                Action::Modify { access, frame, buffer } => {
                    let at = self.copy_from_client(kernel, node, access.token, access.block, frame.node.0);
                    self.wait(kernel, at, Step::Modified(Place { server, buffer, frame }));
                }
                Action::Acknowledge { access } => self.covered_part_done(kernel, access.token, server),
                Action::Fetch { block, frame, buffer } => {
                    let read = Mail::Read(Place { server, buffer, frame }, block);
                    self.post(kernel, node, self.disk_node(kernel, block), read);
                }
                Action::Flush { block, frame, buffer } => {
                    let write = Mail::Write(Place { server, buffer, frame }, block);
                    self.post(kernel, node, self.disk_node(kernel, block), write);
                }
                Action::Uncover { frame, buffer } => {
                    let uncover = Mail::Uncover(Place { server, buffer, frame });
                    self.post(kernel, node, self.parity_node(frame), uncover);
                }
                Action::Ask { donor } => {
                    self.post(kernel, node, self.node_of(donor), Mail::Ask { donor, from: server });
                }
                // Those of a batch go in one message: see below.
                Action::Hand { .. } => {}
                Action::Refuse { to } => self.post(kernel, node, self.node_of(to), Mail::Refuse { to }),
            }
        }
        self.hand_over(kernel, node, actions);
    }
}

impl Engine for Pafs {
    type Event = PafsEvent;

    fn submit(&mut self, kernel: &mut Kernel<PafsEvent>, io: Io) {
        if !self.has_begun {
            self.begin(kernel);
        }
        self.submit_parts(kernel, io);
    }

    fn event(&mut self, kernel: &mut Kernel<PafsEvent>, event: PafsEvent) {
        match event {
            PafsEvent::Arrive { to, mail } => self.arrive(kernel, to, mail),
            PafsEvent::Handle(mail) => {
                self.under_way -= 1;
                self.handle(kernel, mail);
            }
            PafsEvent::Done(step) => {
                self.under_way -= 1;
                self.done(kernel, step);
            }
            PafsEvent::Sync { server } => {
                kernel.at(kernel.now() + self.config.syncer, PafsEvent::Sync { server });
                self.call(kernel, server, CacheServer::sync);
            }
            PafsEvent::Repartition => {
                kernel.at(kernel.now() + self.config.interval, PafsEvent::Repartition);
                self.poll(kernel);
            }
        }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.counts;
        for stats in self.servers.iter().map(CacheServer::stats) {
            counts.evictions += stats.evictions;
            counts.dirty_evictions += stats.dirty_evictions;
            counts.reassigned += stats.given;
        }
        counts
    }

    fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    fn table_bytes(&self) -> usize {
        let servers: usize = self.servers.iter().map(CacheServer::table_bytes).sum();
        let parities: usize = self.parities.iter().map(ParityServer::table_bytes).sum();
        servers + parities + self.lines.as_ref().map_or(0, Lines::table_bytes)
    }

    fn cached_blocks(&self) -> u64 {
        self.servers.iter().map(|server| u64::from(server.resident())).sum()
    }

    fn check(&self, _now: Instant) {
        let mut buffers = 0;
        for (number, server) in (0..).zip(&self.servers) {
            server.check();
            buffers += u64::from(server.buffers());
            // One server caches a block at most once; so does the cluster (PAFS-4).
            let is_owner = |b: BlockId| self.owners.owner(b.volume.0, b.index.into()) == number;
            assert!(server.blocks().all(|(block, _)| is_owner(block)), "a server has the blocks it owns");
        }
        assert_eq!(buffers + self.handed, self.frames, "every buffer is in one partition");
        assert!(self.requests.is_empty() || self.under_way > 0, "what is not done is under way");
    }
}
