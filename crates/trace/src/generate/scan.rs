//! `find` and `grep` over a tree of small files, on one node after the other.

use super::Generator;
use super::moment::Moment;
use super::parameter::{Kind, Parameter};
use super::random::Random;
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "scan",
    title: "find | grep over a tree like /usr, on one node after the other",
    source: "Olaru and Tichy, CARDs: Cluster-Aware Remote Disks, section 5 (310, 420, 490, 571, 681, 741 MB)",
    parameters: &[
        Parameter::SEED,
        Parameter::nodes("3"),
        Parameter::requests("all"),
        Parameter::TIME,
        Parameter {
            name: "mb",
            kind: Kind::Count(1, 1 << 30),
            default: "310",
            meaning: "size of the tree with its directories and inodes, MiB",
        },
        Parameter {
            name: "node",
            kind: Kind::Count(0, 65_534),
            default: "1",
            meaning: "the node that scans first (0 has the disk)",
        },
        Parameter { name: "then", kind: Kind::Nodes, default: "2", meaning: "the nodes that scan after it" },
        Parameter {
            name: "file",
            kind: Kind::Bytes(1, 1 << 40),
            default: "3KiB",
            meaning: "median size of a file",
        },
        Parameter {
            name: "sigma",
            kind: Kind::Real(0.0, 10.0),
            default: "1.3",
            meaning: "standard deviation of the logarithm of a file's size",
        },
        Parameter {
            name: "request",
            kind: Kind::Bytes(4096, 1 << 20),
            default: "32KiB",
            meaning: "size of a read of a long file",
        },
        Parameter {
            name: "compute",
            kind: Kind::Time(1_000),
            default: "960us",
            meaning: "compute demand per 4 KiB",
        },
        Parameter {
            name: "allow",
            kind: Kind::Time(1_000),
            default: "3ms",
            meaning: "time per 4 KiB, beside compute, until the next node's scan starts",
        },
    ],
    build,
};

const BLOCK: u64 = 4096;
/// 128 bytes each, as in ext2.
const INODES_PER_BLOCK: u32 = 32;
const FILES_PER_DIRECTORY: f64 = 20.0;

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let nodes = values.small("nodes");
    let first = values.small("node");
    if first >= nodes {
        return Err(values.conflict("node", format!("there are {nodes} nodes, from 0; raise nodes=")));
    }
    if values.list("then").iter().any(|&node| node >= nodes) {
        return Err(values.conflict("then", format!("there are {nodes} nodes, from 0; raise nodes=")));
    }
    let blocks = values.number("mb") << 20 >> BLOCK.trailing_zeros();
    let shape = Shape {
        seed: values.number("seed"),
        blocks,
        median: values.number("file") as f64,
        sigma: values.real("sigma"),
        run: values.number("request") / BLOCK,
    };
    let per_block = values.number("compute");
    let scan = Scan {
        tree: shape.plant(),
        shape,
        order: std::iter::once(first).chain(values.list("then").iter().copied()).collect(),
        scans: 0,
        compute: per_block,
        clock: 0,
        spacing: blocks.saturating_mul(per_block.saturating_add(values.number("allow"))),
    };
    Ok(Stream::boxed(scan, values))
}

/// What decides how a tree looks.
#[derive(Clone, Copy)]
struct Shape {
    seed: u64,
    blocks: u64,
    median: f64,
    sigma: f64,
    /// Blocks per read at most.
    run: u64,
}

impl Shape {
    /// The tree, to be walked from its start. It looks the same each time.
    fn plant(self) -> Tree {
        Tree { shape: self, random: Random::new(self.seed), at: 0, file: 0, inodes: 0, files: 0 }
    }
}

/// A walk through a tree on a fresh disk: directories, inodes and files lie in the order of the walk.
struct Tree {
    shape: Shape,
    random: Random,
    /// The next block.
    at: u64,
    /// Blocks left of the file.
    file: u64,
    /// Inodes left in the block that was read last.
    inodes: u32,
    /// Files left in the directory.
    files: u64,
}

impl Tree {
    /// The next blocks to read, as first block and count.
    fn step(&mut self) -> Option<(u64, u64)> {
        if self.at >= self.shape.blocks {
            return None;
        }
        let count = if self.file > 0 {
            self.file.min(self.shape.run)
        } else if self.files == 0 {
            self.files = 1 + self.random.exponential(FILES_PER_DIRECTORY) as u64;
            self.inodes = 0;
            return Some(self.take(1));
        } else if self.inodes == 0 {
            self.inodes = INODES_PER_BLOCK;
            return Some(self.take(1));
        } else {
            self.files -= 1;
            self.inodes -= 1;
            let bytes = self.random.lognormal(self.shape.median, self.shape.sigma) as u64;
            self.file = bytes.div_ceil(BLOCK).max(1);
            self.file.min(self.shape.run)
        };
        let (first, count) = self.take(count);
        self.file -= count;
        Some((first, count))
    }

    fn take(&mut self, count: u64) -> (u64, u64) {
        let first = self.at;
        let count = count.min(self.shape.blocks - first);
        self.at += count;
        (first, count)
    }
}

struct Scan {
    shape: Shape,
    tree: Tree,
    order: Vec<u32>,
    /// Scans that are complete.
    scans: usize,
    compute: u64,
    clock: u64,
    spacing: u64,
}

impl Workload for Scan {
    fn next(&mut self) -> Option<Request> {
        loop {
            let &node = self.order.get(self.scans)?;
            if let Some((first, count)) = self.tree.step() {
                let compute = count.saturating_mul(self.compute);
                self.clock = self.clock.saturating_add(compute);
                let moment = Moment::of_node(node, self.clock, compute);
                return Some(moment.request(Op::Read, 0, first * BLOCK, (count * BLOCK) as u32));
            }
            self.scans += 1;
            self.tree = self.shape.plant();
            self.clock = self.spacing.saturating_mul(self.scans as u64);
        }
    }

    fn total(&self) -> Option<u64> {
        // It depends on the files, which are drawn on the way.
        None
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.shape.blocks * BLOCK]
    }
}
