//! qemu-nbd on a raw file through the page cache, its default.

use super::{Peer, Server, Site, Transport, tool};
use crate::proc::child::Guard;
use crate::{Address, Error, Uri};

pub(super) fn start(site: &Site, transport: Transport) -> Result<Server, Error> {
    let mut command = tool("qemu-nbd", "install the package 'qemu-utils'")?;
    let image = site.image("disk.raw")?;
    let address = site.address(Peer::QemuNbd, transport)?;
    // The file is shared with the other file servers, so no image lock.
    let filename = format!("driver=raw,file.driver=file,file.locking=off,file.filename={}", image.display());
    command.args(["--persistent", "--shared=8", "--cache=writeback", "--image-opts", &filename]);
    match &address {
        Address::Unix(path) => command.arg("--socket").arg(path),
        Address::Tcp(host, port) => command.args(["--bind", host, "--port", &port.to_string()]),
    };
    let name = Peer::QemuNbd.name();
    let guard = Guard::spawn(name, command, site.server_core(), &site.log(name))?;
    Server::ready(Peer::QemuNbd, guard, Uri { address, export: String::new() })
}
