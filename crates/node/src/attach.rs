//! Attachments: asked for, answered, given up, and what to say of them.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use cards_admin::{Lost, RefusalKind};
use cards_config::{Attach, Attached, Mode};
use cards_core::{
    Access, ControlInput, FlushPoint, Generation, Input, Instant, IoError, Persistence, PgId, Refusal, Token,
};

use crate::failures::{Asked, ERRORS_REMEMBERED, Kind, REQUESTS_REMEMBERED};
use crate::node::card::{Card, CardState, Loss, reason_of_loss};
use crate::node::parts::Part;
use crate::node::{Local, Node};

/// The token of all attachments: their answers are found by the volume.
const BY_VOLUME: Token = Token(0);
/// How long to wait before an attachment is tried again that another node's card kept out.
const RETRY: Duration = Duration::from_secs(1);
/// How long after the start a volume of `[[attach]]` may be unknown before the log says so, once all members are up.
const UNKNOWN: Duration = Duration::from_secs(3);

impl Card {
    /// A client's flush is about to be answered. A loss is logged, but not once more for each flush of a broken disk.
    pub(crate) fn end_flush(
        &self,
        node: &Node,
        volume: PgId,
        point: FlushPoint,
        result: Result<(), IoError>,
    ) {
        if let Some(part) = self.part(volume) {
            part.unflushed().end_flush(point, result);
        }
        let Err(error @ (IoError::PowerLost | IoError::SyncFailed)) = result else { return };
        let time_ms = node.clock.now_and_utc_us().1 / 1_000;
        let disk_node = node.primary_name(volume);
        let before = self.set_lost(Loss { time_ms, of: volume, disk_node: disk_node.clone(), error });
        if point.since != Persistence::NONE || before != Some(error) {
            tracing::warn!(
                volume = self.attach.volume,
                disk_node,
                reason = reason_of_loss(volume, error, node.lone_place(volume).as_deref()),
                "a flush has failed: what clients of this node wrote since the last good one may be lost"
            );
        }
    }

    /// A client's request is about to fail.
    pub(crate) fn failed(&self, node: &Node, asked: Asked, error: IoError) {
        let kind = if error == IoError::NoSpace { Kind::NoSpace } else { Kind::Other };
        let (error, remembered) = match error {
            IoError::Io => ("an error of the disk", ERRORS_REMEMBERED),
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
        self.failures.note(node.now(), remembered, asked, kind, error.into());
    }

    /// What to say of requests that failed not long ago.
    pub(crate) fn recent_failures(&self, node: &Node) -> Option<String> {
        Some(self.failures.recent(node.now())?.text)
    }

    /// Why the disk node does not let it be attached, if that is so: at first, or since it was given up.
    pub(crate) fn refused(&self, node: &Node) -> Option<String> {
        if let CardState::Refused(_, reason) = self.state() {
            return Some(reason);
        }
        self.refusal(node).map(|refusal| explain(node, self, &refusal))
    }

    /// Why a primary does not let it be attached again, since it was given up.
    fn refusal(&self, node: &Node) -> Option<Refusal> {
        let control = node.control();
        let mut refused =
            control.cards().filter(|status| !status.attached && self.part(status.volume).is_some());
        refused.find_map(|status| status.refused.clone())
    }

    /// The card was given up, and is refused with `refusal`, or it is attached again. Said in the log once.
    fn say_gone(&self, node: &Node, refusal: Option<&Refusal>) {
        if !self.set_gone(refusal) {
            return;
        }
        let volume = &self.attach.volume;
        match refusal {
            Some(refusal) => {
                let reason = explain(node, self, refusal);
                tracing::warn!(
                    volume,
                    "the card is lost, clients here get errors until it is back: {reason}"
                );
            }
            None => tracing::info!(volume, "the card is back"),
        }
    }
}

/// How long after the last request that was not answered a volume is a problem.
fn remembered(node: &Node) -> Duration {
    REQUESTS_REMEMBERED.max(node.config.disk_wait * 3 / 2)
}

impl Local {
    /// Asks for the cards whose volume has become known.
    pub(crate) fn resolve_cards(self: &Rc<Self>) {
        for card in self.node.cards.all() {
            if card.volume().is_none()
                && let Some(parts) = self.node.parts(&card.attach.volume)
                && card.is_of(parts)
                && let Some(first) = card.volume()
            {
                self.attach(&card, first);
            }
        }
    }

    /// Says once in the log which volumes of `[[attach]]` no node has.
    pub(crate) async fn miss_volumes(self: Rc<Self>) {
        loop {
            tokio::time::sleep(UNKNOWN).await;
            let cards = self.node.cards.all();
            let groups = &self.node.groups;
            let unknown =
                cards.iter().filter(|card| card.volume().is_none() && !groups.has(&card.attach.volume));
            let names: Vec<&str> = unknown.map(|card| card.attach.volume.as_str()).collect();
            if names.is_empty() {
                return;
            }
            if self.node.all_up() {
                for name in names {
                    tracing::warn!(
                        "volume {name:?} of [[attach]] is not known: {}",
                        unknown_volume(&self.node, name)
                    );
                }
                return;
            }
        }
    }

    /// Asks for the card of a part of a volume: of a later one in the name of the first one's, whose primary decides who has it for itself.
    fn attach(self: &Rc<Self>, card: &Card, volume: PgId) {
        let Attach { policy, mode, .. } = &card.attach;
        let first = card.volume().filter(|first| *first != volume);
        let takeover = first.is_none() && card.takeover.load(Relaxed);
        let policy = policy.as_ref().map(ToString::to_string).unwrap_or_default();
        let read_only = self.node.control().volume(volume).is_some_and(|spec| spec.read_only);
        let access = mode.access(read_only);
        let claim = card.attach.claim.filter(|_| access == Access::Exclusive);
        if claim.is_some_and(|claim| claim.volume != first.unwrap_or(volume).0) {
            // Of another volume nobody knows what was written since.
            return self.attach_done(volume, Err(Refusal::Overtaken(None)));
        }
        let succeeds = claim.map(|claim| Generation(claim.card));
        let token = BY_VOLUME;
        self.control(ControlInput::Attach { token, volume, policy, access, takeover, succeeds, first });
    }

    /// The cards of all parts are attached, and no lease is over: at this moment no other node can have been given any of them.
    fn holds_all(&self, card: &Card) -> bool {
        let Some(parts) = card.parts() else { return false };
        let now = self.node.now();
        let control = self.node.control();
        let leads = |id| control.volume(id).is_some_and(|spec| spec.primary == self.node.me);
        let is_leased = |part: &Part| part.lease().is_some_and(|until| now < until);
        parts.all().iter().all(|part| control.holds(now, part.id) && (leads(part.id) || is_leased(part)))
    }

    /// A card's lease runs until then.
    pub(crate) fn leased(&self, volume: PgId, until: Instant) {
        let Some(card) = self.node.cards.of(volume) else { return };
        let Some(parts) = card.parts() else { return };
        if let Some(part) = card.part(volume) {
            part.leased(until);
        }
        // A device has one lease: that of the part whose ends first.
        if let Some(until) = parts.lease() {
            self.node.devices.leased(self.node.now(), parts.first(), until, self.node.config.lease);
        }
    }

    /// The disk node of a volume has attached or refused its card here. Of one that has been attached before, nobody else hears.
    pub(crate) fn card_answered(&self, volume: PgId) {
        if let Some(card) = self.node.cards.of(volume)
            && card.state() == CardState::Attached
        {
            card.say_gone(&self.node, card.refusal(&self.node).as_ref());
        }
    }

    /// The disk node has answered.
    pub(crate) fn attach_done(self: &Rc<Self>, volume: PgId, result: Result<Generation, Refusal>) {
        let Some(card) = self.node.cards.of(volume) else { return };
        let name = &card.attach.volume;
        match result {
            // A part that was lost after this one was asked for has ended it.
            Ok(_) if card.is_over() => self.control(ControlInput::Detach { volume }),
            Ok(_) => {
                let leave = card.attach.attached.map(|attached| attached == Attached::Computer);
                self.all_shards(&Input::LeaveCopies { volume, leave });
                // One after the other, so that what is refused is refused before much is attached.
                let next = card.ids().skip_while(|part| *part != volume).nth(1);
                if let Some(next) = next.filter(|_| card.state() != CardState::Attached) {
                    return self.attach(&card, next);
                }
                // What was attached first may be another node's by now.
                let is_shared = card.parts().is_some_and(|parts| parts.is_shared());
                if is_shared && card.attach.mode == Mode::Exclusive && !self.holds_all(&card) {
                    return self.attach_later(card, volume);
                }
                if let Some(spec) = self.node.volume(name) {
                    self.retain(name, spec.block_bytes);
                }
                tracing::info!(volume = name, mode = self.node.mode(&card).name(), "attached");
                card.takeover.store(false, Relaxed);
                card.set_state(CardState::Attached);
                self.node.membership.look();
            }
            // Those who are in the way are being given up.
            Err(Refusal::NoAnswer) if card.takeover.load(Relaxed) || card.volume() != Some(volume) => {
                self.attach_later(card, volume);
            }
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
                } else {
                    // What of it is attached is of no use: who lost one part has lost the volume.
                    for part in card.ids().filter(|part| *part != volume) {
                        self.control(ControlInput::Detach { volume: part });
                    }
                }
            }
        }
    }

    /// Tries again after a while, from the first part on, if the card is still wanted.
    fn attach_later(self: &Rc<Self>, card: Arc<Card>, volume: PgId) {
        let local = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(RETRY).await;
            let still = local.node.cards.of(volume).is_some_and(|now| Arc::ptr_eq(&now, &card));
            if still
                && !card.is_over()
                && let Some(first) = card.volume()
            {
                local.attach(&card, first);
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
            card.volume().map_or_else(|| "unknown".into(), |volume| node.primary_name(volume)),
            node.config.node,
            attach.mode.name(),
            match most {
                None => " or any other; ".into(),
                Some(Access::Read) => ", only with \"ro\"; ask for that, or ".to_owned(),
                Some(_) => ", only with \"rw\" or \"ro\"; ask for that, or ".into(),
            }
        ),
        Refusal::NoAnswer => node.away(volume).unwrap_or_else(|| {
            format!("the disk node of volume {volume:?} does not answer; see `cards status`")
        }),
        // A takeover is refused only while the volume is kept for another node.
        Refusal::Exclusive(holder) if card.takeover.load(Relaxed) => format!(
            "node {0} had volume {volume:?} for itself when its disk node {1} restarted, or takes it over now: it is kept for {0} for {2:.1} s at most; try again then",
            node.name(*holder),
            card.volume().map_or_else(|| "unknown".into(), |volume| node.primary_name(volume)),
            (node.config.lease * 3 / 2).as_secs_f64()
        ),
        Refusal::Exclusive(holder) => format!(
            "node {} has volume {volume:?} for itself; end its use there (`cards umount`, or `cards detach {volume}`, or `cards volume \
             detach {volume}`). `cards volume attach {volume} --mode exclusive --takeover` takes it: what is mounted there of it fails then",
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
        "{who} {} {has} a card of volume {volume:?}{more}, so nobody can have it for itself; end its use there (`cards umount`, or `cards detach {volume}`, or `cards volume detach {volume}`). `cards volume attach {volume} --mode exclusive --takeover` takes it: what is mounted there of it fails then",
        holders.join(", ")
    )
}

/// The names of all other nodes that have a card of the volume, if its disk is here.
fn holders(node: &Node, volume: Option<PgId>) -> Option<Vec<String>> {
    let volume = volume.filter(|volume| node.primary(*volume) == Some(node.me))?;
    let control = node.control();
    let others = control.cards_of(volume).filter(|&holder| holder != node.me);
    let names: Vec<String> = others.map(|holder| node.name(holder)).collect();
    (!names.is_empty()).then_some(names)
}

/// Why a volume is not known that a card wants.
pub(crate) fn unknown_volume(node: &Node, volume: &str) -> String {
    if node.groups.has(volume) {
        format!("its primary has not been heard yet; see `cards volume show {volume}`")
    } else if node.all_up() {
        "no node has a disk of this name; correct `volume` (see `cards volume list`), add a [[disk]], or make one over managed disks \
         (`cards volume create`)"
            .into()
    } else {
        "no node that is up has a disk of this name; see the nodes that are down".into()
    }
}

/// The refusal of a request about a volume that is not attached here.
pub(crate) fn not_attached(node: &Node, name: &str) -> cards_admin::Refusal {
    let is_unknown = node.volume(name).is_none() && node.all_up();
    let message = match is_unknown {
        true => cards_admin::Refusal::no_such_volume(name).message,
        false => format!(
            "volume {name:?} is not attached at node {0}; run `cards volume attach {name}` there",
            node.config.node
        ),
    };
    cards_admin::Refusal { kind: RefusalKind::NotAttached, message }
}

/// Cards of which a flush has failed because writes were lost.
pub(crate) fn losses(node: &Node) -> Vec<Lost> {
    let lost = |card: Arc<Card>| {
        let Loss { time_ms, of, disk_node, error } = card.lost()?;
        let reason = reason_of_loss(of, error, node.lone_place(of).as_deref());
        Some(Lost { volume: card.attach.volume.clone(), disk_node, time_ms, reason })
    };
    node.cards.all().into_iter().filter_map(lost).collect()
}
