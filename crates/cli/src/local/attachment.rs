//! A volume that becomes a device of this machine, all of it or nothing.

use std::time::Duration;

use cards_admin::Client;
use cards_device::Description;
use serde::{Deserialize, Serialize};

use super::place::CARD;
use super::start::{Service, start};
use super::turn::Turn;
use super::{Card, LocalError, Place, Server, card, server, users};
use crate::signals::Signals;

/// How long a server may take between its lock and its record.
const LOOKS: u32 = 20;
const LOOK: Duration = Duration::from_millis(100);

/// Who attached a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// `cards attach`: it stays until `cards detach`.
    Attach,
    /// `cards mount`: it goes with the mount.
    Mount,
}

/// How a volume came to be attached, kept in `VOLUME.card` until it is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Who attached it.
    pub(crate) by: By,
    /// The card was made for it, and is given up with it.
    pub(crate) made_card: bool,
}

impl Origin {
    /// That of a volume; none if nobody has attached it so.
    pub(crate) fn of(place: &Place) -> Option<Self> {
        serde_json::from_slice(&place.read(CARD).ok()??).ok()
    }

    /// Keeps it.
    ///
    /// # Errors
    /// The file cannot be written.
    fn keep(self, place: &Place) -> Result<(), LocalError> {
        let text = serde_json::to_string(&self)
            .map_err(|error| LocalError::file(&place.path(CARD), error.into()))?;
        Ok(place.make_dir()?.replace(&place.name(CARD), (text + "\n").as_bytes())?)
    }

    /// Keeps that it was attached, once more perhaps: what was attached by itself does not go with a mount.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(place: &Place, by: By, card: Card) -> Result<(), LocalError> {
        let before = Self::of(place);
        let by = before.map_or(by, |before| if before.by == By::Attach { By::Attach } else { by });
        let made_card = card.made || before.is_some_and(|before| before.made_card);
        Self { by, made_card }.keep(place)
    }

    /// Keeps what was kept before.
    fn restore(place: &Place, before: Option<Self>) {
        // The error that led here is what must be told.
        match before {
            Some(before) => drop(before.keep(place)),
            None => Self::forget(place),
        }
    }

    /// Forgets it.
    pub(crate) fn forget(place: &Place) {
        // One that was never kept is forgotten already.
        let _ = place.remove(CARD);
    }
}

/// Takes the turn, and sees to it that what a killed server has left is gone.
///
/// # Errors
/// Somebody else is at it, or what is left is in use.
pub(crate) fn prepare(place: &Place, signals: &Signals) -> Result<(Turn, Server), LocalError> {
    place.make_dir()?;
    let turn = Turn::take(place, signals)?;
    let server = settled(place, signals)?;
    let Server::Dead(left) = &server else { return Ok((turn, server)) };
    let users = server.users(place);
    if !users.is_empty() {
        return Err(LocalError::DeadInUse { volume: place.volume().into(), users: users::list(&users) });
    }
    server::clean_up(place, left.as_ref())?;
    Ok((turn, Server::None))
}

/// The server, once it has said what it serves.
///
/// # Errors
/// It does not.
pub(crate) fn settled(place: &Place, signals: &Signals) -> Result<Server, LocalError> {
    for _ in 0..LOOKS {
        match Server::of(place) {
            Err(LocalError::Starting { .. }) if signals.end_within(LOOK) => {
                return Err(LocalError::Interrupted);
            }
            Err(LocalError::Starting { .. }) => {}
            found => return found,
        }
    }
    Server::of(place)
}

/// A volume that is a device of this machine.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// What serves it.
    pub(crate) record: Description,
    /// It was not served before.
    started: bool,
    /// How it was attached before, if it was.
    before: Option<Origin>,
}

impl Attachment {
    /// Serves the volume through its card, unless `server` does so already.
    ///
    /// # Errors
    /// It cannot be served so; a card that was made for it is given up again.
    pub(crate) fn new(
        place: &Place,
        client: &mut Client,
        server: Server,
        (card, by): (Card, By),
        service: Service,
        signals: &Signals,
    ) -> Result<Self, LocalError> {
        let before = Origin::of(place);
        if let Server::Running(record) = server {
            if (service.block || service.ublk) && record.block.is_none() {
                return Err(LocalError::OnlyFile { volume: place.volume().into(), path: record.path });
            }
            if service.ublk && !record.is_ublk() {
                return Err(LocalError::OnlyLoop {
                    volume: place.volume().into(),
                    path: record.device().into(),
                });
            }
            Origin::add(place, by, card)?;
            return Ok(Self { record, started: false, before });
        }
        match Origin::add(place, by, card).and_then(|()| start(place, service, signals)) {
            Ok(record) => Ok(Self { record, started: true, before }),
            Err(error) => {
                Origin::restore(place, before);
                give_up(place, client, card);
                Err(error)
            }
        }
    }

    /// Makes undone what [`Self::new`] has done.
    pub(crate) fn undo(self, place: &Place, client: &mut Client, card: Card) {
        if !self.started || server::end(place, &self.record).is_ok() {
            Origin::restore(place, self.before);
            give_up(place, client, card);
        }
    }
}

/// Gives a card up that was made for nothing.
pub(crate) fn give_up(place: &Place, client: &mut Client, card: Card) {
    if card.made {
        // What cannot be undone is seen in `cards status`; the error that led here is what must be told.
        let _ = card::give_up(client, place.volume());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_volume_was_attached_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(&dir.path().join("admin.sock"), "data").unwrap();
        place.make_dir().unwrap();
        assert_eq!(Origin::of(&place), None);
        let origin = Origin { by: By::Mount, made_card: true };
        origin.keep(&place).unwrap();
        assert_eq!(Origin::of(&place), Some(origin));
        assert_eq!(place.read(CARD).unwrap().unwrap(), b"{\"by\":\"mount\",\"made_card\":true}\n");
        Origin::forget(&place);
        Origin::forget(&place);
        assert_eq!(Origin::of(&place), None);
    }
}
