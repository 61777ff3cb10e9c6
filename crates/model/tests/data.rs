//! Every state of the data protocol's small instances.

use cards_model::data::{Action, CommandId, Instance, Message, Mistake, Node, Outcome, State};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// The model as Stateright wants it.
#[derive(Clone)]
struct Checked(Instance);

const NOTHING_WRONG: &str = "the judge has seen nothing wrong";
const NO_STALE_COPY: &str = "a copy that counts as fresh is what the medium has";
const DIRECTORY: &str = "the directory names all cards that hold the lock";
const ACKNOWLEDGED: &str = "a write is acknowledged in a later epoch than the first";
const REPEATED: &str = "a command is applied in two epochs, and acknowledged";
const FROM_ORIGINS: &str = "a repeated command is answered from the origins";

impl Model for Checked {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(state.actions(&self.0));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(state.after(action, &self.0)).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let safe = [
            Property::always(NOTHING_WRONG, |_: &Self, state: &State| state.judge.verdict.is_none()),
            Property::always(NO_STALE_COPY, |model: &Self, state: &State| {
                state.stale_readers(&model.0).next().is_none()
            }),
            Property::always(DIRECTORY, |_: &Self, state: &State| state.directory_is_complete()),
        ];
        safe.into_iter().chain(self.possible()).collect()
    }
}

impl Checked {
    /// Good things that some run must show, or the model would be safe because nothing happens.
    fn possible(&self) -> Vec<Property<Self>> {
        if self.0.mistake.is_some() || self.0.epochs == 0 {
            return Vec::new();
        }
        let acknowledged = Property::sometimes(ACKNOWLEDGED, |_: &Self, state: &State| {
            commands().any(|id| state.primary.epoch > 1 && state.judge.is_acknowledged(id))
        });
        let other = if self.0.moves {
            Property::sometimes(FROM_ORIGINS, |_: &Self, state: &State| {
                state.network.messages().any(|message| match message {
                    Message::Done { generation, reply, .. } => {
                        reply.outcome == Outcome::Applied && reply.stamp.epoch < generation.epoch
                    }
                    _ => false,
                })
            })
        } else {
            Property::sometimes(REPEATED, |_: &Self, state: &State| {
                commands().any(|id| state.judge.was_repeated(id) && state.judge.is_acknowledged(id))
            })
        };
        vec![acknowledged, other]
    }
}

fn commands() -> impl Iterator<Item = CommandId> {
    [Node::A, Node::B].into_iter().map(|node| CommandId { node, slot: 0 })
}

fn explore(instance: Instance) {
    let checker = Checked(instance).checker().threads(2).spawn_bfs().join();
    println!("{} states, the farthest {} steps away", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// Whether the mistake breaks the promise; prints the run that shows it.
fn breaks(instance: Instance, promise: &'static str) -> bool {
    let finish = HasDiscoveries::AnyOf([promise].into());
    let checker = Checked(instance).checker().finish_when(finish).spawn_bfs().join();
    let states = checker.unique_state_count();
    let Some(path) = checker.discovery(promise) else {
        println!("{:?}: not found in {states} states", instance.mistake);
        return false;
    };
    let verdict = path.last_state().judge.verdict;
    println!("{:?}: not true that {promise} ({verdict:?}) after {states} states:", instance.mistake);
    path.into_actions().iter().for_each(|step| println!("  {step:?}"));
    true
}

/// Two reads, one command each, no new epoch.
const ONE_EPOCH: Instance = Instance { reads: 2, epochs: 0, resends: 0, ..Instance::restart() };
/// One command each, and no reader.
const WRITERS: Instance = Instance { reads: 0, resends: 0, ..Instance::restart() };

#[test]
fn a_restart_keeps_the_promises_in_every_state() {
    explore(Instance { resends: 0, ..Instance::restart() });
}

#[test]
fn a_lost_reply_and_a_restart_keep_the_promises_in_every_state() {
    explore(Instance { resends: 1, ..WRITERS });
    explore(Instance { reads: 2, commands: [1, 0], ..Instance::restart() });
}

#[test]
fn a_lease_that_ends_before_or_in_the_grace_keeps_the_promises_in_every_state() {
    explore(Instance { lapses: 1, ..WRITERS });
}

#[test]
fn a_move_keeps_the_promises_in_every_state() {
    explore(Instance { commands: [1, 0], ..Instance::moved() });
    explore(Instance { reads: 0, resends: 1, ..Instance::moved() });
}

#[test]
#[ignore = "minutes"]
fn a_larger_restart_keeps_the_promises_in_every_state() {
    explore(Instance { prompt: false, resends: 0, ..Instance::restart() });
}

#[test]
#[ignore = "minutes"]
fn a_larger_move_keeps_the_promises_in_every_state() {
    explore(Instance::moved());
}

/// Runs of the protocol with one rule missing: the smallest instance that shows it.
#[test]
fn every_mistake_is_found() {
    let kept = Instance { reads: 2, commands: [1, 0], resends: 0, ..Instance::restart() };
    let reader = Instance { resends: 0, ..Instance::restart() };
    let repeated = Instance { commands: [2, 0], reads: 2, ..reader };
    let lost = Instance { resends: 1, epochs: 0, ..WRITERS };
    let moved = Instance { reads: 0, ..Instance::moved() };
    let mistakes = [
        (Mistake::NoCommandLock, WRITERS, NOTHING_WRONG),
        (Mistake::WriteUnconfirmed, ONE_EPOCH, NO_STALE_COPY),
        (Mistake::DataUnjudged, ONE_EPOCH, NO_STALE_COPY),
        (Mistake::ParkedUnjudged, kept, NO_STALE_COPY),
        (Mistake::LateDone, repeated, NO_STALE_COPY),
        (Mistake::SkipGrace, reader, NO_STALE_COPY),
        (Mistake::NoReplyCache, lost, NOTHING_WRONG),
        (Mistake::RepeatOvertaken, WRITERS, NOTHING_WRONG),
        (Mistake::RepeatOverThisEpoch, WRITERS, NOTHING_WRONG),
        (Mistake::ReleaseUnordered, ONE_EPOCH, NO_STALE_COPY),
        (Mistake::LateGranted, ONE_EPOCH, NO_STALE_COPY),
        (Mistake::UseReleased, reader, NO_STALE_COPY),
        (Mistake::NoGate, moved, NO_STALE_COPY),
        (Mistake::NoOrigins, moved, NOTHING_WRONG),
    ];
    for (mistake, instance, broken) in mistakes {
        assert!(breaks(instance.with(mistake), broken), "{mistake:?}");
    }
}
