//! Introductions: who is at the other end, and may the two talk?

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cards_core::{NodeId, VolumeSpec};
use cards_tls::{HandshakeError, Name, Purpose, Shown, Wire};
use cards_wire::peer::{self, FrameError, HEADER_SIZE, Hello, MAX_LANES, Mismatch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::node::link::offers::{Greeted, GreetedLane, Offered};
use crate::node::members::Members;
use crate::node::{Local, Node};

/// How long an introduction may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// Why an introduction failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetError {
    #[error("{}", io_error(.0))]
    Io(#[from] io::Error),
    #[error("{0}")]
    Handshake(HandshakeError),
    #[error("no introduction within {} s", DEADLINE.as_secs())]
    Silent,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    #[error("{node:?} is {what}; check the addresses and the `node` key of both")]
    Who { node: String, what: &'static str },
    #[error(
        "node {node} says that it is a member since it joined as {theirs}, the last that this node has heard of is {known}: {}",
        match theirs > known {
            true => "it hears of it in a moment, or another process has that name",
            false => "that membership is over, or another process has its name",
        }
    )]
    Membership { node: String, theirs: u64, known: u64 },
    #[error("node {node} has heard of epoch {theirs} only, this node joined in {ours}")]
    Behind { node: String, theirs: u64, ours: u64 },
    #[error("node {node} answers for another lane or another life than it was dialled for")]
    Lane { node: String },
    #[error("node {node} dials lane {lane} of a link that has {lanes}")]
    NoLane { node: String, lane: u16, lanes: u16 },
    #[error(
        "node {node} has another volume, {now}, where it had {was}, which is attached here: run `cards volume detach {was}` on this node, \
         or restore the file numbers@{node}@*.json in its state_dir, where {node} keeps the numbers of its volumes"
    )]
    Moved { node: String, was: String, now: String },
    #[error("it asks the registry, which has ended, or has as many connections as it takes")]
    NoRegistry,
}

/// A connection that is not served.
pub(super) struct Refused {
    pub(super) error: GreetError,
    /// The member it says it is.
    pub(super) member: Option<usize>,
}

impl From<GreetError> for Refused {
    fn from(error: GreetError) -> Self {
        Self { error, member: None }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        GreetError::Io(error).into()
    }
}

impl From<HandshakeError> for GreetError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => Self::Io(error),
            error => Self::Handshake(error),
        }
    }
}

impl GreetError {
    /// What to do about a peer that cannot be reached.
    pub(super) fn remedy(&self) -> &'static str {
        use io::ErrorKind::{
            ConnectionRefused, HostUnreachable, InvalidInput, NetworkUnreachable, PermissionDenied, TimedOut,
        };
        match self {
            Self::Behind { .. } => return "it hears of this node in a moment",
            Self::Lane { .. } => return "it has restarted in this moment, perhaps",
            _ => {}
        }
        let Self::Io(error) = self else {
            return "is it overloaded, or another program there, or do its answers not come through? look into its log, and at the network back";
        };
        match error.kind() {
            ConnectionRefused => "start `cards serve` there, or correct its `address`",
            TimedOut | HostUnreachable | NetworkUnreachable => {
                "is the machine up, and its peer port open in all firewalls?"
            }
            io::ErrorKind::UnexpectedEof => "if it refuses this node, its log says why",
            // What the kernel says of a route that leads nowhere, and of one that is forbidden.
            InvalidInput => "is there a route to it (`ip route get`)? or correct its `address`",
            PermissionDenied => "does a route or a firewall of this machine forbid it?",
            _ => "look into its log, or correct its `address`",
        }
    }

    /// Not all members have heard yet of the last change, perhaps.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::Membership { .. } | Self::Behind { .. })
    }

    /// The peer is there and refuses, or is refused; not a matter of waiting.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Io(_) | Self::Silent | Self::Behind { .. } | Self::Lane { .. })
    }
}

/// The library says `early eof` of a peer that ends the connection.
fn io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it hangs up".into(),
        _ => error.to_string(),
    }
}

/// What this node says on lane `lane` of link `link`.
fn ours(node: &Node, link: u64, lane: u16) -> Hello {
    Hello {
        versions: node.config.versions,
        cluster: node.config.cluster.clone(),
        node: node.config.node.clone(),
        block: Some(node.arena.block() as u32),
        shards: node.shard_count(),
        incarnation: node.life.incarnation,
        succeeds: node.life.succeeds.clone(),
        membership: Some(node.membership.membership.load(Ordering::SeqCst)).filter(|&number| number > 0),
        epoch: node.members().epoch(),
        lanes: lanes_wanted(node),
        lane,
        link,
        disks: node.own.clone(),
    }
}

/// A lane for each data thread. With one thread there is nothing to gain: reads go by the first lane.
fn lanes_wanted(node: &Node) -> u16 {
    match node.threads.len() {
        1 => 0,
        threads => threads.min(usize::from(MAX_LANES)) as u16,
    }
}

/// Lanes of a link between the two, the first one included.
fn lanes_between(ours: &Hello, theirs: &Hello) -> u16 {
    1 + ours.lanes.max(theirs.lanes)
}

/// A member as its certificate names it.
fn named(node: &Node, name: &str) -> Name {
    Name::new(&node.config.cluster, name)
}

/// Dials a peer: all lanes of a new link, one after the other.
pub(super) async fn dial(node: &Node, peer: NodeId) -> Result<Greeted, GreetError> {
    let link = node.links[usize::from(peer.0)].next_number();
    let (GreetedLane { wire, hello, version }, lanes) = dial_lane(node, peer, link, 0).await?;
    let mut wires = vec![wire];
    for lane in 1..lanes {
        let (other, _) = dial_lane(node, peer, link, lane).await?;
        if (other.hello.incarnation, other.hello.lanes) != (hello.incarnation, hello.lanes) {
            return Err(GreetError::Lane { node: hello.node });
        }
        wires.push(other.wire);
    }
    Ok(Greeted { wires, hello, version })
}

/// Dials one lane and exchanges introductions; says how many lanes there are.
async fn dial_lane(
    node: &Node,
    peer: NodeId,
    link: u64,
    lane: u16,
) -> Result<(GreetedLane, u16), GreetError> {
    let members = node.members();
    let Some(member) = members.live_one(peer) else {
        return Err(GreetError::Who { node: node.name(peer), what: "no member any more" });
    };
    let talk = async {
        let stream = TcpStream::connect(&member.address).await?;
        stream.set_nodelay(true)?;
        let mut wire = match &node.identity {
            Some(identity) => {
                cards_tls::connect(stream, identity, Purpose::Peer, &named(node, &member.name)).await?.wire
            }
            None => Wire::plain(stream),
        };
        let ours = ours(node, link, lane);
        send(&mut wire, &ours).await?;
        let hello = receive(&mut wire).await?;
        let version = check(node, &hello, &ours)?;
        if hello.node != member.name {
            return Err(GreetError::Who { node: hello.node, what: "not the member at this address" });
        }
        // It would not know this node yet, and refuse it.
        let joined = members.get(node.me).map_or(0, |me| me.since);
        if hello.epoch < joined {
            return Err(GreetError::Behind { node: hello.node, theirs: hello.epoch, ours: joined });
        }
        if (hello.link, hello.lane) != (link, lane) {
            return Err(GreetError::Lane { node: hello.node });
        }
        let lanes = lanes_between(&ours, &hello);
        Ok((GreetedLane { wire: wire.set_adrift()?, hello, version }, lanes))
    };
    tokio::time::timeout(DEADLINE, talk).await.unwrap_or(Err(GreetError::Silent))
}

/// A lane of a peer that has dialled.
pub(super) struct Answered {
    peer: NodeId,
    lane: GreetedLane,
    /// Of the link.
    lanes: u16,
}

/// Gives a lane to its link, which has to be complete soon.
pub(super) async fn offer(local: &Local, answered: Answered) {
    let Answered { peer, lane, lanes } = answered;
    let link = &local.node.links[usize::from(peer.0)];
    let number = lane.hello.link;
    match link.offer(lane, lanes) {
        Offered::Complete => {}
        Offered::Stray => {
            tracing::debug!(peer = local.node.name(peer), "a lane of a link that is not being made");
        }
        Offered::Waiting(here) => {
            tokio::time::sleep(DEADLINE).await;
            link.forget(number, here);
        }
    }
}

/// The introduction of a peer that has dialled. It gets ours also if it is refused, so that it can say why; not so if it says
/// that it is another than it has proven to be.
pub(super) async fn answer(node: &Node, mut wire: Wire, proven: Option<Shown>) -> Result<Answered, Refused> {
    let hello = receive(&mut wire).await;
    if let (Some(proven), Ok(hello)) = (&proven, &hello)
        && !proven.is(&named(node, &hello.node))
    {
        return Err(
            GreetError::Who { node: hello.node.clone(), what: "not whom its certificate names" }.into()
        );
    }
    let (link, lane) = hello.as_ref().map_or((0, 0), |hello| (hello.link, hello.lane));
    let ours = ours(node, link, lane);
    if !matches!(hello, Err(GreetError::Frame(FrameError::Magic(_)))) {
        send(&mut wire, &ours).await?;
    }
    let hello = hello.map_err(|error| Refused { member: of_other_version(node, &error), error })?;
    let member = node.members().find(&hello.node).map(|(peer, _)| usize::from(peer.0));
    let version = check(node, &hello, &ours).map_err(|error| Refused { error, member })?;
    let Some(peer) = member else {
        return Err(GreetError::Who { node: hello.node, what: "no member" }.into());
    };
    if peer <= usize::from(node.me.0) {
        return Err(
            GreetError::Who { node: hello.node, what: "a member that does not dial this node" }.into()
        );
    }
    let lanes = lanes_between(&ours, &hello);
    if lane >= lanes {
        return Err(GreetError::NoLane { node: hello.node, lane, lanes }.into());
    }
    let lane = GreetedLane { wire: wire.set_adrift()?, hello, version };
    Ok(Answered { peer: NodeId(peer as u16), lane, lanes })
}

/// The member that has been refused for its version, if it said so much.
fn of_other_version(node: &Node, error: &GreetError) -> Option<usize> {
    let GreetError::Frame(FrameError::Version { who: Some(who), .. }) = error else { return None };
    let named = |name: &str| *who == format!("node {name} of cluster {}", node.config.cluster);
    let members = node.members();
    members.all().find(|(_, member)| named(&member.name)).map(|(peer, _)| usize::from(peer.0))
}

/// Whether the two may talk, and in which version.
fn check(node: &Node, theirs: &Hello, ours: &Hello) -> Result<u8, GreetError> {
    theirs.check(ours)?;
    check_membership(&node.members(), theirs)?;
    // Slots have one size: whatever the peer says of itself, a volume of another one must not get in.
    let block = node.arena.block() as u32;
    if let Some(disk) = theirs.disks.iter().find(|disk| disk.block_bytes != block) {
        let (node, theirs) = (theirs.node.clone(), disk.block_bytes);
        return Err(Mismatch::Block { node, theirs, ours: block }.into());
    }
    // What clients here read and write must not become another volume under their hands.
    for disk in &theirs.disks {
        if let Some(card) = node.cards.of(disk.id).filter(|card| card.attach.volume != disk.name) {
            let (was, now) = (card.attach.volume.clone(), disk.name.clone());
            forget_places(node, theirs);
            return Err(GreetError::Moved { node: theirs.node.clone(), was, now });
        }
    }
    let (theirs, who) =
        (theirs.versions, Some(format!("node {} of cluster {}", theirs.node, theirs.cluster)));
    Ok(ours.versions.agree(theirs).ok_or(FrameError::Version { theirs: theirs.newest, who })?)
}

/// Until the two meet, no card is attached in a place where a peer had a volume and has it no more.
fn forget_places(node: &Node, theirs: &Hello) {
    let Some((peer, _)) = node.members().find(&theirs.node) else { return };
    let is_there = |spec: &&VolumeSpec| {
        let control = node.control();
        control.volumes().any(|known| known.id == spec.id && known.name == spec.name)
    };
    let there = theirs.disks.iter().filter(is_there).map(|spec| spec.id).collect();
    node.links[usize::from(peer.0)].has_disks(there);
}

/// Whoever says to be a member has the membership that the coordinator knows of.
fn check_membership(members: &Members, theirs: &Hello) -> Result<(), GreetError> {
    let known = members.find(&theirs.node).and_then(|(_, member)| member.membership);
    if known == theirs.membership {
        return Ok(());
    }
    let node = theirs.node.clone();
    let (theirs, known) = (theirs.membership.unwrap_or(0), known.unwrap_or(0));
    Err(GreetError::Membership { node, theirs, known })
}

async fn send(wire: &mut Wire, hello: &Hello) -> Result<(), GreetError> {
    wire.write_all(&peer::encode_hello(hello)?).await?;
    Ok(wire.flush().await?)
}

async fn receive(wire: &mut Wire) -> Result<Hello, GreetError> {
    let mut header = [0; HEADER_SIZE];
    wire.read_exact(&mut header).await?;
    let announced = peer::decode_hello(&header)?;
    let mut body = vec![0; announced.length()];
    wire.read_exact(&mut body).await?;
    Ok(announced.decode(&body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_hangs_up_is_said_to_do_so() {
        let error = GreetError::Io(io::ErrorKind::UnexpectedEof.into());
        assert_eq!(
            format!("{error}; {}", error.remedy()),
            "it hangs up; if it refuses this node, its log says why"
        );
    }

    #[test]
    fn what_the_kernel_says_of_a_route_is_told_as_one() {
        let remedy = |errno| GreetError::Io(io::Error::from_raw_os_error(errno)).remedy();
        assert!(remedy(libc::EINVAL).contains("route"));
        assert!(remedy(libc::EACCES).contains("route"));
        assert!(remedy(libc::EHOSTUNREACH).contains("firewalls"));
        assert!(remedy(libc::ECONNREFUSED).contains("cards serve"));
    }
}
