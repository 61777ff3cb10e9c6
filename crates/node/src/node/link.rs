//! The link to a peer, as all threads see it: whether it is up, and what it is to be sent.
//!
//! | file | noun |
//! |---|---|
//! | `credit` | how many bytes of writes may be on their way: both ends, without sockets |
//! | `offers` | links that a peer makes, lane by lane |
//! | `outbox` | what waits for a peer, on all its lanes |
//! | `queue` | what is to leave by a lane, and in which order |
//! | `outgoing` | what leaves, straight from its slot |

pub(crate) mod credit;
pub(crate) mod offers;
pub(crate) mod outbox;
pub(crate) mod outgoing;
mod queue;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use cards_admin::{Encryption, MemberState};
use cards_core::{Instant, PgId};
use cards_disk::Seldom;
use cards_tls::Adrift;
use cards_wire::peer::Credit;
use tokio::sync::Notify;

use crate::failures::Failures;
use crate::traffic::{PeerTraffic, Traffic};

use credit::Connection;
use offers::{Greeted, GreetedLane, Offered, Offers};
use outbox::{Outbox, Pushed, Shelf, Way};
use outgoing::Frame;
use queue::{Name, Queue};

/// How long a peer may take to come or come back before the log says that it is missing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// The longest payload of a write, unless blocks are longer: what comes first waits for no more.
pub(crate) const PIECE: usize = 256 << 10;

/// What all threads see of a peer.
pub(crate) struct Link {
    outbox: Outbox,
    status: Mutex<LinkStatus>,
    offers: Mutex<Offers>,
    offer: Notify,
    /// Links to it that this node has begun to make.
    dialled: AtomicU64,
    pub(crate) traffic: PeerTraffic,
    /// The version of the protocol on the present connection, or the last one; 0 before there was any.
    version: AtomicU8,
    /// Bytes of messages of groups that have come from it and are held.
    pub(crate) group_bytes: Arc<AtomicUsize>,
    /// What has not come as the peer has sent it.
    pub(crate) damaged: Failures,
    /// The log says so.
    damage_told: Mutex<Seldom>,
    /// The disks that it has, as it last said; none before it has said anything.
    disks: Mutex<Option<Vec<PgId>>>,
    /// It has a task.
    met: AtomicBool,
    /// When something was received last, or the connection was made, by the node's clock, in nanoseconds.
    heard: AtomicU64,
    /// Since when it has said nothing although it should, by the node's clock, in nanoseconds; zero if it talks.
    silent_since: AtomicU64,
    /// The same from the first suspicion on.
    quiet_since: AtomicU64,
}

/// Whether this node can talk to a peer.
#[derive(Clone, Debug)]
pub(crate) struct LinkStatus {
    pub(crate) state: MemberState,
    /// Why not.
    pub(crate) reason: Option<String>,
    /// While it can.
    pub(crate) encryption: Option<Encryption>,
    /// Since when the peer refuses or is refused.
    refused: Option<Refused>,
}

#[derive(Clone, Copy, Debug)]
struct Refused {
    since: std::time::Instant,
    warned: bool,
}

impl Link {
    pub(crate) fn new(shelf: &Arc<Shelf>, block: usize) -> Self {
        Self {
            outbox: Outbox::new(Arc::clone(shelf), block),
            status: Mutex::new(LinkStatus {
                state: MemberState::Connecting,
                reason: None,
                encryption: None,
                refused: None,
            }),
            offers: Mutex::default(),
            offer: Notify::new(),
            dialled: AtomicU64::new(0),
            traffic: PeerTraffic::default(),
            version: AtomicU8::new(0),
            group_bytes: Arc::default(),
            damaged: Failures::called("checksum"),
            damage_told: Mutex::default(),
            disks: Mutex::default(),
            met: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            silent_since: AtomicU64::new(0),
            quiet_since: AtomicU64::new(0),
        }
    }

    /// Queues a frame; a read, or the answer to one, leaves by the lane that `way` says.
    ///
    /// # Errors
    /// The peer is down or too slow: the frame, so that its slot can be unpinned. Nothing else is owed, the
    /// protocol repeats what it needs.
    #[allow(
        clippy::result_large_err,
        reason = "the frame goes back as it came, and nothing is allocated for it"
    )]
    pub(crate) fn push(&self, traffic: &Traffic, way: Way, frame: Frame) -> Result<(), Frame> {
        match self.outbox.push(way, frame) {
            Pushed::Queued => Ok(()),
            Pushed::Down(frame) => Err(frame),
            Pushed::Full(frame) => {
                Traffic::add(&traffic.messages_dropped, 1);
                Err(frame)
            }
        }
    }

    /// The peer had this disk once, and does not have it in its present life.
    pub(crate) fn lacks(&self, disk: PgId) -> bool {
        let disks = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        disks.as_ref().is_some_and(|disks| !disks.contains(&disk))
    }

    /// The peer has said which disks it has.
    pub(crate) fn has_disks(&self, disks: Vec<PgId>) {
        *self.disks.lock().unwrap_or_else(PoisonError::into_inner) = Some(disks);
    }

    /// A task is about to keep the peer connected: false if there is one already.
    pub(crate) fn meet(&self) -> bool {
        !self.met.swap(true, Ordering::SeqCst)
    }

    /// Gives back unused credit.
    pub(crate) fn rest(&self) {
        self.outbox.with_first(Queue::rest);
    }

    /// The connection has ended: what has not left.
    pub(crate) fn close(&self) -> Vec<Frame> {
        self.outbox.close()
    }

    /// Holds messages about blocks, or lets them all leave again.
    pub(crate) fn hold(&self, hold: bool) {
        self.outbox.hold(hold);
    }

    /// Lets the next held message leave, if there is one.
    pub(crate) fn release(&self) -> bool {
        self.outbox.release()
    }

    /// Nothing is on its way to the peer.
    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.is_idle()
    }

    /// Messages that are held.
    pub(crate) fn held(&self) -> u32 {
        self.outbox.held() as u32
    }

    /// The peer has answered a command.
    pub(crate) fn answered(&self, name: Name) {
        self.outbox.with_first(|queue| queue.answered(name));
    }

    /// Bytes of writes that wait for the peer's credit, or for the connection.
    pub(crate) fn writes_waiting(&self) -> usize {
        self.outbox.with_first(|queue| queue.writes_waiting())
    }

    /// Moves what leaves next by a lane to `frames`, which is empty. If there is nothing, `waker` is woken when there is.
    pub(crate) fn take(&self, lane: u16, frames: &mut Vec<Frame>, waker: &Waker) {
        self.outbox.take(lane, frames, waker);
    }

    /// The peer has said what this node may send.
    pub(crate) fn has_credit(&self, credit: &Credit) {
        self.outbox.with_first(|queue| queue.has_credit(credit.granted));
    }

    /// What the peer may send on this connection, if that is still the one there is.
    pub(crate) fn grant(&self, connection: Connection, granted: u64) {
        self.outbox.with_first(|queue| {
            if queue.connection() == Some(connection) {
                queue.grant(granted);
            }
        });
    }

    /// Whether the log may say now that something has not come as the peer has sent it.
    pub(crate) fn may_tell_damage(&self) -> bool {
        self.damage_told.lock().unwrap_or_else(PoisonError::into_inner).may()
    }

    pub(crate) fn open(&self, connection: Connection, lanes: u16) {
        self.outbox.open(connection, lanes);
    }

    /// The number of the next link that this node makes.
    pub(crate) fn next_number(&self) -> u64 {
        self.dialled.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane of a link that the peer makes, of `lanes` in all. The last one completes the link, which replaces the one there
    /// is: the peer would not dial if that were still of use.
    pub(crate) fn offer(&self, lane: GreetedLane, lanes: u16) -> Offered {
        let offered = self.offers().add(lane, lanes);
        if offered == Offered::Complete {
            self.offer.notify_one();
        }
        offered
    }

    /// Forgets a link of which so many lanes were offered, if no more have come since.
    pub(crate) fn forget(&self, number: u64, lanes: usize) {
        self.offers().forget(number, lanes);
    }

    pub(crate) async fn offered(&self) -> Greeted {
        loop {
            if let Some(greeted) = self.offers().take() {
                return greeted;
            }
            self.offer.notified().await;
        }
    }

    /// Waits until there is a newer connection.
    pub(crate) async fn superseded(&self) {
        while !self.offers().is_complete() {
            self.offer.notified().await;
        }
    }

    pub(crate) fn status(&self) -> LinkStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connected, whether it says anything or not.
    pub(crate) fn is_up(&self) -> bool {
        self.status().state == MemberState::Up
    }

    /// Connected, and not silent.
    pub(crate) fn answers(&self) -> bool {
        self.is_up() && self.silent_since().is_none()
    }

    /// Something has come from it.
    pub(crate) fn hears(&self, now: Instant) {
        self.heard.store(now.0, Ordering::Relaxed);
    }

    /// When something came from it last.
    pub(crate) fn heard(&self) -> Instant {
        Instant(self.heard.load(Ordering::Relaxed))
    }

    /// Since when it has said nothing although it should, once that is certain.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        let since = self.silent_since.load(Ordering::Relaxed);
        (since > 0).then_some(Instant(since))
    }

    /// Since when it has said nothing although it should, from the first suspicion on.
    pub(crate) fn quiet_since(&self) -> Option<Instant> {
        let since = self.quiet_since.load(Ordering::Relaxed);
        (since > 0).then_some(Instant(since))
    }

    pub(crate) fn set_quiet(&self, since: Option<Instant>) {
        self.quiet_since.store(since.map_or(0, |since| since.0), Ordering::Relaxed);
    }

    pub(crate) fn set_silent(&self, since: Option<Instant>) {
        self.silent_since.store(since.map_or(0, |since| since.0), Ordering::Relaxed);
    }

    /// Somebody of this peer's name was refused, or refuses: how loud the log says so, none if that is no news, or while the
    /// peer itself is up: then it changes nothing. What `may_pass`, because the members have not all heard of the last
    /// change, is a warning only if it lasts.
    pub(crate) fn refused(&self, reason: &str, may_pass: bool) -> Option<tracing::Level> {
        let before = self.status();
        if before.state == MemberState::Up {
            return None;
        }
        let news = self.set_status(MemberState::Refused, Some(reason.into()));
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let refused =
            status.refused.get_or_insert(Refused { since: std::time::Instant::now(), warned: false });
        let warns = if may_pass { !refused.warned && refused.since.elapsed() > PATIENCE } else { news };
        refused.warned |= warns;
        match warns {
            true => Some(tracing::Level::WARN),
            false => news.then_some(tracing::Level::INFO),
        }
    }

    /// What the two ends speak, or spoke last.
    pub(crate) fn version(&self) -> u8 {
        self.version.load(Ordering::Relaxed)
    }

    /// Notes that the peer can be talked with by these lanes, in a version of the protocol.
    pub(crate) fn is_connected(&self, wires: &[Adrift], version: u8) {
        self.version.store(version, Ordering::Relaxed);
        self.set_status(MemberState::Up, None);
        // The kernel may have got its TLS between two lanes.
        let encryption = wires.iter().map(|wire| wire.encryption().into()).max();
        self.status.lock().unwrap_or_else(PoisonError::into_inner).encryption = encryption;
    }

    /// Notes the state; says whether that is news.
    pub(crate) fn set_status(&self, state: MemberState, reason: Option<String>) -> bool {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let news = status.state != state || status.reason != reason;
        let refused = status.refused.filter(|_| state == MemberState::Refused);
        *status = LinkStatus { state, reason, encryption: None, refused };
        news
    }
}
