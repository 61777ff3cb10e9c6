//! The picture against golden text: `golden/*.txt`, as a terminal of that many columns shows it.

use std::time::Duration;

use cards_admin::{
    Cache, Card, Counters, Disk, DiskCounters, DiskEngine, DiskEngineKind, Io, Member, MemberState, Op, OpIo,
    SlowRequest, SlowRequests, Status, Volume, VolumeState, WaitKind, bucket_of,
};
use cards_config::{Coherence, Mode, ReadAhead};
use cards_policies::Replacement;
use crossterm::event::{KeyCode, KeyEvent};

use super::super::screen::{HISTORY, Next, Screen};
use super::{lines, scroll_max};

/// What node `n{number}` of three counted by `second`: `number` times as much as node 1.
fn status(number: u64, second: u64) -> Status {
    let all = number * second;
    let member = |other: u64| Member {
        name: format!("n{other}"),
        address: format!("10.0.0.{other}:7400"),
        state: if other == number { MemberState::Here } else { MemberState::Up },
        reason: None,
        silent_ms: None,
        encryption: None,
        bytes_sent: 0,
        bytes_received: 0,
        checksum_errors: 0,
    };
    let volume = |name: &str, size, cached_blocks| Volume {
        auto: None,
        mirror: None,
        striped: None,
        scrub: None,
        name: name.into(),
        disk_node: Some("n1".into()),
        size,
        block: 1 << 16,
        policy: Some("hscc".parse().unwrap()),
        coherence: Some(Coherence::Confirmed),
        read_only: Some(false),
        state: VolumeState::Ready,
        reason: None,
        io: if name == "data" { io(all) } else { Io::default() },
        attached: Some(Card {
            mode: Mode::Rw,
            read_ahead: ReadAhead::Auto,
            clients: number as u32,
            limit: None,
            device: None,
        }),
        cached_blocks,
    };
    let disk = |name: &str| Disk {
        name: name.into(),
        origin: String::new(),
        managed: None,
        errors: 0,
        damaged: 0,
        room: None,
        counters: DiskCounters {
            reads: 300 * second,
            writes: 5 * second,
            bytes_read: (300 << 16) * second,
            bytes_written: (5 << 16) * second,
        },
    };
    Status {
        cluster: "lab".into(),
        node: format!("n{number}"),
        coordinator: None,
        registry: None,
        epoch: 7,
        version: "0.1.0".into(),
        secure: true,
        in_clear: Vec::new(),
        certificate_ends_s: None,
        uptime_s: 100 + second,
        time_ms: 1_000 * second,
        web: None,
        nbd: None,
        limit: None,
        starting: None,
        healthy: true,
        problems: Vec::new(),
        failing: Vec::new(),
        members: (1..=3).map(member).collect(),
        volumes: vec![volume("data", 1 << 30, 100 * number), volume("images", 5 << 40, 7)],
        cache: Cache {
            bytes: 1 << 30,
            blocks: 1 << 14,
            used: 1 << 29,
            pinned: 0,
            index_bytes: 28,
            replacement: Replacement::S3Fifo,
        },
        disk_engine: DiskEngine { kind: DiskEngineKind::IoUring, reason: "io_uring".into() },
        counters: Counters {
            reads: 1000 * all,
            local_hits: 600 * all,
            remote_hits: 300 * all,
            disk_reads: 100 * all,
            writes: 50 * all,
            bytes_read: (1000 << 16) * all,
            bytes_written: (50 << 16) * all,
            evictions: 40 * all,
            forwarded: 30 * all,
            stored_for_others: 20 * all,
            stored_in_vain: all,
            locks_given_up: 2 * all,
            locks_asked: all,
            lock_waits: all,
            lock_wait_us: 1_500 * all,
            invalidations: 3 * all,
            messages_sent: 2000 * all,
            bytes_sent: (400 << 16) * all,
            ..Counters::default()
        },
        slow: SlowRequests {
            threshold_ms: Some(100),
            count: number - 1,
            last: (1..number).map(|_| slow()).collect(),
            slowest: Vec::new(),
        },
        losses: Vec::new(),
        disks: if number == 1 { vec![disk("data"), disk("images")] } else { Vec::new() },
    }
}

fn slow() -> SlowRequest {
    SlowRequest {
        time_ms: 45_296_000,
        volume: "data".into(),
        op: Op::Read,
        offset: 65_536,
        length: 4_096,
        took_us: 234_567,
        failed: false,
        waited_for: WaitKind::Disk,
        node: Some("n1".into()),
    }
}

/// Ten times `all` reads of 100 us, `all` of 10 ms, `all` writes; all of 64 KiB.
fn io(all: u64) -> Io {
    let op = |op, counts: &[(u64, u64)]| {
        let mut io = OpIo::none(op);
        for (us, count) in counts {
            io.latency.add(bucket_of(us * 1_000), *count);
            (io.bytes, io.total_us) = (io.bytes + (count << 16), io.total_us + us * count);
        }
        io
    };
    let ops = vec![op(Op::Read, &[(100, 10 * all), (10_000, all)]), op(Op::Write, &[(500, all)])];
    Io {
        ops,
        local_hits: 6 * all,
        remote_hits: 3 * all,
        disk_reads: 2 * all,
        lock_waits: all,
        ..Io::default()
    }
}

fn at(second: u64) -> Duration {
    Duration::from_secs(second)
}

/// Nodes 1 and 2 have answered twice; node 3 is not asked.
fn screen() -> Screen {
    let sockets = [1, 2].map(|number| format!("/run/n{number}/admin.sock").into());
    let mut screen = Screen::new(sockets.into(), Duration::from_secs(1));
    for second in [1, 2] {
        screen.heard(0, at(second), Ok(status(1, second)));
        screen.heard(1, at(second), Ok(status(2, second)));
        screen.update();
    }
    screen
}

fn text(screen: &Screen, width: usize, height: usize) -> String {
    let lines = lines(screen, width, height);
    assert_eq!(lines.len(), height);
    for line in &lines {
        assert!(line.width() <= width, "{} columns: {}", line.width(), line.text());
    }
    lines.iter().map(|line| line.text() + "\n").collect()
}

fn press(screen: &mut Screen, codes: &[KeyCode]) {
    for code in codes {
        assert_eq!(press_at(screen, *code, (80, 24)), Next::Stay);
    }
}

/// On a terminal of this size.
fn press_at(screen: &mut Screen, code: KeyCode, size: (usize, usize)) -> Next {
    let scroll_max = scroll_max(screen, size);
    screen.key(KeyEvent::from(code), size.0, scroll_max)
}

#[track_caller]
fn same(found: &str, golden: &str) {
    assert!(found == golden, "expected\n{golden}\nfound\n{found}");
}

#[test]
fn eighty_columns_show_what_matters() {
    same(&text(&screen(), 80, 24), include_str!("golden/80.txt"));
}

#[test]
fn a_hundred_and_twenty_columns_show_more() {
    same(&text(&screen(), 120, 30), include_str!("golden/120.txt"));
}

#[test]
fn two_hundred_columns_show_nearly_all() {
    same(&text(&screen(), 200, 24), include_str!("golden/200.txt"));
}

#[test]
fn a_node_is_zoomed_into() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    same(&text(&screen, 80, 28), include_str!("golden/node.txt"));
    press(&mut screen, &[KeyCode::Esc]);
    same(&text(&screen, 80, 24).replace("> n2", "  n2"), include_str!("golden/80.txt"));
}

#[test]
fn a_zoom_that_is_too_long_is_scrolled_to_its_end() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Enter]);
    assert!(text(&screen, 80, 16).contains("bytes_copied") && !text(&screen, 80, 16).contains("locks_asked"));
    for _ in 0..20 {
        press_at(&mut screen, KeyCode::PageDown, (80, 16));
    }
    assert!(text(&screen, 80, 16).contains("locks_asked"), "{}", text(&screen, 80, 16));
    press_at(&mut screen, KeyCode::Up, (80, 16));
    assert!(!text(&screen, 80, 16).contains("locks_asked"), "{}", text(&screen, 80, 16));
}

#[test]
fn a_volume_is_zoomed_into() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Tab, KeyCode::Enter]);
    same(&text(&screen, 80, 17), include_str!("golden/volume.txt"));
}

#[test]
fn a_daemon_that_is_away_is_said_and_comes_back() {
    let mut screen = screen();
    let reason = "/run/n2/admin.sock: Connection refused; is the daemon running?";
    screen.heard(1, at(3), Err(reason.into()));
    screen.update();
    let shown = text(&screen, 80, 24);
    assert!(shown.contains("not well, 2 of 3 nodes up") && shown.contains("n2 is away: /run/n2"), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("  n2  ")).unwrap();
    assert!(row.starts_with("  n2    away         -         -"), "{row}");
    // A new life counts from 0: no rate from the difference to the old one, then again.
    for (second, rates) in [(1, false), (2, true)] {
        let mut status = status(2, second);
        status.uptime_s = second;
        screen.heard(1, at(10 + second), Ok(status));
        screen.update();
        let shown = text(&screen, 80, 24);
        assert!(shown.contains("all is well"), "{shown}");
        assert_eq!(shown.contains("n2    up      2.00 k"), rates, "{shown}");
    }
}

#[test]
fn rows_are_sorted_filtered_and_scrolled_to() {
    let mut screen = screen();
    let names = |screen: &Screen| -> Vec<String> {
        let shown = text(screen, 80, 24);
        let first = shown.lines().filter_map(|line| line.trim_start_matches(['>', ' ']).split(' ').next());
        first.filter(|name| name.starts_with('n') && name.len() == 2).map(String::from).collect()
    };
    assert_eq!(names(&screen), ["n1", "n2", "n3"]);
    // By reads: the largest first, what is not known last; then the other way round.
    press(&mut screen, &[KeyCode::Char('s'), KeyCode::Char('s')]);
    assert!(text(&screen, 80, 24).contains("(by reads/s)"));
    assert_eq!(names(&screen), ["n2", "n1", "n3"]);
    press(&mut screen, &[KeyCode::Char('r')]);
    assert_eq!(names(&screen), ["n3", "n1", "n2"]);
    press(&mut screen, &[KeyCode::Char('/'), KeyCode::Char('n'), KeyCode::Char('2'), KeyCode::Enter]);
    assert_eq!(names(&screen), ["n2"]);
    press(&mut screen, &[KeyCode::Esc, KeyCode::End]);
    assert_eq!(names(&screen).len(), 3);
    // Room for two of three.
    press(&mut screen, &[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    let shown = text(&screen, 80, 17);
    assert!(shown.contains("> n2") && shown.contains("  2-3 of 3"), "{shown}");
    assert_eq!(names(&screen).len(), 3);
}

#[test]
fn a_pause_holds_the_picture() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Char('p')]);
    let held = text(&screen, 80, 24);
    assert!(held.contains("PAUSED"), "{held}");
    screen.heard(0, at(3), Ok(status(1, 50)));
    screen.update();
    assert_eq!(text(&screen, 80, 24), held);
    press(&mut screen, &[KeyCode::Char('p')]);
    screen.heard(0, at(4), Ok(Status { time_ms: 4_000, ..status(1, 52) }));
    screen.update();
    // Over the time of the pause, too.
    assert!(text(&screen, 80, 24).contains("n1    up      25.0 k"), "{}", text(&screen, 80, 24));
}

#[test]
fn any_size_is_drawn() {
    let mut screen = screen();
    for _ in 0..2 * HISTORY {
        screen.update();
    }
    assert_eq!(screen.history.len(), HISTORY);
    let keys =
        [KeyCode::Char('h'), KeyCode::Char('x'), KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::Enter];
    for key in keys {
        press(&mut screen, &[key]);
        for width in [1, 2, 10, 40, 79, 500] {
            for height in [1, 2, 5, 12, 100] {
                text(&screen, width, height);
            }
        }
    }
}

#[test]
fn nothing_is_shown_of_daemons_that_never_answered() {
    let mut screen = Screen::new(vec!["/run/n1/admin.sock".into()], Duration::from_secs(1));
    assert!(text(&screen, 80, 24).starts_with("cards top  asking"));
    screen.heard(0, at(2), Err("/run/n1/admin.sock: No such file".into()));
    screen.update();
    let shown = text(&screen, 80, 24);
    assert!(
        shown.contains("no daemon answers") && shown.contains("/run/n1/admin.sock: No such file"),
        "{shown}"
    );
}

#[test]
fn a_daemon_of_another_cluster_is_left_out() {
    let mut screen = screen();
    let stranger = Status { cluster: "home".into(), ..status(2, 3) };
    screen.heard(1, at(3), Ok(stranger));
    screen.update();
    let shown = text(&screen, 80, 24);
    assert!(shown.contains("is of cluster home, not of lab"), "{shown}");
}
