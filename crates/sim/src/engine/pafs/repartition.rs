//! The repartition server, on node 0, and what the cache servers make of its plans (section 3.2 of the paper).

use std::collections::BTreeMap;

use cards_pafs::{Action, Frame, Load, Repartition, Shares};

use super::{Mail, Pafs, PafsEvent};
use crate::kernel::Kernel;
use crate::machine::Machine;

/// The node of the repartition server.
const NODE: u16 = 0;

impl Pafs {
    pub(super) fn is_repartitioned(&self) -> bool {
        self.config.repartition != Repartition::Fixed && self.config.servers > 1
    }

    /// An interval ends: how was it? (Unless the last one is still being asked about.)
    pub(super) fn poll(&mut self, kernel: &mut Kernel<PafsEvent>) {
        if self.awaited > 0 {
            return;
        }
        self.awaited = self.config.servers;
        for server in 0..self.config.servers {
            self.post(kernel, NODE, self.node_of(server), Mail::Poll { server });
        }
    }

    pub(super) fn answer(&mut self, kernel: &mut Kernel<PafsEvent>, server: u16) {
        let load = self.servers[usize::from(server)].end_interval();
        self.post(kernel, self.node_of(server), NODE, Mail::Answer { server, load });
    }

    /// When all have answered, all are told of their new partitions.
    pub(super) fn plan(&mut self, kernel: &mut Kernel<PafsEvent>, server: u16, load: Load) {
        self.loads[usize::from(server)] = load;
        self.awaited -= 1;
        if self.awaited > 0 {
            return;
        }
        let limit = || readable(kernel.model.machine(), self.block_bytes, self.config.interval.as_secs_f64());
        let shares = Shares {
            lose_percent: self.config.lose_percent,
            gain_max: self.config.repartition.limits_gains().then(limit),
        };
        let mut plans = vec![Vec::new(); usize::from(self.config.servers)];
        for transfer in shares.transfers(&self.loads, self.round) {
            if self.config.repartition.is_lazy() {
                plans[usize::from(transfer.to)].push((transfer.from, transfer.buffers));
            } else {
                plans[usize::from(transfer.from)].push((transfer.to, transfer.buffers));
            }
        }
        self.round += 1;
        for (server, transfers) in (0..).zip(plans) {
            let mail = Mail::Plan { server, transfers: transfers.into() };
            self.post(kernel, NODE, self.node_of(server), mail);
        }
    }

    pub(super) fn follow(&mut self, kernel: &mut Kernel<PafsEvent>, server: u16, transfers: &[(u16, u32)]) {
        let is_lazy = self.config.repartition.is_lazy();
        self.call(kernel, server, |s, out| {
            if is_lazy {
                s.set_gains(transfers.iter().copied(), out);
            } else {
                transfers.iter().for_each(|&(to, buffers)| s.give(to, buffers, out));
            }
        });
    }

    /// Frames that are given away at the same time go in one message to each of their new owners.
    pub(super) fn hand_over(&mut self, kernel: &mut Kernel<PafsEvent>, node: u16, actions: &[Action]) {
        let mut by_owner: BTreeMap<u16, Vec<Frame>> = BTreeMap::new();
        for action in actions {
            if let Action::Hand { to, frame } = *action {
                by_owner.entry(to).or_default().push(frame);
            }
        }
        for (to, frames) in by_owner {
            self.handed += frames.len() as u64;
            self.post(kernel, node, self.node_of(to), Mail::Hand { to, frames: frames.into() });
        }
    }
}

/// Blocks that all disks together can read in so many seconds (PAFS-12).
pub(super) fn readable(machine: &Machine, block_bytes: u32, seconds: f64) -> u32 {
    let transfer = f64::from(block_bytes) / machine.disk.bandwidth;
    let positioning = (machine.disk.read_seek.as_secs_f64() + transfer) / f64::from(machine.disk.channels);
    (f64::from(machine.disks) * seconds / positioning.max(transfer)) as u32
}
