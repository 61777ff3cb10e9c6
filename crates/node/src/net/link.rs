//! One peer: dial it or be dialled, tell the core when it is up and down, queue what it is to be sent.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use cards_admin::{Encryption, MemberState};
use cards_core::{ControlInput, Input, Instant, NodeId, PgId};
use cards_tls::Adrift;
use cards_wire::peer::{Credit, Hello};
use tokio::sync::{Notify, watch};

use super::credit::Connection;
use super::exchange;
use super::greet::dial;
use super::lanes::Lanes;
use super::offers::{Greeted, GreetedLane, Offered, Offers};
use super::outbox::{Outbox, Pushed, Shelf, Way};
use super::outgoing::{Frame, Outgoing};
use super::queue::{Name, Queue};
use crate::failures::Failures;
use crate::inbox::Event;
use crate::local::Local;
use crate::membership::Members;
use crate::node::Node;
use crate::seldom::Seldom;
use crate::traffic::{PeerTraffic, Traffic};

/// How long a peer may take to come or come back before the log says that it is missing.
const PATIENCE: Duration = Duration::from_secs(3);
/// First and longest pause before a peer is dialled again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often unused credit is looked for.
const REST: Duration = Duration::from_secs(2);
/// Bytes that the kernel takes before it has sent the last ones.
const UNSENT: u32 = 256 << 10;

/// A peer that has not been heard of for this long is gone, even if its machine could not say goodbye.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// What all threads see of a peer.
pub(crate) struct Link {
    outbox: Outbox,
    status: Mutex<LinkStatus>,
    offers: Mutex<Offers>,
    offer: Notify,
    /// Links to it that this node has begun to make.
    dialled: AtomicU64,
    pub(crate) traffic: PeerTraffic,
    /// What has not come as the peer has sent it.
    pub(crate) damaged: Failures,
    /// The log says so.
    damage_told: Mutex<Seldom>,
    /// The disks that it has, as it last said; none before it has said anything.
    disks: Mutex<Option<Vec<PgId>>>,
    /// It has a task.
    met: AtomicBool,
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
            damaged: Failures::called("checksum"),
            damage_told: Mutex::default(),
            disks: Mutex::default(),
            met: AtomicBool::new(false),
            silent_since: AtomicU64::new(0),
            quiet_since: AtomicU64::new(0),
        }
    }

    /// Queues a frame; a read, or the answer to one, leaves by the lane that `way` says.
    ///
    /// # Errors
    /// The peer is down or too slow: the frame, so that its slot can be unpinned. Nothing else is owed, the
    /// protocol repeats what it needs.
    pub(crate) fn push(&self, node: &Node, way: Way, frame: Frame) -> Result<(), Frame> {
        match self.outbox.push(way, frame) {
            Pushed::Queued => Ok(()),
            Pushed::Down(frame) => Err(frame),
            Pushed::Full(frame) => {
                Traffic::add(&node.traffic.messages_dropped, 1);
                Err(frame)
            }
        }
    }

    /// The peer had this disk once, and does not have it in its present life.
    pub(crate) fn lacks(&self, disk: PgId) -> bool {
        let disks = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        disks.as_ref().is_some_and(|disks| !disks.contains(&disk))
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
    pub(super) fn answered(&self, name: Name) {
        self.outbox.with_first(|queue| queue.answered(name));
    }

    /// Bytes of writes that wait for the peer's credit, or for the connection.
    pub(crate) fn writes_waiting(&self) -> usize {
        self.outbox.with_first(|queue| queue.writes_waiting())
    }

    /// Moves what leaves next by a lane to `frames`, which is empty. If there is nothing, `waker` is woken when there is.
    pub(super) fn take(&self, lane: u16, frames: &mut Vec<Frame>, waker: &Waker) {
        self.outbox.take(lane, frames, waker);
    }

    /// The peer has said what this node may send.
    pub(super) fn has_credit(&self, credit: &Credit) {
        self.outbox.with_first(|queue| queue.has_credit(credit.granted));
    }

    /// What the peer may send on this connection, if that is still the one there is.
    pub(super) fn grant(&self, connection: Connection, granted: u64) {
        self.outbox.with_first(|queue| {
            if queue.connection() == Some(connection) {
                queue.grant(granted);
            }
        });
    }

    /// Whether the log may say now that something has not come as the peer has sent it.
    pub(super) fn may_tell_damage(&self) -> bool {
        self.damage_told.lock().unwrap_or_else(PoisonError::into_inner).may()
    }

    pub(super) fn open(&self, connection: Connection, lanes: u16) {
        self.outbox.open(connection, lanes);
    }

    /// The number of the next link that this node makes.
    pub(super) fn next_number(&self) -> u64 {
        self.dialled.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane of a link that the peer makes, of `lanes` in all. The last one completes the link, which replaces the one there
    /// is: the peer would not dial if that were still of use.
    pub(super) fn offer(&self, lane: GreetedLane, lanes: u16) -> Offered {
        let offered = self.offers().add(lane, lanes);
        if offered == Offered::Complete {
            self.offer.notify_one();
        }
        offered
    }

    /// Forgets a link of which so many lanes were offered, if no more have come since.
    pub(super) fn forget(&self, number: u64, lanes: usize) {
        self.offers().forget(number, lanes);
    }

    async fn offered(&self) -> Greeted {
        loop {
            if let Some(greeted) = self.offers().take() {
                return greeted;
            }
            self.offer.notified().await;
        }
    }

    /// Waits until there is a newer connection.
    async fn superseded(&self) {
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

    pub(super) fn set_quiet(&self, since: Option<Instant>) {
        self.quiet_since.store(since.map_or(0, |since| since.0), Ordering::Relaxed);
    }

    pub(super) fn set_silent(&self, since: Option<Instant>) {
        self.silent_since.store(since.map_or(0, |since| since.0), Ordering::Relaxed);
    }

    /// Somebody of this peer's name was refused, or refuses: how loud the log says so, none if that is no news, or while the
    /// peer itself is up: then it changes nothing. What `may_pass`, because the members have not all heard of the last
    /// change, is a warning only if it lasts.
    pub(super) fn refused(&self, reason: &str, may_pass: bool) -> Option<tracing::Level> {
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

    /// Notes that the peer can be talked with by these lanes.
    fn is_connected(&self, wires: &[Adrift]) {
        self.set_status(MemberState::Up, None);
        // The kernel may have got its TLS between two lanes.
        let encryption = wires.iter().map(|wire| wire.encryption().into()).max();
        self.status.lock().unwrap_or_else(PoisonError::into_inner).encryption = encryption;
    }

    /// Notes the state; says whether that is news.
    fn set_status(&self, state: MemberState, reason: Option<String>) -> bool {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let news = status.state != state || status.reason != reason;
        let refused = status.refused.filter(|_| state == MemberState::Refused);
        *status = LinkStatus { state, reason, encryption: None, refused };
        news
    }
}

/// Starts the task that keeps a peer connected while it is a member, if it has none yet.
pub(crate) fn spawn(local: &Rc<Local>, peer: NodeId) {
    if local.node.links[usize::from(peer.0)].met.swap(true, Ordering::SeqCst) {
        return;
    }
    let local = Rc::clone(local);
    crate::local::spawn(async move {
        let link = &local.node.links[usize::from(peer.0)];
        let mut members = local.node.membership.members.subscribe();
        // Since when the peer leaves at once, and whether the log has warned of it.
        let mut left_at_once: Option<(tokio::time::Instant, bool)> = None;
        loop {
            // The sender is the node's, which outlives its tasks.
            let _ = members.wait_for(|members| members.live_one(peer).is_some()).await;
            let greeted = tokio::select! {
                greeted = meet(&local, peer) => greeted,
                _ = members.wait_for(|members| members.live_one(peer).is_none()) => {
                    link.set_status(MemberState::Down, None);
                    continue;
                }
            };
            let began = tokio::time::Instant::now();
            // A peer that leaves again and again is spoken of once.
            let news = left_at_once.is_none();
            let Err(error) = serve(&local, peer, greeted, &mut members, news).await else { continue };
            let name = local.node.name(peer);
            if began.elapsed() >= SHORT {
                left_at_once = None;
                tracing::info!(peer = name, "connection lost: {error}");
                link.set_status(MemberState::Down, Some(format!("connection lost: {error}; {START}")));
                continue;
            }
            let reason = format!(
                "it leaves at once ({error}); if it refuses this node, its log says why; if it has ended, start \
                 `cards serve` there"
            );
            // After a restart it may not have heard yet who the members are.
            match &mut left_at_once {
                None => {
                    tracing::info!(peer = name, "{reason}");
                    left_at_once = Some((began, false));
                }
                Some((since, warned)) if !*warned && since.elapsed() > PATIENCE => {
                    tracing::warn!(peer = name, "{reason}");
                    *warned = true;
                }
                Some(_) => {}
            }
            link.set_status(MemberState::Down, Some(reason));
            // Nothing is gained by dialling as fast as that.
            tokio::time::sleep(SHORT).await;
        }
    });
}

/// A connection that does not last for this long was no use.
const SHORT: Duration = Duration::from_millis(100);

/// What to do about a peer that is not there.
const START: &str =
    "if it runs, it may be cut off: see the network and its log; else start `cards serve` there";

/// Waits for a connection; says once if that takes long.
async fn meet(local: &Local, peer: NodeId) -> Greeted {
    let link = &local.node.links[usize::from(peer.0)];
    let met =
        async { if local.node.me > peer { dial_until_met(local, peer).await } else { link.offered().await } };
    tokio::pin!(met);
    if let Ok(greeted) = tokio::time::timeout(PATIENCE, &mut met).await {
        return greeted;
    }
    let LinkStatus { state, reason, .. } = link.status();
    // A refusal has been said, by name.
    if state != MemberState::Refused {
        let address =
            local.node.members().get(peer).map_or_else(String::new, |member| member.address.clone());
        let reason = reason.unwrap_or_else(|| format!("it has not connected; {START}"));
        tracing::warn!(peer = local.node.name(peer), address, "not reached: {reason}");
        if local.node.me < peer {
            link.set_status(state, Some(reason));
        }
    }
    met.await
}

async fn dial_until_met(local: &Local, peer: NodeId) -> Greeted {
    let (name, link) = (local.node.name(peer), &local.node.links[usize::from(peer.0)]);
    let mut pause = BACK_OFF.0;
    loop {
        match dial(&local.node, peer).await {
            Ok(greeted) => return greeted,
            Err(error) if error.is_refusal() => {
                match link.refused(&error.to_string(), error.may_pass()) {
                    Some(tracing::Level::WARN) => tracing::warn!(peer = name, "refused: {error}"),
                    Some(_) => tracing::info!(peer = name, "refused: {error}"),
                    None => {}
                }
                pause = BACK_OFF.1;
            }
            Err(error) => {
                let state = match link.status().state {
                    MemberState::Connecting => MemberState::Connecting,
                    _ => MemberState::Down,
                };
                let remedy = error.remedy();
                if link.set_status(state, Some(format!("{error}; {remedy}"))) {
                    tracing::debug!(peer = name, "not reached: {error}");
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACK_OFF.1);
    }
}

/// Has the kernel notice a machine that has vanished: by probes when idle, by missing acknowledgements else. And has it
/// take no more than it can send: what comes first is decided here.
fn watch(stream: &std::net::TcpStream) -> std::io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    let probe = Duration::from_secs(1);
    let probes =
        socket2::TcpKeepalive::new().with_time(SILENCE - 3 * probe).with_interval(probe).with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_notsent_lowat(UNSENT)?;
    socket.set_tcp_user_timeout(Some(SILENCE))
}

/// Gives back unused credit now and then.
async fn rest(link: &Link) -> Infallible {
    loop {
        tokio::time::sleep(REST).await;
        link.outbox.with_first(Queue::rest);
    }
}

/// Talks with a peer until the connection breaks. That it began is told if it is news.
async fn serve(
    local: &Rc<Local>,
    peer: NodeId,
    greeted: Greeted,
    members: &mut watch::Receiver<Arc<Members>>,
    news: bool,
) -> Result<(), exchange::Broken> {
    let link = &local.node.links[usize::from(peer.0)];
    let Greeted { wires, hello, version } = greeted;
    wires.iter().try_for_each(|wire| watch(wire.stream()))?;
    if news {
        tracing::info!(peer = hello.node, version, "connected");
    }
    let connection = local.node.writes.connected(&local.node, peer, wires.len() as u16 - 1);
    link.is_connected(&wires);
    let Hello { incarnation, succeeds, membership, disks, .. } = hello;
    let has = disks.iter().map(|spec| spec.id).collect();
    *link.disks.lock().unwrap_or_else(PoisonError::into_inner) = Some(has);
    local.control(ControlInput::PeerUp { node: peer, incarnation, succeeds, disks });
    local.all_shards(&Input::PeerUp { node: peer });
    local.route();
    local.node.threads[0].post(Event::ResolveCards);
    let mut lanes = Lanes::start(&local.node, connection, wires, version);

    let result = tokio::select! {
        biased;
        () = link.superseded() => Err(exchange::Broken::Superseded),
        // The coordinator has declared it dead, or it has joined anew.
        _ = members.wait_for(|members| members.live_one(peer).is_none_or(|m| m.membership != membership)) => {
            Err(exchange::Broken::NoMember)
        }
        never = rest(link) => match never {},
        broken = lanes.broken() => Err(broken),
    };
    // Of what comes by a lane nothing is handled after the peer is down.
    lanes.end().await;

    let slots = link.outbox.close().into_iter().filter_map(|frame| match frame {
        Frame::Block { payload: Outgoing::Slot(place), .. } => Some(place),
        _ => None,
    });
    local.unpin(slots, false);
    local.node.writes.disconnected(&local.node, connection);
    local.node.inquiries.lost(peer);
    local.control(ControlInput::PeerDown { node: peer });
    local.all_shards(&Input::PeerDown { node: peer });
    local.route();
    result
}
