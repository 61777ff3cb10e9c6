//! Pages of a kernel: gone before anybody writes what they are copies of (GAP-7).

use super::*;

const RD: Setup = Setup { policy: "rd", ..SETUP };

impl Cluster {
    /// What a node has asked to be withdrawn and was not told of yet, oldest first.
    fn withdrawals(&mut self, node: u16) -> Vec<(WithdrawalId, String)> {
        let mut asked = Vec::new();
        self.answers.retain(|(at, output)| match output {
            Output::Withdraw { id, blocks, .. } if at.0 == node => {
                asked.push((*id, format!("{blocks:?}")));
                false
            }
            _ => true,
        });
        asked
    }

    fn with_pages(nodes: &[u16]) -> Self {
        let mut c = Self::new(RD);
        for &node in nodes {
            c.give(node, Input::Pages { volume: V, kept: true });
        }
        c
    }

    fn gone(&mut self, node: u16, id: WithdrawalId) {
        self.give(node, Input::Withdrawn { id });
        self.run();
    }
}

#[test]
fn a_card_confirms_when_pages_are_gone_and_not_before() {
    let mut c = Cluster::with_pages(&[2]);
    c.read(2, 8);
    c.give(2, Input::DropCaches);
    c.write(1, 5);
    let asked = c.withdrawals(2);
    // Not only of what is written: of all that the card will not be asked about any more, where there can be pages.
    assert_eq!((asked.len(), &*asked[0].1), (1, "[0..16]"));
    assert_eq!(c.disk_writes, 0);
    assert!(!c.nodes[2].is_quiet() && c.nodes[2].table_entries() > 0);
    c.gone(2, asked[0].0);
    assert_eq!(c.disk_writes, 1);
    // It has given its lock up: there can be no pages there.
    c.write(1, 6);
    assert_eq!((c.disk_writes, c.withdrawals(2).len()), (2, 0));
    assert!(c.nodes[2].is_quiet());
}

/// The disk node asks again when it hears nothing; the pages are withdrawn once.
#[test]
fn what_is_being_withdrawn_is_not_withdrawn_again() {
    let mut c = Cluster::with_pages(&[2]);
    c.write(1, 5);
    c.log.clear();
    c.now = c.now + Duration::from_millis(150);
    c.give(0, Input::Timeout);
    c.run();
    assert!(c.log.iter().any(|line| line.contains("n0->n2 invalidate")), "{:?}", c.log);
    let asked = c.withdrawals(2);
    assert_eq!(asked.len(), 1);
    c.gone(2, asked[0].0);
    assert_eq!((c.disk_writes, c.stats(2).withdrawals), (1, 1));
}

#[test]
fn a_node_withdraws_its_own_pages_before_it_sends_a_command() {
    let mut c = Cluster::with_pages(&[1]);
    c.log.clear();
    c.write(1, 5);
    let asked = c.withdrawals(1);
    assert_eq!((asked.len(), &*asked[0].1), (1, "[5..6]"));
    assert_eq!(c.log, [""; 0]);
    // A connection that comes back, or time that passes, does not send it either.
    c.give(1, Input::PeerUp { node: NodeId(0) });
    c.now = c.now + Duration::from_secs(1);
    c.give(1, Input::Timeout);
    c.run();
    assert_eq!(c.disk_writes, 0);
    c.gone(1, asked[0].0);
    assert_eq!(c.disk_writes, 1);
}

/// A read that comes while pages go waits for the write: its answer cannot become an old page.
#[test]
fn a_read_that_comes_meanwhile_waits_for_the_write() {
    let mut c = Cluster::with_pages(&[1]);
    c.write(1, 5);
    let asked = c.withdrawals(1);
    assert_eq!(c.nodes[1].read(c.now, Token(3), BlockId::new(V, 5)), Read::Pending);
    c.drain(1);
    c.run();
    let ready =
        |c: &Cluster| c.answers.iter().any(|(_, o)| matches!(o, Output::Ready { token: Token(3), .. }));
    assert!(!ready(&c));
    c.gone(1, asked[0].0);
    assert!(ready(&c) && c.disk_writes == 1);
}

#[test]
fn the_disk_node_withdraws_its_own_pages_before_it_writes() {
    for writer in [0, 1] {
        let mut c = Cluster::with_pages(&[0]);
        c.write(writer, 5);
        let asked = c.withdrawals(0);
        assert_eq!((asked.len(), &*asked[0].1), (1, "[5..6]"));
        // However long it takes: nobody else can say that they are gone.
        c.now = c.now + Duration::from_secs(5);
        c.give(0, Input::Timeout);
        c.run();
        assert_eq!(c.disk_writes, 0, "written by {writer}");
        c.gone(0, asked[0].0);
        assert_eq!(c.disk_writes, 1);
    }
}

#[test]
fn without_pages_nothing_is_withdrawn() {
    let mut c = Cluster::with_pages(&[0, 1, 2]);
    for node in 0..3 {
        c.give(node, Input::Pages { volume: V, kept: false });
    }
    for node in 0..3 {
        c.write(node, 5);
    }
    c.gone(1, WithdrawalId(77));
    assert_eq!((c.disk_writes, c.stats(0).withdrawals + c.stats(1).withdrawals), (3, 0));
}

#[test]
fn a_flush_withdraws_nothing() {
    let mut c = Cluster::with_pages(&[0, 1]);
    for node in [0, 1] {
        let flush = Input::Command {
            token: Token(8),
            volume: V,
            kind: CommandKind::Flush { since: Persistence::NONE },
            offset: 0,
            length: 0,
            fua: false,
            payload: Payload::None,
        };
        c.give(node, flush);
        c.run();
        assert!(c.withdrawals(node).is_empty());
    }
    assert_eq!(c.disk_writes, 2);
}
