//! One piece at a time.

use cards_trace::Source;

use super::connection::Connection;
use super::load::Load;
use super::quiet::Quiet;
use super::replayed::Times;
use super::steps::Steps;
use super::{ReplayError, interrupted};
use crate::captive::Cluster;
use crate::error::Error;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::verbs::sim::SimError;

/// Pieces between two looks at the signals.
const LOOK: u64 = 64;

/// Issues each piece when the one before is answered and the cluster is at rest.
pub(super) fn play(
    source: &mut dyn Source,
    cluster: &Cluster,
    load: &Load,
    quiet: &Quiet,
    signals: &Signals,
) -> Result<Times, Error> {
    let sockets: Vec<_> = (0..cluster.nodes.len()).map(|node| cluster.socket(node)).collect();
    let mut connections = sockets.iter().map(|path| Connection::open(path)).collect::<Result<Vec<_>, _>>()?;
    let mut steps = Steps::new(cluster, quiet, signals)?;
    let progress = Progress::new("replaying");
    let mut times = Times::new(load.block);
    let mut done: u64 = 0;
    while let Some(request) = source.next().map_err(SimError::from)? {
        let node = request.node as usize;
        let took = steps.act(&mut connections[node], &request)?;
        times.add(&request, took);
        done += 1;
        if done.is_multiple_of(LOOK) {
            progress.show(done as f64 / load.pieces as f64, done, None, "");
            if interrupted(signals) {
                return Err(ReplayError::Interrupted.into());
            }
        }
    }
    Ok(times)
}
