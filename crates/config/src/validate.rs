//! Checks on a parsed configuration that need nothing opened.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use cards_core::PgId;
use cards_policies::policy::PolicyError;

use super::error::remedy;
use super::uri::{Part, host_any_port, host_port};
use super::{
    Allow, Attach, Coherence, Config, Coordinator, Disk, EtcdHome, Mode, Nbd, Object, Origin, PolicySpec,
    Problem, ReadAhead, Tls, Web, duration, size,
};

/// Most disks of a node.
const DISKS_MAX: usize = PgId::MAX_DISKS as usize;
/// Smallest and largest unit of caching, in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=1 << 20;
/// Blocks a shard must be able to hold for replacement to mean anything.
const SHARD_BLOCKS_MIN: u64 = 8;
/// Most shards of a cache.
const SHARDS_MAX: u32 = 64;
/// Most data threads.
const DATA_THREADS_MAX: usize = 256;
/// Longest path of a unix socket, in bytes, without the final zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest lease: a dead reader holds up writes for one and a half of them.
const LEASE_MAX: Duration = Duration::from_secs(600);
/// Shortest lease of a member.
const REGISTRY_LEASE_MIN: Duration = Duration::from_millis(100);
/// The same with etcd, which counts seconds and has a minimum.
const ETCD_LEASE_MIN: Duration = Duration::from_secs(2);
/// Shortest period of scrubs.
const SCRUB_EVERY_MIN: Duration = Duration::from_secs(1);
/// Longest wait for a disk node.
const DISK_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Most entries of clients.
const CLIENTS_MAX: usize = 4096;
/// Most names of the web listener.
const WEB_HOSTS_MAX: usize = 64;
/// Policies that do not see to it that copies of a written block are dropped: RD's operations are all void (CARD-2), `single` and `local`
/// leave that to the locks, and `chaos` tells anybody anything.
const TELL_NOBODY: [&str; 5] = ["rd", "single", "local", "auto", "chaos"];

pub(super) fn validate(config: &Config) -> Result<(), Problem> {
    name("cluster", &config.cluster)?;
    name("node", &config.node)?;
    if !config.shards.is_power_of_two() || config.shards > SHARDS_MAX {
        return Err(value("shards", config.shards, "use a power of two from 1 to 64, the same on all nodes"));
    }
    if !(1..=DATA_THREADS_MAX).contains(&config.data_threads) {
        return Err(value("data_threads", config.data_threads, "use 1 to 256, at most the number of cores"));
    }
    if let Some(every) = config.scrub_every.filter(|every| *every < SCRUB_EVERY_MIN) {
        return Err(value("scrub_every", duration::exact(every), "use at least 1s, as in 14d, or never"));
    }
    if config.busy_poll > Duration::from_secs(1) {
        let given = duration::exact(config.busy_poll);
        return Err(value("busy_poll", given, "use at most 1s; 50us is a good start"));
    }
    timeouts(config)?;
    if let Some(limit) = &config.limit {
        limit.validate("limit")?;
    }
    socket_path("runtime_dir", &config.admin_socket())?;
    match &config.coordinator {
        None => alone(config)?,
        Some(home) => coordinator(config, home)?,
    }
    if let Some(api) = &config.api {
        endpoint("api.listen", &api.listen)?;
    }
    if let Some(web) = &config.web {
        web_listener(web)?;
    }
    disks(&config.disks)?;
    cache(config)?;
    attachments(&config.attach, &config.disks)?;
    nbd(&config.nbd)?;
    tls(config)?;
    clients(config)
}

fn timeouts(config: &Config) -> Result<(), Problem> {
    let shown = duration::exact;
    if config.peer_timeout < Duration::from_millis(1) {
        return Err(value("peer_timeout", shown(config.peer_timeout), "use at least 1ms"));
    }
    // One renewal may be lost without the card going blind.
    let least = config.peer_timeout.saturating_mul(2);
    if config.lease < least {
        let reason = format!("use at least twice peer_timeout, {}", shown(least));
        return Err(value("lease", shown(config.lease), &reason));
    }
    if config.lease > LEASE_MAX {
        return Err(value("lease", shown(config.lease), "use at most 10m; 3s is a good start"));
    }
    if config.disk_wait > DISK_WAIT_MAX {
        return Err(value("disk_wait", shown(config.disk_wait), "use at most 24h"));
    }
    // A read waits for a write under way, and that for a dead reader's card: one and a half leases.
    let least = config.lease.saturating_mul(2);
    if config.disk_wait < least {
        let reason = format!("use at least twice lease, {}, or a shorter lease", shown(least));
        return Err(value("disk_wait", shown(config.disk_wait), &reason));
    }
    Ok(())
}

fn endpoint(key: &str, address: &str) -> Result<(), Problem> {
    host_port(address).map(drop).map_err(|part| {
        let reason = match part {
            Part::Host => "the host is wrong; write host:port or [address]:port",
            Part::Port => "the port is wrong; write host:port with a port from 1 to 65535",
        };
        value(key, address, reason)
    })
}

fn web_listener(web: &Web) -> Result<(), Problem> {
    host_any_port(&web.listen).map(drop).map_err(|_| {
        value("web.listen", &web.listen, "write host:port, [address]:port, or port 0 for one that is free")
    })?;
    if web.hosts.len() > WEB_HOSTS_MAX {
        return Err(value("web.hosts", web.hosts.len(), "use at most 64 names"));
    }
    web.hosts.iter().try_for_each(|host| name("web.hosts", host))
}

fn coordinator(config: &Config, home: &Coordinator) -> Result<(), Problem> {
    let Some(address) = &config.address else {
        let reason = "say where peers reach this node: address = \"host:port\" beside `node`";
        return Err(value("address", "", reason));
    };
    endpoint("address", address)?;
    let lease = home.lease();
    if lease > config.lease {
        // A session's locks outlive their home only if its death is known before they end.
        let reason = format!("use at most `lease`, {}, or a longer `lease`", duration::exact(config.lease));
        return Err(value("coordinator lease", duration::exact(lease), &reason));
    }
    match home {
        Coordinator::Embedded(home) => {
            name("coordinator.embedded.keeper", &home.keeper)?;
            endpoint("coordinator.embedded.address", &home.address)?;
            if home.address == *address && !config.is_keeper() {
                let remedy = "it is that of the keeper, which is another node: correct it, or `address`";
                return Err(duplicate("coordinator.embedded.address", address, remedy));
            }
            if !(REGISTRY_LEASE_MIN..=LEASE_MAX).contains(&lease) {
                let given = duration::exact(lease);
                return Err(value(
                    "coordinator.embedded.lease",
                    given,
                    "use 100ms to 10m; 3s is a good start",
                ));
            }
        }
        Coordinator::Etcd(home) => etcd(home)?,
    }
    Ok(())
}

fn etcd(home: &EtcdHome) -> Result<(), Problem> {
    if home.endpoints.is_empty() {
        let reason = "name at least one member of etcd: endpoints = [\"http://host:2379\"]";
        return Err(value("coordinator.etcd.endpoints", "", reason));
    }
    if home.user.is_some() != home.password_file.is_some() {
        let given = home.user.clone().unwrap_or_default();
        return Err(value(
            "coordinator.etcd.user",
            given,
            "user and password_file go together: give both or none",
        ));
    }
    if home.cert.is_some() != home.key.is_some() {
        return Err(value("coordinator.etcd.cert", "", "cert and key go together: give both or none"));
    }
    let secure = home.endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
    if secure && home.ca.is_none() {
        let reason = "an https endpoint needs `ca`, the certificates of the authorities that may sign etcd's";
        return Err(value("coordinator.etcd.ca", "", reason));
    }
    if !(ETCD_LEASE_MIN..=LEASE_MAX).contains(&home.lease) || home.lease.subsec_nanos() != 0 {
        let given = duration::exact(home.lease);
        return Err(value("coordinator.etcd.lease", given, "use whole seconds from 2s to 10m"));
    }
    Ok(())
}

fn alone(config: &Config) -> Result<(), Problem> {
    let Some(address) = &config.address else { return Ok(()) };
    let reason = "no node reaches one that is alone; remove it, or add [coordinator.embedded], see `cards cluster init`";
    Err(value("address", address, reason))
}

fn disks(disks: &[Disk]) -> Result<(), Problem> {
    if disks.len() > DISKS_MAX {
        let what = "[[disk]] entries";
        return Err(Problem::TooMany { what, count: disks.len(), max: DISKS_MAX });
    }
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for disk in disks {
        name("disk.name", &disk.name)?;
        if !names.insert(&disk.name) {
            return Err(duplicate("disk.name", &disk.name, "the volume has the disk's name: rename one"));
        }
        let file = match &disk.origin {
            Origin::Path(path) => Some(("disk.path", path)),
            Origin::Managed(path) => Some(("disk.managed", path)),
            Origin::Nbd(_) | Origin::Object(_) => None,
        };
        if let Some((key, path)) = file {
            if path.as_os_str().is_empty() {
                return Err(value(key, "", "name a file or block device"));
            }
            if !paths.insert(path) {
                let remedy = "a disk is contributed once: remove one";
                return Err(duplicate(key, &path.to_string_lossy(), remedy));
            }
        }
        if let Origin::Object(of) = &disk.origin {
            object(disk, of)?;
        }
        if !Disk::DEPTHS.contains(&disk.depth) {
            return Err(value("disk.depth", disk.depth, "use 1 to 1024; 64 keeps a fast disk busy"));
        }
        if disk.delay > Duration::from_secs(60) {
            return Err(value("disk.delay", duration::exact(disk.delay), "use at most 60s"));
        }
        policy("disk.policy", &disk.policy)?;
        for node in disk.allow.iter().flat_map(Allow::nodes) {
            name("disk.allow", node)?;
        }
        let silent = TELL_NOBODY.contains(&disk.policy.name.as_str());
        if disk.coherence == Coherence::Policy && silent && !disk.read_only {
            return Err(Problem::TellsNobody { disk: disk.name.clone(), policy: disk.policy.to_string() });
        }
    }
    Ok(())
}

fn object(disk: &Disk, object: &Object) -> Result<(), Problem> {
    let Object { url, region, endpoint, credentials, ca } = object;
    if disk.direct {
        return Err(value("disk.direct", true, "it is of files and block devices: remove it beside url"));
    }
    if !url.is_s3() {
        let of_s3 = [
            ("disk.region", region.clone()),
            ("disk.endpoint", endpoint.as_ref().map(ToString::to_string)),
            ("disk.credentials", credentials.as_ref().map(|path| path.display().to_string())),
        ];
        if let Some((key, text)) = of_s3.into_iter().find_map(|(key, text)| Some((key, text?))) {
            return Err(value(key, text, "it is of s3://BUCKET/KEY: remove it, or write such a url"));
        }
    }
    let is_name =
        |text: &String| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if let Some(region) = region.as_ref().filter(|region| !is_name(region)) {
        return Err(value("disk.region", region, "use letters, digits and dashes, such as eu-west-1"));
    }
    if let Some(endpoint) = endpoint
        && !object.server().is_some_and(cards_wire::object::Web::is_server)
    {
        let reason = "name a server and nothing on it, such as https://storage.example.com:9000";
        return Err(value("disk.endpoint", endpoint, reason));
    }
    if let Some(ca) = ca.as_ref().filter(|_| !object.has_tls()) {
        return Err(value(
            "disk.ca",
            ca.display(),
            "the server is not asked over https: remove it, or correct url or endpoint",
        ));
    }
    Ok(())
}

fn cache(config: &Config) -> Result<(), Problem> {
    let block = config.block;
    if !block.is_power_of_two() || !BLOCK_BYTES.contains(&block) {
        return Err(value("block", size::exact(block), "use a power of two from 4K to 1M"));
    }
    let least = u64::from(config.shards) * SHARD_BLOCKS_MIN * block;
    if config.cache < least {
        return Err(Problem::CacheTooSmall {
            cache: size::exact(config.cache),
            shards: config.shards,
            blocks_min: SHARD_BLOCKS_MIN,
            block: size::exact(block),
            least: size::exact(least),
        });
    }
    let pin_max = config.pin_max();
    if pin_max > config.cache / 4 * 3 {
        let remedy = "use at most three quarters of `cache`: other blocks need room, too";
        return Err(value("pin_max", size::exact(pin_max), remedy));
    }
    Ok(())
}

fn attachments(cards: &[Attach], disks: &[Disk]) -> Result<(), Problem> {
    let mut volumes = HashSet::new();
    for card in cards {
        name("attach.volume", &card.volume)?;
        if !volumes.insert(&card.volume) {
            return Err(duplicate("attach.volume", &card.volume, "one card serves all clients: remove one"));
        }
        if let ReadAhead::Bytes(bytes) = card.read_ahead
            && bytes > ReadAhead::BYTES_MAX
        {
            return Err(value(
                "attach.read_ahead",
                size::exact(bytes),
                "use at most 64M, \"auto\" or \"off\"",
            ));
        }
        if let Some(limit) = &card.limit {
            limit.validate("attach.limit")?;
        }
        if let Some(spec) = &card.policy {
            policy("attach.policy", spec)?;
        }
        let Some(disk) = disks.iter().find(|disk| disk.name == card.volume) else { continue };
        if let Some(spec) = &card.policy
            && !spec.same_as(&disk.policy)
        {
            return Err(Problem::PolicyMismatch {
                volume: card.volume.clone(),
                card: spec.to_string(),
                disk: disk.policy.to_string(),
            });
        }
        if disk.read_only && card.mode == Mode::Exclusive {
            let reason = format!("disk {:?} is read_only; use mode \"ro\"", disk.name);
            return Err(value("attach.mode", "exclusive", &reason));
        }
    }
    Ok(())
}

fn nbd(nbd: &Nbd) -> Result<(), Problem> {
    if let Some(path) = &nbd.unix {
        socket_path("nbd.unix", path)?;
    }
    if let Some(tcp) = &nbd.tcp
        && tcp.parse::<SocketAddr>().is_err()
    {
        return Err(value("nbd.tcp", tcp, "write address:port, such as 0.0.0.0:10809 or [::]:10809"));
    }
    if nbd.connections == 0 || nbd.connections > 65_536 {
        return Err(value("nbd.connections", nbd.connections, "use 1 to 65536"));
    }
    if nbd.handshake.is_zero() || nbd.handshake > Duration::from_secs(600) {
        return Err(value(
            "nbd.handshake",
            duration::exact(nbd.handshake),
            "use more than 0 and at most 10m",
        ));
    }
    if nbd.in_flight < Nbd::IN_FLIGHT_MIN {
        let reason = "a request of 32M must fit; use 32M or more";
        return Err(value("nbd.in_flight", size::exact(nbd.in_flight), reason));
    }
    Ok(())
}

fn tls(config: &Config) -> Result<(), Problem> {
    let said = config.listeners().into_iter().find(|listener| listener.is_said && listener.tls != Tls::Off);
    if let Some(listener) = said.filter(|_| config.insecure) {
        let key = format!("{}.tls", listener.key.split('.').next().unwrap_or_default());
        let given = if listener.tls == Tls::Required { "required" } else { "offered" };
        return Err(value(&key, given, "`insecure = true` does without certificates: remove one of the two"));
    }
    Ok(())
}

fn clients(config: &Config) -> Result<(), Problem> {
    let clients = &config.clients;
    if clients.len() > CLIENTS_MAX {
        return Err(Problem::TooMany { what: "[[client]] entries", count: clients.len(), max: CLIENTS_MAX });
    }
    for client in clients {
        let (key, given) = match (&client.name, &client.dns) {
            (Some(given), None) => ("client.name", given),
            (None, Some(given)) => ("client.dns", given),
            (given, _) => {
                let reason =
                    "say who it is: `name` for a client of the cluster, or `dns` for one of nbd.authority";
                return Err(value("client.name", given.clone().unwrap_or_default(), reason));
            }
        };
        match client.dns {
            None => name(key, given)?,
            Some(_) if config.nbd.authority.is_none() => {
                let reason = "name the authority that signs its certificate: authority = \"FILE\" in [nbd]";
                return Err(value(key, given, reason));
            }
            Some(_) if cards_tls::check_host(given).is_err() => {
                return Err(value(key, given, "use a DNS name that its certificate has"));
            }
            Some(_) => {}
        }
        client.volumes.iter().flatten().try_for_each(|volume| name("client.volumes", volume))?;
    }
    Ok(())
}

fn policy(key: &str, spec: &PolicySpec) -> Result<(), Problem> {
    let Err(error) = cards_policies::policy::build(&spec.to_string()) else { return Ok(()) };
    let reason = match &error {
        PolicyError::UnknownPolicy { name } => {
            let known: Vec<&str> =
                cards_policies::policy::registry().iter().map(|entry| entry.name).collect();
            format!("no such policy; {}", remedy(name, &known))
        }
        PolicyError::UnknownParameter { .. }
        | PolicyError::BadValue { .. }
        | PolicyError::SimulatorOnly { .. } => error.to_string(),
    };
    Err(Problem::Policy { key: key.into(), value: spec.to_string(), reason })
}

fn name(key: &str, text: &str) -> Result<(), Problem> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(allowed) {
        return Err(Problem::Name { key: key.into(), value: text.chars().take(NAME_BYTES_MAX).collect() });
    }
    Ok(())
}

fn socket_path(key: &str, path: &Path) -> Result<(), Problem> {
    let bytes = path.as_os_str().len();
    if bytes == 0 || bytes > SOCKET_PATH_BYTES_MAX {
        let reason = format!(
            "the path of a unix socket has 1 to {SOCKET_PATH_BYTES_MAX} bytes, not {bytes}; use a shorter one"
        );
        return Err(value(key, path.display(), &reason));
    }
    Ok(())
}

fn value(key: &str, value: impl ToString, reason: &str) -> Problem {
    Problem::Value { key: key.into(), value: value.to_string(), reason: reason.into() }
}

fn duplicate(key: &str, value: &str, remedy: &'static str) -> Problem {
    Problem::Duplicate { key: key.into(), value: value.into(), remedy }
}
