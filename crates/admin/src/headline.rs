//! The first line about a node: whether all is well, and if not what to do. `cards status` and the web page begin
//! with it.

use cards_config::Coherence;

use super::{MemberState, Status, VolumeState};

impl Status {
    /// One sentence: all is well, or what fails, or else the first thing to do.
    ///
    /// ```text
    /// n1 of cluster lab: all is well (3 of 3 nodes up in epoch 3, 1 volume attached, version 0.1.0, up 2 min)
    /// ```
    #[must_use]
    pub fn headline(&self) -> String {
        let who = format!("{} of cluster {}", self.node, self.cluster);
        if self.healthy {
            return match self.suspected() {
                Some(suspected) => format!("{who}: {suspected}; all else is well ({})", self.facts()),
                None => format!("{who}: all is well ({})", self.facts()),
            };
        }
        match self.first_problem() {
            Some(first) => format!("{who}: {}", self.problems[first]),
            None if self.problems.is_empty() => format!("{who}: see the daemon's log"),
            None => format!("{who}: {}", self.failing.join("; ")),
        }
    }

    /// The problem that [`headline`](Self::headline) says as a whole, with what to do: that of what fails, else the most harmful one. None if
    /// several things fail, which are named there without what to do.
    fn first_problem(&self) -> Option<usize> {
        match self.failing.as_slice() {
            [] => (!self.problems.is_empty()).then_some(0),
            [failing] => {
                let is_of = |problem: &String| problem.starts_with(failing.as_str());
                self.problems.iter().position(is_of).or((!self.problems.is_empty()).then_some(0))
            }
            _ => None,
        }
    }

    /// The problems that [`headline`](Self::headline) does not say as a whole, the most harmful first.
    pub fn other_problems(&self) -> impl Iterator<Item = &str> {
        let first = self.first_problem();
        let others = self.problems.iter().enumerate().filter(move |(at, _)| Some(*at) != first);
        others.map(|(_, problem)| problem.as_str())
    }

    /// The members that may stand still: `n2 is silent for 1.4 s`. None if there are none.
    fn suspected(&self) -> Option<String> {
        let suspected = self.members.iter().filter(|member| member.state == MemberState::Up);
        let silent = suspected.filter_map(|member| Some((&member.name, member.silent_ms?)));
        let silent: Vec<String> =
            silent.map(|(name, ms)| format!("{name} is silent for {:.1} s", ms as f64 / 1e3)).collect();
        (!silent.is_empty()).then(|| silent.join(", "))
    }

    /// How many nodes and volumes, which version, and since when.
    #[must_use]
    pub fn facts(&self) -> String {
        let up = |state| matches!(state, MemberState::Here | MemberState::Up);
        let attached = self.volumes.iter().filter(|volume| volume.is_attached()).count();
        let wanted = self.volumes.iter().filter(|volume| volume.attached.is_some()).count();
        let of = if wanted > attached { format!(" of {wanted}") } else { String::new() };
        let is_offline =
            |volume: &&super::Volume| volume.is_attached() && volume.state == VolumeState::Offline;
        let offline = match self.volumes.iter().filter(is_offline).count() {
            0 => String::new(),
            offline => format!(" ({offline} offline)"),
        };
        let alone = self.members.len() < 2;
        let in_clear = match self.in_clear.is_empty() {
            true => String::new(),
            false => format!(", in the clear: {}", self.in_clear.join(" and ")),
        };
        format!(
            "{} of {} nodes up{}{}{in_clear}, {attached}{of} volume{} attached{offline}, version {}, up {}",
            self.members.iter().filter(|member| up(member.state) && member.silent_ms.is_none()).count(),
            self.members.iter().filter(|member| member.state != MemberState::Left).count(),
            if self.coordinator.is_some() { format!(" in epoch {}", self.epoch) } else { String::new() },
            if self.secure || alone { "" } else { ", insecure" },
            if wanted.max(attached) == 1 { "" } else { "s" },
            self.version,
            uptime(self.uptime_s)
        )
    }
}

impl super::Volume {
    /// There is a card, and the disk node has not refused it.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.attached.is_some() && self.state != VolumeState::Refused
    }

    /// A reader may get what was there before a write that is complete.
    #[must_use]
    pub fn may_be_stale(&self) -> bool {
        self.coherence == Some(Coherence::Policy) && self.read_only != Some(true)
    }
}

/// How long a daemon has been up, for people.
#[must_use]
pub fn uptime(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
