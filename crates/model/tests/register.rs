//! Every state of the register's small instances.

use cards_model::register::{Action, Disk, Instance, Log, Script, State, Step};
use cards_register::mistakes::Mistake;
use cards_register::{Acceptor, Proposer};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// The model as Stateright wants it.
#[derive(Clone)]
struct Checked(Instance);

const NOTHING_WRONG: &str = "the judge has seen nothing wrong";
const BOTH_DONE: &str = "all proposers come to the end of their scripts";

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
        vec![
            Property::always(NOTHING_WRONG, |_, state: &State| state.judge.verdict.is_none()),
            Property::sometimes(BOTH_DONE, |model: &Self, state: &State| {
                (0..model.0.scripts.len()).all(|proposer| state.is_done(proposer, &model.0))
            }),
        ]
    }
}

fn explore(instance: Instance) {
    let checker = Checked(instance).checker().threads(2).spawn_bfs().join();
    println!("{} states, the farthest {} steps away", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// The run in which a mistake shows, printed; panics if there is none.
fn assert_breaks(name: &str, instance: Instance) {
    let finish = HasDiscoveries::AnyOf([NOTHING_WRONG].into());
    let checker = Checked(instance).checker().finish_when(finish).spawn_bfs().join();
    let states = checker.unique_state_count();
    let path =
        checker.discovery(NOTHING_WRONG).unwrap_or_else(|| panic!("{name}: not found in {states} states"));
    let verdict = path.last_state().judge.verdict;
    println!("{name}: {verdict:?} after {states} states:");
    path.into_actions().iter().for_each(|step| println!("  {step:?}"));
}

#[test]
fn two_proposers_keep_the_promises_in_every_state() {
    explore(Instance::two_proposers());
}

#[test]
fn a_change_of_arbiters_keeps_the_promises_in_every_state() {
    explore(Instance::change());
}

#[test]
fn a_change_by_two_proposers_keeps_the_promises_in_every_state() {
    const CHANGE: Script = &[Step::Change([1, 2], &[0, 1, 3])];
    const SAME: Script = &[Step::Change([3, 4], &[0, 1, 3])];
    explore(Instance { scripts: &[CHANGE, SAME], ..Instance::change() });
}

#[test]
fn the_founder_is_joined_by_two_others_in_every_state() {
    const GROW: Script = &[Step::Change([1, 2], &[0, 1, 2]), Step::Append(3)];
    explore(Instance {
        arbiters: 1,
        scripts: &[GROW, &[Step::Append(4)]],
        prepares: &[0, 1],
        ..Instance::two_proposers()
    });
}

#[test]
#[ignore = "minutes"]
fn a_change_that_is_given_up_keeps_the_promises_in_every_state() {
    const CHANGE: Script = &[Step::Change([1, 2], &[0, 1, 3])];
    explore(Instance { scripts: &[CHANGE, &[Step::Append(3)]], prepares: &[1, 1], ..Instance::change() });
}

#[test]
fn a_store_that_is_lost_keeps_the_promises_in_every_state() {
    explore(Instance { losses: 1, ..Instance::two_proposers() });
}

#[test]
#[ignore = "minutes"]
fn late_replies_keep_the_promises_in_every_state() {
    explore(Instance { prompt: false, ..Instance::two_proposers() });
}

/// Runs of the protocol with one rule missing: the smallest instance that shows it.
#[test]
fn every_mistake_is_found() {
    let two = Instance::two_proposers();
    let twice = Instance { scripts: &[&[Step::Append(1), Step::Append(2)], &[Step::Append(3)]], ..two };
    let again = Instance { prepares: &[1, 2], ..two };
    let change = Instance::change();
    let lost = Instance { losses: 1, ..two };
    let proposer =
        |mistake: fn(Proposer<Log>) -> Proposer<Log>, instance| Instance { proposer: mistake, ..instance };
    let below = |state| Acceptor::new(state).with_mistake(Mistake::AcceptBelowPromise);
    let mistakes = [
        ("accept below the promise", Instance { acceptor: below, ..two }),
        ("adopt the lowest", proposer(|p| p.with_mistake(Mistake::AdoptLowest), two)),
        ("no write-back", proposer(|p| p.with_mistake(Mistake::SkipWriteBack), two)),
        ("no read-back", proposer(|p| p.with_mistake(Mistake::SkipReadBack), two)),
        ("repeat a step", proposer(|p| p.with_mistake(Mistake::RepeatStep), twice)),
        ("forget doubt", proposer(|p| p.with_mistake(Mistake::ForgetDoubt), again)),
        ("earlier majority only", proposer(|p| p.with_mistake(Mistake::EarlierMajority), change)),
        ("change at once", proposer(|p| p.with_mistake(Mistake::ChangeAtOnce), change)),
        ("vote unsynced", Instance { disk: Disk::Unsynced, ..two }),
        ("amnesiac counts", Instance { disk: Disk::SameId, ..lost }),
        ("one ID for two runs", Instance { one_id: true, ..two }),
    ];
    for (name, instance) in mistakes {
        assert_breaks(name, instance);
    }
}
