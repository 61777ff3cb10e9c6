//! Clients: they read everywhere, and write where they may.
//!
//! Each node has some clients, which request, wait for the answer, think, and request again. Each writable
//! volume has some writers, which move from node to node; a few of the cards may only read. Every sector of
//! every write has a tag of its own. What clients do and see goes into the history. Local devices have clients, too.

mod cards;
mod client;
mod device;
mod finals;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{BlockId, CommandKind, Instant, IoError, NodeId, Persistence, PgId, Token, VolumeSpec};
use cards_world::{Completion, Outcome, Request};

use crate::history::WriteId;
use crate::options::{Mode, Options};
use crate::rng::Rng;
use crate::run::{Deed as RunDeed, Failure, Phase, Run, stream};

use client::Client;
use device::DeviceClient;
use finals::Finals;
use writer::Writer;

/// All clients.
pub(crate) struct Workload {
    rng: Rng,
    device_rng: Rng,
    clients: Vec<Client>,
    device_clients: Vec<DeviceClient>,
    writers: Vec<Writer>,
    /// The life of the node whose card is attached, as the clients have been told.
    attached: BTreeMap<(NodeId, PgId), u64>,
    /// Cards that may only read.
    readers: BTreeSet<(NodeId, PgId)>,
    /// Nodes that want volumes for themselves.
    takers: BTreeMap<PgId, NodeId>,
    last_tag: u64,
    finals: Finals,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// A client makes its next request.
    Client(usize),
    /// A writer does something.
    Writer(usize),
    /// A client of a device makes its next request.
    DeviceClient(usize),
    /// The device of this number is used ...
    OpenDevice(usize),
    /// ... and, for a while, is not.
    CloseDevice(usize),
    /// A card is attached (again).
    Attach(NodeId, PgId),
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) node: NodeId,
    pub(crate) volume: PgId,
    /// When it was made, by the count of what clients do and see ...
    pub(crate) invoked: u64,
    /// ... and by the clock of the world.
    pub(crate) at: Instant,
    owner: Owner,
    pub(crate) what: What,
}

/// Who waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Nobody,
    Client(usize),
    DeviceClient(usize),
    Writer(usize),
    Final,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Read(BlockId),
    Write {
        writes: Vec<WriteId>,
        /// First byte and length.
        range: (u64, u32),
        /// It is to be durable when it is answered.
        durable: bool,
    },
    Flush,
    /// A write through a card that may only read.
    Intrusion(Vec<WriteId>),
    Attach,
    /// An attachment that keeps all others away.
    TakeOver,
    Detach {
        /// It is attached again once this is done.
        and_back: bool,
    },
    Other,
}

impl Workload {
    pub(crate) fn new(options: &Options) -> Self {
        let writable = options.world.volumes.iter().filter(|spec| !spec.read_only);
        let nodes = options.world.nodes.len() as u16;
        Self {
            rng: stream(options, 5),
            device_rng: stream(options, 16),
            device_clients: (options.world.devices.iter())
                .flat_map(|&(node, volume)| {
                    (0..options.devices.clients).map(move |_| DeviceClient::new(node, volume))
                })
                .collect(),
            clients: (0..nodes)
                .filter(|&node| !options.world.strangers.contains(&NodeId(node)))
                .flat_map(|node| (0..options.clients).map(move |_| Client::new(NodeId(node))))
                .collect(),
            writers: writable.flat_map(|spec| (0..options.writers).map(|_| Writer::new(spec.id))).collect(),
            attached: BTreeMap::new(),
            readers: options.readers.iter().copied().collect(),
            takers: BTreeMap::new(),
            last_tag: 0,
            finals: Finals::new(options),
        }
    }

    pub(crate) fn begin(&mut self, run: &mut Run) {
        for node in run.all_nodes() {
            self.booted(run, node);
        }
        if run.options.mode == Mode::Storm {
            for client in 0..self.clients.len() {
                self.think(run, Deed::Client(client));
            }
            for writer in 0..self.writers.len() {
                self.think(run, Deed::Writer(writer));
            }
            self.open_devices(run);
        }
    }

    /// A node has started: its cards are to be attached.
    pub(crate) fn booted(&mut self, run: &mut Run, node: NodeId) {
        if run.options.world.strangers.contains(&node) {
            return;
        }
        for spec in run.options.world.volumes.clone() {
            self.think(run, Deed::Attach(node, spec.id));
        }
    }

    /// Whether a client writes there.
    pub(crate) fn is_writer(&self, node: NodeId) -> bool {
        self.writers.iter().any(|writer| writer.node() == Some(node))
    }

    pub(crate) fn act(&mut self, run: &mut Run, deed: Deed) {
        match deed {
            Deed::Client(client) => self.client_acts(run, client),
            Deed::Writer(writer) => self.writer_acts(run, writer),
            Deed::DeviceClient(client) => self.device_client_acts(run, client),
            Deed::OpenDevice(device) => self.open_device(run, device),
            Deed::CloseDevice(device) => self.close_device(run, device),
            Deed::Attach(node, volume) => self.attach(run, node, volume),
        }
    }

    fn think(&mut self, run: &mut Run, deed: Deed) {
        let delay = self.rng.skewed(run.options.think);
        run.later(delay, RunDeed::Workload(deed));
    }

    /// Whether the next read is made as a front end makes it.
    fn reads_inline(&mut self) -> bool {
        self.rng.chance(700)
    }

    fn read(&mut self, run: &mut Run, node: NodeId, block: BlockId, inline: bool, owner: Owner) {
        self.submit(run, node, block.volume, owner, What::Read(block), Request::Read { block, inline });
    }

    fn submit(
        &mut self,
        run: &mut Run,
        node: NodeId,
        volume: PgId,
        owner: Owner,
        what: What,
        request: Request,
    ) {
        let (invoked, at) = (run.tick(), run.world.now());
        let token: Token = run.world.submit(node, request);
        run.tickets.insert(token, Ticket { node, volume, invoked, at, owner, what });
    }

    /// A write, zero, trim or flush somewhere in the volume, within one stripe.
    fn command(&mut self, run: &mut Run, node: NodeId, spec: &VolumeSpec, around: u32, owner: Owner) {
        let per_block = u64::from(run.options.world.sectors);
        let stripe = u64::from(cards_core::STRIPE_BLOCKS) * per_block;
        let sectors = run.world.media(spec.id).sectors();
        let roll = self.rng.below(100);
        let kind = match roll {
            0..75 => CommandKind::Write,
            75..85 => CommandKind::Zero { no_hole: roll.is_multiple_of(2) },
            85..90 => CommandKind::Trim,
            // The node knows since when.
            _ => CommandKind::Flush { since: Persistence::NONE },
        };
        let fua = self.rng.chance(100);
        let first = (u64::from(around) * per_block + self.rng.below(per_block)).min(sectors - 1);
        let most = (sectors - first).min(stripe - first % stripe);
        let count = if self.rng.chance(300) {
            self.rng.range(1, most)
        } else {
            self.rng.range(1, most.min(2 * per_block))
        };
        let (first, count) = if kind.is_flush() { (0, 0) } else { (first, count) };
        self.change_at(run, node, spec, (kind, fua), (first, count), owner);
    }

    /// A command for these sectors.
    fn change_at(
        &mut self,
        run: &mut Run,
        node: NodeId,
        spec: &VolumeSpec,
        (kind, fua): (CommandKind, bool),
        (first, count): (u64, u64),
        owner: Owner,
    ) {
        let invoked = run.tick();
        let mut tags = Vec::new();
        let mut writes = Vec::new();
        for sector in first..first + count {
            let tag = if kind == CommandKind::Write {
                self.last_tag += 1;
                tags.push(self.last_tag);
                run.observers.tagged(self.last_tag, node);
                self.last_tag
            } else {
                0
            };
            writes.push(run.history.write((spec.id, sector), tag, invoked));
        }
        let what = match owner {
            _ if kind.is_flush() => What::Flush, // anybody may
            Owner::Client(_) => What::Intrusion(writes),
            Owner::Nobody | Owner::Writer(_) | Owner::DeviceClient(_) | Owner::Final => {
                let sector_bytes = run.options.world.block_bytes / run.options.world.sectors;
                let bytes = (first * u64::from(sector_bytes), count as u32 * sector_bytes);
                What::Write { writes, range: bytes, durable: fua }
            }
        };
        let request =
            Request::Command { volume: spec.id, kind, sector: first, count: count as u32, fua, tags };
        self.submit(run, node, spec.id, owner, what, request);
    }

    /// A request has ended.
    pub(crate) fn completed(&mut self, run: &mut Run, completion: Completion) -> Result<(), Failure> {
        let ticket = run.tickets.remove(&completion.token).expect("every request has a ticket");
        let returned = run.tick();
        if let Outcome::Failed(error) = completion.outcome
            // Under a writer that is alone, a reader's write that another life refuses may have any reason.
            && !((error == IoError::NotPermitted || run.options.lone.is_some())
                && matches!(ticket.what, What::Intrusion(_)))
        {
            let what = format!("{:?} {:?}", completion.token, ticket.what);
            let errors = run.world.models().disk_errors.clone();
            run.errors.disk_failed(&errors);
            run.errors.seen(ticket.node, ticket.volume, error, ticket.at, completion.at, what);
        }
        let answer = (&completion, returned);
        run.observers.answered(&run.world, &run.history, &ticket, answer).map_err(Failure::Wrong)?;
        match (&ticket.what, &completion.outcome) {
            (What::Read(block), Outcome::Read { tags, .. }) => {
                self.was_read(run, &ticket, *block, tags, returned)?
            }
            (What::Write { writes, .. }, Outcome::Done) => {
                writes.iter().for_each(|write| run.history.written(*write, returned));
            }
            (What::Intrusion(writes), Outcome::Done) => {
                return Err(Failure::Wrong(format!(
                    "{:?} wrote {} sectors of {:?} through a card that may only read",
                    ticket.node,
                    writes.len(),
                    ticket.volume
                )));
            }
            (What::Attach | What::TakeOver | What::Detach { .. }, _) => {
                self.card_answered(run, &ticket, &completion.outcome, returned)?
            }
            _ => {}
        }
        self.answered(run, &ticket, &completion.outcome)
    }

    fn answered(&mut self, run: &mut Run, ticket: &Ticket, outcome: &Outcome) -> Result<(), Failure> {
        match ticket.owner {
            Owner::Nobody => {}
            Owner::Client(client) => self.client_answered(run, client),
            Owner::DeviceClient(client) => self.device_answered(run, client),
            Owner::Writer(writer) => self.writer_answered(run, writer, ticket, outcome)?,
            Owner::Final => {
                if let Outcome::Failed(error) = outcome {
                    return Err(Failure::Wrong(format!("with no faults left, {ticket:?} fails: {error:?}")));
                }
                self.finally_read(run);
            }
        }
        Ok(())
    }

    fn was_read(
        &mut self,
        run: &mut Run,
        ticket: &Ticket,
        block: BlockId,
        tags: &[u64],
        returned: u64,
    ) -> Result<(), Failure> {
        let first = u64::from(block.index) * tags.len() as u64;
        let sectors = run.world.media(block.volume).sectors();
        for (sector, tag) in (first..).zip(tags) {
            if sector < sectors {
                run.history.read((block.volume, sector), *tag, ticket.invoked, returned);
            } else if *tag != 0 {
                return Err(Failure::Wrong(format!(
                    "{block:?} has {tag:#x} in sector {sector}, beyond the end of the volume"
                )));
            }
        }
        Ok(())
    }

    fn stops(&self, run: &Run) -> bool {
        run.phase != Phase::Storm
    }
}
