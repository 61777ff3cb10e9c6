//! What a shell is offered for values that only a daemon, or this program, knows.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use cards_admin::{Client, Part};
use cards_config::size;
use cards_policies::policy;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;

/// A shell is not kept waiting for a daemon that stands still.
const PATIENCE: Duration = Duration::from_millis(500);

/// Ends this program with the candidates, if a shell has called it for them.
pub(crate) fn answer_shell(command: impl Fn() -> clap::Command) {
    CompleteEnv::with_factory(command).bin("cards").complete();
}

/// The volumes that the daemon at `$CARDS_SOCKET`, or the usual one, knows.
pub(crate) fn volumes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let volumes = daemon().and_then(|mut daemon| daemon.volumes().ok()).unwrap_or_default();
        volumes
            .into_iter()
            .map(|volume| {
                let help = match volume.mirror {
                    Some(mirror) => format!("{}, {}", mirror.layout, mirror.health()),
                    None => format!("volume of node {}", volume.disk_node.unwrap_or_default()),
                };
                CompletionCandidate::new(volume.name).help(Some(help.into()))
            })
            .collect()
    })
}

/// The parts of volumes that have copies of their own, each as `VOLUME/NUMBER`, and the volumes that have no parts.
pub(crate) fn parts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let volumes = daemon().and_then(|mut daemon| daemon.volumes().ok()).unwrap_or_default();
        let parts = volumes.into_iter().flat_map(|volume| {
            let of = |part: &Part| (format!("{}/{}", volume.name, part.part), part.mirror.health());
            match (&volume.striped, &volume.mirror) {
                (Some(striped), _) => striped.parts.iter().map(of).collect(),
                (None, Some(mirror)) => vec![(volume.name.clone(), mirror.health())],
                (None, None) => Vec::new(),
            }
        });
        parts.map(|(name, health)| CompletionCandidate::new(name).help(Some(health.into()))).collect()
    })
}

/// The managed disks of the cluster, each as `NODE:DISK`, and its nodes.
pub(crate) fn disks() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let disks = daemon().and_then(|mut daemon| daemon.managed_disks().ok()).unwrap_or_default();
        let disks = disks.iter().map(|disk| {
            CompletionCandidate::new(disk.place())
                .help(Some(format!("{} free", size::human(disk.free)).into()))
        });
        disks.chain(members().into_iter().map(CompletionCandidate::new)).collect()
    })
}

/// The members of the cluster.
pub(crate) fn nodes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| members().into_iter().map(CompletionCandidate::new).collect())
}

/// `all`, or the members of the cluster with commas between them.
pub(crate) fn several_nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let typed = typed.to_string_lossy();
        listed(&typed, &members()).into_iter().map(CompletionCandidate::new).collect()
    })
}

/// What a list of which so much was typed can become.
fn listed(typed: &str, names: &[String]) -> Vec<String> {
    let (before, begun) = typed.rsplit_once(',').map_or(("", typed), |(before, begun)| (before, begun));
    let all = before.is_empty().then_some("all");
    let left = names.iter().map(String::as_str).filter(|name| !before.split(',').any(|known| known == *name));
    let fitting = all.into_iter().chain(left).filter(|name| name.starts_with(begun));
    fitting.map(|name| if before.is_empty() { name.to_owned() } else { format!("{before},{name}") }).collect()
}

fn members() -> Vec<String> {
    let members = daemon().and_then(|mut daemon| Some(daemon.status().ok()?.members)).unwrap_or_default();
    members.into_iter().map(|member| member.name).collect()
}

/// The policies that nodes can run.
pub(crate) fn policies() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let known = policy::registry().iter().filter(|entry| entry.lacks().is_none());
        known.map(|entry| CompletionCandidate::new(entry.name).help(Some(entry.title.into()))).collect()
    })
}

fn daemon() -> Option<Client> {
    let socket =
        std::env::var_os("CARDS_SOCKET").map_or_else(|| "/run/cards/admin.sock".into(), PathBuf::from);
    Client::connect_within(&socket, PATIENCE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_nodes_goes_on_with_those_that_are_not_in_it() {
        let names = ["n1".to_owned(), "n2".to_owned()];
        assert_eq!(listed("", &names), ["all", "n1", "n2"]);
        assert_eq!(listed("n", &names), ["n1", "n2"]);
        assert_eq!(listed("n1,", &names), ["n1,n2"]);
        assert!(listed("x", &names).is_empty());
    }
}
