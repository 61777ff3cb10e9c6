//! A network file system of workstations.

mod client;
mod pools;

use self::client::Client;
use self::pools::Pools;
use super::Generator;
use super::agenda::Agenda;
use super::parameter::{Kind, Parameter};
use super::random::{Random, fraction_of};
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::Request;

pub(crate) const ENTRY: Entry = Entry {
    name: "sprite",
    title: "workstation users: whole-file reads of small files, shared programs, short-lived new files",
    source: "Cortes, Girona and Labarta, Design Issues of a Cooperative Cache with no Coherence Problems, table 1; \
             Baker et al., Measurements of a Distributed File System; Dahlin et al., Cooperative Caching",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("50"),
        Parameter::requests("1565k"),
        Parameter::TIME,
        Parameter {
            name: "clients",
            kind: Kind::Count(1, 65_535),
            default: "48",
            meaning: "nodes that have users, from node 0; at most all",
        },
    ],
    build,
};

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let count = values.small("clients").min(values.small("nodes"));
    let seed = values.number("seed");
    let mut random = Random::new(seed);
    let mut agenda = Agenda::default();
    let mut clients = Vec::new();
    for number in 0..count {
        let client = Client::new(&mut random);
        agenda.add(client.first_session(&mut random), number);
        clients.push(client);
    }
    let sprite = Sprite {
        pools: Pools::new(seed, count),
        clients,
        agenda,
        census: Census { phase: fraction_of(seed), opens: 0, read: 0, written: 0 },
        random,
    };
    Ok(Stream::boxed(sprite, values))
}

/// What keeps the mix of the whole workload even, so that also a short trace has the right proportions.
struct Census {
    phase: f64,
    opens: u64,
    /// Bytes of long files that were opened to be read, and to be written.
    read: u64,
    written: u64,
}

struct Sprite {
    pools: Pools,
    clients: Vec<Client>,
    agenda: Agenda,
    census: Census,
    random: Random,
}

impl Workload for Sprite {
    fn next(&mut self) -> Option<Request> {
        let moment = self.agenda.first()?;
        let client = self.clients.get_mut(moment.node as usize)?;
        let act = client.act(moment, &self.pools, &mut self.census, &mut self.random);
        self.agenda.wait_first(act.idle, act.compute);
        Some(act.request)
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.pools.bytes()]
    }
}
