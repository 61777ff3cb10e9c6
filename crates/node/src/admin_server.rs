//! The admin socket: one request per line, one reply per line, on a thread of its own.

mod cards;

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use cards_admin::{self, Activity, REQUEST_BYTES_MAX, Recording, Refusal, RefusalKind, Reply, Request};
use cards_config::{Attach, Limit};
use cards_coordinator::Certificate;
use cards_core::Input;
use cards_tls::Shown;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, oneshot, watch};

use crate::answers;
use crate::attach::not_attached;
use crate::audit;
use crate::auto;
use crate::devices;
use crate::identity;
use crate::inquiry::{self, Question};
use crate::mirrors;
use crate::net;
use crate::node::link::Link;
use crate::node::membership::Order;
use crate::node::{Event, Local, Node};
use crate::pins;
use crate::places::{Place, Places};
use crate::policies;
use crate::record;
use crate::report;
use crate::sampling;
use crate::scrub;
use crate::seldom::Seldom;
use crate::spans;
use crate::starting::Starting;
use crate::warm;

/// Connections at a time, of which idle ones give way.
const CONNECTIONS_MAX: usize = 256;
/// How long a connection may be silent, or leave a reply unread.
const IDLE: Duration = Duration::from_secs(60);
/// How long to wait when a connection cannot be accepted (no descriptor, no memory).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The thread. It answers from the first moment of a daemon on: while there is no node, what the start waits for.
pub(crate) struct AdminServer {
    thread: Option<JoinHandle<()>>,
    node: watch::Sender<Option<Arc<Node>>>,
    shutdown: Arc<Notify>,
    ended: Arc<Notify>,
}

impl AdminServer {
    /// Starts it.
    ///
    /// # Errors
    /// There is no thread or no event loop to be had.
    pub(crate) fn start(listener: StdListener, starting: &Arc<Starting>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _runtime = runtime.enter();
            UnixListener::from_std(listener)?
        };
        let (shutdown, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (node, serves) = watch::channel(None);
        let desk = Arc::new(Desk {
            starting: Arc::clone(starting),
            node: serves.clone(),
            shutdown: Arc::clone(&shutdown),
        });
        let end = Arc::clone(&ended);
        let thread = std::thread::Builder::new().name("cards-admin".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(desk, listener) => {}
                    () = attend(serves) => {}
                    () = end.notified() => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Self { thread: Some(thread), node, shutdown, ended })
    }

    /// Requests are for this node from now on.
    pub(crate) fn serve(&self, node: &Arc<Node>) {
        self.node.send_replace(Some(Arc::clone(node)));
    }

    /// Waits until somebody asks that the daemon shall end.
    pub(crate) async fn shutdown_requested(&self) {
        self.shutdown.notified().await;
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.ended.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is done beside the answers once there is a node, for as long as the runtime runs.
async fn attend(mut serves: watch::Receiver<Option<Arc<Node>>>) {
    let Ok(Some(node)) = serves.wait_for(Option::is_some).await.map(|node| node.clone()) else {
        return std::future::pending().await;
    };
    tokio::join!(sampling::run(&node), net::watch_silence(&node), policies::run(&node), auto::run(&node));
}

/// What all connections share.
struct Desk {
    starting: Arc<Starting>,
    /// None while the daemon starts.
    node: watch::Receiver<Option<Arc<Node>>>,
    shutdown: Arc<Notify>,
}

async fn accept(desk: Arc<Desk>, listener: UnixListener) {
    let (places, seldom) = (Places::new(CONNECTIONS_MAX), Seldom::default());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                let place = places.admit().await;
                tokio::spawn(async move {
                    let talked = tokio::select! {
                        biased;
                        () = place.evicted() => Err(io::Error::other("it was idle, and another one needed its place")),
                        talked = talk(&desk, stream, &place) => talked,
                    };
                    if let Err(error) = talked {
                        tracing::debug!(%error, "an admin connection ended");
                    }
                });
            }
            Err(error) => {
                if seldom.may() {
                    tracing::warn!(%error, "cannot accept an admin client; are there too few descriptors?");
                }
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// What lasts as long as a connection.
#[derive(Default)]
struct Session<'a> {
    recording: Option<record::Session<'a>>,
    held: Option<Held<'a>>,
    watch: Option<devices::Watch>,
    /// Parts of a module that is being loaded.
    module: Vec<u8>,
}

/// A call that sets what policies take for the time.
fn policy_clock(at: Option<cards_core::Instant>) -> impl FnOnce(&Rc<Local>) + Send + 'static {
    move |local| {
        local.all_shards(&Input::PolicyClock { at });
        local.route();
    }
}

/// Messages to peers are held, and the timers that wait for answers rest.
struct Held<'a>(&'a Node);

impl<'a> Held<'a> {
    /// None if they are held for somebody else.
    fn new(node: &'a Node) -> Option<Self> {
        if node.holding.swap(true, Ordering::Relaxed) {
            return None;
        }
        node.links.iter().for_each(|link| link.hold(true));
        Some(Self(node))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.links.iter().for_each(|link| link.hold(false));
        self.0.threads[0].post(Event::Call(Box::new(policy_clock(None))));
        self.0.holding.store(false, Ordering::Relaxed);
    }
}

impl Session<'_> {
    /// Nothing is kept for the connection: its end would end nothing else.
    const fn is_empty(&self) -> bool {
        self.recording.is_none() && self.held.is_none() && self.watch.is_none() && self.module.is_empty()
    }
}

/// The next request line; without its newline if it is the last one, none after that.
async fn next_line(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut bounded = reader.take(REQUEST_BYTES_MAX as u64 + 1);
    let read = tokio::time::timeout(IDLE, bounded.read_until(b'\n', &mut line)).await??;
    Ok((read > 0).then_some(line))
}

async fn reply(writer: &mut OwnedWriteHalf, reply: &Reply) -> io::Result<()> {
    tokio::time::timeout(IDLE, writer.write_all(&cards_admin::to_line(reply))).await?
}

async fn talk(desk: &Desk, stream: UnixStream, place: &Arc<Place>) -> io::Result<()> {
    let operator = stream.peer_cred().ok();
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let (node, mut line) = loop {
        let Some(line) = next_line(&mut reader).await? else { return Ok(()) };
        let node = desk.node.borrow().clone();
        if let Some(node) = node {
            break (node, line);
        }
        reply(&mut writer, &desk.starting.answer(&line)).await?;
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
    };
    let node = &node;
    let mut session = Session::default();
    let mut busy = Some(place.busy());
    loop {
        let request = cards_admin::parse_request(&line);
        let last = line.last() != Some(&b'\n');
        let ends = matches!(request, Ok(Request::Shutdown {} | Request::Leave { .. }));
        let answer = match request {
            Ok(request) => {
                let entry = audit::Entry::of(&request);
                let answered = answer(node, &mut session, request).await;
                if let Some(entry) = entry {
                    entry.close(operator.as_ref(), &answered);
                }
                answered.unwrap_or_else(Reply::Error)
            }
            Err(refusal) => Reply::Error(refusal),
        };
        let end = ends && matches!(answer, Reply::Done {});
        reply(&mut writer, &answer).await?;
        if let Some(watch) = session.watch.take() {
            return watch.run(&mut reader, &mut writer).await;
        }
        if end {
            desk.shutdown.notify_one();
        }
        if last {
            return Ok(());
        }
        if session.is_empty() {
            busy = None;
        }
        let Some(next) = next_line(&mut reader).await? else { return Ok(()) };
        busy.get_or_insert_with(|| place.busy());
        line = next;
    }
}

async fn answer<'a>(
    node: &'a Arc<Node>,
    session: &mut Session<'a>,
    request: Request,
) -> Result<Reply, Refusal> {
    Ok(match request {
        Request::Status {} => Reply::Status(Box::new(report::status(node))),
        Request::Cluster {} => Reply::Cluster(Box::new((*answers::cluster(node).await).clone())),
        Request::Why { volume, offset } => Reply::Why(Box::new(answers::why(node, &volume, offset).await?)),
        Request::VolumeList {} => Reply::Volumes(mirrors::volumes(node)),
        Request::VolumeShow { volume } => {
            let found = mirrors::volumes(node).into_iter().find(|known| known.name == volume);
            Reply::Volume(Box::new(found.ok_or_else(|| Refusal::no_such_volume(&volume))?))
        }
        Request::ManagedDisks {} => {
            Reply::ManagedDisks(coordinate(node, |done| Order::ManagedDisks { done }).await?)
        }
        Request::CreateVolume(new) => {
            let (new, on) = mirrors::new(node, new)?;
            coordinate(node, |done| Order::CreateVolume { new: Box::new(new), on, done }).await?;
            Reply::Done {}
        }
        Request::RemoveVolume { volume } => {
            mirrors::check_detached(node, &volume)?;
            coordinate(node, |done| Order::RemoveVolume { volume, done }).await?;
            Reply::Done {}
        }
        Request::ReplaceCopy { volume, from, to } => {
            coordinate(node, |done| Order::ReplaceCopy { volume, from, to, done }).await?;
            Reply::Done {}
        }
        Request::ForceVolume { volume, node: of, epoch } => {
            coordinate(node, |done| Order::ForceVolume { volume, node: of, epoch, done }).await?;
            Reply::Done {}
        }
        Request::Attach { volume, mode, policy, read_ahead, takeover, claim } => {
            let attached = None;
            let limit = None;
            cards::attach(
                node,
                Attach { volume, mode, read_ahead, policy, attached, limit, takeover, claim },
            )
            .await?;
            Reply::Done {}
        }
        Request::Detach { volume } => {
            cards::detach(node, &volume).await?;
            Reply::Done {}
        }
        Request::Limit { volume, limit } => {
            set_limit(node, volume.as_deref(), limit)?;
            Reply::Done {}
        }
        Request::Watch { volume, claim } => {
            let watch = session.watch.insert(devices::watch(node, &volume, claim)?);
            Reply::Watching(watch.watching.clone())
        }
        Request::DropCaches {} => {
            node.on_data_thread(0, |local| {
                local.all_shards(&Input::DropCaches);
                local.route();
            })
            .await;
            Reply::Done {}
        }
        Request::Activity {} => Reply::Activity(activity(node).await),
        Request::Hold {} => {
            session.held = Some(Held::new(node).ok_or_else(|| Refusal {
                kind: RefusalKind::Busy,
                message: "somebody holds this node's messages already; wait for the end of that".into(),
            })?);
            Reply::Done {}
        }
        Request::PolicyClock { ms } => {
            if session.held.is_none() {
                let message = "the time of policies can be set by who holds the messages only".into();
                return Err(Refusal { kind: RefusalKind::BadRequest, message });
            }
            let at = cards_core::Instant(ms.saturating_mul(1_000_000));
            node.on_data_thread(0, policy_clock(Some(at))).await;
            Reply::Done {}
        }
        Request::Release { to } => {
            let link = node.links.get(usize::from(to)).filter(|_| session.held.is_some());
            if !link.is_some_and(Link::release) {
                let message = format!("no message to member {to} is held on behalf of this connection");
                return Err(Refusal { kind: RefusalKind::BadRequest, message });
            }
            Reply::Done {}
        }
        Request::Record {} => {
            let (now, started_us) = node.clock.now_and_utc_us();
            session.recording = Some(node.probe.recorder.begin(now).ok_or_else(|| Refusal {
                kind: RefusalKind::Busy,
                message:
                    "somebody records what this node's clients do already; wait for the end of that".into(),
            })?);
            let (volumes, members) = (record::volumes(node), node.links.len() as u16);
            Reply::Recording(Recording { node: node.me.0, members, started_us, volumes })
        }
        Request::TakeRecorded {} => {
            let recording = session.recording.as_ref().ok_or_else(|| Refusal {
                kind: RefusalKind::BadRequest,
                message: "nothing is being recorded on this connection; send {\"request\":\"record\"} first"
                    .into(),
            })?;
            Reply::Recorded(recording.take(node.now()))
        }
        Request::Sample { volume } => Reply::Samples(Box::new(sampling::tell_all(node, &volume).await?)),
        Request::Spans { trace } => Reply::Spans(Box::new(spans::tell_all(node, trace.as_deref()).await?)),
        Request::Warm { volume, ranges, node: None } => {
            Reply::Warmed(warm::here(node, &volume, &ranges).await?)
        }
        Request::Warm { volume, ranges, node: Some(at) } => {
            Reply::Warmed(warm::at(node, &at, volume, ranges).await?)
        }
        Request::Scrub { volume, offset, length } => {
            Reply::Scrubbed(scrub::part(node, &volume, offset, length).await?)
        }
        Request::Pins { order, node: None } => Reply::Pins(pins::carry_out(node, order).await?),
        Request::Pins { order, node: Some(at) } => {
            let peer = warm::member(node, &at)?;
            Reply::Pins(inquiry::ask(node, peer, &Question::Pins { order }).await?)
        }
        Request::Policies { order } => {
            let parts = &mut session.module;
            Reply::Policies(Box::new(policies::carry_out(node, parts, order).await?))
        }
        Request::Shutdown {} => Reply::Done {},
        Request::Leave { force } => {
            coordinate(node, |done| Order::Leave { force, done }).await?;
            Reply::Done {}
        }
        Request::Forget { node: name, with_disks } => {
            Reply::Forgotten(coordinate(node, |done| Order::Forget { name, with_disks, done }).await?)
        }
        Request::RenewCertificate {} => {
            let ends = coordinate(node, |done| Order::RenewCertificate { done }).await?;
            Reply::Renewed { certificate_ends_s: identity::seconds(ends) }
        }
        Request::RevokeCertificate { certificate } => {
            let certificate = Shown::in_pem(&certificate).and_then(|shown| Certificate::named(&shown));
            let certificate = certificate.ok_or_else(|| Refusal {
                kind: RefusalKind::BadRequest,
                message: "this is no certificate with a name; send one as PEM".into(),
            })?;
            coordinate(node, |done| Order::Revoke { certificate, done }).await?;
            Reply::Done {}
        }
    })
}

/// Limits what clients may have of a card, or of all cards of the node together.
fn set_limit(node: &Node, volume: Option<&str>, limit: Option<Limit>) -> Result<(), Refusal> {
    let bad = |problem: cards_config::Problem| Refusal {
        kind: RefusalKind::BadRequest,
        message: problem.to_string(),
    };
    limit.iter().try_for_each(|limit| limit.validate("limit")).map_err(bad)?;
    let whom = match volume {
        None => {
            node.limiter.set(limit);
            "this node".to_owned()
        }
        Some(name) => {
            let card = node.cards.find(name).filter(|card| card.attach.volume == name);
            card.ok_or_else(|| not_attached(node, name))?.limiter().set(limit);
            format!("volume {name}")
        }
    };
    match limit {
        Some(limit) => tracing::info!("clients of {whom} are limited to {limit}"),
        None => tracing::info!("clients of {whom} are not limited"),
    }
    // Requests that wait under the limit there was ask again under this one.
    for thread in node.threads.iter() {
        thread.post(Event::Call(Box::new(|local| {
            local.clients.borrow().iter().for_each(|client| client.wake())
        })));
    }
    Ok(())
}

/// Has the session with the coordinator do something.
async fn coordinate<R>(
    node: &Node,
    order: impl FnOnce(oneshot::Sender<Result<R, String>>) -> Order,
) -> Result<R, Refusal> {
    let refused = |message: String| Refusal { kind: RefusalKind::Coordinator, message };
    let (done, wait) = oneshot::channel();
    if node.membership.order(order(done)).is_err() {
        let message = "the members of this cluster are those of its configuration, and nobody can join or leave; \
                       give it [coordinator.embedded], see `cards cluster init`";
        return Err(refused(message.into()));
    }
    wait.await.unwrap_or_else(|_| Err("the daemon is ending".into())).map_err(refused)
}

/// Looks on the data threads themselves, between two of their turns: none is caught halfway.
async fn activity(node: &Node) -> Activity {
    let mut activity = Activity::default();
    for thread in 0..node.threads.len() {
        let now = node.on_data_thread(thread, report::activity).await.unwrap_or_default();
        activity = Activity {
            busy: activity.busy || now.busy,
            working: activity.working || now.working,
            demands: activity.demands + now.demands,
            ..now
        };
    }
    activity
}
