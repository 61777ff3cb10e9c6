//! The first bytes of a volume, through NBD: before there is a device.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use cards_wire::nbd::client::{Event, OpenError, Replies, open};
use cards_wire::nbd::{Command, Request};

use super::LocalError;
use super::content::HEAD_BYTES;

/// A daemon that says nothing for this long is stuck. The disk node may take some time itself.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Reads the first [`HEAD_BYTES`] of `volume` through the NBD socket at `socket`; less if it is smaller.
///
/// # Errors
/// They cannot be read.
pub(crate) fn probe(socket: &Path, volume: &str) -> Result<Vec<u8>, LocalError> {
    read(socket, volume).map_err(|reason| {
        let reason = format!("{}: {reason}; see `cards status`", socket.display());
        LocalError::Unreadable { volume: volume.into(), reason }
    })
}

fn read(socket: &Path, volume: &str) -> Result<Vec<u8>, String> {
    let said = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock => "no answer within 60 s".to_owned(),
        _ => error.to_string(),
    };
    let mut stream = UnixStream::connect(socket).map_err(said)?;
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(said)?;
    stream.set_write_timeout(Some(SILENCE_MAX)).map_err(said)?;
    let session = match open(&mut stream, volume) {
        Ok(ready) => ready.session,
        Err(OpenError::Io(error)) => return Err(said(error)),
        Err(error) => return Err(error.to_string()),
    };
    let length = session.size.min(HEAD_BYTES as u64);
    let mut head = vec![0; length as usize];
    if head.is_empty() {
        return Ok(head);
    }
    let request = Request { flags: 0, command: Command::Read, cookie: 1, offset: 0, length: length as u32 };
    let mut replies = Replies::new(&session, 1);
    replies.sent(&request).map_err(|e| e.to_string())?;
    stream.write_all(&request.encode()).map_err(said)?;
    let mut input = vec![0; HEAD_BYTES];
    loop {
        let received = stream.read(&mut input).map_err(said)?;
        if received == 0 {
            return Err("the daemon closed the connection".into());
        }
        let mut rest = &input[..received];
        while let Some(event) = replies.advance(&mut rest).map_err(|e| e.to_string())? {
            match event {
                Event::Data { offset, bytes, .. } => {
                    let at = usize::try_from(offset).unwrap_or(usize::MAX);
                    let place = head.get_mut(at..).and_then(|head| head.get_mut(..bytes.len()));
                    place.ok_or("data beyond what was asked for")?.copy_from_slice(bytes);
                }
                Event::Done { result, .. } => {
                    let failed = |failure: cards_wire::nbd::client::Failure| {
                        format!("{:?} {}", failure.errno, failure.message).trim_end().to_owned()
                    };
                    result.map_err(failed)?;
                    // It would notice by itself; told, it counts this client out at once.
                    let bye = Request { flags: 0, command: Command::Disc, cookie: 2, offset: 0, length: 0 };
                    let _ = stream.write_all(&bye.encode());
                    return Ok(head);
                }
                Event::Hole { .. } | Event::Extent { .. } => {}
            }
        }
    }
}
