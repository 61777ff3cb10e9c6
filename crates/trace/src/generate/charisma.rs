//! A parallel scientific workload.

mod job;
mod layout;
mod process;

use std::collections::BTreeMap;

use self::job::{Job, Plan};
use self::layout::Layout;
use self::process::Process;
use super::Generator;
use super::agenda::Agenda;
use super::parameter::Parameter;
use super::random::{Random, Zipf};
use super::registry::Entry;
use super::spec::{SpecError, Values};
use super::stream::{Stream, Workload};
use crate::{Op, Request};

pub(crate) const ENTRY: Entry = Entry {
    name: "charisma",
    title: "parallel scientific jobs: sweeps over segments, exchanges, small records, checkpoints",
    source: "Cortes, Girona and Labarta, Design Issues of a Cooperative Cache with no Coherence Problems, table 1; \
             Nieuwejaar et al., File-Access Characteristics of Parallel Scientific Workloads",
    parameters: &[Parameter::SEED, Parameter::nodes("128"), Parameter::requests("281k"), Parameter::TIME],
    build,
};

/// Table 1: what the requests of two days are made of.
const HOURS: f64 = 48.0;
const ALL_REQUESTS: f64 = 2_809_500.0;
const UNLINKS_PER_CLOSE: f64 = 0.1;

const JOBS_MAX: usize = 8;
const USERS: u64 = 24;
const USER_SKEW: f64 = 0.8;

fn build(values: &Values) -> Result<Box<dyn Generator>, SpecError> {
    let nodes = values.small("nodes");
    let seed = values.number("seed");
    let layout = Layout::new(nodes, USERS);
    let mut charisma = Charisma {
        seed,
        layout,
        users: Zipf::new(USERS, USER_SKEW),
        jobs: BTreeMap::new(),
        processes: vec![None; nodes as usize],
        agenda: Agenda::default(),
        planner: job::Planner::new(seed, nodes, values.number("requests")),
        pending: None,
        blocked: false,
        closes: 0,
        unlinks: 0,
        now: 0,
        random: Random::new(seed),
    };
    charisma.pending = charisma.planner.next();
    Ok(Stream::boxed(charisma, values))
}

struct Charisma {
    seed: u64,
    layout: Layout,
    users: Zipf,
    /// The jobs that run, by their numbers.
    jobs: BTreeMap<u64, Job>,
    /// A node runs one process at a time.
    processes: Vec<Option<Process>>,
    agenda: Agenda,
    planner: job::Planner,
    /// The job that starts next.
    pending: Option<Plan>,
    /// It found no room, and no job has ended since.
    blocked: bool,
    closes: u64,
    unlinks: u64,
    now: u64,
    random: Random,
}

impl Charisma {
    /// Starts a job if there is room for it.
    fn start(&mut self, plan: &Plan) -> bool {
        if self.jobs.len() >= JOBS_MAX {
            return false;
        }
        let Some(first) = self.free_nodes(plan.nodes) else { return false };
        // Jobs that run at the same time share no files: they belong to different users.
        let busy = |user: u64| self.jobs.values().any(|job| job.user == user);
        // What a job is does not depend on how others have gone.
        let random = &mut Random::stream(self.seed, 2 + plan.number);
        let drawn = self.users.draw(random);
        let Some(user) = (drawn..USERS).chain(0..drawn).find(|&user| !busy(user)) else { return false };
        let taken: Vec<_> = self.jobs.values().map(Job::scratch).collect();
        let scratch = self.layout.take_scratch(plan.nodes, &taken);
        let job = Job::new(plan, user, scratch, &self.layout, random);
        let start = plan.arrival.max(self.now);
        for rank in 0..plan.nodes {
            if let Some(process) = self.processes.get_mut((first + rank) as usize) {
                *process = Some(Process::new(plan.number, rank));
            }
            // The loader starts the ranks one by one.
            self.agenda.add(start.saturating_add(u64::from(rank) * 1_000_000), first + rank);
        }
        self.jobs.insert(plan.number, job);
        true
    }

    /// A subcube, or on machines of another shape a run, of idle nodes.
    fn free_nodes(&self, count: u32) -> Option<u32> {
        let idle = |nodes: &[Option<Process>]| nodes.iter().all(Option::is_none);
        let found = self
            .processes
            .chunks(count as usize)
            .position(|nodes| nodes.len() == count as usize && idle(nodes))?;
        Some(found as u32 * count)
    }
}

impl Workload for Charisma {
    fn next(&mut self) -> Option<Request> {
        loop {
            let first = self.agenda.first();
            if !self.blocked
                && let Some(plan) = self.pending
                && first.is_none_or(|first| plan.arrival <= first.time)
            {
                if self.start(&plan) {
                    self.pending = self.planner.next();
                } else {
                    self.blocked = true;
                }
                continue;
            }
            let moment = first?;
            let place = self.processes.get_mut(moment.node as usize)?;
            let process = place.as_mut()?;
            let job = self.jobs.get_mut(&process.job)?;
            let may_unlink = ((self.unlinks + 1) as f64) <= self.closes as f64 * UNLINKS_PER_CLOSE;
            let Some(action) = process.step(job, may_unlink) else {
                job.running -= 1;
                if job.running == 0 {
                    self.jobs.remove(&process.job);
                    self.blocked = false;
                }
                *place = None;
                self.agenda.end_first();
                continue;
            };
            self.closes += u64::from(action.op == Op::Close);
            self.unlinks += u64::from(action.op == Op::Trim);
            self.now = moment.time;
            self.agenda.compute_first(job.compute(process, &mut self.random));
            return Some(moment.request(action.op, 0, action.offset, action.bytes));
        }
    }

    fn volumes(&self) -> Vec<u64> {
        vec![self.layout.bytes()]
    }
}
