//! The options of a run in words: what it is about, and what makes it differ from one in which nothing goes wrong.

use cards_core::{Coherence, Duration, Limits};

use super::{Clocks, Mode, Options};

impl Options {
    /// One line each: its name, and what it is.
    pub(crate) fn told(&self) -> Vec<(&'static str, String)> {
        let mut lines = self.cluster();
        lines.extend(self.faults());
        lines
    }

    /// Nothing goes wrong. (Devices are no fault.)
    pub(crate) fn is_quiet(&self) -> bool {
        self.faults().iter().all(|(name, _)| *name == "devices")
    }

    fn cluster(&self) -> Vec<(&'static str, String)> {
        let world = &self.world;
        let nodes = world.nodes.iter().map(|node| format!("{} {:?}", node.capacity_blocks, node.replacement));
        let nodes: Vec<String> = nodes.collect();
        let mut lines = vec![
            ("nodes", format!("{}, with caches of {}", nodes.len(), nodes.join(", "))),
            ("shards", world.shards.to_string()),
        ];
        for spec in &world.volumes {
            let mut line = format!("{:?}: {} blocks, {}", spec.id, spec.blocks(), spec.policy);
            let marks = [
                (spec.read_only, ", read-only"),
                (spec.network_attached, ", network-attached"),
                (spec.coherence == Coherence::Policy, ", kept coherent by its policy"),
            ];
            marks.into_iter().filter(|(is_so, _)| *is_so).for_each(|(_, mark)| line += mark);
            lines.push(("volume", line));
        }
        let (lease, peer, disk) = (world.lease, world.peer_timeout, world.disk_wait);
        lines.push(("timing", format!("lease {lease:?}, peer_timeout {peer:?}, disk_wait {disk:?}")));
        if world.hedge {
            lines.push(("hedged", "questions whose answers are late".to_string()));
        }
        if world.seal_after > Duration::ZERO {
            lines.push(("sealed", format!("disks that were not written for {:?}", world.seal_after)));
        }
        if world.limits != Limits::default() {
            lines.push(("limits", format!("{:?}", world.limits)));
        }
        let clients = match self.mode {
            Mode::Storm => format!(
                "{} a node, {} writers a volume, for {:?}, on {} blocks at a time",
                self.clients, self.writers, self.storm, self.hot_blocks
            ),
            Mode::ColdRead => format!("{} a node for each block, all at once", self.readers_of_block),
        };
        lines.push(("clients", clients));
        if let Some(stranger) = world.strangers.first() {
            lines.push(("stranger", format!("{stranger:?}, asks every {:?}", self.nodes.pry_every)));
        }
        if self.retains {
            lines.push(("retained", "blocks that stay in caches, and others after them".to_string()));
        }
        if self.stride > 1 {
            lines.push(("apart", format!("one block in {}", self.stride)));
        }
        if !self.idle.is_empty() {
            lines.push(("idle", format!("{:?}", self.idle)));
        }
        if let Some(volume) = self.log {
            lines.push(("log", format!("{volume:?}, and readers of what is behind it")));
        }
        if !self.readers.is_empty() {
            lines.push(("readers", format!("{:?}", self.readers)));
        }
        lines
    }

    fn faults(&self) -> Vec<(&'static str, String)> {
        let Self { network, disk, nodes, takeovers, members, devices, .. } = self;
        let mut lines = Vec::new();
        let mut rate = |name, per_mille: u32, more: String| {
            if per_mille > 0 {
                lines.push((name, format!("{}.{} %{more}", per_mille / 10, per_mille % 10)));
            }
        };
        rate("lost", network.loss, String::new());
        rate("repeated", network.duplicate, String::new());
        rate("late", network.rare, format!(", by up to {:?}", network.delay_rare));
        rate("broken", network.broken, String::new());
        rate("read errors", disk.read_errors, String::new());
        rate("write errors", disk.write_errors, String::new());
        rate("lost writes", self.lies.lost, String::new());
        rate("misdirected", self.lies.elsewhere, " of reads and writes".to_owned());
        rate("old reads", self.lies.old, String::new());
        rate("late writes", self.lies.late, " of those that a death interrupts".to_owned());
        rate("full disks", disk.fills, " of writes, for a while".to_owned());
        rate("detach", nodes.detach, " of requests".to_owned());
        let deaths = nodes.crash_every > Duration::ZERO;
        if network.reorder {
            lines.push(("reordered", "messages overtake each other".to_owned()));
        }
        let mut every = |name, every: Duration, more: String| {
            if every > Duration::ZERO {
                lines.push((name, format!("every {every:?}{more}")));
            }
        };
        every("crashes", nodes.crash_every, format!(", down for up to {:?}", nodes.downtime));
        every("pauses", nodes.pause_every, format!(", for up to {:?}", nodes.pause));
        every("cuts", nodes.cut_every, format!(", for up to {:?}", nodes.cut));
        every("one-way cuts", nodes.deafen_every, format!(", for up to {:?}", nodes.cut));
        every("reconnects", nodes.reconnect_every, String::new());
        every("moves", nodes.move_every, " of a volume's primary".to_owned());
        every("switches", nodes.switch_every, " of a volume's policy".to_owned());
        every("rot", nodes.rot_every, " of a column's unit, or a scrub".to_owned());
        every("replacements", nodes.replace_every, " of a column".to_owned());
        every("takeovers", takeovers.every, format!(", for up to {:?} and two leases", takeovers.hold));
        every("members", members.change_every, format!(", heard of within {:?}", members.late));
        every("coordinator", members.lose_every, format!(", lost for up to {:?}", members.lost));
        let mut rate = |name, per_mille: u32, of: &str| {
            if deaths && per_mille > 0 {
                lines.push((name, format!("{}.{} % of {of}", per_mille / 10, per_mille % 10)));
            }
        };
        rate("isolation", nodes.isolate, "disk nodes' deaths");
        rate("unproven", nodes.unproven, "restarts");
        rate("no notice", nodes.no_notice, "deaths");
        if nodes.timer_late > Duration::ZERO {
            lines.push(("timers", format!("late by up to {:?}", nodes.timer_late)));
        }
        if self.clocks.drifting() > 0 {
            let Clocks { rates, .. } = &self.clocks;
            lines.push(("clocks", format!("{rates:?} thousandths")));
        }
        if self.clocks.steps {
            lines.push(("time of day", "is set forward between lives".to_owned()));
        }
        if self.clocks.stop {
            lines.push(("clocks", "stop while their nodes stand still".to_owned()));
        }
        if let Some(node) = self.dead {
            lines.push(("dead", format!("{node:?}, from early on")));
        }
        if !self.world.devices.is_empty() {
            let each = format!("{} clients each, withdrawals within {:?}", devices.clients, devices.withdraw);
            lines.push(("devices", format!("{:?}, {each}", self.world.devices)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overrides::{LeftOut, Overrides};

    #[test]
    fn a_quiet_run_has_no_line_about_faults() {
        let quiet = Overrides { left_out: LeftOut::all(), ..Overrides::default() };
        let (mut with_faults, mut names) = (0, Vec::new());
        for seed in 1..=60 {
            let mut options = Options::draw(seed);
            let faults = options.faults();
            with_faults += usize::from(!faults.is_empty());
            names.extend(faults.into_iter().map(|(name, _)| name));
            quiet.apply(&mut options);
            assert_eq!(options.faults(), [], "seed {seed}");
            assert!(options.told().len() >= 5, "seed {seed}");
        }
        names.sort_unstable();
        names.dedup();
        assert!(with_faults > 40 && names.len() >= 18, "{names:?}");
    }
}
