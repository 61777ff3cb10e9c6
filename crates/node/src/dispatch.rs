//! Between the state machines and the world: inputs go in under a lock, outputs are routed after it.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use cards_core::{
    Body, ControlInput, ControlMessage, ControlOutput, Input, IoError, Message, NodeId, Output, Patch,
    Payload, PgId, Shard, Slot, VolumeSpec,
};

use crate::journal::Task;
use crate::node::link::outbox::Way;
use crate::node::link::outgoing::{Frame, Outgoing};
use crate::node::{Event, Local, Node, Place, ShardState};
use crate::traffic::Traffic;

impl Local {
    /// Calls a shard under its lock and takes its outputs; [`Self::route`] must follow, at the latest at the
    /// end of the turn.
    pub(crate) fn shard<R>(&self, shard: u16, call: impl FnOnce(&mut ShardState) -> R) -> R {
        let mut state = self.node.shards[usize::from(shard)].lock();
        let result = call(&mut state);
        self.collect(shard, &mut state);
        result
    }

    /// Takes the outputs of a shard whose lock is held.
    pub(crate) fn collect(&self, shard: u16, state: &mut ShardState) {
        while let Some(output) = state.shard.poll() {
            match output {
                // Under the lock, because nobody else may use the slot at this time.
                Output::Patch { slot, slot_offset, length, from } => {
                    self.patch(Place { shard, slot }, slot_offset as usize, length as usize, from);
                }
                output => self.outputs.borrow_mut().push_back((shard, output)),
            }
        }
        self.node.arm(shard, state.shard.next_timeout().map(|(at, _)| at));
        #[cfg(test)]
        state.shard.check();
    }

    /// Gives an input to every shard.
    pub(crate) fn all_shards(&self, input: &Input) {
        for shard in 0..self.node.shard_count() {
            let now = self.node.now();
            self.shard(shard, |state| state.handle(now, input.clone()));
        }
    }

    /// Unpins slots, with one lock for neighbours of one shard.
    pub(crate) fn unpin(&self, places: impl IntoIterator<Item = Place>, lent: bool) {
        self.done_with(places, lent, Shard::unpin);
    }

    /// Unpins slots whose client keeps what it has read: what is in them is dropped.
    pub(crate) fn unpin_and_drop(&self, places: impl IntoIterator<Item = Place>, lent: bool) {
        self.done_with(places, lent, Shard::unpin_and_drop);
    }

    fn done_with(
        &self,
        places: impl IntoIterator<Item = Place>,
        lent: bool,
        unpin: impl Fn(&mut Shard, Slot),
    ) {
        let mut places = places.into_iter().peekable();
        while let Some(first) = places.next() {
            self.shard(first.shard, |state| {
                let mut place = first;
                loop {
                    unpin(&mut state.shard, place.slot);
                    state.lent -= u32::from(lent);
                    match places.next_if(|next| next.shard == first.shard) {
                        Some(next) => place = next,
                        None => break,
                    }
                }
            });
        }
    }

    /// Does what the outputs taken so far say, and what comes of that.
    pub(crate) fn route(self: &Rc<Self>) {
        if self.routing.replace(true) {
            return;
        }
        loop {
            // The borrow must not outlive this line: routing adds to the queue.
            let next = self.outputs.borrow_mut().pop_front();
            let Some((shard, output)) = next else { break };
            self.route_one(shard, output);
        }
        self.acquired.set(None);
        self.routing.set(false);
    }

    /// By which lane a message leaves, if it is a read or an answer: the one that has the turn, else that of this thread. A
    /// read follows the question for its lock: if it went beside it, the block could be here first, and would wait.
    fn way(&self, shard: u16, to: NodeId, body: &Body) -> Way {
        match body {
            Body::Acquire { .. } => self.acquired.set(Some((shard, to))),
            Body::Read { .. } if self.acquired.get() == Some((shard, to)) => return Way::First,
            _ => {}
        }
        self.way_back.get().unwrap_or(Way::Thread(self.index.into()))
    }

    fn route_one(self: &Rc<Self>, shard: u16, output: Output) {
        match output {
            Output::Send { to, message, payload } => {
                self.node.probe.sent(to, &message, || self.node.now());
                let payload = match payload {
                    Payload::None => Outgoing::None,
                    Payload::Slot(slot) => Outgoing::Slot(Place { shard, slot }),
                    Payload::Buffer(id) => match self.node.buffers.get(id) {
                        Some(bytes) => Outgoing::Bytes(bytes),
                        None => return,
                    },
                };
                let link = &self.node.links[usize::from(to.0)];
                let way = self.way(shard, to, &message.body);
                if let Err(Frame::Block { payload: Outgoing::Slot(place), message }) =
                    link.push(&self.node.traffic, way, Frame::Block { message, payload })
                {
                    self.unpin([place], false);
                    if let Body::Data { request, block, .. } = message.body {
                        // Somebody waits for it: better a word than silence.
                        let body = Body::Nack { request, block, error: IoError::Busy };
                        let message = Message { body, ..message };
                        let _ = link.push(
                            &self.node.traffic,
                            way,
                            Frame::Block { message, payload: Outgoing::None },
                        );
                    }
                }
            }
            Output::Disk { op, volume, card, work } => {
                self.node.probe.disk_asked(shard, op, volume, &work, || self.node.now());
                if !volume.is_plain() {
                    return self.group_disk(shard, op, volume, work);
                }
                self.disk(shard, op, (volume, card), work);
            }
            Output::Ready { token, .. } | Output::Failed { token, .. } | Output::Done { token, .. } => {
                let (thread, key) = Node::thread_of(token);
                if thread == usize::from(self.index) {
                    self.answer(key, shard, output);
                } else {
                    self.node.threads[thread].post(Event::Output { shard, output });
                }
            }
            Output::Silent { volume, node, generation } => {
                self.control(ControlInput::Silent { volume, node, generation });
            }
            Output::Withdraw { id, volume, blocks } => self.withdraw(shard, id, volume, &blocks),
            Output::SyncFailed { volume } => self.node.changes.push(Task::SyncFailed(volume)),
            Output::Unseal { volume } => self.node.changes.push(Task::Unseal(volume)),
            Output::Release { buffer } => {
                if let Some((bytes, Some(connection))) = self.node.buffers.remove(buffer) {
                    let length = bytes.len();
                    drop(bytes);
                    self.node.writes.released(&self.node.links, connection, length);
                }
            }
            // Carried out where it was taken.
            Output::Patch { slot, slot_offset, length, from } => {
                self.patch(Place { shard, slot }, slot_offset as usize, length as usize, from);
            }
        }
    }

    fn patch(&self, at: Place, start: usize, length: usize, from: Patch) {
        // SAFETY: an output of the core says so, and the shard's lock is held: nobody else uses the slot.
        let slot = unsafe { self.node.arena.bytes_mut(at.shard, at.slot) };
        let target = &mut slot[start..start + length];
        match from {
            Patch::Zero => target.fill(0),
            Patch::Buffer { buffer, offset } => {
                let bytes =
                    self.node.buffers.get(buffer).expect("a patch names a buffer that is not released");
                target.copy_from_slice(&bytes[offset as usize..offset as usize + length]);
                Traffic::add(&self.node.traffic.bytes_copied, length);
            }
        }
    }

    /// Gives an input to the control state machine and does what comes of it.
    ///
    /// What it has to say to the shards is said under its lock: a card that is suspended and attached again
    /// must not be seen in the other order.
    pub(crate) fn control(self: &Rc<Self>, input: ControlInput) {
        let mut outputs = Vec::new();
        let mut allowed = Vec::new();
        let answered = match input {
            ControlInput::Message {
                message: ControlMessage::Attached { volume, .. } | ControlMessage::Refused { volume, .. },
                ..
            } => Some(volume),
            _ => None,
        };
        let begun = {
            let mut control = self.node.control();
            control.handle(self.node.now(), input);
            while let Some(output) = control.poll() {
                match output {
                    ControlOutput::Shards { input } => {
                        match &input {
                            Input::Lease { volume, until } => self.leased(*volume, *until),
                            Input::Leases { leases } => {
                                leases.iter().for_each(|&(volume, until)| self.leased(volume, until));
                            }
                            Input::Attached { volume, .. }
                                if volume.is_plain()
                                    && control
                                        .volume(*volume)
                                        .is_some_and(|spec| spec.primary == self.node.me) =>
                            {
                                self.node.devices.led(*volume);
                            }
                            Input::CardDetached { volume, node } => self.given_up(*volume, *node),
                            Input::CardFenced { volume, node } => self.fenced(*volume, *node),
                            Input::WritesAllowed { volume } if !volume.is_plain() => {
                                let term = control.volume(*volume).map_or(0, |spec| spec.epoch);
                                allowed.push((*volume, term));
                            }
                            _ => {}
                        }
                        self.all_shards(&input);
                        if let Input::Volume { spec } = &input {
                            self.begin_sealed(spec);
                        }
                    }
                    // Under the lock, for their order.
                    ControlOutput::Journal { number, volume, since, note } => {
                        self.node.changes.push(Task::Note { number, volume, since, note });
                    }
                    output => outputs.push(output),
                }
            }
            let at = control.next_timeout().map_or(u64::MAX, |(at, _)| at.0);
            if self.node.control_wake.swap(at, Ordering::SeqCst) > at {
                self.node.threads[0].armed(at);
            }
            !control.is_in_grace()
        };
        if begun && !self.node.writes_begun.swap(true, Ordering::SeqCst) {
            self.node.changes.push(Task::Release);
        }
        for output in outputs {
            self.route_control(output);
        }
        allowed.into_iter().for_each(|(volume, term)| self.group_writes_allowed(volume, term));
        if let Some(volume) = answered {
            self.card_answered(volume);
        }
        self.route();
    }

    /// A disk of this node that the last daemon has left sealed is so until it is written.
    fn begin_sealed(&self, spec: &VolumeSpec) {
        let journal = self.node.journal(spec.id).filter(|_| spec.primary == self.node.me);
        if journal.is_none_or(|journal| !journal.is_sealed()) {
            return;
        }
        self.node.shards.iter().for_each(|cell| cell.lock().shard.begin_sealed(spec.id));
    }

    fn own_spec(&self, volume: PgId) -> Option<&VolumeSpec> {
        self.node.own.get(self.node.disk_index(volume)?)
    }

    /// A card of a volume of this node is gone: said if its node has not given it up itself.
    fn given_up(&self, volume: PgId, node: cards_core::NodeId) {
        let Some(spec) = self.own_spec(volume) else { return };
        if node != self.node.me && !self.node.links[usize::from(node.0)].answers() {
            tracing::warn!(
                volume = spec.name,
                peer = self.node.name(node),
                "its card was given up: no renewal for {:?}",
                self.node.config.lease * 3 / 2
            );
        }
    }

    /// A card of a volume of this node is given up, whether its node wants that or not.
    fn fenced(&self, volume: PgId, node: cards_core::NodeId) {
        let Some(spec) = self.own_spec(volume) else { return };
        tracing::warn!(
            volume = spec.name,
            peer = self.node.name(node),
            "its card is given up: another node takes the volume over"
        );
    }

    fn route_control(self: &Rc<Self>, output: ControlOutput) {
        match output {
            ControlOutput::Send { to, message } => {
                // A full queue drops it; the control repeats what it wants answered.
                let _ = self.node.links[usize::from(to.0)].push(
                    &self.node.traffic,
                    Way::First,
                    Frame::Control(message),
                );
            }
            ControlOutput::Shards { input } => self.all_shards(&input),
            // Carried out where it was taken.
            ControlOutput::Journal { number, volume, since, note } => {
                self.node.changes.push(Task::Note { number, volume, since, note });
            }
            ControlOutput::Exclusivity { number, volume, epoch, exclusivity } => {
                self.note_exclusivity(volume, epoch, number, exclusivity);
            }
            ControlOutput::Withdraw { volume } => self.withdraw_all(volume),
            ControlOutput::AttachDone { volume, result, .. } => self.attach_done(volume, result),
            ControlOutput::Evicted { volume, refusal } => self.attach_done(volume, Err(refusal)),
            ControlOutput::ReadExtents { op, volume, offset, length } => {
                self.read_extents(op, volume, offset, length);
            }
            ControlOutput::ExtentsDone { token, result } => {
                let (thread, _) = Node::thread_of(token);
                if thread == usize::from(self.index) {
                    self.extents_done(token, result);
                } else {
                    self.node.threads[thread].post(Event::Extents { token, result });
                }
            }
        }
    }

    /// The bytes of a slot that the caller has pinned, copied out.
    pub(crate) fn copy_out(&self, place: Place, start: u32, length: u32) -> Vec<u8> {
        // SAFETY: the caller has pinned the slot, and the reference ends here.
        let bytes = unsafe { self.node.arena.bytes(place.shard, place.slot, start, length) };
        Traffic::add(&self.node.traffic.bytes_copied, bytes.len());
        bytes.to_vec()
    }
}
