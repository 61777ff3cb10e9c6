//! Shows that the checker finds what it is there for: each deliberate mistake, within its seeds. `CARDS_MISTAKE=NAME`
//! looks for one of them.

use cards_check::Options;
use cards_check::seeds::{run_caught, run_seeds};
use cards_core::mistakes::{Mistake, make};
use cards_world::Trace;

/// Without a mistake all of these pass, see `seeds.rs`.
const SEEDS: u64 = 3000;

type Draw = fn(u64) -> Options;

/// How runs are drawn: as they are now, as they were before clocks, takeovers and members that change, with one node that writes
/// alone, and of volumes whose primary moves.
const DRAWS: [(&str, Draw); 4] = [
    ("", Options::draw),
    (" --second", Options::second),
    (" --lone", Options::lone),
    (" --mirrors", Options::mirrored),
];

/// Where the search begins for mistakes that few seeds show: at the first that does, which moves with what is drawn. The rest
/// is searched if it has.
const BEGIN: [(Mistake, u64); 11] = [
    (Mistake::RepeatCommands, 43),
    (Mistake::RepeatAfterRestart, 100),
    (Mistake::NoCommandLock, 195),
    (Mistake::ForgetFence, 212),
    (Mistake::ForgetExclusive, 132),
    (Mistake::IgnorePersistence, 50),
    (Mistake::ForgetFailedSync, 50),
    (Mistake::UnsealLate, 300),
    (Mistake::SealLate, 300),
    (Mistake::ForgetOvertaken, 160),
    (Mistake::LeaseWithoutRight, 286),
];

/// Mistakes that only a volume can have whose primary moves.
const OF_MIRRORS: [Mistake; 3] = [Mistake::LeaseWithoutRight, Mistake::KeepRepeated, Mistake::KeepOverMove];

#[test]
fn every_mistake_is_found() {
    let only = std::env::var("CARDS_MISTAKE").ok();
    let wanted = |mistake: &Mistake| only.as_ref().is_none_or(|only| *only == format!("{mistake:?}"));
    let missed: Vec<Mistake> =
        Mistake::ALL.into_iter().filter(wanted).filter(|mistake| !is_found(*mistake)).collect();
    make(None);
    assert_eq!(missed, [], "nobody noticed");
}

fn is_found(mistake: Mistake) -> bool {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let draws = if OF_MIRRORS.contains(&mistake) { &DRAWS[3..] } else { &DRAWS[..3] };
    let begin = BEGIN.iter().find(|(known, _)| *known == mistake).map_or(1, |&(_, seed)| seed);
    draws.iter().any(|(name, draw)| {
        make(Some(mistake));
        let redraw = |options: &mut Options| *options = draw(options.seed);
        let mut found = [begin..=SEEDS, 1..=begin - 1].into_iter();
        let found = found.find_map(|seeds| run_seeds(seeds, jobs, &redraw, &|_| {}).failed);
        let Some((seed, failure)) = found else { return false };
        let first = failure.to_string();
        println!("{mistake:?}: seed {seed}{name}, {}", first.lines().next().unwrap_or_default());
        // A seed that fails by itself has found nothing.
        make(None);
        let honest = run_caught(draw(seed), Trace::hashed());
        assert!(honest.is_ok(), "seed {seed}{name} fails without a mistake: {honest:?}");
        true
    })
}
