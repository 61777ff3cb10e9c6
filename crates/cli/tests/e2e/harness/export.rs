//! What a test body sees of a server: an address, a name and a process.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::client::Client;
use super::content;

#[derive(Clone, Debug)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// One NBD export of one server.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) address: Address,
    pub(crate) name: String,
    /// The process that serves it.
    pub(crate) pid: u32,
}

impl Export {
    /// The form all NBD tools take.
    pub(crate) fn uri(&self) -> String {
        match &self.address {
            Address::Unix(path) => format!("nbd+unix:///{}?socket={}", self.name, path.display()),
            Address::Tcp(address) => format!("nbd://{address}/{}", self.name),
        }
    }

    #[track_caller]
    pub(crate) fn open(&self) -> Client {
        Client::open(self).unwrap_or_else(|error| panic!("cannot open {}: {error}", self.uri()))
    }

    /// Reads `length` bytes at `offset` on a connection of their own.
    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut client = Client::open(self)?;
        let data = client.read(offset, length)?;
        client.close();
        Ok(data)
    }

    /// Reads the whole volume and compares it with the content of `seed`.
    #[track_caller]
    pub(crate) fn check_all(&self, seed: u64) {
        const STEP: u64 = 1 << 20;
        let mut client = self.open();
        assert!(client.size > 0, "{} is empty", self.uri());
        for offset in (0..client.size).step_by(STEP as usize) {
            let length = (client.size - offset).min(STEP) as usize;
            let data =
                client.read(offset, length).unwrap_or_else(|e| panic!("read {length} at {offset}: {e}"));
            content::check(&data, offset, seed);
        }
        client.close();
    }
}
