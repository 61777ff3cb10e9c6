//! What is drawn now.

use cards_core::{Coherence, Duration, Handover, NodeId};
use cards_world::NodeConfig;

use super::{Clocks, DeviceOptions, LossOptions, Mode, Options};
use crate::rng::Rng;

/// Nodes of a run at most.
const NODES_MAX: usize = 9;

impl Options {
    /// As they were drawn before disks lied and connections overlapped: over [`Self::second`], from other generators.
    #[must_use]
    pub fn third(seed: u64) -> Self {
        let mut options = Self::second(seed);
        let mut rng = Rng::new(seed, 11);
        for volume in &mut options.world.volumes {
            volume.handover = rng.pick(&[Handover::Cache, Handover::Cache, Handover::Disk]);
        }
        let mut rng = Rng::new(seed, 10);
        let millis = |rng: &mut Rng, low, high| Duration::from_millis(rng.range(low, high));
        if options.mode == Mode::ColdRead {
            options.readers_of_block = rng.pick(&[1, 2, 3]);
            return options;
        }
        if rng.chance(50) {
            let more = options.world.nodes.clone().into_iter().cycle();
            options.add_nodes(more.take(NODES_MAX).collect());
        }
        if rng.chance(250) {
            options.takeovers.every = millis(&mut rng, 200, 1_500);
            options.takeovers.hold = millis(&mut rng, 20, 1_500);
        }
        if rng.chance(300) {
            options.members.change_every = millis(&mut rng, 50, 800);
            options.members.late = millis(&mut rng, 1, 1_000);
        }
        if rng.chance(200) {
            options.members.lose_every = millis(&mut rng, 300, 2_000);
            options.members.lost = millis(&mut rng, 100, 3_000);
        }
        if rng.chance(300) {
            options.clocks = Clocks::within(&mut rng, options.world.nodes.len());
        }
        options.nodes.unproven = rng.pick(&[0, 0, 300, 1000]);
        let mut rng = Rng::new(seed, 12);
        let late = rng.chance(100);
        if late {
            // Commands that are given up and done later, while their node asks for the blocks.
            options.world.disk_wait = options.world.lease * 2;
            options.network.reorder = true;
            options.network.rare = rng.pick(&[20, 60, 150]);
            options.network.delay_rare = options.world.disk_wait * 3;
        }
        let mut rng = Rng::new(seed, 13);
        if rng.chance(150) && !late {
            options.under_restarts(&mut rng);
        }
        options.draw_devices(&mut Rng::new(seed, 14));
        options.draw_losses(&mut Rng::new(seed, 17));
        let mut rng = Rng::new(seed, 20);
        if rng.chance(80) && !late {
            // Nobody reads, so after a while nobody has locks on what is written.
            options.under_restarts(&mut rng);
            options.clients = 0;
            options.writes_elsewhere = 0;
            options.world.devices.clear();
            options.world.exclusive.clear();
        }
        if options.nodes.deafen_every > Duration::ZERO && !late {
            // Whoever is heard and hears nothing holds up a write for two seconds before it counts as silent, and a read may
            // have to wait for more than one.
            options.world.disk_wait = options.world.disk_wait.max(Duration::from_secs(8));
        }
        if !late {
            // As in real use: several writes that follow each other may each have to wait for the lease of a node that stands still.
            options.world.disk_wait = options.world.disk_wait.max(options.world.lease * 10);
        }
        options.draw_limits(&mut Rng::new(seed, 21));
        if !late {
            options.draw_moves(&mut Rng::new(seed, 22));
        }
        options.draw_regions(&mut Rng::new(seed, 31));
        options.draw_seals(&mut Rng::new(seed, 41));
        options
    }

    /// Disks that are sealed as soon as they are idle for a moment.
    fn draw_seals(&mut self, rng: &mut Rng) {
        if !rng.chance(300) {
            return;
        }
        self.world.seal_after = Duration::from_micros(rng.pick(&[500, 2_000, 10_000, 50_000]));
        if rng.chance(500) && self.world.shared.is_empty() {
            // Idle now and then, and without power now and then.
            (self.writers, self.think) = (1, Duration::from_millis(rng.range(5, 60)));
            self.losses =
                LossOptions { power: rng.pick(&[300, 700]), failed_syncs: rng.pick(&[0, 0, 0, 50]) };
            self.nodes.crash_every = Duration::from_millis(rng.range(150, 600));
        }
    }

    /// Volumes that all nodes reach, whose primaries move.
    fn draw_moves(&mut self, rng: &mut Rng) {
        if rng.chance(120) {
            // Much more often than cards run out, nothing would ever be written.
            self.share_disks(self.world.lease * rng.range(700, 4_000) as u32 / 1000);
        }
    }

    /// All nodes reach all disks.
    pub(crate) fn share_disks(&mut self, move_every: Duration) {
        self.nodes.move_every = move_every;
        let volumes = self.world.volumes.iter().map(|spec| spec.id);
        self.world.shared = volumes.filter(|volume| volume.is_plain()).collect();
    }

    /// Disk nodes that die again and again, with answers that get lost, under clients of the same block or two.
    fn under_restarts(&mut self, rng: &mut Rng) {
        let millis = |rng: &mut Rng, low, high| Duration::from_millis(rng.range(low, high));
        self.world.lease = millis(rng, 100, 250);
        self.nodes.crash_every = millis(rng, 100, 400);
        self.nodes.downtime = millis(rng, 5, 60);
        self.nodes.isolate = 0;
        self.network.loss = rng.pick(&[50, 150, 300]);
        if self.network.loss == 300 {
            // Every second word that is repeated after 100 ms is lost again, or its answer, and a read may have to wait for
            // several writes that follow each other.
            self.world.disk_wait = self.world.disk_wait.max(Duration::from_secs(5));
        }
        self.hot_blocks = rng.pick(&[1, 2]);
        (self.writers, self.clients) = (3, 3);
        self.think = Duration::from_millis(1);
    }

    /// Machines that lose their power, and disks that fail to sync.
    fn draw_losses(&mut self, rng: &mut Rng) {
        if !rng.chance(120) {
            return;
        }
        self.losses = LossOptions { power: rng.pick(&[0, 500, 1000]), failed_syncs: rng.pick(&[0, 50, 300]) };
        let crash_every = Duration::from_millis(rng.range(150, 1_000));
        if self.losses.power > 0 {
            self.nodes.crash_every = crash_every;
        }
    }

    /// Volumes as local devices, where their kernels can be told of writes.
    fn draw_devices(&mut self, rng: &mut Rng) {
        if !rng.chance(300) {
            return;
        }
        let nodes = self.world.nodes.len() as u16;
        for spec in self.world.volumes.iter().filter(|spec| spec.coherence == Coherence::Confirmed) {
            let chosen = (0..nodes).map(NodeId).filter(|_| rng.chance(500));
            self.world.devices.extend(chosen.map(|node| (node, spec.id)));
        }
        let micros = |rng: &mut Rng, low, high| Duration::from_micros(rng.range(low, high));
        self.devices = DeviceOptions {
            clients: rng.range(1, 2) as u32,
            word: micros(rng, 50, 5_000),
            withdraw: micros(rng, 100, 10_000),
            slow: rng.pick(&[0, 20, 200]),
            // A node gives a device up that takes longer than a lease.
            withdraw_slow: Duration::from_millis(500).min(self.world.lease / 2),
            notice: micros(rng, 10, 20_000),
            close_every: if rng.chance(500) {
                Duration::from_millis(rng.range(50, 1_000))
            } else {
                Duration::ZERO
            },
        };
        // What a kernel has, its node need not have too. Few runs are like that: where copies are few, mistakes about
        // them do not show.
        if rng.chance(250) {
            let devices = self.world.devices.iter().copied();
            self.world.exclusive = devices.filter(|_| rng.chance(500)).collect();
        }
    }

    /// More nodes, without disks. They attach volumes that are read-only.
    fn add_nodes(&mut self, nodes: Vec<NodeConfig>) {
        let (before, after) = (self.world.nodes.len() as u16, nodes.len() as u16);
        self.world.nodes = nodes;
        for volume in self.world.volumes.iter().filter(|volume| volume.read_only) {
            self.readers.extend((before..after).map(|node| (NodeId(node), volume.id)));
        }
    }
}
