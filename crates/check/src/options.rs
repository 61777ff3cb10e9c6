//! Everything that can differ from run to run, drawn from the seed.
//!
//! # What CARDs claim to survive
//!
//! - Messages: lost, repeated, late, reordered; payloads that break off in the middle. A connection does not
//!   outlive the process at either end.
//! - Nodes: process death at any time, with or without restart, the disk node's included; standing still for
//!   longer than a lease; notice of a death early, late or never. The contents of disks survive: only
//!   processes die, the operating system below them does not. A disk node always comes back.
//! - Connections: broken without reason, at one end first.
//! - Disks: slow, failing reads and writes; a failed write may have done half of its work. What a disk has
//!   acknowledged is there.
//!
//! Not claimed (and not injected): wrong bytes from disk or wire, clocks that run at different speeds, loss
//! of a disk, a writer's volume under [`Coherence::Policy`] being coherent.

use cards_core::{Coherence, Duration, NodeId, PlacementKind, Replacement, VolumeId, VolumeSpec};
use cards_world::{NodeConfig, WorldConfig};

use crate::rng::Rng;

/// What a run is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Faults, then calm.
    Storm,
    /// No faults; all nodes read a cold volume that fits in any cache, once.
    ColdRead,
}

/// All options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed they were drawn from.
    pub seed: u64,
    /// What the run is about.
    pub mode: Mode,
    /// The nodes, their disks, and their timing.
    pub world: WorldConfig,
    /// Clients of each node.
    pub clients: u32,
    /// Writers of each volume that can be written.
    pub writers: u32,
    /// Cards that may only read, never the disk node's.
    pub readers: Vec<(NodeId, VolumeId)>,
    /// How long they work before the faults stop.
    pub storm: Duration,
    /// Longest pause of a client between two requests; most are much shorter.
    pub think: Duration,
    /// Reads go around in a working set of so many blocks that moves on.
    pub hot_blocks: u32,
    /// Clients ask for blocks ahead of their use.
    pub read_ahead: bool,
    /// Messages.
    pub network: NetworkOptions,
    /// Disks.
    pub disk: DiskOptions,
    /// Nodes and connections.
    pub nodes: NodeOptions,
}

/// How messages travel. Rates are per mille.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// Shortest way.
    pub delay_min: Duration,
    /// Added to it, mostly much less.
    pub delay_spread: Duration,
    /// A message now and then takes longer by up to this.
    pub delay_rare: Duration,
    /// How often.
    pub rare: u32,
    /// Messages overtake each other; otherwise each pair of nodes has a queue.
    pub reorder: bool,
    /// Lost.
    pub loss: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// Payloads that break off.
    pub broken: u32,
}

/// How disks behave. Rates are per mille.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Shortest operation.
    pub latency_min: Duration,
    /// Added to it, mostly much less.
    pub latency_spread: Duration,
    /// Failing reads.
    pub read_errors: u32,
    /// Failing writes, trims, flushes.
    pub write_errors: u32,
}

/// What happens to nodes during the storm: mean time between two events of a kind, zero for never.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// A node's process dies.
    pub crash_every: Duration,
    /// A dead node stays dead for up to this.
    pub downtime: Duration,
    /// Of those that have no disk, so many per mille stay dead.
    pub stays_dead: u32,
    /// A node stands still.
    pub pause_every: Duration,
    /// For up to this.
    pub pause: Duration,
    /// A connection breaks.
    pub cut_every: Duration,
    /// And comes back within this.
    pub cut: Duration,
    /// A node does not hear another one, which hears it, for up to [`Self::cut`].
    pub deafen_every: Duration,
    /// Notice of a death comes within this; per mille of them never.
    pub notice: Duration,
    /// Notices that never come, per mille.
    pub no_notice: u32,
    /// A member hears nothing of a disk node's next life for a while, per mille of the disk nodes' deaths.
    pub isolate: u32,
    /// A client detaches a card and attaches it again, per mille of its requests.
    pub detach: u32,
    /// Timers fire late by up to this.
    pub timer_late: Duration,
}

const POLICIES: [&str; 7] =
    ["rd", "hdc", "hscc", "hscc", "hscc depth=0", "hscc depth=3", "hscc load=home room=dup"];

const REPLACEMENTS: [Replacement; 3] = [Replacement::Lru, Replacement::Sieve, Replacement::S3Fifo];

/// Policies that came later, see [`Options::draw`].
const LATER_POLICIES: [&str; 14] = [
    "hints",
    "hints forwards=1 discard_share=100",
    "gms",
    "gms epoch=1 boost=2 pages=10",
    "greedy",
    "central",
    "central split=30",
    "hdc split=80",
    "nchance",
    "nchance n=1 peer=two_choices search=2",
    "nchance n=8 peer=free search=all",
    "demote",
    "demote insert=mid excl=off",
    "demote insert=adaptive",
];

impl Options {
    /// Draws all options. What came later is drawn from a generator of its own and put over [`Self::first`], so that
    /// seeds which once found something keep finding it there.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut options = Self::first(seed);
        let nodes = options.world.nodes.len() as u16;
        let mut rng = Rng::new(seed, 9);
        let storm = options.mode == Mode::Storm;
        for volume in &mut options.world.volumes {
            if rng.chance(600) {
                volume.policy = rng.pick(&LATER_POLICIES).to_owned();
                let policy_tells = storm && rng.chance(80);
                volume.coherence = if policy_tells { Coherence::Policy } else { Coherence::Confirmed };
            }
        }
        // Some policies leave a node a fifth of its cache; a cold volume fits in that too.
        let apart =
            options.world.volumes.iter().any(|v| v.policy.contains("central") || v.policy.contains("split"));
        if rng.chance(60) && storm {
            for volume in options.world.volumes.iter_mut().filter(|v| v.coherence == Coherence::Confirmed) {
                "chaos".clone_into(&mut volume.policy);
            }
        }
        if storm {
            options.nodes.isolate = rng.pick(&[0, 300, 800]);
            if rng.chance(300) {
                options.nodes.deafen_every = Duration::from_millis(rng.range(100, 1_000));
            }
            if rng.chance(300) {
                // Members that are cut off for longer than their leases, again and again.
                options.world.lease = Duration::from_millis(rng.range(100, 400));
                options.nodes.cut_every = Duration::from_millis(rng.range(200, 800));
                options.nodes.cut = Duration::from_millis(rng.range(500, 3_000));
            }
            if rng.chance(200) {
                // Cards that come and go, and messages from before.
                options.nodes.detach = 30;
                options.network.rare = 200;
            }
        }
        options.writers = rng.pick(&[1, 2, 2, 3, 4]);
        if storm && rng.chance(200) {
            // Nodes that die again and again under writers of the same few blocks.
            options.nodes.crash_every = Duration::from_millis(rng.range(150, 600));
            options.nodes.downtime = Duration::from_millis(rng.range(10, 300));
            (options.hot_blocks, options.writers) = (2, 4);
        }
        for volume in options.world.volumes.iter().filter(|volume| !volume.read_only) {
            let others = (0..nodes).map(NodeId).filter(|&node| node != volume.id.disk_node());
            options.readers.extend(others.filter(|_| rng.chance(150)).map(|node| (node, volume.id)));
        }
        for node in &mut options.world.nodes {
            if rng.chance(500) {
                node.replacement = rng.pick(&Replacement::ALL);
            }
            if apart && !storm {
                node.capacity_blocks *= 5;
            }
        }
        options
    }

    /// The options as they were drawn at first.
    #[must_use]
    pub fn first(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0);
        let mode = if rng.chance(120) { Mode::ColdRead } else { Mode::Storm };
        let storm = mode == Mode::Storm;
        // Half of the storms have all kinds of faults, the others leave each out with some probability.
        let all = rng.chance(500);
        let on = |rng: &mut Rng, per_mille: u32| storm && (all || rng.chance(per_mille));

        let nodes = rng.pick(&[1, 2, 3, 3, 3, 4, 5, 7]);
        let sectors = rng.pick(&[2, 4]);
        let block_bytes = 4096;
        let volumes = rng.range(1, 2);
        let volumes: Vec<VolumeSpec> = (0..volumes)
            .map(|number| {
                let blocks = rng.range(8, 96);
                let short = rng.below(u64::from(sectors));
                let policy = rng.pick(&POLICIES);
                let node = NodeId(rng.below(nodes) as u16);
                VolumeSpec {
                    id: VolumeId::new(node, number as u16),
                    name: format!("volume{number}"),
                    size_bytes: blocks * block_bytes - short * block_bytes / u64::from(sectors),
                    block_bytes: block_bytes as u32,
                    policy: policy.to_owned(),
                    read_only: rng.chance(if storm { 100 } else { 500 }),
                    network_attached: rng.chance(300),
                    coherence: if policy.starts_with("hscc") && storm && rng.chance(80) {
                        Coherence::Policy
                    } else {
                        Coherence::Confirmed
                    },
                }
            })
            .collect();
        let blocks: u64 = volumes.iter().map(VolumeSpec::blocks).sum();
        let peer_timeout = Duration::from_millis(rng.range(10, 200));
        let lease = Duration::from_millis(rng.range(200, 3_000));
        let world = WorldConfig {
            nodes: (0..nodes)
                .map(|_| NodeConfig {
                    capacity_blocks: if storm { rng.pick(&[8, 8, 12, 24, 64]) } else { blocks as u32 + 8 },
                    replacement: rng.pick(&REPLACEMENTS),
                    park: !storm || rng.chance(700),
                })
                .collect(),
            shards: rng.pick(&[1, 1, 2, 4]),
            block_bytes: block_bytes as u32,
            sectors,
            volumes,
            placement: rng.pick(&[PlacementKind::Rendezvous, PlacementKind::Modulo]),
            peer_timeout,
            // A write may have to wait for a dead reader's lease, and readers for the write.
            disk_wait: peer_timeout * 60 + lease * 3,
            lease,
            seed,
            check: true,
        };
        let rate = |rng: &mut Rng, on: bool, most: u64| if on { rng.range(1, most) as u32 } else { 0 };
        let every = |rng: &mut Rng, on: bool| {
            if on { Duration::from_millis(rng.range(300, 3_000)) } else { Duration::ZERO }
        };
        let lossy = on(&mut rng, 500);
        let network = NetworkOptions {
            delay_min: Duration::from_micros(rng.range(10, 200)),
            delay_spread: Duration::from_micros(rng.range(10, 5_000)),
            delay_rare: peer_timeout * 3,
            rare: if storm { rng.pick(&[0, 5, 50]) } else { 0 },
            reorder: on(&mut rng, 500),
            loss: rate(&mut rng, lossy, 200),
            duplicate: if on(&mut rng, 500) { rng.pick(&[5, 50, 200]) } else { 0 },
            broken: if on(&mut rng, 300) { rng.pick(&[5, 50]) } else { 0 },
        };
        let disk = DiskOptions {
            latency_min: Duration::from_micros(rng.range(20, 500)),
            latency_spread: Duration::from_micros(rng.range(10, 20_000)),
            read_errors: if on(&mut rng, 150) { rng.pick(&[1, 20]) } else { 0 },
            write_errors: if on(&mut rng, 150) { rng.pick(&[1, 20]) } else { 0 },
        };
        let (crashes, pauses, cuts) = (on(&mut rng, 500), on(&mut rng, 300), on(&mut rng, 300));
        let nodes = NodeOptions {
            crash_every: every(&mut rng, crashes),
            downtime: Duration::from_millis(rng.range(10, 3_000)),
            stays_dead: rng.pick(&[0, 100]),
            pause_every: every(&mut rng, pauses),
            pause: Duration::from_millis(rng.range(10, 4_000)),
            cut_every: every(&mut rng, cuts),
            cut: Duration::from_millis(rng.range(1, 2_000)),
            notice: Duration::from_millis(rng.range(1, 2_000)),
            no_notice: rng.pick(&[0, 200, 1000]),
            isolate: 0,
            deafen_every: Duration::ZERO,
            detach: if on(&mut rng, 300) { 5 } else { 0 },
            timer_late: if on(&mut rng, 300) {
                Duration::from_millis(rng.range(0, 20))
            } else {
                Duration::ZERO
            },
        };
        let read_only = world.volumes.iter().filter(|volume| volume.read_only);
        let members = world.nodes.len() as u16;
        let everywhere = |volume| (0..members).map(move |node| (NodeId(node), volume));
        let readers = read_only.flat_map(|volume| everywhere(volume.id)).collect();
        Self {
            seed,
            mode,
            world,
            clients: rng.range(1, 3) as u32,
            writers: 1,
            readers,
            storm: Duration::from_millis(rng.range(500, 4_000)),
            think: Duration::from_millis(rng.pick(&[1, 10, 40])),
            hot_blocks: rng.pick(&[2, 8, 32]),
            read_ahead: rng.chance(400),
            network,
            disk,
            nodes,
        }
    }
}
