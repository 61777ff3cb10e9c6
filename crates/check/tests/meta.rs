//! The same seed gives the same trace, byte for byte.

use std::sync::{Arc, Mutex};

use cards_check::Options;
use cards_check::seeds::run_caught;
use cards_world::Trace;

fn lines(seed: u64) -> (Vec<String>, u64) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let trace = Trace::to(move |line| sink.lock().expect("one thread").push(line.to_owned()));
    let report =
        run_caught(Options::draw(seed), trace).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let lines = std::mem::take(&mut *lines.lock().expect("one thread"));
    (lines, report.hash)
}

#[test]
fn the_same_seed_twice_gives_the_same_trace() {
    for seed in 1..=4 {
        let ((first, first_hash), (second, second_hash)) = (lines(seed), lines(seed));
        assert!(first.len() > 100, "seed {seed} does something");
        let differs = first.iter().zip(&second).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((first.len(), first_hash), (second.len(), second_hash), "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_traces() {
    assert_ne!(lines(1).1, lines(2).1);
}
