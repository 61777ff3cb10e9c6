//! Reads of what a peer's memory has: node 2 of three holds the blocks, and node 3 reads each once.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::Error;
use crate::load::{self, Access, Options};
use crate::peers::{Cluster, ClusterOptions, Site, Transport};
use crate::size::format_size;

/// One kind of read. Cells of one block size share a cluster, and have parts of the disk of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    /// Bytes per cached block.
    pub block: u32,
    /// Bytes per request.
    pub request: u32,
    pub depth: usize,
    pub access: Access,
    /// The part of the disk, in quarters: blocks are remote once.
    pub part: (u64, u64),
}

/// What a row of results is about.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Kind {
    /// Bytes per cached block.
    pub block: u32,
    /// Bytes per request.
    pub request: u32,
    /// Requests in flight.
    pub depth: usize,
    /// Ascending, not at random.
    pub is_stream: bool,
    /// The nodes talk in the clear; else under TLS 1.3 with one cipher suite.
    pub insecure: bool,
}

impl Cell {
    pub(crate) fn kind(&self, insecure: bool) -> Kind {
        let &Cell { block, request, depth, access, .. } = self;
        Kind { block, request, depth, is_stream: matches!(access, Access::Scan), insecure }
    }

    /// The cell's part of the disk, read for so long.
    pub(crate) fn options(&self, site: &Site, duration: Duration) -> Options {
        let quarter = site.size / 4;
        Options {
            access: self.access,
            block: self.request,
            depth: self.depth,
            duration,
            range: self.part.0 * quarter..self.part.1 * quarter,
            ..Options::default()
        }
    }
}

impl Kind {
    pub(crate) fn title(&self) -> String {
        let transport = if self.insecure { "clear" } else { "TLS" };
        let kind = if self.is_stream { "stream" } else { "remote hit" };
        let mut title = format!("{transport}: {kind} {} QD{}", format_size(self.request.into()), self.depth);
        if self.block != self.request {
            title += &format!(", blocks of {}", format_size(self.block.into()));
        }
        title
    }
}

/// Three nodes whose caches hold the whole disk.
pub(crate) fn options(site: &Site, block: u32, insecure: bool) -> Result<ClusterOptions, Error> {
    let disk = site.image("disk-cards.raw")?;
    Ok(ClusterOptions {
        read_only: true,
        insecure,
        prefault: true,
        ..ClusterOptions::new(3, site.whole_cache(), block, disk)
    })
}

/// Three nodes of which node 2 has read the whole disk, and node 3 is beside the client.
pub(crate) fn cluster(
    site: &Site,
    program: Option<&Path>,
    options: &ClusterOptions,
) -> Result<Cluster, Error> {
    let cluster = Cluster::start_program(site, program, options)?;
    cluster.pin_beside_client(3, site)?;
    load::read_all(&cluster.target(2, Transport::Unix)?)?;
    Ok(cluster)
}
