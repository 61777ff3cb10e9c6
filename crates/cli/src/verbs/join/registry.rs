//! What the cluster's registry says of a configuration before a node joins with it.

use std::time::Duration;

use cards_config::{Config, Coordinator, EmbeddedHome, Origin, size};
use cards_coordinator::{Refusal, Remote, RemoteConfig, View};
use cards_disk::{DiskOptions, Managed, ManagedOptions};
use cards_tls::{Identity, Name};

use crate::error::Error;

/// How long the keeper is asked again by a node that has an identity.
const ASK: Duration = Duration::from_secs(3);

/// Refuses what no node of the cluster would accept: a revoked identity, another block size, a volume that no node has. A
/// keeper that does not answer is no reason: then the daemon says so when it starts.
pub(super) fn check(config: &Config) -> Result<(), Error> {
    let Some(Coordinator::Embedded(home)) = &config.coordinator else { return Ok(()) };
    if config.is_keeper() || config.lacks_identity() {
        return Ok(());
    }
    match ask(config, home)? {
        Ok(view) => compare(config, &view),
        Err(cards_coordinator::Error::Refused(why @ Refusal::Revoked { .. })) => {
            Err(Error::Usage { problem: why.to_string() })
        }
        Err(error) => {
            eprintln!(
                "cards: block size and volumes are not compared with those of the cluster: {error}; the daemon compares them"
            );
            Ok(())
        }
    }
}

fn ask(config: &Config, home: &EmbeddedHome) -> Result<Result<View, cards_coordinator::Error>, Error> {
    let mut remote = RemoteConfig::new(&home.address, &config.cluster);
    remote.patience = Duration::ZERO;
    let files = config.identity_files();
    if files.any() {
        let identity = Identity::load(&Name::new(&config.cluster, &config.node), &files)?;
        remote.identity = Some((identity, Name::new(&config.cluster, &home.keeper)));
        remote.patience = ASK;
    }
    Ok(event_loop()?.block_on(async { Remote::open(remote).await?.view().await }))
}

fn compare(config: &Config, view: &View) -> Result<(), Error> {
    let owner = |disk: &str| view.disks.get(disk).map(|disk| disk.node.as_str());
    let mut others = view.volumes.values().filter(|volume| owner(&volume.disk) != Some(&config.node));
    if let Some(volume) = others.find(|volume| volume.block_bytes != config.block) {
        let (ours, theirs) = (size::exact(config.block), size::exact(volume.block_bytes));
        let problem = format!(
            "--block {ours}: all nodes of a cluster have one block size, and volume {:?} of node {} has blocks of {theirs}; \
             use --block {theirs}",
            volume.name,
            owner(&volume.disk).unwrap_or("?")
        );
        return Err(Error::Usage { problem });
    }
    let Some(own) = own_volumes(config) else { return Ok(()) };
    let groups = view.groups.keys();
    let known: Vec<&str> = view.volumes.keys().chain(groups).chain(&own).map(String::as_str).collect();
    let Some(unknown) = config.attach.iter().find(|card| !known.contains(&card.volume.as_str())) else {
        return Ok(());
    };
    let volume = &unknown.volume;
    let problem = match (cards_nearest::nearest(volume, known.iter().copied()), known.is_empty()) {
        (Some(near), _) => format!("did you mean {near:?}?"),
        (None, false) => format!("it has {}.", known.join(", ")),
        (None, true) => "it has none yet.".into(),
    };
    Err(Error::Usage {
        problem: format!(
            "--attach {volume:?}: cluster {:?} has no volume of this name; {problem} Correct the name, have the node that has \
             its disk join first, or leave the option out and run `cards volume attach {volume}` later",
            config.cluster
        ),
    })
}

/// The volumes on the disks of this node; none if a managed disk of it cannot be opened, which the daemon will tell.
fn own_volumes(config: &Config) -> Option<Vec<String>> {
    let mut volumes = Vec::new();
    for disk in &config.disks {
        let Origin::Managed(path) = &disk.origin else {
            volumes.push(disk.name.clone());
            continue;
        };
        let examined = Managed::examine(&ManagedOptions::new(DiskOptions::path(path))).ok()?;
        volumes.extend(examined.volumes.into_iter().map(|volume| volume.name.to_string()));
    }
    Some(volumes)
}

/// An event loop for a few questions to another node.
pub(super) fn event_loop() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::EventLoop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cards_config::{Attach, Disk};

    use super::*;

    fn view() -> View {
        let volume = r#"{"name":"data","disk":"n1:0","block_bytes":65536,"policy":"hscc","modes":["rw"]}"#;
        let disk = r#"{"id":"n1:0","node":"n1","bytes":1048576}"#;
        let text = format!(
            r#"{{"cluster":"lab","epoch":1,"revision":1,"lease_ms":3000,"members":{{}},"disks":{{"n1:0":{disk}}},
                "volumes":{{"data":{volume}}},"attachments":[]}}"#
        );
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn config(block: u64, attach: &[&str]) -> Config {
        let mut config = Config::new("lab", "n2");
        config.block = block;
        config.attach = attach.iter().map(|volume| Attach::new(volume)).collect();
        config.disks = vec![Disk::new("own", Origin::Path("/dev/sdb".into()))];
        config
    }

    #[test]
    fn another_block_size_and_an_unknown_volume_are_refused_by_name() {
        assert!(compare(&config(65536, &["data", "own"]), &view()).is_ok());
        let refused = |config: &Config, view: &View| compare(config, view).unwrap_err().to_string();
        for (config, words) in [
            (config(32 << 10, &[]), "--block 32K: all nodes"),
            (config(32 << 10, &[]), "volume \"data\" of node n1 has blocks of 64K; use --block 64K"),
            (
                config(65536, &["dat"]),
                "--attach \"dat\": cluster \"lab\" has no volume of this name; did you mean \"data\"?",
            ),
            (config(65536, &["scratch"]), "it has data, own."),
        ] {
            let said = refused(&config, &view());
            assert!(said.contains(words), "{said}");
        }
        // What this node itself had before it was changed is no reason.
        let mut own = view();
        own.disks.values_mut().for_each(|disk| disk.node = "n2".into());
        assert!(compare(&config(32 << 10, &[]), &own).is_ok());
        let nothing = View { volumes: BTreeMap::new(), ..view() };
        assert!(refused(&config(32 << 10, &["x"]), &nothing).contains("it has own."));
    }
}
