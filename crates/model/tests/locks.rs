//! Every state of the lock service.

use std::collections::HashMap;

use cards_model::locks::{Action, Client, Phase, Rules, State, UNRELIABLE};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// The model as Stateright wants it.
#[derive(Clone)]
struct Checked(Rules);

const ONE_HOLDER: &str = "at most one client believes that it holds the lock";
const NO_STALE_WRITE: &str = "no write of an earlier holder is taken once a later one has shown its token";
const HANDED_OVER: &str = "a client writes after the other";

impl Model for Checked {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(state.actions(&self.0));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        Some(state.after(action, &self.0)).filter(|next| next != state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_HOLDER, |_, state: &State| !state.has_two_holders()),
            Property::always(NO_STALE_WRITE, |_, state: &State| !state.store.took_stale),
            Property::sometimes(HANDED_OVER, |_, state: &State| {
                state.clients[UNRELIABLE].decided.is_some() && is_established(&state.clients[1])
            }),
        ]
    }
}

/// It holds the lock and has shown so.
fn is_established(client: &Client) -> bool {
    matches!(client.phase, Phase::Holds { shown: true, .. })
}

/// A way to break a promise, if there is one, with the shortest found.
fn breaks(rules: Rules, promise: &'static str) -> bool {
    let finish = HasDiscoveries::AnyOf([promise].into());
    let checker = Checked(rules).checker().threads(2).finish_when(finish).spawn_bfs().join();
    let found = checker.discovery(promise);
    if let Some(path) = &found {
        println!("{promise}: broken after {} steps:", path.clone().into_actions().len());
        path.clone().into_actions().iter().for_each(|action| println!("  {action:?}"));
    }
    found.is_some()
}

#[test]
fn leases_and_tokens_keep_the_promises_in_every_state() {
    let checker = Checked(Rules::default()).checker().threads(2).spawn_bfs().join();
    println!("{} states, the farthest {} steps away", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

#[test]
fn without_the_fence_a_stale_write_is_taken() {
    assert!(breaks(Rules { fence: false, ..Rules::default() }, NO_STALE_WRITE));
}

#[test]
fn a_home_whose_view_of_a_lease_ends_first_makes_two_holders() {
    let rules = Rules { lease: 3, term: 2, ..Rules::default() };
    assert!(breaks(rules, ONE_HOLDER));
}

#[test]
fn a_home_that_grants_at_once_after_a_start_makes_two_holders() {
    assert!(breaks(Rules { grace: 0, ..Rules::default() }, ONE_HOLDER));
}

#[test]
fn a_grant_that_is_good_for_a_later_attempt_makes_two_holders() {
    assert!(breaks(Rules { bound: false, ..Rules::default() }, ONE_HOLDER));
}

#[test]
fn whatever_has_happened_each_client_can_get_the_lock_and_write() {
    assert!(can_always_write(&Rules { stands: false, ..Rules::default() }));
}

/// From every state that can be reached each client can come to hold the lock and to have written under it: no
/// state is a trap.
fn can_always_write(rules: &Rules) -> bool {
    let mut numbers: HashMap<State, usize> = HashMap::from([(State::default(), 0)]);
    let mut states = vec![State::default()];
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut visited = 0;
    while let Some(state) = states.get(visited).copied() {
        for action in state.actions(rules) {
            let next = state.after(action, rules);
            let number = *numbers.entry(next).or_insert(states.len());
            if number == states.len() {
                states.push(next);
                before.push(Vec::new());
            }
            before[number].push(visited as u32);
        }
        visited += 1;
    }
    (0..2).all(|client| {
        let mut good: Vec<bool> = states.iter().map(|state| is_established(&state.clients[client])).collect();
        let mut next: Vec<usize> = (0..states.len()).filter(|&number| good[number]).collect();
        while let Some(number) = next.pop() {
            for &earlier in &before[number] {
                if !std::mem::replace(&mut good[earlier as usize], true) {
                    next.push(earlier as usize);
                }
            }
        }
        good.into_iter().all(|good| good)
    })
}
