//! Getting at the registry, wherever it is kept.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_coordinator::{
    Coordinator, Embedded, Epoch, Error, Etcd, EtcdConfig, EtcdError, FileError, Login, Office, Remote,
    RemoteConfig, Terms, TlsFiles, Visit,
};

use cards_tls::{Identity, Name};
use tokio::sync::mpsc;

use cards_config::{Config, Coordinator as Home, EtcdHome};

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
    /// The registry is gone, and it is not the first one.
    #[error(
        "the coordinator, {home}, has no registry, but this node was a member in epoch {epoch}; bring the registry \
         back. If it is lost for good, remove {} on all nodes, and a new one is made", state.display()
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

/// Opens the registry; makes a new one if there is none and `seen` says that there never was.
pub(super) async fn open(
    config: &Config,
    home: &Home,
    identity: Option<&Identity>,
    seen: Epoch,
) -> Result<Coordinator, HomeError> {
    let failed = |source: Error| HomeError::Coordinator { home: home.describe(), source };
    let lost = || HomeError::Lost { home: home.describe(), epoch: seen.0, state: config.membership() };
    let terms = Terms { lease: home.lease(), ..Terms::new(&config.cluster) };
    match home {
        Home::Embedded(_) if config.is_keeper() => {
            let file = config.registry();
            let registry = match Embedded::open(&file) {
                Ok(registry) => registry,
                Err(FileError::Missing { .. }) if seen.0 > 0 => return Err(lost()),
                Err(FileError::Missing { .. }) => {
                    tracing::info!(file = %file.display(), "making the registry of a new cluster");
                    Embedded::create(&file, &terms).map_err(failed)?
                }
                Err(error) => return Err(failed(error.into())),
            };
            Ok(Coordinator::Embedded(registry))
        }
        Home::Embedded(embedded) => {
            let mut remote = RemoteConfig::new(&embedded.address, &config.cluster);
            remote.patience = PATIENCE;
            let keeper = Name::new(&config.cluster, &embedded.keeper);
            remote.identity = identity.map(|identity| (identity.clone(), keeper));
            Ok(Coordinator::Remote(Remote::open(remote).await.map_err(failed)?))
        }
        Home::Etcd(etcd) => {
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
    }
}

/// Who signs, if the cluster's authority and its registry are here.
pub(super) fn office(
    config: &Config,
    identity: Option<&Identity>,
    coordinator: &Coordinator,
) -> Result<Option<Office>, HomeError> {
    match (identity, coordinator) {
        (Some(identity), Coordinator::Embedded(_)) => Ok(Office::open(&config.authority(), identity)?),
        _ => Ok(None),
    }
}

/// Where those who ask the registry of this node are brought.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) visits: mpsc::Sender<Visit>,
    /// Machines that have a token may come: the cluster's authority is here.
    pub(crate) signs: bool,
}

/// Answers whoever is brought to the registry, if it is this node's, for as long as the runtime runs.
pub(super) fn answer(
    identity: Option<Identity>,
    office: Option<Office>,
    coordinator: &Coordinator,
) -> Option<Registry> {
    let Coordinator::Embedded(registry) = coordinator else { return None };
    let (visits, brought) = mpsc::channel(VISITS_MAX);
    let signs = office.is_some();
    tokio::task::spawn_local(cards_coordinator::serve(
        brought,
        registry.clone(),
        identity,
        office,
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
