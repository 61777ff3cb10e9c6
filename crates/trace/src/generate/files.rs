//! Every node reads or writes files of its own, all at the same time.

use super::Generator;
use super::moment::Moment;
use super::parameter::{Kind, Parameter};
use super::random::Random;
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "files",
    title: "every node reads or writes files of its own, all at the same time",
    source: "Ho, Hwang and Jin, Design and Analysis of Clusters with Single I/O Space, section 5 (files of 10 MB and of 4 KB)",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("16"),
        Parameter::requests("all"),
        Parameter::TIME,
        Parameter {
            name: "mode",
            kind: Kind::Word(&["read", "write"]),
            default: "read",
            meaning: "what is done to the files",
        },
        Parameter {
            name: "files",
            kind: Kind::Count(1, 1 << 20),
            default: "1",
            meaning: "files of each node, one after the other",
        },
        Parameter {
            name: "file",
            kind: Kind::Bytes(BLOCK, 1 << 40),
            default: "10MiB",
            meaning: "size of a file",
        },
        Parameter {
            name: "request",
            kind: Kind::Bytes(BLOCK, 1 << 30),
            default: "64KiB",
            meaning: "a larger file is read or written in requests of this size",
        },
        Parameter {
            name: "slot",
            kind: Kind::Bytes(BLOCK, 1 << 42),
            default: "64MiB",
            meaning: "part of the volume that belongs to a node; its files begin at random places in there",
        },
        Parameter {
            name: "flush",
            kind: Kind::Word(&["yes", "no"]),
            default: "yes",
            meaning: "whether each file that was written is flushed",
        },
    ],
    build,
};

const BLOCK: u64 = 4096;

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let (file, slot) = (values.number("file"), values.number("slot"));
    if file > slot {
        return Err(values.conflict("slot", "should hold at least one file"));
    }
    let op = if values.word("mode") == "read" { Op::Read } else { Op::Write };
    let request = values.number("request");
    let flushes = op == Op::Write && values.word("flush") == "yes";
    let seed = values.number("seed");
    let files = Files {
        op,
        file,
        slot,
        request,
        pieces: file.div_ceil(request),
        steps: file.div_ceil(request) + u64::from(flushes),
        files: values.number("files"),
        step: 0,
        node: 0,
        writers: (0..values.small("nodes")).map(|node| (Random::stream(seed, node.into()), 0)).collect(),
    };
    Ok(Stream::boxed(files, values))
}

struct Files {
    op: Op,
    /// Bytes of a file, of a node's part of the volume, and of a request.
    file: u64,
    slot: u64,
    request: u64,
    /// Requests of a file, without its flush and with it.
    pieces: u64,
    steps: u64,
    /// Files that are left.
    files: u64,
    /// The request of the file that comes next, and whose it is.
    step: u64,
    node: usize,
    /// Of each node: what its files' places are drawn from, and where the present one begins.
    writers: Vec<(Random, u64)>,
}

impl Workload for Files {
    fn next(&mut self) -> Option<Request> {
        if self.node == self.writers.len() {
            self.node = 0;
            self.step += 1;
        }
        if self.step == self.steps {
            self.step = 0;
            self.files -= 1;
        }
        if self.files == 0 {
            return None;
        }
        let moment = Moment::of_node(self.node as u32, 0, 0);
        let (random, start) = &mut self.writers[self.node];
        if self.step == 0 {
            let room = (self.slot - self.file) / BLOCK;
            *start = self.node as u64 * self.slot + random.below(room + 1) * BLOCK;
        }
        self.node += 1;
        if self.step == self.pieces {
            return Some(moment.request(Op::Flush, 0, 0, 0));
        }
        let done = self.step * self.request;
        let bytes = self.request.min(self.file - done);
        Some(moment.request(self.op, 0, *start + done, bytes as u32))
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.slot.saturating_mul(self.writers.len() as u64)]
    }
}
