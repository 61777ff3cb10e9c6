//! Static documents for many connections.

use super::Generator;
use super::agenda::Agenda;
use super::parameter::{Kind, Parameter};
use super::random::{Permutation, Random, Zipf};
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "webstone",
    title: "static HTTP GETs of a Zipf-like document set, many connections",
    source: "Olaru and Tichy, remote disk drivers, section 7 (150 and 300 connections); classes of WebStone 2",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("1"),
        Parameter::requests("all"),
        Parameter::TIME,
        Parameter {
            name: "connections",
            kind: Kind::Count(1, 1_000_000),
            default: "150",
            meaning: "simultaneous connections, dealt to the nodes in turn",
        },
        Parameter {
            name: "bytes",
            kind: Kind::Bytes(8 << 20, 1 << 50),
            default: "1GiB",
            meaning: "size of the document set",
        },
        Parameter {
            name: "load",
            kind: Kind::Bytes(1, 1 << 50),
            default: "5.4MiB",
            meaning: "data that each connection asks for, on average, until the end",
        },
        Parameter {
            name: "skew",
            kind: Kind::Real(0.0, 5.0),
            default: "0.9",
            meaning: "Zipf exponent of the documents' popularity, per size class",
        },
        Parameter {
            name: "request",
            kind: Kind::Bytes(4096, 1 << 20),
            default: "64KiB",
            meaning: "a larger document is read in requests of this size",
        },
        Parameter {
            name: "compute",
            kind: Kind::Time(1_000),
            default: "3ms",
            meaning: "mean compute demand per GET",
        },
        Parameter {
            name: "open",
            kind: Kind::Word(&["yes", "no"]),
            default: "no",
            meaning: "whether a GET begins with an open, whose range is the document's",
        },
    ],
    build,
};

const BLOCK: u64 = 4096;

/// WebStone's classes: size of a document in bytes, and its share of the GETs in thousandths.
const CLASSES: [(u64, u64); 5] = [(500, 350), (5_000, 500), (50_000, 140), (500_000, 9), (5_000_000, 1)];

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let seed = values.number("seed");
    let skew = values.real("skew");
    // A document starts with a block. A thousand GETs, one document each, would take this many bytes.
    let thousand: u64 = CLASSES.iter().map(|&(bytes, share)| bytes.next_multiple_of(BLOCK) * share).sum();
    let mut start = 0;
    let classes = CLASSES.map(|(bytes, share)| {
        let documents =
            (u128::from(values.number("bytes")) * u128::from(share) / u128::from(thousand)) as u64;
        let documents = documents.max(1);
        let class = Class {
            start,
            bytes,
            popularity: Zipf::new(documents, skew),
            place: Permutation::new(documents, seed ^ bytes),
        };
        start += documents * bytes.next_multiple_of(BLOCK);
        class
    });
    let connections = values.small("connections");
    let mut agenda = Agenda::default();
    for connection in 0..connections {
        agenda.add(0, connection);
    }
    let webstone = Webstone {
        classes,
        bytes: start,
        nodes: values.small("nodes"),
        request: values.number("request"),
        compute: values.number("compute"),
        left: values.number("load").saturating_mul(u64::from(connections)),
        opens: values.word("open") == "yes",
        gets: vec![(0, 0); connections as usize],
        agenda,
        random: Random::new(seed),
    };
    Ok(Stream::boxed(webstone, values))
}

/// The documents of one size.
struct Class {
    start: u64,
    bytes: u64,
    popularity: Zipf,
    /// Popular documents lie anywhere.
    place: Permutation,
}

struct Webstone {
    classes: [Class; CLASSES.len()],
    /// The size of the document set.
    bytes: u64,
    nodes: u32,
    request: u64,
    compute: u64,
    /// Data that may still be asked for.
    left: u64,
    /// Documents are opened.
    opens: bool,
    /// For each connection, what it has still to read of its document: offset and end.
    gets: Vec<(u64, u64)>,
    agenda: Agenda,
    random: Random,
}

/// A document, as offset and end.
fn document(classes: &[Class; CLASSES.len()], random: &mut Random) -> (u64, u64) {
    let mut lot = random.below(CLASSES.iter().map(|(_, share)| share).sum());
    let mut chosen = &classes[0];
    for (class, (_, share)) in classes.iter().zip(CLASSES) {
        chosen = class;
        if lot < share {
            break;
        }
        lot -= share;
    }
    let place = chosen.place.at(chosen.popularity.draw(random));
    let offset = chosen.start + place * chosen.bytes.next_multiple_of(BLOCK);
    (offset, offset + chosen.bytes)
}

impl Workload for Webstone {
    fn next(&mut self) -> Option<Request> {
        loop {
            let mut moment = self.agenda.first()?;
            moment.node = moment.process % self.nodes;
            let (at, end) = self.gets.get_mut(moment.process as usize)?;
            if at == end {
                if self.left == 0 {
                    self.agenda.end_first();
                    continue;
                }
                (*at, *end) = document(&self.classes, &mut self.random);
                self.left = self.left.saturating_sub(*end - *at);
                if self.opens {
                    let open = moment.request(Op::Open, 0, *at, (*end - *at) as u32);
                    self.agenda.compute_first(0);
                    return Some(open);
                }
            }
            let bytes = self.request.min(*end - *at) as u32;
            let request = moment.request(Op::Read, 0, *at, bytes);
            *at += u64::from(bytes);
            let compute = if at == end { self.random.gap(self.compute) } else { 0 };
            self.agenda.compute_first(compute);
            return Some(request);
        }
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.bytes]
    }
}
