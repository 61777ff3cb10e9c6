//! Every way a configuration can be wrong: the daemon does not start, and one message names the thing, the value
//! and the remedy.

mod file;
mod machine;
mod owner;

use std::path::Path;

use crate::harness::cluster::CARDS;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{MIB, SHORT, content};

/// A one-node plan that works.
fn good_plan(dir: &Path) -> Plan {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, 1);
    std::fs::create_dir_all(dir.join("n1")).unwrap();
    Plan::new(dir, 1).disk(Disk::file(&image)).cache("16M")
}

/// Runs a daemon with this file; it must end by itself.
fn serve(dir: &Path, text: &str) -> Finished {
    let path = dir.join("bad.toml");
    std::fs::write(&path, text).unwrap();
    run(&[CARDS, "serve", "--config", &path.display().to_string()], SHORT)
}

/// What is wrong with a refusal that should have all of `words` and one of `remedies`, if anything is.
fn fault(done: &Finished, words: &[&str], remedies: &[&str]) -> Option<String> {
    let refused = done.status.code().is_some_and(|code| code != 0) && !done.stderr.contains("panicked");
    let missing: Vec<_> = words.iter().filter(|word| !done.stderr.contains(**word)).collect();
    let remedy = remedies.iter().any(|remedy| done.stderr.contains(remedy));
    match (refused, missing.as_slice(), remedy) {
        (false, ..) => Some(format!("not refused: {done}")),
        (_, [], true) => None,
        (_, [], false) => Some(format!("no remedy of {remedies:?}: {done}")),
        (_, missing, _) => Some(format!("the message lacks {missing:?}: {done}")),
    }
}

/// The daemon refuses, and its message has all of `words` and one of `remedies`.
#[track_caller]
fn refused(done: Finished, words: &[&str], remedies: &[&str]) {
    if let Some(fault) = fault(&done, words, remedies) {
        panic!("{fault}");
    }
}
