//! One data thread from its start to its end.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cards_config::Mode;
use cards_core::{ControlInput, Input, PgId};
use tokio::sync::oneshot;

use crate::alarm::Alarm;
use crate::net;
use crate::node::link::Link;
use crate::node::membership::Order;
use crate::node::{Event, Local, Node};
use crate::prefault::Prefault;

/// How long a drain waits for requests under way.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);
/// How long the end waits for commands of other nodes, for who leads groups and the registry next, and for what others are told.
const CLOSE: Duration = Duration::from_secs(5);
/// The grain of timers: nothing here is worth waking a core more often for.
const TICK: Duration = Duration::from_millis(5);

/// Runs data thread `index` until it is told to stop. `ready` hears whether it runs; `start` runs in it first.
pub(crate) fn run(
    node: Arc<Node>,
    index: u8,
    ready: impl FnOnce(std::io::Result<()>),
    start: impl FnOnce(&Rc<Local>),
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return ready(Err(error)),
    };
    let _prefault = (index == 0 && node.config.prefault).then(|| Prefault::start(&node));
    runtime.block_on(async {
        let local = Rc::new(Local::new(node, index));
        local.spawn_disks();
        tokio::task::spawn_local(tick(Rc::clone(&local)));
        if !local.node.config.busy_poll.is_zero() {
            tokio::task::spawn_local(spin(Rc::clone(&local)));
        }
        local.meet_members();
        start(&local);
        ready(Ok(()));
        local.serve_inbox().await;
    });
    runtime.shutdown_background();
}

impl Local {
    /// Starts a task for each member of this thread that has none yet.
    fn meet_members(self: &Rc<Self>) {
        for (peer, _) in self.node.members().live() {
            let mine = net::thread_of_link(&self.node, peer) == usize::from(self.index);
            if mine && peer != self.node.me {
                net::spawn(self, peer);
            }
        }
    }

    async fn serve_inbox(self: &Rc<Self>) {
        let mut events = Vec::new();
        let inbox = Arc::clone(&self.node);
        let inbox = &inbox.threads[usize::from(self.index)];
        loop {
            inbox.take(&mut events).await;
            for event in events.drain(..) {
                match event {
                    Event::Output { shard, output } => self.outputs.borrow_mut().push_back((shard, output)),
                    Event::Extents { token, result } => self.extents_done(token, result),
                    Event::Client(stream, permit) => self.serve_client(stream, permit),
                    Event::Control(input) => self.control(*input),
                    Event::Call(call) => call(self),
                    Event::Members => self.meet_members(),
                    Event::ResolveCards => self.resolve_cards(),
                    Event::Drain => {
                        self.leaving.notify_waiters();
                        for client in self.clients.borrow().iter() {
                            client.wake();
                        }
                        tokio::task::spawn_local(drained(Rc::clone(self)));
                    }
                    Event::Stop => return,
                }
            }
            self.route();
        }
    }
}

/// Ends all threads once the clients of all are gone, or after [`DRAIN`].
async fn drained(local: Rc<Local>) {
    let gone = async {
        while local.connections.get() > 0 {
            local.ended.notified().await;
        }
    };
    if tokio::time::timeout(DRAIN, gone).await.is_err() {
        tracing::warn!(thread = local.index, "clients still connected after {DRAIN:?}: leaving");
    }
    // Threads answer each other's requests and keep each other's peers: they go together.
    if local.node.drained.fetch_add(1, Ordering::SeqCst) + 1 == local.node.threads.len() {
        if tokio::time::timeout(CLOSE, close(&local)).await.is_err() {
            tracing::warn!("commands of other nodes still open after {CLOSE:?}: they ask the next life");
        }
        local.node.threads.iter().for_each(|inbox| inbox.post(Event::Stop));
    }
}

/// Takes no more commands of other nodes, finishes and answers those that are open, and says goodbye where this node has
/// cards: writers there need not wait until their leases are over.
async fn close(local: &Rc<Local>) {
    let node = &local.node;
    local.all_shards(&Input::Closing);
    for card in node.cards.all() {
        // Who has a volume for itself keeps its claim: its device goes on, and nobody else waits.
        let shared = card.attach.mode != Mode::Exclusive;
        // The next primary of a group must not give it one.
        let elsewhere = |volume: &PgId| !volume.is_plain() || node.primary(*volume) != Some(node.me);
        for volume in card.ids().filter(|volume| shared && elsewhere(volume)) {
            local.control(ControlInput::Detach { volume });
        }
    }
    local.route();
    // Others would wait for an election, and for what follows from maps that change with this node's end.
    let (done, resigned) = oneshot::channel();
    let resigns = node.membership.order(Order::Resign { done }).is_ok();
    let open = || node.shards.iter().any(|cell| !cell.lock().shard.has_no_commands());
    Local::end_lost_groups(node).await;
    // Who has copies as well goes on with what others ask for.
    while open() {
        tokio::time::sleep(TICK).await;
    }
    if resigns {
        let _ = resigned.await;
    }
    Local::leave_groups(node).await;
    while open() || !node.links.iter().all(Link::is_idle) {
        tokio::time::sleep(TICK).await;
    }
}

/// Wakes the shards of this thread (and, on thread 0, the control) when they ask for it.
async fn tick(local: Rc<Local>) {
    let node = Arc::clone(&local.node);
    let inbox = &node.threads[usize::from(local.index)];
    let mine = || (usize::from(local.index)..node.shards.len()).step_by(node.threads.len());
    let alarm = Alarm::new();
    loop {
        // While the next time is looked for, whoever arms an earlier one leaves a permit.
        inbox.asleep_until.store(u64::MAX, Ordering::SeqCst);
        let now = node.now();
        let mut next = u64::MAX;
        for shard in mine() {
            if node.shards[shard].wake.load(Ordering::SeqCst) <= now.0 {
                let holding = node.holding.load(Ordering::Relaxed);
                local.shard(shard as u16, |state| {
                    if !holding || state.shard.is_quiet() {
                        state.handle(now, cards_core::Input::Timeout);
                    }
                });
            }
            next = next.min(node.shards[shard].wake.load(Ordering::SeqCst));
        }
        if local.index == 0 {
            if node.control_wake.load(Ordering::SeqCst) <= now.0 {
                local.control(cards_core::ControlInput::Timeout);
            }
            next = next.min(node.control_wake.load(Ordering::SeqCst));
        }
        next = next.min(local.groups_wake());
        local.route();
        inbox.asleep_until.store(next, Ordering::SeqCst);
        let rest = Duration::from_nanos(next.saturating_sub(node.now().0)).max(TICK);
        if next == u64::MAX {
            inbox.rearmed.notified().await;
        } else {
            // Either end is right: the loop looks for itself.
            tokio::select! {
                () = alarm.sleep(rest) => {}
                () = inbox.rearmed.notified() => {}
            }
        }
    }
}

/// Keeps the thread awake while the last request is younger than the busy poll window.
async fn spin(local: Rc<Local>) {
    let window = local.node.config.busy_poll;
    loop {
        match local.spinning.get() {
            Some(last) if last.elapsed() < window => tokio::task::yield_now().await,
            _ => {
                local.spinning.set(None);
                local.spin.notified().await;
            }
        }
    }
}

impl Local {
    /// The first turn of thread 0: what the control has to say at its start, and the cards of this node's own
    /// volumes.
    pub(crate) fn begin(self: &Rc<Self>) {
        self.control(cards_core::ControlInput::Timeout);
        self.resolve_cards();
        tokio::task::spawn_local(Rc::clone(self).miss_volumes());
        if !self.node.disks.is_empty() || !self.node.managed.is_empty() {
            tokio::task::spawn_local(Rc::clone(self).watch_disks());
        }
    }
}
