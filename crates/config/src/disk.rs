//! Disks a node contributes.

use std::path::PathBuf;
use std::time::Duration;

use cards_wire::nbd::client::Uri;
use cards_wire::object::{Url, UrlError};
use serde::{Deserialize, Serialize};

use super::{Allow, Attached, Object, PolicySpec, duration, size, uri};

/// One disk this node contributes; the volume on it has the same name, but for a managed disk, whose volumes have names of their
/// own, and share the other keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "DiskToml", into = "DiskToml")]
pub struct Disk {
    /// Name of the disk and of the volume, unique in the cluster.
    pub name: String,
    /// Where its bytes are: `path`, `managed`, `uri` or `url`.
    pub origin: Origin,
    /// The policy of the volume. Default `auto`, or `hscc` where [`Self::coherence`] is left to it and it can be written.
    pub policy: PolicySpec,
    /// Nobody may write it. Default false; always true of a `url`.
    pub read_only: bool,
    /// Which nodes may attach it, and how, beside this one. Default: all, in all modes.
    pub allow: Option<Allow>,
    /// Opened with `O_DIRECT`, past the page cache of this machine. Default false.
    pub direct: bool,
    /// Whether this node keeps copies of what others read. Default `computer`.
    pub attached: Attached,
    /// How readers are kept from old contents. Default `confirmed`.
    pub coherence: Coherence,
    /// Where a node reads what another one has written. Default `cache`.
    pub handover: Handover,
    /// How requests of other nodes are answered. Default `event`.
    pub delivery: Delivery,
    /// Most reads and writes at the disk at a time; those beyond wait here, where the nodes whose they are take turns.
    /// Default 64.
    pub depth: usize,
    /// Modelled slow disk: added to each read. Default `0ms`.
    pub delay: Duration,
    /// Modelled slow disk: bytes per second; 0 is no limit. Default 0.
    pub rate: u64,
    /// Faults to inject, for tests, in the language of `cards_disk`. No key of the file.
    #[doc(hidden)]
    pub fault: Option<String>,
}

/// Where the bytes of a disk are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file or block device of this machine.
    Path(PathBuf),
    /// A file or block device of this machine that `cards disk format` has formatted.
    Managed(PathBuf),
    /// The export of any NBD server.
    Nbd(Uri),
    /// An object of a web server or an object store.
    Object(Box<Object>),
}

/// What readers of a volume are promised when somebody writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coherence {
    /// What is complete is seen by everybody: copies are gone before a write reaches the disk.
    #[default]
    Confirmed,
    /// The weaker promise of the CARDs paper (section 3): the policy has copies dropped after the write, and nobody waits
    /// for that.
    Policy,
}

impl Coherence {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Policy => "policy",
        }
    }
}

impl From<Coherence> for cards_core::Coherence {
    fn from(coherence: Coherence) -> Self {
        match coherence {
            Coherence::Confirmed => Self::Confirmed,
            Coherence::Policy => Self::Policy,
        }
    }
}

impl From<cards_core::Coherence> for Coherence {
    fn from(coherence: cards_core::Coherence) -> Self {
        match coherence {
            cards_core::Coherence::Confirmed => Self::Confirmed,
            cards_core::Coherence::Policy => Self::Policy,
        }
    }
}

/// How a block gets from the node that has written it to those that read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Handover {
    /// Out of the writer's memory: nodes keep the blocks they have written whole.
    #[default]
    Cache,
    /// From the disk, unless the disk node has a copy. For volumes whose writers would keep what nobody reads.
    Disk,
}

impl Handover {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Disk => "disk",
        }
    }
}

impl From<Handover> for cards_core::Handover {
    fn from(handover: Handover) -> Self {
        match handover {
            Handover::Cache => Self::Cache,
            Handover::Disk => Self::Disk,
        }
    }
}

/// How the disk node gets from a request to its answer (remote disk drivers, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The completion of the disk sends the answer.
    #[default]
    Event,
    /// A thread per request waits for the disk.
    Thread,
    /// The receiver waits for the disk, one request after the other.
    Sync,
}

impl Delivery {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Thread => "thread",
            Self::Sync => "sync",
        }
    }
}

impl Disk {
    /// Requests at a disk at a time, unless the file says otherwise.
    pub const DEPTH: usize = 64;
    /// The same of an object, whose neighbours are asked for together.
    pub const OBJECT_DEPTH: usize = 512;
    /// Those that can be asked for.
    pub const DEPTHS: std::ops::RangeInclusive<usize> = 1..=1024;

    /// The disk `name` at `origin` with the default of every other key.
    #[must_use]
    pub fn new(name: &str, origin: Origin) -> Self {
        let read_only = matches!(origin, Origin::Object(_));
        let depth = default_depth(&origin);
        Self {
            name: name.into(),
            origin,
            policy: PolicySpec::default(),
            read_only,
            allow: None,
            direct: false,
            attached: Attached::default(),
            coherence: Coherence::default(),
            handover: Handover::default(),
            delivery: Delivery::default(),
            depth,
            delay: Duration::ZERO,
            rate: 0,
            fault: None,
        }
    }
}

const fn default_depth(origin: &Origin) -> usize {
    match origin {
        Origin::Object(_) => Disk::OBJECT_DEPTH,
        Origin::Path(_) | Origin::Managed(_) | Origin::Nbd(_) => Disk::DEPTH,
    }
}

/// A disk as written: `path`, `managed`, `uri` and `url` exclude each other.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskToml {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    managed: Option<PathBuf>,
    #[serde(with = "uri", skip_serializing_if = "Option::is_none", default)]
    uri: Option<Uri>,
    // No URL yet: an error of its parser would be shown with the line, and a password in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<PolicySpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<Allow>,
    #[serde(default)]
    direct: bool,
    #[serde(default)]
    attached: Attached,
    #[serde(default)]
    coherence: Coherence,
    #[serde(default)]
    handover: Handover,
    #[serde(default)]
    delivery: Delivery,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<usize>,
    #[serde(with = "duration", default)]
    delay: Duration,
    #[serde(with = "size", default)]
    rate: u64,
}

/// A disk does not say, in one way, where its bytes are.
#[derive(Debug, thiserror::Error)]
enum OriginError {
    #[error("disk {name:?} has both {one} and {other}; keep the one that is meant")]
    Both { name: String, one: &'static str, other: &'static str },
    #[error(
        "disk {0:?} has neither path nor uri nor url nor managed; add path = \"/dev/…\", uri = \"nbd://host:port/export\", url = \"https://host/path\" or \
         managed = \"/dev/…\""
    )]
    Neither(String),
    #[error("disk {name:?}: {key}: {source}")]
    Url { name: String, key: &'static str, source: UrlError },
    #[error("disk {name:?} has {key}, which is of a disk with url; remove it")]
    NotOfObject { name: String, key: &'static str },
    #[error("disk {0:?} has read_only = false, but a disk with url is never written; remove it")]
    Written(String),
}

impl TryFrom<DiskToml> for Disk {
    type Error = OriginError;

    fn try_from(mut raw: DiskToml) -> Result<Self, OriginError> {
        let given = [
            ("path", raw.path.is_some()),
            ("uri", raw.uri.is_some()),
            ("url", raw.url.is_some()),
            ("managed", raw.managed.is_some()),
        ];
        let mut given = given.into_iter().filter_map(|(key, is_there)| is_there.then_some(key));
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            return Err(OriginError::Both { name: raw.name, one, other });
        }
        let origin = match (raw.path, raw.managed, raw.uri, raw.url) {
            (Some(path), ..) => Origin::Path(path),
            (_, Some(path), ..) => Origin::Managed(path),
            (.., Some(uri), _) => Origin::Nbd(uri),
            (.., Some(text)) => {
                let url = |key, text: &str| {
                    let name = raw.name.clone();
                    text.parse::<Url>().map_err(|source| OriginError::Url { name, key, source })
                };
                Origin::Object(Box::new(Object {
                    url: url("url", &text)?,
                    region: raw.region.take(),
                    endpoint: raw.endpoint.take().map(|text| url("endpoint", &text)).transpose()?,
                    credentials: raw.credentials.take(),
                    ca: raw.ca.take(),
                }))
            }
            (None, None, None, None) => return Err(OriginError::Neither(raw.name)),
        };
        let unused = [
            ("region", raw.region.is_some()),
            ("endpoint", raw.endpoint.is_some()),
            ("credentials", raw.credentials.is_some()),
            ("ca", raw.ca.is_some()),
        ];
        if let Some((key, _)) = unused.into_iter().find(|(_, is_there)| *is_there) {
            return Err(OriginError::NotOfObject { name: raw.name, key });
        }
        let is_object = matches!(origin, Origin::Object(_));
        let depth = default_depth(&origin);
        if is_object && raw.read_only == Some(false) {
            return Err(OriginError::Written(raw.name));
        }
        let read_only = raw.read_only.unwrap_or(is_object);
        Ok(Self {
            name: raw.name,
            origin,
            policy: raw.policy.unwrap_or_else(|| PolicySpec::default_of(raw.coherence, read_only)),
            read_only,
            allow: raw.allow,
            direct: raw.direct,
            attached: raw.attached,
            coherence: raw.coherence,
            handover: raw.handover,
            delivery: raw.delivery,
            depth: raw.depth.unwrap_or(depth),
            delay: raw.delay,
            rate: raw.rate,
            fault: None,
        })
    }
}

impl From<Disk> for DiskToml {
    fn from(disk: Disk) -> Self {
        let is_object = matches!(disk.origin, Origin::Object(_));
        let depth = default_depth(&disk.origin);
        let (mut path, mut managed, mut uri, mut object) = (None, None, None, None);
        match disk.origin {
            Origin::Path(of) => path = Some(of),
            Origin::Managed(of) => managed = Some(of),
            Origin::Nbd(of) => uri = Some(of),
            Origin::Object(of) => object = Some(*of),
        }
        let (url, region, endpoint, credentials, ca) = match object {
            None => (None, None, None, None, None),
            Some(Object { url, region, endpoint, credentials, ca }) => {
                (Some(url), region, endpoint, credentials, ca)
            }
        };
        let text = |url: Url| url.text().to_owned();
        Self {
            name: disk.name,
            path,
            managed,
            uri,
            url: url.map(text),
            region,
            endpoint: endpoint.map(text),
            credentials,
            ca,
            policy: Some(disk.policy),
            read_only: (!is_object).then_some(disk.read_only),
            allow: disk.allow,
            direct: disk.direct,
            attached: disk.attached,
            coherence: disk.coherence,
            handover: disk.handover,
            delivery: disk.delivery,
            depth: (disk.depth != depth).then_some(disk.depth),
            delay: disk.delay,
            rate: disk.rate,
        }
    }
}
