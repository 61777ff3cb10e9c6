//! Suites that others wrote, and builds, on a volume: as a file, as a block device, and mounted.
//!
//! They see a file system through its page cache, which hides a write that was lost below it. So each run ends
//! with checksums, an unmount and a comparison at another node, and then without any node, on the disk itself. And
//! each loses the daemon that it uses on the way.
//!
//! `.ci/suites` installs what no package has.

mod build;
mod bytes;
mod fsx;
mod pjdfstest;
mod source;
mod volume;

use std::time::Duration;

/// Bound of a suite or a build.
const SUITE: Duration = Duration::from_secs(300);
