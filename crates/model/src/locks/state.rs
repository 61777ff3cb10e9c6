//! The whole: what there is, and what can happen next.

use cards_locks::{Fence, FenceGate, Mode};

use super::{Client, Home, Message, Phase, Rules, Token, UNRELIABLE, Wire};

/// Everything there is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    /// Who wants the lock.
    pub clients: [Client; 2],
    /// Who gives it.
    pub home: Home,
    /// What it protects.
    pub store: Store,
    /// What is on its way.
    pub wire: Wire,
}

/// The storage behind the lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Store {
    /// The highest token that was shown.
    pub highest: Token,
    /// It took a write under an older token than it had been shown.
    pub took_stale: bool,
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Time passes; the unreliable client's clock stands still if this says so.
    Tick(bool),
    /// A message arrives; it may arrive again if it stays.
    Deliver(Message, bool),
    /// A message is lost.
    Lose(Message),
    /// The home forgets everything and starts anew.
    Restart,
    /// A client asks for the lock, for the first time or again.
    Ask(usize),
    /// A client renews its lease.
    Renew(usize),
    /// A client that holds the lock writes, which shows its token to the storage.
    Show(usize),
    /// A client looks at its lease and decides to write.
    Decide(usize),
    /// A client sends the write it has decided upon, however long ago.
    Write(usize),
    /// A client gives the lock back, and the home hears of it (else it ends as if not given back).
    Release(usize),
}

impl State {
    /// All that can happen next.
    #[must_use]
    pub fn actions(&self, rules: &Rules) -> Vec<Action> {
        let mut actions = vec![Action::Restart, Action::Tick(false)];
        if rules.stands && self.clients[UNRELIABLE].may_stand() {
            actions.push(Action::Tick(true));
        }
        for message in self.wire.messages() {
            let deliver = [Action::Deliver(message, false), Action::Deliver(message, true)];
            actions.extend(deliver.into_iter().chain([Action::Lose(message)]));
        }
        for (i, client) in self.clients.iter().enumerate() {
            let holds = matches!(client.phase, Phase::Holds { .. });
            let shown = matches!(client.phase, Phase::Holds { shown: true, .. });
            let possible = [
                (!holds && client.decided.is_none(), Action::Ask(i)),
                (holds, Action::Renew(i)),
                (holds, Action::Show(i)),
                (shown && client.decided.is_none() && i == UNRELIABLE, Action::Decide(i)),
                (client.decided.is_some(), Action::Write(i)),
                (holds && client.decided.is_none(), Action::Release(i)),
            ];
            actions.extend(possible.into_iter().filter(|(possible, _)| *possible).map(|(_, action)| action));
        }
        actions
    }

    /// What is after `action`.
    #[must_use]
    pub fn after(&self, action: Action, rules: &Rules) -> Self {
        let mut next = *self;
        match action {
            Action::Tick(stands) => next.tick(stands, rules),
            Action::Deliver(message, stays) => {
                if !stays {
                    next.wire.remove(message);
                }
                next.deliver(message, rules);
            }
            Action::Lose(message) => next.wire.remove(message),
            Action::Restart => next.home = Home::restarted(rules),
            Action::Ask(client) => next.ask(client, rules),
            Action::Renew(client) => next.renew(client, rules),
            Action::Show(client) => next.show(client, rules),
            Action::Decide(client) => next.clients[client].decide(),
            Action::Write(client) => next.write(client, rules),
            Action::Release(client) => next.release(client),
        }
        next.rank_tokens();
        next
    }

    /// Both clients believe that they hold the lock.
    #[must_use]
    pub fn has_two_holders(&self) -> bool {
        self.clients.iter().all(|client| matches!(client.phase, Phase::Holds { .. }))
    }

    pub(crate) fn send(&mut self, message: Message, rules: &Rules) {
        if rules.steady && message.client() != UNRELIABLE {
            self.deliver(message, rules);
        } else {
            self.wire.send(message);
        }
    }

    fn tick(&mut self, stands: bool, rules: &Rules) {
        self.home.tick();
        for i in 0..2 {
            let stands = stands && i == UNRELIABLE;
            self.clients[i].tick(stands, rules.stands && i == UNRELIABLE);
            if !stands {
                self.wire.change(|message| message.client_ticks(i));
            }
        }
    }

    fn deliver(&mut self, message: Message, rules: &Rules) {
        match message {
            Message::Acquire { client, left, present } => self.acquire(client, left, present, rules),
            Message::Renew { client, token, left } => self.renewal(client, token, left, rules),
            Message::Grant { client, token, left, present } => {
                self.clients[client].granted(token, left, present || !rules.bound);
            }
            Message::Write { client, token } => self.store_write(client, token, rules),
        }
    }

    /// The storage writes, if the gate lets it.
    fn store_write(&mut self, client: usize, token: Token, rules: &Rules) {
        let fence = |token: Token| Fence { epoch: 1, count: u64::from(token) };
        let mut gate = FenceGate::default();
        let known = gate.admit(Mode::Write, fence(self.store.highest));
        let admitted = known.and_then(|()| gate.admit(Mode::Write, fence(token)));
        if admitted.is_ok() || !rules.fence {
            self.store.took_stale |= token < self.store.highest;
            self.store.highest = self.store.highest.max(token);
            self.clients[client].written(token);
        }
    }
}
