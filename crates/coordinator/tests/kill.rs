//! `kill -9` of a process that writes to its registry.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use cards_coordinator::{Local, Revision, WallClock};

use crate::common::{alone, join, opened, seat, terms, volume};

/// Where the child finds its registry; without it there is nothing to do.
const REGISTRY: &str = "CARDS_TEST_REGISTRY";

/// Not a test of its own: the process that is killed. Prints the revision of every change it was told is durable.
#[tokio::test]
async fn child_that_writes_until_it_is_killed() {
    let Some(file) = std::env::var_os(REGISTRY) else { return };
    let home = cards_coordinator::Coordinator::Local(opened(Path::new(&file)).await.unwrap());
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    home.put_disk(&seat("a", 1), "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    for turn in home.view().await.unwrap().revision.0.. {
        let applied = home.set_policy("v", &format!("policy {turn}")).await.unwrap();
        println!("durable {}", applied.revision);
    }
}

#[tokio::test]
async fn a_registry_survives_kill_9_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("registry");
    drop(Local::found(alone(&file), &terms(3_600_000)).unwrap());
    let mut last = Revision(0);
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::child_that_writes_until_it_is_killed", "--exact", "--nocapture"])
            .env(REGISTRY, &file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut durable = |line: String| {
            let revision = line.strip_prefix("durable ").and_then(|revision| revision.parse().ok());
            last = revision.map_or(last, Revision);
            revision.is_some()
        };
        let mut seen = 0;
        while seen < 3 + round {
            seen += usize::from(durable(lines.next().expect("the child writes on").unwrap()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it had still said before it died.
        lines.map_while(Result::ok).for_each(|line| {
            durable(line);
        });
        let view = opened(&file).await.unwrap().view().await.unwrap();
        assert!(
            view.revision == last || view.revision.0 == last.0 + 1,
            "{last} acknowledged, {} found",
            view.revision
        );
        assert!(last.0 > 3);
    }
}
