//! What is drawn now: over [`Options::third`], lying disks, connections that overlap, steps of the time of day, and shapes of
//! load.

use cards_core::{Coherence, Duration, NodeId};

use super::{LieOptions, Mode, Options};
use crate::overrides::LeftOut;
use crate::rng::Rng;

impl Options {
    /// Draws all options. What comes later is drawn from a generator of its own and put over what was drawn before
    /// ([`Self::first`], [`Self::second`], [`Self::third`]), so that seeds which once found something keep finding it there.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut options = Self::third(seed);
        if options.mode == Mode::ColdRead {
            return options;
        }
        options.draw_lies(&mut Rng::new(seed, 41));
        let mut rng = Rng::new(seed, 42);
        if rng.chance(200) {
            options.nodes.reconnect_every = Duration::from_millis(rng.range(20, 600));
        }
        options.clocks.steps = Rng::new(seed, 43).chance(300);
        options.draw_shape(&mut Rng::new(seed, 44));
        options.draw_stranger(&mut Rng::new(seed, 50));
        // What a log or a dead primary may cost is counted.
        let is_counted = options.log.is_some() || options.dead.is_some();
        options.retains = !is_counted && Rng::new(seed, 51).chance(150);
        options
    }

    /// One more member, which may attach nothing and asks for blocks all the same. (It would be the primary as well, where that
    /// moves.)
    fn draw_stranger(&mut self, rng: &mut Rng) {
        let is_shaped = self.log.is_some() || self.dead.is_some() || !self.world.shared.is_empty();
        if is_shaped || !rng.chance(100) {
            return;
        }
        let stranger = NodeId(self.world.nodes.len() as u16);
        self.world.nodes.push(self.world.nodes[0].clone());
        self.world.strangers.push(stranger);
        self.readers.extend(self.world.volumes.iter().map(|spec| (stranger, spec.id)));
        self.nodes.pry_every = Duration::from_millis(rng.range(1, 20));
    }

    /// Disks that do not do what they say. (Of those whose primaries move it is promised that they take nothing of the last
    /// one.)
    fn draw_lies(&mut self, rng: &mut Rng) {
        if self.world.shared.is_empty() && rng.chance(80) {
            let mut rate = || rng.pick(&[0, 5, 50]);
            self.lies = LieOptions { lost: rate(), elsewhere: rate(), old: rate(), late: 0 };
            self.lies.late = rng.pick(&[0, 500, 1000]);
        }
        if rng.chance(80) {
            self.disk.fills = rng.pick(&[5, 50]);
        }
    }

    fn draw_shape(&mut self, rng: &mut Rng) {
        match rng.below(1000) {
            0..80 => self.leave_idle(rng),
            80..140 => self.write_log(rng),
            140..200 => self.lose_primary(rng),
            200..280 => self.spread(rng),
            _ => {}
        }
    }

    /// Nothing goes wrong.
    fn leave_faults_out(&mut self) {
        LeftOut::all().remove_from(self);
        self.nodes.stays_dead = 0;
    }

    /// Some cards are attached, and nobody uses them.
    fn leave_idle(&mut self, rng: &mut Rng) {
        let nodes = (1..self.world.nodes.len() as u16).map(NodeId);
        self.idle = nodes.filter(|_| rng.chance(500)).collect();
        self.world.devices.retain(|(node, _)| !self.idle.contains(node));
        self.world.exclusive.retain(|(node, _)| !self.idle.contains(node));
    }

    /// One writer at the end of a log, and readers of what is elsewhere in the volume, while nothing goes wrong.
    fn write_log(&mut self, rng: &mut Rng) {
        let one = self.world.nodes[0].clone();
        let nodes = rng.range(3, 5) as usize;
        self.leave_faults_out();
        self.world.nodes.resize(nodes, one);
        self.world.nodes.iter_mut().for_each(|node| node.capacity_blocks = 64);
        self.world.volumes.truncate(1);
        let stripes = 4 * u64::from(self.world.shards);
        for volume in &mut self.world.volumes {
            volume.id = cards_core::PgId::plain(NodeId(0), 0);
            volume.primary = NodeId(0);
            volume.size_bytes = 16 * stripes * u64::from(volume.block_bytes);
            (volume.read_only, volume.coherence) = (false, Coherence::Confirmed);
            rng.pick(&["hscc", "hints", "nchance", "gms"]).clone_into(&mut volume.policy);
        }
        let volume = self.world.volumes[0].id;
        self.log = Some(volume);
        self.readers = (2..nodes as u16).map(|node| (NodeId(node), volume)).collect();
        (self.writers, self.at_once) = (1, rng.range(1, 4) as u32);
        (self.clients, self.hot_blocks) = (2, 8);
    }

    /// One disk node dies and stays away while another one's volume is written and read.
    fn lose_primary(&mut self, rng: &mut Rng) {
        let one = self.world.nodes[0].clone();
        self.leave_faults_out();
        self.world.nodes.resize(self.world.nodes.len().max(3), one);
        let spec = self.world.volumes[0].clone();
        self.world.volumes = vec![spec.clone(), spec];
        for (number, volume) in self.world.volumes.iter_mut().enumerate() {
            volume.primary = NodeId(number as u16);
            volume.id = cards_core::PgId::plain(volume.primary, number as u16);
            volume.name = format!("volume{number}");
            (volume.read_only, volume.coherence) = (false, Coherence::Confirmed);
        }
        self.readers.clear();
        self.dead = Some(NodeId(1));
        self.world.limits.slots = rng.pick(&[1, 2, 8]);
        self.world.lease = Duration::from_millis(rng.range(100, 400));
        self.world.disk_wait = Duration::from_secs(20);
        self.storm = self.world.lease * 4 + Duration::from_secs(5);
        (self.writers, self.at_once, self.clients) = (2, 8, 2);
    }

    /// What clients use is far apart: each place in a region of its own.
    fn spread(&mut self, rng: &mut Rng) {
        let segments = rng.pick(&[1, 8, 64]);
        let limits = &mut self.world.limits;
        limits.region_segments = segments;
        limits.card_regions = rng.pick(&[1, 2, 8]);
        limits.directory_regions = rng.pick(&[1, 2, 8, limits.directory_regions]);
        self.stride = cards_core::STRIPE_BLOCKS * segments * u32::from(self.world.shards);
        for volume in &mut self.world.volumes {
            volume.size_bytes *= u64::from(self.stride);
        }
        self.hot_blocks = rng.pick(&[8, 32]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_is_drawn_and_leaves_runs_that_can_be() {
        let all: Vec<Options> =
            (1..=400).map(Options::draw).filter(|options| options.mode == Mode::Storm).collect();
        let count = |is: fn(&Options) -> bool| all.iter().filter(|&options| is(options)).count();
        assert!(count(|o| !o.idle.is_empty()) > 10);
        assert!(count(|o| o.log.is_some()) > 10);
        assert!(count(|o| o.dead.is_some()) > 10);
        assert!(count(|o| o.stride > 1) > 10);
        assert!(count(|o| o.lies.lost > 0) > 5);
        for options in all {
            let nodes = options.world.nodes.len();
            let exists = |node: &NodeId| usize::from(node.0) < nodes;
            assert!(options.idle.iter().chain(&options.dead).all(exists), "seed {}", options.seed);
            assert!(options.idle.len() < nodes, "seed {}", options.seed);
        }
    }
}
