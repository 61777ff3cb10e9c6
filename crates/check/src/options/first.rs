//! What was drawn at first.

use cards_core::{Coherence, Duration, Handover, Limits, NodeId, PgId, PlacementKind, VolumeSpec, mix};
use cards_policies::Replacement;
use cards_world::{NodeConfig, WorldConfig};

use super::{
    Clocks, DeviceOptions, DiskOptions, LieOptions, LossOptions, MemberOptions, Mode, NetworkOptions,
    NodeOptions, Options, TakeoverOptions,
};
use crate::rng::Rng;

const POLICIES: [&str; 7] =
    ["rd", "hdc", "hscc", "hscc", "hscc depth=0", "hscc depth=3", "hscc load=home room=dup"];

const REPLACEMENTS: [Replacement; 3] = [Replacement::Lru, Replacement::Sieve, Replacement::S3Fifo];

impl Options {
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
                    id: PgId::plain(node, number as u16),
                    primary: node,
                    epoch: 0,
                    name: format!("volume{number}"),
                    size_bytes: blocks * block_bytes - short * block_bytes / u64::from(sectors),
                    block_bytes: block_bytes as u32,
                    policy: policy.to_owned(),
                    read_only: rng.chance(if storm { 100 } else { 500 }),
                    content: 0,
                    network_attached: rng.chance(300),
                    coherence: if policy.starts_with("hscc") && storm && rng.chance(80) {
                        Coherence::Policy
                    } else {
                        Coherence::Confirmed
                    },
                    handover: Handover::Disk,
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
            shared: Vec::new(),
            mirrors: Vec::new(),
            devices: Vec::new(),
            exclusive: Vec::new(),
            strangers: Vec::new(),
            placement: rng.pick(&[PlacementKind::Rendezvous, PlacementKind::Modulo]),
            peer_timeout,
            hedge: mix(seed) & 1 == 0,
            // A write may have to wait for a dead reader's lease, and readers for the write.
            disk_wait: peer_timeout * 60 + lease * 3,
            lease,
            seal_after: Duration::ZERO,
            module: None,
            seed,
            limits: Limits::default(),
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
            fills: 0,
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
            unproven: 0,
            deafen_every: Duration::ZERO,
            move_every: Duration::ZERO,
            switch_every: Duration::ZERO,
            reconnect_every: Duration::ZERO,
            pry_every: Duration::ZERO,
            rot_every: Duration::ZERO,
            replace_every: Duration::ZERO,
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
            lone: None,
            at_once: 3,
            clients: rng.range(1, 3) as u32,
            writers: 1,
            readers,
            storm: Duration::from_millis(rng.range(500, 4_000)),
            think: Duration::from_millis(rng.pick(&[1, 10, 40])),
            hot_blocks: rng.pick(&[2, 8, 32]),
            writes_elsewhere: 300,
            read_ahead: rng.chance(400),
            retains: false,
            network,
            disk,
            nodes,
            losses: LossOptions::default(),
            takeovers: TakeoverOptions::default(),
            devices: DeviceOptions::default(),
            members: MemberOptions::default(),
            lies: LieOptions::default(),
            idle: Vec::new(),
            log: None,
            dead: None,
            stride: 1,
            one_at_a_time: false,
            clocks: Clocks::default(),
            readers_of_block: 1,
        }
    }
}
