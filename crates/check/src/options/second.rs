//! What was drawn when many writers and policies had come.

use cards_core::{Coherence, Duration, NodeId};
use cards_policies::Replacement;

use super::{Mode, Options};
use crate::rng::Rng;

/// Policies that came later, see [`Options::second`].
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
    /// As they were drawn when there were many writers and policies: over [`Self::first`], from another generator.
    #[must_use]
    pub fn second(seed: u64) -> Self {
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
        let apart = options.sets_apart();
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
        }
        if apart {
            options.make_room();
        }
        options
    }

    /// Whether some policy leaves a node only a part of its cache: a fifth, at the worst.
    pub(crate) fn sets_apart(&self) -> bool {
        self.world.volumes.iter().any(|v| v.policy.contains("central") || v.policy.contains("split"))
    }

    /// A cold volume fits in that part too.
    pub(crate) fn make_room(&mut self) {
        if self.mode == Mode::ColdRead {
            self.world.nodes.iter_mut().for_each(|node| node.capacity_blocks *= 5);
        }
    }
}
