//! The port of a node: who comes, and where they are led.
//!
//! All nodes have one for their peers. Where nodes keep the registry, those who ask that come to it as well: what a connection is for is
//! said in the handshake of TLS, or in the clear by its first byte.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cards_coordinator::Visit;
use cards_disk::Seldom;
use cards_tls::{HandshakeError, Proven, Purpose, Shown, Wire};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tracing::Level;

use super::greet::{self, Answered, DEADLINE, GreetError, Refused};
use crate::lobby::{Lobby, Permit};
use crate::node::{Local, Node};

/// Connections that may be introducing themselves at a time.
pub(super) const STRANGERS_MAX: u32 = 128;
/// How long to wait when a connection cannot be accepted (no descriptor, no memory).
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// A node that was forgotten comes again and again: of each the log speaks so often.
const FORGOTTEN_EVERY: Duration = Duration::from_secs(60);

/// Where those who ask the registry of this node are brought.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) visits: mpsc::Sender<Visit>,
    /// Machines that have a token may come: the cluster's authority is here.
    pub(crate) signs: bool,
}

/// Where others come, before the node runs.
pub(crate) struct Port {
    /// The node's address, and where the release before asks the registry.
    pub(crate) listeners: Vec<std::net::TcpListener>,
    /// Unless it is in etcd.
    pub(crate) registry: Option<Registry>,
}

/// What all connections share, whichever listener they come to.
struct Hall {
    local: Rc<Local>,
    registry: Option<Registry>,
    lobby: Arc<Lobby>,
    seldom: Seldom,
    /// When the log has last spoken of a certificate that was revoked, by its owner. The authority has signed for each of them.
    revoked: RefCell<BTreeMap<String, Instant>>,
}

/// Somebody who has said what the connection is for.
enum Guest {
    Peer(Answered),
    /// Who asks the registry, and has shown this if anything has to be.
    Member(Wire, Option<Shown>),
    /// Who does so with a certificate that was revoked.
    Forgotten(Wire, Shown),
    /// Who wants to be a node.
    Machine(Wire),
}

impl Port {
    /// Opens it: from now on whoever comes is served.
    ///
    /// # Errors
    /// The event loop does not take a listener.
    pub(crate) fn open(self, local: &Rc<Local>) -> io::Result<()> {
        let Self { listeners, registry } = self;
        // Whoever is known by name leaves it: half of the places are never taken.
        let lobby = Lobby::new(2 * STRANGERS_MAX);
        let (local, seldom, revoked) = (Rc::clone(local), Seldom::default(), RefCell::default());
        let hall = Rc::new(Hall { local, registry, lobby, seldom, revoked });
        for listener in listeners {
            tokio::task::spawn_local(Rc::clone(&hall).accept(TcpListener::from_std(listener)?));
        }
        Ok(())
    }
}

impl Hall {
    async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    if let Some(permit) = self.lobby.admit(Some(from.ip())) {
                        tokio::task::spawn_local(Rc::clone(&self).serve(stream, from, permit));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the peer port");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    async fn serve(self: Rc<Self>, stream: TcpStream, from: SocketAddr, permit: Permit) {
        let greeted = tokio::select! {
            greeted = tokio::time::timeout(DEADLINE, self.greet(stream)) => greeted,
            () = permit.evicted() => return,
        };
        let led = match greeted.unwrap_or(Err(GreetError::Silent.into())) {
            Ok(Guest::Peer(answered)) => {
                drop(permit);
                return greet::offer(&self.local, answered).await;
            }
            Ok(Guest::Member(wire, shown)) => wire.set_adrift().map_err(Refused::from).and_then(|wire| {
                self.bring(match shown {
                    Some(shown) => Visit::of_node(wire, shown),
                    None => Visit::of_anybody(wire),
                })
            }),
            // These stay in the lobby: a stranger has proven nothing, and a key that was revoked may be in any hands.
            Ok(Guest::Forgotten(wire, shown)) => wire.set_adrift().map_err(Refused::from).and_then(|wire| {
                self.bring(Visit::of_node(wire, shown).until(async move { permit.evicted().await }))
            }),
            Ok(Guest::Machine(wire)) => wire
                .set_adrift()
                .map_err(Refused::from)
                .and_then(|wire| self.bring(Visit::of_machine(wire, async move { permit.evicted().await }))),
            Err(refused) => Err(refused),
        };
        if let Err(refused) = led {
            self.say(&refused, from);
        }
    }

    /// Has somebody say what the connection is for, and prove it.
    async fn greet(&self, stream: TcpStream) -> Result<Guest, Refused> {
        stream.set_nodelay(true)?;
        let node = &self.local.node;
        let Some(identity) = &node.identity else {
            return match self.registry.is_some() && speaks_http(&stream).await? {
                true => Ok(Guest::Member(Wire::plain(stream), None)),
                false => Ok(Guest::Peer(greet::answer(node, Wire::plain(stream), None).await?)),
            };
        };
        let purposes: &[Purpose] = match &self.registry {
            None => &[Purpose::Peer],
            Some(Registry { signs: false, .. }) => &[Purpose::Peer, Purpose::Registry],
            Some(Registry { signs: true, .. }) => &[Purpose::Peer, Purpose::Registry, Purpose::Join],
        };
        let Proven { purpose, wire, shown } =
            cards_tls::accept(stream, identity, purposes).await.map_err(GreetError::from)?;
        Ok(match purpose {
            Purpose::Peer => Guest::Peer(greet::answer(node, wire, Some(shown)).await?),
            Purpose::Registry if shown.key().is_some_and(|key| identity.has_revoked(&key)) => {
                Guest::Forgotten(wire, shown)
            }
            Purpose::Registry => Guest::Member(wire, Some(shown)),
            Purpose::Join => Guest::Machine(wire),
        })
    }

    /// Brings somebody to the coordinator's thread: those who wait for changes there hold up no block.
    fn bring(&self, visit: Visit) -> Result<(), Refused> {
        let registry = self.registry.as_ref().ok_or(GreetError::NoRegistry)?;
        Ok(registry.visits.try_send(visit).map_err(|_| GreetError::NoRegistry)?)
    }

    /// A peer comes again and again, and anybody may knock: what is known is not said twice.
    fn say(&self, refused: &Refused, from: SocketAddr) {
        let (Refused { error, member }, node): (_, &Node) = (refused, &self.local.node);
        let may_pass = error.may_pass();
        let level = match member.map(|member| &node.links[member]) {
            None if let GreetError::Handshake(HandshakeError::Revoked { who, .. }) = error => {
                self.has_news_of(who).then_some(Level::WARN)
            }
            Some(link) if !link.is_up() => link.refused(&error.to_string(), may_pass),
            _ => self.seldom.may().then_some(if may_pass { Level::INFO } else { Level::WARN }),
        };
        match level {
            Some(Level::WARN) => {
                tracing::warn!("a connection to the peer port from {from} was refused: {error}")
            }
            Some(_) => tracing::info!("a connection to the peer port from {from} was refused: {error}"),
            None => {}
        }
    }

    /// Whether the log may speak of somebody whose certificate was revoked.
    fn has_news_of(&self, who: &str) -> bool {
        let mut said = self.revoked.borrow_mut();
        let may = said.get(who).is_none_or(|last| last.elapsed() >= FORGOTTEN_EVERY);
        if may {
            said.insert(who.to_owned(), Instant::now());
        }
        may
    }
}

/// The first byte is one of HTTP, as the registry's clients speak it (`GET`, `POST`), and none of a frame.
pub(super) async fn speaks_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    Ok(matches!(first, [b'G' | b'P']))
}
