//! Where the daemon exports its volumes over NBD.

use std::path::PathBuf;

use cards_admin::Client;
use cards_wire::nbd::EXCLUSIVE;

use super::{LocalError, Place};

/// The daemon's NBD socket.
///
/// # Errors
/// It has none, or does not answer.
pub(crate) fn nbd_socket(client: &mut Client) -> Result<PathBuf, LocalError> {
    client.status()?.nbd.ok_or(LocalError::NoNbd)
}

/// The URI of a volume's export; `exclusive`: for a client that keeps what it reads.
///
/// # Errors
/// There is no export.
pub(crate) fn nbd_uri(place: &Place, client: &mut Client, exclusive: bool) -> Result<String, LocalError> {
    let socket = nbd_socket(client)?;
    let text: String = socket.display().to_string().chars().map(escaped).collect();
    let asked = if exclusive { EXCLUSIVE.replace('?', "%3F") } else { String::new() };
    Ok(format!("nbd+unix:///{}{asked}?socket={text}", place.volume()))
}

/// What would end the value of a parameter, in the way of URIs.
fn escaped(c: char) -> String {
    match c {
        '%' | '&' | '#' | '+' | ' ' => format!("%{:02X}", u32::from(c)),
        other => other.to_string(),
    }
}
