//! What is wrong at a node, the most harmful first.

mod copies;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::SystemTime;

use cards_admin::{Lost, Member, MemberState, Volume, VolumeState};
use cards_core::NodeId;
use cards_disk::Disk;
use cards_user_policy::Module;

use crate::attach::losses;
use crate::failures::Kind;
use crate::groups::remedy_of_copy;
use crate::node::Node;
use crate::node::card::Card;
use crate::node::disk_seen::{Seen, short_of_room};

/// How long after a flush that failed a volume is a problem, in seconds. It is told beside its volume for longer.
const LOSS_REMEMBERED_S: u64 = 300;

/// How much harm a problem does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Harm {
    /// No other node believes this one. Most of the rest follows from it.
    Unbelieved,
    /// What was written may be lost.
    Lost,
    /// Requests fail.
    Failing,
    /// Something does not answer.
    Away,
    /// Requests may fail soon, or take longer than they have to.
    Risk,
    /// Something is not as it was meant to be.
    Note,
}

/// Something that is wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    harm: Harm,
    /// What it is and what to do.
    pub(crate) text: String,
    /// What has failed, without what to do; None for what is no failure.
    pub(crate) failing: Option<String>,
}

impl Problem {
    fn new(harm: Harm, text: impl Into<String>) -> Self {
        Self { harm, text: text.into(), failing: None }
    }

    /// Operations that failed, and what to do.
    fn failing(harm: Harm, failed: String, remedy: &str) -> Self {
        Self { harm, text: format!("{failed}; {remedy}"), failing: Some(failed) }
    }
}

/// All that is wrong at a node whose members and volumes are these.
pub(crate) fn of(node: &Node, members: &[Member], volumes: &[Volume]) -> Vec<Problem> {
    let revoked = node.identity.as_ref().and_then(|own| own.refusal());
    let mut problems: Vec<Problem> = own_disks(node).chain(recent_losses(node)).collect();
    let silent = node.silent_disks().into_iter();
    problems.extend(silent.map(|(failed, remedy)| Problem::failing(Harm::Away, failed, &remedy)));
    problems.extend(node.changes.problem().map(|text| Problem::new(Harm::Away, text)));
    problems.extend(state_dir(node));
    problems.extend(same_names(volumes).map(|text| Problem::new(Harm::Note, text)));
    match revoked {
        // What others do not let this node do follows from it.
        Some(revoked) => {
            problems.push(Problem::new(Harm::Unbelieved, revoked));
            problems.extend(volumes_away(node, volumes, |volume| volume.state != VolumeState::Offline));
        }
        None => {
            problems.extend(identity(node));
            problems.extend(alone(members));
            problems.extend(members_away(members));
            problems.extend(volumes_away(node, volumes, |_| true));
            let others = node.membership.problems().into_iter();
            problems.extend(others.map(|text| Problem::new(Harm::Risk, text)));
        }
    }
    problems.extend(copies::of(node));
    problems.extend(node.cards.all().iter().filter_map(|card| requests(node, card)));
    problems.extend(damaged(node).into_iter().map(|text| Problem::new(Harm::Risk, text)));
    problems.extend(policies_given_up(node).into_iter().map(|text| Problem::new(Harm::Note, text)));
    problems.sort_by_key(|problem| problem.harm);
    problems
}

/// Why a volume has `rd` here instead of the module that was chosen for it, if so.
pub(crate) fn policy_failure(node: &Node, volume: &str, policy: &str) -> Option<String> {
    let digest = Module::named(policy)?;
    let modules = &node.policies.modules;
    if modules.get(digest).is_none() {
        return Some("its module is not at this node".to_owned());
    }
    let control = node.control();
    let ids = control.volumes().filter(|spec| node.volume_name(spec) == volume).map(|spec| spec.id);
    let mut failures = ids.filter_map(|id| modules.fallbacks().reason(id, digest));
    failures.next().map(|failure| failure.to_string())
}

/// Volumes that have `rd` instead of what was chosen for them, as problems of this node.
fn policies_given_up(node: &Node) -> Vec<String> {
    let table = node.policies.table();
    let failed = |(volume, policy): (String, String)| {
        let failure = policy_failure(node, &volume, &policy)?;
        Some(format!(
            "volume {volume:?} has the policy rd instead of {}: {failure}; mend the module, or choose another policy with `cards policy set \
             {volume} ...`",
            table.shown(&policy)
        ))
    };
    table.chosen().into_iter().filter_map(failed).collect()
}

fn identity(node: &Node) -> Vec<Problem> {
    let Some(own) = node.identity.as_ref() else { return Vec::new() };
    let has_ended = own.ends().is_none_or(|ends| ends <= SystemTime::now());
    let harm = if has_ended { Harm::Unbelieved } else { Harm::Risk };
    let mishap = own.mishap().map(|text| Problem::new(Harm::Note, text));
    own.problems().into_iter().map(|text| Problem::new(harm, text)).chain(mishap).collect()
}

/// No other node can be reached, and none says so itself: this one may be cut off.
fn alone(members: &[Member]) -> Option<Problem> {
    let is_other = |member: &&Member| !matches!(member.state, MemberState::Here | MemberState::Left);
    let others: Vec<&Member> = members.iter().filter(is_other).collect();
    // A machine that refuses is reached; of one that was never heard nothing is known.
    let is_cut_off = |member: &&Member| {
        let reason = member.reason.as_deref().unwrap_or_default();
        member.state == MemberState::Down && !reason.is_empty() && !reason.contains("refused")
    };
    (others.len() > 1 && others.iter().all(is_cut_off)).then(|| {
        Problem::new(
            Harm::Away,
            format!(
                "this node reaches none of the {} others: it may be this one that is cut off; look at its own network first (`ip -s link`, \
                 firewall)",
                others.len()
            ),
        )
    })
}

fn members_away(members: &[Member]) -> impl Iterator<Item = Problem> {
    let is_well =
        |member: &&Member| matches!(member.state, MemberState::Here | MemberState::Up | MemberState::Left);
    members.iter().filter(move |member| !is_well(member)).map(|Member { name, address, reason, .. }| {
        let reason = reason.as_deref().unwrap_or("not connected yet; this takes a moment after the start");
        Problem::new(Harm::Away, format!("node {name} ({address}): {reason}"))
    })
}

fn volumes_away(
    node: &Node,
    volumes: &[Volume],
    is_told: impl Fn(&Volume) -> bool,
) -> impl Iterator<Item = Problem> {
    // Of those copies it is said which have failed.
    let lost = copies::lost(node);
    let is_amiss = move |volume: &Volume| {
        volume.attached.is_some() && volume.state != VolumeState::Ready && !lost.contains(&volume.name)
    };
    volumes.iter().filter(move |volume| is_amiss(volume) && is_told(volume)).map(|volume| {
        let reason = volume.reason.as_deref().unwrap_or("not ready");
        Problem::new(
            Harm::Away,
            match volume.state {
                // It names the volume itself.
                VolumeState::Refused => reason.into(),
                _ => format!("volume {}: {reason}", volume.name),
            },
        )
    })
}

/// What is wrong with the disks of this node.
fn own_disks(node: &Node) -> impl Iterator<Item = Problem> {
    let seen = node.disks_seen.iter().zip(&node.disk_errors).zip(&node.damage);
    let managed = node.managed.iter().zip(&node.managed_seen).flat_map(|(managed, seen)| {
        let name = managed.disk_name().as_str();
        file(name, managed.path(), seen, Some(managed.size()))
    });
    let of_volumes = node.disks.iter().zip(&node.own).zip(seen).flat_map(move |((disk, spec), ((seen, errors), damage))| {
        let name = &spec.name;
        let mut problems = Vec::new();
        if disk.sync_failed() {
            let failed = format!(
                "disk {name}: a sync of {disk} failed, so what was written may be lost, and no flush succeeds"
            );
            let remedy = "check the disk, then restart this daemon";
            problems.push(Problem::failing(Harm::Lost, failed, remedy));
        }
        if disk.managed().is_none() {
            let written = (!spec.read_only).then(|| disk.size());
            problems.extend(file(name, disk.name(), seen, written));
        }
        problems.extend(errors.recent(node.now()).map(|recent| {
            let failed = format!("disk {name}: {}", recent.text);
            let remedies: Vec<String> = recent.kinds.iter().map(|kind| remedy(*kind, disk, name)).collect();
            Problem::failing(Harm::Failing, failed, &remedies.join("; "))
        }));
        let damaged = damage.describe().map(|damaged| format!("volume {name}: {damaged}"));
        let remedy = format!(
            "write them anew from a backup, as a whole, and see to the device; `cards volume scrub {name}` lists all that are damaged, and \
             says so if none are any more"
        );
        problems.extend(damaged.map(|damaged| Problem::failing(Harm::Failing, damaged, &remedy)));
        problems
    });
    managed.chain(of_volumes)
}

/// What to do about failures of a disk of this node.
fn remedy(kind: Kind, disk: &Disk, name: &str) -> String {
    match (kind, disk.managed()) {
        (Kind::NoSpace, Some(managed)) => format!("make room in the file system of {}", managed.path()),
        (Kind::NoSpace, None) => format!("make room in the file system of {}", disk.name()),
        (Kind::Changed, _) => {
            "if the old one is not to come back, start this daemon anew to serve the new one".into()
        }
        (Kind::Shrank, Some(_)) => remedy_of_copy(Kind::Shrank).into(),
        (Kind::Shrank, None) => {
            format!("give it its size again (truncate -s {} {disk}) and restore the contents", disk.size())
        }
        (Kind::Damaged, _) => {
            format!(
                "see the kernel's log (dmesg); `cards volume scrub {name}` lists all of it that is damaged"
            )
        }
        (Kind::Other, _) if disk.is_remote() => format!("see the server of {disk} and the network to it"),
        (Kind::Other, _) => "see the kernel's log (dmesg) and the disk".into(),
    }
}

/// What was done to the file or device of a disk, and that there is no room for what may be `written`.
fn file(name: &str, path: &str, seen: &Seen, written: Option<u64>) -> Vec<Problem> {
    let altered = seen.altered(name).map(|text| Problem::new(Harm::Lost, text));
    let short = seen.room().filter(|room| written.is_some_and(|size| room.is_short(size)));
    let short = short.map(|room| Problem::new(Harm::Risk, short_of_room(name, path, room)));
    altered.into_iter().chain(short).collect()
}

fn state_dir(node: &Node) -> Option<Problem> {
    // A journal that cannot be written says the same, and what follows from it.
    let full =
        node.state_seen.problem(&node.config.state_dir).filter(|_| node.changes.problem().is_none())?;
    Some(Problem::new(Harm::Risk, full))
}

/// Requests of clients here that failed at another node's disk. Of a disk of this node its own failures are told.
fn requests(node: &Node, card: &Card) -> Option<Problem> {
    if card.parts()?.is_shared() {
        let volume = &card.attach.volume;
        let failed = format!("volume {volume}: {}", card.recent_failures(node)?);
        let remedy = format!("see which of its parts has no primary: `cards volume show {volume}`");
        return Some(Problem::failing(Harm::Failing, failed, &remedy));
    }
    let disk_node = node.primary(card.volume()?)?;
    if disk_node == node.me {
        return None;
    }
    let link = &node.links[usize::from(disk_node.0)];
    // While the disk node is away, that is said first, and they follow from it.
    let is_there = link.is_up() && link.silent_since().is_none();
    let harm = if is_there { Harm::Failing } else { Harm::Away };
    let (volume, disk_node) = (&card.attach.volume, node.name(disk_node));
    let failed = format!("volume {volume}: {}", card.recent_failures(node)?);
    let remedy = match card.refused(node) {
        Some(_) => format!("see why its card is refused: `cards volume show {volume}`"),
        None if is_there => format!("see `cards status` at its disk node {disk_node}"),
        None => format!("bring its disk node {disk_node} back"),
    };
    Some(Problem::failing(harm, failed, &remedy))
}

/// What to say of flushes that failed not long ago.
fn recent_losses(node: &Node) -> impl Iterator<Item = Problem> {
    let now_ms = node.clock.now_and_utc_us().1 / 1_000;
    losses(node).into_iter().filter_map(move |Lost { volume, disk_node, time_ms, reason }| {
        let ago_s = now_ms.saturating_sub(time_ms) / 1_000;
        (ago_s < LOSS_REMEMBERED_S).then(|| {
            let failed = format!(
                "volume {volume}: a flush failed {ago_s} s ago: at its disk node {disk_node}, {reason}"
            );
            Problem::failing(Harm::Lost, failed, "what was written here before may be lost: check the data")
        })
    })
}

/// What to say of peers from which something has not come as it was sent, not long ago.
fn damaged(node: &Node) -> Vec<String> {
    let members = node.members();
    let told = |(peer, member): (NodeId, &crate::node::members::Member)| {
        let damaged = &node.links[usize::from(peer.0)].damaged;
        let recent = damaged.recent(node.now())?.text;
        Some(format!(
            "node {} ({}): of what it sends, {recent}; nothing of it was used: look for errors of the network between \
             (`ip -s link`, `ethtool -S`) and of the memory of both machines (dmesg)",
            member.name, member.address
        ))
    };
    members.live().filter_map(told).collect()
}

/// Volumes of one name: only the first can be attached.
fn same_names(volumes: &[Volume]) -> impl Iterator<Item = String> + '_ {
    let disk_node = |volume: &Volume| volume.disk_node.clone().unwrap_or_default();
    let mut firsts: BTreeMap<&str, &Volume> = BTreeMap::new();
    volumes.iter().filter_map(move |volume| {
        let Entry::Occupied(first) = firsts.entry(&volume.name) else {
            firsts.insert(&volume.name, volume);
            return None;
        };
        Some(format!(
            "volume {}: nodes {} and {} both have a disk of this name, and the first is used; rename one",
            volume.name,
            disk_node(first.get()),
            disk_node(volume)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes that started at the same moment: neither has seen the other's disk in the registry.
    #[test]
    fn of_two_disks_of_one_name_both_nodes_are_named() {
        let volume = |disk_node: &str| Volume {
            striped: None,
            scrub: None,
            name: "disk".into(),
            disk_node: Some(disk_node.into()),
            size: 4096,
            block: 4096,
            policy: None,
            auto: None,
            coherence: None,
            read_only: None,
            state: VolumeState::Ready,
            reason: None,
            attached: None,
            cached_blocks: 0,
            io: cards_admin::Io::default(),
            mirror: None,
        };
        let said: Vec<String> = same_names(&[volume("n0"), volume("n1")]).collect();
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with("volume disk: nodes n0 and n1 both have a disk of this name"),
            "{said:?}"
        );
        assert_eq!(same_names(&[volume("n0")]).count(), 0);
    }
}
