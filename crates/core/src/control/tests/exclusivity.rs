//! Which card has a group of copies for itself: kept before it is told, and known to the next primary.

use super::*;

const GROUP: PgId = PgId(1 << 16);

impl Pair {
    /// All hear of the group's primary in a term, which begins with what was kept.
    fn lead(&mut self, primary: u16, epoch: u64, known: Exclusivity) {
        let primary_at = NodeId(primary);
        let spec = VolumeSpec { id: GROUP, primary: primary_at, epoch, name: "group".into(), ..spec(false) };
        let journal =
            DiskJournal { volume: GROUP, persistence: Persistence(1), loss: Loss::Power, held: false };
        let acquainted = (0..3).map(NodeId).collect();
        let cards = KnownCards::Exclusivity(known);
        for node in 0..3 {
            let term = Term { journal, cards: cards.clone(), acquainted: Vec::clone(&acquainted) };
            let term = Some(term).filter(|_| node == primary);
            self.give(node, ControlInput::Group { spec: spec.clone(), term });
        }
        self.give(primary, ControlInput::Right { volume: GROUP, until: Instant::NEVER });
        self.run();
    }

    fn want(&mut self, node: u16, access: Access, takeover: bool) {
        let (token, policy, succeeds) = (Token(9), String::new(), None);
        self.outputs.clear();
        self.give(
            node,
            ControlInput::Attach { token, volume: GROUP, policy, access, takeover, succeeds, first: None },
        );
        self.run();
    }

    /// What clients were told of cards.
    fn told_of_cards(&self) -> Vec<Result<Generation, Refusal>> {
        let told = self.outputs.iter().filter_map(|(_, output)| match output {
            ControlOutput::AttachDone { volume: GROUP, result, .. } => Some(result.clone()),
            _ => None,
        });
        told.collect()
    }

    /// What is to be kept, the last of it.
    fn to_keep(&self) -> Option<(u64, Exclusivity)> {
        self.outputs.iter().rev().find_map(|(_, output)| match output {
            ControlOutput::Exclusivity { number, exclusivity, .. } => Some((*number, *exclusivity)),
            _ => None,
        })
    }

    fn keep(&mut self, primary: u16) -> Exclusivity {
        let (number, exclusivity) = self.to_keep().expect("something to keep");
        self.give(primary, ControlInput::ExclusivityKept { volume: GROUP, number });
        self.run();
        exclusivity
    }
}

#[test]
fn an_exclusive_card_of_a_group_is_told_when_it_is_kept_and_so_is_the_next_one() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.lead(0, 2, Exclusivity::default());
    p.want(2, Access::Write, false);
    assert!(matches!(*p.told_of_cards(), [Ok(_)]) && p.to_keep().is_none(), "nobody has had it for itself");
    p.give(2, ControlInput::Detach { volume: GROUP });
    p.run();

    p.want(1, Access::Exclusive, false);
    assert_eq!(p.told_of_cards(), []);
    let plain = p.outputs.len();
    p.ask(2, "", Access::Write, false);
    p.run();
    assert!(
        p.outputs[plain..]
            .iter()
            .any(|(_, output)| matches!(output, ControlOutput::AttachDone { volume: V, result: Ok(_), .. }))
    );
    let kept = p.keep(0);
    let [Ok(card)] = *p.told_of_cards() else { panic!("{:?}", p.told_of_cards()) };
    assert_eq!(
        kept,
        Exclusivity { card: Some((NodeId(1), card)), writer: Some((NodeId(1), card)), rank: Generation(0) }
    );
    p.want(2, Access::Read, false);
    assert_eq!(p.told_of_cards(), [Err(Refusal::Exclusive(NodeId(1)))]);

    p.outputs.clear();
    p.give(1, ControlInput::Detach { volume: GROUP });
    p.run();
    assert_eq!(p.keep(0), Exclusivity { card: None, writer: Some((NodeId(1), card)), rank: Generation(0) });
    p.want(2, Access::Write, false);
    assert_eq!(p.told_of_cards(), [], "node 1 may go on until that is kept");
    assert_eq!(p.keep(0), Exclusivity::default());
    assert!(matches!(*p.told_of_cards(), [Ok(_)]));
}

#[test]
fn the_next_primary_lets_the_holder_go_on_and_keeps_others_away() {
    for (own, knows) in [(false, true), (true, true), (false, false)] {
        let holder = if own { 0 } else { 1 };
        let mut p = Pair::new(false);
        p.keeps_journals = true;
        p.lead(0, 2, Exclusivity::default());
        p.want(holder, Access::Exclusive, false);
        let kept = p.keep(0);
        p.outputs.clear();
        p.cut = true;
        p.lead(2, 3, if knows { kept } else { Exclusivity::default() });
        p.cut = false;
        if !knows {
            p.pass(LEASE / 2);
            let refusal = Refusal::Overtaken(None);
            let output = ControlOutput::Evicted { volume: GROUP, refusal };
            assert!(p.outputs.contains(&(NodeId(holder), output)));
            continue;
        }
        p.wire.clear();
        let outputs = core::mem::take(&mut p.outputs);
        p.want(2, Access::Exclusive, true);
        assert_eq!(p.told_of_cards(), [Err(Refusal::Exclusive(NodeId(holder)))], "it is awaited");
        p.outputs = outputs;
        p.pass(LEASE / 2);
        let again = p.keep(2);
        assert_eq!(again.writer, kept.writer, "no other could write since");
        assert_ne!(again.card, kept.card);
        assert!(p.controls[usize::from(holder)].claim(GROUP).is_some());
        // Now that it is there it can be fenced.
        p.want(2, Access::Exclusive, true);
        p.pass(LEASE / 2);
        p.want(2, Access::Exclusive, true);
        p.pass(LEASE * 2);
        let taken = p.to_keep().expect("another has it").1;
        assert_eq!(taken.card.map(|(node, _)| node), Some(NodeId(2)));
    }
}

#[test]
fn what_is_kept_late_of_an_earlier_term_is_not_taken_for_what_is_to_be_kept_now() {
    let mut p = Pair::new(false);
    p.lead(0, 2, Exclusivity::default());
    p.want(1, Access::Exclusive, false);
    let (late, _) = p.to_keep().expect("a card");
    p.lead(2, 3, Exclusivity::default());
    p.lead(0, 4, Exclusivity::default());
    p.pass(LEASE / 2);
    let (number, _) = p.to_keep().expect("it asks again");
    p.give(0, ControlInput::ExclusivityKept { volume: GROUP, number: late });
    p.run();
    assert_eq!(p.told_of_cards(), []);
    p.give(0, ControlInput::ExclusivityKept { volume: GROUP, number });
    p.run();
    assert!(matches!(*p.told_of_cards(), [Ok(_)]));
}

/// It was granted and given up at once: what it waits for takes longer than its lease, and its node goes on asking.
#[test]
fn a_card_lives_as_long_as_its_node_waits_for_what_is_being_kept() {
    let mut p = Pair::new(false);
    p.lead(0, 2, Exclusivity::default());
    p.want(1, Access::Exclusive, false);
    let (number, kept) = p.to_keep().expect("a card");
    p.pass(LEASE * 4);
    p.give(0, ControlInput::ExclusivityKept { volume: GROUP, number });
    p.run();
    assert!(matches!(*p.told_of_cards(), [Ok(_)]));
    p.pass(LEASE);
    assert_eq!(p.to_keep(), Some((number, kept)), "it is renewed");
    p.want(2, Access::Write, false);
    assert_eq!(p.told_of_cards(), [Err(Refusal::Exclusive(NodeId(1)))]);
}
