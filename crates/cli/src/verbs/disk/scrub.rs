//! `cards disk scrub`: all volumes, and copies of volumes, of a managed disk that no daemon has.

use std::path::Path;
use std::process::ExitCode;

use cards_disk::{DiskOptions, Managed, ManagedOptions};

use super::DiskError;
use crate::error::Error;
use crate::scrub;

pub(super) fn run(path: &Path, rate: u64, json: bool) -> Result<ExitCode, Error> {
    let managed =
        Managed::open(&ManagedOptions::new(DiskOptions::path(path))).map_err(|error| match error {
            cards_disk::DiskError::Busy { path, .. } => DiskError::Served { path },
            cards_disk::DiskError::Missing { path } => DiskError::Missing { path },
            error => DiskError::from(error),
        })?;
    let volumes: Vec<(String, u64)> =
        managed.scrubbed().into_iter().map(|(name, bytes)| (name.to_string(), bytes)).collect();
    let failed = |source| DiskError::Managed { path: path.into(), source: Box::new(source) };
    let status = scrub::run(&volumes, rate, json, |volume, offset, length| {
        let found = managed.scrub(volume, offset, length).map_err(failed)?;
        Ok(cards_node::scrubbed(found))
    });
    let damaged = managed.damaged_superblock().map(|(slot, reason)| {
        eprintln!(
            "cards: {}: the superblock in slot {slot} was damaged: {reason}; the other one served, and this one is written anew: see to the \
             device",
            path.display()
        );
    });
    managed.close();
    match damaged {
        Some(()) => status.map(|_| ExitCode::FAILURE),
        None => status,
    }
}
