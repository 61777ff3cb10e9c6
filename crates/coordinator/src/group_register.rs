//! The register of a group, as one process has it: the record of the group's map.

use cards_array::group::{Answer, Map, Term};

use crate::change::{Change, NewMap};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::ids::Revision;
use crate::record::GroupMap;
use crate::refusal::Refusal;

/// Reads and proposes the map of one group, for one process. What it answers is what [`cards_array::group::Group::register`] takes:
/// after [`Answer::Read`] no proposal is taken that was made here before.
///
/// A proposal is a [`Change::PutMap`]: it names the term and the fence of the record that it replaces. When its answer is lost, it may be
/// on its way still, wherever the registry is: in a queue at the node that leads it, or in a vote whose outcome the next leader finds.
/// If a read then shows another term, or a higher fence, the proposal is taken no more. If it shows the same, the fence is raised with a
/// change of its own, and what is read after that change is the answer.
///
/// One group has one of these in a process: what another one has proposed, this one does not know.
#[derive(Debug)]
pub struct GroupRegister {
    registry: Coordinator,
    number: u32,
    /// The term and the fence of the record, as it was last seen.
    seen: Option<(Term, u64)>,
    /// What a proposal whose outcome is not known has named.
    doubt: Option<(Term, u64)>,
}

impl GroupRegister {
    /// The register of the group of a number.
    #[must_use]
    pub const fn new(registry: Coordinator, number: u32) -> Self {
        Self { registry, number, seen: None, doubt: None }
    }

    /// Reads the map: [`Answer::Read`], or [`Answer::Unknown`] if the registry does not answer, or has no map of the group (any more).
    pub async fn read(&mut self) -> Answer {
        self.try_read().await.unwrap_or(Answer::Unknown)
    }

    /// Proposes a map in place of the one of the epoch before: [`Answer::Taken`], [`Answer::NotTaken`] or [`Answer::Unknown`].
    pub async fn propose(&mut self, map: &Map) -> Answer {
        let follows = |term: Term| {
            let is_forced = term.generation.checked_add(1) == Some(map.term.generation);
            term.epoch.checked_add(1) == Some(map.term.epoch)
                && (is_forced || term.generation == map.term.generation)
        };
        // Another proposal is open, perhaps: a read tells.
        if self.doubt.is_some() {
            return Answer::Unknown;
        }
        if !self.seen.is_some_and(|(term, _)| follows(term)) {
            match self.look(Revision(0)).await {
                Some(held) if follows(held.term()) => {}
                // It may be there already: another node has handed the group over with it.
                Some(held) if held.map == map.encode() => return Answer::Taken,
                Some(_) => return Answer::NotTaken,
                None => return Answer::Unknown,
            }
        }
        let Some((before, fence)) = self.seen else { return Answer::Unknown };
        let Term { generation, epoch } = before;
        let new = NewMap { number: self.number, generation, epoch, fence, map: map.encode() };
        // Until there is an answer; also if the caller waits for it no longer.
        self.doubt = Some((before, fence));
        let (answer, seen) = match self.registry.submit(Change::PutMap(new)).await {
            Ok(_) => (Answer::Taken, (map.term, fence)),
            Err(Error::Refused(Refusal::MapNotTaken { generation, epoch, fence, .. })) => {
                (Answer::NotTaken, (Term { generation, epoch }, fence))
            }
            // Also another refusal: an attempt before it may have been made, whose answer was lost.
            Err(_) => return Answer::Unknown,
        };
        (self.doubt, self.seen) = (None, Some(seen));
        answer
    }

    async fn try_read(&mut self) -> Option<Answer> {
        let mut held = self.look(Revision(0)).await?;
        if let Some((term, fence)) = self.doubt {
            if held.term() == term && held.fence == fence {
                let applied =
                    self.registry.submit(Change::FenceMap { number: self.number, fence }).await.ok()?;
                held = self.look(applied.revision).await?;
            }
            self.doubt = None;
        }
        held.decode().ok().map(Answer::Read)
    }

    /// The record, as of this revision at least.
    async fn look(&mut self, least: Revision) -> Option<GroupMap> {
        let view = self.registry.view().await.ok().filter(|view| view.revision >= least)?;
        let held = view.maps.get(&self.number)?;
        self.seen = Some((held.term(), held.fence));
        Some(held.clone())
    }
}
