//! `cards join`: make this machine a node of a cluster.

mod file;
mod identity;
mod registry;

use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};

use cards_config::{Config, Coordinator, EmbeddedHome, Origin, host_of, size};
use cards_coordinator::Token;
use cards_wire::object::Url;
use clap::Args;
use serde::Serialize;

use crate::captive::is_object;
use crate::context::Context;
use crate::error::Error;
use crate::verbs::serve;
use crate::{output, this_machine};
use file::NodeFile;

/// Join a cluster: write this node's configuration and run its daemon
///
/// The node that is named as the coordinator's keeper makes the cluster when it joins first. The configuration is written
/// once; from then on `cards serve` joins by itself. A file that is there, such as the one that the package has installed,
/// is edited: keys that no option names stay as they are, and so do comments.
///
/// With a token of the keeper's machine this one gets an identity: a key that stays here, and a certificate that the keeper
/// has signed. It is needed once, where other machines can reach the node and it has no identity yet.
#[derive(Debug, Args)]
#[command(after_help = "\
An address that other nodes cannot call, a block size or a volume that the cluster does not have and a disk that is
not there are refused before anything is changed.

Examples:
  cards join lab --coordinator n1@10.0.0.1:7400 --node n1 --disk data=/dev/sdb
  cards join lab --coordinator n1@10.0.0.1:7400 --node n2 --address 10.0.0.2:7400 --attach data --token TOKEN
  cards join lab --coordinator n1@10.0.0.1:7400 --node n3 --address 10.0.0.3:7400 --disk model=https://host/model.bin
  cards join lab --etcd http://10.0.0.9:2379 --address 10.0.0.3:7400 --cache 8G --write-only")]
pub(crate) struct Join {
    /// Name of the cluster
    cluster: String,

    /// The node that keeps the registry, and its address: the same on all nodes
    #[arg(long, value_name = "NODE@HOST:PORT", required_unless_present = "etcd", conflicts_with = "etcd")]
    coordinator: Option<String>,

    /// Get an identity with this token, which `cards cluster token` has printed on the keeper's machine
    #[arg(long, value_name = "TOKEN", env = "CARDS_TOKEN", hide_env_values = true, conflicts_with = "etcd")]
    token: Option<String>,

    /// Keep the registry in etcd, at these endpoints
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd: Vec<String>,

    /// Name of this node [default: that of the file, if the file is of a member; else the machine's]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Where other nodes reach this one [default: that of the file; at the keeper, what --coordinator says]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,

    /// Memory for cached blocks [default: that of the file, else 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    cache: Option<u64>,

    /// The unit of caching, the same on all nodes [default: that of the file, else 64K]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block: Option<u64>,

    /// Parts of the cache, the same on all nodes [default: that of the file, else 16]
    #[arg(long, value_name = "N")]
    shards: Option<u32>,

    /// Contribute a disk, or an object of a web server or an object store (read-only); any number of times. A disk that `cards disk format`
    /// has made is a managed one, and NAME is the name it was formatted with
    #[arg(long, value_name = "NAME=PATH|URL")]
    disk: Vec<String>,

    /// Attach a volume; any number of times
    #[arg(long, value_name = "VOLUME")]
    attach: Vec<String>,

    /// Export attached volumes over NBD at this unix socket [default: that of the file, else nbd.sock in the runtime directory]
    #[arg(long, value_name = "PATH")]
    nbd: Option<PathBuf>,

    /// Offer the dashboard and the metrics to every client that reaches this address, without a token. Without a value:
    /// at the address of the file, else at 127.0.0.1:7480
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true)]
    web: Option<Option<String>>,

    /// Directory of the node's sockets [default: that of the file, else /run/cards]
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,

    /// Directory of what must survive a restart of the machine [default: that of the file, else /var/lib/cards]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// The configuration to write
    #[arg(long, value_name = "FILE", default_value = "/etc/cards/node.toml")]
    config: PathBuf,

    /// Only write the configuration; join with `cards serve`
    #[arg(long)]
    write_only: bool,

    /// One JSON object: what was written. The daemon's log is on standard error, as ever
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Joined<'a> {
    cluster: &'a str,
    node: &'a str,
    config: &'a Path,
    /// The keys that differ from the file as it was.
    changed: &'a [String],
    /// A certificate was made now.
    certified: bool,
}

impl Join {
    pub(crate) fn run(self, cx: &Context) -> Result<(), Error> {
        let mut file = NodeFile::open(&self.config)?;
        self.edit(&mut file)?;
        let config = file.config()?;
        self.check_here(&config)?;
        let token = self.token.as_deref().map(|text| token(text, &config)).transpose()?;
        let is_new = token.map(|(token, home)| identity::get(&config, &token, &home)).transpose()?;
        let is_new = is_new.unwrap_or(false);
        // Nothing but the identity is there yet: what was wrong can be corrected on the same command line.
        let give_back = |error| {
            if is_new { identity::remove(&config).and(Err(error)) } else { Err(error) }
        };
        if let Err(error) = registry::check(&config) {
            return give_back(error);
        }
        let written = match file.write() {
            Ok(written) => written,
            Err(error) => return give_back(error),
        };
        eprintln!("cards: {written}; from now on `cards serve --config {}` joins", file.path().display());
        if self.json {
            output::print_json(&Joined {
                cluster: &config.cluster,
                node: &config.node,
                config: file.path(),
                changed: file.changed(),
                certified: is_new,
            })?;
        }
        if self.write_only {
            warn_of_no_identity(&config);
            return Ok(());
        }
        match serve::run(config.clone(), cx.verbose) {
            Ok(()) => Ok(()),
            Err(error) => file.restore().and_then(|()| give_back(error)),
        }
    }

    /// Puts what the command line says into the file.
    fn edit(&self, file: &mut NodeFile) -> Result<(), Error> {
        let is_member = file.has("coordinator");
        let node = match (&self.node, file.text(&["node"]).filter(|_| is_member)) {
            (Some(node), _) => node.clone(),
            (None, Some(node)) => node.into(),
            (None, None) => this_machine::name()?,
        };
        let home = self.home()?;
        let mut wanted = vec![(vec!["cluster"], self.cluster.as_str()), (vec!["node"], &node)];
        if let Coordinator::Embedded(EmbeddedHome { keeper, address, .. }) = &home {
            let key = |last| vec!["coordinator", "embedded", last];
            wanted.extend([(key("keeper"), keeper.as_str()), (key("address"), address)]);
        }
        if is_member {
            refuse_other(file, &wanted)?;
        }
        for (key, value) in wanted {
            file.set(&key, value)?;
        }
        if let Coordinator::Etcd(home) = &home {
            let endpoints: toml_edit::Array = home.endpoints.iter().map(String::as_str).collect();
            file.set(&["coordinator", "etcd", "endpoints"], endpoints)?;
        }
        let at_keeper = match &home {
            Coordinator::Embedded(home) if home.keeper == node && !file.has("address") => Some(&home.address),
            _ => None,
        };
        match self.address.as_ref().or(at_keeper) {
            Some(address) => file.set(&["address"], address.as_str())?,
            None if file.has("address") => {}
            None => {
                let problem = "--address: say where other nodes reach this one, such as 10.0.0.2:7400".into();
                return Err(Error::Usage { problem });
            }
        }
        let sizes = [("cache", self.cache), ("block", self.block)];
        for (key, bytes) in sizes.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))) {
            file.set(&[key], size::exact(bytes))?;
        }
        if let Some(shards) = self.shards {
            file.set(&["shards"], i64::from(shards))?;
        }
        self.edit_sockets(file)?;
        for text in &self.disk {
            let (name, path) = text.split_once('=').ok_or_else(|| Error::Usage {
                problem: format!("--disk {text:?}: write its name and path as data=/dev/sdb"),
            })?;
            let mut key = "path";
            if is_object(path) {
                // No word of the URL itself: there may be a password in it.
                let refused = |error| Error::Usage { problem: format!("--disk {name}: {error}") };
                path.parse::<Url>().map_err(refused)?;
                key = "url";
            } else if cards_disk::is_managed(Path::new(path)) {
                key = "managed";
            }
            file.set_in_list("disk", "name", name, &[(key, path)])?;
        }
        self.attach.iter().try_for_each(|volume| file.set_in_list("attach", "volume", volume, &[]))
    }

    /// The directories of the node, and the sockets in them.
    fn edit_sockets(&self, file: &mut NodeFile) -> Result<(), Error> {
        let runtime_dir = |file: &NodeFile| file.text(&["runtime_dir"]).unwrap_or("/run/cards").to_owned();
        let in_old_dir = Path::new(&runtime_dir(file)).join("nbd.sock");
        let dirs = [("runtime_dir", &self.runtime_dir), ("state_dir", &self.state_dir)];
        for (key, dir) in dirs.into_iter().filter_map(|(key, dir)| Some((key, dir.as_ref()?))) {
            file.set(&[key], dir.to_string_lossy().as_ref())?;
        }
        // A socket in the runtime directory goes with that.
        let old = file.text(&["nbd", "unix"]).map(PathBuf::from).filter(|unix| *unix != in_old_dir);
        let usual = || Path::new(&runtime_dir(file)).join("nbd.sock");
        let unix = self.nbd.clone().or(old).unwrap_or_else(usual);
        file.set(&["nbd", "unix"], unix.to_string_lossy().as_ref())?;
        match &self.web {
            Some(Some(listen)) => file.set(&["web", "listen"], listen.as_str()),
            Some(None) if !file.has("web") => file.set(&["web", "listen"], "127.0.0.1:7480"),
            _ => Ok(()),
        }
    }

    /// What this machine must have for a daemon to start with that, before a token has one use less by it.
    fn check_here(&self, config: &Config) -> Result<(), Error> {
        for disk in &config.disks {
            let (Origin::Path(path) | Origin::Managed(path)) = &disk.origin else { continue };
            if path.exists() {
                continue;
            }
            let problem = format!(
                "--disk {}={1}: there is no such file or device; create it first (truncate -s 1G {1}), or correct the path",
                disk.name,
                path.display()
            );
            if !self.write_only {
                return Err(Error::Usage { problem });
            }
            eprintln!("cards: {problem}");
        }
        if let Some(Coordinator::Embedded(home)) = &config.coordinator {
            refuse_unspecified("--coordinator", &home.address)?;
        }
        let Some(address) = &config.address else { return Ok(()) };
        refuse_unspecified("--address", address)?;
        match TcpListener::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                let problem =
                    format!("--address {address}: the address is not one of this machine: correct it");
                Err(Error::Usage { problem })
            }
            // Whatever else keeps the daemon from it may have gone when it starts.
            _ => Ok(()),
        }
    }

    fn home(&self) -> Result<Coordinator, Error> {
        let Some(coordinator) = &self.coordinator else {
            return Ok(Coordinator::Etcd(cards_config::EtcdHome::new(self.etcd.clone())));
        };
        let (keeper, address) = coordinator.split_once('@').ok_or_else(|| Error::Usage {
            problem: format!(
                "--coordinator {coordinator:?}: write the keeper's name and address as n1@10.0.0.1:7400"
            ),
        })?;
        Ok(Coordinator::Embedded(EmbeddedHome::new(keeper, address)))
    }
}

/// Refuses an address that stands for all addresses of a machine: nodes cannot call that.
fn refuse_unspecified(option: &str, address: &str) -> Result<(), Error> {
    let ip = host_of(address).and_then(|host| host.parse::<IpAddr>().ok());
    match ip.is_some_and(|ip| ip.is_unspecified()) {
        false => Ok(()),
        true => Err(Error::Usage {
            problem: format!(
                "{option} {address}: other nodes cannot call that; name the address of the machine that they reach"
            ),
        }),
    }
}

/// Refuses to make a member of one cluster a member of another, or another node.
fn refuse_other(file: &NodeFile, wanted: &[(Vec<&str>, &str)]) -> Result<(), Error> {
    let differs = wanted.iter().filter(|(key, wanted)| file.text(key).is_none_or(|there| there != *wanted));
    let differences: Vec<String> = differs
        .map(|(key, wanted)| match file.text(key) {
            Some(there) => format!("{} = {there:?}, not {wanted:?}", key.join(".")),
            None => format!("nothing of {} = {wanted:?}", key.join(".")),
        })
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    let said = |key| file.text(&[key]).unwrap_or_default();
    Err(Error::Usage {
        problem: format!(
            "{0} is there already and makes this machine node {1:?} of cluster {2:?}. It says {3}. If that is right, start that \
             node with `cards serve --config {0}`; else remove the file or its [coordinator], or name another one with \
             --config, and join again",
            file.path().display(),
            said("node"),
            said("cluster"),
            differences.join("; ")
        ),
    })
}

/// The token, and where its maker answers.
fn token(text: &str, config: &Config) -> Result<(Token, EmbeddedHome), Error> {
    let token = text.parse().map_err(|problem| Error::Usage { problem: format!("--token: {problem}") })?;
    let Some(Coordinator::Embedded(home)) = &config.coordinator else {
        return Err(Error::Usage { problem: "--token: name the keeper with --coordinator".into() });
    };
    if config.is_keeper() {
        let problem = format!(
            "--token: {} is the keeper, which has its identity from `cards cluster init`; correct --node or --coordinator",
            config.node
        );
        return Err(Error::Usage { problem });
    }
    Ok((token, home.clone()))
}

/// Says what is still needed for the daemon to start.
fn warn_of_no_identity(config: &Config) {
    if !config.lacks_identity() {
        return;
    }
    let remedy = match &config.coordinator {
        Some(Coordinator::Embedded(_)) if config.is_keeper() => format!(
            "make the cluster's with `cards cluster init {} --node {}{}`",
            config.cluster,
            config.node,
            this_machine::with_state_dir(&config.state_dir)
        ),
        Some(Coordinator::Embedded(_)) => {
            "run the same command again with --token TOKEN (from `cards cluster token` on the keeper's machine)".into()
        }
        _ => "bring one (docs/operating/members.md)".into(),
    };
    eprintln!("cards: this machine has no identity yet, without which the daemon does not start; {remedy}");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser as _;

    use crate::cli::Cli;

    /// Joins with these arguments, and everything in `dir`.
    fn join(dir: &Path, line: &str) -> Result<(), String> {
        let under = |what: &str| dir.join(what).display().to_string();
        let (config, state, runtime) = (under("node.toml"), under("state"), under("run"));
        let places = ["--config", &config, "--state-dir", &state, "--runtime-dir", &runtime];
        let line = "cards join lab --node n2 ".to_owned() + line;
        let line = line.split(' ').chain(places);
        Cli::try_parse_from(line).unwrap().run().map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn an_object_is_contributed_by_its_url() {
        let dir = tempfile::tempdir().unwrap();
        let away = "--coordinator n1@127.0.0.1:1 --write-only --address 127.0.0.1:7400";
        let refused = join(dir.path(), &format!("{away} --disk model=https://me:hush@host/x")).unwrap_err();
        assert!(
            refused.contains("--disk model: the URL has a user") && !refused.contains("hush"),
            "{refused}"
        );
        join(dir.path(), &format!("{away} --disk model=https://host/x?sig=1 --disk s3=s3://bucket/key"))
            .unwrap();
        let written = std::fs::read_to_string(dir.path().join("node.toml")).unwrap();
        for line in ["url = \"https://host/x?sig=1\"", "url = \"s3://bucket/key\""] {
            assert!(written.contains(line), "{written}");
        }
        assert!(!written.contains("read_only"), "it goes without saying: {written}");
    }

    #[test]
    fn what_cannot_work_here_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let cards = |line: &str| join(dir.path(), line);
        let away = "--coordinator n1@127.0.0.1:1 --write-only";
        for (line, words) in [
            // TEST-NET-1 is nobody's.
            (format!("{away} --address 192.0.2.33:7400"), "not one of this machine"),
            (
                format!("{away} --address 0.0.0.0:7400"),
                "--address 0.0.0.0:7400: other nodes cannot call that",
            ),
            (format!("{away} --address [::]:7400"), "cannot call that"),
            (format!("{away} --address 0.0.0.0"), "0.0.0.0"),
            ("--coordinator n2@0.0.0.0:7400 --write-only".into(), "--coordinator 0.0.0.0:7400: other nodes"),
            (format!("{away} --address 127.0.0.1:7400 --block 100K"), "a power of two from 4K to 1M"),
            (
                "--coordinator n1@127.0.0.1:1 --address 127.0.0.1:7400 --disk data=/none/at/all".into(),
                "truncate",
            ),
        ] {
            let refused = cards(&line).unwrap_err();
            assert!(refused.contains(words), "{refused}");
            assert!(!dir.path().join("node.toml").exists());
        }
        cards(&format!("{away} --address 127.0.0.1:7400")).unwrap();
        let refused =
            cards("--coordinator n1@127.0.0.1:2 --write-only --address 127.0.0.1:7400").unwrap_err();
        assert!(
            refused.contains("It says coordinator.embedded.address = \"127.0.0.1:1\", not \"127.0.0.1:2\". "),
            "{refused}"
        );
    }
}
