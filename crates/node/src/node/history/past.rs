//! What this node keeps of the past of others.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::event::EVENTS_MAX;
use super::{SAMPLES_MAX, Told};

/// Nodes whose past is kept; of more, that which ended first is dropped. Each is about 200 KiB after an hour.
const KEPT_MAX: usize = 8;

/// The past of others, by their names.
#[derive(Debug, Default)]
pub(crate) struct Pasts(Mutex<BTreeMap<String, Told>>);

impl Pasts {
    pub(crate) fn of(&self, name: &str) -> Option<Told> {
        self.lock().get(name).cloned()
    }

    /// The last step that is known of a node.
    pub(crate) fn end(&self, name: &str) -> Option<u64> {
        self.lock().get(name).and_then(end)
    }

    /// Takes what a node has told of the time after [`Self::end`].
    pub(crate) fn add(&self, name: &str, told: Told) {
        if !told.is_known() {
            return;
        }
        let mut pasts = self.lock();
        let kept = pasts.entry(name.into()).or_insert_with(|| Told::nothing(vec![name.into()]));
        let after = end(kept);
        let width = kept.fields.len() + 1;
        let is_next = |sample: &Vec<u64>| sample.len() == width && Some(sample[0]) > after;
        kept.samples.extend(told.samples.into_iter().filter(is_next));
        kept.samples.drain(..kept.samples.len().saturating_sub(SAMPLES_MAX));
        for event in told.events {
            // One that has happened again takes the place of what was known of it.
            let is_same = |known: &super::Event| {
                (known.time_ms, known.kind, &known.node, &known.subject)
                    == (event.time_ms, event.kind, &event.node, &event.subject)
            };
            match kept.events.iter_mut().find(|known| is_same(known)) {
                Some(known) => *known = event,
                None => kept.events.push(event),
            }
        }
        kept.events.drain(..kept.events.len().saturating_sub(EVENTS_MAX));
        while pasts.len() > KEPT_MAX {
            let oldest = pasts.iter().min_by_key(|(_, told)| end(told)).map(|(name, _)| name.clone());
            oldest.and_then(|name| pasts.remove(&name));
        }
    }

    /// Forgets those that ended before a step.
    pub(crate) fn expire(&self, begin: u64) {
        self.lock().retain(|_, told| end(told).is_none_or(|end| end >= begin));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(told: &Told) -> Option<u64> {
    told.samples.last().map(|sample| sample[0])
}

#[cfg(test)]
mod tests {
    use super::super::event::{Event, Kind};
    use super::super::{History, Totals};
    use super::*;

    fn told(steps: std::ops::RangeInclusive<u64>) -> Told {
        let history = History::default();
        (*steps.start() - 1..=*steps.end()).for_each(|step| history.note(step, Totals::example(step, &[])));
        history.tell("n2", None)
    }

    #[test]
    fn a_past_grows_by_what_is_new_and_no_longer_than_an_hour() {
        let pasts = Pasts::default();
        pasts.add("n2", told(10..=12));
        pasts.add("n2", told(11..=14));
        let kept = pasts.of("n2").unwrap();
        assert_eq!(kept.samples.iter().map(|sample| sample[0]).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
        assert_eq!((kept.nodes, pasts.end("n2")), (vec!["n2".to_owned()], Some(14)));
        pasts.add("n2", told(15..=3_000));
        assert_eq!(pasts.of("n2").unwrap().samples.len(), SAMPLES_MAX);
        let strange = Told { step_ms: 1, ..told(4_000..=4_001) };
        pasts.add("n2", strange);
        assert_eq!(pasts.end("n2"), Some(3_000));
        pasts.expire(3_001);
        assert!(pasts.of("n2").is_none());
    }

    #[test]
    fn an_event_that_has_happened_again_is_kept_once() {
        let pasts = Pasts::default();
        let event = Event::new(Kind::Error, "n2", "n2", 1);
        let again = Event { count: 2, until_ms: 9, ..event.clone() };
        pasts.add("n2", Told { events: vec![event], ..told(1..=1) });
        pasts.add("n2", Told { events: vec![again.clone()], ..told(2..=2) });
        assert_eq!(pasts.of("n2").unwrap().events, [again]);
    }

    #[test]
    fn of_too_many_the_one_that_ended_first_is_dropped() {
        let pasts = Pasts::default();
        for number in 0..=KEPT_MAX as u64 {
            pasts.add(&format!("n{number}"), told(100 - number..=100 - number));
        }
        assert_eq!(pasts.lock().len(), KEPT_MAX);
        assert!(pasts.of(&format!("n{KEPT_MAX}")).is_none() && pasts.of("n0").is_some());
    }
}
