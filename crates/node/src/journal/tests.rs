//! What a disk node remembers of a disk, over restarts and damage.

use cards_core::{Access, Generation};

use super::entry::parse;
use super::*;

const OF: Of<'_> = Of { cluster: "lab", node: "n1", name: "disk", disk: "/disk.img", bytes: 1 << 20 };

fn open(dir: &Path, boot: &str) -> Journal {
    Journal::open_in(dir, OF, boot.into(), true).unwrap()
}

pub(crate) fn seal(journal: &mut Journal, marks: &[Marks]) -> io::Result<()> {
    let medium = journal.look()().unwrap();
    journal.seal(medium.as_ref(), 4096, marks)
}

fn life(journal: &Journal) -> u64 {
    journal.entry.persistence
}

#[test]
fn a_disk_that_has_shrunk_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), "a"));
    let shorter = Of { bytes: OF.bytes - 1, ..OF };
    let refused = Journal::open_in(dir.path(), shorter, "a".into(), false).unwrap_err();
    assert!(matches!(refused, OpenError::Shrank { before, .. } if before == OF.bytes), "{refused}");
    // One that has grown is, and is to stay so.
    let longer = Of { bytes: OF.bytes + 1, ..OF };
    drop(Journal::open_in(dir.path(), longer, "a".into(), false).unwrap());
    Journal::open_in(dir.path(), OF, "a".into(), false).unwrap_err();
}

#[test]
fn another_file_that_is_blank_or_larger_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.img");
    let of = |bytes| Of { disk: disk.to_str().unwrap(), bytes, ..OF };
    let open = |bytes| Journal::open_in(dir.path(), of(bytes), "a".into(), false);
    let make = |data: usize, bytes: u64| {
        let new = dir.path().join("new.img");
        std::fs::write(&new, vec![1; data]).unwrap();
        File::options().write(true).open(&new).unwrap().set_len(bytes).unwrap();
        std::fs::rename(&new, &disk).unwrap();
    };
    let refused = |bytes| match open(bytes).map(drop).unwrap_err() {
        OpenError::Replaced { how, .. } => how,
        other => panic!("{other}"),
    };
    make(4096, OF.bytes);
    drop(open(OF.bytes).unwrap());
    // Clients may discard all of it.
    File::options().write(true).open(&disk).unwrap().set_len(0).unwrap();
    File::options().write(true).open(&disk).unwrap().set_len(OF.bytes).unwrap();
    drop(open(OF.bytes).unwrap());
    make(0, OF.bytes);
    assert_eq!(refused(OF.bytes), Other::Blank);
    make(4096, 2 * OF.bytes);
    assert_eq!(refused(2 * OF.bytes), Other::Larger { now: 2 * OF.bytes, before: OF.bytes });
    // What looks only finds the same, and changes nothing.
    Journal::check(dir.path(), of(2 * OF.bytes)).unwrap_err();
    make(4096, OF.bytes);
    Journal::check(dir.path(), of(OF.bytes)).unwrap();
    drop(open(OF.bytes).expect("a backup in its place"));
    make(0, OF.bytes);
    std::fs::remove_file(journal_path(dir.path(), OF.cluster, OF.node, OF.name)).unwrap();
    drop(open(OF.bytes).expect("as the message says"));
}

#[test]
fn a_killed_process_loses_nothing_and_a_machine_without_power_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = open(dir.path(), "a");
    assert!(first.entry.held, "nothing is known of cards that came before");
    first.release().unwrap();
    let killed = open(dir.path(), "a");
    assert_eq!((life(&killed), killed.entry.held), (life(&first), false));
    let rebooted = open(dir.path(), "b");
    assert_eq!((life(&rebooted), rebooted.entry.why), (life(&first) + 1, Why::PowerLost));
    let again = open(dir.path(), "b");
    assert_eq!((life(&again), again.entry.held), (life(&rebooted), true), "still held, killed once more");
}

#[test]
fn of_a_sealed_disk_another_boot_is_no_loss() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = open(dir.path(), "a");
    seal(&mut first, &[]).unwrap();
    let mut second = open(dir.path(), "b");
    assert_eq!((life(&second), second.is_sealed()), (life(&first), true));
    let third = open(dir.path(), "c");
    assert_eq!(life(&third), life(&first), "it was not written");
    second.unseal().unwrap();
    assert_eq!(life(&open(dir.path(), "d")), life(&first) + 1, "in use again");
}

#[test]
fn marks_are_read_until_the_disk_is_unsealed_or_somebody_else_writes_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.img");
    std::fs::write(&disk, [0; 4096]).unwrap();
    let of = Of { disk: disk.to_str().unwrap(), ..OF };
    let open = |boot: &str| Journal::open_in(dir.path(), of, boot.into(), true).unwrap();
    let marks = [Marks::default()];
    let mut first = open("a");
    assert_eq!((first.take_marks(4096, 1), first.is_sealed()), (None, false));
    seal(&mut first, &marks).unwrap();
    for boot in ["a", "a", "b"] {
        let mut killed = open(boot);
        assert_eq!((killed.take_marks(4096, 1), killed.is_sealed()), (Some(marks.to_vec()), true));
    }
    let mut other = open("b");
    assert_eq!((other.take_marks(4096, 2), other.is_sealed()), (None, false), "of other shards");
    seal(&mut other, &marks).unwrap();
    std::fs::write(&disk, [1; 4096]).unwrap();
    let mut written = open("b");
    assert_eq!((written.take_marks(4096, 1), written.is_sealed()), (None, false));
    assert_eq!(open("c").entry.persistence, life(&first) + 1, "what others have written is not synced");
}

#[test]
fn what_cannot_be_sealed_is_unsealed_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    let marks = marks_of(&journal.path);
    std::fs::create_dir(&marks).unwrap();
    assert!(seal(&mut journal, &[]).is_err() && journal.is_sealed());
    assert!(journal.unseal().is_err() && journal.is_sealed());
    std::fs::remove_dir(&marks).unwrap();
    journal.unseal().unwrap();
    assert!(!journal.is_sealed());
}

#[test]
fn a_failed_sync_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    let before = life(&journal);
    journal.release().unwrap();
    seal(&mut journal, &[]).unwrap();
    journal.sync_failed().unwrap();
    let mut after = open(dir.path(), "a");
    assert_eq!((life(&after), after.entry.why), (before + 1, Why::SyncFailed));
    assert!(!after.entry.held, "the page cache still has what was written");
    assert_eq!(after.take_marks(4096, 0), None, "a seal is of one life");
    assert!(!after.is_sealed() && !after.may_be_synced());
    let rebooted = open(dir.path(), "b");
    assert_eq!((life(&rebooted), rebooted.may_be_synced()), (before + 2, true));
}

#[test]
fn a_journal_that_is_lost_damaged_or_of_another_disk_is_a_new_life() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    // As if it had been made long ago.
    journal.entry.persistence = 1000;
    journal.store().unwrap();
    let path = dir.path().join("disk@n1@lab.journal");
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(life(&open(dir.path(), "a")), 1000);
    let lives_anew = |what: &str| {
        let journal = open(dir.path(), "a");
        assert!(life(&journal) > 1000 && journal.entry.held, "{what}");
    };
    for at in 0..whole.len() {
        std::fs::write(&path, &whole[..at]).unwrap();
        lives_anew("cut short");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        lives_anew("damaged");
    }
    std::fs::remove_file(&path).unwrap();
    lives_anew("lost");
    std::fs::write(&path, &whole).unwrap();
    let other = Journal::open_in(dir.path(), Of { disk: "/other.img", ..OF }, "a".into(), true).unwrap();
    assert!(life(&other) > 1000);
}

fn name(node: NodeId) -> String {
    format!("n{}", node.0)
}

/// Notes of five nodes.
fn notes() -> Vec<(u64, CardNote)> {
    let card = |node: u16| (NodeId(node), Generation(5 << 20 | u64::from(node)));
    let (one, two, three) = (card(1), card(2), card(3));
    let notes = [
        CardNote::Attached(one.0, one.1, Access::Write),
        CardNote::Attached(two.0, two.1, Access::Write),
        CardNote::Dropped(one.0, one.1),
        CardNote::Dropped(two.0, two.1),
        CardNote::Attached(three.0, three.1, Access::Exclusive),
        CardNote::Released,
        CardNote::Attached(three.0, three.1, Access::Read),
    ];
    notes.into_iter().map(|note| (5, note)).collect()
}

/// What the core has after each of them.
fn states() -> Vec<CardJournal> {
    let mut cards = CardJournal::default();
    let after = notes().into_iter().map(|(since, note)| {
        cards.apply(since, note);
        cards.clone()
    });
    [CardJournal::default()].into_iter().chain(after.collect::<Vec<_>>()).collect()
}

#[test]
fn cards_are_kept_as_long_as_numbers_stand_for_the_same_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    notes()[..5].chunks(2).for_each(|notes| journal.keep(notes, name).unwrap());
    assert_ne!(journal.lengths.unwrap().1, 0, "they were appended");
    for _ in 0..2 {
        let after = open(dir.path(), "b");
        assert_eq!(after.cards(|node| Some(name(node))), states()[5]);
        assert_eq!(after.cards(|node| (node.0 < 3).then(|| name(node))), CardJournal::default());
        assert_eq!(after.cards(|_| Some("n1".into())), CardJournal::default());
    }
    journal.keep(&[(7, CardNote::Dropped(NodeId(9), Generation(1)))], name).unwrap();
    let anew = open(dir.path(), "b").cards(|node| (node.0 == 9).then(|| name(node)));
    assert_eq!((anew.since, anew.dropped.len()), (7, 1), "the nodes of another journal are not asked for");
}

/// A machine that dies while changes are appended: those that were durable are there, of the others none or the first.
#[test]
fn the_end_of_the_last_line_may_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    let path = journal.path.clone();
    let mut lengths = vec![std::fs::metadata(&path).unwrap().len() as usize];
    for note in notes() {
        journal.keep(&[note], name).unwrap();
        lengths.push(std::fs::metadata(&path).unwrap().len() as usize);
    }
    let whole = std::fs::read(&path).unwrap();
    for end in lengths[0]..=whole.len() {
        let durable = lengths.iter().rposition(|&length| length <= end).unwrap();
        for zeroes in [0, 1, 4096] {
            let mut torn = whole[..end].to_vec();
            torn.resize(end + zeroes, 0);
            let (entry, cards, _) = parse(&torn).unwrap();
            assert_eq!((entry.persistence, &cards), (life(&journal), &states()[durable]), "{end} bytes");
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    journal.keep(&notes(), name).unwrap();
    let whole = std::fs::read(&journal.path).unwrap();
    assert_eq!(parse(&whole).unwrap().1, states()[7]);
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(parse(&damaged), None, "bit {bit}");
    }
}

/// A thousand nodes come back, again and again: each change costs what it is long, and the file stays small.
#[test]
fn many_changes_cost_little_and_leave_little() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    let (mut last, mut wholes, mut most, mut written) = (0, 0, 0, 0);
    for round in 0..20 {
        for first in (0..1000).step_by(20) {
            let cards =
                (first..first + 20).map(|node| (NodeId(node), Generation(round << 20 | u64::from(node))));
            let notes = cards.flat_map(|(node, card)| {
                [CardNote::Dropped(node, card), CardNote::Attached(node, card, Access::Write)]
            });
            journal.keep(&notes.map(|note| (5, note)).collect::<Vec<_>>(), name).unwrap();
            let (whole, appended) = journal.lengths.unwrap();
            wholes += usize::from(appended == 0);
            written += if appended == 0 { whole } else { appended - last };
            (last, most) = (appended, most.max(whole + appended));
        }
    }
    assert!(wholes < 60 && most < 256 << 10, "written as a whole {wholes} times, {most} bytes at most");
    assert!(written < 20_000 * 2 * 250, "{} bytes a change", written / 40_000);
    let after = open(dir.path(), "a");
    assert_eq!(after.cards, journal.cards);
}

/// Whatever an append that fails has left, the next one is not behind it.
#[test]
fn after_a_failure_the_file_is_written_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = open(dir.path(), "a");
    let path = std::mem::replace(&mut journal.path, dir.path().join("gone/x.journal"));
    journal.keep(&notes()[..2], name).unwrap_err();
    journal.path = path;
    let mut file = File::options().append(true).open(&journal.path).unwrap();
    file.write_all(b"0123").unwrap();
    journal.keep(&notes()[1..3], name).unwrap();
    assert_eq!(open(dir.path(), "a").cards, states()[3]);
}

/// What the version before wrote.
#[test]
fn the_version_before_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk@n1@lab.journal");
    for (clean, raised) in [("true", 0), ("false", 1)] {
        let line = format!(
            r#"{{"version":1,"disk":"/disk.img","boot":"a","clean":{clean},"persistence":7,"why":"power-lost","held":false,"#
        ) + r#""cards":{"since":5,"dropped":{"1":9},"writers":{},"exclusive":null,"names":{"1":"n1"}},"marks":null}"#;
        std::fs::write(&path, format!("{line}\n{:08x}\n", crc32fast::hash(line.as_bytes()))).unwrap();
        let after = open(dir.path(), "b");
        assert_eq!((life(&after), after.cards.dropped.len()), (7 + raised, 1), "clean: {clean}");
        assert_eq!(after.cards.writer, None, "not known");
        assert_eq!(life(&open(dir.path(), "b")), 7 + raised);
    }
}

#[test]
fn a_start_waits_while_there_is_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("disk@n1@lab.new");
    std::os::unix::fs::symlink("/dev/full", &new).unwrap();
    let opened = Journal::open_in(dir.path(), OF, "a".into(), true);
    let Err(OpenError::Io(error)) = opened else { panic!("{opened:?}") };
    assert_eq!((is_full(&error), remedy(&error)), (true, "make room there"));
    let starting = Starting::new(cards_config::Config::new("lab", "n1"));
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| Journal::open(dir.path(), OF, true, &starting));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!opened.is_finished());
        let said = starting.state().to_string();
        assert!(said.contains("room in state_dir") && said.contains("make room there"), "{said}");
        std::fs::remove_file(&new).unwrap();
        opened.join().unwrap().unwrap();
        assert_eq!(starting.state().waits_for, None);
    });
}

#[test]
fn a_directory_that_cannot_be_had_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Journal::open_in(&file, OF, "a".into(), true).is_err());
}
