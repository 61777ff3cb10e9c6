//! Runs whose volume is a group of copies: its columns at some of the nodes, real machines over disks that lose power.

use cards_array::group::GroupTiming;
use cards_core::{Coherence, Duration, NodeId, PgId};
use cards_world::MirrorConfig;

use super::{DeviceOptions, LieOptions, LossOptions, MemberOptions, Mode, Options, TakeoverOptions};
use crate::rng::Rng;

/// No plain disk's.
const VOLUME: PgId = PgId(1 << 31);

impl Options {
    /// What such a run has in place of what [`Self::draw`] draws, from a generator of its own.
    #[must_use]
    pub fn mirrored(seed: u64) -> Self {
        let mut options = Self::third(seed);
        let mut rng = Rng::new(seed, 60);
        let millis = |rng: &mut Rng, low, high| Duration::from_millis(rng.range(low, high));
        if options.mode == Mode::ColdRead {
            options.mode = Mode::Storm;
            options.nodes.crash_every = millis(&mut rng, 200, 1_500);
        }
        let nodes = rng.range(3, 5) as usize;
        let world = &mut options.world;
        let one = world.nodes[0].clone();
        world.nodes.resize(nodes, one);
        for node in &mut world.nodes {
            node.capacity_blocks = rng.pick(&[8, 12, 24, 64]);
        }
        world.volumes.truncate(1);
        for volume in &mut world.volumes {
            (volume.id, volume.read_only, volume.coherence) = (VOLUME, false, Coherence::Confirmed);
            if volume.blocks() > 64 {
                volume.size_bytes = 64 * u64::from(volume.block_bytes);
            }
        }
        let mut columns: Vec<NodeId> = (0..nodes as u16).map(NodeId).collect();
        while columns.len() > if nodes > 3 && rng.chance(400) { 3 } else { 2 } {
            columns.remove(rng.below(columns.len() as u64) as usize);
        }
        world.volumes[0].primary = columns[0];
        world.lease = millis(&mut rng, 100, 600);
        world.disk_wait = Duration::from_secs(60);
        world.seal_after = Duration::ZERO;
        (world.shared, world.devices) = (Vec::new(), Vec::new());
        (world.exclusive, world.strangers) = (Vec::new(), Vec::new());
        let lease = millis(&mut rng, 100, 400);
        let timing = GroupTiming {
            lease,
            resend: lease / 5,
            put_timeout: lease * 3 / 2,
            rank_delay: lease / 5,
            // The driver says when they are void.
            grace: Duration::from_secs(3_600),
        };
        world.mirrors = vec![MirrorConfig {
            volume: VOLUME,
            columns,
            timing,
            register_loss: rng.pick(&[0, 50, 200]),
            slow: rng.pick(&[0, 5, 20]),
            mistake: None,
        }];
        options.readers.clear();
        options.storm = millis(&mut rng, 1_500, 4_000);
        (options.lone, options.log, options.dead) = (None, None, None);
        options.idle.clear();
        options.stride = 1;
        options.network.delay_rare = options.world.peer_timeout * 3;
        options.network.loss = options.network.loss.min(100);
        options.losses = LossOptions { power: rng.pick(&[0, 0, 500, 1_000]), failed_syncs: 0 };
        options.takeovers = TakeoverOptions::default();
        options.members = MemberOptions::default();
        options.devices = DeviceOptions::default();
        options.lies = LieOptions::default();
        options.retains = false;
        let nodes = &mut options.nodes;
        (nodes.stays_dead, nodes.isolate, nodes.move_every) = (0, 0, Duration::ZERO);
        if rng.chance(700) {
            nodes.crash_every = millis(&mut rng, 200, 1_500);
        }
        nodes.downtime = millis(&mut rng, 10, 1_500);
        options
    }
}
