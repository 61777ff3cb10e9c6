//! Ports that must be free, and others' that must answer.

use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use cards_config::{Config, Coordinator};
use cards_wire::nbd::client::{Address, Uri};

use super::daemon::{AS_ROOT, Daemon};
use super::finding::{Finding, Level};

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_millis(800);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 3;

/// The addresses on which the daemon listens.
pub(super) fn ports(config: &Config, daemon: &Daemon) -> Vec<Finding> {
    let mut listen: Vec<(&str, &str)> = Vec::new();
    listen.extend(config.address.as_deref().map(|address| ("address", address)));
    listen.extend(config.registry_port().map(|address| ("coordinator", address)));
    listen.extend(config.nbd.tcp.as_deref().map(|address| ("nbd.tcp", address)));
    listen.extend(config.api.as_ref().map(|api| ("api.listen", api.listen.as_str())));
    listen.extend(config.web.as_ref().map(|web| ("web.listen", web.listen.as_str())));
    let mut found: Vec<Finding> =
        listen.into_iter().map(|(key, address)| port(key, address, daemon)).collect();
    found.extend(config.listeners().iter().filter(|listener| listener.is_in_clear()).map(|listener| {
        Finding::warning(
            listener.key,
            format!(
                "whoever reaches {} may speak in the clear, and need not say who it is",
                listener.address
            ),
            "remove `tls` beside it, and `insecure`, so that TLS is required; or listen on 127.0.0.1",
        )
    }));
    found
}

fn port(key: &str, address: &str, daemon: &Daemon) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(key, format!("{address} is free")),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && daemon.is_there() => {
            Finding::ok(key, format!("{address} is in use by this node's daemon"))
        }
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && daemon.is_hidden() => {
            Finding::warning(key, format!("{address} is in use, perhaps by this node's daemon"), AS_ROOT)
        }
        Err(e) => {
            let remedy = match e.kind() {
                io::ErrorKind::AddrInUse => {
                    "end the program that has it (ss -ltnp names it), or use another port"
                }
                io::ErrorKind::AddrNotAvailable => "the address is not one of this machine: correct it",
                io::ErrorKind::PermissionDenied => "use a port above 1023",
                _ => "correct the address, or the name in DNS or /etc/hosts",
            };
            Finding::problem(key, format!("{address}: {e}"), remedy)
        }
    }
}

/// Whoever keeps the list of members.
pub(super) fn coordinator(config: &Config, daemon: &Daemon) -> Vec<Finding> {
    match &config.coordinator {
        Some(Coordinator::Embedded(home)) if !config.is_keeper() => {
            let remedy =
                format!("start node {}, which keeps the registry, and open its port here", home.keeper);
            let found = answers("coordinator", &home.address, &remedy);
            if let Some((name, address)) = daemon.stands_for(&home.keeper)
                && found.level == Level::Problem
            {
                return vec![Finding::warning(
                    "coordinator",
                    format!(
                        "{}; node {}, which the configuration names, is no member any more",
                        found.says, home.keeper
                    ),
                    format!(
                        "write keeper = \"{name}\" and address = \"{address}\", or another member, into [coordinator.embedded] of this node's file"
                    ),
                )];
            }
            // Of several nodes that keep it one may be down, also that which the configuration names.
            let leader = daemon.registry_leader().filter(|leader| *leader != home.keeper);
            match leader.filter(|_| found.level == Level::Problem) {
                Some(leader) => vec![Finding::warning(
                    "coordinator",
                    format!("{}; the registry goes on without it, led by {leader}", found.says),
                    format!("start node {}", home.keeper),
                )],
                None => vec![found],
            }
        }
        Some(Coordinator::Etcd(home)) => home
            .endpoints
            .iter()
            .map(|endpoint| {
                let host = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest);
                let host = host.split('/').next().unwrap_or_default();
                answers("etcd", host, "start etcd there, or correct `endpoints`")
            })
            .collect(),
        Some(Coordinator::Embedded(_)) | None => Vec::new(),
    }
}

fn answers(check: &str, address: &str, remedy: &str) -> Finding {
    match connect(address) {
        Ok(()) => Finding::ok(check, format!("{address} takes connections")),
        Err(e) => Finding::problem(check, format!("{address}: {e}"), remedy),
    }
}

/// Connects to the server of an NBD export, and leaves.
pub(super) fn reach(uri: &Uri) -> io::Result<()> {
    match &uri.address {
        Address::Unix(path) => UnixStream::connect(path).map(drop),
        Address::Tcp(host, port) if host.contains(':') => connect(&format!("[{host}]:{port}")),
        Address::Tcp(host, port) => connect(&format!("{host}:{port}")),
    }
}

/// Connects to one of the addresses of `host:port`.
fn connect(address: &str) -> io::Result<()> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()?.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(_) => return Ok(()),
            Err(e) => last = e,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use cards_config::{EmbeddedHome, Web};

    use super::*;

    #[test]
    fn a_port_that_another_program_has_is_a_problem() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let silent = Daemon::Silent("it stands still".into());
        assert_eq!(port("address", &address, &Daemon::Away).level, Level::Problem);
        assert_eq!(port("address", &address, &silent).level, Level::Ok);
        let hidden = port("address", &address, &Daemon::Hidden("Permission denied".into())).to_string();
        assert!(
            hidden.starts_with("warning") && hidden.contains("sudo") && !hidden.contains("end the"),
            "{hidden}"
        );
        assert_eq!(answers("etcd", &address, "start it").level, Level::Ok);
        drop(listener);
        assert_eq!(port("address", &address, &Daemon::Away).level, Level::Ok);
        assert_eq!(answers("etcd", &address, "start it").remedy.as_deref(), Some("start it"));
    }

    #[test]
    fn every_door_of_the_daemon_is_tried() {
        let mut config = Config::new("lab", "n1");
        config.address = Some("127.0.0.1:0".into());
        config.coordinator = Some(Coordinator::Embedded(EmbeddedHome::new("n1", "[::1]:0")));
        config.nbd.tcp = Some("127.0.0.1:0".into());
        config.web = Some(Web { listen: "127.0.0.1:0".into(), tls: None, hosts: Vec::new() });
        let tried: Vec<String> = ports(&config, &Daemon::Away).into_iter().map(|found| found.check).collect();
        assert_eq!(tried, ["address", "coordinator", "nbd.tcp", "web.listen"]);
    }

    #[test]
    fn an_address_of_another_machine_is_a_problem() {
        let found = port("address", "192.0.2.1:7400", &Daemon::Away);
        assert!(found.level == Level::Problem && found.to_string().contains("not one of this"), "{found}");
    }
}
