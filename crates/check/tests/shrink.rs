//! A failing run is made simpler, and the command that is printed for it makes it fail again.

use std::process::{Command, Output};

use cards_core::mistakes::Mistake;

fn check(flags: &str) -> Output {
    let words = flags.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_cards-check")).args(words).output().expect("it can be started")
}

/// The flags of the replay commands, and what stands before each.
fn replays(output: &Output) -> Vec<String> {
    let errors = String::from_utf8(output.stderr.clone()).expect("text");
    let command = |line: &str| {
        let command = line.strip_prefix("replay ").or_else(|| line.strip_prefix("simplest "))?;
        Some(command.split_once(" -- ")?.1.to_owned())
    };
    errors.lines().filter_map(command).collect()
}

#[test]
fn a_failing_seed_shrinks_and_the_printed_flags_fail_again() {
    for mistake in [Mistake::KeepInvalidated, Mistake::LetReadersWrite] {
        let found = check(&format!("--seeds 1..2000 --mistake {mistake:?}"));
        let status = found.status.code();
        assert!(matches!(status, Some(1 | 3 | 4)), "{mistake:?}: {found:?}");
        let replays = replays(&found);
        let [plain, simplest] = &replays[..] else { panic!("{mistake:?} has no simpler run: {found:?}") };
        assert!(simplest.len() > plain.len(), "{replays:?}");
        for flags in [plain, simplest] {
            let again = check(&format!("{flags} --no-shrink"));
            assert_eq!(again.status.code(), status, "{flags}: {again:?}");
        }
        // Without the mistake it is nothing but a run.
        let honest = simplest.replace(&format!(" --mistake {mistake:?}"), "");
        let passed = check(&honest);
        assert_eq!(passed.status.code(), Some(0), "{honest}: {passed:?}");
    }
}
