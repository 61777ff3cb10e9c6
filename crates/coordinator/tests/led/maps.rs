//! Maps of a volume, proposed while leaders die: what a process has read tells what became of what it proposed before.

use std::collections::BTreeSet;

use cards_array::group::{Map, Member as Process};
use cards_coordinator::{Change, GroupMap, LedError, NewMap, Refusal, Registry, ToldColumn};
use cards_core::NodeId;

use super::{Message, NODES, World};
use crate::common::{NOON, at, join, new_group, registry, seat, told_disk, uuid};

/// Numbers of proposers, beside those of members.
pub(super) const PROPOSERS: usize = 1000;
/// How long a proposer waits for an answer.
const PATIENCE_MS: u64 = 300;

/// What a process of the group has asked the registry.
#[derive(Clone, Debug)]
enum Asked {
    Nothing,
    /// This map, at this time, with this term and fence.
    Proposal(NewMap, u64),
    /// What became of it is not known: it reads.
    Doubt(NewMap),
    /// It has read what there was before, and raises the fence.
    Fence(NewMap, u64),
}

/// All that propose maps of one volume, and what must not become its map any more.
#[derive(Debug)]
pub(super) struct Proposers {
    asked: Vec<Asked>,
    /// Proposals so far: each is of another process, and another map.
    count: u64,
    dead: BTreeSet<Vec<u8>>,
    last: Option<GroupMap>,
    taken: u64,
    fenced: u64,
    late: u64,
}

/// A registry with a volume over disks of nodes a and b.
pub(super) fn with_volume() -> Registry {
    let mut registry = registry();
    let mut apply = |change: Change| drop(registry.apply(at(0), &change).unwrap());
    for (node, disk) in [("a", 1), ("b", 2)] {
        apply(Change::Join(join(node, 1, NOON)));
        apply(Change::PutManagedDisk { seat: seat(node, 1), disk: told_disk(disk, 8 << 20) });
    }
    apply(Change::CreateGroup(new_group("v", 9)));
    for (node, disk) in [("a", 1), ("b", 2)] {
        apply(Change::ColumnMade(ToldColumn {
            seat: seat(node, 1),
            volume: uuid(9),
            group: 0,
            disk: uuid(disk),
            free: 4 << 20,
        }));
    }
    registry
}

impl Proposers {
    pub(super) fn new() -> Self {
        let asked = vec![Asked::Nothing; 2];
        Self { asked, count: 0, dead: BTreeSet::new(), last: None, taken: 0, fenced: 0, late: 0 }
    }

    /// What is the map now was not given up before, and is no earlier one.
    fn judge(&mut self, now: &GroupMap) {
        assert!(!self.dead.contains(&now.map), "taken after a read that did not show it");
        if let Some(last) = &self.last {
            assert!(last.term() <= now.term() && last.fence <= now.fence);
            assert!(last.epoch < now.epoch || last.map == now.map, "two maps of one epoch");
        }
        self.last = Some(now.clone());
    }

    /// A process has read this map after it had proposed that one.
    fn settle(&mut self, number: usize, proposed: &NewMap, held: &GroupMap) {
        match held.map == proposed.map {
            true => self.taken += 1,
            false => drop(self.dead.insert(proposed.map.clone())),
        }
        self.asked[number] = Asked::Nothing;
    }
}

impl World {
    /// The proposers do what is next. A read is one of the leader, as it is.
    pub(super) fn propose(&mut self) {
        let Some(mut proposers) = self.proposers.take() else { return };
        let held = self.view().and_then(|view| view.maps.values().next().cloned());
        if let Some(held) = &held {
            proposers.judge(held);
        }
        for number in 0..proposers.asked.len() {
            match (proposers.asked[number].clone(), &held) {
                (Asked::Nothing, Some(held)) if self.random(50) == 0 => {
                    proposers.count += 1;
                    let process = Process { node: NodeId(number as u16), incarnation: proposers.count };
                    let map = held.decode().unwrap().taken_over(process).unwrap();
                    let new = new_map(held, &map);
                    self.ask_for(number, Change::PutMap(new.clone()));
                    proposers.asked[number] = Asked::Proposal(new, self.now);
                }
                (Asked::Proposal(new, since), _) if self.now > since + PATIENCE_MS => {
                    proposers.asked[number] = Asked::Doubt(new);
                }
                (Asked::Doubt(new), Some(held)) => {
                    if (held.term(), held.fence) == (new.before(), new.fence) {
                        self.ask_for(number, Change::FenceMap { number: new.number, fence: new.fence });
                        proposers.asked[number] = Asked::Fence(new, self.now);
                    } else {
                        proposers.settle(number, &new, held);
                    }
                }
                (Asked::Fence(new, since), _) if self.now > since + PATIENCE_MS => {
                    proposers.asked[number] = Asked::Doubt(new);
                }
                _ => {}
            }
        }
        self.proposers = Some(proposers);
    }

    /// Asks any node; some questions are long on their way, and come to another node as well.
    fn ask_for(&mut self, number: usize, change: Change) {
        let member = PROPOSERS + number;
        let to = self.leader().filter(|_| self.random(4) > 0).unwrap_or(self.random(NODES as u64) as usize);
        let asked = self.now;
        if self.random(3) == 0 {
            let also = self.random(NODES as u64) as usize;
            let message = Message::Ask { member, asked: u64::MAX, change: change.clone() };
            self.send(usize::MAX, also, message);
            let late = self.random(3000);
            self.flights.last_mut().unwrap().at += late;
        }
        if self.random(4) > 0 {
            self.send(usize::MAX, to, Message::Ask { member, asked, change });
        }
    }

    pub(super) fn proposal_answered(&mut self, member: usize, asked: u64, answer: Result<(), LedError>) {
        let Some(mut proposers) = self.proposers.take() else { return };
        let number = member - PROPOSERS;
        // Of a question that was given up, or went twice.
        let is_late = asked == u64::MAX;
        proposers.late += u64::from(is_late && answer.is_err());
        match proposers.asked[number].clone() {
            Asked::Proposal(new, since) if since == asked => match answer {
                Ok(()) => {
                    proposers.taken += 1;
                    proposers.asked[number] = Asked::Nothing;
                }
                Err(LedError::Refused(Refusal::MapNotTaken { .. })) => {
                    // It was taken before, if it went twice, and others have followed; it is not taken again.
                    proposers.dead.insert(new.map);
                    proposers.asked[number] = Asked::Nothing;
                }
                Err(_) => proposers.asked[number] = Asked::Doubt(new),
            },
            Asked::Fence(new, since) if since == asked && answer.is_ok() => {
                // The leader that has answered may not lead any more: then the read waits for the next one.
                match self.view().and_then(|view| view.maps.values().next().cloned()) {
                    Some(held) => {
                        proposers.fenced += 1;
                        proposers.settle(number, &new, &held);
                    }
                    None => proposers.asked[number] = Asked::Doubt(new),
                }
            }
            _ => {}
        }
        self.proposers = Some(proposers);
    }
}

fn new_map(held: &GroupMap, map: &Map) -> NewMap {
    let GroupMap { number, generation, epoch, fence, .. } = held.clone();
    NewMap { number, generation, epoch, fence, map: map.encode() }
}

#[test]
fn no_proposal_is_taken_after_a_read_that_did_not_show_it() {
    let (mut taken, mut fenced, mut late, mut dead) = (0, 0, 0, 0);
    for seed in 1..=12 {
        let mut world = World::over(seed, &["c"], with_volume());
        world.settle();
        world.proposers = Some(Proposers::new());
        for _ in 0..8 {
            let pause = 200 + world.random(1200);
            world.pass(pause);
            let victim = world.leader().unwrap_or_default();
            match world.random(4) {
                0 => {
                    world.kill(victim);
                    let pause = world.random(1500);
                    world.pass(pause);
                    world.start(victim, false);
                }
                1 => {
                    world.cut = Some(victim);
                    let pause = world.random(1500);
                    world.pass(pause);
                    world.cut = None;
                }
                2 => {
                    world.still = Some(victim);
                    let pause = world.random(1500);
                    world.pass(pause);
                    world.still = None;
                }
                _ => {}
            }
        }
        world.pass(4000);
        let proposers = world.proposers.take().unwrap();
        taken += proposers.taken;
        fenced += proposers.fenced;
        late += proposers.late;
        dead += proposers.dead.len();
    }
    eprintln!("{taken} taken, {fenced} reads with a fence, {late} refused that came late, {dead} given up");
    assert!(taken > 100 && fenced > 20 && late > 50 && dead > 50, "{taken} {fenced} {late} {dead}");
}
