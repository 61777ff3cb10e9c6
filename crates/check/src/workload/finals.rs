//! The final round: every volume is written once more, every node reads everything, and nothing may fail.
//!
//! A client gives a read up after `disk_wait`, however many others wait for the same disk and the same few slots. So no
//! more reads are under way at a time than the slowest disk answers well before that. Where `disk_wait` is long, as in most
//! runs, these are all reads at once.

use std::collections::VecDeque;

use cards_core::{BlockId, Duration, NodeId};

use super::{Deed, Owner, Workload};
use crate::options::{Mode, Options};
use crate::run::Run;

/// What remains to be done in the final round.
#[derive(Debug)]
pub(super) struct Finals {
    pub(super) writes: u64,
    /// Reads under way.
    reads: u64,
    /// Reads to come.
    queue: VecDeque<Read>,
    pace: Pace,
}

#[derive(Clone, Copy, Debug)]
enum Read {
    Node { node: NodeId, block: BlockId, inline: bool },
    Device(NodeId, BlockId),
}

/// How many reads are under way at the same time.
#[derive(Clone, Copy, Debug)]
struct Pace {
    at_once: u64,
    /// The longest time that a disk's answer takes.
    answer: Duration,
}

impl Pace {
    /// Each slot of the smallest shard answers a read after the other, each as late as a disk can, until `disk_wait`; less
    /// the time after which a question is repeated that a dead node was passed.
    fn new(options: &Options) -> Self {
        let answer = options.disk.latency_min
            + options.disk.latency_spread
            + (options.network.delay_min + options.network.delay_spread) * 2;
        let slots = options.world.nodes.iter().map(|node| node.capacity_blocks).min().unwrap_or(1);
        let wait = options.world.disk_wait.saturating_sub(options.repetition());
        let rounds = (wait.as_nanos() / answer.as_nanos().max(1)).max(1);
        Self { at_once: u64::from(slots) * rounds as u64, answer }
    }
}

impl Finals {
    pub(super) fn new(options: &Options) -> Self {
        Self { writes: 0, reads: 0, queue: VecDeque::new(), pace: Pace::new(options) }
    }
}

impl Workload {
    /// The final round begins.
    pub(crate) fn finish(&mut self, run: &mut Run) {
        if run.options.mode == Mode::Storm {
            for writer in 0..self.writers.len() {
                self.finals.writes += 1;
                self.think(run, Deed::Writer(writer));
            }
        }
        if self.finals.writes == 0 {
            self.read_everything(run);
        }
    }

    pub(crate) fn is_finished(&self, run: &Run) -> bool {
        let Finals { writes, reads, queue, .. } = &self.finals;
        *writes == 0 && *reads == 0 && queue.is_empty() && run.tickets.is_empty()
    }

    pub(crate) fn waits_for(&self) -> String {
        let Finals { writes, reads, queue, .. } = &self.finals;
        format!("{writes} writers, {reads} reads and {} to come, with {:?}", queue.len(), self.writers)
    }

    /// How long the reads take in any case because not all are made at once.
    pub(crate) fn paced_for(&self, options: &Options) -> Duration {
        let Pace { at_once, answer } = self.finals.pace;
        let blocks: u64 = options.world.volumes.iter().map(|spec| u64::from(options.spots(spec))).sum();
        // By clients of the nodes, and of their devices.
        let reads = blocks * options.world.nodes.len() as u64 * u64::from(options.readers_of_block + 1);
        answer * (reads / at_once) as u32
    }

    /// A writer has written for the last time.
    pub(super) fn finally_written(&mut self, run: &mut Run) {
        self.finals.writes -= 1;
        if self.finals.writes == 0 {
            self.read_everything(run);
        }
    }

    /// A read of the final round has its answer.
    pub(super) fn finally_read(&mut self, run: &mut Run) {
        self.finals.reads -= 1;
        self.read_on(run);
    }

    fn read_everything(&mut self, run: &mut Run) {
        let strangers = &run.options.world.strangers;
        for node in run.running_nodes().into_iter().filter(|node| !strangers.contains(node)) {
            for spec in &run.options.world.volumes {
                let spots = 0..run.options.spots(spec);
                let mut blocks: Vec<u32> = spots.map(|number| run.options.spot(number)).collect();
                for place in (1..blocks.len()).rev() {
                    blocks.swap(place, self.rng.below(place as u64 + 1) as usize);
                }
                for block in blocks.into_iter().map(|index| BlockId::new(spec.id, index)) {
                    for _ in 0..run.options.readers_of_block {
                        let inline = self.reads_inline();
                        self.finals.queue.push_back(Read::Node { node, block, inline });
                    }
                }
            }
        }
        // What the devices have had since the storm as well.
        for &(node, volume) in
            run.options.world.devices.iter().filter(|(node, _)| run.world.is_running(*node))
        {
            let spec = run.options.world.volumes.iter().find(|spec| spec.id == volume);
            let spots = 0..run.options.spots(spec.expect("a volume of the run"));
            let blocks = spots.map(|number| BlockId::new(volume, run.options.spot(number)));
            let reads = blocks.map(|block| Read::Device(node, block));
            self.finals.queue.extend(reads);
        }
        self.read_on(run);
    }

    fn read_on(&mut self, run: &mut Run) {
        while self.finals.reads < self.finals.pace.at_once
            && let Some(read) = self.finals.queue.pop_front()
        {
            self.finals.reads += 1;
            match read {
                Read::Node { node, block, inline } => self.read(run, node, block, inline, Owner::Final),
                Read::Device(node, block) => self.read_device(run, node, block, Owner::Final),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most runs flood all nodes at the end; where the wait is short there are as many reads as slots, at least.
    #[test]
    fn the_pace_is_slow_only_where_clients_wait_briefly() {
        let (mut at_once, mut paced) = (0, 0);
        for seed in 1..=400 {
            let options = Options::draw(seed);
            let workload = Workload::new(&options);
            match workload.paced_for(&options) {
                Duration::ZERO => at_once += 1,
                _ => paced += 1,
            }
            assert!(workload.finals.pace.at_once >= 8, "seed {seed}");
        }
        assert!(paced >= 4 && at_once > 300, "{at_once} at once, {paced} not");
    }
}
