//! What lasts as long as a connection: messages that are held, a recording, a watched device, parts of a module.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use cards_admin::{Recording, Refusal, RefusalKind, Reply};
use cards_core::Input;

use crate::devices;
use crate::node::link::Link;
use crate::node::{Event, Local, Node};
use crate::record;

/// What lasts as long as a connection.
#[derive(Default)]
pub(super) struct Session<'a> {
    recording: Option<record::Session<'a>>,
    held: Option<Held<'a>>,
    pub(super) watch: Option<devices::Watch>,
    /// Parts of a module that is being loaded.
    pub(super) module: Vec<u8>,
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

impl<'a> Session<'a> {
    /// Nothing is kept for the connection: its end would end nothing else.
    pub(super) const fn is_empty(&self) -> bool {
        self.recording.is_none() && self.held.is_none() && self.watch.is_none() && self.module.is_empty()
    }

    /// Holds the messages of the node.
    pub(super) fn hold(&mut self, node: &'a Node) -> Result<Reply, Refusal> {
        self.held = Some(Held::new(node).ok_or_else(|| Refusal {
            kind: RefusalKind::Busy,
            message: "somebody holds this node's messages already; wait for the end of that".into(),
        })?);
        Ok(Reply::Done {})
    }

    /// Sets what policies take for the time.
    pub(super) async fn set_policy_clock(&self, node: &Node, ms: u64) -> Result<Reply, Refusal> {
        if self.held.is_none() {
            let message = "the time of policies can be set by who holds the messages only".into();
            return Err(Refusal { kind: RefusalKind::BadRequest, message });
        }
        let at = cards_core::Instant(ms.saturating_mul(1_000_000));
        node.on_data_thread(0, policy_clock(Some(at))).await;
        Ok(Reply::Done {})
    }

    /// Sends the next message to a member that is held.
    pub(super) fn release(&self, node: &Node, to: u16) -> Result<Reply, Refusal> {
        let link = node.links.get(usize::from(to)).filter(|_| self.held.is_some());
        if !link.is_some_and(Link::release) {
            let message = format!("no message to member {to} is held on behalf of this connection");
            return Err(Refusal { kind: RefusalKind::BadRequest, message });
        }
        Ok(Reply::Done {})
    }

    /// Begins to record what the clients of the node do.
    pub(super) fn record(&mut self, node: &'a Node) -> Result<Reply, Refusal> {
        let (now, started_us) = node.clock.now_and_utc_us();
        self.recording = Some(node.probe.recorder.begin(now).ok_or_else(|| Refusal {
            kind: RefusalKind::Busy,
            message: "somebody records what this node's clients do already; wait for the end of that".into(),
        })?);
        let (volumes, members) = (record::volumes(node), node.links.len() as u16);
        Ok(Reply::Recording(Recording { node: node.me.0, members, started_us, volumes }))
    }

    /// What was recorded since it was taken last.
    pub(super) fn take_recorded(&self, node: &Node) -> Result<Reply, Refusal> {
        let recording = self.recording.as_ref().ok_or_else(|| Refusal {
            kind: RefusalKind::BadRequest,
            message: "nothing is being recorded on this connection; send {\"request\":\"record\"} first"
                .into(),
        })?;
        Ok(Reply::Recorded(recording.take(node.now())))
    }
}
