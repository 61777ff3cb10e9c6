//! Checksums of regions that were being written when the disk was not closed, or of a lone column whose checksums are damaged: the data that
//! are there are what counts, for the disk. Copies are compared by their group.

use std::collections::HashSet;

use cards_array::store::ColumnKey;

use super::ManagedError;
use super::buffer::Buffer;
use super::driver::Driver;
use super::request::sums_of;
use crate::job::Op;

/// Bytes that are read at a time.
const CHUNK: u64 = 1 << 20;

/// Looks at what is unsure, one region after the other, until the end.
pub(super) async fn run(driver: &Driver) {
    let mut unreadable = HashSet::new();
    while !driver.stops.get() {
        driver.count_unsure();
        let is_new = |(key, at, _): &(ColumnKey, u64, u64)| !unreadable.contains(&(*key, *at));
        let Some((key, at, length)) = driver.look(|store| store.unsure_known().find(is_new)) else {
            driver.doubt.notified().await;
            continue;
        };
        if let Err(error) = region(driver, key, at, length).await {
            if driver.damage_told.may() {
                tracing::warn!(
                    disk = driver.disk.name(),
                    volume = format_args!("{:016x}", key.volume),
                    offset = at,
                    %error,
                    "a region cannot be given checksums: what is read of it is not verified"
                );
            }
            unreadable.insert((key, at));
        }
    }
}

async fn region(driver: &Driver, key: ColumnKey, at: u64, length: u64) -> Result<(), ManagedError> {
    let end = at + length;
    for chunk in (at..end).step_by(CHUNK as usize) {
        let length = CHUNK.min(end - chunk) as usize;
        let _held = driver.ranges.take(key, chunk..chunk + length as u64, true).await;
        // A write that has failed meanwhile has the region begin anew.
        if !driver.look(|store| store.unsure().any(|unsure| unsure == (key, chunk, end - chunk))) {
            return Ok(());
        }
        let buffer = Buffer::new(length);
        let (offset, _) = driver.look(|store| store.locate(key, chunk))?;
        let read = Op::Read { offset, buf: buffer.lend(0, length) };
        driver.own(read, Some(buffer.clone())).await.map_err(ManagedError::Read)?;
        // SAFETY: the read that had the buffer is complete.
        let sums = sums_of(unsafe { buffer.bytes() });
        driver.ask(|ticket, store, _, out| store.resum(ticket, key, chunk, sums, out)).await?;
    }
    Ok(())
}
