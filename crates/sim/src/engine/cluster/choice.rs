//! `auto`: the chooser of a cluster, which sees what all nodes ask for.
//!
//! The references to the blocks of the sample reach it at once and cost nothing: in a daemon they are a few bytes for one block in up
//! to 64. All nodes change at the same time, which is a switch as in a daemon: what is cached stays. All volumes of a trace have one
//! policy.

use std::sync::Arc;

use cards_advise::{Access, Rate};
use cards_chooser::{Chooser, Classes, Cluster as Shadowed, Costs, rate, takes};
use cards_core::{Algorithms, BlockId, Duration, Input, Origin, PgId, mix};
use cards_policies::policy::START;
use cards_trace::Op;
use cards_user_policy::Modules;

use super::{Cluster, ClusterEvent};
use crate::engine::Choice as Chosen;
use crate::kernel::{Io, Kernel};
use crate::setup::{Setup, Timing};

pub(super) struct Choice {
    chooser: Chooser,
    rate: Rate,
    salt: u64,
    classes: Classes,
    /// What the shards ask for their policies.
    policies: Arc<Modules>,
    requests: u64,
    made: Vec<Chosen>,
}

impl Choice {
    pub(super) fn new(setup: &Setup, named: Arc<dyn Algorithms>) -> Self {
        let smallest = (0..setup.nodes).map(|node| setup.cache_of(node)).min().unwrap_or(1);
        let rate = rate(smallest.into());
        let scaled = |node| (u64::from(setup.cache_of(node)) / rate.weight()).max(1) as u32;
        let cluster = Shadowed {
            caches: (0..setup.nodes).map(scaled).collect(),
            block_bytes: setup.block_bytes,
            replacement: setup.replacement,
            network_attached: setup.network_attached,
            placement: setup.placement,
        };
        Self {
            chooser: Chooser::new(&cluster, None),
            rate,
            salt: setup.seed,
            classes: Classes::default(),
            policies: Arc::new(Modules::beside(named)),
            requests: 0,
            made: vec![Chosen { requests: 0, policy: START.into(), expected_us: None }],
        }
    }

    /// What all shards ask for their policies.
    pub(super) fn algorithms(&self) -> Arc<dyn Algorithms> {
        Arc::<Modules>::clone(&self.policies)
    }

    /// The policies so far.
    pub(super) fn made(&self) -> Vec<Chosen> {
        self.made.clone()
    }
}

impl Cluster {
    /// A block has been had, and took so long.
    pub(super) fn measure(&mut self, origin: Origin, took: Duration) {
        // One request at a time, counts do not depend on how fast anything is.
        if let Some(choice) = &mut self.choice
            && self.setup.timing != Timing::Serial
        {
            choice.classes.add(origin, 1, took);
        }
    }

    /// A request is issued.
    pub(super) fn sample(&mut self, kernel: &mut Kernel<ClusterEvent>, io: &Io, id: PgId) {
        let Some(choice) = &mut self.choice else { return };
        choice.requests += 1;
        if !matches!(io.op, Op::Read | Op::Write) {
            return;
        }
        // The blocks of a run stay together, and those of different volumes apart.
        let shift = mix(io.volume.into()) as u32 & !0xff;
        for block in io.first..io.first + u64::from(io.blocks) {
            let index = block as u32;
            if !takes(choice.rate, BlockId::new(id, index), choice.salt) {
                continue;
            }
            let access = match (io.op, io.covers(block, self.setup.block_bytes)) {
                (Op::Read, _) => Access::Read,
                (_, true) => Access::Write,
                (_, false) => Access::PartialWrite,
            };
            let shift = if io.volume == 0 { 0 } else { shift };
            choice.chooser.refer(kernel.now(), io.node, index.wrapping_add(shift), access);
        }
        if !choice.chooser.is_due() {
            return;
        }
        choice.chooser.set_costs(Costs::of(&choice.classes));
        let Some(switch) = choice.chooser.choose() else { return };
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        choice.made.push(Chosen {
            requests: choice.requests,
            policy: switch.policy.into(),
            expected_us: switch.expected.map(|(was, is)| (us(was), us(is))),
        });
        let known = (0..).zip(&self.volumes).filter(|(_, known)| **known).map(|(number, _)| number);
        let known: Vec<u16> = known.collect();
        let chosen = known.iter().map(|number| (format!("volume-{number}"), switch.policy.to_owned()));
        choice.policies.choose(chosen.collect());
        for number in known {
            let volume = self.volume_id(number);
            for shard in 0..self.shards.len() as u32 {
                self.give(kernel, shard, Input::PolicyChosen { volume });
            }
        }
    }
}
