//! A block for people.

use cards_admin::{Block, ByteRange, Course, Holder, NodeBlock, Why};
use cards_config::size;

use crate::table::{Align, Table};

/// The sentence, where the block is, and what each node knows.
pub(super) fn render(why: &Why) -> String {
    let mut text = format!(
        "{}\n\n  block {} of volume {} ({} at {} bytes), shard {}, region {}; policy {}; home {}, disk at {}\n\n{}",
        why.sentence,
        why.block,
        why.volume,
        size::human(u64::from(why.block_bytes)),
        why.block_offset,
        why.shard,
        why.region,
        why.policy,
        why.home,
        why.disk_node,
        nodes(why)
    );
    let locks = locks(why);
    if !locks.is_empty() {
        text += &format!("\n  locks, as {} knows:\n{locks}", why.disk_node);
    }
    text
}

fn nodes(why: &Why) -> Table {
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("copy", Align::Left),
        ("a read there", Align::Left),
        ("card", Align::Left),
        ("previous", Align::Left),
        ("next", Align::Left),
        ("believes at", Align::Left),
    ]);
    for NodeBlock { node, block, error } in &why.nodes {
        let dash = || "-".to_owned();
        match block {
            Some(block) => table.row([
                node.clone(),
                copy(block),
                course(block),
                card(block),
                block.previous.clone().unwrap_or_else(dash),
                block.next.clone().unwrap_or_else(dash),
                believed(block),
            ]),
            None => {
                let why = error.clone().unwrap_or_default();
                table.row([node.clone(), why, dash(), dash(), dash(), dash(), dash()]);
            }
        }
    }
    table
}

/// Whether a copy is there, and what is special about it.
fn copy(block: &Block) -> String {
    let mut marks = Vec::new();
    if block.cached {
        marks.push("in memory".to_owned());
    }
    for (is, mark) in [
        (block.hosted, "for another node"),
        (block.ahead, "read ahead"),
        (block.locked, "locked by a write"),
        (block.being_written, "being written"),
    ] {
        if is {
            marks.push(mark.to_owned());
        }
    }
    marks.extend(block.leaving_to.iter().map(|to| format!("leaving to {to}")));
    marks.extend(block.under_way.iter().map(|waits| format!("under way, waits for {waits}")));
    if marks.is_empty() { "-".to_owned() } else { marks.join(", ") }
}

fn course(block: &Block) -> String {
    let course = match &block.course {
        // It has no card: no client reads there.
        _ if block.card.is_none() => return "-".to_owned(),
        Course::Served => "hit".to_owned(),
        Course::Joins => "waits for the fetch".to_owned(),
        Course::WaitsForCard => "waits for the card".to_owned(),
        Course::WaitsForWrite => "waits for the write".to_owned(),
        Course::WaitsForLock => "waits for the lock".to_owned(),
        Course::Disk => "disk".to_owned(),
        Course::Asks { to, from_disk: false } => format!("asks {to}"),
        Course::Asks { to, from_disk: true } => format!("asks {to}, else disk"),
        Course::Fails => "fails".to_owned(),
    };
    match block.asks_lock {
        true => format!("lock, {course}"),
        false => course,
    }
}

fn card(block: &Block) -> String {
    let Some(lease) = block.card else { return "-".to_owned() };
    let term = match lease.lease_ms {
        None => "no lease needed".to_owned(),
        Some(0) => "lease ended".to_owned(),
        Some(ms) => format!("lease {ms} ms"),
    };
    format!("{}, {term}", lease.generation)
}

/// The first of those who are believed to have copies; a directory may know hundreds.
fn believed(block: &Block) -> String {
    match block.believed_holders.as_slice() {
        [] => "-".to_owned(),
        few @ ([_] | [_, _] | [_, _, _]) => few.join(" "),
        [first, second, rest @ ..] => format!("{first} {second} and {} more", rest.len()),
    }
}

/// The cards at the disk node, one a line.
fn locks(why: &Why) -> String {
    let disk_node = why.nodes.iter().find(|node| node.node == why.disk_node);
    let block = disk_node.and_then(|node| node.block.as_ref());
    let holders = block.map_or(&[][..], |block| &block.holders);
    let mut text: String = holders.iter().map(|holder| format!("    {}\n", lock(holder))).collect();
    if let Some(writer) = block.and_then(|block| block.last_writer.as_ref()) {
        text += &format!("    {writer} has written the block last and is likely to have it\n");
    }
    text
}

fn lock(holder: &Holder) -> String {
    let Holder { node, generation, reads_only, lost, held } = holder;
    let access = if *reads_only { "may read" } else { "may read and write" };
    let lock = match held {
        None => "holds no lock here: not asked before another node writes".to_owned(),
        Some(range) => {
            format!("may hold the lock on {}: asked before another node writes there", bytes(*range))
        }
    };
    let lost = if *lost { "; cannot be asked, a write waits for the end of its lease" } else { "" };
    format!("{node}: card {generation}, {access}, {lock}{lost}")
}

fn bytes(range: ByteRange) -> String {
    format!("{} to {}", size::human(range.start), size::human(range.end))
}

#[cfg(test)]
mod tests {
    use cards_admin::Lease;

    use super::*;

    fn block() -> Block {
        Block {
            home: "n2".into(),
            cached: true,
            locked: false,
            hosted: true,
            ahead: false,
            leaving_to: None,
            under_way: None,
            being_written: false,
            previous: Some("n1".into()),
            next: Some("n3".into()),
            believed_holders: (1..=9).map(|i| format!("n{i}")).collect(),
            card: Some(Lease { generation: 7, lease_ms: Some(2900) }),
            held: None,
            asks_lock: false,
            course: Course::Served,
            holders: vec![],
            last_writer: None,
        }
    }

    #[test]
    fn the_sentence_comes_first_and_every_node_has_a_line() {
        let held = Some(ByteRange { start: 0, end: 64 << 20 });
        let holder = Holder { node: "n3".into(), generation: 8, reads_only: true, lost: false, held };
        let mut disk_node = block();
        disk_node.holders = vec![holder];
        disk_node.last_writer = Some("n2".into());
        let asks = Course::Asks { to: "n1".into(), from_disk: true };
        let asking = Block { cached: false, hosted: false, asks_lock: true, course: asks, ..block() };
        let node = |name: &str, block| NodeBlock { node: name.into(), block, error: None };
        let mut gone = node("n4", None);
        gone.error = Some("node n4 is not connected".into());
        let why = Why {
            node: "n2".into(),
            volume: "data".into(),
            policy: "hscc depth=2".into(),
            disk_node: "n1".into(),
            offset: 4097,
            block: 1,
            block_offset: 4096,
            block_bytes: 4096,
            shard: 0,
            region: 0,
            home: "n2".into(),
            sentence: "A read would be a local hit.".into(),
            way: vec![],
            nodes: vec![node("n1", Some(disk_node)), node("n2", Some(asking)), gone],
        };
        let text = render(&why);
        assert!(
            text.starts_with("A read would be a local hit.\n\n  block 1 of volume data (4 KiB"),
            "{text}"
        );
        for part in [
            "in memory, for another node",
            "7, lease 2900 ms",
            "n1 n2 and 7 more",
            "lock, asks n1, else disk",
            "node n4 is not connected",
            "n3: card 8, may read, may hold the lock on 0 B to 64 MiB: asked before another node writes there",
            "n2 has written the block last",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
