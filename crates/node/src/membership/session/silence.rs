//! What is said of a coordinator that does not answer, or has another time of day.

use cards_coordinator::{Coordinator, Error, RemoteError, WallClock};

/// Why the coordinator has not answered, without what is known of it anyway.
pub(in crate::membership) fn cause(error: &Error) -> String {
    let Error::Remote(remote) = error else { return error.to_string() };
    let mut remote = remote;
    while let RemoteError::OutcomeUnknown { cause, .. } = remote {
        remote = cause;
    }
    match remote {
        RemoteError::Unreachable { problem, .. } | RemoteError::Unproven { problem, .. } => problem.clone(),
        RemoteError::Slow { timeout_ms, .. } => format!("no reply within {} s", *timeout_ms as f64 / 1e3),
        other => other.to_string(),
    }
}

pub(super) fn remedy(coordinator: &Coordinator) -> &'static str {
    match coordinator {
        Coordinator::Local(local) if local.kept().arbiters.len() > 1 => {
            "start its daemons, of which more than half have to be up, or see to their disks and load"
        }
        Coordinator::Local(_) | Coordinator::Remote(_) => "start its daemon, or see to its disk and load",
        Coordinator::Etcd(_) => "see to etcd",
    }
}

/// What is said of a request to the registry that had no answer: of several that keep it no single one has to be up.
pub(in crate::membership) fn unanswered(coordinator: &Coordinator, described: &str, error: &Error) -> String {
    match (coordinator, error) {
        (Coordinator::Local(local), Error::Remote(_)) if local.kept().arbiters.len() > 1 => {
            format!(
                "the coordinator, {described}, does not answer ({}): {}; `cards status` says which of them are down",
                cause(error),
                remedy(coordinator)
            )
        }
        _ => format!("the coordinator, {described}: {error}"),
    }
}

/// What is said of a clock that is too far off to join with.
pub(super) fn clock_off(node: WallClock, coordinator: WallClock) -> String {
    format!(
        "the clock of this node says {node}, the coordinator's says {coordinator}: set the clock that is wrong by NTP; connections \
         that are open go on, but nodes whose clocks differ so much cannot join, and with clocks two days apart they do not believe \
         each other's certificates when they connect anew"
    )
}
