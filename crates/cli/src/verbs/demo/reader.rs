//! A reader of a whole volume, many requests in flight, that compares it with its disk.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::DemoError;
use super::connection::{Chunk, Connection, REQUEST};
use crate::signals::{Arrived, Signals};

/// Reads in flight.
const DEPTH: usize = 32;

/// Reads the export `disk` at `socket` from start to end and compares it with `image`; how long the reads
/// took. `progress` is told of each finished read's bytes.
pub(super) fn read_all(
    socket: &Path,
    image: &Path,
    signals: &Signals,
    mut progress: impl FnMut(u64),
) -> Result<Duration, DemoError> {
    let unreadable = |source| DemoError::Image { path: image.into(), source };
    let original = File::open(image).map_err(unreadable)?;
    let (mut connection, session) = Connection::open(socket, DEPTH)?;
    let image_bytes = original.metadata().map_err(unreadable)?.len();
    if session.size != image_bytes {
        return Err(DemoError::Size { path: socket.into(), volume: session.size, image: image_bytes });
    }
    let start = Instant::now();
    let mut next = 0;
    let mut finished = 0;
    let mut expected = vec![0; REQUEST as usize];
    while finished < session.size {
        while next < session.size && connection.in_flight() < DEPTH {
            let length = u64::from(REQUEST).min(session.size - next) as u32;
            connection.ask(next, length)?;
            next += u64::from(length);
        }
        connection.send()?;
        connection.receive()?;
        while let Some(chunk) = connection.finished() {
            let Chunk { offset, ref data } = chunk;
            let expected = &mut expected[..data.len()];
            original.read_exact_at(expected, offset).map_err(unreadable)?;
            if *data != *expected {
                return Err(DemoError::Differs { path: socket.into(), offset });
            }
            finished += data.len() as u64;
            progress(data.len() as u64);
            connection.reuse(chunk);
        }
        if signals.wait(Duration::ZERO).is_some_and(Arrived::ends) {
            return Err(DemoError::Interrupted);
        }
    }
    let elapsed = start.elapsed();
    connection.close();
    Ok(elapsed)
}
