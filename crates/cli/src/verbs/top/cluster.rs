//! The cluster, put together from what the daemons said: a row for each node and for each volume.

use std::collections::BTreeMap;
use std::rc::Rc;

use cards_admin::{Card, Counters, DiskCounters, MemberState, Status, Volume, VolumeState};

use super::demand::IoNow;
use super::rates::{Answered, Rates};
use super::source::Source;

/// Everything that the screen shows.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    /// Its name, once a daemon has answered.
    pub(crate) name: Option<String>,
    /// The latest that any daemon knows; 0 if the node is alone.
    pub(crate) epoch: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) volumes: Vec<VolumeRow>,
    /// What somebody has to do something about; each once.
    pub(crate) problems: Vec<String>,
}

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) state: NodeState,
    /// What it said last; none if it is not asked, or has not answered yet.
    pub(crate) status: Option<Rc<Status>>,
    pub(crate) rates: Option<Rates>,
}

/// Whether a node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// Its daemon answers.
    Up,
    /// Its daemon has answered and does so no more.
    Away,
    /// It is not asked; another one says so.
    Said(MemberState),
}

impl NodeState {
    /// In a word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up | Self::Said(MemberState::Here | MemberState::Up) => "up",
            Self::Away => "away",
            Self::Said(MemberState::Connecting) => "connecting",
            Self::Said(MemberState::Down) => "down",
            Self::Said(MemberState::Refused) => "refused",
            Self::Said(MemberState::Dead) => "dead",
            Self::Said(MemberState::Left) => "left",
        }
    }

    /// Whether it is up.
    pub(crate) const fn is_up(self) -> bool {
        matches!(self, Self::Up | Self::Said(MemberState::Here | MemberState::Up))
    }
}

/// A volume, over all nodes that said something of it.
#[derive(Clone, Debug)]
pub(crate) struct VolumeRow {
    /// As the first node has it that knows its size.
    pub(crate) volume: Volume,
    /// At each node that answers: node, blocks in its cache, card, state.
    pub(crate) at: Vec<AtNode>,
    /// The disk's own counters now, per second: blocks and bytes read and written. None if its node is not asked.
    pub(crate) disk: Option<[f64; 4]>,
    /// What clients ask of it now, at all nodes that answer; none before there is a difference.
    pub(crate) io: Option<IoNow>,
}

/// A volume at one node.
#[derive(Clone, Debug)]
pub(crate) struct AtNode {
    pub(crate) node: String,
    pub(crate) cached_blocks: u64,
    pub(crate) card: Option<Card>,
    pub(crate) state: VolumeState,
}

impl Cluster {
    /// What all sources together say.
    pub(crate) fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let mut cluster = Self::default();
        for source in sources {
            let shown = source.path.display();
            match (&source.now, &source.away) {
                (None, None) => {}
                (None, Some(reason)) => cluster.problem(reason),
                (Some(reading), away) => {
                    let name = cluster.name.get_or_insert_with(|| reading.status.cluster.clone());
                    if *name != reading.status.cluster {
                        let text = format!(
                            "{shown} is of cluster {}, not of {name}: watch one cluster at a time",
                            reading.status.cluster
                        );
                        cluster.problem(&text);
                        continue;
                    }
                    if let Some(reason) = away {
                        cluster.problem(&format!("{} is away: {reason}", reading.status.node));
                    }
                    cluster.add(source, &reading.status);
                }
            }
        }
        cluster.add_unasked();
        cluster.add_disks();
        cluster.add_io();
        cluster
    }

    fn problem(&mut self, text: &str) {
        if self.problems.iter().all(|known| known != text) {
            self.problems.push(text.to_owned());
        }
    }

    fn add(&mut self, source: &Source, status: &Rc<Status>) {
        let away = source.away.is_some();
        let state = if away { NodeState::Away } else { NodeState::Up };
        let own = status.members.iter().find(|member| member.state == MemberState::Here);
        self.nodes.push(Node {
            name: status.node.clone(),
            address: own.map(|member| member.address.clone()).unwrap_or_default(),
            state,
            status: Some(Rc::clone(status)),
            rates: source.rates(),
        });
        if away {
            return;
        }
        self.epoch = self.epoch.max(status.epoch);
        status.problems.iter().for_each(|problem| self.problem(problem));
        for volume in &status.volumes {
            let at = AtNode {
                node: status.node.clone(),
                cached_blocks: volume.cached_blocks,
                card: volume.attached.clone(),
                state: volume.state,
            };
            match self.volumes.iter_mut().find(|row| row.volume.name == volume.name) {
                Some(row) => {
                    if row.volume.size == 0 {
                        row.volume = volume.clone();
                    }
                    row.at.push(at);
                }
                None => self.volumes.push(VolumeRow {
                    volume: volume.clone(),
                    at: vec![at],
                    disk: None,
                    io: None,
                }),
            }
        }
    }

    /// Members that no source is, as those that answer see them: the worst that any says.
    fn add_unasked(&mut self) {
        let mut said: BTreeMap<String, (MemberState, String)> = BTreeMap::new();
        let answering = self.nodes.iter().filter(|node| node.state != NodeState::Away);
        for member in answering.filter_map(|node| node.status.as_ref()).flat_map(|status| &status.members) {
            if self.nodes.iter().any(|node| node.name == member.name) {
                continue;
            }
            let entry =
                said.entry(member.name.clone()).or_insert_with(|| (member.state, member.address.clone()));
            if entry.0 == MemberState::Up {
                entry.0 = member.state;
            }
        }
        self.nodes.extend(said.into_iter().map(|(name, (state, address))| Node {
            name,
            address,
            state: NodeState::Said(state),
            status: None,
            rates: None,
        }));
    }

    fn add_disks(&mut self) {
        const COUNTERS: [fn(&DiskCounters) -> u64; 4] =
            [|c| c.reads, |c| c.bytes_read, |c| c.writes, |c| c.bytes_written];
        for row in &mut self.volumes {
            let name = &row.volume.name;
            let node = self.nodes.iter().find(|node| Some(&node.name) == row.volume.disk_node.as_ref());
            let rates = node.and_then(|node| node.rates.as_ref());
            row.disk = rates.and_then(|rates| {
                let mut all = [0.0; 4];
                for (value, counter) in all.iter_mut().zip(COUNTERS) {
                    *value = rates.disk_per_second(name, counter)?;
                }
                Some(all)
            });
        }
    }

    fn add_io(&mut self) {
        for row in &mut self.volumes {
            let rates = self.nodes.iter().filter_map(|node| node.rates.as_ref());
            let each = rates.filter_map(|rates| rates.volume(&row.volume.name)).cloned();
            row.io = each.reduce(|sum, one| sum.plus(&one));
        }
    }

    /// What clients ask of all volumes now; none before there is a difference.
    pub(crate) fn io(&self) -> Option<IoNow> {
        let rates = self.nodes.iter().filter_map(|node| node.rates.as_ref());
        rates.map(Rates::volumes).reduce(|sum, one| sum.plus(&one))
    }

    /// The sum over the nodes that answer, of something per second; none before there is a difference.
    pub(crate) fn per_second(&self, counter: fn(&Counters) -> u64) -> Option<f64> {
        self.sum(|rates| Some(rates.per_second(counter)))
    }

    /// The same of the disks; none if no node is asked that has one.
    pub(crate) fn disks_per_second(&self, counter: fn(&DiskCounters) -> u64) -> Option<f64> {
        self.sum(|rates| rates.disks_per_second(counter))
    }

    fn sum(&self, value: impl Fn(&Rates) -> Option<f64>) -> Option<f64> {
        self.nodes.iter().filter_map(|node| value(node.rates.as_ref()?)).reduce(|a, b| a + b)
    }

    /// The reads answered since the last look.
    pub(crate) fn answered_now(&self) -> Answered {
        let counted = self.nodes.iter().filter_map(|node| node.rates.as_ref()).map(|rates| rates.counted);
        Answered::from(&counted.fold(Counters::default(), |sum, one| sum.plus(&one)))
    }

    /// The reads answered since the daemons were started.
    pub(crate) fn answered(&self) -> Answered {
        let counters =
            self.nodes.iter().filter_map(|node| node.status.as_ref()).map(|status| status.counters);
        Answered::from(&counters.fold(Counters::default(), |sum, one| sum.plus(&one)))
    }

    /// Members that are up, and all that have not left.
    pub(crate) fn up(&self) -> (usize, usize) {
        let left = NodeState::Said(MemberState::Left);
        let up = self.nodes.iter().filter(|node| node.state.is_up()).count();
        (up, self.nodes.iter().filter(|node| node.state != left).count())
    }
}

impl VolumeRow {
    /// The nodes that have a card, and how many clients use them.
    pub(crate) fn cards(&self) -> (usize, u64) {
        let cards = self.at.iter().filter_map(|at| at.card.as_ref());
        cards.fold((0, 0), |(nodes, clients), card| (nodes + 1, clients + u64::from(card.clients)))
    }

    /// Its blocks in all caches that were asked: a block at two nodes counts twice.
    pub(crate) fn cached_blocks(&self) -> u64 {
        self.at.iter().map(|at| at.cached_blocks).fold(0, u64::saturating_add)
    }

    /// The worst state at any node.
    pub(crate) fn state(&self) -> VolumeState {
        let worse = |state: &VolumeState| match state {
            VolumeState::Ready => 0,
            VolumeState::Waiting => 1,
            VolumeState::Offline => 2,
            VolumeState::Refused => 3,
        };
        self.at.iter().map(|at| at.state).max_by_key(worse).unwrap_or(self.volume.state)
    }
}
