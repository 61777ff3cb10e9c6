//! The cards of this node: attachments of volumes.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cards_admin::Claim;
use cards_config::{Attach, Attached, Mode};
use cards_core::{
    Access, ControlInput, FlushPoint, Generation, Input, Instant, IoError, Persistence, PgId, Refusal, Token,
    Unflushed, VolumeSpec,
};

use crate::failures::{Asked, ERRORS_REMEMBERED, Failures, REQUESTS_REMEMBERED};
use crate::limits::Limiter;
use crate::local::{Local, spawn};
use crate::node::Node;
use crate::report;

/// The token of all attachments: their answers are found by the volume.
const BY_VOLUME: Token = Token(0);
/// How long to wait before an attachment is tried again that another node's card kept out.
const RETRY: Duration = Duration::from_secs(1);
/// How long after the start a volume of `[[attach]]` may be unknown before the log says so, once all members are up.
const UNKNOWN: Duration = Duration::from_secs(3);

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
    /// The volume, once a volume of that name is known.
    volume: OnceLock<PgId>,
    state: Mutex<CardState>,
    clients: AtomicU32,
    /// What its clients may have of it.
    limiter: Limiter,
    /// When its lease ends, by the node's clock, in nanoseconds; zero while it has none.
    lease_until: AtomicU64,
    /// What is to be flushed.
    unflushed: Mutex<Unflushed>,
    /// Why the disk node does not attach it again, as the log says it.
    gone: Mutex<Option<Refusal>>,
    /// When a flush failed last because writes were lost, in milliseconds since 1970, and why.
    lost: Mutex<Option<(u64, IoError)>>,
    /// Requests that failed, though they were right.
    failures: Failures,
    /// Cards in the way are given up: until it is attached once, for two must not take a volume from each other.
    takeover: AtomicBool,
    /// It had the volume for itself, and another node has had it since: what its clients remember is void.
    over: AtomicBool,
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
            volume: OnceLock::new(),
            state: Mutex::new(CardState::Waiting),
            clients: AtomicU32::new(0),
            limiter: Limiter::new(attach.limit),
            lease_until: AtomicU64::new(0),
            unflushed: Mutex::default(),
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

    pub(crate) fn volume(&self) -> Option<PgId> {
        self.volume.get().copied()
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

    fn unflushed(&self) -> MutexGuard<'_, Unflushed> {
        self.unflushed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write that is not durable by itself is about to be answered.
    pub(crate) fn acknowledge(&self, life: Persistence) {
        self.unflushed().acknowledge(life);
    }

    /// A client's flush begins.
    pub(crate) fn begin_flush(&self) -> FlushPoint {
        self.unflushed().begin_flush()
    }

    /// A client's flush is about to be answered. A loss is logged, but not once more for each flush of a broken disk.
    pub(crate) fn end_flush(
        &self,
        node: &Node,
        volume: PgId,
        point: FlushPoint,
        result: Result<(), IoError>,
    ) {
        self.unflushed().end_flush(point, result);
        let Err(error @ (IoError::PowerLost | IoError::SyncFailed)) = result else { return };
        let time_ms = node.clock.now_and_utc_us().1 / 1_000;
        let before = self.lost.lock().unwrap_or_else(PoisonError::into_inner).replace((time_ms, error));
        if point.since != Persistence::NONE || before.is_none_or(|(_, before)| before != error) {
            tracing::warn!(
                volume = self.attach.volume,
                disk_node = node.name(volume.disk_node()),
                reason = reason_of_loss(error),
                "a flush has failed: what clients of this node wrote since the last good one may be lost"
            );
        }
    }

    /// When a flush failed last because writes were lost, in milliseconds since 1970, and why.
    pub(crate) fn lost(&self) -> Option<(u64, &'static str)> {
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.map(|(time_ms, error)| (time_ms, reason_of_loss(error)))
    }

    /// A client's request is about to fail.
    pub(crate) fn failed(&self, node: &Node, asked: Asked, error: IoError) {
        let (error, remembered) = match error {
            IoError::Io => ("the disk has failed", ERRORS_REMEMBERED),
            IoError::NoSpace => ("the disk is full", ERRORS_REMEMBERED),
            IoError::SyncFailed => ("a sync failed", ERRORS_REMEMBERED),
            IoError::NoAnswer => ("no answer in time", remembered(node)),
            IoError::OutcomeUnknown => ("whether it was done is not known", remembered(node)),
            IoError::PowerLost
            | IoError::NotPermitted
            | IoError::NotSupported
            | IoError::NotAttached
            | IoError::Busy
            | IoError::Invalid => return,
        };
        self.failures.note(node.now(), remembered, asked, error.into());
    }

    /// What to say of requests that failed not long ago.
    pub(crate) fn recent_failures(&self, node: &Node) -> Option<String> {
        self.failures.recent(node.now())
    }

    /// Why the disk node does not let it be attached, if that is so: at first, or since it was given up.
    pub(crate) fn refused(&self, node: &Node) -> Option<String> {
        if let CardState::Refused(_, reason) = self.state() {
            return Some(reason);
        }
        let volume = self.volume()?;
        let status = node.control().cards().find(|status| status.volume == volume && !status.attached)?;
        Some(explain(node, self, status.refused.as_ref()?))
    }

    /// The card was given up, and is refused with `refusal`, or it is attached again. Said in the log once.
    fn set_gone(&self, node: &Node, refusal: Option<Refusal>) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone == refusal {
            return;
        }
        let volume = &self.attach.volume;
        match &refusal {
            Some(refusal) => {
                let reason = explain(node, self, refusal);
                tracing::warn!(
                    volume,
                    "the card is lost, clients here get errors until it is back: {reason}"
                );
            }
            None => tracing::info!(volume, "the card is back"),
        }
        *gone = refusal;
    }

    fn set_state(&self, state: CardState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// How long after the last request that was not answered a volume is a problem.
fn remembered(node: &Node) -> Duration {
    REQUESTS_REMEMBERED.max(node.config.disk_wait * 3 / 2)
}

/// Why a flush has failed, for people.
const fn reason_of_loss(error: IoError) -> &'static str {
    match error {
        IoError::SyncFailed => "a sync failed",
        _ => "the machine lost power, or the journal of the disk was lost",
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

    /// The card of a volume.
    pub(crate) fn of(&self, volume: PgId) -> Option<Arc<Card>> {
        self.lock().iter().find(|card| card.volume() == Some(volume)).cloned()
    }

    /// When the lease of a volume's card ends, if it has one.
    pub(crate) fn lease_of(&self, volume: PgId) -> Option<Instant> {
        let until = self.of(volume)?.lease_until.load(Relaxed);
        (until > 0).then_some(Instant(until))
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

impl Local {
    /// Asks for the cards whose volume has become known.
    pub(crate) fn resolve_cards(self: &Rc<Self>) {
        for card in self.node.cards.all() {
            if card.volume().is_none()
                && let Some(spec) = self.node.volume(&card.attach.volume)
                && card.volume.set(spec.id).is_ok()
            {
                self.attach(&card, &spec);
            }
        }
    }

    /// Says once in the log which volumes of `[[attach]]` no node has.
    pub(crate) async fn miss_volumes(self: Rc<Self>) {
        loop {
            tokio::time::sleep(UNKNOWN).await;
            let cards = self.node.cards.all();
            let unknown = cards.iter().filter(|card| card.volume().is_none());
            let names: Vec<&str> = unknown.map(|card| card.attach.volume.as_str()).collect();
            if names.is_empty() {
                return;
            }
            if report::all_up(&self.node) {
                for name in names {
                    tracing::warn!(
                        "volume {name:?} of [[attach]] is not known: {}",
                        report::unknown_volume(&self.node)
                    );
                }
                return;
            }
        }
    }

    fn attach(self: &Rc<Self>, card: &Card, spec: &VolumeSpec) {
        let Attach { policy, mode, .. } = &card.attach;
        let (volume, takeover) = (spec.id, card.takeover.load(Relaxed));
        let policy = policy.as_ref().map(ToString::to_string).unwrap_or_default();
        let access = mode.access(spec.read_only);
        let claim = card.attach.claim.filter(|_| access == Access::Exclusive);
        if claim.is_some_and(|claim| claim.volume != volume.0) {
            // Of another volume nobody knows what was written since.
            return self.attach_done(volume, Err(Refusal::Overtaken(None)));
        }
        let succeeds = claim.map(|claim| Generation(claim.card));
        self.control(ControlInput::Attach { token: BY_VOLUME, volume, policy, access, takeover, succeeds });
    }

    /// A card's lease runs until then.
    pub(crate) fn leased(&self, volume: PgId, until: Instant) {
        if let Some(card) = self.node.cards.of(volume) {
            card.lease_until.store(until.0, Relaxed);
        }
        self.node.devices.leased(self.node.now(), volume, until, self.node.config.lease);
    }

    /// The disk node of a volume has attached or refused its card here. Of one that has been attached before, nobody else hears.
    pub(crate) fn card_answered(&self, volume: PgId) {
        let status = self.node.control().cards().find(|status| status.volume == volume);
        if let (Some(card), Some(status)) = (self.node.cards.of(volume), status)
            && card.state() == CardState::Attached
        {
            card.set_gone(&self.node, status.refused.filter(|_| !status.attached));
        }
    }

    /// The disk node has answered.
    pub(crate) fn attach_done(self: &Rc<Self>, volume: PgId, result: Result<Generation, Refusal>) {
        let Some(card) = self.node.cards.of(volume) else { return };
        let name = &card.attach.volume;
        match result {
            Ok(_) => {
                let leave = card.attach.attached.map(|attached| attached == Attached::Computer);
                self.all_shards(&Input::LeaveCopies { volume, leave });
                if let Some(spec) = self.node.volume(name) {
                    self.retain(name, volume, spec.block_bytes);
                }
                tracing::info!(volume = name, mode = card.attach.mode.name(), "attached");
                card.takeover.store(false, Relaxed);
                card.set_state(CardState::Attached);
                self.node.membership.look();
            }
            // Those who are in the way are being given up.
            Err(Refusal::NoAnswer) if card.takeover.load(Relaxed) => self.attach_later(card, volume),
            Err(refusal) => {
                let reason = explain(&self.node, &card, &refusal);
                let retry = matches!(refusal, Refusal::Exclusive(_) | Refusal::InUse(_) | Refusal::NoAnswer);
                let state = CardState::Refused(refusal, reason.clone());
                let is_over = matches!(state, CardState::Refused(Refusal::Overtaken(_), _));
                card.over.store(is_over, Relaxed);
                // Said once, not at every retry.
                if is_over {
                    tracing::error!(
                        volume = name,
                        "the card is over, its clients get errors for good: {reason}"
                    );
                } else if card.state() != state {
                    tracing::warn!(volume = name, "not attached: {reason}");
                }
                card.set_state(state);
                if retry {
                    self.attach_later(card, volume);
                }
            }
        }
    }

    /// Tries again after a while, if the card is still wanted.
    fn attach_later(self: &Rc<Self>, card: Arc<Card>, volume: PgId) {
        let local = Rc::clone(self);
        spawn(async move {
            tokio::time::sleep(RETRY).await;
            let still = local.node.cards.of(volume).is_some_and(|now| Arc::ptr_eq(&now, &card));
            if still && let Some(spec) = local.node.volume(&card.attach.volume) {
                local.attach(&card, &spec);
            }
        });
    }
}

/// A refusal in words: the thing, the reason, the remedy.
pub(crate) fn explain(node: &Node, card: &Card, refusal: &Refusal) -> String {
    let attach = &card.attach;
    let volume = &attach.volume;
    match refusal {
        Refusal::NoSuchVolume => {
            format!("volume {volume:?} does not exist at its disk node any more; see `cards volume list`")
        }
        Refusal::PolicyIs(policy) => {
            let asked = attach.policy.as_ref().map(ToString::to_string).unwrap_or_default();
            format!(
                "volume {volume:?} has policy {policy:?}, its card here {asked:?}, and all cards of a volume use one; attach it with `policy = {policy:?}` or without `policy`"
            )
        }
        Refusal::ReadOnly => format!("volume {volume:?} is read-only; attach it with `mode = \"ro\"`"),
        Refusal::NotAllowed(most) => format!(
            "node {} does not let node {} attach volume {volume:?} with mode {:?}{}see to `allow` of disk {volume:?} in its node.toml",
            card.volume().map_or_else(|| "unknown".into(), |volume| node.name(volume.disk_node())),
            node.config.node,
            attach.mode.name(),
            match most {
                None => " or any other; ".into(),
                Some(Access::Read) => ", only with \"ro\"; ask for that, or ".to_owned(),
                Some(_) => ", only with \"rw\" or \"ro\"; ask for that, or ".into(),
            }
        ),
        Refusal::NoAnswer => {
            format!("the disk node of volume {volume:?} does not answer; see `cards status`")
        }
        // A takeover is refused only while the volume is kept for another node.
        Refusal::Exclusive(holder) if card.takeover.load(Relaxed) => format!(
            "node {0} had volume {volume:?} for itself when its disk node {1} restarted, or takes it over now: it is kept for {0} for {2:.1} s at most; try again then",
            node.name(*holder),
            card.volume().map_or_else(|| "unknown".into(), |volume| node.name(volume.disk_node())),
            (node.config.lease * 3 / 2).as_secs_f64()
        ),
        Refusal::Exclusive(holder) => format!(
            "node {} has volume {volume:?} for itself; run `cards volume detach {volume}` there, or take it over with `cards volume attach {volume} --mode exclusive --takeover`",
            node.name(*holder)
        ),
        Refusal::Attached(access) => format!(
            "volume {volume:?} has a card here that may not do this, only {}; run `cards volume detach {volume}` first",
            match access {
                Access::Read => "read",
                Access::Write => "read and write beside others",
                Access::Exclusive => "read and write alone",
            }
        ),
        Refusal::Overtaken(by) => {
            let who = match by {
                Some(by) => {
                    format!("was taken over by node {0}, and may have been written by {0}", node.name(*by))
                }
                None => "may have been written by another node".into(),
            };
            format!(
                "volume {volume:?}, which this node had for itself, {who} meanwhile: what is mounted here of it, or connected \
                 to it, goes by old contents; unmount it, run `cards detach {volume}` (or `cards volume detach {volume}`), \
                 and attach it anew"
            )
        }
        Refusal::InUse(holder) => match holders(node, card.volume()) {
            Some(all) => in_use(volume, &all, ""),
            // The disk node names one.
            None => in_use(volume, &[node.name(*holder)], ", and others may have"),
        },
    }
}

/// Says who has a volume that one node wants for itself.
pub(crate) fn in_use(volume: &str, holders: &[String], more: &str) -> String {
    let (who, has) = if holders.len() == 1 { ("node", "has") } else { ("nodes", "have") };
    format!(
        "{who} {} {has} a card of volume {volume:?}{more}, so nobody can have it for itself; run `cards volume detach {volume}` there, or take it over with `cards volume attach {volume} --mode exclusive --takeover`",
        holders.join(", ")
    )
}

/// The names of all other nodes that have a card of the volume, if its disk is here.
fn holders(node: &Node, volume: Option<PgId>) -> Option<Vec<String>> {
    let volume = volume.filter(|volume| volume.disk_node() == node.me)?;
    let control = node.control();
    let others = control.cards_of(volume).filter(|&holder| holder != node.me);
    let names: Vec<String> = others.map(|holder| node.name(holder)).collect();
    (!names.is_empty()).then_some(names)
}
