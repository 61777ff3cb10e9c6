//! What every end-to-end test stands on: real processes that are always reaped, foreign NBD tools, content
//! that knows where it belongs, and waits that end.
//!
//! A test body takes [`Export`]s and does not know who serves them. Most bodies run twice: against a CARDs
//! cluster, and against a reference server (`reference_*`), which proves that a failure is the cluster's and
//! not the test's.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod content;
pub(crate) mod dev;
pub(crate) mod etcd;
pub(crate) mod export;
pub(crate) mod guest;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod nginx;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod reference;
pub(crate) mod small;
pub(crate) mod tools;
pub(crate) mod wiretap;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Bound of everything that takes milliseconds on an idle machine.
pub(crate) const SHORT: Duration = Duration::from_secs(20);
/// Bound of a tool that moves a whole volume.
pub(crate) const LONG: Duration = Duration::from_secs(90);

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// Pauses between two looks: a look is often a process, and many tests wait at the same time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(50));

/// Asks `probe` until it answers, for at most `limit`; less often the longer it has waited already.
pub(crate) fn eventually<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        let waited = begun.elapsed();
        assert!(waited < limit, "not within {limit:?}: {what}");
        thread::sleep((waited / 16).clamp(PAUSES.0, PAUSES.1));
    }
}

/// The data files of the tests: `tests/` at the top of the checkout.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(name)
}

/// A directory that goes away with the test; short enough for the sockets in it (108 bytes).
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("cards-").tempdir().expect("a scratch directory")
}
