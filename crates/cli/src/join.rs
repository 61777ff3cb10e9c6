//! `cards join`: make this machine a node of a cluster.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use cards_node::config::{Attach, Config, Coordinator, Disk, EmbeddedHome, EtcdHome, Origin, Web, size};
use clap::Args;

use crate::error::Error;
use crate::serve;

/// Join a cluster: write this node's configuration and run its daemon
///
/// The node that is named as the coordinator's keeper makes the cluster when it joins first. The configuration is
/// written once; from then on `cards serve` joins by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards join lab --coordinator n1@10.0.0.1:7710 --node n1 --address 10.0.0.1:7700 --disk data=/dev/sdb
  cards join lab --coordinator n1@10.0.0.1:7710 --node n2 --address 10.0.0.2:7700 --attach data --web
  cards join lab --etcd http://10.0.0.9:2379 --address 10.0.0.3:7700 --cache 8G --write-only")]
pub(crate) struct Join {
    /// Name of the cluster
    cluster: String,

    /// The node that keeps the registry, and where it answers: the same on all nodes
    #[arg(long, value_name = "NODE@HOST:PORT", required_unless_present = "etcd", conflicts_with = "etcd")]
    coordinator: Option<String>,

    /// Keep the registry in etcd, at these endpoints
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd: Vec<String>,

    /// Name of this node [default: the machine's]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Where other nodes reach this one
    #[arg(long, value_name = "HOST:PORT")]
    address: String,

    /// Memory for cached blocks
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    cache: u64,

    /// The unit of caching, the same on all nodes
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size::parse)]
    block: u64,

    /// Parts of the cache, the same on all nodes
    #[arg(long, value_name = "N", default_value_t = 16)]
    shards: u32,

    /// Contribute a disk; any number of times
    #[arg(long, value_name = "NAME=PATH")]
    disk: Vec<String>,

    /// Attach a volume; any number of times
    #[arg(long, value_name = "VOLUME")]
    attach: Vec<String>,

    /// Export attached volumes over NBD at this unix socket [default: nbd.sock in the runtime directory]
    #[arg(long, value_name = "PATH")]
    nbd: Option<PathBuf>,

    /// Offer the dashboard and the metrics there, to whoever can reach it and without a token [default: nowhere]
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:7480")]
    web: Option<String>,

    /// Directory of the node's sockets
    #[arg(long, value_name = "DIR", default_value = "/run/cards")]
    runtime_dir: PathBuf,

    /// Directory of what the node must not forget
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cards")]
    state_dir: PathBuf,

    /// The configuration to write
    #[arg(long, value_name = "FILE", default_value = "/etc/cards/node.toml")]
    config: PathBuf,

    /// Only write the configuration; join with `cards serve`
    #[arg(long)]
    write_only: bool,
}

impl Join {
    pub(crate) fn run(self, verbose: u8) -> Result<(), Error> {
        let config = self.configuration()?;
        config.validate().map_err(|problem| Error::Usage { problem: problem.to_string() })?;
        write_new(&self.config, &config.to_toml())?;
        eprintln!("cards: wrote {}; from now on `cards serve --config {0}` joins", self.config.display());
        if self.write_only {
            return Ok(());
        }
        let ended = serve::run(config, verbose);
        if ended.is_err() {
            // It was never a member: what was wrong can be corrected on the same command line.
            std::fs::remove_file(&self.config)
                .map_err(|source| Error::Write { path: self.config.clone(), source })?;
            eprintln!("cards: removed {} again", self.config.display());
        }
        ended
    }

    fn configuration(&self) -> Result<Config, Error> {
        let node = match &self.node {
            Some(node) => node.clone(),
            None => machine_name()?,
        };
        let mut config = Config::new(&self.cluster, &node, Vec::new());
        config.address = Some(self.address.clone());
        config.coordinator = Some(self.home()?);
        config.cache = self.cache;
        config.block = self.block;
        config.shards = self.shards;
        config.disks = self.disk.iter().map(|text| disk(text)).collect::<Result<_, _>>()?;
        config.attach = self.attach.iter().map(|volume| Attach::new(volume)).collect();
        config.nbd.unix = Some(self.nbd.clone().unwrap_or_else(|| self.runtime_dir.join("nbd.sock")));
        config.web = self.web.as_ref().map(|listen| Web { listen: listen.clone(), hosts: Vec::new() });
        config.runtime_dir.clone_from(&self.runtime_dir);
        config.state_dir.clone_from(&self.state_dir);
        Ok(config)
    }

    fn home(&self) -> Result<Coordinator, Error> {
        let Some(coordinator) = &self.coordinator else {
            return Ok(Coordinator::Etcd(EtcdHome::new(self.etcd.clone())));
        };
        let (keeper, address) = coordinator.split_once('@').ok_or_else(|| Error::Usage {
            problem: format!(
                "--coordinator {coordinator:?}: write the keeper's name and address as n1@10.0.0.1:7710"
            ),
        })?;
        Ok(Coordinator::Embedded(EmbeddedHome::new(keeper, address)))
    }
}

fn disk(text: &str) -> Result<Disk, Error> {
    let (name, path) = text.split_once('=').ok_or_else(|| Error::Usage {
        problem: format!("--disk {text:?}: write its name and path as data=/dev/sdb"),
    })?;
    Ok(Disk::new(name, Origin::Path(path.into())))
}

fn machine_name() -> Result<String, Error> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => Err(Error::Usage { problem: "this machine has no name; give the node one with --node".into() }),
        name => Ok(name.into()),
    }
}

/// Writes a file that is not there yet: a configuration that somebody has changed is not lost by joining again.
fn write_new(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Usage {
            problem: format!(
                "{} is there already; start this node with `cards serve --config {0}`, or name another file with --config",
                path.display()
            ),
        },
        _ => Error::Write { path: path.into(), source },
    };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut file = std::fs::File::options().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
