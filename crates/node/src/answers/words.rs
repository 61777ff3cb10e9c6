//! The way of a read in one sentence.

use cards_admin::{Block, Course, Step, Why};

/// What a read would do, and why.
pub(super) fn sentence(why: &Why, here: &Block) -> String {
    let read = format!("A read of this block at {}", why.node);
    let lock = lock(why, here);
    match why.way.first().and_then(|step| step.course.as_ref()) {
        Some(Course::Served) => format!("{read} would be a local hit."),
        Some(Course::Joins) => {
            let waits = here.under_way.as_deref().unwrap_or("its end");
            format!("{read} would join the fetch that is under way, which waits for {waits}.")
        }
        Some(Course::WaitsForCard) => format!(
            "{read} would wait: the card of {} may use no copies now, because {}.",
            why.node,
            card(why, here)
        ),
        Some(Course::WaitsForWrite) => {
            format!("{read} would wait until the write to it that is under way has ended.")
        }
        Some(Course::WaitsForLock) => {
            format!("{read} would ask {} for the lock on the range around it, and wait.", why.disk_node)
        }
        Some(Course::Disk) => {
            format!("{read} would {lock}go to the disk, which is here: nobody is known to have a copy.")
        }
        Some(Course::Asks { .. }) => {
            let way: Vec<String> = why.way.windows(2).map(|pair| hop(why, here, pair)).collect();
            format!("{read} would {lock}ask {}; {}.", way.join(", which passes it on to "), end(why))
        }
        Some(Course::Fails) | None => format!("{read} would fail; see the log of {}.", why.node),
    }
}

/// What comes first if the card does not hold the lock.
fn lock(why: &Why, here: &Block) -> String {
    match here.asks_lock {
        false => String::new(),
        true => format!("ask {} for the lock on the range around it, and at once ", why.disk_node),
    }
}

/// Why copies may not be used.
fn card(why: &Why, here: &Block) -> String {
    match here.card {
        None => format!("it is being attached, which needs an answer of {}", why.disk_node),
        Some(_) => format!("its lease has ended and {} has not renewed it", why.disk_node),
    }
}

/// A node that is asked, and why it.
fn hop(why: &Why, here: &Block, pair: &[Step]) -> String {
    let [from, to] = pair else { return String::new() };
    let of_from = match from.node == why.node {
        true => Some(here),
        false => why.nodes.iter().find(|node| node.node == from.node).and_then(|node| node.block.as_ref()),
    };
    let is = |name: Option<&String>| name == Some(&to.node);
    let only_disk = matches!(from.course, Some(Course::Asks { from_disk: true, .. }));
    let reason = match of_from {
        Some(block) if only_disk && is(block.last_writer.as_ref()) => "has written it last",
        _ if to.node == why.disk_node && only_disk => "has the disk",
        Some(block) if block.believed_holders.contains(&to.node) => "is believed to have a copy",
        Some(block) if is(block.next.as_ref()) => "has asked for it last",
        Some(block) if is(block.last_writer.as_ref()) => "has written it last",
        _ if to.node == why.disk_node => "has the disk",
        _ if to.node == why.home => "is its home",
        _ => "the policy names",
    };
    match reason {
        "the policy names" => format!("{} (the policy names it)", to.node),
        _ => format!("{} ({reason})", to.node),
    }
}

/// What the last node on the way does.
fn end(why: &Why) -> String {
    let Some(last) = why.way.last() else { return String::new() };
    let name = &last.node;
    let hops = why.way.len();
    match (&last.course, &last.error) {
        (Some(Course::Served), _) => format!("{name} has a copy: a remote hit in {hops} hops"),
        (Some(Course::Joins), _) => format!("{name} is fetching it already, and the read waits for that"),
        (Some(Course::WaitsForCard), _) => format!("{name} waits until its card may be used"),
        (Some(Course::WaitsForWrite), _) => {
            "it waits there until the write that is under way has ended".into()
        }
        (Some(Course::WaitsForLock), _) => format!("{name} waits for the lock on its copy"),
        (Some(Course::Disk), _) => format!("{name} has no copy and reads its disk"),
        (Some(Course::Asks { to, .. }), _) => format!("{name} passes it on to {to}, and so on"),
        (Some(Course::Fails), _) => format!("{name} refuses, as it has no card of {}", why.node),
        (None, Some(error)) => format!("what happens there is not known ({error})"),
        (None, None) => format!("what happens at {name} is not known"),
    }
}
