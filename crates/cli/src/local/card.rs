//! The card that a device of this machine needs.

use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, RefusalKind, VolumeState};
use cards_config::{Attach, Mode};

use super::LocalError;
use crate::signals::Signals;

/// How long the daemon may take to notice that a client has gone.
const GONE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// The card of a volume, as it was found or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// What its clients may do.
    pub(crate) mode: Mode,
    /// It was not there before.
    pub(crate) made: bool,
    /// The volume cannot be written by anybody.
    pub(crate) read_only: bool,
}

impl Card {
    /// The card that is there, whatever its mode, or else a new one.
    ///
    /// # Errors
    /// There is none, and none can be made; or a signal asked this program to end before the daemon has answered.
    pub(crate) fn find_or_make(
        client: &mut Client,
        attach: &Attach,
        signals: &Signals,
    ) -> Result<Self, LocalError> {
        let line = client.hang_up()?;
        let (answer, interrupted) = signals.during(
            || line.now(),
            || -> Result<_, ClientError> {
                let made = match client.attach(attach.clone()) {
                    Ok(()) => true,
                    Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::AlreadyAttached => {
                        false
                    }
                    Err(error) => return Err(error),
                };
                Ok((made, client.volume(&attach.volume)?))
            },
        );
        let Some(answer) = answer else {
            return Err(LocalError::Unanswered { volume: attach.volume.clone() });
        };
        let (made, volume) = answer?;
        if interrupted {
            if made {
                client.detach(&attach.volume)?;
            }
            return Err(LocalError::Interrupted);
        }
        let Some(card) = &volume.attached else {
            let reason = "somebody detaches it just now; try again".into();
            return Err(LocalError::CardRefused { volume: volume.name, reason });
        };
        if volume.state == VolumeState::Refused {
            let reason = volume.reason.unwrap_or_else(|| "its card was refused; see `cards status`".into());
            return Err(LocalError::CardRefused { volume: volume.name, reason });
        }
        Ok(Self { mode: card.mode, made, read_only: volume.read_only == Some(true) })
    }

    /// Whether it does what a card of mode `wanted` does.
    pub(crate) const fn serves(self, wanted: Mode) -> bool {
        match wanted {
            Mode::Ro => true,
            Mode::Rw => matches!(self.mode, Mode::Rw | Mode::Exclusive),
            Mode::Exclusive => matches!(self.mode, Mode::Exclusive),
        }
    }
}

/// Gives the card of a volume up; that there is none is no matter.
///
/// # Errors
/// The daemon does not answer, or somebody uses it.
pub(crate) fn give_up(client: &mut Client, volume: &str) -> Result<(), ClientError> {
    let deadline = Instant::now() + GONE;
    loop {
        match client.detach(volume) {
            Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::NotAttached => return Ok(()),
            Err(ClientError::Refused(refusal))
                if refusal.kind == RefusalKind::Busy && Instant::now() < deadline =>
            {
                std::thread::sleep(LOOK);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_serves_what_needs_no_more_than_it_gives() {
        let serves = |mode, wanted| Card { mode, made: false, read_only: false }.serves(wanted);
        assert!(Mode::ALL.into_iter().all(|mode| serves(mode, Mode::Ro) && serves(mode, mode)));
        assert!(serves(Mode::Exclusive, Mode::Rw));
        assert!(!serves(Mode::Rw, Mode::Exclusive) && !serves(Mode::Ro, Mode::Rw));
    }
}
