//! Held messages, rest, and recordings, over the admin socket.

use std::time::Duration;

use cards_admin::{Activity, Client as Admin, ClientError, DemandKind, RefusalKind};

use super::cluster::{BLOCK, Cluster};

fn activity(admin: &mut Admin) -> Activity {
    admin.ask_activity().unwrap();
    admin.activity().unwrap()
}

fn is_busy(result: Result<impl std::fmt::Debug, ClientError>) -> bool {
    matches!(result, Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Busy)
}

#[test]
fn held_messages_leave_one_by_one_and_all_at_the_end() {
    let cluster = Cluster::start(2, 4 * BLOCK);
    let (mut first, mut second) = (cluster.admin(1), cluster.admin(2));
    let at_rest = |admin: &mut Admin| {
        let Activity { busy, working, held, .. } = activity(admin);
        !busy && !working && held.iter().all(|count| *count == 0)
    };
    // The lock on all four.
    cluster.client(2).read(3 * BLOCK as u64, 512).unwrap();
    cluster.wait("the cluster is at rest", || at_rest(&mut first) && at_rest(&mut second));
    second.hold().unwrap();
    assert!(is_busy(cluster.admin(2).hold()));
    assert!(second.release(0).is_err() && second.release(7).is_err(), "nothing is held");
    let before = activity(&mut second);

    let mut client = cluster.client(2);
    let reader = std::thread::spawn(move || client.read(0, 512));
    cluster.wait("the question is held", || activity(&mut second).held[..2] == [1, 0]);
    // Longer than anybody waits for an answer: what is held is not late.
    std::thread::sleep(Duration::from_millis(200));
    let held = activity(&mut second);
    assert!(held.busy && !held.working && held.demands == before.demands + 1, "{held:?}");
    assert_eq!(held.messages_sent, before.messages_sent + 1);
    second.release(0).unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), cluster.content[..512]);
    cluster.wait("the cluster is at rest", || at_rest(&mut first) && at_rest(&mut second));

    let mut client = cluster.client(2);
    let reader = std::thread::spawn(move || client.read(BLOCK as u64, 512));
    cluster.wait("the next question is held", || activity(&mut second).held[..2] == [1, 0]);
    drop(second);
    assert_eq!(reader.join().unwrap().unwrap(), cluster.content[BLOCK..BLOCK + 512]);
}

#[test]
fn a_recording_lasts_as_long_as_its_connection() {
    let cluster = Cluster::start(1, BLOCK);
    let mut client = cluster.client(1);
    client.read(0, 512).unwrap();
    let mut admin = cluster.admin(1);
    assert!(admin.take_recorded().is_err(), "nothing is recorded");
    let recording = admin.record().unwrap();
    assert_eq!((recording.node, recording.members), (0, 1));
    assert!(is_busy(cluster.admin(1).record()));
    client.read(4096, 1024).unwrap();
    let recorded = admin.take_recorded().unwrap();
    let [demand] = recorded.demands[..] else { panic!("{recorded:?}") };
    assert_eq!((demand.kind, demand.offset, demand.bytes, demand.volume), (DemandKind::Read, 4096, 1024, 0));
    assert!(demand.time_ns <= recorded.now_ns && recorded.lost == 0 && !recorded.more);
    drop(admin);
    cluster.wait("the node can be recorded again", || cluster.admin(1).record().is_ok());
}
