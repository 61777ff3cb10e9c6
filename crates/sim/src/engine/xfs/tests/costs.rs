//! The times of single operations, against the equations of PAFS.

use cards_trace::Op;

use super::{BLOCK, Bench};
use crate::machine::Machine;

/// Bytes of a message besides its data are on the wire too; the equations do without.
fn headers(machine: &Machine, messages: u32) -> u64 {
    (Machine::transfer(64, machine.network_bandwidth) * messages).as_nanos() as u64
}

fn port(machine: &Machine) -> u64 {
    machine.remote_port.as_nanos() as u64
}

fn r_copy(machine: &Machine) -> u64 {
    machine.remote_copy_of(BLOCK.into()).as_nanos() as u64
}

fn l_copy(machine: &Machine, bytes: u64) -> u64 {
    machine.local_copy_of(bytes).as_nanos() as u64
}

fn local_port(machine: &Machine) -> u64 {
    machine.local_port.as_nanos() as u64
}

#[test]
fn a_local_hit_is_a_message_to_the_local_server_and_a_local_copy() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    bench.read(1, 0);
    let time = bench.go(1, Op::Read, 100, 1000);
    let m = bench.machine();
    assert_eq!(time, local_port(&m) + l_copy(&m, 1000));
    assert_eq!(bench.kernel.model.traffic().bytes_moved, u64::from(BLOCK), "the disk's node sent it once");
}

/// Equations 2 and 3, and the message to the local server.
#[test]
fn a_remote_hit_asks_the_manager_and_copies_the_block_and_then_the_request() {
    let mut bench = Bench::new("xfs", &[4, 4, 4, 4]);
    let block = bench.managed_by(3);
    bench.read(1, block);
    let time = bench.go(2, Op::Read, block * u64::from(BLOCK), 1000);
    let m = bench.machine();
    let expected = local_port(&m) + 2 * port(&m) + r_copy(&m) + l_copy(&m, 1000) + headers(&m, 3);
    assert_eq!(time, expected);
    assert_eq!(bench.xfs.counts.remote_hits, 1);
}

#[test]
fn a_manager_at_the_reader_or_at_the_holder_saves_a_message() {
    for manager in [1, 2] {
        let mut bench = Bench::new("xfs", &[4, 4, 4, 4]);
        let block = bench.managed_by(manager);
        bench.read(1, block);
        let time = bench.read(2, block);
        let m = bench.machine();
        let copies = r_copy(&m) + l_copy(&m, BLOCK.into());
        assert_eq!(time, local_port(&m) + port(&m) + copies + headers(&m, 2));
    }
}

#[test]
fn a_miss_is_read_by_the_node_with_the_disk() {
    let mut bench = Bench::new("xfs", &[4, 4, 4, 4]);
    let block = bench.managed_by(3);
    let time = bench.read(1, block);
    let m = bench.machine();
    let disk = (m.disk.read_seek + Machine::transfer(BLOCK.into(), m.disk.bandwidth)).as_nanos() as u64;
    let network = 2 * port(&m) + r_copy(&m) + headers(&m, 3);
    assert_eq!(time, local_port(&m) + network + disk + l_copy(&m, BLOCK.into()));
}

/// Equation 6 with pf = pd = 1: cleaning and forwarding are in the way of the remote hit, the disk is not.
#[test]
fn a_remote_hit_pays_for_the_block_that_makes_room() {
    let mut bench = Bench::new("xfs", &[4, 1, 8, 8]);
    let block = bench.managed_by(3);
    bench.read(2, block);
    let victim = block + 1;
    bench.write(1, victim);
    let time = bench.read(1, block);
    let m = bench.machine();
    let basic = r_copy(&m) + l_copy(&m, BLOCK.into());
    let forward = 2 * port(&m) + r_copy(&m);
    let expected = local_port(&m) + basic + 2 * port(&m) + 2 * forward + headers(&m, 9);
    assert_eq!(time, expected);
    let counts = bench.xfs.counts;
    assert_eq!((counts.remote_hits_forwarding, counts.remote_hits_cleaning), (1, 1));
    assert_eq!(counts.dirty_evictions, 1);
}

#[test]
fn a_study_may_wait_for_the_disk_that_writes_what_makes_room() {
    let time = |policy| {
        let mut bench = Bench::new(policy, &[4, 1, 8, 8]);
        bench.write(1, 0);
        bench.write(1, 1)
    };
    let m = Bench::new("xfs", &[1]).machine();
    let disk = (m.disk.write_seek + Machine::transfer(BLOCK.into(), m.disk.bandwidth)).as_nanos() as u64;
    assert_eq!(time("xfs clean=written"), time("xfs") + disk);
}

/// The paper finds "around 5 times" with pf = .75 and pd = .51.
#[test]
fn the_model_gives_the_papers_ratio_of_remote_hits() {
    let m = Bench::new("xfs", &[1, 1]).machine();
    let ratio = |request: u64| {
        let room = (2 * port(&m) + r_copy(&m)) as f64;
        let xfs = (r_copy(&m) + l_copy(&m, request) + 2 * port(&m)) as f64 + room * (0.75 + 0.51);
        xfs / m.remote_copy_of(request).as_nanos() as f64
    };
    assert!((3.5..3.8).contains(&ratio(8192)), "{}", ratio(8192));
    assert!((5.5..6.5).contains(&ratio(4096)), "{}", ratio(4096));
}

#[test]
fn metadata_is_a_question_to_the_files_manager() {
    let mut bench = Bench::new("xfs", &[4, 4, 4]);
    let m = bench.machine();
    let here = bench.managed_by(1) * u64::from(BLOCK);
    let there = bench.managed_by(2) * u64::from(BLOCK);
    assert_eq!(bench.go(1, Op::Open, here, 100), local_port(&m));
    assert_eq!(bench.go(1, Op::Close, there, 100), local_port(&m) + 2 * port(&m) + headers(&m, 2));
}
