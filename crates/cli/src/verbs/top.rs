//! `cards top`: what the nodes of a cluster do, second by second.

mod cluster;
mod demand;
mod line;
mod rates;
mod screen;
mod source;
mod tables;
mod terminal;
mod view;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cards_admin::Status;
use cards_config::duration;
use clap::Args;
use crossterm::event::{self, KeyEvent, KeyEventKind};

use crate::context::Context;
use crate::error::Error;
use crate::signals::{Arrived, Signals};
use screen::{Next, Screen};
use terminal::Terminal;

/// How long answers to the same question are waited for before they are shown.
const TOGETHER: Duration = Duration::from_millis(50);
/// Most sockets of a directory that are watched: a daemon has 32 connections, this program a thread for each.
const SOCKETS_MAX: usize = 256;

/// Watch the nodes of a cluster: reads, hits by kind, evictions, locks, what the disk was spared
#[derive(Debug, Args)]
#[command(after_help = "\
One daemon tells of all nodes of its cluster. Of several that are named each tells of itself only.
Keys: q quit, arrows select, Enter zoom, / filter, s sort, p pause, h help.

Examples:
  cards top
  cards top --socket /run/cards/a/admin.sock --socket /run/cards/b/admin.sock
  cards dev --run 'cards top --dir $CARDS_DIR'")]
pub(crate) struct Top {
    /// Admin socket of a daemon; more than once for more
    #[arg(
        long = "socket",
        value_name = "PATH",
        env = "CARDS_SOCKET",
        default_value = "/run/cards/admin.sock"
    )]
    sockets: Vec<PathBuf>,

    /// All daemons with a directory in DIR that has an admin.sock, as in the $CARDS_DIR of `cards dev`
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How often to ask
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval)]
    interval: Duration,
}

/// How often to ask: bounded, so that nobody keeps daemons busy with it or waits for ever.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text).map_err(|e| e.to_string())?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&interval) {
        Ok(interval)
    } else {
        Err("use 100ms to 1h".into())
    }
}

/// Something that changes the picture.
#[derive(Debug)]
enum Event {
    /// A daemon answered, or did not.
    Answer {
        /// Which one, from 0.
        number: usize,
        /// Since the start.
        at: Duration,
        answer: Box<Result<Status, String>>,
        /// What it knows of the others, if it is the only one that is asked.
        others: Vec<Status>,
    },
    Key(KeyEvent),
    Resize,
    /// A signal, or the terminal is gone.
    End,
}

impl Top {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            let problem = "`cards top` is for a terminal; elsewhere use `cards status --watch --json`".into();
            return Err(Error::Usage { problem });
        }
        let sockets = match &self.dir {
            Some(dir) => sockets_in(dir)?,
            None => self.sockets,
        };
        // Before any thread is started, so that all inherit the block.
        let signals = Signals::block();
        terminal::give_back_on_panic();
        let (to, events) = mpsc::channel();
        start_threads(&sockets, self.interval, signals, &to);
        let mut terminal = Terminal::enter().map_err(Error::Output)?;
        let done = watch(&mut terminal, Screen::new(sockets, self.interval), &events);
        drop(terminal);
        match done {
            // The terminal was closed.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe || e.raw_os_error() == Some(libc::EIO) => Ok(()),
            other => other.map_err(Error::Output),
        }
    }
}

/// The admin sockets of daemons whose directories are in `dir`, by the numbers in their names.
fn sockets_in(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let usage = |reason: String| Error::Usage { problem: format!("--dir {}: {reason}", dir.display()) };
    let entries = std::fs::read_dir(dir).map_err(|e| usage(format!("{e}; name a directory")))?;
    let mut sockets: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join("admin.sock")))
        .filter(|socket| socket.exists())
        .collect();
    // node2 before node10.
    sockets.sort_by_cached_key(|path| (path.as_os_str().len(), path.clone()));
    match sockets.len() {
        0 => Err(usage("no directory in it has an admin.sock; name the $CARDS_DIR of a `cards dev`".into())),
        1..=SOCKETS_MAX => Ok(sockets),
        many => Err(usage(format!("{many} daemons are too many to watch; name at most 256 with --socket"))),
    }
}

/// One thread for each daemon, one for the keys, one for the signals.
fn start_threads(sockets: &[PathBuf], interval: Duration, signals: Signals, to: &Sender<Event>) {
    let start = Instant::now();
    let all = sockets.len() == 1;
    for (number, path) in sockets.iter().cloned().enumerate() {
        let to = to.clone();
        thread::spawn(move || source::watch(number, path, all, start, interval, to));
    }
    let keys = to.clone();
    thread::spawn(move || {
        loop {
            let event = match event::read() {
                Ok(event::Event::Key(key)) if key.kind == KeyEventKind::Press => Event::Key(key),
                Ok(event::Event::Resize(..)) => Event::Resize,
                Ok(_) => continue,
                Err(_) => Event::End,
            };
            let last = matches!(event, Event::End);
            if keys.send(event).is_err() || last {
                return;
            }
        }
    });
    let ends = to.clone();
    thread::spawn(move || {
        while !signals.wait(Duration::from_secs(3600)).is_some_and(Arrived::ends) {}
        // Nobody listens if it ends by itself at this moment.
        let _ = ends.send(Event::End);
    });
}

/// Draws and does what the keys ask for, until the end.
fn watch(terminal: &mut Terminal, mut screen: Screen, events: &Receiver<Event>) -> io::Result<()> {
    // When what has been heard is shown.
    let mut update: Option<Instant> = None;
    loop {
        let size = Terminal::size();
        terminal.draw(view::lines(&screen, size.0, size.1), size)?;
        loop {
            let wait = update.map_or(screen.interval, |at| at.saturating_duration_since(Instant::now()));
            match events.recv_timeout(wait) {
                Ok(Event::Answer { number, at, answer, others }) => {
                    screen.heard(number, at, *answer);
                    screen.heard_of(at, others);
                    update.get_or_insert_with(|| Instant::now() + TOGETHER);
                    continue;
                }
                Ok(Event::Key(key)) => match screen.key(key, size.0, view::scroll_max(&screen, size)) {
                    Next::Stay => {}
                    Next::Quit => return Ok(()),
                    Next::Stop => terminal.stop()?,
                },
                Ok(Event::Resize) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            break;
        }
        if update.is_some_and(|at| at <= Instant::now()) {
            update = None;
            screen.update();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_of_a_directory_are_found_by_number() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["node10", "node2", "node1", "other"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            if name != "other" {
                std::fs::write(dir.path().join(name).join("admin.sock"), "").unwrap();
            }
        }
        std::fs::write(dir.path().join("node1.toml"), "").unwrap();
        let found = sockets_in(dir.path()).unwrap();
        let found: Vec<_> =
            found.iter().map(|path| path.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(found, ["node1/admin.sock", "node2/admin.sock", "node10/admin.sock"]);
    }

    #[test]
    fn a_directory_without_daemons_is_wrong_usage() {
        let dir = tempfile::tempdir().unwrap();
        for dir in [dir.path(), Path::new("/nonexistent")] {
            let error = sockets_in(dir).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(&dir.display().to_string()), "{error}");
        }
    }

    #[test]
    fn daemons_are_not_asked_all_the_time() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        for text in ["0s", "99ms", "2h", "often"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
