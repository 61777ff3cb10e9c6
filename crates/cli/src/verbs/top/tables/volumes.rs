//! The table of volumes.

use cards_admin::{Op, VolumeState};

use super::super::cluster::{Cluster, VolumeRow};
use super::super::demand::IoNow;
use super::super::line::Style;
use super::grid::{Column, Grid, Sort, Value};

/// The volumes whose names pass the filter, sorted.
pub(crate) fn volumes<'a>(cluster: &'a Cluster, filter: &str, sort: Sort) -> Grid<'a, VolumeRow> {
    let rows = cluster.volumes.iter().filter(|row| row.volume.name.contains(filter));
    Grid::new(COLUMNS, rows.collect(), sort)
}

const COLUMNS: &[Column<VolumeRow>] = &[
    Column::text("volume", 0, |row| Value::word(&row.volume.name)),
    Column::text("state", 1, |row| Value::Text(style(row.state()), word(row.state()).into())),
    Column::bytes("size", 2, |row| known(row.volume.size)),
    Column::text("policy", 12, |row| {
        row.volume.policy.as_ref().map_or(Value::Unknown, |policy| Value::word(policy.to_string()))
    }),
    Column::text("disk at", 7, |row| row.volume.disk_node.as_ref().map_or(Value::Unknown, Value::word)),
    Column::small("nodes", 16, |row| Value::Count(row.cards().0 as u64)),
    Column::small("clients", 8, |row| Value::Count(row.cards().1)),
    Column::bytes("cached", 4, |row| known(row.cached_blocks().saturating_mul(u64::from(row.volume.block)))),
    Column::rate("req/s", 3, |row| now(row, |io| Value::Rate(io.requests))),
    Column::bytes("read/s", 5, |row| now(row, |io| Value::Bytes(io.read))),
    Column::bytes("written/s", 9, |row| now(row, |io| Value::Bytes(io.written))),
    Column::time("read p50", 11, |row| latency(row, 0.5)),
    Column::time("p99", 6, |row| latency(row, 0.99)),
    Column::rate("disk reads/s", 10, |row| Value::or_unknown(row.disk.map(|disk| disk[0]), Value::Rate)),
    Column::rate("disk writes/s", 13, |row| Value::or_unknown(row.disk.map(|disk| disk[2]), Value::Rate)),
    Column::bytes("block", 15, |row| known(u64::from(row.volume.block))),
];

/// In a word.
pub(crate) const fn word(state: VolumeState) -> &'static str {
    match state {
        VolumeState::Ready => "ready",
        VolumeState::Waiting => "waiting",
        VolumeState::Offline => "offline",
        VolumeState::Refused => "refused",
    }
}

pub(crate) const fn style(state: VolumeState) -> Style {
    match state {
        VolumeState::Ready => Style::Good,
        VolumeState::Waiting => Style::Warn,
        VolumeState::Offline | VolumeState::Refused => Style::Bad,
    }
}

fn known(bytes: u64) -> Value {
    if bytes == 0 { Value::Unknown } else { Value::Bytes(bytes as f64) }
}

/// What clients ask of it now.
fn now(row: &VolumeRow, value: fn(&IoNow) -> Value) -> Value {
    row.io.as_ref().map_or(Value::Unknown, value)
}

/// What so many of its reads take at most.
fn latency(row: &VolumeRow, share: f64) -> Value {
    let quantile = row.io.as_ref().and_then(|now| now.io.op(Op::Read).latency.quantile(share));
    Value::or_unknown(quantile, Value::Time)
}
