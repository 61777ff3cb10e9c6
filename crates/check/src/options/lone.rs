//! Runs in which one node writes alone, in small pieces, and nothing fails but the process of the disk node: again and
//! again, and for longer than a lease.

use cards_core::{Coherence, Duration, Limits, NodeId};

use super::{
    Clocks, DeviceOptions, DiskOptions, MemberOptions, Mode, NetworkOptions, NodeOptions, Options,
    TakeoverOptions,
};
use crate::rng::Rng;

impl Options {
    /// What such a run has in place of what [`Self::draw`] draws, from a generator of its own.
    #[must_use]
    pub fn lone(seed: u64) -> Self {
        let mut options = Self::third(seed);
        let mut rng = Rng::new(seed, 17);
        let millis = |rng: &mut Rng, low, high| Duration::from_millis(rng.range(low, high));
        let lease = millis(&mut rng, 100, 500);
        options.mode = Mode::Storm;
        // A sync that fails is an error that has a reason.
        options.losses = super::LossOptions::default();
        let world = &mut options.world;
        world.volumes.truncate(1);
        for volume in &mut world.volumes {
            (volume.read_only, volume.coherence) = (false, Coherence::Confirmed);
        }
        let one = world.nodes[0].clone();
        world.nodes.resize(rng.range(2, 4) as usize, one);
        for node in &mut world.nodes {
            node.capacity_blocks = rng.pick(&[8, 12, 64]);
        }
        let nodes = world.nodes.len() as u16;
        let disk_node = NodeId(0);
        for volume in &mut world.volumes {
            volume.id = cards_core::PgId::plain(disk_node, 0);
        }
        world.sectors = 4;
        // With few blocks remembered a disk node refuses to repeat a write, which is an error.
        world.limits = Limits::default();
        (world.devices, world.exclusive) = (Vec::new(), Vec::new());
        (world.lease, world.peer_timeout) = (lease, millis(&mut rng, 10, 100));
        let downtime = lease * rng.range(1, 6) as u32;
        world.disk_wait = Duration::from_secs(60);
        let writer = NodeId(rng.range(1, u64::from(nodes) - 1) as u16);
        options.lone = Some(writer);
        let volume = world.volumes[0].id;
        options.readers =
            (1..nodes).map(NodeId).filter(|&node| node != writer).map(|node| (node, volume)).collect();
        options.writers = rng.range(1, 2) as u32;
        options.at_once = rng.pick(&[4, 8, 16]);
        options.hot_blocks = rng.pick(&[1, 1, 2]);
        options.clients = rng.range(1, 2) as u32;
        options.readers_of_block = 1;
        options.think = millis(&mut rng, 1, 10);
        options.storm = millis(&mut rng, 2_000, 6_000);
        options.network = NetworkOptions {
            delay_rare: Duration::from_millis(1),
            rare: 0,
            loss: 0,
            broken: 0,
            delay_spread: options.network.delay_spread.min(lease / 20),
            ..options.network
        };
        options.disk = DiskOptions { read_errors: 0, write_errors: 0, ..options.disk };
        options.nodes = NodeOptions {
            crash_every: millis(&mut rng, 100, 1_000),
            downtime,
            stays_dead: 0,
            pause_every: Duration::ZERO,
            cut_every: Duration::ZERO,
            deafen_every: Duration::ZERO,
            move_every: Duration::ZERO,
            switch_every: Duration::ZERO,
            isolate: 0,
            detach: 0,
            timer_late: options.nodes.timer_late.min(lease / 20),
            notice: options.nodes.notice.min(lease),
            ..options.nodes
        };
        options.takeovers = TakeoverOptions::default();
        options.devices = DeviceOptions::default();
        options.members = MemberOptions::default();
        options.clocks = Clocks::default();
        options
    }
}
