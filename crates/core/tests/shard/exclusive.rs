//! Clients that keep what they read: the shard drops it.

use super::*;

impl Cluster {
    /// Reads a block; its user has the slot until [`Self::done`].
    fn pin(&mut self, node: u16, index: u32) -> Slot {
        match self.nodes[usize::from(node)].read(self.now, Token(7), BlockId::new(V, index)) {
            Read::Hit(slot, _) => slot,
            Read::Pending => {
                self.drain(node);
                self.run();
                let ready = |(at, output): &(NodeId, Output)| match output {
                    Output::Ready { slot, .. } if at.0 == node => Some(*slot),
                    _ => None,
                };
                let slot = self.answers.iter().find_map(ready).expect("the block comes");
                self.answers.retain(|answer| ready(answer).is_none());
                slot
            }
        }
    }

    fn done(&mut self, node: u16, slot: Slot) {
        self.nodes[usize::from(node)].unpin_and_drop(slot);
        self.drain(node);
        self.run();
        self.nodes[usize::from(node)].check();
    }
}

#[test]
fn what_a_client_keeps_is_dropped_and_can_be_read_again() {
    let mut c = Cluster::new(SETUP);
    for _ in 0..2 {
        let slot = c.pin(1, 5);
        assert!(c.has(1, 5));
        c.done(1, slot);
        assert!(!c.has(1, 5));
    }
    assert_eq!(c.nodes[1].resident(), 0);
    assert!(c.nodes[1].is_quiet());
}

/// Others may have the block under way, or a write in it: it stays for them.
#[test]
fn the_last_user_decides() {
    let mut c = Cluster::new(SETUP);
    let (first, second) = (c.pin(1, 5), c.pin(1, 5));
    assert_eq!(first, second);
    c.done(1, first);
    assert!(c.has(1, 5), "somebody uses it");
    c.nodes[1].unpin(second);
    assert!(c.has(1, 5), "the last user is one that wants it kept");
    let slot = c.pin(1, 5);
    c.done(1, slot);
    assert!(!c.has(1, 5));
}

#[test]
fn a_copy_that_went_meanwhile_is_not_dropped_twice() {
    let mut c = Cluster::new(SETUP);
    let slot = c.pin(1, 5);
    c.write(2, 5);
    assert!(!c.has(1, 5));
    c.done(1, slot);
    c.read(1, 5);
    assert!(c.has(1, 5));
}

/// The room is for others: a client that keeps what it reads drives nothing out.
#[test]
fn nothing_is_evicted_for_it() {
    let mut c = Cluster::new(SETUP);
    (0..6).for_each(|index| drop(c.read(1, index)));
    for index in 100..200 {
        let slot = c.pin(1, index);
        c.done(1, slot);
    }
    assert!((0..6).all(|index| c.has(1, index)));
    assert_eq!(c.stats(1).evictions, 0);
}
