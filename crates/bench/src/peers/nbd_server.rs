//! nbd-server, configured by a file. It always leaves a daemon behind that forks for each connection.

use std::fs;

use super::{Peer, Server, Site, Transport, tool};
use crate::proc::child::Guard;
use crate::{Address, Error, Uri};

pub(super) fn start(site: &Site, transport: Transport) -> Result<Server, Error> {
    let mut command = tool("nbd-server", "install the package 'nbd-server'")?;
    let image = site.image("disk.raw")?;
    let name = Peer::NbdServer.name();
    // It listens on TCP in any case and adds the unix socket on request.
    let (ip, port) = (super::LOOPBACK, super::free_port()?);
    let socket = site.path("nbd-server.sock");
    // Left behind by an earlier server, it would make the bind fail.
    let _ = fs::remove_file(&socket);
    let mut config = format!("[generic]\nlistenaddr = {ip}\nport = {port}\n");
    if transport == Transport::Unix {
        config += &format!("duallisten = true\nunixsock = {}\n", socket.display());
    }
    config += &format!("[disk]\nexportname = {}\nflush = true\n", image.display());
    let path = site.path("nbd-server.conf");
    fs::write(&path, config).map_err(Error::io(format!("writing {}", path.display())))?;
    let pid_file = site.path("nbd-server.pid");
    let _ = fs::remove_file(&pid_file);
    command.arg("-C").arg(&path).arg("-p").arg(&pid_file);
    let guard = Guard::spawn(name, command, site.server_core(), &site.log(name))?.with_pid_file(pid_file);
    let address = match transport {
        Transport::Unix => Address::Unix(socket),
        Transport::Tcp => Address::Tcp(ip.to_owned(), port),
    };
    Server::ready(Peer::NbdServer, guard, Uri { address, export: "disk".to_owned() })
}
