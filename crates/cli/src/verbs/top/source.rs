//! The daemons that are watched: one thread asks each, so that one that hangs holds up nobody.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, MemberState, Status};

use super::Event;
use super::rates::{Rates, Reading};

/// How long a daemon may take to answer: others that it asks may have two seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// One daemon, as far as it has answered.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its admin socket.
    pub(crate) path: PathBuf,
    pub(crate) now: Option<Reading>,
    before: Option<Reading>,
    /// Why it does not answer any more, if so.
    pub(crate) away: Option<String>,
}

impl Source {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, now: None, before: None, away: None }
    }

    /// It has answered, or not.
    pub(crate) fn heard(&mut self, at: Duration, answer: Result<Status, String>) {
        match answer {
            // What it said before, told once more.
            Ok(status) if self.now.as_ref().is_some_and(|now| is_same(&now.status, &status)) => {
                self.away = None
            }
            Ok(status) => {
                // After a pause in its answers the next difference is over the pause.
                self.before = self.now.take();
                self.now = Some(Reading { at, status: Rc::new(status) });
                self.away = None;
            }
            Err(reason) => self.away = Some(reason),
        }
    }

    /// Whether this is what the same node says.
    pub(crate) fn is_of(&self, status: &Status) -> bool {
        self.now.as_ref().is_some_and(|now| now.status.node == status.node)
    }

    /// What it did between its last two answers; none while it is away.
    pub(crate) fn rates(&self) -> Option<Rates> {
        if self.away.is_some() {
            return None;
        }
        Rates::between(self.before.as_ref()?, self.now.as_ref()?)
    }
}

/// Asks the daemon at `path` every `interval`, about all nodes or itself, all daemons at the same moments after `start`; ends when nobody
/// listens to the answers any more.
pub(super) fn watch(
    number: usize,
    path: PathBuf,
    all: bool,
    start: Instant,
    interval: Duration,
    events: Sender<Event>,
) {
    let mut client = None;
    loop {
        let (answer, others) = match ask(&mut client, &path, all) {
            Ok((status, others)) => (Ok(status), others),
            Err(error) => (Err(error.to_string()), Vec::new()),
        };
        let answer = Box::new(answer);
        if events.send(Event::Answer { number, at: start.elapsed(), answer, others }).is_err() {
            return;
        }
        let into = start.elapsed().as_nanos() % interval.as_nanos();
        thread::sleep(interval.saturating_sub(Duration::from_nanos(into.try_into().unwrap_or(u64::MAX))));
    }
}

/// Asks over the connection there is, or a new one; what it says of the other nodes comes second.
fn ask(client: &mut Option<Client>, path: &Path, all: bool) -> Result<(Status, Vec<Status>), ClientError> {
    if let Some(mut connected) = client.take()
        && let Ok(answer) = ask_once(&mut connected, all)
    {
        *client = Some(connected);
        return Ok(answer);
    }
    let mut connected = Client::connect_within(path, ANSWER_WITHIN)?;
    let answer = ask_once(&mut connected, all)?;
    *client = Some(connected);
    Ok(answer)
}

fn ask_once(client: &mut Client, all: bool) -> Result<(Status, Vec<Status>), ClientError> {
    if !all {
        return Ok((client.status()?, Vec::new()));
    }
    let mut others = Vec::new();
    let mut own = None;
    for node in client.cluster()?.nodes {
        match (node.state, node.status) {
            (MemberState::Here, status) => own = status,
            (_, Some(status)) => others.push(*status),
            (_, None) => {}
        }
    }
    let own = own.map_or_else(|| client.status(), |own| Ok(*own))?;
    Ok((own, others))
}

/// Whether it is the same word of a daemon.
fn is_same(now: &Status, status: &Status) -> bool {
    now.time_ms > 0 && (now.time_ms, now.uptime_s) == (status.time_ms, status.uptime_s)
}
