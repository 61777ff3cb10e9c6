//! Kinds of faults that can be left out of a run.

use cards_core::{Duration, Limits};

use crate::options::{Clocks, LieOptions, Options};

/// A kind of faults, as the flags `--no-...` name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Processes die, and come back.
    Crashes,
    /// Nodes stand still.
    Pauses,
    /// Connections break.
    Cuts,
    /// Nodes that do not hear another one, which hears them.
    OneWayCuts,
    /// Primaries that move.
    Moves,
    /// Members that hear nothing of a disk node's next life.
    Isolation,
    /// Messages are lost.
    Loss,
    /// Messages are delivered twice.
    Duplicates,
    /// Messages overtake each other.
    Reordering,
    /// Messages take far longer than others.
    Late,
    /// Payloads break off.
    Broken,
    /// Disks fail to read or write.
    DiskErrors,
    /// Disks take long.
    SlowDisks,
    /// Cards are detached and attached again.
    Detach,
    /// Timers fire late.
    LateTimers,
    /// Cards that take a volume for themselves.
    Takeovers,
    /// Members leave, are declared dead, come back.
    Members,
    /// The coordinator is lost.
    CoordinatorLoss,
    /// Clocks run at different rates.
    Drift,
    /// Nodes come back without a proof that their last process has ended.
    Unproven,
    /// Kernels keep pages.
    Devices,
    /// Machines of disk nodes lose their power.
    PowerLoss,
    /// Disks fail to sync.
    FailedSyncs,
    /// The cores remember little.
    SmallLimits,
    /// Disks do not do what they say.
    Lies,
    /// Connections begin while messages are under way on the last ones.
    Reconnections,
    /// The time of day is set forward.
    TimeSteps,
    /// A disk node is dead for most of the storm.
    DeadPrimary,
    /// A member that may attach no volume asks for blocks.
    Prying,
    /// Columns of groups rot.
    Rot,
    /// Columns of groups give way to others.
    Replacements,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 31] = [
        Self::Crashes,
        Self::Pauses,
        Self::Cuts,
        Self::OneWayCuts,
        Self::Moves,
        Self::Isolation,
        Self::Loss,
        Self::Duplicates,
        Self::Reordering,
        Self::Late,
        Self::Broken,
        Self::DiskErrors,
        Self::SlowDisks,
        Self::Detach,
        Self::LateTimers,
        Self::Takeovers,
        Self::Members,
        Self::CoordinatorLoss,
        Self::Drift,
        Self::Unproven,
        Self::Devices,
        Self::PowerLoss,
        Self::FailedSyncs,
        Self::SmallLimits,
        Self::Lies,
        Self::Reconnections,
        Self::TimeSteps,
        Self::DeadPrimary,
        Self::Prying,
        Self::Rot,
        Self::Replacements,
    ];

    /// The flag that leaves it out, without dashes.
    pub(super) const fn flag(self) -> &'static str {
        match self {
            Self::Crashes => "no-crashes",
            Self::Pauses => "no-pauses",
            Self::Cuts => "no-cuts",
            Self::OneWayCuts => "no-one-way-cuts",
            Self::Moves => "no-moves",
            Self::Isolation => "no-isolation",
            Self::Loss => "no-loss",
            Self::Duplicates => "no-duplicates",
            Self::Reordering => "no-reordering",
            Self::Late => "no-late-messages",
            Self::Broken => "no-broken-payloads",
            Self::DiskErrors => "no-disk-errors",
            Self::SlowDisks => "no-slow-disks",
            Self::Detach => "no-detach",
            Self::LateTimers => "no-late-timers",
            Self::Takeovers => "no-takeovers",
            Self::Members => "no-member-changes",
            Self::CoordinatorLoss => "no-coordinator-loss",
            Self::Drift => "no-drift",
            Self::Unproven => "no-unproven-lives",
            Self::Devices => "no-devices",
            Self::PowerLoss => "no-power-loss",
            Self::FailedSyncs => "no-failed-syncs",
            Self::SmallLimits => "no-small-limits",
            Self::Lies => "no-lies",
            Self::Reconnections => "no-reconnections",
            Self::TimeSteps => "no-time-steps",
            Self::DeadPrimary => "no-dead-primary",
            Self::Prying => "no-prying",
            Self::Rot => "no-rot",
            Self::Replacements => "no-replacements",
        }
    }

    /// What the flag means, for `--help`.
    pub(super) const fn help(self) -> &'static str {
        match self {
            Self::Crashes => "No node dies",
            Self::Pauses => "No node stands still",
            Self::Cuts => "No connection breaks",
            Self::OneWayCuts => "No connection breaks in one direction only",
            Self::Moves => "No volume's primary moves",
            Self::Isolation => "Everybody hears of a disk node's next life",
            Self::Loss => "No message is lost",
            Self::Duplicates => "No message comes twice",
            Self::Reordering => "No message overtakes another",
            Self::Late => "No message takes far longer than others",
            Self::Broken => "No payload breaks off",
            Self::DiskErrors => "No disk fails",
            Self::SlowDisks => "No disk takes long",
            Self::Detach => "No client detaches a card",
            Self::LateTimers => "No timer fires late",
            Self::Takeovers => "No card takes a volume for itself",
            Self::Members => "The members do not change",
            Self::CoordinatorLoss => "The coordinator is never lost",
            Self::Drift => "All clocks show the same time",
            Self::Unproven => "Every node that comes back proves that its last process has ended",
            Self::Devices => "No kernel keeps pages",
            Self::PowerLoss => "No machine of a disk loses its power",
            Self::FailedSyncs => "No disk fails to sync",
            Self::SmallLimits => "The cores remember as much as in real use",
            Self::Lies => "Disks do what they say",
            Self::Reconnections => "No connection is replaced while it lives",
            Self::TimeSteps => "The time of day is never set forward",
            Self::DeadPrimary => "No disk node is dead for most of the storm",
            Self::Prying => "No member asks for blocks that it may not have",
            Self::Rot => "No column of a group rots",
            Self::Replacements => "No column of a group gives way to another one",
        }
    }

    /// Takes it out of `options`.
    pub(super) fn remove(self, options: &mut Options) {
        let Options { world, network, disk, nodes, losses, lies, takeovers, members, clocks, dead, .. } =
            options;
        match self {
            Self::Crashes => nodes.crash_every = Duration::ZERO,
            Self::Pauses => nodes.pause_every = Duration::ZERO,
            Self::Cuts => nodes.cut_every = Duration::ZERO,
            Self::OneWayCuts => nodes.deafen_every = Duration::ZERO,
            Self::Moves => nodes.move_every = Duration::ZERO,
            Self::Isolation => nodes.isolate = 0,
            Self::Loss => network.loss = 0,
            Self::Duplicates => network.duplicate = 0,
            Self::Reordering => network.reorder = false,
            Self::Late => network.rare = 0,
            Self::Broken => network.broken = 0,
            Self::DiskErrors => (disk.read_errors, disk.write_errors, disk.fills) = (0, 0, 0),
            Self::SlowDisks => disk.latency_spread = disk.latency_spread.min(Duration::from_millis(5)),
            Self::Detach => nodes.detach = 0,
            Self::LateTimers => nodes.timer_late = Duration::ZERO,
            Self::Takeovers => takeovers.every = Duration::ZERO,
            Self::Members => members.change_every = Duration::ZERO,
            Self::CoordinatorLoss => members.lose_every = Duration::ZERO,
            Self::Drift => *clocks = Clocks { steps: clocks.steps, ..Clocks::default() },
            Self::Unproven => nodes.unproven = 0,
            Self::PowerLoss => losses.power = 0,
            Self::FailedSyncs => losses.failed_syncs = 0,
            Self::SmallLimits => world.limits = Limits::default(),
            Self::Lies => *lies = LieOptions::default(),
            Self::Reconnections => nodes.reconnect_every = Duration::ZERO,
            Self::TimeSteps => clocks.steps = false,
            Self::DeadPrimary => *dead = None,
            Self::Prying => nodes.pry_every = Duration::ZERO,
            Self::Rot => nodes.rot_every = Duration::ZERO,
            Self::Replacements => nodes.replace_every = Duration::ZERO,
            Self::Devices => {
                world.devices.clear();
                world.exclusive.clear();
            }
        }
    }
}
