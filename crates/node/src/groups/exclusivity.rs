//! Which card has a group's volume for itself: read from the registry before the core's term begins, and kept there in that term.

use std::rc::Rc;
use std::time::Duration;

use cards_array::group::{KeptExclusivity, Map};
use cards_coordinator::{Change, Coordinator, Error, NewExclusivity, Refusal};
use cards_core::{ControlInput, Exclusivity, PgId};

use super::news::APART;
use crate::node::Local;
use crate::node::groups::Hosted;
use crate::node::membership::{Order, Question, Reply};

/// When the registry is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Asks the registry.
pub(crate) async fn ask(registry: &Coordinator, of: PgId, question: Question) -> Reply {
    match question {
        Question::Read(since) => read(registry, of, since).await.unwrap_or(Reply::Nothing),
        Question::Keep(exclusivity) => {
            let change = Change::PutExclusivity(NewExclusivity { number: of.0, exclusivity });
            match registry.submit(change).await {
                Ok(_) => Reply::Kept,
                Err(Error::Refused(Refusal::NotPrimary { .. } | Refusal::UnknownMap { .. })) => Reply::Over,
                Err(_) => Reply::Nothing,
            }
        }
    }
}

/// From the map of that epoch on nobody else notes anything.
async fn read(registry: &Coordinator, of: PgId, since: u64) -> Option<Reply> {
    let view = registry.view().await.ok()?;
    let held = view.maps.get(&of.0)?;
    let map: Map = held.decode().ok()?;
    Some(match map.since {
        at if at == since => {
            let bytes = view.group(of.0).map_or(0, |group| group.served_bytes());
            Reply::Found(held.exclusivity.known_to(&map), bytes)
        }
        at if at > since => Reply::Over,
        // An older view.
        _ => Reply::Nothing,
    })
}

impl Hosted {
    /// The epoch in which this process took over, if it leads the group and the core does not know yet.
    fn taking_over(&self) -> Option<u64> {
        self.group.map().map(|map| map.since).filter(|since| self.reign != Some(*since))
    }

    /// The core's term is that of the group.
    pub(super) fn reigns(&self) -> bool {
        self.group.map().is_some_and(|map| self.reign == Some(map.since))
    }
}

impl Local {
    /// Reads who had the volume for itself when this process took over; then the core's term begins.
    pub(super) fn read_exclusivity(self: &Rc<Self>, of: PgId, since: u64) {
        let is_new = self.hosted(of, |hosted| hosted.reading.replace(since) != Some(since));
        if is_new == Some(true) {
            self.ask_exclusivity(of, Question::Read(since));
        }
    }

    /// The core of a primary wants something kept.
    pub(crate) fn note_exclusivity(
        self: &Rc<Self>,
        of: PgId,
        epoch: u64,
        number: u64,
        exclusivity: Exclusivity,
    ) {
        self.at_home(of, move |local| {
            let question = local.hosted(of, |hosted| {
                let since = hosted.reign.filter(|since| since << APART == epoch)?;
                let generation = hosted.group.map()?.term.generation;
                let kept = KeptExclusivity { generation, since, number, exclusivity };
                // Threads may say it in another order.
                if hosted.noting.is_some_and(|noting| noting.number > number) {
                    return None;
                }
                // One question at a time.
                hosted.noting.replace(kept).is_none().then_some(Question::Keep(kept))
            });
            if let Some(question) = question.flatten() {
                local.ask_exclusivity(of, question);
            }
            local.carry_out_wishes();
        });
    }

    fn ask_exclusivity(self: &Rc<Self>, of: PgId, question: Question) {
        let home = self.home();
        let done = move |reply| home.call(move |local| local.exclusivity_answered(of, question, reply));
        let order = Order::Exclusivity { of, question, done: Box::new(done) };
        if let Err(Order::Exclusivity { done, .. }) = self.node.membership.order(order) {
            done(Reply::Nothing);
        }
    }

    fn exclusivity_answered(self: &Rc<Self>, of: PgId, question: Question, reply: Reply) {
        match question {
            Question::Read(since) => self.exclusivity_read(of, since, reply),
            Question::Keep(kept) => self.exclusivity_kept(of, kept, reply),
        }
        self.carry_out_wishes();
    }

    fn exclusivity_read(self: &Rc<Self>, of: PgId, since: u64, reply: Reply) {
        let is_wanted = |hosted: &mut Hosted| {
            let is_wanted = hosted.reading == Some(since) && hosted.taking_over() == Some(since);
            hosted.reading.take_if(|reading| *reading == since && (!is_wanted || reply != Reply::Nothing));
            is_wanted
        };
        if self.hosted(of, is_wanted) != Some(true) {
            return;
        }
        match reply {
            Reply::Found(exclusivity, bytes) => self.begin_reign(of, since, exclusivity, bytes),
            Reply::Nothing => self.ask_exclusivity_later(of, Question::Read(since)),
            // The group hears of it by itself.
            Reply::Over | Reply::Kept => {}
        }
    }

    fn exclusivity_kept(self: &Rc<Self>, of: PgId, kept: KeptExclusivity, reply: Reply) {
        let next = self.hosted(of, |hosted| {
            if hosted.reign != Some(kept.since) {
                return None;
            }
            hosted.noting.take_if(|noting| reply == Reply::Over || (reply == Reply::Kept && *noting == kept));
            hosted.noting
        });
        if reply == Reply::Kept {
            self.control(ControlInput::ExclusivityKept { volume: of, number: kept.number });
        }
        match (next.flatten(), reply) {
            (Some(noting), Reply::Kept) => self.ask_exclusivity(of, Question::Keep(noting)),
            (Some(noting), _) => self.ask_exclusivity_later(of, Question::Keep(noting)),
            (None, _) => {}
        }
    }

    fn ask_exclusivity_later(self: &Rc<Self>, of: PgId, question: Question) {
        let local = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(AGAIN).await;
            local.ask_exclusivity(of, question);
        });
    }
}
