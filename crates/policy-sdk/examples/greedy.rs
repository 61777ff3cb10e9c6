//! Greedy forwarding on one page: the disk node passes a read that its own cache cannot serve on to the node that asked for the
//! block last. (The policy `greedy` of nodes knows all copies, not only the last.)

use cards_policy_sdk::{Asker, Context, Eviction, Node, Note, Policy, View, export};

/// The sender has dropped the block.
const GONE: u8 = 1;

struct Greedy;

impl Policy for Greedy {
    fn route(&self, view: &View, asker: Asker) -> Option<Node> {
        view.next().filter(|&next| view.me() == view.disk_node() && next != asker.requester)
    }

    fn asked(&mut self, cx: &mut Context, asker: Asker, _to: Option<Node>) {
        if cx.me() == cx.disk_node() && asker.requester != cx.me() {
            cx.set_next(Some(asker.requester));
        }
    }

    fn handle_eviction(&mut self, cx: &mut Context) -> Eviction {
        let disk_node = cx.disk_node();
        cx.say(disk_node, Note { kind: GONE, value: 0 });
        Eviction::Drop
    }

    fn note(&mut self, cx: &mut Context, from: Node, note: Note) {
        if note.kind == GONE && cx.next() == Some(from) {
            cx.set_next(None);
        }
    }
}

export!(Greedy, Greedy, [asked, note]);

#[cfg(test)]
mod tests {
    use cards_policy_sdk::abi::effect;

    use super::*;

    /// A read of node `requester` that is asked for here.
    fn asked(cx: &mut Context, requester: Node) {
        let asker = Asker { requester, via: requester, hops: 0, failed: false };
        Greedy.asked(cx, asker, None);
    }

    #[test]
    fn the_disk_node_passes_a_read_on() {
        let mut cx = Context::of_cluster(3, 0);
        let asker = |requester| Asker { requester, via: requester, hops: 0, failed: false };
        assert_eq!(Greedy.route(&cx, asker(1)), None);
        asked(&mut cx, 2);
        assert_eq!(Greedy.route(&cx, asker(1)), Some(2));
        assert_eq!(Greedy.route(&cx, asker(2)), None, "not back to the node that asks");
    }

    #[test]
    fn a_copy_that_is_gone_is_forgotten() {
        let mut cx = Context::of_cluster(3, 0);
        asked(&mut cx, 2);
        Greedy.note(&mut cx, 1, Note { kind: GONE, value: 0 });
        assert_eq!(cx.next(), Some(2), "node 1 is not the one that asked last");
        Greedy.note(&mut cx, 2, Note { kind: GONE, value: 0 });
        assert_eq!(cx.next(), None);
    }

    #[test]
    fn an_eviction_is_told_to_the_disk_node() {
        let mut cx = Context::of_cluster(3, 1);
        assert_eq!(Greedy.handle_eviction(&mut cx), Eviction::Drop);
        assert_eq!(
            cx.effects().iter().map(|told| (told.kind, told.node)).collect::<Vec<_>>(),
            [(effect::NOTE, 0)]
        );
    }
}
