//! Every state of a group's small instances.

use std::time;

use cards_array::group::mistakes::Mistake;
use cards_array::group::{Group, Message};
use cards_model::group::{Action, Instance, State, Verdict};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// The model as Stateright wants it.
#[derive(Clone)]
struct Checked(Instance);

const NOTHING_WRONG: &str = "the judge has seen nothing wrong";
const LATE: &str = "what may come late comes when the other node serves";
const FAILED_OVER: &str = "the other node serves, and all writes are acknowledged";

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
            Property::sometimes(LATE, |model: &Self, state: &State| {
                model.0.lates == 0 || state.nodes[1].serves() && state.has_come_late(&model.0)
            }),
            Property::sometimes(FAILED_OVER, |model: &Self, state: &State| {
                let writers = model.0.sends.len();
                state.nodes[1].serves() && (0..writers).all(|writer| state.is_acknowledged(writer))
            }),
        ]
    }
}

/// Depth first: the states that are still to be looked at are large, and fewer so.
fn explore(instance: Instance) {
    let begun = time::Instant::now();
    let checker = Checked(instance).checker().threads(2).spawn_dfs().join();
    println!("{} states in {:?}", checker.unique_state_count(), begun.elapsed());
    checker.assert_properties();
}

/// What is wrong in the shortest run in which something is, which is printed.
fn shortest(name: &str, instance: Instance) -> Option<Verdict> {
    let finish = HasDiscoveries::AnyOf([NOTHING_WRONG].into());
    let checker = Checked(instance).checker().finish_when(finish).spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery(NOTHING_WRONG)?;
    let verdict = path.last_state().judge.verdict;
    println!("{name}: {verdict:?} after {states} states: {:?}", path.into_actions());
    verdict
}

#[test]
fn nodes_that_are_cut_off_keep_the_promises_in_every_state() {
    explore(Instance::cut_off());
}

#[test]
fn a_process_that_ends_keeps_the_promises_in_every_state() {
    explore(Instance::ended());
}

#[test]
fn a_process_that_stands_still_keeps_the_promises_in_every_state() {
    explore(Instance::paused());
}

#[test]
#[ignore = "minutes"]
fn late_beacons_keep_the_promises_in_every_state() {
    let comes_late = |message: &Message<u8>| {
        matches!(message, Message::Put { .. } | Message::Beacon { .. } | Message::BeaconAck { .. })
    };
    explore(Instance { comes_late, lates: 2, sends: &[1], ..Instance::cut_off() });
}

#[test]
#[ignore = "minutes"]
fn links_that_are_cut_one_way_keep_the_promises_in_every_state() {
    explore(Instance { cuts: 0, one_way_cuts: 2, skips: [1, 1], ..Instance::cut_off() });
}

#[test]
#[ignore = "minutes"]
fn a_register_that_does_not_answer_keeps_the_promises_in_every_state() {
    explore(Instance { doubts: 2, ticks: 10, ..Instance::cut_off() });
}

#[test]
#[ignore = "minutes"]
fn processes_that_end_while_they_are_cut_off_keep_the_promises_in_every_state() {
    explore(Instance { crashes: 1, ..Instance::cut_off() });
}

/// Runs of the group with one rule missing: the smallest instance that shows it.
#[test]
fn every_mistake_is_found() {
    macro_rules! mistaken {
        ($mistake:ident, $instance:expr) => {{
            let group = |me, disk, size, timing, now| {
                Group::with_mistake(me, disk, size, timing, now, Mistake::$mistake)
            };
            let found = shortest(stringify!($mistake), Instance { group, ..$instance });
            assert!(found.is_some(), "{}", stringify!($mistake));
        }};
    }
    let cut_off = Instance::cut_off();
    let ended = Instance::ended();
    mistaken!(ServeWithoutRight, Instance { sends: &[], ..cut_off });
    mistaken!(SealWithinPromise, Instance { sends: &[], ..cut_off });
    mistaken!(ForgetPromise, Instance { sends: &[], ticks: 7, crashes: 1, heals: 0, ..cut_off });
    mistaken!(AcceptEarlierEpoch, cut_off);
    mistaken!(ForgetOrigins, ended);
    mistaken!(SkipReconciliation, Instance { sends: &[2], ..ended });
    mistaken!(ForgetUnstable, Instance { sends: &[2], ..cut_off });
}

/// A clock that runs slower than is allowed is noticed: the times of a group rest on that one bound.
#[test]
fn a_clock_that_is_too_slow_is_found() {
    let instance = Instance { skips: [6, 0], sends: &[], lates: 0, heals: 0, ..Instance::cut_off() };
    assert_eq!(shortest("a slow clock", instance), Some(Verdict::BothServe));
}
