//! `cards join`: make this machine a node of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_config::{
    Attach, Config, Coordinator, Disk, EmbeddedHome, EtcdHome, Object, Origin, Web, host_of, size,
};
use cards_coordinator::{KEY_FILE, Refusal, Remote, RemoteConfig, Token};
use cards_tls::{Files, Identity, Name, NodeKey};
use clap::Args;

use crate::dev::is_object;
use crate::error::Error;
use crate::serve;

/// The configuration that the package installs: a machine by itself. Until somebody changes it, it says nothing that
/// would be lost.
const PACKAGED: &str = include_str!("../../../packaging/debian/node.toml");
/// Where a node keeps what it must not forget, if nothing else is said.
const STATE_DIR: &str = "/var/lib/cards";
/// How long the keeper is asked about an identity that is here already.
const ASK: Duration = Duration::from_secs(3);

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

    /// Contribute a disk, or an object of a web server or an object store (read-only); any number of times
    #[arg(long, value_name = "NAME=PATH|URL")]
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
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
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
        self.check_here(&config)?;
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
                    Some(Coordinator::Embedded(_)) if config.is_keeper() => format!(
                        "make the cluster's with `cards cluster init {} --node {}{}`",
                        config.cluster,
                        config.node,
                        with_state_dir(&self.state_dir)
                    ),
                    Some(Coordinator::Embedded(_)) => {
                        "run the same command again with --token TOKEN (from `cards cluster token` on the keeper's machine)".into()
                    }
                    _ => "bring one (docs/operating/members.md)".into(),
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

    /// What this machine must have for a daemon to start with that, before a token has one use less by it.
    fn check_here(&self, config: &Config) -> Result<(), Error> {
        for disk in &config.disks {
            let Origin::Path(path) = &disk.origin else { continue };
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
        let Some(address) = &config.address else { return Ok(()) };
        let is_any = host_of(address).and_then(|host| host.parse::<IpAddr>().ok());
        if is_any.is_some_and(|address| address.is_unspecified()) {
            let problem = format!(
                "--address {address}: other nodes cannot call that; name the address of this machine that they reach"
            );
            return Err(Error::Usage { problem });
        }
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
        let mut config = Config::new(&self.cluster, &node);
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
    if is_object(path) {
        // No word of the URL itself: there may be a password in it.
        let url =
            path.parse().map_err(|error| Error::Usage { problem: format!("--disk {name}: {error}") })?;
        return Ok(Disk::new(name, Origin::Object(Box::new(Object::new(url)))));
    }
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
    if let Some(error) = files.hidden() {
        return Err(error.into());
    }
    if files.any() {
        refuse_revoked(config, home, Identity::load(&name, &files)?)?;
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

/// Asks the keeper whether it still believes this identity; that it cannot be asked is no matter here.
fn refuse_revoked(config: &Config, home: &EmbeddedHome, identity: Identity) -> Result<(), Error> {
    let mut remote = RemoteConfig::new(&home.address, &config.cluster);
    remote.patience = ASK;
    remote.identity = Some((identity, Name::new(&config.cluster, &home.keeper)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked =
        runtime.map_err(Error::EventLoop)?.block_on(async { Remote::open(remote).await?.view().await });
    match asked {
        Err(cards_coordinator::Error::Refused(why @ Refusal::Revoked { .. })) => {
            Err(Error::Usage { problem: why.to_string() })
        }
        _ => Ok(()),
    }
}

/// As what clients that are no nodes know this machine: the host by which others reach it, if a certificate can name it.
fn hosts(config: &Config) -> Vec<String> {
    let host = config.address.as_deref().and_then(host_of);
    host.filter(|host| cards_tls::check_host(host).is_ok()).map(String::from).into_iter().collect()
}

/// The option that names this state_dir; none if it is the usual one.
pub(crate) fn with_state_dir(state_dir: &Path) -> String {
    match state_dir == Path::new(STATE_DIR) {
        true => String::new(),
        false => format!(" --state-dir {}", state_dir.display()),
    }
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
            _ => Err(Error::Usage { problem: already(path, text) }),
        },
    }
}

/// Why a configuration that is there is not replaced, and what to do.
fn already(path: &Path, wanted: &str) -> String {
    let whose = match Config::load(path) {
        Ok(config) => {
            let differences = differences(&config.to_toml(), wanted);
            let says = if differences.is_empty() {
                "the same, in other words".into()
            } else {
                differences.join("; ")
            };
            format!(
                " and makes this machine node {:?} of cluster {:?}. It says {says}",
                config.node, config.cluster
            )
        }
        Err(_) => String::new(),
    };
    format!(
        "{} is there already{whose}. If that is right, start that node with `cards serve --config {0}`; else correct or \
         remove the file, or name another one with --config, and join again",
        path.display()
    )
}

/// Where two configurations differ, key by key, in the words of the first.
fn differences(there: &str, wanted: &str) -> Vec<String> {
    let read = |text: &str| {
        let mut values = BTreeMap::new();
        flatten("", text.parse().unwrap_or_default(), &mut values);
        values
    };
    let (there, wanted) = (read(there), read(wanted));
    let keys: BTreeSet<&String> = there.keys().chain(wanted.keys()).collect();
    let differ = keys.into_iter().filter(|key| there.get(*key) != wanted.get(*key));
    let said = |key: &String| match (there.get(key), wanted.get(key)) {
        (Some(there), Some(wanted)) => format!("{key} = {there}, not {wanted}"),
        (Some(there), None) => format!("{key} = {there}, which is not wished"),
        (None, wanted) => {
            format!("nothing of {key} = {}", wanted.map(ToString::to_string).unwrap_or_default())
        }
    };
    differ.map(said).collect()
}

/// Every value of a table, by its key with those of the tables around it.
fn flatten(key: &str, table: toml::Table, values: &mut BTreeMap<String, toml::Value>) {
    for (name, value) in table {
        let key = if key.is_empty() { name } else { format!("{key}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, values),
            value => _ = values.insert(key, value),
        }
    }
}

/// Puts a file with this content in the place of another, all at once.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("toml.new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
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
            (format!("{away} --address 0.0.0.0:7400"), "cannot call that"),
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
