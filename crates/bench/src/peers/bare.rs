//! The floor, as a process of its own: this program with a hidden subcommand.

use std::process::Command;

use super::{Peer, Server, Site, Transport};
use crate::proc::child::Guard;
use crate::{Error, Uri};

pub(super) fn start(site: &Site, transport: Transport) -> Result<Server, Error> {
    let name = Peer::Bare.name();
    let address = site.address(Peer::Bare, transport)?;
    let uri = Uri { address, export: String::new() };
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let mut command = Command::new(program);
    command.args(["bare", "--uri", &uri.to_string(), "--size", &site.size.to_string()]);
    let guard = Guard::spawn(name, command, site.server_core(), &site.log(name))?;
    Server::ready(Peer::Bare, guard, uri)
}
