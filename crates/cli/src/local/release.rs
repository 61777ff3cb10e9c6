//! A volume ceases to be a device of this machine.

use std::time::Duration;

use cards_admin::{Client, ClientError, RefusalKind};

use super::attachment::{Origin, settled};
use super::turn::Turn;
use super::users::User;
use super::{By, LocalError, Place, Server, card, server, tool, users};
use crate::signals::Signals;

/// How long the card may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How a volume is detached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Release {
    /// Although it is in use: what uses it goes on, unseen, and the rest follows when it ends.
    pub(crate) lazy: bool,
    /// The card stays.
    pub(crate) keep_card: bool,
    /// Only if it was attached for a mount.
    pub(crate) only_of_mount: bool,
}

/// What has become of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// It is no device here any more; why its card is still there, if it is.
    Gone {
        /// Why the card stays, if it was to go.
        card: Option<String>,
        /// The process that served it was killed.
        killed: bool,
    },
    /// It stays as it is: it was attached by itself, or others use it.
    Stays(Vec<User>),
    /// It goes when the process that serves it sees that nobody uses it.
    Later(u32),
}

impl Released {
    /// What the user should know of it.
    pub(crate) fn notes(&self, place: &Place) -> Vec<String> {
        let volume = place.volume();
        match self {
            Self::Gone { card, killed } => {
                let lost = "the process that served it was killed: what was not synced before is lost";
                let stays = card.as_ref().map(|reason| format!("the card stays: {reason}"));
                killed.then(|| format!("volume {volume:?}: {lost}")).into_iter().chain(stays).collect()
            }
            Self::Stays(users) if users.is_empty() => Vec::new(),
            Self::Stays(users) => {
                vec![format!("volume {volume:?} stays attached, for it is {}", users::list(users))]
            }
            Self::Later(pid) => vec![format!(
                "volume {volume:?} is still in use, unseen, and served by process {pid} until its last user ends; \
                 write it nowhere else before; then run `cards detach {volume}` to give its card up"
            )],
        }
    }
}

/// Detaches the volume at `place`.
///
/// # Errors
/// It is in use and not to be detached lazily, or it cannot be detached.
pub(crate) fn release(place: &Place, how: Release, signals: &Signals) -> Result<Released, LocalError> {
    if place.dir()?.is_none() {
        return Err(LocalError::NotHere { volume: place.volume().into() });
    }
    let _turn = Turn::take(place, signals)?;
    let server = settled(place, signals)?;
    let origin = Origin::of(place);
    if how.only_of_mount && origin.is_some_and(|origin| origin.by != By::Mount) {
        return Ok(Released::Stays(Vec::new()));
    }
    if server == Server::None && origin.is_none() {
        return Err(LocalError::NotHere { volume: place.volume().into() });
    }
    let users = server.users(place);
    if !users.is_empty() && !how.lazy {
        if how.only_of_mount {
            return Ok(Released::Stays(users));
        }
        return Err(LocalError::InUse { volume: place.volume().into(), users: users::list(&users) });
    }
    unmount_lazily(&users)?;
    match &server {
        Server::Running(record) if users.is_empty() => server::end(place, record)?,
        Server::Running(record) => {
            if !server::let_go(place, record)? {
                return Ok(Released::Later(record.pid));
            }
        }
        Server::Dead(left) => server::clean_up(place, left.as_ref())?,
        Server::None => {}
    }
    let card = match origin {
        Some(Origin { made_card: true, .. }) if !how.keep_card => give_up(place)?,
        _ => None,
    };
    Origin::forget(place);
    Ok(Released::Gone { card, killed: matches!(server, Server::Dead(_)) })
}

/// Gives the card up; why it stays, if it does.
fn give_up(place: &Place) -> Result<Option<String>, LocalError> {
    let gone = Client::connect_within(place.socket(), TIMEOUT)
        .and_then(|mut client| card::give_up(&mut client, place.volume()));
    match gone {
        Ok(()) => Ok(None),
        // A daemon that does not serve has no cards, but for those of its configuration.
        Err(ClientError::Connect { .. }) => Ok(None),
        Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Starting => Ok(None),
        Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Busy => Ok(Some(refusal.message)),
        Err(error) => Err(error.into()),
    }
}

/// Takes the mounts out of the tree. Their end is that of their last use.
fn unmount_lazily(users: &[User]) -> Result<(), LocalError> {
    for user in users {
        if let User::Mount(point) = user {
            let done = tool::unmount(point, true).map_err(|source| LocalError::file(point, source))?;
            if !done.status.success() {
                return Err(LocalError::file(point, std::io::Error::other(tool::said(&done))));
            }
        }
    }
    Ok(())
}
