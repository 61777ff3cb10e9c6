//! A request in steps: messages between the daemons cross one at a time.
//!
//! What nodes learn of each other (who has room, who has a copy) depends on the order in which messages arrive. When a
//! node sends to two others, and one of these to the other, two messages are under way at once, and which is first
//! depends on the machine's mood. So each daemon holds what it has for its peers, and the next message leaves when all
//! that the one before has led to is done. The order is that of the simulator with serial timing: a step's messages
//! go to the end of one queue for the whole cluster, by sender and receiver.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cards_admin::{Activity, Client};
use cards_trace::Request;

use super::connection::Connection;
use super::quiet::{Quiet, connect};
use super::{ReplayError, interrupted};
use crate::captive::Cluster;
use crate::error::Error;
use crate::signals::Signals;

/// How long a request may take.
const DONE_WITHIN: Duration = Duration::from_secs(60);
/// Looks between two looks at the clock and the signals.
const EAGER: u32 = 256;

/// Lets requests happen.
pub(super) struct Steps<'a> {
    signals: &'a Signals,
    clients: Vec<Client>,
    /// What policies take for the time.
    clock_ms: u64,
    /// Requests given to nodes so far, those before the replay included.
    demands: u64,
    /// As in [`Quiet`].
    lost: u64,
    /// Sender and receiver of what is held, in the order in which it will leave.
    queue: VecDeque<(usize, u16)>,
    /// How much of what each node holds for each is in the queue.
    queued: Vec<Vec<u32>>,
}

/// All nodes together.
#[derive(Default)]
struct Look {
    busy: usize,
    working: bool,
    demands: u64,
    sent: u64,
    received: u64,
    held: Vec<Vec<u32>>,
}

impl<'a> Steps<'a> {
    /// From here on the daemons of a cluster at rest hold their messages.
    pub(super) fn new(cluster: &Cluster, quiet: &Quiet, signals: &'a Signals) -> Result<Self, Error> {
        let (clients, lost) = (connect(cluster)?, quiet.lost());
        let mut steps = Self {
            signals,
            clients,
            clock_ms: 0,
            demands: 0,
            lost,
            queue: VecDeque::new(),
            queued: Vec::new(),
        };
        for client in &mut steps.clients {
            client.hold()?;
        }
        let Look { demands, held, .. } = steps.look()?;
        (steps.demands, steps.queued) = (demands, held);
        Ok(steps)
    }

    /// Does a request, and all that follows from it. Says how long the client has waited.
    pub(super) fn act(&mut self, connection: &mut Connection, request: &Request) -> Result<Duration, Error> {
        let began = Instant::now();
        // As in the simulator: 1 ms for a request, whatever it takes.
        self.clock_ms += 1;
        for client in &mut self.clients {
            client.policy_clock(self.clock_ms)?;
        }
        connection.begin(request)?;
        self.demands += 1;
        let mut answered = None;
        let mut looks: u32 = 0;
        loop {
            if answered.is_none() && connection.poll()? {
                answered = Some(began.elapsed());
            }
            let look = self.look()?;
            let held: u64 = look.held.iter().flatten().map(|&held| u64::from(held)).sum();
            let crossed = look.sent == look.received + held + self.lost && look.demands == self.demands;
            if crossed && !look.working {
                self.enqueue(&look);
                if let Some((from, to)) = self.queue.pop_front() {
                    self.clients[from].release(to)?;
                    self.queued[from][usize::from(to)] -= 1;
                } else if let Some(done) = answered.filter(|_| look.busy == 0) {
                    return Ok(done);
                }
            }
            looks += 1;
            if looks.is_multiple_of(EAGER) {
                self.patience(&look, began)?;
            }
        }
    }

    fn enqueue(&mut self, look: &Look) {
        for (from, held) in look.held.iter().enumerate() {
            for (to, &held) in held.iter().enumerate() {
                let queued = &mut self.queued[from][to];
                // As many as there are members: 16 bits.
                (*queued..held).for_each(|_| self.queue.push_back((from, to as u16)));
                *queued = held;
            }
        }
    }

    fn look(&mut self) -> Result<Look, Error> {
        for client in &mut self.clients {
            client.ask_activity()?;
        }
        let mut look = Look::default();
        for client in &mut self.clients {
            let Activity { busy, working, demands, messages_sent, messages_received, held } =
                client.activity()?;
            look.busy += usize::from(busy);
            look.working |= working;
            look.demands += demands;
            look.sent += messages_sent;
            look.received += messages_received;
            look.held.push(held);
        }
        Ok(look)
    }

    fn patience(&self, look: &Look, began: Instant) -> Result<(), ReplayError> {
        if interrupted(self.signals) {
            return Err(ReplayError::Interrupted);
        }
        if began.elapsed() < DONE_WITHIN {
            return Ok(());
        }
        let &Look { busy, sent, received, .. } = look;
        Err(ReplayError::Restless { seconds: DONE_WITHIN.as_secs(), sent, received, busy })
    }
}
