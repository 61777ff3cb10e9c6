//! Clients of local devices. They only read: writes of the same node go the way of all others.

use cards_core::{BlockId, Duration, NodeId, PgId};
use cards_world::{Action, Request};

use super::{Deed, Owner, What, Workload};
use crate::run::{Deed as RunDeed, Run};

/// A client of a device.
#[derive(Debug)]
pub(super) struct DeviceClient {
    node: NodeId,
    volume: PgId,
    /// Reads it waits for.
    waits: u32,
}

impl DeviceClient {
    pub(super) fn new(node: NodeId, volume: PgId) -> Self {
        Self { node, volume, waits: 0 }
    }
}

impl Workload {
    /// Devices are used from early on.
    pub(super) fn open_devices(&mut self, run: &mut Run) {
        for number in 0..run.options.world.devices.len() {
            let delay = self.device_rng.skewed(Duration::from_millis(50));
            run.later(delay, RunDeed::Workload(Deed::OpenDevice(number)));
            self.close_later(run, number);
        }
        (0..self.device_clients.len()).for_each(|client| self.device_thinks(run, client));
    }

    /// The faults stop. A device of a node that stays dead is not used any more, all others are.
    pub(crate) fn calm_devices(&mut self, run: &mut Run, stays_dead: impl Fn(NodeId) -> bool) {
        for (number, (node, volume)) in run.options.world.devices.clone().into_iter().enumerate() {
            if stays_dead(node) {
                run.world.schedule(run.world.now(), Action::CloseDevice(node, volume));
            } else {
                self.open_device(run, number);
            }
        }
    }

    pub(super) fn open_device(&mut self, run: &mut Run, number: usize) {
        let (node, volume) = run.options.world.devices[number];
        run.world.schedule(run.world.now(), Action::OpenDevice(node, volume));
    }

    /// A device's user goes, and comes back soon.
    pub(super) fn close_device(&mut self, run: &mut Run, number: usize) {
        if self.stops(run) {
            return;
        }
        let (node, volume) = run.options.world.devices[number];
        run.world.schedule(run.world.now(), Action::CloseDevice(node, volume));
        let delay = self.device_rng.skewed(Duration::from_millis(20));
        run.later(delay, RunDeed::Workload(Deed::OpenDevice(number)));
        self.close_later(run, number);
    }

    fn close_later(&mut self, run: &mut Run, number: usize) {
        let every = run.options.devices.close_every;
        if every > Duration::ZERO {
            let delay = every * self.device_rng.range(100, 1900) as u32 / 1000;
            run.later(delay, RunDeed::Workload(Deed::CloseDevice(number)));
        }
    }

    pub(super) fn device_client_acts(&mut self, run: &mut Run, number: usize) {
        if self.stops(run) {
            return;
        }
        let DeviceClient { node, volume, .. } = self.device_clients[number];
        let spec = run.options.world.volumes.iter().find(|spec| spec.id == volume);
        let spec = spec.expect("a volume of the run");
        let spots = u64::from(run.options.spots(spec));
        let rng = &mut self.device_rng;
        // Mostly where the writers are.
        let first = match rng.chance(800) {
            true => rng.below(u64::from(run.options.hot_blocks)) % spots,
            false => rng.below(spots),
        };
        let first = u64::from(run.options.spot(first as u32));
        let last = (first + rng.range(1, 4)).min(spec.blocks());
        self.device_clients[number].waits = (last - first) as u32;
        for index in first..last {
            self.read_device(run, node, BlockId::new(volume, index as u32), Owner::DeviceClient(number));
        }
    }

    pub(super) fn device_answered(&mut self, run: &mut Run, number: usize) {
        self.device_clients[number].waits -= 1;
        if self.device_clients[number].waits == 0 {
            self.device_thinks(run, number);
        }
    }

    fn device_thinks(&mut self, run: &mut Run, number: usize) {
        let delay = Duration::from_millis(1) + self.device_rng.skewed(run.options.think);
        run.later(delay, RunDeed::Workload(Deed::DeviceClient(number)));
    }

    pub(super) fn read_device(&mut self, run: &mut Run, node: NodeId, block: BlockId, owner: Owner) {
        self.submit(run, node, block.volume, owner, What::Read(block), Request::ReadDevice { block });
    }
}
