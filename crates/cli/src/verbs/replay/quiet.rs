//! Waiting until nothing is under way in a cluster.
//!
//! All nodes are asked at the same time whether they are busy, and how many messages they have sent and received. The
//! cluster is at rest if nobody is busy, all that was sent has been received, and the look before said the same: a
//! message that crossed one look would have changed the numbers of the other (Mattern, Algorithms for Distributed
//! Termination Detection, 1987, the four counters).

use std::time::{Duration, Instant};

use cards_admin::{Activity, Client};

use super::{ReplayError, interrupted};
use crate::captive::Cluster;
use crate::error::Error;
use crate::signals::Signals;

/// How long a cluster may take to come to rest.
const REST_WITHIN: Duration = Duration::from_secs(60);
/// After a start: how long nothing must change, longer than anybody waits before he repeats a question.
const SETTLED: Duration = Duration::from_millis(250);
/// Looks in a row before the waiting makes pauses.
const EAGER: u32 = 64;
const PAUSE: Duration = Duration::from_millis(1);

/// Knows when a cluster is at rest.
pub(super) struct Quiet {
    clients: Vec<Client>,
    /// Messages that were sent and will never be received: what is said while connections are made is lost.
    lost: u64,
}

/// All nodes together.
#[derive(Default)]
struct Look {
    busy: usize,
    sent: u64,
    received: u64,
}

impl Quiet {
    /// Waits until a cluster that has just been started is at rest.
    pub(super) fn new(cluster: &Cluster, signals: &Signals) -> Result<Self, Error> {
        let mut quiet = Self { clients: connect(cluster)?, lost: 0 };
        let began = Instant::now();
        let (mut since, mut before) = (Instant::now(), None);
        loop {
            let look = quiet.look()?;
            let now = Some((look.sent, look.received));
            if look.busy > 0 || before != now {
                (since, before) = (Instant::now(), now);
            } else if since.elapsed() > SETTLED {
                quiet.lost = look.sent.saturating_sub(look.received);
                return Ok(quiet);
            }
            quiet.patience(&look, began, signals)?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Messages that were sent before and will never be received.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// With new connections: nodes end those that are not used for a minute.
    pub(super) fn again(self, cluster: &Cluster) -> Result<Self, Error> {
        Ok(Self { clients: connect(cluster)?, ..self })
    }

    /// Waits until the cluster is at rest.
    pub(super) fn wait(&mut self, signals: &Signals) -> Result<(), Error> {
        let began = Instant::now();
        let (mut looks, mut last) = (0, None);
        loop {
            let look = self.look()?;
            if look.busy == 0 && look.sent == look.received + self.lost {
                if last.replace(look.sent) == Some(look.sent) {
                    return Ok(());
                }
            } else if looks > EAGER {
                std::thread::sleep(PAUSE);
            }
            looks += 1;
            if looks > EAGER {
                self.patience(&look, began, signals)?;
            }
        }
    }

    fn look(&mut self) -> Result<Look, Error> {
        for client in &mut self.clients {
            client.ask_activity()?;
        }
        let mut look = Look::default();
        for client in &mut self.clients {
            let Activity { busy, messages_sent, messages_received, .. } = client.activity()?;
            look.busy += usize::from(busy);
            look.sent += messages_sent;
            look.received += messages_received;
        }
        Ok(look)
    }

    fn patience(&self, look: &Look, began: Instant, signals: &Signals) -> Result<(), ReplayError> {
        if interrupted(signals) {
            return Err(ReplayError::Interrupted);
        }
        if began.elapsed() < REST_WITHIN {
            return Ok(());
        }
        let &Look { busy, sent, received } = look;
        Err(ReplayError::Restless { seconds: REST_WITHIN.as_secs(), sent, received, busy })
    }
}

pub(super) fn connect(cluster: &Cluster) -> Result<Vec<Client>, Error> {
    let connect = |node: &crate::captive::Daemon| Ok(Client::connect(&node.config.admin_socket())?);
    cluster.nodes.iter().map(connect).collect()
}
