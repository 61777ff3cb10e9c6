//! The connection of a device: notices out, words in.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use cards_admin::{Claim, Notice, REQUEST_BYTES_MAX, Refusal, RefusalKind, Said, Watching, Word, to_line};
use cards_config::Mode;
use cards_core::{Coherence, ControlInput, Input, PgId, Refusal as CoreRefusal, VolumeSpec};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::attach::explain;
use crate::node::card::{Card, CardState};
use crate::node::devices::Watcher;
use crate::node::{Event, Local, Node};

/// A device's place, from its request on.
pub(crate) struct Watch {
    node: Arc<Node>,
    watcher: Arc<Watcher>,
    notified: UnboundedReceiver<Notice>,
    spec: VolumeSpec,
    /// What it is told first.
    pub(crate) watching: Watching,
}

/// Takes the place of the device of a volume.
///
/// # Errors
/// The volume is not attached here, or has a device, or what the device claims is over.
pub(crate) fn watch(node: &Arc<Node>, volume: &str, claim: Option<Claim>) -> Result<Watch, Refusal> {
    let refused = |kind, message: String| Refusal { kind, message };
    let card = node.cards.find(volume).filter(|card| card.attach.volume == volume).ok_or_else(|| {
        let message = format!(
            "volume {volume:?} is not attached here; run `cards attach {volume}`, and see `cards volume list`"
        );
        refused(RefusalKind::NotAttached, message)
    })?;
    if let CardState::Refused(CoreRefusal::Overtaken(_), message) = card.state() {
        return Err(refused(RefusalKind::Overtaken, message));
    }
    let spec = node.volume(volume).filter(|_| card.state() == CardState::Attached).ok_or_else(|| {
        let message = format!("the disk node of volume {volume:?} does not answer yet; see `cards status`");
        refused(RefusalKind::Unreachable, message)
    })?;
    let claim = settle(node, &card, &spec, claim)?;
    let Some((watcher, notified)) = node.devices.enter(spec.id) else {
        let holder = node.devices.device(spec.id).map_or_else(
            || "another process".into(),
            |device| format!("{} (process {})", device.path.display(), device.pid),
        );
        let message = format!(
            "volume {volume:?} is a local device here already: {holder}; use that, or `cards detach {volume}`"
        );
        return Err(refused(RefusalKind::Busy, message));
    };
    let watching = Watching {
        size: spec.size_bytes,
        block: spec.block_bytes,
        read_only: spec.read_only || !card.attach.mode.access(spec.read_only).may_write(),
        coherent: spec.read_only || spec.coherence == Coherence::Confirmed,
        nbd: node.nbd_socket(),
        claim,
    };
    Ok(Watch { node: Arc::clone(node), watcher, notified, spec, watching })
}

/// What a device may claim that claims `earlier`: present if its card has the volume for itself.
fn settle(
    node: &Node,
    card: &Card,
    spec: &VolumeSpec,
    earlier: Option<Claim>,
) -> Result<Option<Claim>, Refusal> {
    let over = |message| Refusal { kind: RefusalKind::Overtaken, message };
    let name = &spec.name;
    if spec.read_only {
        return Ok(None);
    }
    if card.attach.mode != Mode::Exclusive {
        return match earlier {
            None => Ok(None),
            Some(_) => Err(over(format!(
                "volume {name:?} was attached here as {} while a device had it for itself, and others may write it; unmount                  it and attach it anew",
                card.attach.mode.name()
            ))),
        };
    }
    let Some((present, alone_since)) = node.control().claim(spec.id) else {
        let message = format!("volume {name:?} is being attached again; see `cards status`");
        return Err(Refusal { kind: RefusalKind::Unreachable, message });
    };
    let goes_on = |earlier: Claim| earlier.volume == spec.id.0 && earlier.card >= alone_since.0;
    if !earlier.is_none_or(goes_on) {
        return Err(over(explain(node, card, &CoreRefusal::Overtaken(None))));
    }
    Ok(Some(Claim { volume: spec.id.0, card: present.0 }))
}

impl Watch {
    /// Talks to the device until one of the two ends. A device that does not do what others wait for is given up after
    /// one lease: its connection ends, and with it the wait.
    ///
    /// # Errors
    /// The connection breaks.
    pub(crate) async fn run(
        mut self,
        reader: &mut (impl AsyncBufRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        self.tell_lease();
        let mut look = tokio::time::interval(self.node.config.lease / 4);
        let mut line = Vec::new();
        loop {
            let read = (&mut *reader).take((REQUEST_BYTES_MAX - line.len()) as u64);
            tokio::select! {
                notice = self.notified.recv() => {
                    let Some(notice) = notice else { return Ok(()) };
                    // What it leaves unread it does not do either.
                    let patience = self.node.config.lease;
                    tokio::time::timeout(patience, writer.write_all(&to_line(&notice))).await??;
                }
                read = read_line(read, &mut line) => {
                    if read? == 0 || line.last() != Some(&b'\n') {
                        return Ok(());
                    }
                    let word = Word::heard(&line).map_err(io::Error::other)?;
                    line.clear();
                    if let Some(word) = word {
                        self.hear(word).await;
                    }
                }
                _ = look.tick() => {
                    if self.is_overdue() {
                        tracing::warn!(
                            volume = self.spec.name,
                            "its local device does not withdraw pages and is given up: who reads them there may read old contents until it runs again"
                        );
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn hear(&self, word: Word) {
        match word {
            Word::Keeps { pages } => {
                self.watcher.state().pages = pages;
                keeps(&self.node, self.spec.id, pages).await;
                if !pages {
                    self.all_gone();
                }
                let _ = self.watcher.notices.send(Notice::Keeping { pages });
                self.tell_lease();
            }
            Word::Withdrawn { id } => {
                let waiter = self.watcher.state().open.remove(&id);
                if let Some((waiter, _)) = waiter {
                    self.node.withdrawn(waiter);
                }
            }
            Word::Here(device) => self.watcher.state().device = Some(device),
        }
    }

    /// Nobody waits for pages any more.
    fn all_gone(&self) {
        let open = std::mem::take(&mut self.watcher.state().open);
        open.into_values().for_each(|(waiter, _)| self.node.withdrawn(waiter));
    }

    fn is_overdue(&self) -> bool {
        let now = self.node.now();
        let patience = self.node.config.lease.as_nanos() as u64;
        let state = self.watcher.state();
        state.open.first_key_value().is_some_and(|(_, (_, since))| since.0 + patience < now.0)
    }

    /// What is known of the lease now; later ones are told as they come.
    fn tell_lease(&self) {
        let card = self.node.cards.of(self.spec.id);
        let parts = card.as_ref().and_then(|card| card.parts());
        let leads = |id: PgId| {
            let primary = self.node.control().volume(id).map(|spec| spec.primary);
            primary.unwrap_or(self.spec.primary) == self.node.me
        };
        let leads_all = match parts {
            Some(parts) => parts.ids().all(leads),
            None => leads(self.spec.id),
        };
        if self.spec.read_only || leads_all {
            let _ = self.watcher.notices.send(Notice::Valid { for_ms: None });
        } else if let Some(until) = parts.and_then(|parts| parts.lease()) {
            let lease = self.node.config.lease;
            self.node.devices.leased(self.node.now(), self.spec.id, until, lease);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let had_pages = std::mem::take(&mut self.watcher.state().pages);
        self.all_gone();
        if had_pages {
            let volume = self.spec.id;
            self.node.threads[0].post(Event::Call(Box::new(move |local| pages(local, volume, false))));
        }
        // The next device's word comes after this one's.
        self.node.devices.leave(self.spec.id);
    }
}

/// Tells the state machines whether pages are kept, and waits until they know.
async fn keeps(node: &Node, volume: PgId, kept: bool) {
    let (done, wait) = oneshot::channel();
    node.threads[0].post(Event::Call(Box::new(move |local| {
        pages(local, volume, kept);
        let _ = done.send(());
    })));
    let _ = wait.await;
}

/// In this order: a card that the control gives back without waiting for pages has none.
fn pages(local: &Rc<Local>, volume: PgId, kept: bool) {
    let card = local.node.cards.of(volume);
    let parts = card.as_ref().and_then(|card| card.parts());
    for volume in parts.map_or_else(|| vec![volume], |parts| parts.ids().collect()) {
        local.control(ControlInput::Pages { volume, kept });
        local.all_shards(&Input::Pages { volume, kept });
    }
}

/// As much of a line as there is: called again, it goes on. Says how much came.
async fn read_line(mut reader: impl AsyncBufRead + Unpin, line: &mut Vec<u8>) -> io::Result<usize> {
    reader.read_until(b'\n', line).await
}
