//! Reference servers: what a test body must pass against, so that its failure means something.

use std::path::Path;

use super::client::Client;
use super::export::{Address, Export};
use super::process::Process;

/// A foreign server and its one export.
pub(crate) struct Reference {
    pub(crate) export: Export,
    pub(crate) process: Process,
}

impl Reference {
    /// qemu-nbd on `image`: the clean reference for protocol, abuse and data.
    pub(crate) fn qemu_nbd(dir: &Path, image: &Path) -> Reference {
        let socket = dir.join("q.sock");
        let text = |path: &Path| path.display().to_string();
        let argv =
            ["qemu-nbd", "--format=raw", "--persistent", "--shared=0", "--export-name=disk", "--socket"];
        let mut argv: Vec<String> = argv.map(String::from).into();
        argv.extend([text(&socket), text(image)]);
        Reference::start(&argv, dir, Address::Unix(socket), "disk")
    }

    /// nbdkit with `arguments` on a Unix socket.
    pub(crate) fn nbdkit(dir: &Path, arguments: &[String]) -> Reference {
        let socket = dir.join("k.sock");
        let argv = ["nbdkit", "--foreground", "--unix"].map(String::from);
        let argv = [argv.as_slice(), &[socket.display().to_string()], arguments].concat();
        Reference::start(&argv, dir, Address::Unix(socket), "")
    }

    fn start(argv: &[String], dir: &Path, address: Address, name: &str) -> Reference {
        let mut process = Process::spawn(argv, &dir.join("reference.log"));
        let export = Export { address, name: name.into(), pid: process.pid() };
        process.until("reference server answers", || Client::open(&export).ok()).close();
        Reference { export, process }
    }
}
