//! Many nodes read the whole of one volume: `model`, `fleet`.

use super::Generator;
use super::agenda::Agenda;
use super::parameter::{Kind, Parameter};
use super::random::Random;
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "model",
    title: "many nodes load one large file (model weights), each from start to end",
    source: "no measurement: the pattern of a service that is rolled out",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("8"),
        Parameter::requests("all"),
        Parameter::TIME,
        Parameter {
            name: "bytes",
            kind: Kind::Bytes(1, 1 << 50),
            default: "4GiB",
            meaning: "size of the file",
        },
        Parameter {
            name: "request",
            kind: Kind::Bytes(512, 1 << 30),
            default: "1MiB",
            meaning: "size of a read",
        },
        Parameter {
            name: "window",
            kind: Kind::Time(1_000_000),
            default: "10s",
            meaning: "the nodes start at random within this time",
        },
        Parameter {
            name: "compute",
            kind: Kind::Time(1_000),
            default: "100us",
            meaning: "mean compute demand per read",
        },
    ],
    build,
};

/// Starts and speeds are given, so that what a policy makes of them can be told from what chance does.
pub(crate) const FLEET: Entry = Entry {
    name: "fleet",
    title: "many nodes read one volume from start to end, all at once or started apart, at different speeds",
    source: "no measurement: the pattern of images and weights that every node of a cluster reads",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("8"),
        Parameter::requests("all"),
        Parameter::TIME,
        Parameter {
            name: "bytes",
            kind: Kind::Bytes(1, 1 << 50),
            default: "256MiB",
            meaning: "size of the volume",
        },
        Parameter {
            name: "request",
            kind: Kind::Bytes(512, 1 << 30),
            default: "1MiB",
            meaning: "size of a read",
        },
        Parameter {
            name: "apart",
            kind: Kind::Time(1_000_000),
            default: "0s",
            meaning: "time between the starts of a node and of the next one",
        },
        Parameter {
            name: "compute",
            kind: Kind::Time(1_000),
            default: "100us",
            meaning: "mean compute demand per read of the fastest node",
        },
        Parameter {
            name: "slower",
            kind: Kind::Real(0.0, 1000.0),
            default: "0",
            meaning: "the compute demand of a node is more by up to this share, drawn for each node",
        },
    ],
    build: build_fleet,
};

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let mut random = Random::new(values.number("seed"));
    let window = values.number("window").saturating_add(1);
    let readers =
        (0..values.small("nodes")).map(|_| (random.below(window), values.number("compute"))).collect();
    Ok(Stream::boxed(Model::new(values, readers, random), values))
}

fn build_fleet(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let mut random = Random::new(values.number("seed"));
    let (apart, fastest, slower) = (values.number("apart"), values.number("compute"), values.real("slower"));
    let readers = (0..values.small("nodes"))
        .map(|node| {
            let compute = fastest as f64 * (1.0 + slower * random.unit());
            (apart.saturating_mul(u64::from(node)), compute as u64)
        })
        .collect();
    Ok(Stream::boxed(Model::new(values, readers, random), values))
}

struct Model {
    bytes: u64,
    request: u64,
    readers: Vec<Reader>,
    agenda: Agenda,
    random: Random,
}

/// A node that reads.
struct Reader {
    /// How far it has come, in bytes.
    done: u64,
    /// Its mean compute demand per read, in ns.
    compute: u64,
}

impl Model {
    /// With the start of each node and its mean compute demand per read, in ns.
    fn new(values: &Values, readers: Vec<(u64, u64)>, random: Random) -> Self {
        let mut agenda = Agenda::default();
        for (node, &(start, _)) in (0..).zip(&readers) {
            agenda.add(start, node);
        }
        Self {
            bytes: values.number("bytes"),
            request: values.number("request"),
            readers: readers.into_iter().map(|(_, compute)| Reader { done: 0, compute }).collect(),
            agenda,
            random,
        }
    }
}

impl Workload for Model {
    fn next(&mut self) -> Option<Request> {
        let moment = self.agenda.first()?;
        let reader = self.readers.get_mut(moment.node as usize)?;
        let bytes = self.request.min(self.bytes - reader.done) as u32;
        let request = moment.request(Op::Read, 0, reader.done, bytes);
        reader.done += u64::from(bytes);
        if reader.done < self.bytes {
            self.agenda.compute_first(self.random.gap(reader.compute));
        } else {
            self.agenda.end_first();
        }
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        Some(self.bytes.div_ceil(self.request).saturating_mul(self.readers.len() as u64))
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.bytes]
    }
}
