use cards_core::Instant;
use cards_policies::Replacement;
use cards_trace::Op;

use super::errands::Step;
use super::key::Key;
use super::{Xfs, XfsEvent};
use crate::engine::Engine;
use crate::kernel::{Io, Kernel, Scheduled};
use crate::machine::{Library, Machine};
use crate::model::Model;
use crate::setup::{Setup, SetupError};

mod costs;
mod forwarding;
mod random;
mod tokens;

const BLOCK: u32 = 8192;

fn setup(policy: &str, caches: &[u32]) -> Setup {
    let machine = Library::default().find("pm").unwrap().clone();
    Setup {
        nodes: caches.len() as u16,
        cache_blocks: caches.to_vec(),
        block_bytes: BLOCK,
        disk_nodes: 1,
        ..Setup::new(machine, policy)
    }
}

/// A cluster that does one thing after the other, and is checked after each.
struct Bench {
    kernel: Kernel<XfsEvent>,
    xfs: Xfs,
    token: u32,
}

impl Bench {
    fn new(policy: &str, caches: &[u32]) -> Self {
        let setup = setup(policy, caches);
        let model = Model::new(setup.machine.clone(), setup.nodes);
        Self { kernel: Kernel::new(model), xfs: Xfs::new(&setup).unwrap(), token: 0 }
    }

    fn machine(&self) -> Machine {
        self.kernel.model.machine().clone()
    }

    /// Issues a request, and lets nothing happen yet.
    fn issue(&mut self, node: u16, op: Op, offset: u64, bytes: u32) -> u32 {
        let first = offset / u64::from(BLOCK);
        let blocks = (offset + u64::from(bytes)).div_ceil(BLOCK.into()) - first;
        let data = matches!(op, Op::Read | Op::Write | Op::Trim);
        self.token += 1;
        let io = Io {
            token: self.token,
            node,
            process: node.into(),
            volume: 0,
            op,
            offset,
            bytes,
            first,
            blocks: if data { blocks as u32 } else { 0 },
        };
        self.xfs.submit(&mut self.kernel, io);
        self.xfs.check(self.kernel.now());
        self.token
    }

    /// Lets everything under way come to its end; returns what was done, and when.
    fn settle(&mut self) -> Vec<(u32, Instant)> {
        let mut done = Vec::new();
        loop {
            while let Some(completed) = self.kernel.take_completed() {
                done.push(completed);
            }
            if self.xfs.is_idle() {
                return done;
            }
            self.step();
        }
    }

    /// The next event; false if that is the end of a time to wait for.
    fn step(&mut self) -> bool {
        match self.kernel.next() {
            Some(Scheduled::Engine(event)) => self.xfs.event(&mut self.kernel, event),
            Some(Scheduled::Process(_)) | None => return false,
        }
        self.xfs.check(self.kernel.now());
        true
    }

    /// A request alone; how long it took in nanoseconds.
    fn go(&mut self, node: u16, op: Op, offset: u64, bytes: u32) -> u64 {
        let begin = self.kernel.now();
        let token = self.issue(node, op, offset, bytes);
        let done = self.settle();
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].0, token);
        // The next one finds all CPUs free.
        self.wait_until(done[0].1);
        done[0].1.since(begin).as_nanos() as u64
    }

    fn read(&mut self, node: u16, block: u64) -> u64 {
        self.go(node, Op::Read, block * u64::from(BLOCK), BLOCK)
    }

    fn write(&mut self, node: u16, block: u64) -> u64 {
        self.go(node, Op::Write, block * u64::from(BLOCK), BLOCK)
    }

    /// Time goes on for so many seconds.
    fn wait(&mut self, seconds: u64) {
        self.wait_until(Instant(self.kernel.now().0 + seconds * 1_000_000_000));
    }

    fn wait_until(&mut self, end: Instant) {
        self.kernel.schedule(end, Scheduled::Process(0));
        while self.step() {}
    }

    fn disk_writes(&self) -> u64 {
        self.kernel.model.traffic().disk_writes
    }

    fn holders(&self, block: u64) -> Vec<u16> {
        let mut holders: Vec<u16> =
            self.xfs.caches.copies(Key::new(0, block)).map(|id| self.xfs.caches.get(id).node()).collect();
        holders.sort_unstable();
        holders
    }

    /// How often a node's copy may still be forwarded, whether it is owned, and whether it is dirty.
    fn state(&self, node: u16, block: u64) -> (u8, bool, bool) {
        let copy = self.xfs.caches.find(node, Key::new(0, block)).expect("the node has the block");
        let buffer = self.xfs.caches.get(copy);
        (buffer.chances(), buffer.is_owned(), buffer.is_dirty())
    }

    /// A block whose manager is this node.
    fn managed_by(&self, node: u16) -> u64 {
        let managed = |&block: &u64| self.xfs.manager(Key::new(0, block)) == node;
        (0..).step_by(1 << 7).find(managed).expect("every node manages something")
    }
}

fn refused(setup: &Setup) -> String {
    Xfs::new(setup).err().map(|error: SetupError| error.to_string()).expect("it is refused")
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert!(refused(&setup("xfs n=9", &[4, 4])).contains("want a number from 0 to 8"));
    assert!(refused(&setup("xfs level=C", &[4, 4])).contains("want A or B"));
    assert!(refused(&setup("xfs syncer=0", &[4, 4])).contains("want seconds, 1 to 3600"));
    let sieve = Setup { replacement: Replacement::Sieve, ..setup("xfs", &[4, 4]) };
    assert!(refused(&sieve).contains("replacement: sieve: want lru"));
    let huge = setup("xfs", &[u32::MAX, 1]);
    assert!(refused(&huge).contains("less than 4294967295 blocks"));
}

#[test]
fn a_step_is_small() {
    assert!(size_of::<Step>() <= 20, "{}", size_of::<Step>());
}
