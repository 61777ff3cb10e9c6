//! A disk that is sealed while nothing is written.

use super::*;

impl Cluster {
    fn seal(&mut self) -> bool {
        let quiet = self.nodes[0].quiet(V);
        quiet.is_some_and(|quiet| self.nodes[0].seal(V, quiet))
    }

    fn questions(&self) -> usize {
        self.answers.iter().filter(|(_, output)| *output == Output::Unseal { volume: V }).count()
    }
}

#[test]
fn the_first_writes_to_a_sealed_disk_wait_until_it_is_open() {
    for node in [0, 1] {
        let mut c = Cluster::new(SETUP);
        assert!(c.seal());
        c.answers.clear();
        let before = c.disk_writes;
        c.write(node, 5);
        c.write(node, 700);
        assert_eq!((c.questions(), c.dones(Ok(())), c.disk_writes), (1, 0, before), "it is asked once");
        assert_eq!(c.nodes[0].quiet(V), None);
        c.give(0, Input::Unsealed { volume: V });
        c.run();
        assert_eq!((c.questions(), c.dones(Ok(())), c.disk_writes), (1, 2, before + 2));
        c.write(node, 5);
        assert_eq!((c.questions(), c.dones(Ok(()))), (1, 3), "open");
        assert!(c.seal());
    }
}

/// Another shard was not quiet. Nobody says so later, when the disk may be sealed again.
#[test]
fn a_seal_that_did_not_come_about_is_undone_but_for_writes_that_have_asked() {
    let mut c = Cluster::new(SETUP);
    assert!(c.seal() && !c.seal(), "it is sealed until it is opened");
    c.nodes[0].seal_failed(V);
    c.answers.clear();
    c.write(1, 5);
    assert_eq!((c.questions(), c.dones(Ok(()))), (0, 1));
    assert!(c.seal());
    c.write(1, 5);
    c.nodes[0].seal_failed(V);
    assert_eq!((c.questions(), c.dones(Ok(()))), (1, 1), "what has asked is told");
    c.give(0, Input::Unsealed { volume: V });
    c.run();
    assert_eq!(c.dones(Ok(())), 2);
}

#[test]
fn a_disk_that_the_last_life_has_left_sealed_is_so_until_it_is_written() {
    let mut c = Cluster::new(SETUP);
    c.restart_disk_node_into_grace();
    c.nodes[0].begin_sealed(V);
    c.attach_again(1);
    c.write(1, 5);
    let before = c.disk_writes;
    c.give(0, Input::WritesAllowed { volume: V });
    c.run();
    assert_eq!((c.questions(), c.disk_writes), (1, before));
    c.nodes[0].begin_sealed(V);
    c.give(0, Input::Unsealed { volume: V });
    c.run();
    assert_eq!((c.questions(), c.disk_writes), (1, before + 1));
}

#[test]
fn reads_and_flushes_leave_it_sealed() {
    let mut c = Cluster::new(SETUP);
    assert!(c.seal());
    c.answers.clear();
    c.read(1, 5);
    let (kind, token) = (CommandKind::Flush { since: Persistence::NONE }, Token(9));
    let payload = Payload::None;
    c.give(1, Input::Command { token, volume: V, kind, offset: 0, length: 0, fua: false, payload });
    c.run();
    assert_eq!((c.questions(), c.dones(Ok(()))), (0, 1));
}

#[test]
fn what_was_done_since_it_was_quiet_keeps_it_open() {
    let mut c = Cluster::new(SETUP);
    for flushes in [false, true] {
        let before = c.nodes[0].quiet(V).unwrap();
        match flushes {
            // A sync that fails takes the error away from the one for the seal.
            true => {
                let (kind, payload) = (CommandKind::Flush { since: Persistence::NONE }, Payload::None);
                let token = Token(9);
                c.give(
                    0,
                    Input::Command { token, volume: V, kind, offset: 0, length: 0, fua: false, payload },
                );
                c.run();
            }
            false => c.write(1, 5),
        }
        assert!(!c.nodes[0].seal(V, before));
        let after = c.nodes[0].quiet(V).unwrap();
        assert!(c.nodes[0].seal(V, after));
        c.give(0, Input::Unsealed { volume: V });
    }
}

#[test]
fn it_is_quiet_since_the_end_of_the_last_write() {
    let mut c = Cluster::new(SETUP);
    c.now = Instant(7_000_000);
    c.write(1, 5);
    let end = c.now;
    c.now = Instant(9_000_000_000);
    c.read(1, 9);
    assert_eq!(c.nodes[0].quiet(V).map(|quiet| quiet.since), Some(end));
    c.hold_disk = true;
    c.write(1, 5);
    assert_eq!(c.nodes[0].quiet(V), None, "a write is open");
}

/// A write that waits when the term ends is its node's to send again.
#[test]
fn a_write_that_waits_is_no_longer_the_primarys_when_its_term_ends() {
    let mut c = Cluster::new(SETUP);
    assert!(c.seal());
    c.write(0, 5);
    let spec = VolumeSpec { primary: NodeId(1), epoch: 9, ..c.setup.spec_in(9) };
    c.give(0, Input::Volume { spec });
    assert!(c.nodes[0].quiet(V).is_none() && c.disk_writes == 0);
    c.give(0, Input::Unsealed { volume: V });
}
