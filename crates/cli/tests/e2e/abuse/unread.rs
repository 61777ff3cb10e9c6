//! A connection that asks and never reads costs the daemon at most its budget of bytes in flight.

use super::memory::{forget_peak, peak, resident};
use super::one_node;
use crate::harness::client::CMD_READ;
use crate::harness::{MIB, scratch};

/// `in_flight` of the node, and room for what serving a good client beside it takes.
const BUDGET: u64 = 64 * MIB + 8 * MIB;

#[test]
fn a_client_that_never_reads_has_a_budget() {
    let dir = scratch();
    let cluster = one_node(dir.path());
    let export = cluster.export(1, "disk");
    forget_peak(export.pid);
    let before = resident(export.pid);
    let mut greedy = export.open();
    for _ in 0..64 {
        greedy.send(CMD_READ, 0, 32 << 20, &[]).expect("28 bytes of request");
    }
    // A good client that has read four times the volume has let the daemon turn often enough to fill any buffer.
    for _ in 0..4 {
        export.check_all(1);
    }
    let grown = peak(export.pid).saturating_sub(before);
    assert!(grown <= BUDGET, "a client that never reads made the daemon grow by {} MiB", grown / MIB);
}
