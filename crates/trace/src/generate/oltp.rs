//! Short transactions on a database.

use super::Generator;
use super::agenda::Agenda;
use super::parameter::{Kind, Parameter};
use super::random::{Permutation, Random, Zipf};
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "oltp",
    title: "short transactions: skewed random reads and writes of pages, sequential log writes",
    source: "no measurement: the pattern of TPC-C (pages skewed, most work on a home partition, a log per node)",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("4"),
        Parameter::requests("1M"),
        Parameter::TIME,
        Parameter {
            name: "clients",
            kind: Kind::Count(1, 65_535),
            default: "16",
            meaning: "processes per node",
        },
        Parameter {
            name: "bytes",
            kind: Kind::Bytes(1 << 20, 1 << 50),
            default: "10GiB",
            meaning: "size of the database, volume 0",
        },
        Parameter {
            name: "page",
            kind: Kind::Bytes(512, 1 << 20),
            default: "8KiB",
            meaning: "size of a page",
        },
        Parameter {
            name: "pages",
            kind: Kind::Count(1, 10_000),
            default: "10",
            meaning: "pages that a transaction reads",
        },
        Parameter {
            name: "writes",
            kind: Kind::Real(0.0, 1.0),
            default: "0.3",
            meaning: "share of these that it then writes",
        },
        Parameter {
            name: "skew",
            kind: Kind::Real(0.0, 5.0),
            default: "0.9",
            meaning: "Zipf exponent of the pages' popularity",
        },
        Parameter {
            name: "affinity",
            kind: Kind::Real(0.0, 1.0),
            default: "0.85",
            meaning: "share of the pages that come from the node's own partition; the rest from anywhere",
        },
        Parameter {
            name: "log",
            kind: Kind::Bytes(64 << 10, 1 << 40),
            default: "256MiB",
            meaning: "size of each node's log, a ring in volume 1",
        },
        Parameter {
            name: "compute",
            kind: Kind::Time(1_000),
            default: "100us",
            meaning: "mean compute demand per request",
        },
    ],
    build,
};

const MAX_PROCESSES: u64 = 1 << 20;
const LOG_RECORD: u64 = 4096;

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let (nodes, clients) = (values.small("nodes"), values.small("clients"));
    if u64::from(nodes) * u64::from(clients) > MAX_PROCESSES {
        return Err(
            values.conflict("clients", format!("nodes times clients should be at most {MAX_PROCESSES}"))
        );
    }
    let page = values.number("page");
    let pages = values.number("bytes") / page;
    let partition = pages / u64::from(nodes);
    if partition == 0 {
        return Err(values.conflict("bytes", "should hold at least one page per node"));
    }
    let seed = values.number("seed");
    let mut agenda = Agenda::default();
    for process in 0..nodes * clients {
        agenda.add(0, process);
    }
    let oltp = Oltp {
        page,
        nodes,
        partition,
        popularity: Zipf::new(partition, values.real("skew")),
        place: Permutation::new(partition, seed),
        reads: values.number("pages"),
        writes: values.real("writes"),
        affinity: values.real("affinity"),
        log: values.number("log") / LOG_RECORD * LOG_RECORD,
        compute: values.number("compute"),
        clients: vec![Client::default(); (nodes * clients) as usize],
        logs: vec![0; nodes as usize],
        agenda,
        random: Random::new(seed),
    };
    Ok(Stream::boxed(oltp, values))
}

/// A process amid a transaction.
#[derive(Clone, Copy, Default)]
struct Client {
    /// Pages that it has read.
    reads: u64,
    /// A page that it has read and will write next.
    dirty: Option<u64>,
    /// Whether it has written any.
    wrote: bool,
    /// The log record is written; the flush is next.
    logged: bool,
}

struct Oltp {
    page: u64,
    nodes: u32,
    /// Pages per node.
    partition: u64,
    popularity: Zipf,
    /// Popular pages lie anywhere in their partition.
    place: Permutation,
    reads: u64,
    writes: f64,
    affinity: f64,
    log: u64,
    compute: u64,
    clients: Vec<Client>,
    /// Where each node's log goes on.
    logs: Vec<u64>,
    agenda: Agenda,
    random: Random,
}

impl Oltp {
    fn draw_page(&mut self, node: u32) -> u64 {
        let own = self.nodes == 1 || self.random.chance(self.affinity);
        let partition = if own { u64::from(node) } else { self.random.below(u64::from(self.nodes)) };
        partition * self.partition + self.place.at(self.popularity.draw(&mut self.random))
    }
}

impl Workload for Oltp {
    fn next(&mut self) -> Option<Request> {
        let mut moment = self.agenda.first()?;
        let node = moment.process % self.nodes;
        moment.node = node;
        self.agenda.compute_first(self.random.gap(self.compute));

        let mut client = *self.clients.get(moment.process as usize)?;
        let request = if let Some(page) = client.dirty.take() {
            client.wrote = true;
            moment.request(Op::Write, 0, page * self.page, self.page as u32)
        } else if client.reads < self.reads {
            client.reads += 1;
            let page = self.draw_page(node);
            client.dirty = self.random.chance(self.writes).then_some(page);
            moment.request(Op::Read, 0, page * self.page, self.page as u32)
        } else if client.logged {
            client = Client::default();
            moment.request(Op::Flush, 1, 0, 0)
        } else {
            let log = self.logs.get_mut(node as usize)?;
            let offset = u64::from(node) * self.log + *log;
            *log = (*log + LOG_RECORD) % self.log;
            client.logged = true;
            moment.request(Op::Write, 1, offset, LOG_RECORD as u32)
        };
        // A transaction that only read leaves nothing to log.
        if client.reads == self.reads && client.dirty.is_none() && !client.wrote {
            client = Client::default();
        }
        *self.clients.get_mut(moment.process as usize)? = client;
        Some(request)
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.partition * u64::from(self.nodes) * self.page, u64::from(self.nodes) * self.log]
    }
}
