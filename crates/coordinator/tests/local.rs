//! The registry of a node that keeps it alone, used as that node uses it.

use std::time::Duration;

use cards_coordinator::{
    Change, Coordinator, Error, Local, MemberState, Opened, Refusal, Revision, WallClock,
};
use tempfile::TempDir;

use crate::common::{alone, empty, fill, join, opened, seat, terms};

fn created(lease_ms: u64) -> (TempDir, Coordinator) {
    let directory = tempfile::tempdir().unwrap();
    let home = Local::found(alone(&directory.path().join("registry")), &terms(lease_ms)).unwrap();
    (directory, Coordinator::Local(home))
}

async fn again(directory: &TempDir) -> Coordinator {
    Coordinator::Local(opened(&directory.path().join("registry")).await.unwrap())
}

#[tokio::test]
async fn everything_is_there_again_after_closing_and_opening() {
    let (directory, home) = created(60_000);
    fill(&home).await;
    let before = home.view().await.unwrap();
    drop(home);
    let home = again(&directory).await;
    assert_eq!(home.view().await.unwrap(), before);
    home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
    let after = empty(&home).await;
    drop(home);
    let after_restart = again(&directory).await.view().await.unwrap();
    assert_eq!(after_restart, after);
}

#[tokio::test]
async fn a_registry_is_created_once_and_never_by_opening() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("registry");
    assert!(matches!(Local::open(alone(&file)).await, Ok(Opened::Missing(_))));
    drop(Local::found(alone(&file), &terms(1000)).unwrap());
    let again = Local::found(alone(&file), &terms(1000)).unwrap_err();
    assert!(matches!(again, Error::Store(_)), "{again}");
    assert!(again.to_string().contains("there is one already; open it"), "{again}");
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["registry"], "nothing else is left behind");
}

#[tokio::test]
async fn a_waiter_sees_a_change_and_a_death() {
    let (_directory, home) = created(200);
    let start = home.view().await.unwrap();
    let waiter = tokio::spawn({
        let home = home.clone();
        async move { home.changed(start.revision).await }
    });
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    let joined = waiter.await.unwrap().unwrap();
    assert_eq!(joined.revision, Revision(1));
    let dead = home.changed(joined.revision).await.unwrap();
    assert_eq!(dead.members["a"].state, MemberState::Dead);
    assert_eq!(dead.epoch.0, 2);
    let renew = home.renew(&seat("a", 1), WallClock::now()).await.unwrap_err();
    assert!(matches!(renew.refusal(), Some(Refusal::LeaseEnded { .. })), "{renew}");
    let behind = home.changed(Revision(77)).await.unwrap();
    assert_eq!(behind.revision, dead.revision, "who waits for another registry's revision gets this one's");
}

#[tokio::test]
async fn renewals_keep_a_member_alive() {
    let (_directory, home) = created(1000);
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
    }
    let view = home.view().await.unwrap();
    assert_eq!(view.members["a"].state, MemberState::Joined);
    assert_eq!(view.revision, Revision(1), "renewals are no changes");
}

#[tokio::test]
async fn a_restarted_coordinator_gives_every_member_a_full_lease() {
    let (directory, home) = created(2000);
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    drop(home);
    // Longer than the lease would have lasted.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let home = again(&directory).await;
    home.renew(&seat("a", 1), WallClock::now()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_get_one_revision_each() {
    let (_directory, home) = created(60_000);
    let tasks: Vec<_> = (0..32)
        .map(|n| {
            let home = home.clone();
            tokio::spawn(async move { home.join(join(&format!("n{n}"), 1, WallClock::now())).await })
        })
        .collect();
    let mut epochs = Vec::new();
    for task in tasks {
        epochs.push(task.await.unwrap().unwrap().applied.epoch.0);
    }
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=32).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_clock_hours_off_is_refused_by_the_coordinator_s_own() {
    let (_directory, home) = created(60_000);
    let hours = WallClock(WallClock::now().0 + 3 * 3_600_000);
    let refused = home.join(join("a", 1, hours)).await.unwrap_err();
    assert!(matches!(refused.refusal(), Some(Refusal::ClockOff { .. })), "{refused}");
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    assert!(home.renew(&seat("a", 1), hours).await.unwrap().applied.coordinator_clock.is_some());
}

#[tokio::test]
async fn a_dropped_request_does_not_undo_what_it_began() {
    let (_directory, home) = created(60_000);
    let request = home.submit(Change::Join(join("a", 1, WallClock::now())));
    // Polled once, then forgotten.
    drop(tokio::time::timeout(Duration::ZERO, request).await);
    home.join(join("a", 1, WallClock::now())).await.unwrap();
    assert_eq!(home.view().await.unwrap().epoch.0, 1);
}
