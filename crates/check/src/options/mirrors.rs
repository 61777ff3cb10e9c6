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
        world.lease = millis(&mut rng, 200, 1_000);
        world.disk_wait = Duration::from_secs(10);
        world.seal_after = Duration::ZERO;
        (world.shared, world.devices) = (Vec::new(), Vec::new());
        (world.exclusive, world.strangers) = (Vec::new(), Vec::new());
        let kind = rng.below(3);
        options.one_at_a_time = kind == 0;
        let lease = if options.one_at_a_time { 160 } else { rng.range(40, 200) };
        let lease = Duration::from_millis(lease);
        let timing = GroupTiming {
            lease,
            resend: lease / 5,
            put_timeout: lease * 3 / 2,
            rank_delay: lease / 5,
            // The driver says when they are void.
            grace: Duration::from_secs(3_600),
            confirm: lease * 8,
            rest: lease / 4,
        };
        world.mirrors = vec![MirrorConfig {
            volume: VOLUME,
            columns,
            unit: 1,
            timing,
            register_loss: rng.pick(&[0, 50, 200]),
            late_news: rng.pick(&[0, 300, 900]),
            slow: rng.pick(&[0, 5, 20]),
            mistake: None,
        }];
        options.readers.clear();
        options.storm = millis(&mut rng, 2_000, 5_000);
        options.think = millis(&mut rng, 5, 40);
        (options.clients, options.writers) = (rng.range(1, 2) as u32, rng.range(1, 3) as u32);
        (options.lone, options.log, options.dead) = (None, None, None);
        options.idle.clear();
        options.stride = 1;
        options.network.delay_rare = options.world.peer_timeout * 3;
        options.network.loss = options.network.loss.min(100);
        options.losses = LossOptions { power: rng.pick(&[0, 0, 500, 1_000]), failed_syncs: 0 };
        options.takeovers = TakeoverOptions::default();
        let mut exclusive = Rng::new(seed, 61);
        if exclusive.chance(400) {
            options.takeovers.every = millis(&mut exclusive, 200, 1_500);
            options.takeovers.hold = millis(&mut exclusive, 200, 2_500);
        }
        options.members = MemberOptions::default();
        options.devices = DeviceOptions::default();
        options.lies = LieOptions::default();
        options.retains = false;
        let nodes = &mut options.nodes;
        (nodes.stays_dead, nodes.isolate) = (0, 0);
        nodes.move_every = rng.pick(&[Duration::ZERO, Duration::from_millis(400)]);
        nodes.crash_every = millis(&mut rng, 150, 1_000);
        nodes.cut_every =
            rng.pick(&[Duration::ZERO, Duration::from_millis(400), Duration::from_millis(1_000)]);
        nodes.cut = lease * 6 + options.world.lease * 4;
        // Mostly a little longer than it takes until another node is the primary.
        if kind == 1 {
            // Primaries that are replaced without knowing it: processes live for long enough.
            nodes.crash_every = millis(&mut rng, 1_500, 4_000);
            nodes.cut_every = millis(&mut rng, 400, 1_200);
            (options.network.rare, options.network.loss) = (0, 0);
            options.world.lease /= 2;
            options.world.mirrors[0].late_news = rng.pick(&[300, 900]);
        }
        if options.one_at_a_time {
            // Nor does a column seem to be away: its node is heard within a quarter of the group's lease.
            (nodes.cut_every, nodes.deafen_every) = (Duration::ZERO, Duration::ZERO);
            (nodes.pause_every, nodes.reconnect_every) = (Duration::ZERO, Duration::ZERO);
            nodes.timer_late = nodes.timer_late.min(Duration::from_millis(2));
            (options.network.rare, options.network.loss) = (0, 0);
        }
        nodes.downtime = (lease * 8).max(millis(&mut rng, 10, 1_500));
        let mut rot = Rng::new(seed, 62);
        // The source of a reconciliation forgets commands when it is repaired.
        if kind > 0 && rot.chance(600) {
            nodes.rot_every = millis(&mut rot, 20, 300);
            options.world.mirrors[0].unit = 2;
        }
        let mut replacements = Rng::new(seed, 63);
        if replacements.chance(400) {
            nodes.replace_every = millis(&mut replacements, 100, 1_000);
        }
        options
    }
}
