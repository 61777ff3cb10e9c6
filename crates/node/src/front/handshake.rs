//! A client until it has chosen an export.

use std::io::IoSlice;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cards_config::{ClientMode, ReadAhead};
use cards_core::{Coherence, VolumeSpec};
use cards_policies::read_ahead::{ReadAhead as Detector, Window};
use cards_tls::{Fingerprint, HandshakeError};
use cards_wire::nbd::EXCLUSIVE;
use cards_wire::nbd::consts::*;
use cards_wire::nbd::server::{Closed, Handshake, Question, Step, Tls};
use cards_wire::nbd::{ExportInfo, Refusal, RefusalKind, Session};

use super::caller::Caller;
use super::connection::Connection;
use super::stream::Stream;
use crate::attach::unknown_volume;
use crate::lobby::Permit;
use crate::node::Local;
use crate::node::card::{Card, CardState, Seat};
use crate::node::client::{Accepted, Client};
use crate::node::parts::Parts;

/// Bytes received at a time: options are short.
const RECEIVE: usize = 4096;
/// How long a client waits for cards that are still being attached, all its questions together: longer than a card needs
/// of a disk node that answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to look whether a card that is still being attached is ready.
const LOOK: Duration = Duration::from_millis(20);

/// The volume that an export is of, and whether its client keeps what it reads.
fn parse(export: &str) -> (&str, bool) {
    export.strip_suffix(EXCLUSIVE).map_or((export, false), |volume| (volume, true))
}

/// Why a client was not served.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("handshake not finished within {0:?}")]
    Deadline(Duration),
    #[error(
        "it had not finished its handshake when others wanted in, and half of `nbd.connections` are for handshakes. If many connect \
         {} and say nothing, a larger number does not help: end them there, or keep them out with a firewall. Raise it if they are clients \
         that all come at once",
        .0.map_or_else(|| "from this machine".to_owned(), |from| format!("from {from}"))
    )]
    Evicted(Option<IpAddr>),
    #[error("this node is shutting down")]
    Leaving,
    #[error(transparent)]
    Closed(#[from] Closed),
    #[error("TLS: {0}")]
    Tls(#[from] HandshakeError),
    #[error("the client vanished during the handshake")]
    Vanished,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A client that has chosen.
struct Chosen {
    card: Seat,
    parts: Arc<Parts>,
    session: Session,
    /// It has asked for [`EXCLUSIVE`].
    keeps: bool,
    tail: Vec<u8>,
    stream: Stream,
    /// By which it has proven who it is, if it had to.
    key: Option<Fingerprint>,
}

impl Local {
    /// Serves an accepted connection to its end, on this thread.
    pub(crate) fn serve_client(self: &Rc<Self>, accepted: Accepted, permit: Permit) {
        let local = Rc::clone(self);
        self.connections.set(self.connections.get() + 1);
        tokio::task::spawn_local(async move {
            local.client(accepted, permit).await;
            local.connections.set(local.connections.get() - 1);
            local.ended.notify_one();
        });
    }

    async fn client(self: &Rc<Self>, accepted: Accepted, permit: Permit) {
        let stream = match Stream::adopt(accepted) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a client cannot be served"),
        };
        if self.node.draining() {
            // Those that were greeted before the drain began have been told to leave.
            return;
        }
        let deadline = self.node.config.nbd.handshake;
        let result = tokio::select! {
            result = tokio::time::timeout(deadline, self.handshake(stream, &permit)) => {
                result.unwrap_or(Err(Failed::Deadline(deadline)))
            }
            () = permit.evicted() => Err(Failed::Evicted(permit.from())),
            () = self.leaving.notified() => Err(Failed::Leaving),
        };
        let chosen = match result {
            Ok(chosen) => chosen,
            Err(Failed::Closed(Closed::Aborted) | Failed::Vanished) => return,
            Err(error) => {
                if self.refusals.may() {
                    tracing::info!("a client was not served: {error}");
                }
                return;
            }
        };
        let Chosen { card, parts, session, keeps, tail, stream, key } = chosen;
        let window = match card.attach.read_ahead {
            ReadAhead::Auto => Window::Adaptive(self.node.config.cache / 16),
            ReadAhead::Off => Window::Off,
            ReadAhead::Bytes(bytes) => Window::Fixed(bytes),
        };
        let detector = Detector::new(window, self.node.arena.block() as u32);
        let tap = self.node.probe.tap(self.index, parts.first(), &card.attach.volume);
        let budget = self.node.config.nbd.in_flight;
        let client = Rc::new(Client::new(card, parts, (session, keeps), tap, budget));
        let mut connection = Connection::new(self, client, stream, tail, detector);
        let ended = tokio::select! {
            biased;
            ended = &mut connection => ended,
            () = self.revoked(key) => return tracing::info!("a client is cut off: its certificate was revoked"),
        };
        match ended {
            Ok(()) => connection.say_goodbye().await,
            Err(ended) => tracing::debug!("a client's connection ended: {ended}"),
        }
    }

    /// Waits until a client's certificate is good for nothing.
    async fn revoked(&self, key: Option<Fingerprint>) {
        match (key, &self.node.identity) {
            (Some(key), Some(identity)) => identity.revoked(&key).await,
            _ => std::future::pending().await,
        }
    }

    async fn handshake(&self, mut stream: Stream, permit: &Permit) -> Result<Chosen, Failed> {
        let mut handshake = Handshake::with(self.tls(&stream));
        let mut caller = Caller::Anybody;
        let mut buffer = vec![0; RECEIVE];
        let mut received = Vec::new();
        let (mut opened, mut key) = (None, None);
        let mut patience = PATIENCE.min(self.node.config.nbd.handshake / 2);
        loop {
            let mut input = received.as_slice();
            let step = handshake.advance(&mut input);
            let used = received.len() - input.len();
            received.drain(..used);
            match step {
                Step::Send => {
                    let sent =
                        std::future::poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(handshake.output())]));
                    let sent = sent.await?;
                    handshake.sent(sent);
                    std::future::poll_fn(|cx| stream.poll_flush(cx)).await?;
                }
                Step::StartTls => {
                    let service = self.node.clients.as_ref().ok_or(Failed::Vanished)?;
                    let (sealed, client, of) = stream.secure(service).await?;
                    (stream, caller, key) = (sealed, Caller::Client(client), Some(of));
                    handshake.secured();
                }
                Step::Receive => {
                    let bytes = std::future::poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await?;
                    if bytes == 0 {
                        return Err(Failed::Vanished);
                    }
                    received.extend_from_slice(&buffer[..bytes]);
                }
                Step::Ask(Question::List) => {
                    let mut cards = self.node.cards.all();
                    cards.retain(|card| card.state() == CardState::Attached);
                    cards.retain(|card| caller.may(&self.node.config, &card.attach.volume).is_some());
                    handshake.answer_list(cards.iter().map(|card| (card.attach.volume.as_str(), "")));
                }
                Step::Ask(Question::Describe(name)) => {
                    let answer = self.export(&caller, &name, &mut patience).await;
                    handshake.answer_export(answer.map(|(_, info)| info));
                }
                Step::Ask(Question::Open(name)) => {
                    let answer = self.export(&caller, &name, &mut patience).await;
                    // Before it is told so: a client that believes to be inside must not have to go.
                    if answer.is_ok() && opened.is_none() && !permit.settle() {
                        return Err(Failed::Evicted(permit.from()));
                    }
                    opened = answer.as_ref().ok().map(|(card, _)| Seat::new(card));
                    handshake.answer_export(answer.map(|(_, info)| info));
                }
                Step::Ready(ready) => {
                    let card = opened.ok_or(Failed::Vanished)?;
                    let parts = Arc::clone(card.parts().ok_or(Failed::Vanished)?);
                    let keeps = parse(&ready.export).1;
                    tracing::debug!("{caller} uses volume {:?}", card.attach.volume);
                    return Ok(Chosen {
                        card,
                        parts,
                        session: ready.session,
                        keeps,
                        tail: received,
                        stream,
                        key,
                    });
                }
                Step::Closed(reason) => return Err(reason.into()),
            }
        }
    }

    /// Whether a client over this socket speaks TLS.
    fn tls(&self, stream: &Stream) -> Tls {
        match (stream, &self.node.clients) {
            (Stream::Tcp(_), Some(_)) => match self.node.config.tls("nbd.tcp") {
                cards_config::Tls::Required => Tls::Required,
                cards_config::Tls::Offered => Tls::Offered,
                cards_config::Tls::Off => Tls::Never,
            },
            _ => Tls::Never,
        }
    }

    /// What there is to say to somebody about an export. A card that is still being attached is waited for while `patience` lasts.
    async fn export(
        &self,
        caller: &Caller,
        export: &str,
        patience: &mut Duration,
    ) -> Result<(Arc<Card>, ExportInfo), Refusal> {
        let (name, _) = parse(export);
        // Of volumes that are others' a client does not even learn that they are there.
        let granted = caller.may(&self.node.config, name);
        let unknown = || {
            let mut cards = self.node.cards.all();
            cards.retain(|card| caller.may(&self.node.config, &card.attach.volume).is_some());
            let names: Vec<String> = cards.iter().map(|card| format!("{:?}", card.attach.volume)).collect();
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            let message = match caller {
                Caller::Anybody => format!(
                    "no volume {name:?} is attached at this node (attached: {known}); run `cards volume attach`"
                ),
                Caller::Client(client) => format!(
                    "there is no volume {name:?} at this node for {client} (there is: {known}); see `cards volume attach`, and \
                     [[client]] in its configuration"
                ),
            };
            Refusal::new(RefusalKind::Unknown, message)
        };
        let granted = granted.ok_or_else(unknown)?;
        loop {
            if self.node.draining() {
                return Err(Refusal::new(
                    RefusalKind::Shutdown,
                    "this node is shutting down; use another one",
                ));
            }
            let card = self.node.cards.find(name).ok_or_else(unknown)?;
            match card.state() {
                CardState::Attached => {
                    let spec = self.node.volume(&card.attach.volume).ok_or_else(unknown)?;
                    let info = self.describe(&card, &spec, granted);
                    return Ok((card, info));
                }
                CardState::Refused(_, reason) => return Err(Refusal::new(RefusalKind::Policy, reason)),
                CardState::Waiting if !patience.is_zero() => {
                    tokio::time::sleep(LOOK).await;
                    *patience = patience.saturating_sub(LOOK);
                }
                CardState::Waiting => {
                    let message = match card.volume() {
                        None => format!("volume {name:?}: {}", unknown_volume(&self.node, name)),
                        Some(_) => {
                            format!(
                                "the disk node of volume {name:?} does not answer yet; see `cards status`"
                            )
                        }
                    };
                    return Err(Refusal::new(RefusalKind::Policy, message));
                }
            }
        }
    }

    fn describe(&self, card: &Card, spec: &VolumeSpec, granted: ClientMode) -> ExportInfo {
        let mut flags = NBD_FLAG_SEND_CACHE;
        // Writes go through to the disk before they are answered, at whichever node: a flush at one makes durable what
        // has completed anywhere, and what is flushed is seen everywhere; the latter not if that is left to the policy.
        if spec.read_only || spec.coherence == Coherence::Confirmed {
            flags |= NBD_FLAG_CAN_MULTI_CONN;
        }
        let reads_only = granted == ClientMode::Ro || spec.read_only;
        if !card.attach.mode.access(spec.read_only).may_write() || reads_only {
            flags |= NBD_FLAG_READ_ONLY;
        } else {
            flags |= NBD_FLAG_SEND_FLUSH
                | NBD_FLAG_SEND_FUA
                | NBD_FLAG_SEND_WRITE_ZEROES
                | NBD_FLAG_SEND_FAST_ZERO;
            // Copies have no holes yet. Who trims by punching holes, which have to read as zeroes, would have all of them written:
            // mkfs does so to the whole volume.
            if spec.id.is_plain() {
                flags |= NBD_FLAG_SEND_TRIM;
            }
        }
        ExportInfo {
            name: spec.name.clone(),
            description: match (spec.id.is_plain(), self.node.groups.striped(&spec.name)) {
                (true, _) => format!("disk of node {}", self.node.primary_name(spec.id)),
                (false, None) => "copies on several nodes".into(),
                (false, Some(striped)) => format!("{} over several nodes", striped.layout),
            },
            size: spec.size_bytes,
            flags,
            preferred_block: spec.block_bytes,
        }
    }
}
