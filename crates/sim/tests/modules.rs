//! Policies of users.

use cards_sim::{Report, Setup};
use cards_user_policy::Module;

use crate::lab::{Shape, go, random_trace, setup};

const SHAPE: Shape = Shape { nodes: 5, volumes: 2, blocks: 60, requests: 3_000, writes: 20, others: 10 };

fn module(text: &str) -> Module {
    Module::new(&wat::parse_str(text).unwrap()).unwrap()
}

fn with(module: &Module) -> Setup {
    Setup { module: Some(module.clone()), ..setup("mine.wasm", 5, 12) }
}

#[test]
fn a_module_that_answers_at_random_is_slow_and_never_wrong() {
    let module = module(include_str!("../../user-policy/tests/modules/random.wat"));
    for seed in 1..=3 {
        let trace = random_trace(seed, SHAPE);
        let random = go(&with(&module), &trace);
        assert_eq!(random.policy_failure, None);
        assert_eq!(random.requests, 3_000);
        assert!(random.forwarded > 0 && random.remote_hits > 0, "{random:?}");
        assert_eq!(random, go(&with(&module), &trace), "the same seed, the same run");
    }
}

/// It fails at its first question, before it has changed anything.
#[test]
fn a_module_that_never_returns_is_rd() {
    let module = module(include_str!("../../user-policy/tests/modules/endless.wat"));
    let trace = random_trace(3, SHAPE);
    let (endless, rd) = (go(&with(&module), &trace), go(&setup("rd", 5, 12), &trace));
    let reason = endless.policy_failure.clone().unwrap();
    assert!(reason.ends_with(": `asked` used more than 100000 units of fuel"), "{reason}");
    assert_eq!(Report { policy: "rd".to_owned(), policy_failure: None, ..endless }, rd);
}
