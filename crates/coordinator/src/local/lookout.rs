//! Whether others know a later registry than a lone arbiter's.
//!
//! A node that is the only arbiter by what its store says can lead at once. If its state_dir is an old copy, of a time when it
//! was the only one, others keep a later registry, and know it.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::kept::{Kept, Route};
use crate::remote::{Ask, Known, Peer, RemoteConfig};
use crate::wire::KEPT_BY;

/// How long they are waited for before the node leads: those that are there answer in a fraction of it.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// How long those are asked again that did not answer.
const UNTIL: Duration = Duration::from_secs(60);
/// Pause before they are.
const PAUSE: Duration = Duration::from_secs(2);

/// What was found.
pub(super) enum Found {
    /// Somebody knows of a later one.
    Later(Kept),
    /// These have not answered.
    Silent(Vec<Route>),
}

/// Asks all of them at once.
pub(super) async fn look(config: &RemoteConfig, others: &[Route], own: &Kept, limit: Duration) -> Found {
    let mut asked = JoinSet::new();
    for route in others {
        let (config, route, own) = (config.clone(), route.clone(), own.clone());
        asked.spawn(
            async move { (timeout(limit, kept_by(&config, &route, own)).await.ok().flatten(), route) },
        );
    }
    let mut silent = Vec::new();
    while let Some(Ok((kept, route))) = asked.join_next().await {
        match kept {
            Some(kept) if kept.history == own.history && is_later(&kept, own.version) => {
                return Found::Later(kept);
            }
            Some(_) => {}
            None => silent.push(route),
        }
    }
    Found::Silent(silent)
}

/// Asks those again that are silent; what is found at last.
pub(super) async fn watch(config: &RemoteConfig, mut silent: Vec<Route>, own: &Kept) -> Option<Kept> {
    let end = Instant::now() + UNTIL;
    while !silent.is_empty() && Instant::now() < end {
        sleep(PAUSE).await;
        match look(config, &silent, own, PAUSE).await {
            Found::Later(kept) => return Some(kept),
            Found::Silent(left) => silent = left,
        }
    }
    None
}

/// Whether others keep a later registry than a lone arbiter that has this version. If the very next one makes others arbiters beside it,
/// they have voted for it, and this one may have died before: nothing is decided without it.
pub(super) fn is_later(kept: &Kept, version: u64) -> bool {
    !kept.arbiters.is_empty() && kept.version > version + u64::from(kept.changes)
}

async fn kept_by(config: &RemoteConfig, route: &Route, own: Kept) -> Option<Kept> {
    let peer = Peer::at(route, config).ok()?;
    let mut connection = peer.connect(config.connect_timeout).await.ok()?;
    let ask = Ask { path: KEPT_BY.to_owned(), body: None };
    // One that follows a registry which this one has succeeded hears of it.
    let known = Known { history: own.history, seen: None, kept: Some(own) };
    let answer = connection.exchange(&peer, &ask, known).await.ok()?;
    serde_json::from_slice(&answer.body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others can know while this one is the only arbiter and has all that it voted for: nothing that was decided without it.
    #[test]
    fn a_lone_arbiter_that_has_forgotten_nothing_is_never_taken_for_old() {
        let route = |node: &str| Route { node: node.into(), address: format!("{node}:1") };
        let kept = |version, changes, arbiters: &[&str]| Kept {
            version,
            changes,
            arbiters: arbiters.iter().map(|node| route(node)).collect(),
            ..Kept::default()
        };
        let own = 7;
        for version in 0..=own {
            assert!(!is_later(&kept(version, false, &["n1"]), own), "as it was told {version}");
            assert!(
                !is_later(&kept(version, true, &["n1", "n2", "n3"]), own),
                "a change that came to nothing"
            );
            assert!(
                !is_later(&kept(version, false, &["n1", "n2", "n3"]), own),
                "of the time before it was alone"
            );
        }
        // They have voted for the next value, by which they are arbiters as well, and this one died before it had.
        assert!(!is_later(&kept(own + 1, true, &["n1", "n2", "n3"]), own));
        assert!(
            !is_later(&Kept { version: 99, ..Kept::default() }, own),
            "who knows of no arbiter knows nothing"
        );
        // Each of these takes its vote, which it has forgotten.
        assert!(is_later(&kept(own + 1, false, &["n1"]), own));
        assert!(is_later(&kept(own + 2, true, &["n1", "n2", "n3"]), own));
        assert!(is_later(&kept(own + 2, false, &["n1", "n2", "n3"]), own));
    }
}
