//! Getting at the registry, wherever it is kept.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_coordinator::{
    Blank, Coordinator, Epoch, Error, Etcd, EtcdConfig, EtcdError, Local, LocalConfig, Login, Office, Opened,
    Record, Refusal, Remote, RemoteConfig, Terms, TlsFiles, earlier_records,
};

use cards_tls::{Identity, Name};
use tokio::sync::mpsc;

use cards_config::{Config, Coordinator as Home, EtcdHome};

use super::patience::Patience;
use super::state::State;
use super::whose::{Remedy, Whose};
use crate::net::Registry;

/// Connections that have been brought to the registry, and not yet been heard.
const VISITS_MAX: usize = 128;
/// Longest password file, in bytes.
const SECRET_BYTES_MAX: u64 = 4096;

/// Why the registry cannot be had. Each message names the thing, the value and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The coordinator refuses, or its file or etcd cannot be used.
    #[error("the coordinator, {home}: {source}")]
    Coordinator {
        /// Where it is.
        home: String,
        /// Why.
        source: Error,
    },
    /// This node keeps the cluster's authority and cannot sign with it.
    #[error("the cluster's authority: {0}")]
    Authority(#[from] cards_tls::Error),
    /// What answers is no coordinator of this release.
    #[error(
        "the coordinator, {home}, gave this node {given:?} for its number, and numbers go from 0 to 1022; run one release \
         on all nodes, or correct the address"
    )]
    Number {
        /// Where it is.
        home: String,
        /// What it gave.
        given: Option<u16>,
    },
    /// A file with a secret cannot be read.
    #[error("{key}: cannot read {}: {source}; correct the path or the permissions", path.display())]
    Secret {
        /// The key of the configuration.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another node has a disk of the same name, and nodes would read one or the other.
    #[error(
        "disk {volume:?}: node {node} at {address} has a disk of this name already; give one of the two another `name` in \
         [[disk]]. If the disk has moved here, take it out of {node}'s file and restart {node}, or run `cards forget {node} \
         --with-disks` when it is dead"
    )]
    DiskElsewhere {
        /// The name of both disks, and of their volumes.
        volume: String,
        /// The member that has it.
        node: String,
        /// Where that one listens.
        address: String,
    },
    /// Another node has a volume of the name of one on a managed disk of this node.
    #[error(
        "volume {volume:?} of the managed disk {}: node {node} at {address} has a volume of this name already, and one on a managed \
         disk cannot be renamed; {}",
        disk.display(),
        Remedy { whose, volume, disk, node }
    )]
    ManagedElsewhere {
        /// The name of both volumes.
        volume: String,
        /// The path of the managed disk.
        disk: PathBuf,
        /// The member that has the other one.
        node: String,
        /// Where that one listens.
        address: String,
        /// Whose the managed disk is.
        whose: Box<Whose>,
    },
    /// A volume with copies at several nodes has the name.
    #[error(
        "disk {volume:?}: the cluster has a volume of this name already, with copies on managed disks of {nodes}; give the disk another \
         `name` in [[disk]], or remove that volume at a node that runs (`cards volume remove {volume}`)"
    )]
    VolumeElsewhere {
        /// The name of both.
        volume: String,
        /// The nodes that have copies.
        nodes: String,
    },
    /// The registry is gone, and it is not the first one.
    #[error(
        "the coordinator, {home}, has no registry, but this node had one or was a member (epoch {epoch}); bring the registry \
         back, as `register.moved` in {}, or if other nodes keep it, name one of them in [coordinator.embedded]. If it is lost for good, remove `membership.json`, \
         `register*` and `registry*` there on all nodes, and a new one is made", state.display()
    )]
    Lost {
        /// Where it should be.
        home: String,
        /// The highest epoch this node has heard of.
        epoch: u64,
        /// The directory that remembers.
        state: PathBuf,
    },
}

/// What this node has of the registry before it asks anybody.
pub(super) enum Found {
    /// A part that it keeps, and goes on with.
    Part(Local),
    /// The place for one, where nodes keep the registry.
    Place(Box<Blank>),
    /// None: it is in etcd.
    Elsewhere(EtcdHome),
}

/// Opens what is here; waits for nobody.
pub(super) async fn find(
    config: &Config,
    home: &Home,
    identity: Option<&Identity>,
    before: &State,
) -> Result<Found, HomeError> {
    let embedded = match home {
        Home::Embedded(embedded) => embedded,
        Home::Etcd(etcd) => return Ok(Found::Elsewhere(etcd.clone())),
    };
    let failed = |source: Error| HomeError::Coordinator { home: home.describe(), source };
    let mut remote = RemoteConfig::new(&embedded.address, &config.cluster);
    remote.patience = PATIENCE;
    remote.identity =
        identity.map(|identity| (identity.clone(), Name::new(&config.cluster, &embedded.keeper)));
    remote.own.clone_from(&config.address);
    remote.others = before.arbiters.iter().filter(|route| route.node != config.node).cloned().collect();
    (remote.history, remote.seen) = (before.registry, Epoch(before.epoch));
    let local = LocalConfig::new(&config.register(), &config.node, remote);
    match Local::open(local).await.map_err(failed)? {
        Opened::Keeps(local) => Ok(Found::Part(local)),
        Opened::Blank(blank) | Opened::Missing(blank) => match blank.lease() {
            Some(lease) => Ok(Found::Part(blank.enlist(lease).map_err(failed)?)),
            None => Ok(Found::Place(Box::new(blank))),
        },
    }
}

/// Opens the registry from what was found; makes a new one if there is none and `before` says that there never was. Waits for those that
/// keep it.
pub(super) async fn open(
    config: &Config,
    patience: &Patience<'_>,
    before: &State,
    found: Found,
) -> Result<Coordinator, HomeError> {
    let home = patience.home;
    match found {
        Found::Part(local) => Ok(Coordinator::Local(local)),
        Found::Place(blank) => Ok(Coordinator::Local(take_place(config, patience, before, *blank).await?)),
        Found::Elsewhere(etcd) => patience.wait(|| open_etcd(config, home, &etcd, Epoch(before.epoch))).await,
    }
}

/// A part of the registry where there was none.
async fn take_place(
    config: &Config,
    patience: &Patience<'_>,
    before: &State,
    blank: Blank,
) -> Result<Local, HomeError> {
    let home = patience.home;
    let failed = |source: Error| HomeError::Coordinator { home: home.describe(), source };
    if config.is_keeper() && !blank.has_store() && !blank.has_others() {
        return begin(config, home, blank, before);
    }
    let mut reached = blank.config().remote.clone();
    reached.others.extend(blank.kept().arbiters.iter().cloned());
    let view = patience
        .wait(|| async { Remote::open(reached.clone()).await.map_err(failed)?.view().await.map_err(failed) })
        .await?;
    blank.enlist(view.lease).map_err(failed)
}

/// A new registry, or that of an earlier release.
fn begin(config: &Config, home: &Home, blank: Blank, before: &State) -> Result<Local, HomeError> {
    let failed = |source: Error| HomeError::Coordinator { home: home.describe(), source };
    let earlier = config.registry();
    if earlier.exists() {
        let records = earlier_records(&earlier).map_err(|error| failed(error.into()))?;
        let heads = records.iter().filter_map(|record| match record {
            Record::Head(head) => Some(head.epoch),
            _ => None,
        });
        let (seen, epoch) = (Epoch(before.epoch), heads.max().unwrap_or_default());
        if epoch < seen {
            let behind = Refusal::RegistryBehind { name: config.node.clone(), seen, epoch };
            return Err(failed(behind.into()));
        }
        tracing::info!(file = %earlier.display(), "taking over the registry of an earlier release");
        return blank.import(&earlier).map_err(failed);
    }
    let register = config.register();
    let traces = ["copy", "old"].map(|suffix| register.with_extension(suffix));
    let was_there = before.epoch > 0
        || traces.iter().any(|path| path.exists())
        || earlier.with_extension("redb.imported").exists();
    if was_there {
        return Err(HomeError::Lost {
            home: home.describe(),
            epoch: before.epoch,
            state: config.state_dir.clone(),
        });
    }
    tracing::info!(file = %register.display(), "making the registry of a new cluster");
    let terms = Terms { lease: home.lease(), ..Terms::new(&config.cluster) };
    blank.found(&terms).map_err(failed)
}

async fn open_etcd(
    config: &Config,
    home: &Home,
    etcd: &EtcdHome,
    seen: Epoch,
) -> Result<Coordinator, HomeError> {
    let failed = |source: Error| HomeError::Coordinator { home: home.describe(), source };
    let lost = || HomeError::Lost { home: home.describe(), epoch: seen.0, state: config.state_dir.clone() };
    let terms = Terms { lease: home.lease(), ..Terms::new(&config.cluster) };
    let settings = etcd_config(etcd)?;
    if seen.0 == 0 {
        // Whoever comes first makes it; for all others there is one already.
        match Etcd::create(&settings, &terms).await {
            Ok(made) => return Ok(Coordinator::Etcd(made)),
            Err(Error::Etcd(EtcdError::Exists { .. })) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    match Etcd::open(&settings, &config.cluster).await {
        Ok(registry) => Ok(Coordinator::Etcd(registry)),
        Err(Error::Etcd(EtcdError::NoRegistry { .. })) => Err(lost()),
        Err(error) => Err(failed(error)),
    }
}

/// Who signs, if the cluster's authority and its registry are here.
pub(super) fn office(
    config: &Config,
    identity: Option<&Identity>,
    coordinator: &Coordinator,
) -> Result<Option<Office>, HomeError> {
    match (identity, coordinator) {
        // The file of a founder that came back names another node, by which it came.
        (Some(identity), Coordinator::Local(_)) if config.is_keeper() || config.authority().is_dir() => {
            Ok(Office::open(&config.authority(), identity)?)
        }
        _ => Ok(None),
    }
}

/// Answers whoever is brought to the registry, if nodes keep it, for as long as the runtime runs.
pub(super) fn answer(
    home: &Home,
    identity: Option<Identity>,
    office: Option<Office>,
    coordinator: &Coordinator,
) -> Option<Registry> {
    let (Coordinator::Local(registry), Home::Embedded(embedded)) = (coordinator, home) else { return None };
    let authority = identity.as_ref().map(|identity| match &office {
        Some(_) => identity.name().clone(),
        None => Name::new(&identity.name().cluster, &embedded.keeper),
    });
    let (visits, brought) = mpsc::channel(VISITS_MAX);
    let signs = office.is_some();
    tokio::task::spawn_local(cards_coordinator::serve(
        brought,
        registry.clone(),
        identity,
        office,
        authority,
        pending(),
    ));
    Some(Registry { visits, signs })
}

/// The first line of a file with a secret.
fn secret(key: &'static str, path: &Path) -> Result<String, HomeError> {
    use std::io::Read as _;
    let failed = |source| HomeError::Secret { key, path: path.into(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let line = text.lines().next().unwrap_or("").trim();
    if line.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "its first line is empty")));
    }
    Ok(line.into())
}

fn etcd_config(home: &EtcdHome) -> Result<EtcdConfig, HomeError> {
    let mut config = EtcdConfig::new(home.endpoints.clone());
    config.prefix.clone_from(&home.prefix);
    if let (Some(user), Some(file)) = (&home.user, &home.password_file) {
        let password = secret("coordinator.etcd.password_file", file)?;
        config.login = Some(Login { user: user.clone(), password });
    }
    if let Some(authorities) = home.ca.clone() {
        config.tls = Some(TlsFiles { authorities, client: home.cert.clone().zip(home.key.clone()) });
    }
    config.patience = PATIENCE;
    Ok(config)
}

/// How long the coordinator is asked again by itself, before this node says that it does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long to wait before the coordinator is asked again.
pub(super) const RETRY: Duration = Duration::from_millis(500);
