//! Reaching the daemon: the watch first, then the NBD connections it names.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{Claim, Client, ClientError, Refusal, RefusalKind, Reply, Request, Watching, to_line};
use cards_config::{Attach, Mode};
use cards_wire::nbd::client::{HandshakeError, OpenError, Ready};
use cards_wire::nbd::{self, EXCLUSIVE, Session};

use crate::link::Link;
use crate::watch::Watch;

/// How long one step of the handshakes may take.
const STEP_MAX: Duration = Duration::from_secs(5);
/// Pauses between attempts: from, to.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// Where the volume is.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The daemon's admin socket.
    pub(crate) socket: PathBuf,
    /// The volume.
    pub(crate) volume: String,
    /// How to attach it to a daemon that does not have it attached, as after a restart; none: not at all.
    pub(crate) mode: Option<Mode>,
    /// The daemon need not keep what has been read.
    pub(crate) exclusive: bool,
    /// NBD connections to open.
    pub(crate) connections: usize,
    /// What the last daemon has said of the card, if that had the volume for itself: see [`Watching::claim`].
    pub(crate) claim: Option<Claim>,
}

/// A daemon that serves the volume.
#[derive(Debug)]
pub(crate) struct Connected {
    /// What it said about it.
    pub(crate) watching: Watching,
    /// Where it withdraws pages.
    pub(crate) watch: Watch,
    /// Where requests go.
    pub(crate) links: Vec<Link>,
    /// What the NBD handshake settled.
    pub(crate) session: Session,
}

/// Why there is no daemon that serves the volume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// Nobody listens, or the connection broke.
    #[error("{}: {source}; is the daemon running? (`systemctl start cards`, or `cards serve --config /etc/cards/node.toml`; --socket names another one)", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The daemon refuses.
    #[error(transparent)]
    Refused(Refusal),
    /// It does not have the volume attached, and cannot attach it.
    #[error("cannot attach it again: {0}")]
    Attach(ClientError),
    /// The volume was this device's alone and may have been another's since: what its kernel remembers is void.
    #[error("{0}")]
    Overtaken(String),
    /// It had to be attached, and now is.
    #[error("the daemon had to attach it again")]
    Attached,
    /// The answer is none.
    #[error("{}: the answer is not understood; are daemon and device of the same version?", path.display())]
    BadReply { path: PathBuf },
    /// There is no NBD socket.
    #[error("the daemon has no NBD socket; set `unix` in the [nbd] section of its configuration")]
    NoNbd,
    /// The NBD server refuses.
    #[error("{}: {source}", path.display())]
    Handshake { path: PathBuf, source: HandshakeError },
    /// The NBD server is too old.
    #[error("{}: the NBD server offers no structured replies; it is not the daemon", path.display())]
    TooOld { path: PathBuf },
}

impl Target {
    /// The name of its export.
    fn export(&self) -> String {
        let asked = if self.exclusive { EXCLUSIVE } else { "" };
        format!("{}{asked}", self.volume)
    }
}

impl SessionError {
    /// Whether it may be otherwise in a moment.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Attached => true,
            Self::Refused(refusal) => {
                matches!(refusal.kind, RefusalKind::Unreachable | RefusalKind::Starting)
            }
            Self::Attach(ClientError::Refused(refusal)) => refusal.kind == RefusalKind::Starting,
            Self::Attach(_) => true,
            Self::Overtaken(_)
            | Self::BadReply { .. }
            | Self::NoNbd
            | Self::Handshake { .. }
            | Self::TooOld { .. } => false,
        }
    }

    /// Whether it is so for ever, for this device.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Overtaken(_))
    }
}

/// Reaches the daemon, once.
///
/// # Errors
/// [`SessionError`].
pub(crate) fn connect(target: &Target) -> Result<Connected, SessionError> {
    let at = |source| SessionError::Io { path: target.socket.clone(), source };
    let mut watch = Watch::new(open(&target.socket)?);
    let request = Request::Watch { volume: target.volume.clone(), claim: target.claim };
    let line = watch.call(&to_line(&request)).map_err(at)?;
    let watching = match serde_json::from_slice(&line) {
        Ok(Reply::Watching(watching)) => watching,
        Ok(Reply::Error(refusal)) => {
            return Err(match (refusal.kind, target.mode) {
                (RefusalKind::NotAttached, Some(mode)) => {
                    attach(target, mode)?;
                    SessionError::Attached
                }
                (RefusalKind::Overtaken, _) => SessionError::Overtaken(refusal.message),
                _ => SessionError::Refused(refusal),
            });
        }
        _ => return Err(SessionError::BadReply { path: target.socket.clone() }),
    };
    watch.set_nonblocking().map_err(at)?;
    let path = watching.nbd.clone().ok_or(SessionError::NoNbd)?;
    let mut opened: Option<Session> = None;
    let mut links = Vec::new();
    for _ in 0..target.connections {
        let (stream, ready) = handshake(&path, &target.export())?;
        if !ready.session.structured_replies {
            return Err(SessionError::TooOld { path });
        }
        let at = |source| SessionError::Io { path: path.clone(), source };
        links.push(Link::new(stream, &ready.session).map_err(at)?);
        opened = Some(ready.session);
    }
    let session = opened.ok_or(SessionError::NoNbd)?;
    Ok(Connected { watching, watch, links, session })
}

/// Attaches the volume: as it was, if this device had it for itself.
fn attach(target: &Target, mode: Mode) -> Result<(), SessionError> {
    let claim = target.claim;
    let mode = if claim.is_some() { Mode::Exclusive } else { mode };
    let attached = Client::connect_within(&target.socket, STEP_MAX)
        .and_then(|mut daemon| daemon.attach(Attach { mode, claim, ..Attach::new(&target.volume) }));
    match attached {
        Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::AlreadyAttached => Ok(()),
        Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Overtaken => {
            Err(SessionError::Overtaken(refusal.message))
        }
        done => done.map_err(SessionError::Attach),
    }
}

/// Reaches the daemon within `limit`, however often it takes, unless it refuses.
///
/// # Errors
/// The reason why not.
pub(crate) fn connect_within(target: &Target, limit: Duration) -> Result<Connected, SessionError> {
    let end = Instant::now() + limit;
    let mut pause = PAUSE.0;
    loop {
        match connect(target) {
            Err(error) if error.passes() && Instant::now() < end => {}
            done => return done,
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Reaches the daemon however long it takes, on a thread of its own, and calls `tell`; also, for the log, why not.
/// Gives up when `ended`, or when that [is final](SessionError::is_final).
///
/// # Errors
/// There is no thread for it.
pub(crate) fn connect_again(
    target: Target,
    tell: impl Fn(Result<Connected, SessionError>) + Send + 'static,
    ended: Arc<AtomicBool>,
) -> io::Result<()> {
    let work = move || {
        let mut pause = PAUSE.0;
        let mut told = String::new();
        while !ended.load(Ordering::Relaxed) {
            let error = match connect(&target) {
                Ok(connected) => return tell(Ok(connected)),
                Err(error) => error,
            };
            if error.is_final() {
                return tell(Err(error));
            }
            let words = error.to_string();
            if words != told {
                told = words;
                tell(Err(error));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    };
    thread::Builder::new().name("connect".into()).spawn(work).map(drop)
}

fn open(path: &Path) -> Result<UnixStream, SessionError> {
    let at = |source| SessionError::Io { path: path.into(), source };
    let stream = UnixStream::connect(path).map_err(at)?;
    stream.set_read_timeout(Some(STEP_MAX)).map_err(at)?;
    stream.set_write_timeout(Some(STEP_MAX)).map_err(at)?;
    Ok(stream)
}

fn handshake(path: &Path, export: &str) -> Result<(UnixStream, Ready), SessionError> {
    let mut stream = open(path)?;
    let at = |source| SessionError::Io { path: path.into(), source };
    match nbd::client::open(&mut stream, export) {
        Ok(ready) => Ok((stream, ready)),
        Err(OpenError::Io(source)) => Err(at(source)),
        Err(OpenError::Closed) => Err(at(io::ErrorKind::UnexpectedEof.into())),
        Err(OpenError::Handshake(source)) => Err(SessionError::Handshake { path: path.into(), source }),
    }
}
