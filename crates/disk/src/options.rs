//! How a disk is opened.

use std::path::PathBuf;
use std::time::Duration;

use cards_wire::object::{Url, Web};

use crate::delivery::Delivery;

/// Where the bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A regular file or a block device.
    Path(PathBuf),
    /// Another NBD server's export: `nbd://host[:port]/export` or `nbd+unix:///export?socket=/path`.
    Uri(String),
    /// An object of a web server or an object store; never written.
    Object(ObjectSource),
}

/// Where an object is, and what proves who asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectSource {
    pub url: Url,
    /// Of `s3://`: the region of the bucket. Default: that of the environment (`AWS_REGION`, `AWS_DEFAULT_REGION`), else
    /// `us-east-1`.
    pub region: Option<String>,
    /// Of `s3://`: the server, if it is not Amazon's.
    pub endpoint: Option<Web>,
    /// Of `s3://`: a file with a key in the profile `default`. Default: the environment (`AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`); without either, requests are not signed.
    pub credentials: Option<PathBuf>,
    /// The authorities (PEM) that may sign the server's certificate. Default: those of this machine.
    pub ca: Option<PathBuf>,
}

impl ObjectSource {
    /// The object at `url`, everything else at its default.
    pub fn new(url: Url) -> Self {
        Self { url, region: None, endpoint: None, credentials: None, ca: None }
    }
}

/// Who talks to the kernel for files and block devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// io_uring where the kernel allows it, else threads. The environment variable
    /// `CARDS_DISK_BACKEND=threads` forces threads, so that tools that see system calls (strace, libfiu) see
    /// the disk's too.
    #[default]
    Auto,
    /// A small pool of threads that call `pread` and `pwrite`.
    Threads,
}

/// Options of [`Disk::open`](crate::Disk::open).
#[derive(Debug, Clone)]
pub struct DiskOptions {
    pub source: Source,
    /// Open without write access; writes fail with EPERM.
    pub read_only: bool,
    /// Bypass the page cache (`O_DIRECT`) for jobs whose offset, length and memory are aligned to
    /// [`Disk::block_size`](crate::Disk::block_size); others go through the page cache.
    pub direct: bool,
    /// When completed reads are delivered.
    pub delivery: Delivery,
    /// Modelled slow disk: added to each read, before it starts (as nbdkit's delay filter). 0 = off.
    pub delay: Duration,
    /// Modelled slow disk: bytes per second, reads and writes of all engines together. 0 = off.
    pub rate: u64,
    pub backend: Backend,
    /// Most reads and writes at the disk at a time, of all engines together; at least 1, default
    /// [`DiskOptions::DEPTH`], of an object [`DiskOptions::OBJECT_DEPTH`].
    pub depth: usize,
    /// The unit in which [`DiskStats`](crate::DiskStats) counts reads and writes, in bytes. Default 64 KiB.
    pub count_block: u32,
    /// Most threads of the disk's pool; at least 1, default 8.
    pub threads: usize,
    /// How long jobs wait for an origin server, or the server of an object, that is away or silent before they fail with EIO. Default 30 s.
    pub reconnect_wait: Duration,
    /// How long a file or device may be locked by another process, which may be about to end, before it is refused. Default 3 s.
    pub lock_wait: Duration,
    /// Faults to inject, for tests; see the `fault` module for the language.
    #[doc(hidden)]
    pub fault: Option<String>,
}

impl DiskOptions {
    /// As many as keep a fast disk busy: with more, requests only wait in its queue, where nobody takes turns.
    pub const DEPTH: usize = 64;
    /// The same of an object: as many as fill its connections with requests of neighbours, where blocks are of 64 KiB.
    pub const OBJECT_DEPTH: usize = 512;

    /// A file or block device, everything else at its default.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self::new(Source::Path(path.into()))
    }

    /// Another server's export, everything else at its default.
    pub fn uri(uri: impl Into<String>) -> Self {
        Self::new(Source::Uri(uri.into()))
    }

    /// An object, everything else at its default.
    pub fn object(source: ObjectSource) -> Self {
        Self { depth: Self::OBJECT_DEPTH, ..Self::new(Source::Object(source)) }
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            read_only: false,
            direct: false,
            delivery: Delivery::Event,
            delay: Duration::ZERO,
            rate: 0,
            backend: Backend::Auto,
            depth: Self::DEPTH,
            count_block: 64 << 10,
            threads: 8,
            reconnect_wait: Duration::from_secs(30),
            lock_wait: Duration::from_secs(3),
            fault: None,
        }
    }
}
