//! Whether data threads turn, as the service manager is told.

use std::time::Duration;

use super::cluster::Cluster;
use crate::node::Event;
use crate::service_manager::Turns;

#[test]
fn a_thread_that_stands_still_is_noticed() {
    let cluster = Cluster::start(1, 1 << 20);
    let threads = &cluster.node(1).threads;
    let mut turns = Turns::default();
    let mut turn = || {
        let all = turns.all(threads);
        std::thread::sleep(Duration::from_millis(200));
        all
    };
    assert!(turn() && turn());
    let (go_on, stands_still) = std::sync::mpsc::channel::<()>();
    threads[1].post(Event::Call(Box::new(move |_| _ = stands_still.recv())));
    // What was asked before it stood still may have been answered.
    turn();
    assert!(!turn() && !turn());
    go_on.send(()).unwrap();
    while !turn() {}
    assert!(turn());
}
