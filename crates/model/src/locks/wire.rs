//! Messages on their way.

use super::Token;

/// A message. `left` is what is left, by the client's clock, of a lease that begins when the client spoke;
/// `present` says that it belongs to the client's present attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Message {
    /// Client to home.
    Acquire {
        /// Who.
        client: usize,
        /// See above.
        left: u8,
        /// See above.
        present: bool,
    },
    /// Client to home.
    Renew {
        /// Who.
        client: usize,
        /// What it holds.
        token: Token,
        /// See above.
        left: u8,
    },
    /// Home to client, as an answer to both of the first.
    Grant {
        /// Who.
        client: usize,
        /// What it holds.
        token: Token,
        /// See above.
        left: u8,
        /// See above.
        present: bool,
    },
    /// Client to storage. The storage tells the client that it was done; were that lost, the client would repeat
    /// the write.
    Write {
        /// Who.
        client: usize,
        /// Under which grant.
        token: Token,
    },
}

/// At most two messages on their way at one time, in no order; a third is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Wire([Option<Message>; 2]);

impl Wire {
    /// The messages.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.0.into_iter().flatten()
    }

    pub(crate) fn send(&mut self, message: Message) {
        if let [free @ None, _] | [_, free @ None] = &mut self.0
            && *free != Some(message)
        {
            *free = Some(message);
        }
        self.tidy();
    }

    pub(crate) fn remove(&mut self, message: Message) {
        for place in &mut self.0 {
            if *place == Some(message) {
                *place = None;
            }
        }
        self.tidy();
    }

    pub(crate) fn change(&mut self, change: impl FnMut(&mut Message)) {
        self.0.iter_mut().flatten().for_each(change);
        self.tidy();
    }

    /// No message twice, and one order for the same messages.
    fn tidy(&mut self) {
        if self.0[0] == self.0[1] {
            self.0[0] = None;
        }
        self.0.sort_unstable();
    }
}

impl Message {
    /// Who has sent it or is to have it.
    pub(crate) const fn client(&self) -> usize {
        match self {
            Self::Acquire { client, .. }
            | Self::Renew { client, .. }
            | Self::Grant { client, .. }
            | Self::Write { client, .. } => *client,
        }
    }

    /// The client's clock has moved on.
    pub(crate) fn client_ticks(&mut self, moved: usize) {
        match self {
            Self::Acquire { client, left, .. }
            | Self::Renew { client, left, .. }
            | Self::Grant { client, left, .. } => {
                if *client == moved {
                    *left = left.saturating_sub(1);
                }
            }
            Self::Write { .. } => {}
        }
    }
}
