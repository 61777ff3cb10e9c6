//! A network that loses, repeats, delays and reorders messages. Every message goes through the wire format.

use cards_core::{Body, Duration, Instant, NodeId};
use cards_world::models::{Delivery, Network, Parcel};

use super::{Fault, Faults, Seen, Word};

impl Network for Faults {
    fn deliver(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        parcel: Parcel<'_>,
        deliveries: &mut Vec<Delivery>,
    ) {
        super::wire::round_trip(parcel);
        let first = deliveries.len();
        self.carry(now, from, to, parcel, deliveries);
        if !self.is_prying(to, parcel) {
            self.traffic.sent(parcel, &deliveries[first..]);
        }
        if let Some(word) = Word::of(parcel, self.options.world.strangers.contains(&to)) {
            let delays = deliveries[first..].iter().map(|delivery| delivery.delay);
            let arrives = delays.min().map_or(Instant::NEVER, |delay| now + delay);
            self.seen.push(Seen::Sent { at: now, from, to, word, arrives });
        }
    }
}

impl Faults {
    /// It is a stranger's question, or the answer: no cost of what clients want.
    fn is_prying(&self, to: NodeId, parcel: Parcel<'_>) -> bool {
        let Parcel::Shard { message, .. } = parcel else { return false };
        let strangers = &self.options.world.strangers;
        match &message.body {
            Body::Read { requester, .. } => strangers.contains(requester),
            Body::Nack { .. } => strangers.contains(&to),
            _ => false,
        }
    }

    fn carry(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        parcel: Parcel<'_>,
        deliveries: &mut Vec<Delivery>,
    ) {
        let options = self.options.network.clone();
        let payload = matches!(
            parcel,
            Parcel::Shard { payload_bytes: 1.., .. } | Parcel::Group { payload_bytes: 1.., .. }
        );
        let mut copies = 1;
        if !self.calm {
            if self.deaf_until.get(&(from, to)).is_some_and(|&until| now < until) {
                return self.count(Fault::OneWay);
            }
            if self.network_rng.chance(options.loss) {
                return self.count(Fault::Loss);
            }
            if self.network_rng.chance(options.duplicate) {
                self.count(Fault::Duplicate);
                copies = 2;
            }
        }
        for _ in 0..copies {
            let mut delay = options.delay_min + self.network_rng.skewed(options.delay_spread);
            let mut broken = false;
            if !self.calm {
                if self.network_rng.chance(options.rare) {
                    self.count(Fault::Late);
                    delay += self.network_rng.skewed(options.delay_rare);
                }
                if payload && self.network_rng.chance(options.broken) {
                    self.count(Fault::Broken);
                    broken = true;
                }
            }
            let last = self.last_arrival.get(&(from, to)).copied().unwrap_or_default();
            let mut overtakes = false;
            if now + delay < last {
                overtakes = options.reorder && !self.calm;
                if !overtakes {
                    delay = last.since(now);
                }
            }
            if overtakes {
                self.count(Fault::Reorder);
            } else if self.before.get(&(from, to)).is_some_and(|&last| now + delay < last) {
                self.count(Fault::TwoConnections);
            }
            let transfer = match payload {
                true => self.network_rng.skewed(Duration::from_micros(300)),
                false => Duration::ZERO,
            };
            // What is sent later on a connection comes after all bytes of this one.
            self.last_arrival.insert((from, to), last.max(now + delay + transfer));
            deliveries.push(Delivery { delay, transfer, broken });
        }
    }
}
