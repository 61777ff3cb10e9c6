//! A client of the lock.

use super::{Message, Rules, State, Token};

/// One that wants the lock, writes, and gives it back, again and again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Client {
    /// How far it is.
    pub phase: Phase,
    /// The grant under which it has decided to write, and has not yet.
    pub decided: Option<Token>,
    /// Ticks since its clock stood still, up to two, if it ever does.
    pub moved: u8,
}

/// How far a client is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    /// It does not want the lock.
    #[default]
    Idle,
    /// It has asked.
    Waits,
    /// It has the lock, by its own clock.
    Holds {
        /// The token of the grant.
        token: Token,
        /// Ticks that are left of the lease: at least one.
        left: u8,
        /// The storage has seen the token, so no earlier holder can disturb.
        shown: bool,
    },
}

impl Client {
    /// Its clock moves, or stands still.
    pub(crate) fn tick(&mut self, stands: bool, unreliable: bool) {
        if stands {
            self.moved = 0;
            return;
        }
        if unreliable {
            self.moved = (self.moved + 1).min(2);
        }
        if let Phase::Holds { left, .. } = &mut self.phase {
            *left -= 1;
            if *left == 0 {
                self.phase = Phase::Idle;
            }
        }
    }

    pub(crate) fn may_stand(&self) -> bool {
        self.moved == 2
    }

    pub(crate) fn granted(&mut self, granted: Token, lasts: u8, mine: bool) {
        match &mut self.phase {
            Phase::Waits if mine && lasts > 0 => {
                self.phase = Phase::Holds { token: granted, left: lasts, shown: false };
            }
            Phase::Holds { token, left, .. } if *token == granted => *left = lasts.max(*left),
            Phase::Idle | Phase::Waits | Phase::Holds { .. } => {}
        }
    }

    pub(crate) fn written(&mut self, written: Token) {
        if let Phase::Holds { token, shown, .. } = &mut self.phase {
            *shown |= *token == written;
        }
    }

    pub(crate) fn decide(&mut self) {
        if let Phase::Holds { token, .. } = self.phase {
            self.decided = Some(token);
        }
    }
}

impl State {
    pub(crate) fn ask(&mut self, client: usize, rules: &Rules) {
        if self.clients[client].phase == Phase::Idle {
            self.clients[client].phase = Phase::Waits;
            self.new_attempt(client);
        }
        self.send(Message::Acquire { client, left: rules.lease, present: true }, rules);
    }

    pub(crate) fn renew(&mut self, client: usize, rules: &Rules) {
        if let Phase::Holds { token, .. } = self.clients[client].phase {
            self.send(Message::Renew { client, token, left: rules.lease }, rules);
        }
    }

    pub(crate) fn show(&mut self, client: usize, rules: &Rules) {
        if let Phase::Holds { token, .. } = self.clients[client].phase {
            self.send(Message::Write { client, token }, rules);
        }
    }

    pub(crate) fn write(&mut self, client: usize, rules: &Rules) {
        if let Some(token) = self.clients[client].decided.take() {
            self.send(Message::Write { client, token }, rules);
        }
    }

    pub(crate) fn release(&mut self, client: usize) {
        if let Phase::Holds { token, .. } = self.clients[client].phase {
            self.clients[client].phase = Phase::Idle;
            self.home.release(token);
        }
    }

    /// What is said of the client's earlier attempts is not about this one.
    fn new_attempt(&mut self, of: usize) {
        self.wire.change(|message| match message {
            Message::Acquire { client, present, .. } | Message::Grant { client, present, .. } => {
                *present &= *client != of
            }
            Message::Renew { .. } | Message::Write { .. } => {}
        });
        if let Some(tenure) = &mut self.home.tenure {
            tenure.present &= tenure.client != of;
        }
    }
}
