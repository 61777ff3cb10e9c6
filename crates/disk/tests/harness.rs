//! Runs jobs on an engine, with buffers that live long enough.

use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use cards_disk::{
    Backend, Completion, Disk, DiskOptions, Engine, Extent, ExtentKind, Job, JobError, Op, Outcome, RawBuf,
};
use tempfile::NamedTempFile;

/// Both ways into the kernel.
pub(crate) const BACKENDS: [Backend; 2] = [Backend::Auto, Backend::Threads];

/// Runs a future as a data thread does.
pub(crate) fn data_thread<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// As [`data_thread`], with a clock that jumps to the next timer whenever nothing else happens.
pub(crate) fn fast_clock<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future)
}

/// A file of `bytes`.
pub(crate) fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

pub(crate) fn open(path: &Path, change: impl FnOnce(&mut DiskOptions)) -> Arc<Disk> {
    let mut options = DiskOptions::path(path);
    change(&mut options);
    Disk::open(&options).unwrap()
}

/// Names `bytes` for a job. The tests keep the vector where it is until the completion is there.
pub(crate) fn lend(bytes: &mut [u8]) -> RawBuf {
    // SAFETY: every test waits for the completion, or drops the engine, before it touches or drops the bytes.
    unsafe { RawBuf::new(NonNull::from(&mut *bytes).cast(), bytes.len()) }
}

/// Runs one job to its end; nothing else may be in flight.
pub(crate) async fn one(engine: &Engine, op: Op) -> Result<Outcome, JobError> {
    engine.submit(Job { tag: 7, op });
    let mut out = Vec::new();
    engine.completions(&mut out).await;
    let [Completion { tag: 7, result }] = &out[..] else { panic!("{out:?}") };
    assert_eq!(engine.in_flight(), 0);
    result.clone()
}

pub(crate) async fn read(engine: &Engine, offset: u64, len: usize) -> Result<Vec<u8>, JobError> {
    let mut bytes = vec![0xee; len];
    one(engine, Op::Read { offset, buf: lend(&mut bytes) }).await?;
    Ok(bytes)
}

pub(crate) async fn write(
    engine: &Engine,
    offset: u64,
    bytes: &[u8],
    fua: bool,
) -> Result<Outcome, JobError> {
    let mut bytes = bytes.to_vec();
    one(engine, Op::Write { offset, buf: lend(&mut bytes), fua }).await
}

/// Collects `n` completions, sorted by tag.
pub(crate) async fn collect(engine: &Engine, n: usize) -> Vec<Completion> {
    let mut out = Vec::new();
    while out.len() < n {
        engine.completions(&mut out).await;
    }
    assert_eq!(out.len(), n);
    out.sort_by_key(|completion| completion.tag);
    out
}

pub(crate) fn hole(len: u64) -> Extent {
    Extent { len, kind: ExtentKind::Hole }
}

pub(crate) fn data(len: u64) -> Extent {
    Extent { len, kind: ExtentKind::Data }
}

/// Small, fast, repeatable random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
