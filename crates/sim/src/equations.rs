//! What a remote hit costs without contention: equations 1 to 6 of Cortes, Girona and Labarta, *Design Issues of a
//! Cooperative Cache with no Coherence Problems*, IOPADS 1997, section 6.1.
//!
//! The equations leave out some messages that every request needs: in PAFS the one from the client to the cache
//! server (a remote port, or a local one if the server is on the client's node); in xFS the one to the server of the
//! client's own node (a local port). They leave out queueing, too, and the CPU time of the messages' other ends.
//! The simulator has all that, so it finds longer times.

use std::time::Duration;

use crate::machine::Machine;

/// Equation 1: in PAFS the requested bytes are copied from the buffer to the client.
#[must_use]
pub fn pafs_remote_hit(machine: &Machine, request_bytes: u64) -> Duration {
    machine.remote_copy_of(request_bytes)
}

/// Equations 2 to 6: in xFS the block is copied to the client's node and the requested bytes from there, the manager is
/// asked, and the buffer's former block has to be forwarded (with probability `forward`) or written to its disk
/// (with probability `dirty`).
#[must_use]
pub fn xfs_remote_hit(
    machine: &Machine,
    block_bytes: u64,
    request_bytes: u64,
    forward: f64,
    dirty: f64,
) -> Duration {
    let basic = machine.remote_copy_of(block_bytes) + machine.local_copy_of(request_bytes);
    let manager = machine.remote_port * 2;
    let move_away = machine.remote_port * 2 + machine.remote_copy_of(block_bytes);
    basic + manager + move_away.mul_f64(forward) + move_away.mul_f64(dirty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Library;

    /// The probabilities that the paper's simulations have found.
    const FORWARD: f64 = 0.75;
    const DIRTY: f64 = 0.51;

    #[track_caller]
    fn assert_times(name: &str, request: u64, pafs_us: Option<f64>, xfs_us: Option<f64>, ratio: f64) {
        let library = Library::default();
        let machine = library.find(name).expect("a preset");
        let pafs = pafs_remote_hit(machine, request).as_secs_f64() * 1e6;
        let xfs = xfs_remote_hit(machine, 8192, request, FORWARD, DIRTY).as_secs_f64() * 1e6;
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
        assert!(pafs_us.is_none_or(|us| near(pafs, us)), "PAFS {pafs}");
        assert!(xfs_us.is_none_or(|us| near(xfs, us)), "xFS {xfs}");
        assert!(near(xfs / pafs, ratio), "ratio {}", xfs / pafs);
    }

    /// PAFS, equations 1 to 6 with Table 2 (SIM-5): xFS takes "around 5 times longer" for requests of about 5 KB.
    #[test]
    fn remote_hits_cost_what_the_equations_say() {
        assert_times("pm", 8192, Some(45.96), Some(166.45), 3.62);
        assert_times("pm", 5400, None, None, 5.03);
        assert_times("pm", 4096, None, None, 6.21);
        assert_times("now", 8192, Some(472.3), Some(1749.1), 3.70);
        assert_times("now", 4657, None, None, 5.73);
        assert_times("now", 5400, None, None, 5.11);
    }
}
