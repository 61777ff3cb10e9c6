//! Controls talking to each other over a network that keeps order.

mod exclusivity;
mod parts;

use super::*;
use crate::policy::Policy;
use crate::replacement::Replacer;
use crate::rights::{Allowed, NoLimits};
use crate::volume::Handover;
use core::sync::atomic::{AtomicBool, Ordering};
use std::boxed::Box;
use std::string::ToString;
use std::vec;

const V: PgId = PgId::plain(NodeId(0), 0);
/// Another disk of the same node, and one that nobody can write.
const W: PgId = PgId::plain(NodeId(0), 1);
const READ_ONLY: PgId = PgId::plain(NodeId(0), 2);
const LEASE: Duration = Duration::from_secs(3);

struct Pair {
    controls: Vec<Control>,
    wire: VecDeque<(NodeId, NodeId, ControlMessage)>,
    outputs: Vec<(NodeId, ControlOutput)>,
    now: Instant,
    cut: bool,
    /// What is to be noted is durable at once.
    keeps_journals: bool,
    /// Leases in each input of shards that renews some.
    renewed: Vec<usize>,
    /// What the disk node's present life has found in its journals.
    kept: BTreeMap<PgId, CardJournal>,
}

fn spec(read_only: bool) -> VolumeSpec {
    VolumeSpec {
        id: V,
        primary: V.disk_node(),
        epoch: 1,
        name: "disk".to_string(),
        size_bytes: 1 << 20,
        block_bytes: 4096,
        policy: "hscc".to_string(),
        read_only,
        content: 0,
        network_attached: false,
        coherence: Coherence::Confirmed,
        handover: Handover::Cache,
    }
}

/// A control only asks which specs mean the same policy.
#[derive(Debug)]
struct Specs;

impl Algorithms for Specs {
    fn policy(&self, _spec: &str) -> Option<Box<dyn Policy>> {
        None
    }

    fn is_same_policy(&self, one: &str, other: &str) -> bool {
        // The default, written out or not.
        let short = |spec: &str| spec.trim_end_matches(" depth=2").to_string();
        short(one) == short(other)
    }

    fn replacer(&self, _capacity: u32) -> Box<dyn Replacer> {
        unreachable!("a control caches nothing")
    }
}

fn config(node: u16, incarnation: u64, read_only: bool) -> ControlConfig {
    let other = |id, read_only| VolumeSpec { id, epoch: incarnation, ..spec(read_only) };
    let disks =
        if node == 0 { vec![other(V, read_only), other(W, false), other(READ_ONLY, true)] } else { vec![] };
    let disk_wait = Duration::from_secs(30);
    ControlConfig {
        node: NodeId(node),
        nodes: 3,
        incarnation,
        lease: LEASE,
        algorithms: Arc::new(Specs),
        rights: Arc::new(NoLimits),
        disk_wait,
        disks,
        journals: Vec::new(),
        acquainted: (0..3).map(NodeId).collect(),
        cards: BTreeMap::new(),
    }
}

impl Pair {
    fn new(read_only: bool) -> Self {
        let controls = (0..3).map(|node| Control::new(config(node, 1, read_only), Instant(0))).collect();
        let mut pair = Self {
            controls,
            wire: VecDeque::new(),
            outputs: Vec::new(),
            now: Instant(0),
            cut: false,
            keeps_journals: false,
            renewed: Vec::new(),
            kept: BTreeMap::new(),
        };
        for node in 0..3 {
            for peer in (0..3).filter(|&p| p != node) {
                pair.meet(node, peer, 1);
            }
        }
        pair.run();
        pair
    }

    fn meet(&mut self, node: u16, peer: u16, incarnation: u64) {
        self.meet_successor(node, peer, incarnation, incarnation.checked_sub(1));
    }

    fn meet_successor(&mut self, node: u16, peer: u16, incarnation: u64, succeeds: Option<u64>) {
        let disks = self.controls[usize::from(peer)].config.disks.iter();
        let disks = disks.map(|spec| VolumeSpec { epoch: incarnation, ..spec.clone() }).collect();
        self.give(node, ControlInput::PeerUp { node: NodeId(peer), incarnation, succeeds, disks });
    }

    fn give(&mut self, node: u16, input: ControlInput) {
        self.controls[usize::from(node)].handle(self.now, input);
        while let Some(output) = self.controls[usize::from(node)].poll() {
            if let (ControlOutput::Journal { number, .. }, true) = (&output, self.keeps_journals) {
                let durable = ControlInput::Journaled { number: *number };
                self.controls[usize::from(node)].handle(self.now, durable);
            }
            match output {
                ControlOutput::Send { to, message } => self.wire.push_back((NodeId(node), to, message)),
                ControlOutput::Shards { input: Input::Leases { leases } } => {
                    self.renewed.push(leases.len());
                    self.outputs.extend(leases.iter().map(|&(volume, until)| {
                        let input = Input::Lease { volume, until };
                        (NodeId(node), ControlOutput::Shards { input })
                    }));
                }
                output => self.outputs.push((NodeId(node), output)),
            }
        }
    }

    fn run(&mut self) {
        while let Some((from, to, message)) = self.wire.pop_front() {
            if !self.cut {
                self.give(to.0, ControlInput::Message { from, message });
            }
        }
    }

    /// Lets time pass, with all timers on the way.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = (0..3).filter_map(|n| Some((self.controls[n].next_timeout()?.0, n as u16))).min();
            match next {
                Some((at, node)) if at <= end => {
                    self.now = self.now.max(at);
                    self.give(node, ControlInput::Timeout);
                    self.run();
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn attach(&mut self, node: u16, policy: &str, access: Access) -> Result<Generation, Refusal> {
        self.outputs.clear();
        self.ask(node, policy, access, false);
        self.run();
        let done = self.outputs.iter().find_map(|(_, o)| match o {
            ControlOutput::AttachDone { result, .. } => Some(result.clone()),
            _ => None,
        });
        done.expect("an answer")
    }

    fn ask(&mut self, node: u16, policy: &str, access: Access, takeover: bool) {
        let (token, policy) = (Token(1), policy.to_string());
        let succeeds = None;
        self.give(
            node,
            ControlInput::Attach { token, volume: V, policy, access, takeover, succeeds, first: None },
        );
    }

    /// Attaches the volume for clients that lived on, which had it for themselves under `card`.
    fn go_on(&mut self, node: u16, card: Generation) -> Result<Generation, Refusal> {
        self.outputs.clear();
        let (token, policy, access, takeover) = (Token(1), String::new(), Access::Exclusive, false);
        let attach = ControlInput::Attach {
            token,
            volume: V,
            policy,
            access,
            takeover,
            succeeds: Some(card),
            first: None,
        };
        self.give(node, attach);
        self.run();
        let done = self.outputs.iter().find_map(|(_, output)| match output {
            ControlOutput::AttachDone { result, .. } => Some(result.clone()),
            _ => None,
        });
        done.expect("an answer")
    }

    /// Attaches volumes to read and returns their cards.
    fn attach_all<const N: usize>(&mut self, node: u16, volumes: [PgId; N]) -> [Generation; N] {
        volumes.map(|volume| {
            let (token, policy, access) = (Token(1), String::new(), Access::Read);
            let (takeover, succeeds) = (false, None);
            self.give(
                node,
                ControlInput::Attach { token, volume, policy, access, takeover, succeeds, first: None },
            );
            self.run();
            let attached = self.outputs.iter().rev().find_map(|(_, output)| match output {
                ControlOutput::AttachDone { result: Ok(generation), .. } => Some(*generation),
                _ => None,
            });
            attached.expect("a card")
        })
    }

    /// Lets time pass and returns the renewals that node 1 has sent meanwhile, with the cards that they name.
    fn renewals_in(&mut self, time: Duration) -> Vec<Vec<(PgId, Generation)>> {
        let (end, mut renewals) = (self.now + time, Vec::new());
        while let Some((at, _)) = self.controls[1].next_timeout().filter(|&(at, _)| at <= end) {
            self.now = self.now.max(at);
            self.give(1, ControlInput::Timeout);
            renewals.extend(self.wire.iter().filter_map(|(_, _, message)| match message {
                ControlMessage::Renew { cards, .. } => Some(cards.clone()),
                _ => None,
            }));
            self.run();
        }
        self.now = end;
        renewals
    }

    /// When the last lease of node 1's card ends.
    fn lease_of(&self, volume: PgId) -> Option<Instant> {
        let leases = self.outputs.iter().filter_map(|(_, output)| match output {
            ControlOutput::Shards { input: Input::Lease { volume: of, until } } if *of == volume => {
                Some(*until)
            }
            _ => None,
        });
        leases.max()
    }

    /// When the disk node gives node 1's card up if it hears nothing more.
    fn expires(&mut self, volume: PgId) -> Instant {
        self.wire.clear();
        self.outputs.clear();
        let gone = Input::CardDetached { volume, node: NodeId(1) };
        while !self.told(0, &gone) {
            self.now = self.controls[0].next_timeout().expect("it expires").0;
            self.give(0, ControlInput::Timeout);
        }
        self.now
    }

    /// The node's card has ended for good: another node has had a card that may write.
    fn is_over(&self, node: u16, by: Option<u16>) -> bool {
        let refusal = Refusal::Overtaken(by.map(NodeId));
        self.controls[usize::from(node)].cards().next().is_none()
            && self.outputs.contains(&(NodeId(node), ControlOutput::Evicted { volume: V, refusal }))
    }

    fn is_attached(&self, node: u16) -> bool {
        self.controls[usize::from(node)].cards().any(|card| card.attached)
    }

    fn told(&self, node: u16, input: &Input) -> bool {
        self.outputs.contains(&(NodeId(node), ControlOutput::Shards { input: input.clone() }))
    }
}

#[test]
fn a_card_is_known_at_the_disk_node_before_it_is_used() {
    let mut p = Pair::new(false);
    let generation = p.attach(1, "", Access::Write).unwrap();
    let at = |node, input: Input| {
        p.outputs.iter().position(|o| *o == (NodeId(node), ControlOutput::Shards { input: input.clone() }))
    };
    let known =
        at(0, Input::CardAttached { volume: V, node: NodeId(1), life: 1, generation, access: Access::Write })
            .unwrap();
    let used = at(1, Input::Attached { volume: V, generation, access: Access::Write }).unwrap();
    assert!(known < used);
}

/// A name can be taken by a process on another machine while the one that had it lives on: what it has read stays
/// its own until its lease has ended.
#[test]
fn a_card_whose_process_may_live_on_runs_out_first() {
    for (succeeds, over) in [(None, false), (Some(5), false), (Some(1), true)] {
        let mut p = Pair::new(false);
        p.attach(1, "", Access::Write).unwrap();
        p.outputs.clear();
        p.controls[1] = Control::new(config(1, 7, false), p.now);
        p.meet_successor(0, 1, 7, succeeds);
        p.meet(1, 0, 1);
        assert_eq!(p.told(0, &Input::CardDetached { volume: V, node: NodeId(1) }), over);
        assert_eq!(p.told(0, &Input::CardLost { volume: V, node: NodeId(1) }), !over);
        p.ask(1, "", Access::Write, false);
        p.run();
        p.pass(LEASE);
        assert_eq!(p.is_attached(1), over, "{succeeds:?}");
        p.pass(LEASE);
        assert!(p.is_attached(1));
        assert!(p.told(0, &Input::CardDetached { volume: V, node: NodeId(1) }));
    }
}

/// CARD-5: all cards of a volume use one policy; another one is refused by name.
#[test]
fn another_policy_is_refused_by_name() {
    let mut p = Pair::new(false);
    assert_eq!(p.attach(1, "hdc", Access::Read), Err(Refusal::PolicyIs("hscc".to_string())));
    assert!(p.attach(1, "hscc depth=2", Access::Read).is_ok(), "the default, written out");
    assert_eq!(p.attach(2, "hscc depth=3", Access::Read), Err(Refusal::PolicyIs("hscc".to_string())));
}

#[test]
fn any_number_of_cards_write() {
    let mut p = Pair::new(false);
    for node in [1, 2, 0] {
        p.attach(node, "", Access::Write).unwrap();
    }
}

#[test]
fn who_has_a_volume_for_itself_is_named_to_others() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Exclusive).unwrap();
    assert_eq!(p.attach(2, "", Access::Write), Err(Refusal::Exclusive(NodeId(1))));
    assert_eq!(p.attach(2, "", Access::Read), Err(Refusal::Exclusive(NodeId(1))));
    assert_eq!(p.attach(0, "", Access::Exclusive), Err(Refusal::Exclusive(NodeId(1))));
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    p.attach(0, "", Access::Read).unwrap();
    assert_eq!(p.attach(2, "", Access::Exclusive), Err(Refusal::InUse(NodeId(0))));
    p.give(0, ControlInput::Detach { volume: V });
    assert!(p.attach(2, "", Access::Exclusive).is_ok());
}

/// What a node's card may do is not what somebody asks for who comes later.
#[test]
fn a_volume_is_not_attached_for_more_than_its_card_may_do() {
    for node in [0, 1] {
        let mut p = Pair::new(false);
        let card = p.attach(node, "", Access::Read).unwrap();
        assert_eq!(p.attach(node, "", Access::Write), Err(Refusal::Attached(Access::Read)));
        assert_eq!(p.attach(node, "", Access::Read), Ok(card));
        p.give(node, ControlInput::Detach { volume: V });
        p.run();
        let card = p.attach(node, "", Access::Write).unwrap();
        assert_eq!(p.attach(node, "", Access::Exclusive), Err(Refusal::Attached(Access::Write)));
        assert_eq!(p.attach(node, "", Access::Read), Ok(card));
        assert!(matches!(p.attach(node, "central", Access::Write), Err(Refusal::PolicyIs(_))));
    }
}

/// The cards that are in the way write nothing from then on, and are gone before the new one begins.
#[test]
fn a_takeover_fences_first() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Exclusive).unwrap();
    p.outputs.clear();
    p.ask(2, "", Access::Exclusive, true);
    p.run();
    p.pass(Duration::from_secs(1));
    let at = |node, wanted: &dyn Fn(&Input) -> bool| {
        p.outputs.iter().position(
            |(n, o)| matches!(o, ControlOutput::Shards { input } if *n == NodeId(node) && wanted(input)),
        )
    };
    let fenced = at(0, &|i| matches!(i, Input::CardFenced { node: NodeId(1), .. })).unwrap();
    let suspended = at(1, &|i| matches!(i, Input::Suspended { .. })).unwrap();
    let gone = at(0, &|i| matches!(i, Input::CardDetached { node: NodeId(1), .. })).unwrap();
    let begun = at(2, &|i| matches!(i, Input::Attached { .. })).unwrap();
    assert!(fenced < suspended && suspended < gone && gone < begun);
    assert!(!p.is_attached(1), "it has lost the volume");
    assert!(p.is_over(1, Some(2)));
    // Its clients remember what it was before, so it does not come back by itself, but if it is attached anew.
    p.give(2, ControlInput::Detach { volume: V });
    p.run();
    p.pass(Duration::from_secs(1));
    assert!(!p.is_attached(1));
    p.attach(1, "", Access::Exclusive).unwrap();
}

/// Cards beside which others may write are asked before they do, so such a card comes back when it may.
#[test]
fn a_card_that_was_not_alone_comes_back_after_a_takeover() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.ask(2, "", Access::Exclusive, true);
    p.pass(Duration::from_secs(1));
    let status = p.controls[1].cards().next().unwrap();
    assert_eq!(status.refused, Some(Refusal::Exclusive(NodeId(2))));
    p.give(2, ControlInput::Detach { volume: V });
    p.run();
    p.pass(Duration::from_secs(1));
    assert!(p.is_attached(1));
}

/// The primary's own card has no disk node to ask.
#[test]
fn the_primarys_own_card_is_over_as_well_once_it_was_taken_over() {
    let mut p = Pair::new(false);
    p.attach(0, "", Access::Exclusive).unwrap();
    p.ask(2, "", Access::Exclusive, true);
    p.pass(Duration::from_secs(1));
    assert!(p.is_attached(2) && p.is_over(0, Some(2)));
}

/// A lease that ran out is no harm if nobody else could write meanwhile; who only read is none either.
#[test]
fn who_was_alone_goes_on_after_its_lease_unless_another_could_write() {
    for access in [Access::Read, Access::Write, Access::Exclusive] {
        let mut p = Pair::new(false);
        p.attach(1, "", Access::Exclusive).unwrap();
        p.cut = true;
        p.pass(LEASE * 2);
        p.cut = false;
        p.pass(LEASE);
        assert!(p.is_attached(1), "nobody was there");
        p.cut = true;
        p.pass(LEASE * 2);
        // Its renewals are lost, and node 2 is heard.
        p.wire.clear();
        p.cut = false;
        p.attach(2, "", access).unwrap();
        p.give(2, ControlInput::Detach { volume: V });
        p.run();
        p.pass(LEASE);
        assert_eq!(p.is_attached(1), !access.may_write(), "{access:?}");
        assert_eq!(p.is_over(1, Some(2)), access.may_write(), "{access:?}");
    }
}

/// The holder's process ends and its clients live on, as a kernel with a file system does.
#[test]
fn who_goes_on_for_an_earlier_life_was_alone_all_the_time() {
    let mut p = Pair::journaled();
    p.meet_disk_node(1, 1);
    p.meet_disk_node(2, 1);
    let first = p.attach(1, "", Access::Exclusive).unwrap();
    // Both restart, again and again, in either order.
    for life in 2..5 {
        let journals = journal_of(&p);
        p.restart_with(life, journals);
        p.controls[1] = Control::new(config(1, life, false), p.now);
        p.meet(0, 1, life);
        p.meet(1, 0, life);
        p.run();
        let card = p.go_on(1, first).unwrap();
        assert_eq!(p.controls[1].claim(V), Some((card, first)), "life {life}");
    }
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    let between = p.attach(1, "", Access::Write).unwrap();
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    assert!(p.go_on(1, first).is_ok(), "nobody but the node itself could write");
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    // Another node, in this life or in one that both have forgotten but the journal.
    let mut journals = journal_of(&p);
    journals
        .entry(V)
        .or_default()
        .apply(1, CardNote::Attached(NodeId(2), Generation(4 << 20 | 99), Access::Write));
    p.restart_with(5, journals);
    p.meet_disk_node(1, 5);
    assert_eq!(p.go_on(1, between), Err(Refusal::Overtaken(Some(NodeId(2)))));
    // That it was attached anew since does not help what was before.
    p.attach(1, "", Access::Exclusive).unwrap();
    assert_eq!(p.go_on(1, between), Err(Refusal::Overtaken(None)));
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    assert_eq!(p.go_on(1, between), Err(Refusal::Overtaken(None)));
}

#[test]
fn a_primary_that_has_lost_its_journal_lets_nobody_go_on() {
    let mut p = Pair::journaled();
    p.meet_disk_node(1, 1);
    let card = p.attach(1, "", Access::Exclusive).unwrap();
    p.restart_with(2, [(V, CardJournal::default())].into());
    p.meet_disk_node(1, 2);
    assert!(p.is_over(1, None));
    assert_eq!(p.go_on(1, card), Err(Refusal::Overtaken(None)));
    p.attach(1, "", Access::Exclusive).expect("who begins anew remembers nothing");
}

/// Else a card is believed to be alone while others write, or to write while its disk node refuses what it writes.
#[test]
fn a_card_that_is_there_is_no_answer_to_who_asks_for_more() {
    for node in [0, 1] {
        let mut p = Pair::new(false);
        let generation = p.attach(node, "", Access::Read).unwrap();
        let reads = Err(Refusal::Attached(Access::Read));
        assert_eq!(p.attach(node, "", Access::Write), reads);
        assert_eq!(p.attach(node, "", Access::Exclusive), reads);
        assert_eq!(p.attach(node, "hdc", Access::Read), Err(Refusal::PolicyIs("hscc".to_string())));
        assert_eq!(p.attach(node, "", Access::Read), Ok(generation), "it has stayed");
        p.give(node, ControlInput::Detach { volume: V });
        p.run();
        let generation = p.attach(node, "", Access::Write).unwrap();
        assert_eq!(p.attach(node, "", Access::Read), Ok(generation), "it may read as well");
        assert_eq!(p.attach(node, "", Access::Exclusive), Err(Refusal::Attached(Access::Write)));
        p.attach(2, "", Access::Write).expect("nobody has the volume for itself");
    }
}

#[test]
fn a_takeover_waits_for_the_lease_of_a_card_that_is_cut_off() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.attach(0, "", Access::Write).unwrap();
    p.cut = true;
    p.pass(LEASE / 2);
    p.ask(0, "", Access::Exclusive, true);
    p.pass(LEASE / 2);
    assert!(p.is_attached(0), "a card that is there stays as it is");
    p.give(0, ControlInput::Detach { volume: V });
    p.outputs.clear();
    p.ask(0, "", Access::Exclusive, true);
    assert!(!p.is_attached(0), "the other card may still serve copies");
    assert!(p.told(0, &Input::CardFenced { volume: V, node: NodeId(1) }));
    p.pass(LEASE);
    p.ask(0, "", Access::Exclusive, true);
    assert!(p.is_attached(0));
}

/// It hears nothing, but its renewals arrive: it would hold up all writers for ever.
#[test]
fn a_card_that_does_not_answer_is_renewed_no_more() {
    let mut p = Pair::new(false);
    let generation = p.attach(1, "", Access::Write).unwrap();
    let until = |p: &Pair| {
        let leases = p.outputs.iter().filter_map(|(_, o)| match o {
            ControlOutput::Shards { input: Input::Lease { until, .. } } => Some(*until),
            _ => None,
        });
        leases.max().unwrap()
    };
    let lease = until(&p);
    // Its renewals arrive, and nothing arrives there.
    let gone = Input::CardDetached { volume: V, node: NodeId(1) };
    p.give(0, ControlInput::Silent { volume: V, node: NodeId(1), generation });
    p.wire.clear();
    for number in 1.. {
        p.now = p.now + LEASE / 4;
        let request = RequestId((1 << 30) + number);
        let renewal = ControlMessage::Renew { request, cards: vec![(V, generation)] };
        p.give(0, ControlInput::Message { from: NodeId(1), message: renewal });
        p.give(0, ControlInput::Timeout);
        p.wire.clear();
        if p.told(0, &gone) {
            break;
        }
        assert!(p.now < Instant(0) + LEASE * 2, "it is never given up");
    }
    assert!(p.now > lease, "its own lease must have ended before");
    assert_eq!(until(&p), lease);
}

/// Two takeovers at the same time: one has its way, the other is told of it.
#[test]
fn takeovers_do_not_take_from_each_other() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.outputs.clear();
    p.ask(0, "", Access::Exclusive, true);
    p.ask(2, "", Access::Exclusive, true);
    p.run();
    p.ask(0, "", Access::Exclusive, true);
    let refused = p.outputs.iter().any(|(n, o)| {
        let refusal = Err(Refusal::Exclusive(NodeId(0)));
        *n == NodeId(2) && matches!(o, ControlOutput::AttachDone { result, .. } if *result == refusal)
    });
    assert!(refused && p.is_attached(0) && !p.is_attached(1) && !p.is_attached(2));
}

#[test]
fn a_read_only_disk_is_not_attached_to_write() {
    let mut p = Pair::new(true);
    assert_eq!(p.attach(1, "", Access::Write), Err(Refusal::ReadOnly));
    p.attach(1, "", Access::Read).unwrap();
}

/// Node 1 may read `V`, and node 2 may have no card of it.
#[derive(Debug)]
struct ReadByOne;

impl Rights for ReadByOne {
    fn most(&self, volume: PgId, node: NodeId) -> Option<Access> {
        match (volume, node.0) {
            (V, 0 | 1) => Some(Access::Read),
            (V, _) => None,
            _ => Some(Access::Exclusive),
        }
    }

    fn allowed(&self, volume: PgId) -> Allowed {
        match volume {
            V => Allowed::Only(Arc::new([NodeId(1)].into())),
            _ => Allowed::All,
        }
    }
}

/// What the shards of a node have been told last of who may attach `V`.
fn allowed_at(p: &Pair, node: u16) -> Option<Allowed> {
    p.outputs.iter().rev().find_map(|(at, output)| match output {
        ControlOutput::Shards { input: Input::Allowed { volume: V, nodes } } if at.0 == node => {
            Some(nodes.clone())
        }
        _ => None,
    })
}

/// Who may attach a volume changes while node 1 has a card: another node has the number of one that has gone.
#[derive(Debug, Default)]
struct Changing(AtomicBool);

impl Rights for Changing {
    fn most(&self, _volume: PgId, _node: NodeId) -> Option<Access> {
        Some(Access::Exclusive)
    }

    fn allowed(&self, volume: PgId) -> Allowed {
        if self.0.load(Ordering::Relaxed) { Allowed::All } else { ReadByOne.allowed(volume) }
    }
}

#[test]
fn cards_are_told_who_may_attach_the_volume() {
    let mut p = Pair::new(false);
    let rights = Arc::new(Changing::default());
    let config = ControlConfig { rights: Arc::clone(&rights) as _, ..config(0, 2, false) };
    p.controls[0] = Control::new(config, p.now);
    p.run();
    let some = ReadByOne.allowed(V);
    (1..3).for_each(|node| p.meet_disk_node(node, 2));
    p.attach(1, "", Access::Read).unwrap();
    assert_eq!(allowed_at(&p, 1), Some(some.clone()));
    let is_before = |(_, output): &(NodeId, ControlOutput)| match output {
        ControlOutput::Shards { input: Input::Allowed { volume: V, .. } } => true,
        ControlOutput::Shards { input: Input::Attached { volume: V, .. } } => {
            panic!("copies before the list")
        }
        _ => false,
    };
    assert!(p.outputs.iter().filter(|(at, _)| at.0 == 1).any(is_before));

    // A connection that is new may have lost what was said; and what changes is said to all.
    p.outputs.clear();
    p.give(0, ControlInput::PeerUp { node: NodeId(1), incarnation: 1, succeeds: None, disks: vec![] });
    p.run();
    assert_eq!(allowed_at(&p, 1), Some(some));
    rights.0.store(true, Ordering::Relaxed);
    p.outputs.clear();
    p.give(0, ControlInput::PeerUp { node: NodeId(2), incarnation: 9, succeeds: None, disks: vec![] });
    p.run();
    assert_eq!((allowed_at(&p, 0), allowed_at(&p, 1)), (Some(Allowed::All), Some(Allowed::All)));
}

/// Messages overtake each other.
#[test]
fn a_late_list_gives_nobody_back_what_he_may_no_more() {
    let mut p = Pair::new(false);
    let rights = Arc::new(Changing::default());
    let config = ControlConfig { rights: Arc::clone(&rights) as _, ..config(0, 2, false) };
    p.controls[0] = Control::new(config, p.now);
    p.run();
    (1..3).for_each(|node| p.meet_disk_node(node, 2));
    p.attach(1, "", Access::Read).unwrap();
    p.outputs.clear();
    rights.0.store(true, Ordering::Relaxed);
    p.give(0, ControlInput::PeerUp { node: NodeId(2), incarnation: 8, succeeds: None, disks: vec![] });
    let early: Vec<_> = p.wire.drain(..).collect();
    rights.0.store(false, Ordering::Relaxed);
    p.give(0, ControlInput::PeerUp { node: NodeId(2), incarnation: 9, succeeds: None, disks: vec![] });
    p.run();
    let some = ReadByOne.allowed(V);
    assert_eq!(allowed_at(&p, 1), Some(some.clone()));
    p.wire.extend(early);
    p.run();
    assert_eq!(allowed_at(&p, 1), Some(some));
}

#[test]
fn nobody_has_a_card_that_may_do_more_than_its_node() {
    let mut p = Pair::new(false);
    let config = ControlConfig { rights: Arc::new(ReadByOne), ..config(0, 2, false) };
    p.controls[0] = Control::new(config, p.now);
    (1..3).for_each(|node| p.meet_disk_node(node, 2));
    let least = Some(Access::Read);
    for (node, access, result) in [
        (1, Access::Write, Err(Refusal::NotAllowed(least))),
        (1, Access::Exclusive, Err(Refusal::NotAllowed(least))),
        (2, Access::Read, Err(Refusal::NotAllowed(None))),
        (1, Access::Read, Ok(())),
        (0, Access::Write, Ok(())),
    ] {
        assert_eq!(p.attach(node, "", access).map(drop), result, "{node} {access:?}");
    }
}

/// However many cards of a primary's volumes there are.
#[test]
fn a_renewal_is_one_input_for_a_shard() {
    let mut p = Pair::new(false);
    p.attach_all(1, [V, W]);
    p.renewed.clear();
    p.pass(LEASE);
    assert!(!p.renewed.is_empty() && p.renewed.iter().all(|&leases| leases == 2), "{:?}", p.renewed);
}

#[test]
fn leases_are_renewed() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.outputs.clear();
    p.pass(Duration::from_secs(60));
    let leases = p.outputs.iter().filter_map(|(_, o)| match o {
        ControlOutput::Shards { input: Input::Lease { until, .. } } => Some(*until),
        _ => None,
    });
    let last = leases.max().unwrap();
    assert!(last > p.now, "{last:?}");
}

/// Each message to a primary costs it something, and a thousand nodes send them.
#[test]
fn all_cards_of_a_disk_nodes_volumes_are_renewed_at_once() {
    let mut p = Pair::new(false);
    let [v, _, w] = p.attach_all(1, [V, READ_ONLY, W]);
    p.outputs.clear();
    let renewals = p.renewals_in(LEASE * 10);
    assert!((39..=42).contains(&renewals.len()), "one each quarter of a lease: {}", renewals.len());
    assert!(renewals.iter().all(|cards| *cards == [(V, v), (W, w)]), "not what nobody can write");
    for volume in [V, W] {
        assert!(p.lease_of(volume).unwrap() > p.now, "{volume:?}");
    }
    assert_eq!(p.lease_of(READ_ONLY), None);
    for volume in [V, W, READ_ONLY] {
        p.give(1, ControlInput::Detach { volume });
    }
    p.run();
    assert_eq!(p.renewals_in(LEASE), Vec::<Vec<_>>::new());
}

/// The lease of a card runs from when the renewal was sent that named it, however late its answer is.
#[test]
fn an_answer_renews_what_its_request_named() {
    let mut p = Pair::new(false);
    let [v] = p.attach_all(1, [V]);
    p.now = p.now + LEASE / 3;
    p.give(1, ControlInput::Timeout);
    let sent = p.now;
    let (_, _, renewal) = p.wire.pop_front().expect("a renewal");
    let ControlMessage::Renew { request, cards } = renewal else { panic!("{renewal:?}") };
    assert_eq!(cards, [(V, v)]);
    p.now = p.now + LEASE / 8;
    p.attach_all(1, [W]);
    let asked = p.now;
    p.now = p.now + LEASE / 8;
    p.outputs.clear();
    let answer = ControlMessage::Renewed { request, expired: vec![] };
    p.give(1, ControlInput::Message { from: NodeId(0), message: answer.clone() });
    assert_eq!(p.lease_of(V), Some(sent + LEASE));
    assert_eq!(p.lease_of(W), None, "it was not named, and has {:?} anyway", asked + LEASE);
    // Said by somebody else, or to a question that was not asked.
    p.outputs.clear();
    p.give(1, ControlInput::Message { from: NodeId(2), message: answer });
    let other = ControlMessage::Renewed { request: RequestId(request.0 - 1), expired: vec![] };
    p.give(1, ControlInput::Message { from: NodeId(0), message: other });
    assert_eq!(p.lease_of(V), None);
}

/// One card is fenced; the others of its node are not, and live on.
#[test]
fn a_card_that_is_given_up_is_alone_in_that() {
    let mut p = Pair::new(false);
    let [v, _] = p.attach_all(1, [V, W]);
    let first = p.lease_of(V).unwrap();
    p.give(0, ControlInput::Silent { volume: V, node: NodeId(1), generation: v });
    p.wire.clear();
    p.outputs.clear();
    p.now = p.now + LEASE / 3;
    p.give(1, ControlInput::Timeout);
    let (from, to, renewal) = p.wire.pop_front().expect("a renewal");
    p.give(to.0, ControlInput::Message { from, message: renewal });
    let (_, _, answer) = p.wire.pop_front().expect("an answer");
    let ControlMessage::Renewed { expired, .. } = &answer else { panic!("{answer:?}") };
    assert_eq!(*expired, [(V, v)]);
    p.give(1, ControlInput::Message { from: NodeId(0), message: answer });
    assert!(p.told(1, &Input::Suspended { volume: V }) && !p.told(1, &Input::Suspended { volume: W }));
    assert_eq!((p.lease_of(V), p.lease_of(W)), (None, Some(p.now + LEASE)));
    // The message that attaches it anew is lost: the fenced card ends by what was promised before.
    let renewed = p.now;
    assert_eq!(p.expires(V), first + LEASE / 2);
    assert_eq!(p.expires(W), renewed + LEASE + LEASE / 2);
}

/// A card whose node does not name it may be one that it does not know yet, or one that it has given back.
#[test]
fn a_card_that_is_not_named_runs_out() {
    let mut p = Pair::new(false);
    let [v, w] = p.attach_all(1, [V, W]);
    let promised = p.now + LEASE + LEASE / 2;
    let renew = |p: &mut Pair, number: u64, cards: &[(PgId, Generation)]| {
        let message = ControlMessage::Renew { request: RequestId((1 << 30) + number), cards: cards.to_vec() };
        p.give(0, ControlInput::Message { from: NodeId(1), message });
        p.give(0, ControlInput::Timeout);
        p.wire.clear();
    };
    // Named later, it lives on.
    p.now = p.now + LEASE / 4;
    renew(&mut p, 1, &[(W, w)]);
    p.now = p.now + LEASE / 4;
    renew(&mut p, 2, &[(V, v), (W, w)]);
    p.now = promised;
    renew(&mut p, 3, &[(W, w)]);
    assert_eq!(p.controls[0].cards_of(V).collect::<Vec<_>>(), [NodeId(1)]);
    // Not named any more, it ends when it would have without that renewal.
    p.now = p.now + LEASE;
    renew(&mut p, 4, &[(W, w)]);
    assert_eq!(p.controls[0].cards_of(V).count(), 0);
    assert_eq!(p.controls[0].cards_of(W).count(), 1);
}

/// The node was away for too long: all its cards are gone, and it hears so by name.
#[test]
fn a_node_that_renews_nothing_loses_all_its_cards() {
    let mut p = Pair::new(false);
    p.attach_all(1, [V, W, READ_ONLY]);
    p.cut = true;
    p.outputs.clear();
    p.pass(LEASE * 2);
    for volume in [V, W] {
        assert!(p.told(0, &Input::CardDetached { volume, node: NodeId(1) }), "{volume:?}");
    }
    assert!(!p.told(0, &Input::CardDetached { volume: READ_ONLY, node: NodeId(1) }));
    p.cut = false;
    p.outputs.clear();
    p.pass(LEASE / 2);
    for volume in [V, W] {
        assert!(p.told(1, &Input::Suspended { volume }), "{volume:?}");
        assert_eq!(p.controls[0].cards_of(volume).collect::<Vec<_>>(), [NodeId(1)]);
    }
}

/// The card's lease ends before the disk node gives the card up.
#[test]
fn a_silent_card_is_given_up_after_its_lease() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Exclusive).unwrap();
    let lease = p.outputs.iter().find_map(|(_, o)| match o {
        ControlOutput::Shards { input: Input::Lease { until, .. } } => Some(*until),
        _ => None,
    });
    p.cut = true;
    p.outputs.clear();
    let given_up = Input::CardDetached { volume: V, node: NodeId(1) };
    while !p.told(0, &given_up) {
        assert!(p.now < Instant(0) + LEASE * 3);
        p.pass(Duration::from_millis(10));
    }
    assert!(lease.unwrap() < p.now);
    // When it comes back, it drops all copies, then attaches again.
    p.cut = false;
    p.outputs.clear();
    p.pass(Duration::from_secs(2));
    let suspended = p
        .outputs
        .iter()
        .position(|(_, o)| *o == ControlOutput::Shards { input: Input::Suspended { volume: V } });
    let attached = p.outputs.iter().position(|(n, o)| {
        *n == NodeId(1) && matches!(o, ControlOutput::Shards { input: Input::Attached { .. } })
    });
    assert!(suspended.unwrap() < attached.unwrap());
}

#[test]
fn after_a_start_writes_wait_for_the_cards_of_the_earlier_life() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.controls[0] = Control::new(config(0, 2, false), p.now);
    p.outputs.clear();
    p.meet(0, 1, 1);
    p.meet(0, 2, 1);
    p.run();
    assert!(!p.told(0, &Input::WritesAllowed { volume: V }), "nobody has heard of the new life yet");
    p.meet(1, 0, 2);
    assert!(p.told(1, &Input::Suspended { volume: V }), "copies are dropped first");
    p.meet(2, 0, 2);
    p.run();
    assert!(p.told(0, &Input::WritesAllowed { volume: V }));
    assert_eq!(p.controls[0].cards_of(V).collect::<Vec<_>>(), [NodeId(1)], "attached again by itself");
}

#[test]
fn after_a_start_writes_wait_no_longer_than_a_lease() {
    let mut p = Pair::new(false);
    p.controls[0] = Control::new(config(0, 2, false), p.now);
    p.outputs.clear();
    p.cut = true;
    p.pass(LEASE);
    assert!(!p.told(0, &Input::WritesAllowed { volume: V }));
    p.pass(LEASE);
    assert!(p.told(0, &Input::WritesAllowed { volume: V }));
}

#[test]
fn extents_are_asked_of_the_disk_node() {
    let mut p = Pair::new(false);
    p.give(1, ControlInput::Extents { token: Token(3), volume: V, offset: 0, length: 4096 });
    p.run();
    p.pass(Duration::from_secs(2));
    let asked = p.outputs.iter().filter(|(_, o)| matches!(o, ControlOutput::ReadExtents { .. })).count();
    assert_eq!(asked, 1, "the disk is asked once, however often the question is repeated");
    let op = p.outputs.iter().find_map(|(_, o)| match o {
        ControlOutput::ReadExtents { op, .. } => Some(*op),
        _ => None,
    });
    let result = Ok(vec![Extent { length: 4096, hole: true }]);
    p.give(0, ControlInput::ExtentsRead { op: op.unwrap(), result: result.clone() });
    p.run();
    assert!(p.outputs.contains(&(NodeId(1), ControlOutput::ExtentsDone { token: Token(3), result })));
    p.give(1, ControlInput::Extents { token: Token(4), volume: V, offset: u64::MAX, length: 4096 });
    p.run();
    let invalid = ControlOutput::ExtentsDone { token: Token(4), result: Err(IoError::Invalid) };
    assert!(p.outputs.contains(&(NodeId(1), invalid)));
}

/// An alarm that outlives its reason would be looked at for ever.
#[test]
fn what_is_over_sets_no_alarm() {
    let mut p = Pair::new(false);
    for round in 0..3 {
        p.attach(1, "", Access::Write).unwrap();
        p.give(1, ControlInput::Extents { token: Token(3), volume: V, offset: 0, length: 4096 });
        p.pass(LEASE * round);
        p.give(1, ControlInput::Detach { volume: V });
        p.run();
        for node in 0..3 {
            assert_eq!(p.controls[node].next_timeout(), None, "node {node}, round {round}");
        }
    }
}

/// A node whose clock went back between two lives is not refused for ever.
#[test]
fn a_lower_incarnation_attaches_again() {
    let mut pair = Pair::new(false);
    pair.controls[1] = Control::new(config(1, 50, false), pair.now);
    pair.meet(0, 1, 50);
    pair.meet(1, 0, 1);
    pair.run();
    pair.attach(1, "", Access::Write).unwrap();
    // Its next life began by a clock that was set back.
    pair.controls[1] = Control::new(config(1, 40, false), pair.now);
    pair.meet(0, 1, 40);
    pair.meet(1, 0, 1);
    pair.run();
    pair.outputs.clear();
    pair.ask(1, "", Access::Write, false);
    pair.run();
    // Nobody can know that the life with the higher number is over: its card runs out first.
    pair.pass(LEASE * 2);
    assert!(pair.is_attached(1));
}

impl Pair {
    fn asks_for_pages(&mut self, node: u16) -> bool {
        let asked = (NodeId(node), ControlOutput::Withdraw { volume: V });
        let count = self.outputs.iter().filter(|output| **output == asked).count();
        self.outputs.retain(|output| *output != asked);
        assert!(count <= 1, "once is enough");
        count > 0
    }

    fn kept(&mut self, node: u16) {
        self.give(node, ControlInput::Pages { volume: V, kept: true });
    }
}

/// GAP-7: the disk node hears that a card is void when no page is left, by whatever message.
#[test]
fn a_card_is_given_back_when_its_pages_are_gone() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.kept(1);
    p.outputs.clear();
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    assert!(p.asks_for_pages(1));
    assert!(!p.told(0, &Input::CardDetached { volume: V, node: NodeId(1) }));
    p.give(1, ControlInput::Withdrawn { volume: V });
    p.run();
    assert!(p.told(0, &Input::CardDetached { volume: V, node: NodeId(1) }));
}

#[test]
fn a_void_card_is_attached_anew_when_its_pages_are_gone() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.kept(1);
    p.outputs.clear();
    let generation = p.controls[1].cards.get(&V).and_then(|card| card.generation).unwrap();
    let message = ControlMessage::Expired { volume: V, generation };
    p.give(1, ControlInput::Message { from: NodeId(0), message });
    p.pass(LEASE / 3);
    assert!(p.asks_for_pages(1) && p.told(1, &Input::Suspended { volume: V }));
    assert!(!p.told(0, &Input::CardDetached { volume: V, node: NodeId(1) }), "to attach anew would say so");
    p.give(1, ControlInput::Withdrawn { volume: V });
    p.pass(LEASE / 3);
    assert!(p.is_attached(1));
}

/// A disk node writes after its restart when all members have said that they know of it.
#[test]
fn a_new_life_is_acknowledged_when_pages_are_gone() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.kept(1);
    p.outputs.clear();
    p.controls[0] = Control::new(config(0, 2, false), p.now);
    for node in [1, 2] {
        p.meet(node, 0, 2);
        p.meet(0, node, 1);
    }
    p.run();
    assert!(p.asks_for_pages(1));
    // It is not acknowledged by another connection either.
    p.meet(1, 0, 2);
    p.pass(LEASE / 3);
    assert!(!p.told(0, &Input::WritesAllowed { volume: V }));
    p.give(1, ControlInput::Withdrawn { volume: V });
    p.run();
    assert!(p.told(0, &Input::WritesAllowed { volume: V }));
    p.pass(LEASE / 3);
    assert!(p.is_attached(1));
}

#[test]
fn who_keeps_no_pages_waits_for_none() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Write).unwrap();
    p.kept(1);
    p.give(1, ControlInput::Pages { volume: V, kept: false });
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    assert!(!p.asks_for_pages(1));
    assert!(p.told(0, &Input::CardDetached { volume: V, node: NodeId(1) }));
}

/// What the disk node's journal had when its life ended.
fn journal_of(p: &Pair) -> BTreeMap<PgId, CardJournal> {
    let mut journals = p.kept.clone();
    for (node, output) in &p.outputs {
        if let ControlOutput::Journal { volume, since, note, .. } = output
            && *node == NodeId(0)
        {
            journals.entry(*volume).or_default().apply(*since, *note);
        }
    }
    journals
}

impl Pair {
    /// The disk node keeps a journal, which is durable at once.
    fn journaled() -> Self {
        let mut pair = Self::new(false);
        pair.keeps_journals = true;
        pair.restart_with(1, [(V, CardJournal::default())].into());
        pair
    }

    /// The disk node begins a new life, and nobody has heard of it.
    fn restart_with(&mut self, incarnation: u64, journals: BTreeMap<PgId, CardJournal>) {
        self.kept = journals.clone();
        let config = ControlConfig { cards: journals, ..config(0, incarnation, false) };
        self.controls[0] = Control::new(config, self.now);
        self.outputs.clear();
    }

    fn meet_disk_node(&mut self, node: u16, incarnation: u64) {
        self.meet(node, 0, incarnation);
        self.meet(0, node, 1);
        self.run();
    }

    fn repeats_from(&self, node: u16) -> Option<Generation> {
        self.outputs.iter().rev().find_map(|(at, output)| match output {
            ControlOutput::Shards { input: Input::RepeatFrom { generation, .. } } if at.0 == node => {
                Some(*generation)
            }
            _ => None,
        })
    }
}

#[test]
fn nobody_is_attached_before_the_journal_says_so() {
    let mut p = Pair::journaled();
    p.keeps_journals = false;
    p.outputs.clear();
    p.meet_disk_node(1, 1);
    p.ask(1, "", Access::Write, false);
    p.run();
    let number = p.outputs.iter().find_map(|(_, output)| match output {
        ControlOutput::Journal { number, .. } => Some(*number),
        _ => None,
    });
    assert!(!p.is_attached(1));
    p.pass(Duration::from_secs(1));
    assert!(!p.is_attached(1), "asked again");
    p.give(0, ControlInput::Journaled { number: number.expect("an entry") });
    p.run();
    assert!(p.is_attached(1));
}

/// The disk node was away for longer than the lease. Nobody else could write.
#[test]
fn a_card_that_nobody_was_let_past_sends_its_commands_again() {
    let mut p = Pair::journaled();
    p.meet_disk_node(1, 1);
    let first = p.attach(1, "", Access::Write).unwrap();
    let mut journals = journal_of(&p);
    for life in 2..5 {
        p.pass(LEASE * 3);
        p.restart_with(life, journals.clone());
        p.cut = true;
        p.pass(LEASE * 2);
        p.cut = false;
        p.meet_disk_node(1, life);
        assert!(p.is_attached(1) && p.repeats_from(1).unwrap() <= first, "life {life}");
        journals = journal_of(&p);
    }
}

#[test]
fn a_card_that_was_given_up_does_not() {
    let mut p = Pair::journaled();
    p.meet_disk_node(1, 1);
    let first = p.attach(1, "", Access::Write).unwrap();
    p.cut = true;
    p.pass(LEASE * 2);
    assert!(p.told(0, &Input::CardDetached { volume: V, node: NodeId(1) }));
    let journals = journal_of(&p);
    p.cut = false;
    p.restart_with(2, journals);
    p.meet_disk_node(1, 2);
    assert!(p.repeats_from(1).unwrap() > first);
}

/// Another node had a card that may write in a life between.
#[test]
fn a_card_that_missed_a_life_in_which_others_wrote_does_not() {
    let mut p = Pair::journaled();
    p.meet_disk_node(1, 1);
    let first = p.attach(1, "", Access::Write).unwrap();
    let journals = journal_of(&p);
    p.restart_with(2, journals);
    p.meet_disk_node(2, 1);
    p.meet_disk_node(2, 2);
    p.attach(2, "", Access::Write).unwrap();
    let journals = journal_of(&p);
    p.restart_with(3, journals);
    p.meet_disk_node(1, 3);
    assert!(p.is_attached(1) && p.repeats_from(1).unwrap() > first);
}

#[test]
fn who_has_a_volume_for_itself_keeps_it_over_a_restart() {
    let mut p = Pair::journaled();
    p.meet_disk_node(1, 1);
    p.attach(1, "", Access::Exclusive).unwrap();
    let journals = journal_of(&p);
    p.restart_with(2, journals.clone());
    p.meet_disk_node(2, 2);
    for (node, access, takeover) in [
        (2, Access::Write, false),
        (2, Access::Exclusive, true),
        (0, Access::Read, false),
        (0, Access::Exclusive, true),
    ] {
        p.outputs.clear();
        p.ask(node, "", access, takeover);
        p.run();
        let refused = p.outputs.iter().any(|(at, output)| {
            let holder = Err(Refusal::Exclusive(NodeId(1)));
            at.0 == node && matches!(output, ControlOutput::AttachDone { result, .. } if *result == holder)
        });
        assert!(refused, "{node} {access:?} {takeover}: {:?}", p.outputs);
    }
    p.meet_disk_node(1, 2);
    assert!(p.is_attached(1));
    // A holder that does not come back has lost it when its card can be alive no more.
    p.controls[1] = Control::new(config(1, 2, false), p.now);
    p.restart_with(3, journals);
    p.meet_disk_node(2, 3);
    p.pass(LEASE + LEASE / 2);
    p.attach(2, "", Access::Write).unwrap();
}

impl Pair {
    /// The node hears who the primary of the volume is in its second term.
    fn tell(&mut self, node: u16, primary: u16, cards: Option<CardJournal>) {
        self.tell_of(node, VolumeSpec { primary: NodeId(primary), epoch: 2, ..spec(false) }, cards);
    }

    fn tell_of(&mut self, node: u16, spec: VolumeSpec, cards: Option<CardJournal>) {
        let journal = DiskJournal { volume: V, persistence: Persistence(1), loss: Loss::Power, held: false };
        let acquainted = (0..3).map(NodeId).collect();
        let term = cards.map(|cards| Term { journal, cards: KnownCards::Journal(cards), acquainted });
        self.give(node, ControlInput::Group { spec, term });
    }
}

#[test]
fn a_primary_moves_and_its_cards_follow() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    for node in 0..3 {
        p.attach(node, "", Access::Write).unwrap();
    }
    p.outputs.clear();
    p.tell(0, 1, None);
    p.run();
    assert!(p.told(0, &Input::Suspended { volume: V }) && !p.is_attached(0));
    assert!(p.is_attached(1), "node 1 has not heard of it, and refuses for now");
    p.tell(1, 1, Some(CardJournal::default()));
    p.run();
    let resend = p.controls[0].timing.resend;
    p.pass(resend);
    assert!((0..2).all(|node| p.is_attached(node)));
    assert!(!p.told(1, &Input::WritesAllowed { volume: V }), "node 2 may use copies of the first term");
    p.tell(2, 1, None);
    p.run();
    assert!(p.told(1, &Input::WritesAllowed { volume: V }) && p.is_attached(2));
    assert_eq!(p.controls[1].cards_of(V).collect::<Vec<_>>(), [NodeId(0), NodeId(2)]);
    assert_eq!(p.controls[0].cards_of(V).count(), 0);
    p.outputs.clear();
    p.pass(LEASE * 4);
    assert!((0..3).all(|node| p.is_attached(node)));
    assert!(p.controls[0].next_timeout().is_some(), "it renews the lease of its card");
    // What is older than what is known is not believed.
    let old = spec(false);
    p.give(2, ControlInput::Group { spec: old, term: None });
    assert_eq!(p.controls[2].volume(V).unwrap().primary, NodeId(1));
}

/// Of a new volume others may hear before its primary does: their word counts, and nothing waits for a grace.
#[test]
fn a_new_group_of_which_others_have_heard_first_is_written_at_once() {
    const GROUP: PgId = PgId(1 << 16);
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    let spec = VolumeSpec { id: GROUP, name: "group".into(), ..spec(false) };
    for node in [1, 2] {
        p.give(node, ControlInput::Group { spec: spec.clone(), term: None });
    }
    p.run();
    let journal = DiskJournal { volume: GROUP, persistence: Persistence(1), loss: Loss::Power, held: true };
    let acquainted = (0..3).map(NodeId).collect();
    let term = Term { journal, cards: KnownCards::Exclusivity(Exclusivity::default()), acquainted };
    p.give(0, ControlInput::Group { spec, term: Some(term) });
    assert!(p.told(0, &Input::WritesAllowed { volume: GROUP }));
}

/// All nodes were started anew: who attaches may know the volume before its primary does.
#[test]
fn a_group_that_its_primary_has_not_heard_of_yet_is_waited_for() {
    const GROUP: PgId = PgId(1 << 16);
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    let spec = VolumeSpec { id: GROUP, name: "group".into(), ..spec(false) };
    p.give(1, ControlInput::Group { spec: spec.clone(), term: None });
    let (token, policy, access) = (Token(7), String::new(), Access::Write);
    let attach = ControlInput::Attach {
        token,
        volume: GROUP,
        policy,
        access,
        takeover: false,
        succeeds: None,
        first: None,
    };
    p.outputs.clear();
    p.give(1, attach);
    p.run();
    p.pass(Duration::from_millis(200));
    let answers = |p: &Pair| {
        let is_answer = |(_, output): &&(_, _)| matches!(output, ControlOutput::AttachDone { .. });
        p.outputs.iter().filter(is_answer).map(|(_, output)| output.clone()).collect::<Vec<_>>()
    };
    assert_eq!(answers(&p), []);
    let journal = DiskJournal { volume: GROUP, persistence: Persistence(1), loss: Loss::Power, held: false };
    let cards = KnownCards::Exclusivity(Exclusivity::default());
    let term = Term { journal, cards, acquainted: Vec::new() };
    p.give(0, ControlInput::Group { spec, term: Some(term) });
    p.pass(Duration::from_millis(500));
    assert_eq!(answers(&p), [], "it has no right yet");
    p.give(0, ControlInput::Right { volume: GROUP, until: Instant::NEVER });
    p.pass(Duration::from_millis(2000));
    assert!(matches!(*answers(&p), [ControlOutput::AttachDone { token: Token(7), result: Ok(_), .. }]));
}

/// Another node may be the primary, and wait for the leases to run out that this one has granted while it was that.
#[test]
fn a_primary_whose_right_has_ended_grants_and_renews_no_lease() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.tell(0, 1, None);
    p.tell(1, 1, Some(CardJournal::default()));
    let until = p.now + LEASE;
    p.give(1, ControlInput::Right { volume: V, until });
    assert!(p.told(1, &Input::Right { volume: V, until }));
    p.tell(2, 1, None);
    p.run();
    p.attach(0, "", Access::Write).unwrap();
    p.outputs.clear();
    p.pass(LEASE * 2);
    assert!(p.told(0, &Input::Suspended { volume: V }) && !p.is_attached(0), "a renewal came too late");
    p.ask(2, "", Access::Write, false);
    p.run();
    p.pass(LEASE);
    assert!(!p.is_attached(0) && !p.is_attached(2));
    p.give(1, ControlInput::Right { volume: V, until: p.now + LEASE * 9 });
    p.pass(LEASE);
    assert!(p.is_attached(0) && p.is_attached(2));
}

/// A primary that has stopped knows of no other yet: it takes one that is none for it.
#[test]
fn a_primary_that_has_stopped_follows_whatever_other_one_comes() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.attach(2, "", Access::Write).unwrap();
    for node in [0, 2] {
        p.tell_of(node, VolumeSpec { primary: NodeId(1), ..spec(false) }, None);
    }
    p.run();
    let resend = p.controls[0].timing.resend;
    p.pass(resend);
    assert!(!p.is_attached(2));
    // And it may be the same node after all.
    for node in [1, 2, 0] {
        p.tell(node, 0, (node == 0).then(CardJournal::default));
    }
    p.pass(resend);
    assert!(p.is_attached(2));
}

/// Who had the volume for itself is in the journal, which goes with the role.
#[test]
fn the_exclusive_holder_is_known_over_a_move() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    let journal = CardJournal {
        since: 1,
        exclusive: Some((NodeId(2), Generation(1 << 20 | 5))),
        ..CardJournal::default()
    };
    p.tell(0, 1, None);
    p.tell(1, 1, Some(journal));
    p.tell(2, 1, None);
    p.run();
    let asked = p.attach(0, "", Access::Write);
    assert_eq!(asked, Err(Refusal::Exclusive(NodeId(2))));
    p.attach(2, "", Access::Exclusive).unwrap();
}

#[test]
fn a_move_within_the_grace_of_a_node_alone_ends_what_waits() {
    let mut p = Pair::journaled();
    p.keeps_journals = false;
    p.meet_disk_node(1, 1);
    p.ask(1, "", Access::Write, false);
    p.run();
    assert!(!p.is_attached(1), "the journal is not durable yet");
    p.tell(0, 1, None);
    p.give(0, ControlInput::Journaled { number: 100 });
    p.run();
    assert!(!p.is_attached(1), "what was noted in the last term permits nothing in this one");
}

/// A connection comes back before the word of a move: the card is suspended first, by that word.
#[test]
fn a_connection_does_not_tell_of_a_move() {
    let mut p = Pair::new(false);
    p.attach(2, "", Access::Write).unwrap();
    p.tell(2, 1, None);
    p.run();
    p.outputs.clear();
    let disks = vec![VolumeSpec { epoch: 3, ..spec(false) }];
    p.give(2, ControlInput::PeerUp { node: NodeId(0), incarnation: 1, succeeds: None, disks });
    let seen = |message: &ControlMessage| match message {
        ControlMessage::Seen { terms } => terms.contains(&(V, 3)),
        _ => false,
    };
    assert!(!p.wire.iter().any(|(_, _, message)| seen(message)), "{:?}", p.wire);
    assert_eq!(p.controls[2].volume(V).unwrap().primary, NodeId(1));
}

/// Numbers beyond those of its disks are not a peer's to give: what it announces is bounded.
#[test]
fn a_peer_announces_plain_disks_only() {
    let mut p = Pair::new(false);
    let known = p.controls[1].volumes().count();
    let disks = (1..50).map(|n| VolumeSpec { id: PgId(n << 22), ..spec(false) }).collect();
    p.give(1, ControlInput::PeerUp { node: NodeId(0), incarnation: 1, succeeds: None, disks });
    assert_eq!(p.controls[1].volumes().count(), known);
}

/// Nobody can write it any more: who could, reads.
#[test]
fn cards_that_may_write_read_on_when_their_volume_is_sealed() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.attach(0, "", Access::Write).unwrap();
    p.attach(1, "", Access::Write).unwrap();
    p.outputs.clear();
    let sealed = VolumeSpec { epoch: 2, ..spec(true) };
    p.tell_of(0, sealed.clone(), Some(CardJournal::default()));
    p.run();
    p.pass(LEASE);
    assert!(!p.is_attached(1), "it has not heard of the seal, and asks for what there is not any more");
    p.ask(2, "", Access::Write, false);
    p.tell_of(1, sealed.clone(), None);
    p.tell_of(2, sealed, None);
    p.run();
    let resend = p.controls[0].timing.resend;
    p.pass(resend);
    for node in [0, 1] {
        let reads = |input: &Input| matches!(input, Input::Attached { generation, access: Access::Read, .. } if generation.life() == 2);
        let told = |(at, output): &(NodeId, ControlOutput)| {
            at.0 == node && matches!(output, ControlOutput::Shards { input } if reads(input))
        };
        assert!(p.is_attached(node) && p.outputs.iter().any(told), "{node}: {:?}", p.outputs);
    }
    let refused = |(at, output): &(NodeId, ControlOutput)| {
        at.0 == 2 && matches!(output, ControlOutput::AttachDone { result: Err(Refusal::ReadOnly), .. })
    };
    assert!(p.outputs.iter().any(refused) && p.controls[2].cards().next().is_none(), "{:?}", p.outputs);
    for node in [0, 1] {
        assert_eq!(p.attach(node, "", Access::Write), Err(Refusal::ReadOnly));
        p.attach(node, "", Access::Read).unwrap();
    }
}

/// The primary's node needs no card for what its kernel has read: it withdraws that before it writes. The next primary does not.
#[test]
fn who_was_the_primary_parts_from_pages_without_a_card_too() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.kept(0);
    p.attach(0, "", Access::Write).unwrap();
    p.give(0, ControlInput::Detach { volume: V });
    assert!(!p.asks_for_pages(0));
    p.tell(0, 1, None);
    assert!(p.asks_for_pages(0));
    let of_term = |(from, _, message): &(NodeId, NodeId, ControlMessage)| {
        from.0 == 0 && matches!(message, ControlMessage::Seen { terms } if terms.contains(&(V, 2)))
    };
    assert!(!p.wire.iter().any(of_term), "it has pages of the first term: {:?}", p.wire);
    p.give(0, ControlInput::Withdrawn { volume: V });
    assert!(p.wire.iter().any(of_term), "{:?}", p.wire);
}

/// What an earlier primary was to hear, the node does not tell itself.
#[test]
fn a_card_that_is_given_back_while_its_node_becomes_the_primary_is_gone() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.attach(1, "", Access::Write).unwrap();
    p.kept(1);
    p.give(1, ControlInput::Detach { volume: V });
    p.tell(0, 1, None);
    p.tell(1, 1, Some(CardJournal::default()));
    p.give(1, ControlInput::Withdrawn { volume: V });
    assert!(p.wire.iter().all(|(from, to, _)| from != to), "{:?}", p.wire);
}

/// As another node would be.
#[test]
fn who_waits_for_a_card_when_its_node_becomes_the_primary_hears_that_there_is_none() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.tell(0, 1, None);
    p.ask(1, "", Access::Write, false);
    p.run();
    let exclusive = Some((NodeId(2), Generation(1 << 20 | 5)));
    p.tell(1, 1, Some(CardJournal { since: 1, exclusive, ..CardJournal::default() }));
    p.run();
    let refused = |(at, output): &(NodeId, ControlOutput)| {
        let holder = Err(Refusal::Exclusive(NodeId(2)));
        at.0 == 1 && matches!(output, ControlOutput::AttachDone { result, .. } if *result == holder)
    };
    assert!(p.outputs.iter().any(refused), "{:?}", p.outputs);
    assert!(p.controls[1].cards().next().is_none());
}

/// In one life both have had cards that may write, and nobody has the volume for itself when the other one gets another.
#[test]
fn a_later_writer_of_the_same_life_is_noted() {
    let mut p = Pair::journaled();
    p.meet_disk_node(1, 1);
    p.meet_disk_node(2, 1);
    for node in [2, 1] {
        p.attach(node, "", Access::Write).unwrap();
        p.give(node, ControlInput::Detach { volume: V });
        p.run();
    }
    let mut journals = journal_of(&p);
    let mut keep = |p: &Pair| {
        for (node, output) in &p.outputs {
            if let ControlOutput::Journal { volume, since, note, .. } = output
                && *node == NodeId(0)
            {
                journals.entry(*volume).or_default().apply(*since, *note);
            }
        }
    };
    keep(&p);
    let card = p.attach(1, "", Access::Exclusive).unwrap();
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    keep(&p);
    p.attach(2, "", Access::Write).unwrap();
    p.give(2, ControlInput::Detach { volume: V });
    p.run();
    keep(&p);
    p.restart_with(2, journals);
    p.meet_disk_node(1, 2);
    assert_eq!(p.go_on(1, card), Err(Refusal::Overtaken(Some(NodeId(2)))));
}

/// The clients of a card that is lost live on, whatever else is asked for at their node.
#[test]
fn a_card_that_is_lost_goes_on_for_its_clients_whatever_else_is_asked_for() {
    for access in [Access::Exclusive, Access::Write, Access::Read] {
        let mut p = Pair::new(false);
        p.attach(1, "", Access::Exclusive).unwrap();
        p.cut = true;
        p.pass(LEASE * 2);
        p.wire.clear();
        p.cut = false;
        p.attach(2, "", Access::Write).unwrap();
        p.give(2, ControlInput::Detach { volume: V });
        p.run();
        p.cut = true;
        // Its node hears that the card is over, and is cut off before it has attached again.
        let g = p.controls[1].claim(V).map(|(g, _)| g);
        if let Some(generation) = g {
            p.give(
                1,
                ControlInput::Message {
                    from: NodeId(0),
                    message: ControlMessage::Expired { volume: V, generation },
                },
            );
        }
        p.wire.clear();
        assert!(!p.is_attached(1));
        p.ask(1, "", access, false);
        p.wire.clear();
        p.cut = false;
        p.outputs.clear();
        p.pass(LEASE);
        assert!(!p.is_attached(1), "{access:?}: its clients live on, and node 2 could write");
    }
}

/// A name is stolen: the process that had the volume for itself lives on, the other one writes.
#[test]
fn a_stolen_name_is_another_writer() {
    let mut p = Pair::new(false);
    p.attach(1, "", Access::Exclusive).unwrap();
    let old = std::mem::replace(&mut p.controls[1], Control::new(config(1, 7, false), p.now));
    p.meet_successor(0, 1, 7, None);
    p.meet(1, 0, 1);
    p.ask(1, "", Access::Write, false);
    p.run();
    p.pass(LEASE * 2);
    assert!(p.is_attached(1), "the thief has it, and writes");
    p.give(1, ControlInput::Detach { volume: V });
    p.run();
    // The first one is back.
    p.controls[1] = old;
    p.wire.clear();
    p.meet_successor(0, 1, 1, None);
    p.outputs.clear();
    p.meet(1, 0, 1);
    p.run();
    p.pass(LEASE * 3);
    assert!(!p.is_attached(1), "its clients live on, and another process could write");
}

/// A card that had its volume for itself reads on when nobody writes that any more, whatever the journal knows.
#[test]
fn who_had_a_volume_for_itself_reads_on_when_nobody_writes_it() {
    for lost in [false, true] {
        let mut p = Pair::journaled();
        p.meet_disk_node(1, 1);
        p.attach(1, "", Access::Exclusive).unwrap();
        let journal = if lost { CardJournal::default() } else { journal_of(&p)[&V].clone() };
        p.outputs.clear();
        let sealed = VolumeSpec { epoch: 2, ..spec(true) };
        p.tell_of(0, sealed.clone(), Some(journal));
        p.tell_of(1, sealed.clone(), None);
        p.run();
        p.pass(LEASE);
        assert!(p.is_attached(1), "lost: {lost} {:?}", p.outputs);
    }
}

/// The clock of the disk node went back, and its number with it: what the journal says of cards is of lives that are yet to come.
#[test]
fn a_journal_that_names_a_writer_of_a_later_life_says_nothing() {
    let mut p = Pair::journaled();
    let card = Generation(7 << 20 | 1);
    let journal = CardJournal { since: 1, writer: Some((NodeId(1), card)), ..CardJournal::default() };
    p.restart_with(2, [(V, journal)].into());
    p.meet_disk_node(1, 2);
    assert_eq!(p.go_on(1, card), Err(Refusal::Overtaken(None)));
}

/// The answer of the first term is late: the role has moved to node 2 and back meanwhile, and the third term has given no card.
#[test]
fn a_card_of_an_ended_term_is_none() {
    let mut p = Pair::new(false);
    p.keeps_journals = true;
    p.ask(1, "", Access::Exclusive, false);
    let (from, to, attach) = p.wire.pop_front().unwrap();
    p.give(to.0, ControlInput::Message { from, message: attach });
    let late = p.wire.drain(..).find(|(_, to, _)| *to == NodeId(1)).unwrap();
    for (primary, epoch) in [(2, 2), (0, 3)] {
        let moved = VolumeSpec { primary: NodeId(primary), epoch, ..spec(false) };
        for node in [0, 2, 1] {
            p.tell_of(node, moved.clone(), (node == primary).then(CardJournal::default));
        }
        p.wire.clear();
    }
    p.outputs.clear();
    let (from, to, message) = late;
    assert!(matches!(message, ControlMessage::Attached { .. }), "{message:?}");
    p.give(to.0, ControlInput::Message { from, message });
    assert!(!p.is_attached(1), "{:?}", p.outputs);
    p.pass(LEASE * 2);
    assert!(p.is_attached(1), "it asks again");
}
