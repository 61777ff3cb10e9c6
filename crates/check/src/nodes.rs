//! What happens to nodes and connections: deaths, restarts, pauses, cuts, and who hears of it when.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{Body, Duration, Instant, Message, NodeId, PgId, RequestId, Stamp};
use cards_world::Action;

use crate::faults::Fault;
use crate::options::{Mode, NodeOptions, Options};
use crate::rng::Rng;
use crate::run::{Deed as RunDeed, Phase, Run, stream};
use crate::workload::Workload;

/// Lets things happen to nodes.
pub(crate) struct Nodes {
    options: NodeOptions,
    rng: Rng,
    loss_rng: Rng,
    move_rng: Rng,
    switch_rng: Rng,
    link_rng: Rng,
    pry_rng: Rng,
    rot_rng: Rng,
    replace_rng: Rng,
    end_rng: Rng,
    /// Deaths of disk nodes that are losses of power, per mille.
    power: u32,
    /// Pairs of nodes (the lower first) that cannot connect until then, or are about to be connected.
    held: BTreeMap<(NodeId, NodeId), Instant>,
    paused: BTreeMap<NodeId, Instant>,
    /// Their processes have said that they end, and have not yet.
    ending: BTreeSet<NodeId>,
    stay_dead: Vec<NodeId>,
    /// Lives that cannot prove that the one before has ended.
    unproven: BTreeSet<(NodeId, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// A node dies.
    Crash,
    /// A node is paused.
    Pause,
    /// Some connection breaks.
    Cut,
    /// Some node does not hear another, which hears it.
    Deafen,
    /// Another node becomes the primary of a volume.
    Move,
    /// A volume gets another policy, of which each node hears in its own time.
    Switch,
    /// Two nodes begin another connection ...
    Reconnect,
    /// ... of which `at` hears now.
    Replace { at: NodeId, peer: NodeId, lives: (u64, u64) },
    /// A stranger asks for a block.
    Pry,
    /// A unit of a column of a group rots, or a part of the group is scrubbed.
    Rot,
    /// A column of a group gives way to another one.
    ReplaceColumn,
    /// A process that has said that it ends does so, or says it once more.
    End { node: NodeId, life: u64, times: u32 },
    /// The disk node dies that is dead for the rest of the storm.
    Die(NodeId),
    /// A dead node comes back.
    Restart(NodeId),
    /// `at` learns that its connection to that life of `peer` is gone.
    Notice { at: NodeId, peer: NodeId, life: u64 },
    /// Nodes that are not connected look for each other.
    Connect,
}

/// Policies that volumes get, besides the module if there is one.
const SWITCHED: [&str; 8] = ["rd", "greedy", "hdc", "hscc", "nchance", "hints", "gms", "single"];

/// What happens again and again in a storm.
const EVERY: [Deed; 10] = [
    Deed::Crash,
    Deed::Pause,
    Deed::Cut,
    Deed::Deafen,
    Deed::Move,
    Deed::Switch,
    Deed::Reconnect,
    Deed::Pry,
    Deed::Rot,
    Deed::ReplaceColumn,
];

/// How many of a thousand processes with a column that end say so before.
const ENDS: u32 = 300;

impl Nodes {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            options: options.nodes.clone(),
            rng: stream(options, 4),
            held: BTreeMap::new(),
            paused: BTreeMap::new(),
            ending: BTreeSet::new(),
            stay_dead: Vec::new(),
            loss_rng: stream(options, 19),
            move_rng: stream(options, 23),
            switch_rng: stream(options, 67),
            link_rng: stream(options, 47),
            pry_rng: stream(options, 49),
            rot_rng: stream(options, 64),
            replace_rng: stream(options, 65),
            end_rng: stream(options, 66),
            power: options.losses.power,
            unproven: BTreeSet::new(),
        }
    }

    pub(crate) fn begin(&mut self, run: &mut Run) {
        for node in run.all_nodes() {
            let at = run.world.now() + self.rng.skewed(Duration::from_millis(20));
            run.world.schedule(at, Action::Boot(node));
        }
        run.later(Duration::ZERO, RunDeed::Nodes(Deed::Connect));
        if run.options.mode == Mode::Storm {
            for deed in EVERY {
                self.again(run, deed);
            }
            if let Some(node) = run.options.dead {
                run.later(run.options.world.lease, RunDeed::Nodes(Deed::Die(node)));
            }
        }
    }

    /// The faults stop: every node that may run runs. A dead node of which no node has heard swallows questions that are
    /// passed to it. Where clients do not wait until such a question is repeated, all nodes hear of it now.
    pub(crate) fn calm(&mut self, run: &mut Run) {
        if run.options.world.disk_wait <= run.options.repetition() * 2 {
            for &peer in &self.stay_dead {
                let life = run.world.life(peer);
                for at in run.all_nodes().filter(|&at| at != peer) {
                    run.later(Duration::ZERO, RunDeed::Nodes(Deed::Notice { at, peer, life }));
                }
            }
        }
        for node in run.all_nodes() {
            if !run.world.is_running(node) && !self.stay_dead.contains(&node) {
                run.later(Duration::ZERO, RunDeed::Nodes(Deed::Restart(node)));
            }
        }
    }

    /// When all connections can be there again: a cut goes on after the storm, for as long as it was to last.
    pub(crate) fn last_cut(&self, now: Instant) -> Instant {
        self.held.values().copied().fold(now, Instant::max)
    }

    /// Whether the node is dead and does not come back.
    pub(crate) fn stays_dead(&self, node: NodeId) -> bool {
        self.stay_dead.contains(&node)
    }

    pub(crate) fn act(&mut self, run: &mut Run, workload: &mut Workload, deed: Deed) {
        match deed {
            Deed::Crash
            | Deed::Pause
            | Deed::Cut
            | Deed::Deafen
            | Deed::Move
            | Deed::Switch
            | Deed::Reconnect
            | Deed::Pry
            | Deed::Rot
            | Deed::ReplaceColumn => {
                if run.phase == Phase::Storm {
                    match deed {
                        Deed::Crash => self.crash(run, workload),
                        Deed::Pause => self.pause(run),
                        Deed::Deafen => self.deafen(run),
                        Deed::Move => self.move_primary(run),
                        Deed::Switch => self.switch_policy(run),
                        Deed::Reconnect => self.reconnect(run),
                        Deed::Pry => self.pry(run),
                        Deed::Rot => self.rot(run),
                        Deed::ReplaceColumn => self.replace_column(run),
                        _ => self.cut(run),
                    }
                    self.again(run, deed);
                }
            }
            Deed::Restart(node) if run.world.has_orphans(node) => {
                // A process starts when devices have let go what they had from the last one.
                run.later(Duration::from_millis(1), RunDeed::Nodes(deed));
            }
            Deed::Restart(node) => {
                if !run.world.is_running(node) {
                    run.world.models().count(Fault::Restart);
                    run.errors.recovered(node, run.world.now());
                    self.prove(run, node);
                    let now = run.world.now();
                    run.world.schedule(now, Action::Boot(node));
                    workload.booted(run, node);
                }
            }
            Deed::Notice { at, peer, life } => {
                // Messages of a connection that was replaced since then are discarded.
                if run.world.life(peer) == life || !run.world.is_linked(at, peer) {
                    let now = run.world.now();
                    run.world.schedule(now, Action::PeerDown { at, peer });
                }
            }
            Deed::Connect => self.connect(run),
            Deed::Replace { at, peer, lives } => {
                // Who stands still hears of it later, perhaps of another life of the peer by then.
                let hears = run.world.is_linked(at, peer) && !self.paused.contains_key(&at);
                if hears && (run.world.life(at), run.world.life(peer)) == lives {
                    run.world.models().reconnected(at, peer);
                    let (now, proof) = (run.world.now(), self.proof(peer, lives.1));
                    run.world.schedule(now, Action::PeerDown { at, peer });
                    run.world.schedule(now, Action::PeerUp { at, peer, proof });
                }
            }
            Deed::End { node, life, times } => {
                if run.world.is_running(node) && run.world.life(node) == life {
                    self.end(run, workload, node, times);
                }
            }
            Deed::Die(node) => {
                if run.phase == Phase::Storm {
                    run.world.models().count(Fault::DeadPrimary);
                    self.kill(run, workload, node, false);
                }
            }
        }
    }

    fn again(&mut self, run: &mut Run, deed: Deed) {
        let every = match deed {
            Deed::Crash => self.options.crash_every,
            Deed::Pause => self.options.pause_every,
            Deed::Deafen => self.options.deafen_every,
            Deed::Move => self.options.move_every,
            Deed::Switch => self.options.switch_every,
            Deed::Reconnect => self.options.reconnect_every,
            Deed::Pry => self.options.pry_every,
            Deed::Rot => self.options.rot_every,
            Deed::ReplaceColumn => self.options.replace_every,
            _ => self.options.cut_every,
        };
        if every > Duration::ZERO {
            let rng = match deed {
                Deed::Move => &mut self.move_rng,
                Deed::Switch => &mut self.switch_rng,
                Deed::Reconnect => &mut self.link_rng,
                Deed::Pry => &mut self.pry_rng,
                Deed::Rot => &mut self.rot_rng,
                Deed::ReplaceColumn => &mut self.replace_rng,
                _ => &mut self.rng,
            };
            let delay = every * rng.range(100, 1900) as u32 / 1000;
            run.later(delay, RunDeed::Nodes(deed));
        }
    }

    /// What a node says in this life of the one before.
    fn proof(&self, node: NodeId, life: u64) -> Option<u64> {
        (!self.unproven.contains(&(node, life))).then_some(life)
    }

    /// Decides whether the life of the node that is about to begin can prove that the last one has ended.
    fn prove(&mut self, run: &mut Run, node: NodeId) {
        if self.options.unproven > 0 && self.rng.chance(self.options.unproven) {
            run.world.models().count(Fault::Unproven);
            let life = run.world.life(node) + 1;
            run.observers.unproven(node, life);
            self.unproven.insert((node, life));
        }
    }

    fn victim(&mut self, run: &Run) -> Option<NodeId> {
        let nodes = run.running_nodes();
        (!nodes.is_empty()).then(|| self.rng.pick(&nodes))
    }

    fn victim_of_crash(&mut self, run: &Run) -> Option<NodeId> {
        match run.options.lone {
            None if !run.options.world.mirrors.is_empty() && self.rng.chance(400) => {
                Some(run.world.primary(run.options.world.mirrors[0].volume))
                    .filter(|&node| run.world.is_running(node))
            }
            None => self.victim(run),
            Some(_) => {
                Some(run.options.world.volumes[0].id.disk_node()).filter(|&node| run.world.is_running(node))
            }
        }
    }

    fn crash(&mut self, run: &mut Run, workload: &mut Workload) {
        let Some(node) = self.victim_of_crash(run) else { return };
        let is_whole = run.options.world.mirrors.iter().all(|mirror| run.world.is_whole(mirror.volume));
        if run.options.one_at_a_time && run.world.has_column(node) && !(is_whole && self.ending.is_empty()) {
            return;
        }
        if run.world.has_column(node) && self.end_rng.chance(ENDS) {
            let times = self.end_rng.range(0, 4) as u32;
            return self.end(run, workload, node, times);
        }
        self.kill(run, workload, node, false);
    }

    /// A process says that it ends, now and so many times more before it does.
    fn end(&mut self, run: &mut Run, workload: &mut Workload, node: NodeId, times: u32) {
        let (now, life) = (run.world.now(), run.world.life(node));
        let Some(times) = times.checked_sub(1) else { return self.kill(run, workload, node, true) };
        self.ending.insert(node);
        run.world.schedule(now, Action::Leave(node));
        run.later(Duration::from_millis(20), RunDeed::Nodes(Deed::End { node, life, times }));
    }

    /// The process of a node ends, in order or not.
    fn kill(&mut self, run: &mut Run, workload: &mut Workload, node: NodeId, in_order: bool) {
        let life = run.world.life(node);
        let now = run.world.now();
        run.world.models().count(Fault::Crash);
        if workload.is_writer(node) {
            run.world.models().count(Fault::WriterCrash);
        }
        let has_disk = run.world.has_column(node)
            || run.options.world.volumes.iter().any(|spec| run.world.primary(spec.id) == node);
        if has_disk {
            run.world.models().count(Fault::DiskNodeCrash);
        }
        run.errors.unreachable(node, now, Instant::NEVER);
        run.observers.died(node, now);
        let has_device = run.options.world.devices.iter().any(|&(at, _)| at == node);
        let power = has_disk && !has_device && self.power > 0 && self.loss_rng.chance(self.power);
        let sealed = run
            .options
            .world
            .volumes
            .iter()
            .any(|spec| spec.id.disk_node() == node && run.world.is_sealed(spec.id));
        if power {
            run.world.models().count(Fault::PowerLoss);
        }
        if sealed {
            run.world.models().count(if power { Fault::SealedPowerLoss } else { Fault::SealedCrash });
        }
        let ends = if in_order { Action::End(node) } else { Action::Crash(node) };
        run.world.schedule(now, if power { Action::LosePower(node) } else { ends });
        self.paused.remove(&node);
        self.ending.remove(&node);
        for at in run.all_nodes().filter(|at| *at != node) {
            if self.rng.chance(self.options.no_notice) {
                run.world.models().count(Fault::NoNotice);
                continue;
            }
            let delay = self.rng.skewed(self.options.notice);
            if delay > Duration::from_millis(20) {
                run.world.models().count(Fault::LateNotice);
            }
            run.later(delay, RunDeed::Nodes(Deed::Notice { at, peer: node, life }));
        }
        if has_disk && self.rng.chance(self.options.isolate) {
            // One node does not hear of the next incarnation for a while, and may hold leases of this one.
            let others: Vec<NodeId> = run.all_nodes().filter(|other| *other != node).collect();
            if !others.is_empty() {
                let other = self.rng.pick(&others);
                run.world.models().count(Fault::Isolate);
                let time = self.options.downtime + self.options.cut;
                run.errors.cut(node, other, now, now + time);
                self.sever(run, node, other, time);
            }
        }
        if !has_disk && self.rng.chance(self.options.stays_dead) && self.can_be_spared(run, workload, node) {
            self.stay_dead.push(node);
            return;
        }
        if run.options.dead == Some(node) {
            return; // until the faults stop
        }
        let down = self.rng.skewed(self.options.downtime);
        run.later(down, RunDeed::Nodes(Deed::Restart(node)));
    }

    /// Without the node, too, somebody can write what can be written. A reader may be all that is left beside it, and the
    /// primary by now.
    fn can_be_spared(&self, run: &Run, workload: &Workload, node: NodeId) -> bool {
        let mut written = run.options.world.volumes.iter().filter(|spec| !spec.read_only);
        written.all(|spec| {
            let others = run.all_nodes().filter(|&other| other != node && !self.stays_dead(other));
            others.into_iter().any(|other| workload.may_write(other, spec.id))
        })
    }

    fn move_primary(&mut self, run: &mut Run) {
        let mut volumes = run.options.world.shared.clone();
        volumes.extend(run.options.world.mirrors.iter().map(|mirror| mirror.volume));
        let nodes = run.running_nodes();
        if volumes.is_empty() || nodes.is_empty() {
            return;
        }
        let (volume, to) = (self.move_rng.pick(&volumes), self.move_rng.pick(&nodes));
        let now = run.world.now();
        if run.world.primary(volume) != to {
            run.world.models().count(Fault::Move);
            run.errors.moved(volume, now);
            run.world.schedule(now, Action::MovePrimary { volume, to });
        }
    }

    /// Nodes that are away hear of it when they are back: the world tells them then.
    fn switch_policy(&mut self, run: &mut Run) {
        let volumes: Vec<PgId> = run.options.world.volumes.iter().map(|spec| spec.id).collect();
        let volume = self.switch_rng.pick(&volumes);
        let mut policies: Vec<String> = SWITCHED.iter().map(|&policy| policy.to_owned()).collect();
        policies.extend(run.options.world.module.as_ref().map(|module| module.spec()));
        let policy = policies[self.switch_rng.range(0, policies.len() as u64 - 1) as usize].clone();
        for at in run.all_nodes() {
            let heard = run.world.now() + self.switch_rng.skewed(Duration::from_millis(50));
            run.world.schedule(heard, Action::ChoosePolicy { at, volume, policy: policy.clone() });
        }
    }

    /// Two nodes that are connected begin another connection. Each hears of it in its own time, and what it has sent on the
    /// last one goes on arriving beside what it sends on the new one.
    fn reconnect(&mut self, run: &mut Run) {
        let nodes = run.running_nodes();
        if nodes.is_empty() {
            return;
        }
        let (one, other) = (self.link_rng.pick(&nodes), self.link_rng.pick(&nodes));
        let is_linked = run.world.is_linked(one, other) && run.world.is_linked(other, one);
        if one == other || !is_linked || self.held.contains_key(&(one.min(other), one.max(other))) {
            return;
        }
        for (at, peer) in [(one, other), (other, one)] {
            let lives = (run.world.life(at), run.world.life(peer));
            let delay = self.link_rng.skewed(Duration::from_millis(10));
            run.later(delay, RunDeed::Nodes(Deed::Replace { at, peer, lives }));
        }
    }

    /// A unit that clients use rots at a column, now and then a few of them; or a part of the group is scrubbed, meanwhile.
    fn rot(&mut self, run: &mut Run) {
        let mirror = &run.options.world.mirrors[0];
        let (volume, unit) = (mirror.volume, mirror.unit);
        let used = u64::from(run.options.hot_blocks) * u64::from(run.options.world.sectors) / unit;
        let nodes = run.world.column_nodes(volume);
        let rng = &mut self.rot_rng;
        if rng.chance(250) {
            let piece = rng.below(run.world.pieces(volume));
            return run.world.scrub(volume, piece..piece + rng.range(1, 4));
        }
        let (node, first) = (rng.pick(&nodes), rng.below(used));
        (first..first + rng.pick(&[1, 1, 1, 8])).for_each(|unit| run.world.rot(node, volume, unit));
    }

    /// A column of a group, any one, gives way to one at a node without.
    fn replace_column(&mut self, run: &mut Run) {
        let volume = run.options.world.mirrors[0].volume;
        let columns = run.world.column_nodes(volume);
        let others: Vec<NodeId> = run.all_nodes().filter(|node| !columns.contains(node)).collect();
        if !others.is_empty() {
            let (from, to) = (self.replace_rng.pick(&columns), self.replace_rng.pick(&others));
            run.world.replace_column(volume, from, to);
        }
    }

    /// A stranger asks anybody for any block, in any of the ways in which nodes do.
    fn pry(&mut self, run: &mut Run) {
        let world = &run.options.world;
        let others: Vec<NodeId> =
            run.running_nodes().into_iter().filter(|node| !world.strangers.contains(node)).collect();
        let Some(&from) = world.strangers.first().filter(|&&node| run.world.is_running(node)) else { return };
        if others.is_empty() {
            return;
        }
        let rng = &mut self.pry_rng;
        let (to, spec) = (rng.pick(&others), &world.volumes[rng.below(world.volumes.len() as u64) as usize]);
        let spots = u64::from(run.options.spots(spec).min(run.options.hot_blocks));
        let block = run.options.spot(rng.below(spots) as u32);
        let body = Body::Read {
            request: RequestId(rng.draw()),
            block,
            requester: from,
            hops: rng.pick(&[0, 0, 1, 5]),
            leave_copy: rng.chance(500),
            read_ahead: rng.chance(500),
            from_disk: rng.chance(500),
        };
        let shard = cards_core::BlockId::new(spec.id, block).shard(world.shards);
        let message = Message { volume: spec.id, shard, through: Stamp(0), free: u16::MAX, body };
        run.world.models().count(Fault::Prying);
        run.world.forge(from, to, message);
    }

    fn pause(&mut self, run: &mut Run) {
        let Some(node) = self.victim(run) else { return };
        let pause = self.rng.skewed(self.options.pause);
        let until = run.world.now() + pause;
        run.world.models().count(Fault::Pause);
        if pause > run.options.world.lease {
            run.world.models().count(Fault::LongPause);
        }
        run.errors.unreachable(node, run.world.now(), until);
        run.world.schedule(run.world.now(), Action::Pause(node, until));
        let end = self.paused.entry(node).or_insert(until);
        *end = until.max(*end);
        if self.rng.chance(500) {
            for peer in run.all_nodes().filter(|peer| *peer != node) {
                self.sever(run, node, peer, pause);
            }
        }
    }

    /// The primary of a group hears nothing of the other columns, nor they of it, and mostly nothing of the register. All others hear
    /// all of them.
    fn part(&mut self, run: &mut Run) {
        let mirror = run.options.world.mirrors[0].clone();
        let primary = run.world.primary(mirror.volume);
        let time = self.options.cut * self.rng.range(300, 1000) as u32 / 1000;
        let now = run.world.now();
        if self.rng.chance(700) {
            run.world.cut_off(primary, mirror.volume, now + time);
            run.errors.unreachable(primary, now, now + time);
        }
        let columns = run.world.column_nodes(mirror.volume);
        for other in columns.into_iter().filter(|&other| other != primary) {
            run.world.models().count(Fault::Cut);
            run.errors.cut(primary, other, now, now + time);
            self.sever(run, primary, other, time / 8);
            self.held.insert((primary.min(other), primary.max(other)), now + time);
        }
    }

    fn cut(&mut self, run: &mut Run) {
        let mut mirrors = run.options.world.mirrors.iter();
        if mirrors.len() > 0 && self.rng.chance(700) {
            // Another column must be able to go on.
            if mirrors.all(|mirror| run.world.is_whole(mirror.volume)) {
                self.part(run);
            }
            return;
        }
        let (Some(one), Some(other)) = (self.victim(run), self.victim(run)) else { return };
        if one != other {
            run.world.models().count(Fault::Cut);
            let cut = self.options.cut * self.rng.range(1, 1000) as u32 / 1000;
            run.errors.cut(one, other, run.world.now(), run.world.now() + cut);
            self.sever(run, one, other, cut);
        }
    }

    /// Mostly one node does not hear a disk node, which then waits for acknowledgements that are never sent.
    fn deafen(&mut self, run: &mut Run) {
        let volumes = &run.options.world.volumes;
        let volume = volumes[self.rng.below(volumes.len() as u64) as usize].id;
        let disk_node = if volume.is_plain() { volume.disk_node() } else { run.world.primary(volume) };
        let from = if self.rng.chance(700) { Some(disk_node) } else { self.victim(run) };
        let (Some(from), Some(to)) = (from, self.victim(run)) else { return };
        if from != to {
            let now = run.world.now();
            let time = self.options.cut * self.rng.range(1, 1000) as u32 / 1000;
            run.errors.cut(from, to, now, now + time);
            run.world.models().deaf_until.insert((from, to), now + time);
        }
    }

    /// Breaks a connection for `time`; both ends hear of it by then, each in its own time.
    fn sever(&mut self, run: &mut Run, one: NodeId, other: NodeId, time: Duration) {
        let pair = (one.min(other), one.max(other));
        self.held.insert(pair, run.world.now() + time);
        for (at, peer) in [(one, other), (other, one)] {
            let life = run.world.life(peer);
            let delay = self.rng.skewed(time);
            run.later(delay, RunDeed::Nodes(Deed::Notice { at, peer, life }));
        }
    }

    fn connect(&mut self, run: &mut Run) {
        let now = run.world.now();
        let nodes = run.running_nodes();
        self.paused.retain(|_, until| *until > now);
        self.held.retain(|_, until| *until > now);
        for (place, &one) in nodes.iter().enumerate() {
            for &other in &nodes[place + 1..] {
                let held = self.held.contains_key(&(one, other));
                let paused = self.paused.contains_key(&one) || self.paused.contains_key(&other);
                if held || paused || run.world.is_linked(one, other) && run.world.is_linked(other, one) {
                    continue;
                }
                let mut last = now;
                for (at, peer) in [(one, other), (other, one)] {
                    let when = now + self.rng.skewed(Duration::from_millis(10));
                    last = last.max(when);
                    let proof = self.proof(peer, run.world.life(peer));
                    run.world.schedule(when, Action::PeerUp { at, peer, proof });
                }
                self.held.insert((one, other), last);
            }
        }
        let delay = Duration::from_micros(self.rng.range(5_000, 40_000));
        run.later(delay, RunDeed::Nodes(Deed::Connect));
    }
}
