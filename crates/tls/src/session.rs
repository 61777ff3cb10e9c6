//! What the two ends of a connection of TLS say about the connection itself: that one closes, or changes its key.

use std::io;

use rustls::ConnectionTrafficSecrets;
use rustls::kernel::KernelConnection;

use crate::record::{ALERT, DATA, HANDSHAKE, RecordError};

/// Records without data that are borne. For a message of 27 bytes a key is made: whoever could send as many as the network
/// takes would have the event loop to itself.
pub(crate) const IDLE_MAX: u32 = 32;
/// What each of them costs. A record with data pays one back, and one more for each KiB: a byte now and then is no cover.
pub(crate) const IDLE_COST: u32 = 16;
/// Blocks of 16 bytes that one key seals, 256 GiB: two thirds of what AES-GCM bears (RFC 8446, section 5.5, and RFC 9001,
/// appendix B.1). A new key may cost a connection whose other end has an old kernel.
const BLOCKS_MAX: u64 = 1 << 34;
/// Blocks of a record beside those of its data: the last, which is not full, the header's, and those of the seal.
const BLOCKS_BESIDE: u64 = 4;
/// The alert of TLS that says that nothing more is sent (RFC 8446, section 6.1): whoever is cut off misses it.
pub(crate) const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// The message of TLS that says that the next key is used from now on (RFC 8446, section 4.6.3); the other end need not.
pub(crate) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// The key of one direction, and how many records it has sealed.
pub(crate) type Traffic = (u64, ConnectionTrafficSecrets);

/// What a handshake leads to.
pub(crate) struct Keys {
    pub(crate) to_send: Traffic,
    pub(crate) to_receive: Traffic,
    pub(crate) next: Box<dyn Secrets>,
}

/// Whoever knows the next key of either direction.
pub(crate) trait Secrets: Send {
    fn next_to_send(&mut self) -> Result<Traffic, rustls::Error>;
    fn next_to_receive(&mut self) -> Result<Traffic, rustls::Error>;
}

impl<Data: Send> Secrets for KernelConnection<Data> {
    fn next_to_send(&mut self) -> Result<Traffic, rustls::Error> {
        self.update_tx_secret()
    }

    fn next_to_receive(&mut self) -> Result<Traffic, rustls::Error> {
        self.update_rx_secret()
    }
}

/// What has been said about a connection, whoever seals and opens its records.
pub(crate) struct Session {
    secrets: Box<dyn Secrets>,
    /// What records without data have cost, and others have not paid back.
    idle: u32,
    /// The other end has said that it sends no more.
    pub(crate) ended: bool,
    /// This end has.
    pub(crate) ends: bool,
    /// The other end asks for the next key.
    update_asked: bool,
    /// Blocks that the key in use has sealed, at most.
    blocks: u64,
    /// Blocks that a key seals before the next one does.
    pub(crate) blocks_max: u64,
}

impl Session {
    pub(crate) fn new(secrets: Box<dyn Secrets>) -> Self {
        Self {
            secrets,
            idle: 0,
            ended: false,
            ends: false,
            update_asked: false,
            blocks: 0,
            blocks_max: BLOCKS_MAX,
        }
    }

    /// So many bytes of data have come.
    pub(crate) fn received(&mut self, length: usize) {
        self.idle = self.idle.saturating_sub(1 + (length >> 10) as u32);
    }

    /// A record without data has come. Gives the key by which what follows is opened, if it is another.
    pub(crate) fn told(&mut self, content: u8, said: &[u8]) -> io::Result<Option<Traffic>> {
        self.idle += IDLE_COST;
        if self.idle > IDLE_MAX * IDLE_COST {
            return Err(bad("too many records without data"));
        }
        match (content, said) {
            (DATA, []) => Ok(None),
            (ALERT, [_, 0]) => {
                self.ended = true;
                Ok(None)
            }
            (ALERT, &[_, alert]) => Err(bad(broken_off(alert))),
            (ALERT, _) => Err(bad("an alert of no known length")),
            (HANDSHAKE, &[24, 0, 0, 1, asks @ (0 | 1)]) => {
                self.update_asked |= asks == 1;
                self.secrets.next_to_receive().map(Some).map_err(bad)
            }
            // No node gives tickets, and nobody needs to prove itself again.
            (HANDSHAKE, _) => Err(bad("a message of TLS that has no place here")),
            (other, _) => Err(bad(RecordError::Type(other))),
        }
    }

    /// So many bytes were sealed, in so many records at most.
    pub(crate) fn sealed(&mut self, bytes: usize, records: usize) {
        self.blocks += bytes as u64 / 16 + records as u64 * BLOCKS_BESIDE;
    }

    /// Whether the next key has to seal what is sent.
    pub(crate) fn has_to_update(&self) -> bool {
        self.update_asked || self.blocks >= self.blocks_max
    }

    /// The next key of what is sent.
    pub(crate) fn next_to_send(&mut self) -> io::Result<Traffic> {
        (self.update_asked, self.blocks) = (false, 0);
        self.secrets.next_to_send().map_err(bad)
    }
}

pub(crate) fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// What an alert says (RFC 8446, section 6.2), where that is for whoever reads it to mend.
fn broken_off(alert: u8) -> String {
    let why = match alert {
        42 | 43 | 46 => "it does not take this end's certificate",
        44 => "this end's certificate is revoked",
        45 => "this end's certificate has ended, or the clocks of the two differ",
        48 => "it does not believe the authority of this end's certificate",
        116 => "this end has shown no certificate",
        _ => "see its log",
    };
    format!("the other end breaks off: {why} (TLS alert {alert})")
}
