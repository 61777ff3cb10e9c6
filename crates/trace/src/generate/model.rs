//! Many nodes load one large file.

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

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let nodes = values.small("nodes");
    let mut random = Random::new(values.number("seed"));
    let mut agenda = Agenda::default();
    for node in 0..nodes {
        agenda.add(random.below(values.number("window").saturating_add(1)), node);
    }
    let model = Model {
        bytes: values.number("bytes"),
        request: values.number("request"),
        compute: values.number("compute"),
        done: vec![0; nodes as usize],
        agenda,
        random,
    };
    Ok(Stream::boxed(model, values))
}

struct Model {
    bytes: u64,
    request: u64,
    compute: u64,
    /// How far each node has come, in bytes.
    done: Vec<u64>,
    agenda: Agenda,
    random: Random,
}

impl Workload for Model {
    fn next(&mut self) -> Option<Request> {
        let moment = self.agenda.first()?;
        let done = self.done.get_mut(moment.node as usize)?;
        let bytes = self.request.min(self.bytes - *done) as u32;
        let request = moment.request(Op::Read, 0, *done, bytes);
        *done += u64::from(bytes);
        if *done < self.bytes {
            self.agenda.compute_first(self.random.gap(self.compute));
        } else {
            self.agenda.end_first();
        }
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        Some(self.bytes.div_ceil(self.request).saturating_mul(self.done.len() as u64))
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.bytes]
    }
}
