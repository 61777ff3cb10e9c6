//! `cards status --watch`: the same again and again.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use cards_admin::{Client, Status};

use crate::cli::Daemon;
use crate::error::Error;
use crate::signals::Signals;

/// How long the daemon may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Prints what `show` makes of the status, and of the one before, every `interval`, until a signal or until nobody reads it any more.
///
/// A daemon that does not answer is mentioned once on standard error, and asked again.
pub(super) fn watch(
    daemon: &Daemon,
    interval: Duration,
    show: impl Fn(&Status, Option<&Status>) -> String,
) -> Result<(), Error> {
    let signals = Signals::block();
    let mut client: Option<Client> = None;
    let mut mentioned = String::new();
    let mut before: Option<Status> = None;
    loop {
        match ask(daemon, &mut client) {
            Ok(status) => {
                mentioned.clear();
                // A daemon that was started anew counts from 0.
                let earlier = before.as_ref().filter(|before| before.uptime_s <= status.uptime_s);
                if !print(&show(&status, earlier))? {
                    return Ok(());
                }
                before = Some(status);
            }
            Err(e) => {
                let text = e.to_string();
                if text != mentioned {
                    eprintln!("cards: {text}");
                    mentioned = text;
                }
            }
        }
        if signals.end_within(interval) {
            return Ok(());
        }
    }
}

/// One line of JSON.
pub(super) fn json_line(status: &Status) -> String {
    serde_json::to_string(status).expect("a status has only string keys") + "\n"
}

/// Asks over the connection there is, or a new one: the daemon may have been started anew.
fn ask(daemon: &Daemon, client: &mut Option<Client>) -> Result<Status, Error> {
    if let Some(mut connected) = client.take()
        && let Ok(status) = connected.status_of_start()
    {
        *client = Some(connected);
        return Ok(status);
    }
    let mut connected = daemon.connect_within(ANSWER_WITHIN)?;
    let status = connected.status_of_start()?;
    *client = Some(connected);
    Ok(status)
}

/// Prints `text`; whether there is still somebody who reads it.
fn print(text: &str) -> Result<bool, Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Error::Output(e)),
    }
}
