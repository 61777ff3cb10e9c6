//! The cards of this node: attachments of volumes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cards_admin::Claim;
use cards_config::{Attach, Mode};
use cards_core::{Instant, IoError, PgId, Refusal};

use super::parts::{Part, Parts};
use crate::failures::Failures;
use crate::limits::Limiter;

/// All cards of a node.
#[derive(Debug, Default)]
pub(crate) struct Cards {
    cards: Mutex<Vec<Arc<Card>>>,
}

/// One card.
#[derive(Debug)]
pub(crate) struct Card {
    /// What was asked for.
    pub(crate) attach: Attach,
    /// The groups of the volume, once a volume of that name is known.
    parts: OnceLock<Arc<Parts>>,
    state: Mutex<CardState>,
    clients: AtomicU32,
    /// What its clients may have of it.
    limiter: Limiter,
    /// Why the disk node does not attach it again, as the log says it.
    gone: Mutex<Option<Refusal>>,
    /// When a flush failed last because writes were lost, in milliseconds since 1970, of which group, and why.
    lost: Mutex<Option<Loss>>,
    /// Requests that failed, though they were right.
    pub(crate) failures: Failures,
    /// Cards in the way are given up: until it is attached once, for two must not take a volume from each other.
    pub(crate) takeover: AtomicBool,
    /// It had the volume for itself, and another node has had it since: what its clients remember is void.
    pub(crate) over: AtomicBool,
}

/// Where an attachment stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CardState {
    /// The disk node has not been heard of, or has not answered.
    Waiting,
    /// Clients can be served.
    Attached,
    /// The disk node has refused: why, and what to do.
    Refused(Refusal, String),
}

impl Card {
    fn new(attach: Attach) -> Self {
        Self {
            parts: OnceLock::new(),
            state: Mutex::new(CardState::Waiting),
            clients: AtomicU32::new(0),
            limiter: Limiter::new(attach.limit),
            gone: Mutex::default(),
            lost: Mutex::default(),
            failures: Failures::default(),
            takeover: AtomicBool::new(attach.takeover),
            over: AtomicBool::new(false),
            attach,
        }
    }

    /// Its clients get errors until they end, and a new card is attached.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// What the volume is known by: the first of its groups.
    pub(crate) fn volume(&self) -> Option<PgId> {
        self.parts.get().map(|parts| parts.first())
    }

    /// The groups of the volume.
    pub(crate) fn parts(&self) -> Option<&Arc<Parts>> {
        self.parts.get()
    }

    /// The numbers of all groups of the volume; none while it is not known.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PgId> + '_ {
        self.parts.get().into_iter().flat_map(|parts| parts.ids())
    }

    pub(crate) fn state(&self) -> CardState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Clients that use it now.
    pub(crate) fn clients(&self) -> u32 {
        self.clients.load(Relaxed)
    }

    /// What its clients may have of it, all together.
    pub(crate) fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// When and where a flush failed last because writes were lost.
    pub(crate) fn lost(&self) -> Option<Loss> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_state(&self, state: CardState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// A flush has failed because writes were lost: says why one failed before.
    pub(crate) fn set_lost(&self, loss: Loss) -> Option<IoError> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.replace(loss).map(|before| before.error)
    }

    /// The card was given up, and is refused with `refusal`, or it is attached again: says whether that is news.
    pub(crate) fn set_gone(&self, refusal: Option<&Refusal>) -> bool {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let news = gone.as_ref() != refusal;
        *gone = refusal.cloned();
        news
    }

    /// The volume of its name has become known, with these parts: false if it was known before.
    pub(crate) fn is_of(&self, parts: Parts) -> bool {
        self.parts.set(Arc::new(parts)).is_ok()
    }

    /// The part of this number, if the volume has it.
    pub(crate) fn part(&self, of: PgId) -> Option<&Part> {
        let parts = self.parts.get()?;
        parts.all().get(parts.number(of)?)
    }
}

/// A flush that has failed because writes were lost.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// When, in milliseconds since 1970.
    pub(crate) time_ms: u64,
    pub(crate) of: PgId,
    /// Who answered it: another node may lead the group since.
    pub(crate) disk_node: String,
    pub(crate) error: IoError,
}

/// Why a flush has failed, for people. `lone`: the disk of the only copy of a group, as `NODE:DISK`, if it has one only.
pub(crate) fn reason_of_loss(of: PgId, error: IoError, lone: Option<&str>) -> String {
    match (error, lone) {
        (IoError::SyncFailed, _) => "a sync failed".to_owned(),
        (_, Some(place)) => format!(
            "the node of {place}, which has the only copy, ended before what was written was flushed there: if its machine lost power, writes may \
             be lost; if only its daemon was killed, none is"
        ),
        _ if !of.is_plain() => {
            "all copies in sync ended at once: if their machines lost power, writes may be lost; if only their daemons were killed, none is".to_owned()
        }
        _ => "the machine lost power, or the journal of the disk was lost".to_owned(),
    }
}

/// A client's use of a card, from its choice of the export to its end.
pub(crate) struct Seat(Arc<Card>);

impl Seat {
    pub(crate) fn new(card: &Arc<Card>) -> Self {
        card.clients.fetch_add(1, Relaxed);
        Self(Arc::clone(card))
    }
}

impl std::ops::Deref for Seat {
    type Target = Card;

    fn deref(&self) -> &Card {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Relaxed);
    }
}

impl Cards {
    /// The cards a node begins with. `claims`: of devices that have lived on.
    pub(crate) fn new(attach: &[Attach], claims: &BTreeMap<String, Claim>) -> Self {
        let card = |attach: &Attach| {
            let Some(&claim) = claims.get(&attach.volume) else { return Card::new(attach.clone()) };
            if attach.mode != Mode::Exclusive {
                tracing::warn!(
                    volume = attach.volume,
                    "attached as exclusive, not as {}: a device here has it for itself",
                    attach.mode.name()
                );
            }
            Card::new(Attach { mode: Mode::Exclusive, claim: Some(claim), ..attach.clone() })
        };
        Self { cards: Mutex::new(attach.iter().map(card).map(Arc::new).collect()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Card>>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Card>> {
        self.lock().clone()
    }

    /// The card of the volume of this name; the empty name is the only card there is.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Card>> {
        let cards = self.lock();
        match (&cards[..], name) {
            ([card], "") => Some(Arc::clone(card)),
            _ => cards.iter().find(|card| card.attach.volume == name).cloned(),
        }
    }

    /// The card of the volume that has this group.
    pub(crate) fn of(&self, volume: PgId) -> Option<Arc<Card>> {
        self.lock().iter().find(|card| card.part(volume).is_some()).cloned()
    }

    /// When the lease of a group's card ends, if it has one.
    pub(crate) fn lease_of(&self, volume: PgId) -> Option<Instant> {
        self.of(volume)?.part(volume)?.lease()
    }

    /// Adds a card; nothing if the volume has one.
    pub(crate) fn add(&self, attach: Attach) -> Option<Arc<Card>> {
        let mut cards = self.lock();
        if cards.iter().any(|card| card.attach.volume == attach.volume) {
            return None;
        }
        let card = Arc::new(Card::new(attach));
        cards.push(Arc::clone(&card));
        Some(card)
    }

    pub(crate) fn remove(&self, name: &str) -> Option<Arc<Card>> {
        let mut cards = self.lock();
        let at = cards.iter().position(|card| card.attach.volume == name)?;
        Some(cards.remove(at))
    }
}
