//! Times that can be added up by hand, and what the deliveries have in common.

use std::time::Duration;

use cards_trace::{Options, Progress, Request, Skipped, Source, TraceError, open};

use super::*;
use crate::machine::Library;
use crate::report::Report;
use crate::run::run;

fn setup(attachment: Attachment, servers: u16) -> Setup {
    let mut machine = Library::default().find("cards2003").unwrap().clone();
    machine.disks = if attachment == Attachment::Local { servers } else { 1 };
    machine.cache_bytes = vec![32 << 20];
    let has_host = matches!(attachment, Attachment::Network(_) | Attachment::Nfs(_));
    let nodes = servers + u16::from(has_host);
    let remote = RemoteDisk {
        attachment,
        partition_bytes: 256 << 20,
        fragmented: vec![0.0],
        read_ahead: 31,
        heads: Heads {
            turn: Duration::from_micros(11_120),
            settle: Duration::from_micros(1_500),
            passed: 16,
            merged: 31,
        },
        ethernet: Ethernet {
            bandwidth: 12.5e6,
            startup: Duration::from_micros(50),
            latency: Duration::from_micros(20),
        },
    };
    Setup { nodes, remote: Some(remote), check: true, ..Setup::new(machine, "rd") }
}

fn web(setup: &Setup, servers: u16) -> Report {
    let trace =
        format!("gen:webstone:nodes={servers},connections=40,bytes=128MiB,load=2MiB,request=8KiB,open=yes");
    run(setup, &trace, &mut *open(&trace, &Options::default()).unwrap(), &mut ()).unwrap()
}

const REMOTE: [Attachment; 5] = [
    Attachment::Network(Delivery::Sync),
    Attachment::Network(Delivery::Thread(64)),
    Attachment::Network(Delivery::Event),
    Attachment::Computer(Delivery::Event),
    Attachment::Nfs(8),
];

/// Requests one after the other, of one process.
struct List(VecDeque<Request>, Skipped);

impl Source for List {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        Ok(self.0.pop_front())
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

fn read_of_a_block() -> Request {
    let (time, compute) = Default::default();
    Request { time, compute, process: 0, node: 0, volume: 0, op: Op::Read, offset: 0, bytes: 4096 }
}

/// Microseconds that the first block of a disk takes, and then the same again.
fn us(attachment: Attachment, node: u32) -> (f64, f64) {
    let servers = if attachment == Attachment::Computer(Delivery::Event) { 2 } else { 1 };
    let setup = setup(attachment, servers);
    let request = |op| Request { op, node, ..read_of_a_block() };
    let time = |ops: &[Op]| {
        let list = ops.iter().map(|&op| request(op)).collect();
        run(&setup, "list", &mut List(list, Skipped::default()), &mut ()).unwrap().simulated_s * 1e6
    };
    let (once, twice) = (time(&[Op::Open, Op::Read]), time(&[Op::Open, Op::Read, Op::Read]));
    (once, twice - once)
}

#[track_caller]
fn near(found: f64, want: f64) {
    assert!((found - want).abs() < 1.0, "{found} us, not {want}");
}

/// The heads are at the first block. A copy to the process takes 30 us, the Ethernet to the client 327.7.
#[test]
fn a_block_takes_what_the_table_of_the_paper_says() {
    let answer = 30.0 + 327.7;
    let (disk, interrupt) = (870.0, 15.0);
    near(us(Attachment::Local, 0).0, disk + interrupt + answer);
    near(us(Attachment::Local, 0).1, answer);
    // 43.5 + .3 + 7 + 43.5 for the question, 15 of service, 43.55 + 25 + 16.6 + 7 + 43.55 + 25 for the block.
    let remote = 94.3 + 15.0 + 160.7;
    near(us(Attachment::Network(Delivery::Event), 0).0, disk + interrupt + remote + answer);
    near(us(Attachment::Network(Delivery::Thread(64)), 0).0, disk + interrupt + 5.0 + remote + answer);
    near(us(Attachment::Computer(Delivery::Event), 1).0, disk + interrupt + remote + answer);
    near(us(Attachment::Network(Delivery::Event), 0).1, answer);
    let nfs = 50.0 + 20.0 + 50.0 + 15.0 + 50.0 + 25.0 + 327.7 + 20.0 + 50.0 + 25.0;
    near(us(Attachment::Nfs(8), 0).0, disk + interrupt + nfs + answer);
}

#[test]
fn every_way_to_the_disk_reads_what_is_asked_for() {
    let local = web(&setup(Attachment::Local, 2), 2);
    for attachment in REMOTE {
        let servers = 2;
        let report = web(&setup(attachment, servers), servers);
        assert_eq!((report.requests, report.blocks), (local.requests, local.blocks), "{attachment:?}");
        let found = report.local_hits + report.remote_hits + report.disk_reads;
        assert!(found >= report.blocks / 2, "{attachment:?}: {found} of {}", report.blocks);
        assert!(report.disk_reads > 0 && report.disk_busy <= 1.0, "{attachment:?}");
        let can_answer = matches!(attachment, Attachment::Computer(_) | Attachment::Nfs(_));
        assert_eq!(report.remote_hits > 0, can_answer, "{attachment:?}: RDD-1, RDD-10");
    }
}

/// RDD-8: the disk reads them in one go, after the first, which it begins with at once.
#[test]
fn what_is_read_ahead_is_at_the_disk_together() {
    let time = |delivery, read_ahead| {
        let mut setup = setup(Attachment::Network(delivery), 1);
        setup.remote.as_mut().unwrap().read_ahead = read_ahead;
        let request = |op, offset, bytes| Request { op, offset, bytes, ..read_of_a_block() };
        let pages = (0..16).map(|page| request(Op::Read, page * 4096, 4096));
        let list = [request(Op::Open, 0, 65536)].into_iter().chain(pages).collect();
        run(&setup, "list", &mut List(list, Skipped::default()), &mut ()).unwrap().simulated_s
    };
    for delivery in [Delivery::Thread(64), Delivery::Event] {
        let (with, without) = (time(delivery, 31), time(delivery, 0));
        assert!(with < without - 10.0 * 300e-6, "{delivery:?}: {with} {without}");
    }
}

#[test]
fn a_full_batch_of_one_is_synchronous() {
    let report = |delivery| web(&setup(Attachment::Network(delivery), 1), 1).simulated_s;
    assert_eq!(report(Delivery::Thread(1)), report(Delivery::Sync));
}

#[test]
fn a_disk_that_reads_one_block_at_a_time_is_slower() {
    let rate = |attachment| web(&setup(attachment, 1), 1).simulated_s;
    let [sync, thread, event] = [Delivery::Sync, Delivery::Thread(64), Delivery::Event]
        .map(|delivery| rate(Attachment::Network(delivery)));
    assert!(sync > 1.2 * event && sync > thread, "{sync} {thread} {event}");
}

#[test]
fn what_makes_no_sense_is_named() {
    let refused = |change: &dyn Fn(&mut Setup)| {
        let mut setup = setup(Attachment::Network(Delivery::Event), 1);
        change(&mut setup);
        setup.check().unwrap_err().to_string()
    };
    type Change = fn(&mut RemoteDisk);
    let of_disk = |change: Change| refused(&|setup: &mut Setup| change(setup.remote.as_mut().unwrap()));
    assert_eq!(refused(&|setup| setup.nodes = 1), "nodes: 1: want one for the disk, and at least one server");
    assert_eq!(refused(&|setup| setup.machine.disks = 3), "disks: 3: want the one that is shared");
    assert_eq!(of_disk(|disk| disk.attachment = Attachment::Local), "disks: 1: want one at each node");
    assert_eq!(of_disk(|disk| disk.attachment = Attachment::Nfs(0)), "NFS threads: 0: want at least 1");
    assert_eq!(
        of_disk(|disk| disk.attachment = Attachment::Network(Delivery::Thread(0))),
        "blocks of a batch: 0: want at least 1"
    );
    assert_eq!(of_disk(|disk| disk.fragmented = vec![0.5, 1.5]), "fragmented: 1.5: want a share from 0 to 1");
    assert_eq!(of_disk(|disk| disk.heads.merged = 0), "merged blocks: 0: want at least 1");
    assert!(of_disk(|disk| disk.partition_bytes = 0).contains("partition: 0"));
    assert!(of_disk(|disk| disk.ethernet.bandwidth = 0.0).contains("ethernet: 0"));
    assert!(of_disk(|disk| disk.heads.settle = Duration::from_secs(1)).contains("disk.read_seek_us"));
}
