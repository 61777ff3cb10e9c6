//! No write of a fenced card is accepted: what reaches the disk node after the card was fenced or given up is not done.

use std::collections::BTreeMap;

use cards_core::{
    Access, Body, ControlMessage, Generation, Instant, Message, NodeId, PgId, Refusal, RequestId,
};

use super::cards::{Card, Cards};
use crate::faults::{Seen, Word};

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Fencing {
    /// Since when cards may not write any more.
    fenced: BTreeMap<(PgId, Generation), Instant>,
    /// Commands, by their node, its shard and its number for them.
    commands: BTreeMap<(NodeId, u16, RequestId), Command>,
    /// Requests to take a volume over.
    takeovers: BTreeMap<(NodeId, RequestId), PgId>,
    /// Cards that were told in this step of the world that they have ended.
    ended: Vec<(PgId, Generation)>,
}

#[derive(Debug, Default)]
struct Command {
    flush: bool,
    /// The cards it was sent under, and when it can have arrived at first under each.
    sent: Vec<(Generation, Instant)>,
}

impl Fencing {
    /// The next step of the world begins.
    pub(super) fn step(&mut self) {
        self.ended.clear();
    }

    /// A card is new: its node's last one has ended, and, when it is the only one, all others have.
    pub(super) fn granted(&mut self, cards: &Cards, at: Instant, card: &Card, before: Option<&Card>) {
        let others = cards.of_volume(card.volume).filter(|other| other.node != card.node);
        let others = others.filter(|_| card.access == Access::Exclusive);
        for ended in others.chain(before) {
            self.fenced.entry((card.volume, ended.generation)).or_insert(at);
        }
    }

    /// Judges an answer to a command. True when the command came after its card was fenced.
    pub(super) fn saw(&mut self, seen: &Seen) -> Result<bool, String> {
        let Seen::Sent { at, from, to, word, arrives } = seen else { return Ok(false) };
        match word {
            Word::Control(message) => {
                self.control(*at, *from, *to, message);
                Ok(false)
            }
            Word::Shard(message) => self.shard(*from, *to, message, *arrives),
        }
    }

    fn control(&mut self, at: Instant, from: NodeId, to: NodeId, message: &ControlMessage) {
        match *message {
            ControlMessage::Attach { request, volume, access: Access::Exclusive, takeover: true, .. } => {
                self.takeovers.insert((from, request), volume);
            }
            ControlMessage::Expired { volume, generation } => self.ended.push((volume, generation)),
            ControlMessage::Renewed { ref expired, .. } => self.ended.extend(expired),
            // A takeover has begun: in the same step all cards in its way were told.
            ControlMessage::Refused { request, volume, refusal: Refusal::NoAnswer }
                if self.takeovers.contains_key(&(to, request)) =>
            {
                for ended in self.ended.iter().filter(|(of, _)| *of == volume) {
                    self.fenced.entry(*ended).or_insert(at);
                }
            }
            _ => {}
        }
    }

    fn shard(
        &mut self,
        from: NodeId,
        to: NodeId,
        message: &Message,
        arrives: Instant,
    ) -> Result<bool, String> {
        match message.body {
            Body::Command { generation, request, kind, .. } => {
                let flush = kind.is_flush();
                let command = self.commands.entry((from, message.shard, request)).or_default();
                command.flush = flush;
                match command.sent.iter_mut().find(|(under, _)| *under == generation) {
                    Some((_, first)) => *first = arrives.min(*first),
                    None => command.sent.push((generation, arrives)),
                }
                Ok(false)
            }
            // There was no connection to send it on, which its sender need not have known.
            Body::Probe { request, .. } | Body::Void { request, .. } => {
                self.commands.entry((from, message.shard, request)).or_default();
                Ok(false)
            }
            Body::CommandDone { request, result, .. } => {
                let Some(command) = self.commands.get(&(to, message.shard, request)) else {
                    return Err(format!("{from:?} answers {request:?} to {to:?}, which was never sent"));
                };
                let late = |(generation, arrived): &(Generation, Instant)| {
                    self.fenced.get(&(message.volume, *generation)).is_some_and(|fenced| fenced < arrived)
                };
                let late = !command.flush && command.sent.iter().all(late);
                if late && result.is_ok() {
                    return Err(format!(
                        "{from:?} has done {request:?} of {to:?}, though it had fenced the card before it came: {command:?}"
                    ));
                }
                Ok(late && !command.sent.is_empty())
            }
            _ => Ok(false),
        }
    }
}
