//! The disks of a node and their journals, opened.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cards_config::{Attached, Config, Delivery, Disk as DiskConfig, Object, Origin};
use cards_core::{NodeId, PgId, VolumeSpec};
use cards_disk::{Disk, DiskError, DiskOptions, Examined, Managed, ManagedOptions, ObjectSource};
use cards_policies::policy::normalize;

use crate::error::ServeError;
use crate::journal::{self, Journal, OpenError};
use crate::life::boot_id;
use crate::starting::Starting;

use super::numbers::Identity;

/// How long until a server that is away is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A disk that is healthy is open after this time; one that is not is said to be waited for.
const SILENT: Duration = Duration::from_secs(5);
/// How long a disk that is only looked at may be locked by another process.
const LOOK_AT_LOCK: Duration = Duration::from_secs(1);
/// That a start waits for it is said again so often.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// A disk of this node, and what is announced of it; it is numbered when the node has its own number.
pub(super) struct OpenedDisk {
    pub(super) disk: Arc<Disk>,
    pub(super) spec: VolumeSpec,
}

impl OpenedDisk {
    /// What the volume is known by over restarts.
    pub(super) fn identity(&self) -> Identity {
        let Self { disk, spec } = self;
        let volumes = disk.managed().map(|managed| managed.volumes()).unwrap_or_default();
        let on_disk = volumes.iter().find(|volume| volume.name.as_str() == spec.name);
        Identity { name: spec.name.clone(), uuid: on_disk.map(|volume| volume.uuid.to_string()) }
    }
}

/// Opens a disk, or looks at it, which may never end if its device hangs: that the start waits for it is in the status meanwhile, and after a
/// while in the log.
fn in_sight<T>(disk: &DiskConfig, starting: &Starting, open: impl FnOnce() -> T) -> T {
    let name = &disk.name;
    let what = &format!("disk {name}");
    starting.waits_for(what, None);
    // A server that does not answer is an error by itself.
    let (Origin::Path(path) | Origin::Managed(path)) = &disk.origin else { return open() };
    let (opens, opened) = mpsc::channel::<()>();
    let began = Instant::now();
    let watch = move || {
        let mut next = SILENT;
        while opened.recv_timeout(next) == Err(RecvTimeoutError::Timeout) {
            let reason = format!(
                "{} has not answered for {} s; see the kernel's log (dmesg) and what it is attached to, or take the disk out of node.toml and \
                 start anew",
                path.display(),
                began.elapsed().as_secs()
            );
            tracing::error!(disk = name, "disk {name}: {reason}; until it answers nothing is served here");
            starting.waits_for(what, Some(reason));
            next = SAY_EVERY;
        }
    };
    thread::scope(|scope| {
        // Without the thread, the status names the disk all the same.
        let _ = thread::Builder::new().name("cards-open".into()).spawn_scoped(scope, watch);
        let result = open();
        drop(opens);
        result
    })
}

/// Waits while another server that has the disk is away: a machine that starts before it is to come up by itself.
fn open_disk(disk: &DiskConfig, options: &DiskOptions, starting: &Starting) -> Result<Arc<Disk>, DiskError> {
    let name = &disk.name;
    let mut said: Option<Instant> = None;
    loop {
        match in_sight(disk, starting, || Disk::open(options)) {
            Err(error) if error.is_transient() => {
                if said.is_none_or(|at| at.elapsed() > SAY_EVERY) {
                    tracing::error!(
                        disk = name,
                        "{error}; it is tried again, and until then nothing is served here"
                    );
                    said = Some(Instant::now());
                }
                starting.waits_for(format!("disk {name}"), Some(error.to_string()));
                thread::sleep(RETRY);
            }
            opened => return opened,
        }
    }
}

/// What a node contributes, opened.
pub(super) struct Opened {
    /// What the configuration names, in its order, and behind it the volumes of managed disks.
    pub(super) disks: Vec<OpenedDisk>,
    /// The managed disks, in the order of the configuration.
    pub(super) managed: Vec<Arc<Managed>>,
}

/// The managed disks, and for each disk of the configuration the managed one that its volume is on.
type OpenedManaged = (Vec<Arc<Managed>>, Vec<Option<Arc<Managed>>>);

/// Opens the managed disks, and puts their volumes behind the other disks in the configuration, each with the keys of its disk.
fn open_managed(config: &mut Config, starting: &Starting) -> Result<OpenedManaged, ServeError> {
    let (managed, plain): (Vec<_>, Vec<_>) =
        std::mem::take(&mut config.disks).into_iter().partition(is_managed);
    let (mut all, mut opened) = (Vec::new(), vec![None; plain.len()]);
    config.disks = plain;
    for disk in managed {
        let options = managed_options(&disk, config);
        let opening = in_sight(&disk, starting, || Managed::open(&options));
        starting.goes_on();
        let managed = opening.map_err(|source| managed_not_opened(&disk.name, source))?;
        if managed.volumes().is_empty() && managed.columns().is_empty() {
            tracing::info!(
                disk = disk.name,
                "a managed disk without volumes: `cards volume create --layout raid1` makes some with copies at several nodes; for one on this \
                 disk only, stop this daemon and run it with `--disk {}`",
                managed.path()
            );
        }
        for volume in managed.volumes() {
            let volume = volume.name.to_string();
            if config.disks.iter().any(|other| other.name == volume) {
                return Err(ServeError::VolumeTwice { disk: disk.name, volume });
            }
            config.disks.push(DiskConfig { name: volume, ..disk.clone() });
            opened.push(Some(Arc::clone(&managed)));
        }
        all.push(managed);
        let count = opened.len();
        if count > usize::from(PgId::MAX_DISKS) {
            return Err(ServeError::TooManyVolumes { disk: disk.name, count });
        }
    }
    Ok((all, opened))
}

/// The disks that the configuration names, in its order, and behind them the volumes of managed disks.
pub(super) fn open_disks(config: &mut Config, block: u32, starting: &Starting) -> Result<Opened, ServeError> {
    let (all, managed) = open_managed(config, starting)?;
    let config = &*config;
    let mut disks = Vec::new();
    for (disk, managed) in config.disks.iter().zip(managed) {
        let name = disk.name.clone();
        let policy = normalize(&disk.policy.to_string()).map_err(|source| ServeError::Policy {
            what: "disk",
            name: name.clone(),
            source,
        })?;
        let options = disk_options(disk, config);
        let opened = match managed {
            Some(managed) => Disk::of_volume(&managed, &name, &options),
            None => {
                in_sight(disk, starting, || is_plain(config, disk))?;
                let opened = open_disk(disk, &options, starting);
                starting.goes_on();
                opened
            }
        };
        let opened = opened.map_err(|source| not_opened(config, &name, source))?;
        has_numbers(&name, opened.size(), block)?;
        let spec = VolumeSpec {
            id: PgId(0),
            primary: NodeId(0),
            epoch: 0,
            name,
            size_bytes: opened.size(),
            block_bytes: block,
            policy,
            read_only: opened.read_only(),
            content: 0,
            network_attached: disk.attached == Attached::Network,
            coherence: disk.coherence.into(),
            handover: disk.handover.into(),
        };
        disks.push(OpenedDisk { disk: opened, spec });
    }
    Ok(Opened { disks, managed: all })
}

/// The journals of the disks that can be written, in the order of the disks. This process has locked the disks.
pub(super) fn open_journals(
    config: &Config,
    opened: &[OpenedDisk],
    is_first: bool,
    starting: &Starting,
) -> Result<Vec<Option<Mutex<Journal>>>, ServeError> {
    let open = |OpenedDisk { disk, spec }: &OpenedDisk| {
        let of = journal_of(config, &spec.name, disk);
        let journal = Journal::open(&config.state_dir, of, is_first, starting)
            .map_err(|error| not_served(config, of, error))?;
        Ok(Some(Mutex::new(journal)))
    };
    opened.iter().map(|disk| if disk.spec.read_only { Ok(None) } else { open(disk) }).collect()
}

/// Why a disk cannot be opened: of one that was served before, also what to do to have it back.
fn not_opened(config: &Config, name: &str, source: DiskError) -> ServeError {
    let journal = journal::journal_path(&config.state_dir, &config.cluster, &config.node, name);
    match source {
        DiskError::Missing { path } | DiskError::Empty { path } if journal.exists() => {
            ServeError::DiskGone { name: name.into(), path, journal }
        }
        source => ServeError::Disk { name: name.into(), source },
    }
}

/// Why a managed disk cannot be opened: a file that is made in its place is none.
fn managed_not_opened(name: &str, source: DiskError) -> ServeError {
    match source {
        DiskError::Missing { path } => ServeError::ManagedGone { name: name.into(), path },
        source => ServeError::Disk { name: name.into(), source },
    }
}

/// Refuses a managed disk in the place of a plain one. A volume that was served as a plain disk before is one, whatever its clients have
/// made of it.
fn is_plain(config: &Config, disk: &DiskConfig) -> Result<(), ServeError> {
    let Origin::Path(path) = &disk.origin else { return Ok(()) };
    let journal = journal::journal_path(&config.state_dir, &config.cluster, &config.node, &disk.name);
    match !disk.read_only && !journal.exists() && cards_disk::is_managed(path) {
        true => Err(ServeError::IsManaged { name: disk.name.clone(), path: path.clone() }),
        false => Ok(()),
    }
}

/// Blocks are numbered in 32 bits.
fn has_numbers(name: &str, size: u64, block: u32) -> Result<(), ServeError> {
    match size.div_ceil(u64::from(block)) > u64::from(u32::MAX) {
        true => Err(ServeError::TooLarge { name: name.into(), size, block }),
        false => Ok(()),
    }
}

fn journal_of<'a>(config: &'a Config, name: &'a str, disk: &'a Disk) -> journal::Of<'a> {
    journal::Of { cluster: &config.cluster, node: &config.node, name, disk: disk.name(), bytes: disk.size() }
}

/// Why a disk that was opened is not served.
fn not_served(config: &Config, of: journal::Of<'_>, error: OpenError) -> ServeError {
    let name = of.name.to_owned();
    match error {
        OpenError::Io(source) => ServeError::StateDir { path: config.state_dir.clone(), source },
        OpenError::Shrank { before, journal } => {
            ServeError::DiskShrank { name, now: of.bytes, before, journal }
        }
        OpenError::Replaced { how, journal } => {
            ServeError::DiskReplaced { name, path: of.disk.into(), how, journal }
        }
    }
}

/// Opens a plain disk of the configuration, asks everything of it that a daemon asks before it is served, and closes it. Nothing is
/// changed, and a server that is away is not waited for longer than `within`.
///
/// # Errors
/// A daemon would refuse the disk.
pub fn examine_disk(config: &Config, disk: &DiskConfig, within: Duration) -> Result<Arc<Disk>, ServeError> {
    let options =
        DiskOptions { reconnect_wait: within, lock_wait: LOOK_AT_LOCK, ..disk_options(disk, config) };
    is_plain(config, disk)?;
    let opened = Disk::open(&options).map_err(|source| not_opened(config, &disk.name, source))?;
    has_numbers(&disk.name, opened.size(), config.block as u32)?;
    if !opened.read_only() {
        let of = journal_of(config, &disk.name, &opened);
        Journal::check(&config.state_dir, of).map_err(|error| not_served(config, of, error))?;
    }
    Ok(opened)
}

/// The same of all managed disks of the configuration, in its order; also whether their volumes have names of their own. They are looked at
/// side by side, as each may be waited for that is in use. A device that hangs is not waited for longer than `within`; the thread that asked
/// it may never end.
pub fn examine_managed(
    config: &Config,
    within: Duration,
) -> Vec<(&DiskConfig, Result<Examined, ServeError>)> {
    let (managed, plain): (Vec<_>, Vec<_>) = config.disks.iter().partition(|disk| is_managed(disk));
    let until = Instant::now() + within;
    let looks: Vec<_> = managed
        .iter()
        .map(|disk| {
            let (mut options, (to, look)) = (managed_options(disk, config), mpsc::channel());
            options.disk.lock_wait = LOOK_AT_LOCK;
            thread::spawn(move || to.send(Managed::examine(&options)));
            look
        })
        .collect();
    let examined = managed.iter().zip(looks).map(|(disk, look)| {
        match look.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(found) => found.map_err(|source| managed_not_opened(&disk.name, source)),
            Err(_) => Err(ServeError::silent(disk, within)),
        }
    });
    let examined: Vec<_> = examined.collect();
    let mut names: Vec<String> = plain.iter().map(|disk| disk.name.clone()).collect();
    let mut named = |disk: &DiskConfig, examined: Examined| {
        for volume in &examined.volumes {
            let volume = volume.name.to_string();
            if names.contains(&volume) {
                return Err(ServeError::VolumeTwice { disk: disk.name.clone(), volume });
            }
            names.push(volume);
        }
        match names.len() {
            count if count > usize::from(PgId::MAX_DISKS) => {
                Err(ServeError::TooManyVolumes { disk: disk.name.clone(), count })
            }
            _ => Ok(examined),
        }
    };
    let looked = managed.into_iter().zip(examined);
    looked.map(|(disk, found)| (disk, found.and_then(|examined| named(disk, examined)))).collect()
}

fn is_managed(disk: &DiskConfig) -> bool {
    matches!(disk.origin, Origin::Managed(_))
}

fn managed_options(disk: &DiskConfig, config: &Config) -> ManagedOptions {
    ManagedOptions {
        disk: disk_options(disk, config),
        name: Some(disk.name.clone()),
        cluster: Some(config.cluster.clone()),
        node: Some(config.node.clone()),
        boot: boot_id().ok(),
    }
}

/// What [`cards_disk`] wants to know of an object.
#[must_use]
pub fn object_source(object: &Object) -> ObjectSource {
    ObjectSource {
        url: object.url.clone(),
        region: object.region.clone(),
        endpoint: object.server().cloned(),
        credentials: object.credentials.clone(),
        ca: object.ca.clone(),
    }
}

fn disk_options(disk: &DiskConfig, config: &Config) -> DiskOptions {
    let options = match &disk.origin {
        Origin::Path(path) | Origin::Managed(path) => DiskOptions::path(Path::new(path)),
        Origin::Nbd(uri) => DiskOptions::uri(uri.to_string()),
        Origin::Object(object) => DiskOptions::object(object_source(object)),
    };
    DiskOptions {
        read_only: disk.read_only,
        direct: disk.direct,
        delivery: match disk.delivery {
            Delivery::Event => cards_disk::Delivery::Event,
            Delivery::Thread => cards_disk::Delivery::Thread,
            Delivery::Sync => cards_disk::Delivery::Sync,
        },
        delay: disk.delay,
        rate: disk.rate,
        depth: disk.depth,
        fault: disk.fault.clone(),
        count_block: config.block as u32,
        reconnect_wait: config.disk_wait,
        ..options
    }
}
