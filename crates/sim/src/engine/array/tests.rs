//! Times that can be added up by hand, what mirrors write, and that the groups are well under load.

use cards_layout::layout::Layout;
use cards_trace::{Op, Options, Progress, Request, Skipped, Source, TraceError, open};

use super::Array;
use super::volume::Places;
use crate::machine::Library;
use crate::report::Report;
use crate::run::run;
use crate::setup::Setup;

const MIB: u64 = 1 << 20;

fn setup(array: Array, nodes: u16, disks: u16) -> Setup {
    let mut machine = Library::default().find("sios1999").unwrap().clone();
    machine.disks = disks;
    Setup { nodes, array: Some(array), check: true, ..Setup::new(machine, "rd") }
}

fn array(layout: &str) -> Array {
    Array::new(layout.parse().unwrap(), 256 * MIB)
}

fn files(setup: &Setup, more: &str) -> Report {
    let trace = format!("gen:files:slot=16MiB,seed={},{more}", setup.seed);
    run(setup, &trace, &mut *open(&trace, &Options::default()).unwrap(), &mut ()).unwrap()
}

/// One request of node 0.
struct One(Option<Request>, Skipped);

impl Source for One {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        Ok(self.0.take())
    }

    fn progress(&self) -> Progress {
        Progress { done: 0, total: None }
    }

    fn skipped(&self) -> &Skipped {
        &self.1
    }

    fn has_times(&self) -> bool {
        false
    }
}

/// Microseconds that it takes, alone.
fn us(setup: &Setup, op: Op, offset: u64) -> f64 {
    let (time, compute) = Default::default();
    let bytes = if op == Op::Flush { 0 } else { 64 << 10 };
    let request = Request { time, compute, process: 0, node: 0, volume: 0, op, offset, bytes };
    run(setup, "one", &mut One(Some(request), Skipped::default()), &mut ()).unwrap().simulated_s * 1e6
}

#[track_caller]
fn near(found: f64, want: f64) {
    assert!((found - want).abs() < 0.1, "{found} us, want {want} us");
}

/// Of 64 KiB: over a link with a header, through a memory, to or from a disk.
const WIRE: f64 = 65_600.0 / 12.5;
const COPY: f64 = 65_536.0 / 150.0;
const DISK: f64 = 13_000.0 + 65_536.0 / 12.0;
/// A message without data, with both startups.
const MESSAGE: f64 = 50.0 + 64.0 / 12.5 + 20.0 + 50.0;
/// One with 64 KiB.
const DATA: f64 = 50.0 + COPY + WIRE + 20.0 + 50.0 + COPY;
const SERVICE: f64 = 15.0;
/// Between the process and its node.
const LOCAL: f64 = 1.0 + COPY;

#[test]
fn a_request_alone_costs_its_hops() {
    let raid0 = setup(array("raid0"), 16, 16);
    near(us(&raid0, Op::Read, 0), MESSAGE + SERVICE + DISK + DATA + LOCAL);
    near(us(&raid0, Op::Write, 0), LOCAL + DATA + SERVICE + DISK + MESSAGE);
    // The last bundle is on the last disk, which node 0 has.
    near(us(&raid0, Op::Read, 255 * MIB), 20.0 + SERVICE + DISK + LOCAL);
    near(us(&raid0, Op::Write, 255 * MIB), LOCAL + SERVICE + DISK + 20.0);
}

#[test]
fn a_mirror_is_done_when_both_copies_are() {
    // Of one pair, node 0 has the second disk and node 1 the first.
    let mut raid1 = setup(array("raid1"), 2, 2);
    raid1.seed = (1..).find(|&seed| leads(&Setup { seed, ..raid1.clone() }) == [0, 1]).unwrap();
    // Group 0 is led by node 1, which sends the bytes back to the client's own node.
    let time = us(&raid1, Op::Write, 0);
    near(time, LOCAL + DATA + SERVICE + DATA + DISK + MESSAGE + MESSAGE);
    let report = files(&raid1, "nodes=2,mode=write,request=10MiB");
    assert_eq!(report.disk_writes, 2 * report.blocks);
}

/// The disks that lead the groups.
fn leads(setup: &Setup) -> Vec<usize> {
    let places = Places::new(setup.array.as_ref().unwrap(), setup).unwrap();
    places.groups.iter().map(|disks| disks[0]).collect()
}

#[test]
fn each_node_leads_as_many_groups_as_the_others() {
    for (layout, disks, groups) in [("raid10", 16, 16), ("raid10", 4, 8), ("raid1", 16, 16), ("raid0", 8, 8)]
    {
        let mut led = leads(&setup(array(layout), 16, disks));
        led.sort_unstable();
        let each = groups / usize::from(disks);
        let want: Vec<usize> = (0..usize::from(disks)).flat_map(|disk| vec![disk; each]).collect();
        assert_eq!(led, want, "{layout} over {disks}");
    }
}

#[test]
fn what_a_server_has_in_memory_is_answered_and_goes_to_the_disk_as_fast_as_that_is() {
    let server = |write_memory| setup(Array { write_memory, ..array("linear") }, 3, 1);
    near(us(&server(MIB), Op::Write, 0), LOCAL + DATA + SERVICE + LOCAL + MESSAGE);
    near(us(&server(MIB), Op::Flush, 0), MESSAGE + SERVICE + MESSAGE);
    let [none, little, much] =
        [0, MIB, 64 * MIB].map(|memory| files(&server(memory), "nodes=2,mode=write").simulated_s);
    assert!(much < 0.5 * none && (0.9..1.0).contains(&(little / none)), "{none} {little} {much}");
}

/// Checked at the end of each run: no column was dropped, and the primaries are the same.
#[test]
fn groups_with_long_queues_keep_their_columns() {
    for layout in ["raid0", "raid1", "raid10"] {
        for load in ["read", "write"] {
            let busy = Array { piece_bytes: 256 << 10, depth: 2, ..array(layout) };
            let report = files(&setup(busy, 16, 4), &format!("mode={load},request=10MiB"));
            assert!(report.disk_busy > 0.5, "{layout} {load}: {}", report.disk_busy);
            // Nothing is read twice because an answer took long.
            let read = if load == "read" { report.blocks } else { 0 };
            assert_eq!(report.disk_reads, read, "{layout}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_time() {
    let busy = || files(&setup(array("raid10"), 16, 16), "mode=write").simulated_s;
    assert_eq!(busy().to_bits(), busy().to_bits());
}

#[test]
fn what_cannot_be_is_refused_with_what_could() {
    let refused = |array, disks| setup(array, 16, disks).check().unwrap_err().to_string();
    assert_eq!(refused(array("raid0"), 17), "disks: 17: want at most one for each node");
    assert_eq!(refused(Array { depth: 0, ..array("raid0") }, 4), "array.depth: 0: want at least 1");
    let parity = Array { layout: Layout::Raid5 { data: None }, ..array("raid0") };
    assert!(refused(parity, 4).ends_with("want raid0, raid1, raid10 or linear"));
    assert!(refused(Array { piece_bytes: 5000, ..array("raid0") }, 4).contains("chunk"));
    assert!(refused(array("raid1"), 1).contains("raid1:2 needs 2 failure domains"));
}
