//! One reader per format, and what they share: each turns a line or a record into a [`Raw`] request,
//! [`Checked`] makes a well-behaved [`Source`](crate::Source) of it.

mod arc;
mod blkparse;
mod blocks;
mod checked;
mod cloud;
mod columns;
mod csv;
mod disksim;
mod dxt;
mod fio;
mod fixed;
mod lines;
mod lirs;
mod msr;
mod ops;
mod oracle;
mod sorted;
mod spc;
mod vscsi;

pub(crate) use arc::Arc;
pub(crate) use blkparse::Blkparse;
pub(crate) use blocks::Blocks;
pub(crate) use checked::{Checked, NODES_MAX, Records};
pub(crate) use cloud::{Alibaba, Tencent};
pub(crate) use csv::Csv;
pub(crate) use disksim::DiskSim;
pub(crate) use dxt::Dxt;
pub(crate) use fio::Fio;
pub(crate) use fixed::{Decode, Fixed, u16_at, u32_at, u64_at};
pub(crate) use lines::{Lines, Parse};
pub(crate) use lirs::Lirs;
pub(crate) use msr::Msr;
pub(crate) use oracle::OracleGeneral;
pub(crate) use sorted::Sorted;
pub(crate) use spc::Spc;

pub(crate) use oracle::plausible as oracle_plausible;
pub(crate) use vscsi::version_of as vscsi_version_of;

use crate::Op;

/// Bytes of a sector, the unit of most block traces.
pub(crate) const SECTOR: u64 = 512;
/// Nanoseconds of the units of time.
pub(crate) const NS_PER_US: u64 = 1_000;
pub(crate) const NS_PER_MS: u64 = 1_000_000;
pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// A request as it stands in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    /// From any origin.
    pub(crate) time_ns: u64,
    pub(crate) compute_ns: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) node: u32,
    pub(crate) process: u32,
    pub(crate) volume: u16,
    pub(crate) op: Op,
}

impl Raw {
    /// A request of node 0 to volume 0 at time 0.
    pub(crate) fn new(op: Op, offset: u64, bytes: u64) -> Self {
        Self { time_ns: 0, compute_ns: 0, offset, bytes, node: 0, process: 0, volume: 0, op }
    }
}

/// What a line or a record is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parsed {
    /// A request.
    Request(Raw),
    /// A request that is left out, and why.
    Skip(&'static str),
    /// A comment, a heading, a name.
    Nothing,
}
