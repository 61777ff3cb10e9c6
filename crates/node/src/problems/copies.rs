//! What is wrong with the copies of volumes: one problem for a volume, however many parts it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cards_admin::{CopyState, Growing};
use cards_array::group::{MapColumn, State};
use cards_config::size;
use cards_coordinator::{ColumnState, GroupColumn};
use cards_core::NodeId;

use super::{Harm, Problem};
use crate::groups::{StandsStill, damage, mirror};
use crate::node::Node;
use crate::node::groups::{FailedCopy, Known};

/// What is wrong with the copies of all volumes.
pub(super) fn of(node: &Node) -> Vec<Problem> {
    let mut volumes: BTreeMap<String, Vec<Arc<Known>>> = BTreeMap::new();
    for known in node.groups.all() {
        volumes.entry(known.record.volume().to_owned()).or_default().push(known);
    }
    let mut problems = Vec::new();
    for (volume, parts) in &volumes {
        let name = |known: &Known| {
            known.map.as_ref().map(|map| map.columns.iter().map(|c| node.name(c.node)).collect())
        };
        problems.extend(failed(node, volume, parts));
        problems.extend(still(node, volume, parts));
        // Nothing is there that others could be filled from.
        let is_led = |known: &&Arc<Known>| node.stands_still(known).is_none();
        let behind = parts.iter().filter(is_led).map(|known| {
            let failed =
                |number| known.map.as_ref().is_some_and(|map| node.is_given_up(&known.record, map, number));
            let image = |number| node.put_back(&known.record, known.map.as_ref()?, number);
            let mut behind = behind(known, name(known).unwrap_or_default(), failed, image);
            behind.awaits = awaits(node, known);
            behind
        });
        problems.extend(
            out_of_sync(volume, &behind.collect::<Vec<_>>()).map(|text| Problem::new(Harm::Risk, text)),
        );
        let steps: Vec<Vec<String>> = parts.iter().map(|known| steps(node, known)).collect();
        problems.extend(changing(volume, &steps).map(|text| Problem::new(Harm::Note, text)));
        problems.extend(parts.iter().filter_map(|known| lost_at_all_copies(node, known)));
        let growing = growing(node, volume, parts);
        problems.extend(growing.map(|growing| Problem::new(Harm::Note, grows(volume, &growing))));
    }
    problems
}

/// Volumes of which no copy is served, for that of this node is given up, or the group stands still.
pub(super) fn lost(node: &Node) -> BTreeSet<String> {
    let all = node.groups.all().into_iter();
    all.filter(|known| node.lost_lead(known.record.pg()).is_some() || node.stands_still(known).is_some())
        .map(|known| known.record.volume().to_owned())
        .collect()
}

/// Copies of a volume at this node that are given up because their disks have failed: one problem for a disk.
fn failed(node: &Node, volume: &str, parts: &[Arc<Known>]) -> Vec<Problem> {
    let mut copies: BTreeMap<FailedCopy, (usize, usize)> = BTreeMap::new();
    for known in parts {
        let of = known.record.pg();
        if let Some(failed) = node.groups.failed_copy(of) {
            let (all, lost) = copies.entry(failed).or_default();
            *all += 1;
            *lost += usize::from(node.lost_lead(of).is_some());
        }
    }
    let own = node.name(node.me);
    let told = |(failed, (all, lost)): (FailedCopy, (usize, usize))| {
        let of = if parts.len() == 1 { String::new() } else { format!(" of {all} of {} parts", parts.len()) };
        let harm = if lost == 0 { Harm::Risk } else { Harm::Failing };
        let follows = match (lost, parts.len()) {
            (0, _) => String::new(),
            (_, 1) => ", and no other one has taken its place: requests wait, then fail".to_owned(),
            _ => {
                format!(", and of {lost} no other one has taken its place: requests to them wait, then fail")
            }
        };
        let copy = failed.described(&own);
        Problem::failing(harm, format!("volume {volume}:{of} {copy}{follows}"), node.remedy(&failed))
    };
    copies.into_iter().map(told).collect()
}

/// Groups of a volume that nobody serves: one problem.
fn still(node: &Node, volume: &str, parts: &[Arc<Known>]) -> Option<Problem> {
    let still: Vec<StandsStill> = parts.iter().filter_map(|known| node.stands_still(known)).collect();
    let first = still.first()?;
    let of = match parts.len() {
        1 => String::new(),
        all => format!(
            " {} of {all} parts are not served (`cards volume show {volume}` names them all); the first:",
            still.len()
        ),
    };
    let failed = format!("volume {volume}:{of} {}: requests wait, then fail", first.described());
    Some(Problem::failing(Harm::Failing, failed, first.remedy()))
}

/// The copies of a group that are not in sync, and how many are.
#[derive(Debug, Default)]
struct Behind {
    all: usize,
    in_sync: usize,
    copies: Vec<String>,
    /// One of them is not being filled yet.
    is_left: bool,
    awaits: Option<Awaits>,
}

/// Copies in sync that are all at nodes which do not answer, while another one does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Awaits {
    /// What a person would force, and from which node.
    part: String,
    from: String,
    /// Where the copies in sync are.
    places: Vec<String>,
}

/// What a group waits for, if all nodes with its copies in sync are away.
fn awaits(node: &Node, known: &Known) -> Option<Awaits> {
    let map = known.ready()?;
    let is_up = |of: NodeId| {
        let link = &node.links[usize::from(of.0)];
        of == node.me || (link.is_up() && link.silent_since().is_none())
    };
    let columns =
        || map.columns.iter().zip(&known.record.columns).filter(|(column, _)| column.state != State::None);
    let is_in_sync = |column: &MapColumn| column.state == State::Sync;
    if columns().any(|(column, _)| is_in_sync(column) && is_up(column.node)) {
        return None;
    }
    let (from, _) = columns().find(|(column, _)| !is_in_sync(column) && is_up(column.node))?;
    let places = columns().filter(|(column, _)| is_in_sync(column)).map(|(_, told)| told.place()).collect();
    Some(Awaits { part: known.record.name.clone(), from: node.name(from.node), places })
}

/// The copies of a group that are not in sync: the next failure may be one too many. `names`: of the nodes of its columns;
/// `failed`: whether that of a column has given it up; `image`: of which epoch the disk of a column is an image.
fn behind(
    known: &Known,
    names: Vec<String>,
    failed: impl Fn(u8) -> bool,
    image: impl Fn(u8) -> Option<u64>,
) -> Behind {
    let Some(map) = known.ready() else { return Behind::default() };
    let is_whole = |number: u8, column: &MapColumn| {
        column.state == State::Sync && !failed(number) && image(number).is_none()
    };
    let columns: Vec<_> = (0..).zip(map.columns.iter().zip(&known.record.columns).zip(&names)).collect();
    let whole: BTreeSet<u8> = columns
        .iter()
        .filter(|(number, ((column, _), _))| is_whole(*number, column))
        .map(|(number, _)| *number)
        .collect();
    // One that leaves does so when another is in sync in its place: of both that is told.
    let stays = |column: &MapColumn, told: &GroupColumn| {
        let is_stand_in = told.replaces.is_some_and(|of| whole.contains(&of));
        column.state != State::None && told.state != ColumnState::Leaving && !is_stand_in
    };
    let mut behind = Behind { all: known.record.copies(), ..Behind::default() };
    behind.in_sync = whole.len().min(behind.all);
    for (number, ((column, told), node)) in columns {
        if !stays(column, told) || whole.contains(&number) {
            continue;
        }
        let state = match column.state {
            State::Sync if failed(number) => "given up",
            State::Sync => "an earlier image, to which its disk was put back",
            State::Stale { .. } => "stale",
            State::Fill { .. } => "being filled",
            State::None => "without a disk",
        };
        behind.is_left |= !matches!(column.state, State::Fill { .. });
        behind.copies.push(format!("that at node {node} (disk {}) is {state}", told.disk_name));
    }
    behind
}

/// What to do about copies that are not in sync; nothing while they are being filled.
fn remedy(parts: &[Behind]) -> String {
    let awaited: Vec<&Awaits> = parts.iter().filter_map(|part| part.awaits.as_ref()).collect();
    match awaited.as_slice() {
        [first, ..] => {
            let (of, those) = match parts.len() {
                1 => (String::new(), "the copy".to_owned()),
                _ => {
                    (format!(" of {}", counted_parts(awaited.len())), format!("the copies of {}", first.part))
                }
            };
            format!(
                "; every copy in sync{of} is away, and no other one has everything: bring back {}. If it is gone for good, `cards volume force {} --from {}` \
                 says what is lost when {those} there {} the truth",
                first.places.join(" or "),
                first.part,
                first.from,
                if parts.len() == 1 { "becomes" } else { "become" },
            )
        }
        [] if parts.iter().any(|part| part.is_left) => {
            "; it is filled by itself once its primary reaches its node and the disk is there; after an \
             error of the disk, which the log of that node names, once its daemon was started again"
                .into()
        }
        [] => "; that goes on by itself".into(),
    }
}

fn counted_parts(count: usize) -> String {
    match count {
        1 => "1 part".into(),
        count => format!("{count} parts"),
    }
}

/// The copies of a volume that are not in sync, for people; of several parts, how many are concerned.
fn out_of_sync(volume: &str, parts: &[Behind]) -> Option<String> {
    let amiss = parts.iter().filter(|part| !part.copies.is_empty()).count();
    let remedy = remedy(parts);
    match parts {
        _ if amiss == 0 => None,
        [part] => Some(format!(
            "volume {volume}: {} of {} copies are in sync: {}{remedy}",
            part.in_sync,
            part.all,
            part.copies.join(", ")
        )),
        parts => {
            let copies = counted(parts.iter().flat_map(|part| &part.copies));
            let whole = parts.len() - amiss;
            Some(format!(
                "volume {volume}: {whole} of {} parts have all copies in sync: {}{remedy}",
                parts.len(),
                copies.join(", ")
            ))
        }
    }
}

/// Copies of a group that leave it, and how far those are that take their place.
fn steps(node: &Node, known: &Known) -> Vec<String> {
    if known.ready().is_none() {
        return Vec::new();
    }
    let mirror = mirror(node, &known.record, known.map.as_ref());
    let steps = mirror.leaving().map(|copy| {
        let by = copy.replaced_by.as_deref().unwrap_or_default();
        let state = mirror.copies.iter().find(|copy| format!("{}:{}", copy.node, copy.disk) == by);
        match (copy.state, state) {
            (CopyState::Removing, _) => {
                format!("that on {}:{} has left, and its node has it on its disk still", copy.node, copy.disk)
            }
            (_, Some(new)) => {
                format!(
                    "that on {}:{} is being replaced by {by}, which is {}",
                    copy.node, copy.disk, new.state
                )
            }
            _ => format!("that on {}:{} leaves", copy.node, copy.disk),
        }
    });
    steps.collect()
}

/// The same of a volume, for people.
fn changing(volume: &str, parts: &[Vec<String>]) -> Option<String> {
    let steps = match parts {
        [steps] => steps.clone(),
        parts => counted(parts.iter().flatten()),
    };
    (!steps.is_empty()).then(|| {
        format!(
            "volume {volume}: its copies change: {}; this goes on by itself: see `cards volume show {volume}`",
            steps.join("; ")
        )
    })
}

/// The size that a volume is to have, and the nodes that this waits for; none if it does not grow.
fn growing(node: &Node, volume: &str, parts: &[Arc<Known>]) -> Option<Growing> {
    let each = parts.iter().filter_map(|known| mirror(node, &known.record, known.map.as_ref()).grows);
    let each: Vec<Growing> = each.collect();
    let to = match node.groups.striped(volume) {
        Some(striped) => striped.grows_to?,
        None => each.first()?.to,
    };
    let waits_for: BTreeSet<String> = each.into_iter().flat_map(|growing| growing.waits_for).collect();
    Some(Growing { to, waits_for: waits_for.into_iter().collect() })
}

/// The same, for people.
fn grows(volume: &str, Growing { to, waits_for }: &Growing) -> String {
    let waits = match waits_for.as_slice() {
        [] => "until then it has its old size".to_owned(),
        nodes => {
            let (have, those) = match nodes {
                [_] => ("has done its part", "it if it is down"),
                _ => ("have done their part", "those that are down"),
            };
            format!(
                "it has its old size until {} {have}; start {those}, `cards status` there says what is wrong; if one does not come back, `cards volume \
                 resize {volume} --cancel` keeps the old size",
                nodes.join(", ")
            )
        }
    };
    format!("volume {volume}: it grows to {} ({to} bytes); {waits}", size::human(*to))
}

/// Each once, with the number of parts that it is true of.
fn counted<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    let counted = counts.into_iter().map(|(text, count)| match count {
        1 => format!("in 1 part {text}"),
        count => format!("in {count} parts {text}"),
    });
    counted.collect()
}

/// Data of a group that fit their checksums at none of its copies in sync.
fn lost_at_all_copies(node: &Node, known: &Known) -> Option<Problem> {
    let remedy = format!(
        "write them anew from a backup, as a whole, and see to the devices; `cards volume scrub {}` lists all that are damaged, and says so \
         if none are any more",
        known.record.volume()
    );
    Some(Problem::failing(Harm::Failing, damage::describe(node, known)?, &remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(copies: &[&str]) -> Behind {
        let is_left = copies.iter().any(|copy| copy.ends_with("is stale"));
        let copies: Vec<String> = copies.iter().map(ToString::to_string).collect();
        Behind { all: 2, in_sync: 2 - copies.len(), copies, is_left, awaits: None }
    }

    #[test]
    fn a_volume_with_many_parts_is_one_problem() {
        let stale = "that at node n2 (disk fast) is stale";
        let filled = "that at node n2 (disk fast) is being filled";
        let growing = Growing { to: 8 << 20, waits_for: vec!["n3".into()] };
        let told = grows("data", &growing);
        assert!(
            told.starts_with(
                "volume data: it grows to 8 MiB (8388608 bytes); it has its old size until n3 has done its part; start it if it is down"
            ),
            "{told}"
        );
        assert_eq!(out_of_sync("data", &[part(&[])]), None);
        let one = out_of_sync("data", &[part(&[stale])]).unwrap();
        assert!(
            one.starts_with(&format!(
                "volume data: 1 of 2 copies are in sync: {stale}; it is filled by itself once its primary"
            )),
            "{one}"
        );
        assert_eq!(
            out_of_sync("data", &[part(&[filled])]).unwrap(),
            format!("volume data: 1 of 2 copies are in sync: {filled}; that goes on by itself")
        );
        let awaits = Awaits { part: "data".into(), from: "n2".into(), places: vec!["n1:fast".into()] };
        let last = Behind { awaits: Some(awaits), ..part(&[stale]) };
        let last = out_of_sync("data", &[last]).unwrap();
        assert!(
            last.contains(
                "bring back n1:fast. If it is gone for good, `cards volume force data --from n2` says"
            ),
            "{last}"
        );
        let mut parts: Vec<Behind> =
            (0..64).map(|number| part(&[stale][usize::from(number >= 40)..])).collect();
        parts.push(part(&[filled]));
        let many = out_of_sync("big", &parts).unwrap();
        let counts =
            format!("24 of 65 parts have all copies in sync: in 1 part {filled}, in 40 parts {stale}; ");
        assert!(many.starts_with(&format!("volume big: {counts}")), "{many}");
        let leaves = || vec!["that on n1:fast leaves".to_owned()];
        assert_eq!(
            changing("big", &[leaves(), leaves()]).unwrap(),
            "volume big: its copies change: in 2 parts that on n1:fast leaves; this goes on by itself: see `cards volume show big`"
        );
    }
}
