//! A connection to a daemon that may not be up yet.

use std::path::Path;
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, RefusalKind};

use super::LocalError;
use crate::signals::Signals;

/// How long a request may take: a takeover waits for the leases of others.
const TIMEOUT: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);

/// Does something with the daemon at `socket`. While it is not up, or does not know the volume yet, this is tried
/// again for as long as `wait`: at boot everything starts at once.
///
/// # Errors
/// It cannot be done, or a signal asked this program to end.
pub(crate) fn patient<T>(
    socket: &Path,
    wait: Duration,
    signals: &Signals,
    mut call: impl FnMut(&mut Client) -> Result<T, LocalError>,
) -> Result<T, LocalError> {
    let deadline = Instant::now() + wait;
    loop {
        let done =
            Client::connect_within(socket, TIMEOUT).map_err(LocalError::from).and_then(|mut c| call(&mut c));
        match done {
            Err(error) if is_early(&error) && Instant::now() < deadline => {
                if signals.end_within(LOOK) {
                    return Err(LocalError::Interrupted);
                }
            }
            done => return done,
        }
    }
}

/// Whether it may be done a little later.
const fn is_early(error: &LocalError) -> bool {
    match error {
        LocalError::Daemon(ClientError::Connect { .. } | ClientError::Io { .. }) => true,
        LocalError::Daemon(ClientError::Refused(refusal)) => {
            matches!(
                refusal.kind,
                RefusalKind::NoSuchVolume | RefusalKind::Unreachable | RefusalKind::Starting
            )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_not_up_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("admin.sock");
        let signals = Signals::block();
        let mut calls = 0;
        let mut call = |_: &mut Client| {
            calls += 1;
            Ok(())
        };
        let error = patient(&socket, Duration::from_millis(300), &signals, &mut call).unwrap_err();
        assert!(error.to_string().contains("is the daemon running?"), "{error}");
        let late = socket.clone();
        let daemon = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            std::os::unix::net::UnixListener::bind(late)
        });
        patient(&socket, Duration::from_secs(10), &signals, &mut call).unwrap();
        daemon.join().unwrap().unwrap();
        assert_eq!(calls, 1);
    }
}
