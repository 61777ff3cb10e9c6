//! `cards join`: make this machine a node of a cluster.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cards_coordinator::{KEY_FILE, Token};
use cards_node::config::{
    Attach, Config, Coordinator, Disk, EmbeddedHome, EtcdHome, Origin, Web, host_of, size,
};
use cards_tls::{Files, Identity, Name, NodeKey};
use clap::Args;

use crate::error::Error;
use crate::serve;

/// The configuration that the package installs: a machine by itself. Until somebody changes it, it says nothing that
/// would be lost.
const PACKAGED: &str = include_str!("../../../packaging/debian/node.toml");

/// Join a cluster: write this node's configuration and run its daemon
///
/// The node that is named as the coordinator's keeper makes the cluster when it joins first. The configuration is
/// written once; from then on `cards serve` joins by itself. It takes the place of the one that the package has
/// installed, unless somebody has changed that.
///
/// With a token of the keeper's machine this one gets an identity: a key that stays here, and a certificate that the keeper
/// has signed. It is needed once, where other machines can reach the node and it has no identity yet.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards join lab --coordinator n1@10.0.0.1:7400 --node n1 --disk data=/dev/sdb
  cards join lab --coordinator n1@10.0.0.1:7400 --node n2 --address 10.0.0.2:7400 --attach data --token TOKEN
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

    /// Name of this node [default: the machine's]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Where other nodes reach this one [default: at the keeper, what --coordinator says]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,

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
        let shown = self.config.display();
        let token = self.token.as_deref().map(|text| self.token(text, &config)).transpose()?;
        let before = write(&self.config, &config.to_toml())?;
        let admitted = match token.map(|(token, home)| get_identity(&config, &token, &home)).transpose() {
            Ok(admitted) => admitted,
            Err(error) => {
                self.restore(before)?;
                return Err(error);
            }
        };
        let written = match before {
            Before::Nothing => format!("wrote {shown}"),
            Before::Packaged => format!("wrote {shown}, in place of the package's"),
            Before::Same => format!("{shown} is there already, and says the same"),
        };
        eprintln!("cards: {written}; from now on `cards serve --config {shown}` joins");
        if self.write_only {
            if config.lacks_identity() {
                let remedy = match &config.coordinator {
                    Some(Coordinator::Embedded(_)) if config.is_keeper() => {
                        "make the cluster's with `cards cluster init`"
                    }
                    Some(Coordinator::Embedded(_)) => {
                        "run the same command again with --token TOKEN (from `cards cluster token` on the keeper's machine)"
                    }
                    _ => "bring one (docs/operating/members.md)",
                };
                eprintln!(
                    "cards: this machine has no identity yet, without which the daemon does not start; {remedy}"
                );
            }
            return Ok(());
        }
        let ended = serve::run(config, verbose);
        if ended.is_err() {
            // It was never a member: what was wrong can be corrected on the same command line.
            self.restore(before)?;
            if admitted == Some(Got::New) {
                let dir = remove_identity(&self.state_dir)?;
                eprintln!(
                    "cards: {} is gone again; by the same name this machine joins with the same token, which has been used",
                    dir.display()
                );
            }
        }
        ended
    }

    /// Puts back what was there before the configuration.
    fn restore(&self, before: Before) -> Result<(), Error> {
        let (undone, said) = match before {
            Before::Same => return Ok(()),
            Before::Nothing => (fs::remove_file(&self.config), "is gone again"),
            Before::Packaged => (replace(&self.config, PACKAGED), "is the package's again"),
        };
        undone.map_err(|source| Error::Write { path: self.config.clone(), source })?;
        eprintln!("cards: {} {said}", self.config.display());
        Ok(())
    }

    /// The token, and who has made it.
    fn token(&self, text: &str, config: &Config) -> Result<(Token, EmbeddedHome), Error> {
        let token =
            text.parse().map_err(|problem| Error::Usage { problem: format!("--token: {problem}") })?;
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

    fn configuration(&self) -> Result<Config, Error> {
        let node = match &self.node {
            Some(node) => node.clone(),
            None => machine_name()?,
        };
        let mut config = Config::new(&self.cluster, &node, Vec::new());
        let home = self.home()?;
        config.address = self.address.clone().or_else(|| match &home {
            Coordinator::Embedded(home) if home.keeper == node => Some(home.address.clone()),
            _ => None,
        });
        if config.address.is_none() {
            let problem = "--address: say where other nodes reach this one, such as 10.0.0.2:7400".into();
            return Err(Error::Usage { problem });
        }
        config.coordinator = Some(home);
        config.cache = self.cache;
        config.block = self.block;
        config.shards = self.shards;
        config.disks = self.disk.iter().map(|text| disk(text)).collect::<Result<_, _>>()?;
        config.attach = self.attach.iter().map(|volume| Attach::new(volume)).collect();
        config.nbd.unix = Some(self.nbd.clone().unwrap_or_else(|| self.runtime_dir.join("nbd.sock")));
        config.web =
            self.web.as_ref().map(|listen| Web { listen: listen.clone(), tls: None, hosts: Vec::new() });
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
                "--coordinator {coordinator:?}: write the keeper's name and address as n1@10.0.0.1:7400"
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

/// What this machine calls itself.
pub(crate) fn machine_name() -> Result<String, Error> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => Err(Error::Usage { problem: "this machine has no name; give the node one with --node".into() }),
        name => Ok(name.into()),
    }
}

/// Where an identity comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    /// It was there.
    Had,
    /// The keeper has signed it.
    New,
}

/// Makes a key, and has the keeper sign that it is this node's. One that is there already is used.
fn get_identity(config: &Config, token: &Token, home: &EmbeddedHome) -> Result<Got, Error> {
    let name = Name::new(&config.cluster, &config.node);
    let files = config.identity_files();
    let kept = config.state_dir.join(KEY_FILE);
    if files.any() {
        Identity::load(&name, &files)?;
        // Of a join that was killed when it was done.
        let _ = fs::remove_file(&kept);
        eprintln!("cards: this machine is {name} already; the token is not needed");
        return Ok(Got::Had);
    }
    name.dns()?;
    // A join that is repeated with the same key, after a crash say, spends no other use of the token.
    let key = NodeKey::kept(&kept)?;
    let keeper = Name::new(&config.cluster, &home.keeper);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let admission = runtime.map_err(Error::EventLoop)?.block_on(cards_coordinator::admit(
        &home.address,
        &keeper,
        token,
        &config.node,
        &hosts(config),
        &key.public(),
    ))?;
    let dir = identity_dir(&config.state_dir);
    cards_tls::place(&dir, |new| {
        let files = Files::within(new);
        files.write(&key, &admission.certificate, &admission.authority)?;
        Identity::load(&name, &files).map(drop)
    })?;
    let _ = fs::remove_file(&kept);
    eprintln!("cards: {keeper} has signed that this machine is {name}: {}", dir.display());
    Ok(Got::New)
}

/// As what clients that are no nodes know this machine: the host by which others reach it, if a certificate can name it.
fn hosts(config: &Config) -> Vec<String> {
    let host = config.address.as_deref().and_then(host_of);
    host.filter(|host| cards_tls::check_host(host).is_ok()).map(String::from).into_iter().collect()
}

/// Where the identity of the node with this `state_dir` is.
pub(crate) fn identity_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("identity")
}

/// Removes the identity that was made here, but for the key, and says where it was.
fn remove_identity(state_dir: &Path) -> Result<PathBuf, Error> {
    let dir = identity_dir(state_dir);
    let Files { authority, certificate, key } = Files::within(&dir);
    let kept = fs::rename(key, state_dir.join(KEY_FILE));
    let removed = kept.and_then(|()| [authority, certificate].iter().try_for_each(fs::remove_file));
    removed
        .and_then(|()| fs::remove_dir(&dir))
        .map_err(|source| Error::Write { path: dir.clone(), source })?;
    Ok(dir)
}

/// What was there before the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// The same, as after `--write-only`.
    Same,
    /// [`PACKAGED`].
    Packaged,
}

/// Writes the configuration. One that somebody has written or changed is not lost by joining again.
fn write(path: &Path, text: &str) -> Result<Before, Error> {
    let failed = |source| Error::Write { path: path.into(), source };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    match File::options().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).map_err(failed)?;
            Ok(Before::Nothing)
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        Err(_) => match fs::read(path).map_err(failed)? {
            there if there == text.as_bytes() => Ok(Before::Same),
            there if there == PACKAGED.as_bytes() => {
                replace(path, text).map_err(failed)?;
                Ok(Before::Packaged)
            }
            _ => Err(Error::Usage { problem: already(path) }),
        },
    }
}

/// Why a configuration that is there is not replaced, and what to do.
fn already(path: &Path) -> String {
    let whose = match Config::load(path) {
        Ok(config) => {
            format!(" and makes this machine node {:?} of cluster {:?}", config.node, config.cluster)
        }
        Err(_) => String::new(),
    };
    format!(
        "{} is there already{whose}; start that node with `cards serve --config {0}`; or remove the file, or name \
         another one with --config, and join again",
        path.display()
    )
}

/// Puts a file with this content in the place of another, all at once.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("toml.new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}
