//! Tokens as ranks: those that nobody remembers any more make no difference.

use super::{Message, Phase, State, Token};

impl State {
    /// The token of a new grant: higher than all.
    pub(crate) fn next_token(&mut self) -> Token {
        let mut highest = 0;
        self.each_token(|token| highest = highest.max(*token));
        highest + 1
    }

    /// Gives all tokens the lowest numbers that keep their order.
    pub(crate) fn rank_tokens(&mut self) {
        let mut known = 1_u32;
        self.each_token(|token| known |= 1 << *token);
        self.each_token(|token| *token = (known & ((1 << *token) - 1)).count_ones() as Token);
    }

    fn each_token(&mut self, mut visit: impl FnMut(&mut Token)) {
        visit(&mut self.store.highest);
        for client in &mut self.clients {
            client.decided.iter_mut().for_each(&mut visit);
            if let Phase::Holds { token, .. } = &mut client.phase {
                visit(token);
            }
        }
        if let Some(tenure) = &mut self.home.tenure {
            visit(&mut tenure.token);
        }
        self.wire.change(|message| match message {
            Message::Renew { token, .. } | Message::Grant { token, .. } | Message::Write { token, .. } => {
                visit(token)
            }
            Message::Acquire { .. } => {}
        });
    }
}
