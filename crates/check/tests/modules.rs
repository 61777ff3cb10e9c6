//! Policies of users: whatever a module answers, or whether it answers at all, is safe.

use cards_check::Options;
use cards_check::overrides::Overrides;
use cards_check::seeds::run_seeds;
use cards_user_policy::{Choice, Module};

/// Enough for each answer to meet each fault; fewer without optimization.
const SEEDS: u64 = if cfg!(cards_optimized) { 120 } else { 8 };

/// The file of a module that is kept as text.
fn choice(name: &str, text: &str) -> Choice {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join(format!("{name}.wasm"));
    std::fs::write(&path, wat::parse_str(text).expect("a module")).expect("a file");
    Choice::new(path.to_str().expect("a path")).expect("a policy")
}

fn attack(choice: Choice, switch_ms: Option<u64>) -> Module {
    let module = choice.module().expect("a module").clone();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let overrides = Overrides { policy: Some(choice), switch_ms, ..Overrides::default() };
    let adjust = |options: &mut Options| overrides.apply(options);
    let summary = run_seeds(1..=SEEDS, jobs, &adjust, &|_| {});
    if let Some((seed, failure)) = summary.failed {
        let flags = overrides.flags();
        panic!(
            "seed {seed}: {failure}\nreplay: cargo run --profile sim -p cards-check -- --seed {seed}{flags}"
        );
    }
    assert_eq!(summary.passed, SEEDS);
    module
}

#[test]
fn a_module_that_answers_at_random_is_safe() {
    let module = attack(choice("random", include_str!("../../user-policy/tests/modules/random.wat")), None);
    assert_eq!(module.first_failure(), None, "every answer has a meaning, so that all are tried");
}

#[test]
fn a_module_that_never_returns_is_safe() {
    let module = attack(choice("endless", include_str!("../../user-policy/tests/modules/endless.wat")), None);
    let failure = module.first_failure().expect("a failure").to_string();
    assert_eq!(failure, "`asked` used more than 100000 units of fuel");
}

/// Volumes get other policies again and again, this module among them, and nodes hear of it one after the other.
#[test]
fn a_switch_of_policies_is_safe() {
    let module =
        attack(choice("switched", include_str!("../../user-policy/tests/modules/random.wat")), Some(40));
    assert_eq!(module.first_failure(), None);
}
