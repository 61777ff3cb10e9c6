//! The way to the daemon: it is there, or it is gone and looked for.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cards_admin::Word;

use crate::inbox::{Input, Mailbox};
use crate::link::Lost;
use crate::session::{Connected, SessionError, Target, connect_again};

/// What a server needs to know to stay in touch.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where the daemon is.
    pub(crate) target: Target,
    /// Bytes of the volume.
    pub(crate) size: u64,
    /// Nothing may be written.
    pub(crate) read_only: bool,
    /// How long requests wait for a daemon; none: for ever.
    pub(crate) give_up: Option<Duration>,
}

/// The daemon, as a server sees it.
#[derive(Debug)]
pub(crate) struct Uplink {
    settings: Settings,
    /// Told when there is a daemon again.
    mailbox: Mailbox,
    /// Set when nobody needs one any more.
    ended: Arc<AtomicBool>,
    /// None while it is gone, and while what it says is being heard.
    pub(crate) daemon: Option<Box<Connected>>,
    /// Since when it is gone.
    gone: Option<Instant>,
    /// Requests are to be answered with EIO: it is gone for too long, or its volume is another one.
    refusing: bool,
}

impl Uplink {
    /// No daemon yet; nobody looks for one until [`Self::reach`].
    pub(crate) fn new(settings: Settings, mailbox: Mailbox, ended: Arc<AtomicBool>) -> Self {
        Self { settings, mailbox, ended, daemon: None, gone: None, refusing: false }
    }

    /// Whether requests are to be answered with EIO.
    pub(crate) fn is_refusing(&self) -> bool {
        self.refusing
    }

    /// Takes a daemon that serves the volume. If the volume is another one than before, it does not, and refuses from
    /// now on. One that has grown is the same: the device keeps its size.
    pub(crate) fn take(&mut self, daemon: Box<Connected>) {
        let Settings { size: had, read_only: was, .. } = self.settings;
        let (size, read_only) = (daemon.session.size, daemon.session.read_only());
        if size < had || read_only != was {
            tracing::error!(
                "the volume has {size} bytes now and had {had}, read-only {read_only} and was {was}: requests fail \
                 with EIO from now on; detach it and attach it again"
            );
            self.refusing = true;
            return;
        }
        if let Some(gone) = self.gone.take() {
            tracing::info!("the daemon is back after {:?}", gone.elapsed());
        }
        self.refusing = false;
        // Whether it still has the volume for itself, only a daemon can say that knows of this card.
        self.settings.target.claim = daemon.watching.claim.or(self.settings.target.claim);
        self.daemon = Some(daemon);
    }

    /// There is no daemon; says so. Whether there never will be one: then it refuses from now on.
    pub(crate) fn missed(&mut self, error: &SessionError) -> bool {
        if error.is_final() {
            tracing::error!("{error}; requests fail with EIO from now on");
            self.refusing = true;
        } else {
            tracing::warn!("waiting for the daemon: {error}");
        }
        error.is_final()
    }

    /// The connection broke.
    pub(crate) fn lose(&mut self, why: &Lost) {
        if self.daemon.take().is_some() {
            tracing::warn!("the daemon is gone ({why}); requests wait for it");
        }
    }

    /// Looks for a daemon if it has just been lost.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn reach(&mut self) -> io::Result<()> {
        if self.daemon.is_some() || self.gone.is_some() {
            return Ok(());
        }
        self.gone = Some(Instant::now());
        let mailbox = self.mailbox.clone();
        let tell = move |reached| {
            mailbox.send(match reached {
                Ok(connected) => Input::Connected(Box::new(connected)),
                Err(error) => Input::NotConnected(error),
            });
        };
        connect_again(self.settings.target.clone(), tell, self.ended.clone())
    }

    /// When requests will have waited for long enough.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match (self.gone, self.settings.give_up) {
            (Some(gone), Some(limit)) if !self.refusing => gone.checked_add(limit),
            _ => None,
        }
    }

    /// Whether they have just now: then it refuses from now on, until there is a daemon.
    pub(crate) fn expires(&mut self) -> bool {
        let expires = self.deadline().is_some_and(|end| Instant::now() >= end);
        if expires {
            let limit = self.settings.give_up.unwrap_or_default();
            tracing::error!(
                "no daemon for {limit:?}: requests fail with EIO from now on, until there is one"
            );
            self.refusing = true;
        }
        expires
    }

    /// Tells the daemon something, if it is there; [`Self::send`] sends it.
    pub(crate) fn say(&mut self, word: &Word) {
        if let Some(daemon) = &mut self.daemon {
            daemon.watch.say(word);
        }
    }

    /// Sends what was queued.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn send(&mut self) -> Result<(), Lost> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        daemon.links.iter_mut().try_fold(daemon.watch.send()?, |(), link| link.send())
    }

    /// The descriptors to wait for, and whether there is something to write to each.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.daemon.iter().flat_map(|daemon| {
            let links = daemon.links.iter().map(|link| (link.as_fd(), link.is_behind()));
            std::iter::once((daemon.watch.as_fd(), daemon.watch.is_behind())).chain(links)
        })
    }
}
