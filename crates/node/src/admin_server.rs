//! The admin socket: one request per line, one reply per line, on a thread of its own.
//!
//! | file | noun |
//! |---|---|
//! | `session` | what lasts as long as a connection |
//! | `cards` | volumes, attached and detached |
//! | `volumes` | volumes over several nodes, created, removed and repaired |
//! | `members` | nodes and their certificates |

mod cards;
mod members;
mod session;
mod volumes;

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cards_admin::{self, Activity, REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply, Request};
use cards_config::{Attach, Limit};
use cards_core::Input;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};

use crate::answers;
use crate::attach::not_attached;
use crate::audit;
use crate::auto;
use crate::devices;
use crate::inquiry::{self, Question};
use crate::membership::coordinate;
use crate::mirrors;
use crate::net;
use crate::node::membership::Order;
use crate::node::{Event, Node};
use crate::pins;
use crate::places::{Place, Places};
use crate::policies;
use crate::report;
use crate::sampling;
use crate::scrub;
use crate::spans;
use crate::starting::Starting;
use crate::warm;
use cards_disk::Seldom;

use session::Session;

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
    tokio::join!(
        sampling::run(&node),
        net::watch_silence(&node),
        policies::run(&node),
        auto::run(&node),
        scrub::schedule::run(&node)
    );
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
    match request {
        Request::Status {} => Ok(Reply::Status(Box::new(report::status(node)))),
        Request::Cluster {} => Ok(Reply::Cluster(Box::new((*answers::cluster(node).await).clone()))),
        Request::Why { volume, offset } => {
            Ok(Reply::Why(Box::new(answers::why(node, &volume, offset).await?)))
        }
        Request::VolumeList {} => Ok(Reply::Volumes(mirrors::volumes(node))),
        Request::VolumeShow { volume } => Ok(Reply::Volume(Box::new(volumes::show(node, &volume)?))),
        Request::ManagedDisks {} => {
            Ok(Reply::ManagedDisks(coordinate(node, |done| Order::ManagedDisks { done }).await?))
        }
        Request::CreateVolume(new) => volumes::create(node, new).await,
        Request::RemoveVolume { volume } => volumes::remove(node, volume).await,
        Request::ResizeVolume { volume, size } => volumes::resize(node, volume, size).await,
        Request::CancelResize { volume } => volumes::cancel_resize(node, volume).await,
        Request::ReplaceCopy { volume, from, to } => volumes::replace(node, volume, from, to).await,
        Request::ForceVolume { volume, node: of, epoch } => volumes::force(node, volume, of, epoch).await,
        Request::Attach { volume, mode, policy, read_ahead, takeover, claim } => {
            let (attached, limit) = (None, None);
            let attach = Attach { volume, mode, read_ahead, policy, attached, limit, takeover, claim };
            done(cards::attach(node, attach).await)
        }
        Request::Detach { volume } => done(cards::detach(node, &volume).await),
        Request::Limit { volume, limit } => done(set_limit(node, volume.as_deref(), limit)),
        Request::Watch { volume, claim } => {
            let watch = session.watch.insert(devices::watch(node, &volume, claim)?);
            Ok(Reply::Watching(watch.watching.clone()))
        }
        Request::DropCaches {} => {
            node.on_data_thread(0, |local| {
                local.all_shards(&Input::DropCaches);
                local.route();
            })
            .await;
            Ok(Reply::Done {})
        }
        Request::Activity {} => Ok(Reply::Activity(activity(node).await)),
        Request::Hold {} => session.hold(node),
        Request::PolicyClock { ms } => session.set_policy_clock(node, ms).await,
        Request::Release { to } => session.release(node, to),
        Request::Record {} => session.record(node),
        Request::TakeRecorded {} => session.take_recorded(node),
        Request::Sample { volume } => Ok(Reply::Samples(Box::new(sampling::tell_all(node, &volume).await?))),
        Request::Spans { trace } => {
            Ok(Reply::Spans(Box::new(spans::tell_all(node, trace.as_deref()).await?)))
        }
        Request::Warm { volume, ranges, node: None } => {
            Ok(Reply::Warmed(warm::here(node, &volume, &ranges).await?))
        }
        Request::Warm { volume, ranges, node: Some(at) } => {
            Ok(Reply::Warmed(warm::at(node, &at, volume, ranges).await?))
        }
        Request::Scrub { volume, offset, length } => {
            Ok(Reply::Scrubbed(scrub::part(node, &volume, offset, length).await?))
        }
        Request::Pins { order, node: None } => Ok(Reply::Pins(pins::carry_out(node, order).await?)),
        Request::Pins { order, node: Some(at) } => {
            let peer = warm::member(node, &at)?;
            Ok(Reply::Pins(inquiry::ask(node, peer, &Question::Pins { order }).await?))
        }
        Request::Policies { order } => {
            Ok(Reply::Policies(Box::new(policies::carry_out(node, &mut session.module, order).await?)))
        }
        Request::Shutdown {} => Ok(Reply::Done {}),
        Request::Leave { force } => members::leave(node, force).await,
        Request::Forget { node: name, with_disks } => members::forget(node, name, with_disks).await,
        Request::RenewCertificate {} => members::renew(node).await,
        Request::RevokeCertificate { certificate } => members::revoke(node, &certificate).await,
    }
}

/// The reply to what has no other one.
fn done(result: Result<(), Refusal>) -> Result<Reply, Refusal> {
    result.map(|()| Reply::Done {})
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
