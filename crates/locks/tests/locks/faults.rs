//! Random work under random faults, then healing: nobody has what another has, and all come to an end.

use std::collections::{BTreeMap, BTreeSet};

use cards_locks::{ClientOutput, Mode, SessionId, Wait, Want};

use crate::world::*;

/// What a session's user is about to do.
#[derive(Clone, Copy, Debug)]
enum User {
    Idle,
    Waits(u64),
    /// Holds a group until then, in milliseconds.
    Holds(u64, u64),
    /// Only reads what it has, as soon as all homes know, and then for so long.
    Lowers(u64, u64),
}

/// What has happened in some runs.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) granted: usize,
    pub(crate) downgraded: usize,
    pub(crate) lost: usize,
    pub(crate) faults: BTreeSet<&'static str>,
    pub(crate) errors: BTreeSet<&'static str>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.downgraded += other.downgraded;
        self.lost += other.lost;
        self.faults.extend(other.faults);
        self.errors.extend(other.errors);
    }

    /// All that can happen has happened.
    pub(crate) fn check(&self) {
        assert_eq!(self.faults.len(), 4, "{:?}", self.faults);
        assert_eq!(self.errors, ["lease ended", "timed out", "would block"].into());
        let Self { granted, downgraded, lost, .. } = *self;
        assert!(
            granted > 200 && downgraded > 20 && lost > 0,
            "{granted} granted, {downgraded} downgraded, {lost} lost"
        );
    }
}

/// Everything of a run is drawn from its seed. Panics if a promise is broken.
pub(crate) fn run(seed: u64) -> Tally {
    let mut run = Run::new(seed);
    for _ in 0..2 {
        run.with_faults(15_000);
        run.heal();
        run.finish(seed);
    }
    let World { exclusion_violations, granted_groups, downgraded_groups, lost_groups, errors, .. } =
        run.world;
    assert_eq!(exclusion_violations, 0, "seed {seed}: so often two have what conflicts");
    Tally {
        granted: granted_groups,
        downgraded: downgraded_groups,
        lost: lost_groups,
        faults: run.faults,
        errors,
    }
}

struct Run {
    world: World,
    users: BTreeMap<SessionId, User>,
    last_group: u64,
    faults: BTreeSet<&'static str>,
}

fn some_wants(random: &mut Random) -> Vec<Want> {
    let mut wants: Vec<Want> = Vec::new();
    for volume in [V, W] {
        for index in 0..3 {
            if random.percent(30) {
                let start = index * REGION + random.below(REGION - 4);
                let mode = if random.percent(50) { Mode::Write } else { Mode::Read };
                wants.push(want(volume, start, start + 1 + random.below(4), mode));
            }
        }
    }
    // Now and then one that crosses a border.
    if wants.is_empty() {
        wants.push(want(V, REGION - 2, REGION + 2, Mode::Write));
    }
    wants
}

impl Run {
    fn new(seed: u64) -> Self {
        let nodes = 1 + Random(seed).below(5) as u16;
        let world = World::new(nodes, 2, seed);
        Self { world, users: BTreeMap::new(), last_group: 0, faults: BTreeSet::new() }
    }

    fn inject(&mut self) {
        let world = &mut self.world;
        let node = world.random.below(world.nodes.len() as u64) as usize;
        if world.random.below(150) > 0 || world.nodes[node].home.is_none() {
            return;
        }
        let until = world.ms + 200 + world.random.below(9_000);
        match world.random.below(4) {
            0 => {
                world.nodes[node].cut_until_ms = until;
                self.faults.insert("cut off");
            }
            1 => {
                world.nodes[node].paused_until_ms = until;
                self.faults.insert("paused");
            }
            2 => {
                world.kill(node, world.ms + 100);
                self.faults.insert("killed and started at once");
            }
            _ => {
                world.kill(node, until);
                self.faults.insert("killed");
            }
        }
    }

    fn restart(&mut self) {
        for node in 0..self.world.nodes.len() {
            if self.world.nodes[node].home.is_none() && self.world.nodes[node].starts_at_ms <= self.world.ms {
                self.world.start(node, 2);
            }
        }
    }

    /// Users acquire, hold for a while and release; some forget to.
    fn work(&mut self, acquire: bool) {
        for (session, output) in std::mem::take(&mut self.world.outputs) {
            let user = self.users.entry(session).or_insert(User::Idle);
            match (output, *user) {
                (ClientOutput::Granted { group }, User::Waits(waited)) if group == waited => {
                    let hold = self.world.random.below(2_000);
                    *user = User::Holds(group, self.world.ms + hold);
                }
                (ClientOutput::Refused { group, .. }, User::Waits(waited)) if group == waited => {
                    *user = User::Idle;
                }
                (ClientOutput::Lost { group }, User::Holds(held, _) | User::Lowers(held, _))
                    if group == held =>
                {
                    *user = User::Idle;
                }
                (ClientOutput::Downgraded { group }, User::Lowers(held, hold)) if group == held => {
                    *user = User::Holds(group, self.world.ms + hold);
                }
                _ => {}
            }
        }
        for session in self.world.sessions() {
            if self.world.nodes[usize::from(session.node.0)].paused_until_ms > self.world.ms {
                continue;
            }
            match *self.users.entry(session).or_insert(User::Idle) {
                User::Idle if acquire && self.world.random.percent(10) => {
                    self.last_group += 1;
                    let group = self.last_group;
                    self.users.insert(session, User::Waits(group));
                    let wants = some_wants(&mut self.world.random);
                    let now = self.world.local(usize::from(session.node.0));
                    let wait = match self.world.random.below(5) {
                        0 => Wait::Try,
                        1 => Wait::Until(now + LEASE),
                        _ => Wait::Forever,
                    };
                    self.world.acquire(session, group, wants, wait);
                }
                User::Holds(group, until) if until <= self.world.ms => {
                    self.users.insert(session, User::Idle);
                    self.world.release(session, group);
                }
                User::Holds(group, until) if self.world.random.below(200) == 0 => {
                    self.users.insert(session, User::Lowers(group, until.saturating_sub(self.world.ms)));
                    self.world.downgrade(session, group);
                }
                User::Waits(group) if self.world.random.below(2_000) == 0 => {
                    self.users.insert(session, User::Idle);
                    self.world.release(session, group);
                }
                User::Idle | User::Waits(_) | User::Holds(..) | User::Lowers(..) => {}
            }
        }
    }

    fn with_faults(&mut self, ms: u64) {
        self.world.loss_percent = self.world.random.below(25);
        self.world.repeat_percent = self.world.random.below(25);
        let end = self.world.ms + ms;
        while self.world.ms < end {
            self.inject();
            self.restart();
            self.work(true);
            self.world.tick();
        }
    }

    fn heal(&mut self) {
        (self.world.loss_percent, self.world.repeat_percent) = (0, 0);
        for node in &mut self.world.nodes {
            (node.cut_until_ms, node.paused_until_ms, node.starts_at_ms) = (0, 0, 0);
        }
    }

    /// Runs without faults until every user has had what he waits for and given it back.
    fn finish(&mut self, seed: u64) {
        let deadline = self.world.ms + 60_000;
        loop {
            self.restart();
            self.work(false);
            self.world.tick();
            let sessions = self.world.sessions();
            let idle = |session: &SessionId| matches!(self.users.get(session), None | Some(User::Idle));
            if sessions.iter().all(idle) && self.world.is_settled() && leftovers(&self.world).is_empty() {
                return;
            }
            let (left, users) = (leftovers(&self.world), &self.users);
            assert!(self.world.ms < deadline, "seed {seed}: stuck, {left:?} left, {users:?}");
        }
    }
}
