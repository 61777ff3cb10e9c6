//! A start whose coordinator does not answer.

use std::time::{Duration, Instant};

use cards_config::Coordinator as Home;
use cards_coordinator::{Error, EtcdError, Local, RemoteError};

use super::home::{HomeError, RETRY};
use super::session::{REMIND, cause};
use crate::starting::Starting;

/// What a node waits for that has put its part of the registry aside.
const KEEPERS: &str = "a node that keeps the registry";

/// How a start deals with a coordinator that does not answer.
pub(super) struct Patience<'a> {
    pub(super) home: &'a Home,
    /// The name of this node.
    pub(super) node: &'a str,
    pub(super) starting: &'a Starting,
    /// This node's part of the registry, once it is open.
    pub(super) part: Option<Local>,
}

impl Patience<'_> {
    /// Does something until the coordinator answers, and says from time to time that it does not.
    pub(super) async fn wait<T, F: Future<Output = Result<T, HomeError>>>(
        &self,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, HomeError> {
        let Self { home, starting, part, .. } = self;
        let mut said: Option<Instant> = None;
        let mut pause = Duration::from_millis(20);
        loop {
            match attempt().await {
                Err(HomeError::Coordinator { source, .. }) if is_passing(&source) => {
                    if said.is_none_or(|said| said.elapsed() > REMIND) {
                        said = Some(Instant::now());
                        tracing::warn!("waiting for the coordinator, {}: {source}", home.describe());
                    }
                    match part.as_ref().and_then(Local::aside) {
                        Some(remedy) => starting.waits_for(KEEPERS, Some(remedy.to_owned())),
                        None => {
                            let slow = part.as_ref().and_then(Local::slow);
                            let reason =
                                cause(&source) + &slow.map(|slow| format!("; {slow}")).unwrap_or_default();
                            starting.waits_for(self.called(), Some(reason));
                        }
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY);
                }
                result => {
                    starting.goes_on();
                    return result;
                }
            }
        }
    }

    /// The coordinator in the state of a start: nodes that are waited for, never this one.
    fn called(&self) -> String {
        let kept = self.part.as_ref().map(|part| part.kept().arbiters).unwrap_or_default();
        let others: Vec<String> =
            kept.iter().filter(|route| route.node != self.node).map(ToString::to_string).collect();
        match self.home {
            _ if kept.len() > 1 && !others.is_empty() => {
                format!("the coordinator at {}", others.join(" or "))
            }
            Home::Embedded(embedded) => format!("the coordinator at {}", embedded.address),
            Home::Etcd(_) => format!("the coordinator, {}", self.home.describe()),
        }
    }
}

/// The coordinator may answer otherwise in a while, with nobody doing anything about this node.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Refused(_) | Error::File(_) | Error::Store(_) => false,
        Error::Remote(error) => matches!(
            error,
            RemoteError::Unreachable { .. }
                | RemoteError::Unproven { .. }
                | RemoteError::Slow { .. }
                | RemoteError::NoLeader { .. }
                | RemoteError::OutcomeUnknown { .. }
        ),
        Error::Etcd(error) => matches!(
            error,
            EtcdError::Unreachable { .. }
                | EtcdError::Slow { .. }
                | EtcdError::NoQuorum { .. }
                | EtcdError::NoLease { .. }
                | EtcdError::Contended { .. }
        ),
    }
}
