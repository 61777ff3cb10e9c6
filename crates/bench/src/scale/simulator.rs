//! The simulator with as many nodes, each with as much to do: what one request costs it.

use cards_sim::{Library, Setup};
use serde::Serialize;

use super::Cpu;
use crate::Error;
use crate::proc::cpu::thread_ns;
use crate::stats::median;

/// Requests of a node: most of them find caches that are full.
const REQUESTS: u64 = 200;
/// Blocks of a node's cache.
const CACHE: u32 = 64;
/// Nodes for each that has a disk.
const NODES_A_DISK: u16 = 50;

/// A run of HSCC with reads and writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulated {
    /// Nodes.
    pub nodes: u16,
    /// Messages of one request.
    pub messages: f64,
    /// Of one request, the simulator's beginning among it.
    pub cpu: Cpu,
}

/// Measures.
pub(super) fn simulated(nodes: u16, rounds: u16) -> Result<Simulated, Error> {
    let trace = format!(
        "gen:oltp:nodes={nodes},bytes={}KiB,requests={}",
        u64::from(nodes) * 640,
        u64::from(nodes) * REQUESTS
    );
    let failed = |problem: &dyn std::fmt::Display| Error::Option {
        option: "cards",
        value: nodes.to_string(),
        remedy: problem.to_string(),
    };
    let machine = Library::default().find("lan25").map_err(|e| failed(&e))?.clone();
    let mut setup = Setup::new(machine, "hscc");
    (setup.nodes, setup.disk_nodes) = (nodes, nodes.div_ceil(NODES_A_DISK));
    (setup.block_bytes, setup.cache_blocks) = (4096, vec![CACHE]);
    let (mut times, mut messages) = (Vec::new(), 0.0);
    for _ in 0..rounds.max(1) {
        let mut source = cards_trace::generate::open(&trace).map_err(|e| failed(&e))?;
        let before = thread_ns();
        let report = cards_sim::run(&setup, &trace, source.as_mut(), &mut ()).map_err(|e| failed(&e))?;
        let requests = report.requests.max(1) as f64;
        times.push((thread_ns() - before) as f64 / requests / 1e3);
        messages = report.messages as f64 / requests;
    }
    let least_us = times.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Simulated { nodes, messages, cpu: Cpu { least_us, median_us: median(&times).unwrap_or(least_us) } })
}
