//! The lock's home.

use super::{Message, Rules, State, Token};

/// Who has the lock, as its home sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Home {
    /// To whom it is granted.
    pub tenure: Option<Tenure>,
    /// Ticks before anything is granted.
    pub grace: u8,
}

/// A grant that is not over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tenure {
    /// To whom.
    pub client: usize,
    /// The token.
    pub token: Token,
    /// Ticks before it ends, unless it is renewed.
    pub term: u8,
    /// It is what the client's present attempt asks for.
    pub present: bool,
}

impl Home {
    pub(crate) fn restarted(rules: &Rules) -> Self {
        Self { tenure: None, grace: rules.grace }
    }

    pub(crate) fn tick(&mut self) {
        self.grace = self.grace.saturating_sub(1);
        if let Some(tenure) = &mut self.tenure {
            tenure.term -= 1;
            if tenure.term == 0 {
                self.tenure = None;
            }
        }
    }

    pub(crate) fn release(&mut self, token: Token) {
        if self.tenure.as_ref().is_some_and(|tenure| tenure.token == token) {
            self.tenure = None;
        }
    }
}

impl State {
    pub(crate) fn acquire(&mut self, client: usize, left: u8, present: bool, rules: &Rules) {
        match &mut self.home.tenure {
            None if self.home.grace == 0 => {
                let token = self.next_token();
                self.home.tenure = Some(Tenure { client, token, term: rules.term, present });
                self.send(Message::Grant { client, token, left, present }, rules);
            }
            // Repeated: the answer may have been lost.
            Some(tenure) if tenure.client == client && tenure.present == present => {
                tenure.term = rules.term;
                let token = tenure.token;
                self.send(Message::Grant { client, token, left, present }, rules);
            }
            Some(_) | None => {}
        }
    }

    pub(crate) fn renewal(&mut self, client: usize, token: Token, left: u8, rules: &Rules) {
        // A home that has started anew believes what it hears before it grants anything.
        if self.home.tenure.is_none() && self.home.grace > 0 {
            self.home.tenure = Some(Tenure { client, token, term: rules.term, present: false });
        }
        if let Some(tenure) = self.home.tenure.as_mut().filter(|tenure| tenure.token == token) {
            tenure.term = rules.term;
            self.send(Message::Grant { client, token, left, present: false }, rules);
        }
    }
}
