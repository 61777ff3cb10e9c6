//! nbdkit with its memory and file plug-ins.

use std::process::Command;

use super::{Peer, Server, Site, Transport, tool};
use crate::proc::child::Guard;
use crate::{Address, Error, Uri};

pub(super) fn memory(site: &Site, transport: Transport) -> Result<Server, Error> {
    start(Peer::NbdkitMemory, site, transport, |command| {
        command.arg("memory").arg(format!("size={}", site.size));
    })
}

pub(super) fn file(site: &Site, transport: Transport) -> Result<Server, Error> {
    let image = site.image("disk.raw")?;
    start(Peer::NbdkitFile, site, transport, |command| {
        command.arg("file").arg(format!("file={}", image.display()));
    })
}

fn start(
    peer: Peer,
    site: &Site,
    transport: Transport,
    plugin: impl FnOnce(&mut Command),
) -> Result<Server, Error> {
    let mut command = tool("nbdkit", "install the package 'nbdkit'")?;
    let address = site.address(peer, transport)?;
    command.arg("--foreground");
    match &address {
        Address::Unix(path) => command.arg("--unix").arg(path),
        Address::Tcp(host, port) => command.args(["--ipaddr", host, "--port", &port.to_string()]),
    };
    plugin(&mut command);
    let guard = Guard::spawn(peer.name(), command, site.server_core(), &site.log(peer.name()))?;
    Server::ready(peer, guard, Uri { address, export: String::new() })
}
