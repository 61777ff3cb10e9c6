//! No card serves reads after its lease: once the disk node may have expired a card, the card serves nothing.

use cards_core::Instant;

use super::cards::Cards;
use crate::workload::Ticket;

/// Judges a read that was answered at `at`, at a node that needs a lease for it.
pub(super) fn judge(cards: &Cards, ticket: &Ticket, at: Instant) -> Result<(), String> {
    let (node, volume) = (ticket.node, ticket.volume);
    if cards.primary_until(volume, node).is_some_and(|until| at <= until) {
        return Ok(());
    }
    match cards.of(volume, node) {
        Some(card) if at <= card.until => Ok(()),
        Some(card) => Err(format!(
            "{node:?} answers {ticket:?} at {at:?}, but the primary may have given its card {:?} up at {:?}",
            card.generation, card.until
        )),
        None => Err(format!("{node:?} answers {ticket:?} without ever having had a card")),
    }
}
