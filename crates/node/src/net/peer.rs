//! One peer: dial it or be dialled, tell the core when it is up and down.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cards_admin::MemberState;
use cards_core::{ControlInput, Input, NodeId};
use cards_wire::peer::Hello;
use tokio::sync::watch;
use tokio::task::spawn_local;

use super::broken::{Broken, SILENCE};
use super::greet::dial;
use super::lanes::Lanes;
use crate::node::link::offers::Greeted;
use crate::node::link::outgoing::{Frame, Outgoing};
use crate::node::link::{Link, LinkStatus, PATIENCE};
use crate::node::members::Members;
use crate::node::{Event, Local};

/// First and longest pause before a peer is dialled again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often unused credit is looked for.
const REST: Duration = Duration::from_secs(2);
/// Bytes that the kernel takes before it has sent the last ones.
const UNSENT: u32 = 256 << 10;

/// Starts the task that keeps a peer connected while it is a member, if it has none yet.
pub(crate) fn spawn(local: &Rc<Local>, peer: NodeId) {
    if !local.node.links[usize::from(peer.0)].meet() {
        return;
    }
    let local = Rc::clone(local);
    spawn_local(async move {
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
        link.rest();
    }
}

/// Talks with a peer until the connection breaks. That it began is told if it is news.
async fn serve(
    local: &Rc<Local>,
    peer: NodeId,
    greeted: Greeted,
    members: &mut watch::Receiver<Arc<Members>>,
    news: bool,
) -> Result<(), Broken> {
    let link = &local.node.links[usize::from(peer.0)];
    let Greeted { wires, hello, version } = greeted;
    wires.iter().try_for_each(|wire| watch(wire.stream()))?;
    if news {
        tracing::info!(peer = hello.node, version, "connected");
    }
    let connection = local.node.writes.connected(&local.node.links, peer, wires.len() as u16 - 1);
    link.hears(local.node.now());
    link.is_connected(&wires, version);
    let Hello { incarnation, succeeds, membership, disks, .. } = hello;
    link.has_disks(disks.iter().map(|spec| spec.id).collect());
    // Lives that this node has not met say nothing of the one that it has.
    let met = local.node.control().life_of(peer);
    let succeeds = succeeds.into_iter().find(|life| Some(*life) == met);
    local.control(ControlInput::PeerUp { node: peer, incarnation, succeeds, disks });
    local.all_shards(&Input::PeerUp { node: peer });
    local.route();
    local.node.threads[0].post(Event::ResolveCards);
    let mut lanes = Lanes::start(&local.node, connection, wires, version);

    let result = tokio::select! {
        biased;
        () = link.superseded() => Err(Broken::Superseded),
        // The coordinator has declared it dead, or it has joined anew.
        _ = members.wait_for(|members| members.live_one(peer).is_none_or(|m| m.membership != membership)) => {
            Err(Broken::NoMember)
        }
        never = rest(link) => match never {},
        broken = lanes.broken() => Err(broken),
    };
    // Of what comes by a lane nothing is handled after the peer is down.
    lanes.end().await;

    let slots = link.close().into_iter().filter_map(|frame| match frame {
        Frame::Block { payload: Outgoing::Slot(place), .. } => Some(place),
        _ => None,
    });
    local.unpin(slots, false);
    local.node.writes.disconnected(&local.node.links, connection);
    local.node.inquiries.lost(peer);
    local.control(ControlInput::PeerDown { node: peer });
    local.all_shards(&Input::PeerDown { node: peer });
    local.route();
    result
}
