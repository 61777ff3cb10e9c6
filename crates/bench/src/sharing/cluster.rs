//! The clusters that volumes are shared in: three nodes, the first one with the disk.

use std::path::PathBuf;

use super::BLOCK;
use crate::peers::{Cluster, ClusterOptions, Site};
use crate::{Error, content};

/// Bytes of a volume: all of it fits in every cache.
pub(super) const VOLUME_BYTES: u64 = 64 << 20;

/// The nodes that have no disk: those whose clients share.
pub(super) const SHARERS: [usize; 2] = [2, 3];

/// Three nodes that have attached one volume of [`VOLUME_BYTES`] and may write it.
pub(super) fn options(site: &Site, disk: &str) -> Result<ClusterOptions, Error> {
    Ok(ClusterOptions {
        read_ahead: "off".to_owned(),
        ..ClusterOptions::new(3, VOLUME_BYTES * 2, BLOCK, image(site, disk)?)
    })
}

/// The far end of a round trip stays on the server's core, the near end goes to the client's.
pub(super) fn start(site: &Site, options: &ClusterOptions) -> Result<Cluster, Error> {
    let cluster = Cluster::start(site, options)?;
    cluster.pin_beside_client(SHARERS[1], site)?;
    Ok(cluster)
}

fn image(site: &Site, name: &str) -> Result<PathBuf, Error> {
    let path = site.path(name);
    if !path.exists() {
        content::create_image(&path, VOLUME_BYTES)?;
    }
    Ok(path)
}
