//! Epochs over a dataset, each in a new order.

use super::Generator;
use super::agenda::Agenda;
use super::parameter::{Kind, Parameter};
use super::random::{Permutation, Random, fraction_of, scramble};
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "training",
    title: "all nodes read the samples of a dataset, each epoch in a new random order",
    source: "no measurement: the pattern of data-parallel training",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("8"),
        Parameter::requests("all"),
        Parameter::TIME,
        Parameter {
            name: "samples",
            kind: Kind::Count(1, 1 << 40),
            default: "100k",
            meaning: "samples in the dataset",
        },
        Parameter {
            name: "sample",
            kind: Kind::Bytes(2, 1 << 30),
            default: "112KiB",
            meaning: "mean size of a sample",
        },
        Parameter {
            name: "spread",
            kind: Kind::Real(0.0, 1.0),
            default: "0.8",
            meaning: "sizes lie within this share of the mean around it, triangularly distributed",
        },
        Parameter {
            name: "request",
            kind: Kind::Bytes(512, 1 << 30),
            default: "1MiB",
            meaning: "a larger sample is read in requests of this size",
        },
        Parameter {
            name: "epochs",
            kind: Kind::Count(1, 1_000_000),
            default: "3",
            meaning: "passes over the dataset",
        },
        Parameter {
            name: "mode",
            kind: Kind::Word(&["sharded", "replicated"]),
            default: "sharded",
            meaning: "an epoch is divided among the nodes, or every node reads all of it in its own order",
        },
        Parameter {
            name: "compute",
            kind: Kind::Time(1_000),
            default: "2ms",
            meaning: "mean compute demand per sample",
        },
    ],
    build,
};

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let nodes = values.small("nodes");
    let dataset = Dataset {
        samples: values.number("samples"),
        mean: values.number("sample"),
        spread: values.real("spread"),
        key: scramble(values.number("seed")),
    };
    if dataset.samples.checked_mul(dataset.mean).is_none_or(|bytes| bytes > 1 << 60) {
        return Err(values.conflict("samples", "samples times sample should be at most 1 EiB"));
    }
    let plan = Plan {
        dataset,
        nodes,
        epochs: values.number("epochs"),
        sharded: values.word("mode") == "sharded",
        seed: values.number("seed"),
    };
    if plan.sharded && dataset.samples < u64::from(nodes) {
        return Err(values.conflict("samples", "should be at least the number of nodes if mode=sharded"));
    }
    let mut agenda = Agenda::default();
    let mut readers = Vec::new();
    for node in 0..nodes {
        agenda.add(0, node);
        let (index, order) = plan.epoch(node, 0);
        readers.push(Reader { epoch: 0, index, order, at: 0, end: 0 });
    }
    let training = Training {
        plan,
        request: values.number("request"),
        compute: values.number("compute"),
        readers,
        agenda,
        random: Random::new(plan.seed),
    };
    Ok(Stream::boxed(training, values))
}

/// Samples back to back in one file. Nothing is stored: the border between two samples is displaced from its place
/// in a regular grid by an amount that follows from the sample's number.
#[derive(Clone, Copy)]
struct Dataset {
    samples: u64,
    mean: u64,
    spread: f64,
    key: u64,
}

impl Dataset {
    fn bytes(&self) -> u64 {
        self.samples * self.mean
    }

    /// Where a sample starts; for `samples`, where the last one ends.
    fn border(&self, sample: u64) -> u64 {
        if sample == 0 || sample >= self.samples {
            return sample.min(self.samples) * self.mean;
        }
        let room = (self.mean - 1) as f64 * self.spread;
        sample * self.mean + (fraction_of(self.key ^ sample) * room) as u64
    }
}

/// Who reads what in which order.
#[derive(Clone, Copy)]
struct Plan {
    dataset: Dataset,
    nodes: u32,
    epochs: u64,
    sharded: bool,
    seed: u64,
}

impl Plan {
    /// The order of an epoch, and the place in it where a node begins.
    fn epoch(&self, node: u32, epoch: u64) -> (u64, Permutation) {
        // The shards move on by one node each epoch, so that a last odd sample falls to another node.
        let shard = (u64::from(node) + epoch) % u64::from(self.nodes);
        let (first, who) = if self.sharded { (shard, 0) } else { (0, u64::from(node) + 1) };
        let key = scramble(self.seed ^ scramble(epoch)) ^ scramble(who);
        (first, Permutation::new(self.dataset.samples, key))
    }

    /// From one sample of a node to its next one, in places of the order.
    fn stride(&self) -> u64 {
        if self.sharded { u64::from(self.nodes) } else { 1 }
    }
}

/// What a node is reading.
struct Reader {
    epoch: u64,
    /// Its place in the order of the epoch.
    index: u64,
    order: Permutation,
    /// The rest of the sample, in bytes.
    at: u64,
    end: u64,
}

struct Training {
    plan: Plan,
    request: u64,
    compute: u64,
    readers: Vec<Reader>,
    agenda: Agenda,
    random: Random,
}

impl Workload for Training {
    fn next(&mut self) -> Option<Request> {
        let moment = self.agenda.first()?;
        let reader = self.readers.get_mut(moment.node as usize)?;
        if reader.at == reader.end {
            let sample = reader.order.at(reader.index);
            reader.at = self.plan.dataset.border(sample);
            reader.end = self.plan.dataset.border(sample + 1);
        }
        let bytes = self.request.min(reader.end - reader.at) as u32;
        let request = moment.request(Op::Read, 0, reader.at, bytes);
        reader.at += u64::from(bytes);
        let mut compute = 0;
        if reader.at == reader.end {
            compute = self.random.gap(self.compute);
            reader.index += self.plan.stride();
            if reader.index >= self.plan.dataset.samples {
                reader.epoch += 1;
                (reader.index, reader.order) = self.plan.epoch(moment.node, reader.epoch);
            }
        }
        if reader.epoch < self.plan.epochs {
            self.agenda.compute_first(compute);
        } else {
            self.agenda.end_first();
        }
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        // Only known where every sample takes one request.
        let Plan { dataset, nodes, epochs, sharded, .. } = self.plan;
        let passes = if sharded { 1 } else { u64::from(nodes) };
        let largest = dataset.mean as f64 * (1.0 + dataset.spread);
        (largest <= self.request as f64)
            .then(|| dataset.samples.saturating_mul(epochs).saturating_mul(passes))
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.plan.dataset.bytes()]
    }
}
