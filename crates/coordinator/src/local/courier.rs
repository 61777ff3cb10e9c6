//! What brings requests to other arbiters, and their replies back: over HTTP, one after the other to each.
//!
//! What does not get there is lost, as the register expects: it is asked again.

use std::collections::HashMap;
use std::time::Duration;

use cards_register::{Led, Reply, ReplyBody, Request};
use cards_wire::register::{decode_reply, encode_request};
use hyper::StatusCode;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::kept::Route;
use crate::remote::{Answer, Ask, Connection, Failed, Known, Peer, RemoteConfig};
use crate::wire::REGISTER;

use super::Published;
use super::actor::{Message, Parcel};
use super::mailbox::{Sender, Unread};

/// Requests that wait for one arbiter: more are of no use to it.
const WAITING_MAX: usize = 8;
/// How long a request may take there and back.
const LIMIT: Duration = Duration::from_secs(1);
/// The least that comes through in a second, in bytes: a long request may take longer.
const RATE: usize = 8 << 20;
/// After so long without a request the way to a node is given up.
const UNUSED: Duration = Duration::from_secs(30);

/// Carries what comes until nothing can come any more.
pub(super) async fn carry(
    mut parcels: mpsc::UnboundedReceiver<Parcel>,
    config: RemoteConfig,
    published: watch::Receiver<Published>,
    actor: Sender<Message>,
) {
    let mut ways: HashMap<Route, mpsc::Sender<Request<Led<Vec<u8>>>>> = HashMap::new();
    while let Some(Parcel { route, request }) = parcels.recv().await {
        ways.retain(|_, way| !way.is_closed());
        let way = ways.entry(route).or_insert_with_key(|route| {
            let (way, requests) = mpsc::channel(WAITING_MAX);
            let way_of = Way {
                route: route.clone(),
                config: config.clone(),
                published: published.clone(),
                actor: actor.clone(),
                idle: None,
            };
            tokio::spawn(way_of.run(requests));
            way
        });
        // If it is full, the node does not answer, and nothing is the better for being late.
        let _ = way.try_send(request);
    }
}

/// The way to one node.
struct Way {
    route: Route,
    config: RemoteConfig,
    published: watch::Receiver<Published>,
    actor: Sender<Message>,
    idle: Option<Connection>,
}

impl Way {
    async fn run(mut self, mut requests: mpsc::Receiver<Request<Led<Vec<u8>>>>) {
        while let Ok(Some(request)) = timeout(UNUSED, requests.recv()).await {
            let Ok(frame) = encode_request(&request) else { continue };
            let limit = LIMIT + Duration::from_secs((frame.len() / RATE) as u64);
            let ask = Ask { path: REGISTER.to_owned(), body: Some(frame.into()) };
            let Ok(Ok(answer)) = timeout(limit, self.exchange(&ask)).await else { continue };
            if answer.status == StatusCode::GONE
                && let Some(kept) = answer.kept.filter(|kept| kept.history == answer.history)
                && self.actor.send(Message::Succeeded(kept)).is_err()
            {
                return;
            }
            if answer.status == StatusCode::OK
                && let Ok(reply) = decode_reply(&answer.body)
                && self.reply(reply).is_err()
            {
                return;
            }
        }
    }

    /// Hands a reply to the actor. It does not wake for a confirmation, as it has nothing to do then: it hears what has come before it
    /// looks at the time, so none is too late for that.
    fn reply(&self, reply: Reply<Led<Vec<u8>>>) -> Result<(), Unread> {
        match reply.body {
            ReplyBody::Confirm { .. } => self.actor.leave(Message::Reply(reply)),
            _ => self.actor.send(Message::Reply(reply)),
        }
    }

    async fn exchange(&mut self, ask: &Ask) -> Result<Answer, Failed> {
        let peer = Peer::at(&self.route, &self.config).map_err(Failed::Final)?;
        let idle = self.idle.take().filter(|idle| idle.key() == peer.shows_key());
        let open = match idle {
            Some(idle) => idle.ready(LIMIT).await,
            None => None,
        };
        let mut connection = match open {
            Some(open) => open,
            None => peer.connect(LIMIT).await?,
        };
        let kept = self.published.borrow().kept.clone();
        let known = Known { history: kept.history, seen: None, kept: Some(kept) };
        let answer = connection.exchange(&peer, ask, known).await?;
        self.idle = Some(connection);
        Ok(answer)
    }
}
