//! The whole: what there is, and what can happen next.

use super::{
    Card, Freshness, Generation, Instance, Judge, Medium, Message, Mistake, NODES, Network, Node, Primary,
    card, primary,
};

/// Everything there is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// One for each node.
    pub cards: [Card; 3],
    /// The primary of the present epoch.
    pub primary: Primary,
    /// The process that was the primary before, if it goes on.
    pub deposed: Option<Primary>,
    /// What both reach.
    pub medium: Medium,
    /// Messages in flight.
    pub network: Network,
    /// What has been seen so far.
    pub judge: Judge,
    /// What may still happen.
    left: Budget,
}

/// How often each fault may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Budget {
    epochs: u8,
    resends: u8,
    lapses: u8,
    reattaches: u8,
    repeats: u8,
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// A client of the node writes or reads.
    Begin(Node),
    /// A message arrives; it may arrive again if it stays.
    Deliver(Message, bool),
    /// The open write of the primary of this epoch reaches the medium.
    Apply(u8),
    /// A card sends its command again, since no reply has come.
    Resend(Node),
    /// A node asks the primary of the present epoch for a new card.
    Attach(Node),
    /// The lease of a node ends.
    LeaseEnds(Node),
    /// A node's lease is renewed, which its primary permits as long as it has not dropped the card.
    Renew(Node),
    /// The primary drops a card whose lease has ended.
    Drop(Node),
    /// The primary waits no longer for a node whose lease has ended.
    EndGrace(Node),
    /// A new epoch begins: the primary restarts, or moves.
    NewEpoch,
}

impl State {
    /// The first epoch: all nodes are attached and hold nothing.
    #[must_use]
    pub fn new(instance: &Instance) -> Self {
        let &Instance { epochs, resends, lapses, reattaches, repeats, .. } = instance;
        Self {
            cards: NODES.map(Card::new),
            primary: Primary::first(),
            deposed: None,
            medium: Medium::new(),
            network: Network::default(),
            judge: Judge::default(),
            left: Budget { epochs, resends, lapses, reattaches, repeats },
        }
    }

    /// All that can happen next.
    #[must_use]
    pub fn actions(&self, instance: &Instance) -> Vec<Action> {
        let mut actions = Vec::new();
        for message in self.network.messages().filter(|message| self.can_arrive(message)) {
            actions.push(Action::Deliver(message, false));
            if self.left.repeats > 0 {
                actions.push(Action::Deliver(message, true));
            }
        }
        for node in NODES {
            self.node_actions(node, instance, &mut actions);
        }
        let mut scratch = (self.medium, Network::default(), Judge::default());
        let around = primary::Surroundings {
            medium: &mut scratch.0,
            network: &mut scratch.1,
            judge: &mut scratch.2,
            instance,
        };
        let primaries = [Some(&self.primary), self.deposed.as_ref()];
        let ready = primaries.into_iter().flatten().filter(|primary| primary.can_apply(&around));
        actions.extend(ready.map(|primary| Action::Apply(primary.epoch)));
        if self.left.epochs > 0 {
            actions.push(Action::NewEpoch);
        }
        actions
    }

    fn node_actions(&self, node: Node, instance: &Instance, actions: &mut Vec<Action>) {
        let card = &self.cards[node.index()];
        let limit = if node == Node::Reader { instance.reads } else { instance.commands[node.index()] };
        let idle = card.command.is_none() && !card.fetching;
        let current = card.generation.is_some_and(|generation| self.primary.is_current(node, generation));
        // The connection tells of a new epoch; of a dropped card, the answer to a renewal.
        let replaced = card.addressed_to < self.primary.epoch || card.generation.is_some() && !current;
        let possible = [
            (idle && card.generation.is_some() && card.begun < limit, Action::Begin(node)),
            (
                self.left.resends > 0 && card.command.is_some() && card.generation.is_some(),
                Action::Resend(node),
            ),
            (replaced || current && self.left.reattaches > 0, Action::Attach(node)),
            (self.left.lapses > 0 && card.lease, Action::LeaseEnds(node)),
            (current && !card.lease, Action::Renew(node)),
            (!card.lease && self.primary.cards[node.index()].is_some(), Action::Drop(node)),
            (!card.lease && self.primary.awaited.contains(node), Action::EndGrace(node)),
        ];
        actions.extend(possible.into_iter().filter(|(possible, _)| *possible).map(|(_, action)| action));
    }

    /// What is after `action`.
    #[must_use]
    pub fn after(&self, action: Action, instance: &Instance) -> Self {
        let mut next = self.clone();
        match action {
            Action::Begin(node) => next.with_card(node, instance, |card, around| match card.generation {
                Some(_) if node == Node::Reader => card.read(node, around),
                Some(generation) => card.write(node, generation, around),
                None => {}
            }),
            Action::Deliver(message, stays) => {
                if stays {
                    next.left.repeats -= 1;
                } else {
                    next.network.remove(message);
                }
                next.deliver(message, instance);
            }
            Action::Apply(epoch) => next.with_primary(epoch, instance, Primary::apply),
            Action::Resend(node) => {
                next.left.resends -= 1;
                next.with_card(node, instance, |card, around| {
                    if let Some(generation) = card.generation {
                        card.send_command(generation, around.network);
                    }
                });
            }
            Action::Attach(node) => next.attach(node),
            Action::LeaseEnds(node) => {
                next.left.lapses -= 1;
                next.cards[node.index()].lease = false;
            }
            Action::Renew(node) => next.with_card(node, instance, |card, around| {
                card.lease = true;
                card.answer_read(around);
            }),
            Action::Drop(node) => next.with_present(instance, |primary, around| {
                primary.drop_card(node, around);
                primary.begin_writes(around);
            }),
            Action::EndGrace(node) => {
                next.with_present(instance, |primary, around| primary.end_grace(node, around));
            }
            Action::NewEpoch => next.begin_epoch(instance),
        }
        next.forget(instance);
        if instance.prompt {
            while let Some(message) = next.next_simple() {
                next.network.remove(message);
                next.deliver(message, instance);
                next.forget(instance);
            }
        }
        next
    }

    fn next_simple(&self) -> Option<Message> {
        self.network.messages().find(|message| message.is_simple() && self.can_arrive(message))
    }

    /// Cards whose copy counts as fresh, and is not what the medium has.
    pub fn stale_readers(&self, instance: &Instance) -> impl Iterator<Item = Node> {
        NODES.into_iter().filter(|node| {
            let card = &self.cards[node.index()];
            card.freshness(instance) == Freshness::Fresh && card.copy != Some(self.medium.contents)
        })
    }

    /// Whether the directory of the present primary names all of its cards that hold the lock.
    #[must_use]
    pub fn directory_is_complete(&self) -> bool {
        NODES.into_iter().all(|node| {
            let card = &self.cards[node.index()];
            let current = card.generation.is_some_and(|generation| self.primary.is_current(node, generation));
            !(current && card.held) || self.primary.holders.contains(node)
        })
    }

    fn attach(&mut self, node: Node) {
        let card = &mut self.cards[node.index()];
        let current = card.generation.is_some_and(|generation| self.primary.is_current(node, generation));
        if current {
            self.left.reattaches -= 1;
        }
        card.attach(node, self.primary.epoch, &mut self.network);
    }

    /// R33: the medium is sealed for the new epoch, and the old primary has no right any more.
    fn begin_epoch(&mut self, instance: &Instance) {
        self.left.epochs -= 1;
        let epoch = self.medium.epoch + 1;
        self.medium.epoch = epoch;
        let next = Primary::new(epoch, self.medium.mark, self.medium.holders);
        let mut earlier = std::mem::replace(&mut self.primary, next);
        earlier.right = false;
        self.deposed = instance.moves.then_some(earlier);
    }

    fn with_card(
        &mut self,
        node: Node,
        instance: &Instance,
        act: impl FnOnce(&mut Card, &mut card::Surroundings<'_>),
    ) {
        let mut around = card::Surroundings { network: &mut self.network, judge: &mut self.judge, instance };
        act(&mut self.cards[node.index()], &mut around);
    }

    fn with_present(
        &mut self,
        instance: &Instance,
        act: impl FnOnce(&mut Primary, &mut primary::Surroundings<'_>),
    ) {
        self.with_primary(self.primary.epoch, instance, act);
    }

    fn with_primary(
        &mut self,
        epoch: u8,
        instance: &Instance,
        act: impl FnOnce(&mut Primary, &mut primary::Surroundings<'_>),
    ) {
        let Self { primary, deposed, medium, network, judge, .. } = self;
        let mut around = primary::Surroundings { medium, network, judge, instance };
        if let Some(primary) =
            [Some(primary), deposed.as_mut()].into_iter().flatten().find(|one| one.epoch == epoch)
        {
            act(primary, &mut around);
        }
    }

    fn of_epoch(&self, epoch: u8) -> Option<&Primary> {
        [Some(&self.primary), self.deposed.as_ref()]
            .into_iter()
            .flatten()
            .find(|primary| primary.epoch == epoch)
    }

    /// Messages that wait for something stay in flight: reads for the write that is open, contents for the lock.
    fn can_arrive(&self, message: &Message) -> bool {
        match *message {
            Message::Read { generation, .. } => {
                self.of_epoch(generation.epoch).is_some_and(|primary| primary.can_read(&self.medium))
            }
            Message::Data { node, .. } => {
                let card = &self.cards[node.index()];
                !card.fetching || card.held && card.lease && card.copy.is_none()
            }
            _ => true,
        }
    }

    fn deliver(&mut self, message: Message, instance: &Instance) {
        match message {
            Message::Attach { node, epoch, request } => {
                self.with_primary(epoch, instance, |primary, around| primary.attach(node, request, around));
            }
            Message::Attached { node, generation, through, .. } => {
                self.with_card(node, instance, |card, around| {
                    card.attached(node, generation, through, around)
                });
            }
            Message::Acquire { node, generation, turn } => {
                self.with_primary(generation.epoch, instance, |primary, around| {
                    primary.acquire(node, generation, turn, around.network);
                });
            }
            Message::Granted { node, turn, bound, through, .. } => {
                self.with_card(node, instance, |card, around| {
                    card.granted(node, turn, bound, through, around)
                });
            }
            Message::Read { node, generation } => {
                self.with_primary(generation.epoch, instance, |primary, around| {
                    primary.read(node, generation, around.medium, around.network);
                });
            }
            Message::Data { node, generation, contents, as_of, through } => {
                self.with_card(node, instance, |card, around| {
                    if card.generation == Some(generation) {
                        card.heard = card.heard.max(through);
                    }
                    card.delivered(node, contents, as_of, around);
                });
            }
            Message::Command { id, generation, turn, first } => {
                self.with_primary(generation.epoch, instance, |primary, around| {
                    primary.command(id, generation, turn, first, around);
                });
            }
            Message::Done { id, generation, turn, reply, granted } => {
                self.with_card(id.node, instance, |card, around| {
                    card.done(id, generation, turn, reply, granted, around)
                });
            }
            Message::Invalidate { node, stamp, .. } => {
                self.with_card(node, instance, |card, around| card.invalidate(node, stamp, around.network));
            }
            Message::InvalidateAck { node, generation, stamp, released, turn } => {
                self.with_primary(generation.epoch, instance, |primary, around| {
                    primary.acknowledge(node, stamp, Some(turn).filter(|_| released), around.instance);
                });
            }
        }
    }

    /// Removes what can make no difference any more: messages that would be ignored whenever they came.
    fn forget(&mut self, instance: &Instance) {
        let mut network = std::mem::take(&mut self.network);
        network.retain(|message| self.matters(message, instance));
        self.network = network;
    }

    fn matters(&self, message: &Message, instance: &Instance) -> bool {
        let to_primary = |node: Node, generation: Generation| {
            self.of_epoch(generation.epoch).filter(|primary| primary.is_current(node, generation))
        };
        let to_card = |node: Node, generation: Generation| {
            Some(&self.cards[node.index()]).filter(|card| card.generation == Some(generation))
        };
        match *message {
            Message::Attach { node, epoch, request } => self.of_epoch(epoch).is_some_and(|primary| {
                let known = primary.requests[node.index()];
                primary.right
                    && (request > known || request == known && primary.cards[node.index()].is_some())
            }),
            Message::Attached { node, request, .. } => {
                let card = &self.cards[node.index()];
                card.generation.is_none() && card.request == request
            }
            Message::Acquire { node, generation, .. } => {
                to_primary(node, generation).is_some_and(|primary| primary.right)
            }
            Message::Read { node, generation } => {
                let wanted = self.cards[node.index()].fetching && self.cards[node.index()].copy.is_none();
                wanted && to_primary(node, generation).is_some_and(|primary| primary.right)
            }
            Message::Command { id, generation, .. } => to_primary(id.node, generation).is_some(),
            Message::InvalidateAck { node, generation, stamp, released, turn } => {
                let unordered = instance.makes(Mistake::ReleaseUnordered);
                to_primary(node, generation).is_some_and(|primary| {
                    let awaited = primary
                        .open
                        .is_some_and(|open| open.stamp == stamp && open.unconfirmed.contains(node));
                    awaited || released && (unordered || turn > primary.turns[node.index()])
                })
            }
            Message::Granted { node, generation, turn, through, .. } => {
                let late = instance.makes(Mistake::LateGranted);
                let counts = |card: &Card| card.acquire == Some(turn) || through > card.heard || late;
                to_card(node, generation).is_some_and(counts)
            }
            Message::Data { node, generation, through, .. } => {
                let card = &self.cards[node.index()];
                card.fetching && card.copy.is_none()
                    || to_card(node, generation).is_some_and(|card| through > card.heard)
            }
            Message::Done { id, generation, granted, .. } => {
                let card = &self.cards[id.node.index()];
                let answers = card.command.is_some_and(|command| {
                    command.id == id && (command.last == generation || instance.makes(Mistake::LateDone))
                });
                let tells = |card: &Card| granted.is_some_and(|granted| granted.through > card.heard);
                answers || to_card(id.node, generation).is_some_and(tells)
            }
            Message::Invalidate { node, generation, .. } => to_card(node, generation).is_some(),
        }
    }
}
