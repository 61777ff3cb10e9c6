//! Seeds that once failed. Files in `seeds/` name them and say what they found.

use std::fs;
use std::path::Path;

use cards_check::Options;
use cards_check::overrides::Overrides;
use cards_check::seeds::run_caught;
use cards_world::Trace;
use clap::{Args as _, FromArgMatches as _};

/// What the flags behind a seed put in place of what it draws.
fn overrides(flags: &str) -> Overrides {
    let command = Overrides::augment_args(clap::Command::new("seed").no_binary_name(true));
    let matches =
        command.try_get_matches_from(flags.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
    Overrides::from_arg_matches(&matches).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn seeds_that_once_failed_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder exists")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(!files.is_empty(), "{} has seeds", folder.display());
    for path in files {
        let text = fs::read_to_string(&path).expect("a text");
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let (draw, number): (fn(u64) -> Options, _) = match line.trim().split_once(' ') {
                Some(("first", number)) => (Options::first, number),
                Some(("second", number)) => (Options::second, number),
                Some(("third", number)) => (Options::third, number),
                Some(("mirrored", number)) => (Options::mirrored, number),
                _ => (Options::draw, line.trim()),
            };
            let (number, flags) = number.split_once(' ').unwrap_or((number, ""));
            let seed = number.parse().unwrap_or_else(|_| panic!("{}: `{line}` is no seed", path.display()));
            let mut options = draw(seed);
            overrides(flags).apply(&mut options);
            if let Err(failure) = run_caught(options, Trace::hashed()) {
                panic!("{}: {line}: {failure}", path.display());
            }
        }
    }
}
