//! A volume of several parts that one node has for itself: what the first part's primary has decided holds for all of them, under
//! random delays, cuts, deaths and moves of primaries.
//!
//! The nodes ask as the daemon does: part after part, from the first one on again after a refusal, and what is attached is told
//! when all parts are, at one moment.

use super::*;
use std::format;

const NODES: u16 = 3;
const PARTS: [PgId; 3] = [PgId(1 << 16), PgId(1 << 16 | 1), PgId(1 << 16 | 2)];
const RETRY: Duration = Duration::from_millis(700);
const SEEDS: u64 = 1_000;

/// What the nodes do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Nothing,
    /// A later request has the higher rank, whatever the first part's primary has said.
    RankByTime,
    /// A primary begins without the rank that the last one kept.
    ForgetRank,
    /// A card is told as soon as its last part is attached.
    TellEarly,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    Attached,
    Refused,
}

/// What a node wants of the volume, as the daemon has it.
struct Want {
    number: u64,
    access: Access,
    takeover: bool,
    state: State,
    over: bool,
    /// Another node could write some part since it was told that it has the volume.
    foreign: bool,
}

enum Event {
    Message(NodeId, NodeId, ControlMessage),
    /// A node hears of a part's primary.
    News(u16, usize, u64),
    Retry(u16, u64),
    Kept(u16, usize, u64, u64),
}

struct Shared {
    wrong: Wrong,
    seed: u64,
    now: Instant,
    controls: Vec<Control>,
    lives: [u64; 3],
    wants: [Option<Want>; 3],
    wanted: u64,
    /// What each node's shards have of each part: attached, and until when.
    live: [[Option<Instant>; 3]; 3],
    /// Whose commands the primaries take.
    accepted: [BTreeMap<u16, Access>; 3],
    primaries: [(u16, u64); 3],
    kept: [Exclusivity; 3],
    /// Until when no message passes.
    cuts: [[Instant; 3]; 3],
    last: [[Instant; 3]; 3],
    events: BTreeMap<(Instant, u64), Event>,
    queued: u64,
    told: u64,
    /// Messages are late no more.
    is_calm: bool,
    /// What has gone wrong first.
    verdict: Option<String>,
}

impl Shared {
    fn new(seed: u64, wrong: Wrong) -> Self {
        let control =
            |node| Control::new(ControlConfig { disks: vec![], ..config(node, 1, false) }, Instant(0));
        let mut shared = Self {
            wrong,
            seed: crate::ids::mix(seed + 1),
            now: Instant(0),
            controls: (0..NODES).map(control).collect(),
            lives: [1; 3],
            wants: [None, None, None],
            wanted: 0,
            live: [[None; 3]; 3],
            accepted: Default::default(),
            // Numbers of the parts have nothing to do with each other.
            primaries: [(0, 10), (1, 900), (2, 2)],
            kept: [Exclusivity::default(); 3],
            cuts: [[Instant(0); 3]; 3],
            last: [[Instant(0); 3]; 3],
            events: BTreeMap::new(),
            queued: 0,
            told: 0,
            is_calm: false,
            verdict: None,
        };
        for node in 0..NODES {
            shared.meet(node);
        }
        for part in 0..PARTS.len() {
            shared.begin(part);
        }
        shared
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = crate::ids::mix(self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.seed % below
    }

    fn queue(&mut self, at: Instant, event: Event) {
        self.queued += 1;
        self.events.insert((at, self.queued), event);
    }

    /// The node hears of its peers.
    fn meet(&mut self, node: u16) {
        for peer in (0..NODES).filter(|peer| *peer != node) {
            let incarnation = self.lives[usize::from(peer)];
            let input = ControlInput::PeerUp {
                node: NodeId(peer),
                incarnation,
                succeeds: Some(incarnation - 1),
                disks: vec![],
            };
            self.give(node, input);
        }
    }

    fn spec(&self, part: usize) -> VolumeSpec {
        let (primary, epoch) = self.primaries[part];
        VolumeSpec { id: PARTS[part], primary: NodeId(primary), epoch, name: "part".into(), ..spec(false) }
    }

    /// The term of a part's primary begins, and others hear of it some time later.
    fn begin(&mut self, part: usize) {
        let (primary, epoch) = self.primaries[part];
        self.accepted[part].clear();
        let mut kept = self.kept[part];
        if self.wrong == Wrong::ForgetRank {
            kept.rank = Generation::default();
        }
        let journal =
            DiskJournal { volume: PARTS[part], persistence: Persistence(1), loss: Loss::Power, held: false };
        let acquainted = (0..NODES).map(NodeId).collect();
        let term = Term { journal, cards: KnownCards::Exclusivity(kept), acquainted };
        let spec = self.spec(part);
        self.give(primary, ControlInput::Group { spec, term: Some(term) });
        self.give(primary, ControlInput::Right { volume: PARTS[part], until: Instant::NEVER });
        for node in (0..NODES).filter(|node| *node != primary) {
            let after = self.draw(800);
            self.queue(self.now + Duration::from_millis(after), Event::News(node, part, epoch));
        }
    }

    /// Another node becomes a part's primary: the last one has heard of it.
    fn move_part(&mut self, part: usize, to: u16) {
        let (from, epoch) = self.primaries[part];
        self.primaries[part] = (to, epoch + 1);
        self.accepted[part].clear();
        let spec = self.spec(part);
        if from != to {
            self.give(from, ControlInput::Group { spec, term: None });
        }
        self.begin(part);
    }

    /// The node's process ends, and another one begins.
    fn restart(&mut self, node: u16) {
        let at = usize::from(node);
        self.lives[at] += 1;
        let config = ControlConfig { disks: vec![], ..config(node, self.lives[at], false) };
        self.controls[at] = Control::new(config, self.now);
        (self.wants[at], self.live[at]) = (None, [None; 3]);
        self.events.retain(|_, event| match event {
            Event::Message(from, to, ..) => from.0 != node && to.0 != node,
            Event::Kept(primary, ..) => *primary != node,
            Event::Retry(of, _) => *of != node,
            Event::News(..) => true,
        });
        for part in 0..PARTS.len() {
            let (primary, epoch) = self.primaries[part];
            if primary == node {
                let to = (node + 1 + self.draw(2) as u16) % NODES;
                self.primaries[part] = (to, epoch + 1);
                self.begin(part);
            }
        }
        self.meet(node);
        for peer in (0..NODES).filter(|peer| *peer != node) {
            self.meet(peer);
        }
        for part in 0..PARTS.len() {
            let spec = self.spec(part);
            self.give(node, ControlInput::Group { spec, term: None });
        }
    }

    fn give(&mut self, node: u16, input: ControlInput) {
        self.controls[usize::from(node)].handle(self.now, input);
        let mut outputs = Vec::new();
        while let Some(output) = self.controls[usize::from(node)].poll() {
            outputs.push(output);
        }
        // What concerns the shards is done at once.
        for output in &outputs {
            if let ControlOutput::Shards { input } = output {
                self.shards_hear(node, input);
            }
        }
        for output in outputs {
            self.follow(node, output);
        }
        self.judge();
    }

    fn shards_hear(&mut self, node: u16, input: &Input) {
        let part = |volume: &PgId| PARTS.iter().position(|part| part == volume).expect("a part");
        let at = usize::from(node);
        match input {
            Input::Attached { volume, access, .. } => {
                let part = part(volume);
                if self.primaries[part].0 == node {
                    self.live[at][part] = Some(Instant::NEVER);
                    self.accepted[part].insert(node, *access);
                } else {
                    self.live[at][part] = Some(Instant(0));
                }
            }
            Input::Suspended { volume } => {
                let part = part(volume);
                self.live[at][part] = None;
                if self.primaries[part].0 == node {
                    self.accepted[part].remove(&node);
                }
            }
            Input::Lease { volume, until } => self.leased(at, part(volume), *until),
            Input::Leases { leases } => {
                leases.iter().for_each(|(volume, until)| self.leased(at, part(volume), *until));
            }
            Input::CardAttached { volume, node: holder, access, .. } => {
                self.accepted[part(volume)].insert(holder.0, *access);
            }
            Input::CardFenced { volume, node: holder }
            | Input::CardLost { volume, node: holder }
            | Input::CardDetached { volume, node: holder } => {
                self.accepted[part(volume)].remove(&holder.0);
            }
            _ => {}
        }
    }

    fn leased(&mut self, node: usize, part: usize, until: Instant) {
        if let Some(live) = &mut self.live[node][part] {
            *live = until.max(*live);
        }
    }

    fn follow(&mut self, node: u16, output: ControlOutput) {
        match output {
            ControlOutput::Send { to, mut message } => {
                if let (Wrong::RankByTime, ControlMessage::Attach { rank, .. }) = (self.wrong, &mut message)
                    && *rank > Generation::default()
                {
                    *rank = Generation(self.now.0 + 1);
                }
                let (from, at) = (usize::from(node), usize::from(to.0));
                if self.now < self.cuts[from][at] {
                    return;
                }
                let late = if self.draw(20) == 0 && !self.is_calm { 5_000 } else { 40 };
                let after = Duration::from_millis(1 + self.draw(late));
                // Each link keeps the order.
                let when = (self.now + after).max(self.last[from][at]);
                self.last[from][at] = when;
                self.queue(when, Event::Message(NodeId(node), to, message));
            }
            ControlOutput::Exclusivity { number, volume, epoch, exclusivity } => {
                let part = PARTS.iter().position(|part| *part == volume).expect("a part");
                if self.primaries[part] == (node, epoch) {
                    self.kept[part] = exclusivity;
                    let after = Duration::from_millis(self.draw(300));
                    self.queue(self.now + after, Event::Kept(node, part, epoch, number));
                }
            }
            ControlOutput::AttachDone { volume, result, .. } => self.attach_done(node, volume, result),
            ControlOutput::Evicted { volume, refusal } => self.attach_done(node, volume, Err(refusal)),
            _ => {}
        }
    }

    fn attach(&mut self, node: u16, part: usize) {
        let Some(want) = &self.wants[usize::from(node)] else { return };
        let (token, policy, access) = (Token(3), String::new(), want.access);
        let (takeover, succeeds) = (part == 0 && want.takeover, None);
        let first = (part > 0).then_some(PARTS[0]);
        let volume = PARTS[part];
        self.give(node, ControlInput::Attach { token, volume, policy, access, takeover, succeeds, first });
    }

    fn attach_done(&mut self, node: u16, volume: PgId, result: Result<Generation, Refusal>) {
        let at = usize::from(node);
        let part = PARTS.iter().position(|part| *part == volume).expect("a part");
        let Some(want) = &mut self.wants[at] else { return };
        let later = match result {
            Ok(_) if want.over => {
                self.give(node, ControlInput::Detach { volume });
                false
            }
            Ok(_) if part + 1 < PARTS.len() && want.state != State::Attached => {
                self.attach(node, part + 1);
                false
            }
            Ok(_) if want.state == State::Attached => false,
            Ok(_) => {
                let is_exclusive = want.access == Access::Exclusive;
                let tells = !is_exclusive || self.wrong == Wrong::TellEarly || self.holds_all(at);
                if tells {
                    self.tell(at);
                }
                !tells
            }
            Err(Refusal::NoAnswer) if want.takeover || part > 0 => true,
            Err(Refusal::Overtaken(_)) => {
                (want.over, want.state) = (true, State::Refused);
                for other in PARTS.into_iter().filter(|other| *other != volume) {
                    self.give(node, ControlInput::Detach { volume: other });
                }
                false
            }
            Err(_) => {
                want.state = State::Refused;
                true
            }
        };
        if let Some(want) = &self.wants[at]
            && later
        {
            self.queue(self.now + RETRY, Event::Retry(node, want.number));
        }
    }

    fn tell(&mut self, at: usize) {
        let want = self.wants[at].as_mut().expect("it asked");
        (want.state, want.takeover, want.foreign) = (State::Attached, false, false);
        if want.access == Access::Exclusive {
            self.told += 1;
            // Copies of a term before may be read on elsewhere: nothing is written until they are gone.
            let mut others = self.accepted.iter().flat_map(|part| part.keys());
            if let Some(other) = others.find(|other| usize::from(**other) != at).copied() {
                self.wrong(format!("node {at} has the volume, and node {other} a part of it"));
            }
        }
    }

    fn is_live(&self, node: usize, part: usize) -> bool {
        self.live[node][part].is_some_and(|until| self.now < until)
    }

    fn holds_all(&self, node: usize) -> bool {
        (0..PARTS.len()).all(|part| self.is_live(node, part))
    }

    fn wrong(&mut self, what: String) {
        self.verdict.get_or_insert(what);
    }

    fn judge(&mut self) {
        for node in 0..NODES {
            let at = usize::from(node);
            let writes = |part: &BTreeMap<u16, Access>| {
                part.iter().any(|(other, access)| *other != node && access.may_write())
            };
            let foreign = self.accepted.iter().any(writes);
            let (has_first, holds_all) = (self.accepted[0].contains_key(&node), self.holds_all(at));
            let Some(want) = &mut self.wants[at] else { continue };
            if want.state != State::Attached || want.access != Access::Exclusive || want.over {
                continue;
            }
            want.foreign |= foreign;
            let goes_on = want.foreign && holds_all;
            if foreign && has_first {
                self.wrong(format!("node {node} has the volume, and another one may write a part"));
            }
            if goes_on {
                self.wrong(format!("node {node} goes on after another one could write"));
            }
        }
    }

    fn detach(&mut self, node: u16) {
        if self.wants[usize::from(node)].take().is_some() {
            PARTS.into_iter().for_each(|volume| self.give(node, ControlInput::Detach { volume }));
        }
    }

    fn want(&mut self, node: u16, access: Access, takeover: bool) {
        self.detach(node);
        self.wanted += 1;
        let (number, state) = (self.wanted, State::Waiting);
        self.wants[usize::from(node)] =
            Some(Want { number, access, takeover, state, over: false, foreign: false });
        self.attach(node, 0);
    }

    /// All that happens until then.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let timers = (0..NODES)
                .filter_map(|node| Some((self.controls[usize::from(node)].next_timeout()?.0, node)));
            let timer = timers.min().filter(|(at, _)| *at <= end);
            let event = self.events.first_key_value().map(|(key, _)| *key).filter(|(at, _)| *at <= end);
            match (timer, event) {
                (Some((at, node)), event) if event.is_none_or(|(when, _)| at < when) => {
                    self.now = self.now.max(at);
                    self.give(node, ControlInput::Timeout);
                }
                (_, Some(key)) => {
                    let event = self.events.remove(&key).expect("it is there");
                    self.now = self.now.max(key.0);
                    self.happen(event);
                }
                (_, None) => break,
            }
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Message(from, to, message) => {
                self.give(to.0, ControlInput::Message { from, message });
            }
            Event::News(node, part, epoch) if self.primaries[part].1 == epoch => {
                let spec = self.spec(part);
                self.give(node, ControlInput::Group { spec, term: None });
            }
            Event::Kept(node, part, epoch, number) if self.primaries[part] == (node, epoch) => {
                self.give(node, ControlInput::ExclusivityKept { volume: PARTS[part], number });
            }
            Event::Retry(node, number) => {
                let want = self.wants[usize::from(node)].as_ref();
                if want.is_some_and(|want| want.number == number && !want.over) {
                    self.attach(node, 0);
                }
            }
            Event::News(..) | Event::Kept(..) => {}
        }
    }

    /// Something happens.
    fn act(&mut self) {
        let node = self.draw(3) as u16;
        match self.draw(12) {
            0..=2 => {
                let takeover = self.draw(3) == 0;
                self.want(node, Access::Exclusive, takeover);
            }
            3 => self.want(node, Access::Write, false),
            4 => {
                let access = if self.draw(3) == 0 { Access::Read } else { Access::Write };
                self.want(node, access, false);
            }
            5 => self.detach(node),
            6 | 7 => {
                let (peer, both) = ((usize::from(node) + 1 + self.draw(2) as usize) % 3, self.draw(3) > 0);
                let until = self.now + Duration::from_millis(self.draw(15_000));
                self.cuts[usize::from(node)][peer] = until;
                if both {
                    self.cuts[peer][usize::from(node)] = until;
                }
            }
            8 | 9 => {
                let part = self.draw(3) as usize;
                let to = self.draw(3) as u16;
                if to != self.primaries[part].0 {
                    self.move_part(part, to);
                }
            }
            10 => self.restart(node),
            _ => {}
        }
        let after = self.draw(4_000);
        self.pass(Duration::from_millis(after));
    }

    /// Nobody is in the way of anybody any more: who wants the volume has it.
    fn ends_free(&mut self) {
        self.cuts = [[Instant(0); 3]; 3];
        self.is_calm = true;
        (0..NODES).for_each(|node| self.detach(node));
        self.pass(LEASE * 10);
        let node = self.draw(3) as u16;
        self.want(node, Access::Exclusive, false);
        self.pass(LEASE * 10);
        let want = self.wants[usize::from(node)].as_ref().expect("it wants it");
        if (want.state, want.over) != (State::Attached, false) {
            self.wrong(format!("the volume is free, and node {node} does not get it"));
        }
    }
}

/// Returns how often a node was told that it has the volume for itself, or what went wrong.
fn run(seed: u64, wrong: Wrong) -> Result<u64, String> {
    let mut shared = Shared::new(seed, wrong);
    shared.pass(LEASE * 2);
    for _ in 0..40 {
        shared.act();
    }
    shared.ends_free();
    shared.verdict.map_or(Ok(shared.told), |wrong| Err(format!("seed {seed}: {wrong}")))
}

#[test]
fn what_the_first_part_has_decided_holds_for_all_parts() {
    let told: Result<u64, String> = (0..SEEDS).map(|seed| run(seed, Wrong::Nothing)).sum();
    assert!(told.as_ref().is_ok_and(|told| *told > SEEDS * 2), "{told:?}");
}

#[test]
fn what_would_go_wrong_with_the_ranks_is_found() {
    for wrong in [Wrong::RankByTime, Wrong::ForgetRank, Wrong::TellEarly] {
        assert!((0..3 * SEEDS).any(|seed| run(seed, wrong).is_err()), "{wrong:?}");
    }
}

/// What node `from` hears of its request.
fn ask_part(
    p: &mut Pair,
    from: u16,
    request: u64,
    access: Access,
    rank: u64,
    succeeds: Option<u64>,
) -> Option<ControlMessage> {
    let message = ControlMessage::Attach {
        request: RequestId(request),
        volume: PARTS[1],
        policy: String::new(),
        access,
        // Of a later part it does not matter who wants to take it.
        takeover: from == 1,
        succeeds: succeeds.map(Generation),
        rank: Generation(rank),
    };
    p.outputs.clear();
    p.wire.clear();
    p.give(0, ControlInput::Message { from: NodeId(from), message });
    let kept = p.outputs.iter().find_map(|(_, output)| match output {
        ControlOutput::Exclusivity { number, exclusivity, .. } => Some((*number, exclusivity.rank)),
        _ => None,
    });
    if let Some((number, kept)) = kept {
        assert!(p.wire.is_empty(), "not before it is kept");
        assert_eq!(kept, Generation(5));
        p.give(0, ControlInput::ExclusivityKept { volume: PARTS[1], number });
    }
    p.wire.iter().rev().find(|(_, to, _)| *to == NodeId(from)).map(|(_, _, message)| message.clone())
}

#[test]
fn a_later_part_goes_to_the_card_of_the_higher_rank() {
    let refusal = |heard| match heard {
        Some(ControlMessage::Refused { refusal, .. }) => refusal,
        heard => panic!("{heard:?}"),
    };
    let is_attached = |heard| matches!(heard, Some(ControlMessage::Attached { .. }));
    let mut p = Pair::new(false);
    let epoch = 7;
    let spec = VolumeSpec { id: PARTS[1], epoch, name: "data/1".into(), ..spec(false) };
    let journal =
        DiskJournal { volume: PARTS[1], persistence: Persistence(1), loss: Loss::Power, held: false };
    let cards = KnownCards::Exclusivity(Exclusivity::default());
    let term = Some(Term { journal, cards, acquainted: vec![] });
    p.give(0, ControlInput::Group { spec, term });
    p.give(0, ControlInput::Right { volume: PARTS[1], until: Instant::NEVER });
    assert!(is_attached(ask_part(&mut p, 1, 1, Access::Write, 3, None)));

    // It is in the way, and void at the first part.
    assert_eq!(refusal(ask_part(&mut p, 2, 2, Access::Exclusive, 5, None)), Refusal::NoAnswer);
    let Some(ControlMessage::Expired { generation, .. }) =
        p.wire.iter().find(|(_, to, _)| *to == NodeId(1)).map(|(_, _, message)| message.clone())
    else {
        panic!("{:?}", p.wire)
    };
    let detach = ControlMessage::Detach { volume: PARTS[1], generation };
    p.give(0, ControlInput::Message { from: NodeId(1), message: detach });
    assert!(is_attached(ask_part(&mut p, 2, 3, Access::Exclusive, 5, None)));

    // A request that was late, though its node wanted to take the volume.
    let late = refusal(ask_part(&mut p, 1, 4, Access::Exclusive, 4, None));
    assert_eq!(late, Refusal::Exclusive(NodeId(2)));
    assert_eq!(refusal(ask_part(&mut p, 1, 5, Access::Write, 3, None)), Refusal::Exclusive(NodeId(2)));
    // The first part was given to others since.
    assert_eq!(refusal(ask_part(&mut p, 1, 6, Access::Write, 6, None)), Refusal::NoAnswer);
    p.pass(LEASE * 2);
    assert!(is_attached(ask_part(&mut p, 1, 7, Access::Write, 6, None)));
    let over = refusal(ask_part(&mut p, 2, 8, Access::Exclusive, 5, Some(5)));
    assert_eq!(over, Refusal::Overtaken(Some(NodeId(1))));
}
