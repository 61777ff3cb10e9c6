//! `cards top` in a terminal (tmux): what it shows, what the keys do, and that the terminal is given back.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Process, run, sh};
use crate::harness::tools::need;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 21;

/// A terminal of 80 by 24 with a shell in it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Starts it and types `command`.
    fn run(dir: &Path, command: &str) -> Terminal {
        let terminal = Terminal { socket: dir.join("tmux.sock") };
        // The shell ends by itself if the test is killed, and the server with it.
        let shell = "env PS1='prompt> ' timeout --foreground 300 sh";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        terminal.shows("prompt>");
        terminal.keys(&[command, "Enter"]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let done = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output();
        done.expect("tmux is installed")
    }

    /// Presses keys: names as tmux has them, or text.
    fn keys(&self, keys: &[&str]) {
        for key in keys {
            self.tmux(&["send-keys", key]);
        }
    }

    fn picture(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until a line has `text`; the picture.
    #[track_caller]
    fn shows(&self, text: &str) -> String {
        self.until(text, |picture| picture.contains(text))
    }

    /// Waits until `is` says so; the picture.
    #[track_caller]
    fn until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let end = std::time::Instant::now() + SHORT;
        while std::time::Instant::now() < end {
            last = self.picture();
            if is(&last) {
                return last;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("not within {SHORT:?}: {what}\n{last}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn two_nodes(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, SEED);
    Cluster::start(Plan::new(dir, 2).disk(Disk::file(&image)).cache("16M"))
}

fn top(dir: &Path) -> String {
    format!("echo before; {CARDS} top --interval 200ms --dir {}; echo ended $?", dir.display())
}

/// The total of a counter, as a node's zoom shows it.
fn total(picture: &str, counter: &str) -> Option<u64> {
    let words: Vec<&str> = picture.split_whitespace().collect();
    let at = words.iter().position(|word| *word == counter)?;
    // name, rate, total
    words.get(at + 2)?.parse().ok()
}

#[test]
fn hits_grow_while_they_are_watched_and_names_are_filtered() {
    need!("tmux");
    let dir = scratch();
    let cluster = two_nodes(dir.path());
    let terminal = Terminal::run(dir.path(), &top(dir.path()));
    let picture = terminal.shows("all is well, 2 of 2 nodes up");
    for part in ["cluster lab", "every 200ms", "reads/s", "n1", "n2", "disk", "8 MiB", "ready", "q quit"] {
        assert!(picture.contains(part), "no {part:?} in\n{picture}");
    }

    // Node 2 has nothing of the disk; the second time it has all.
    terminal.keys(&["Down", "Down"]);
    terminal.shows("> n2");
    terminal.keys(&["Enter"]);
    terminal.shows("node n2");
    cluster.export(2, "disk").check_all(SEED);
    let first = terminal.until("reads of n2", |picture| total(picture, "reads") >= Some(128));
    let hits = total(&first, "local_hits").expect("a counter");
    cluster.export(2, "disk").check_all(SEED);
    terminal.until("more local hits", |picture| total(picture, "local_hits") >= Some(hits + 100));
    terminal.keys(&["Left"]);
    terminal.shows("did without the disk");

    terminal.keys(&["/", "n2", "Enter"]);
    terminal.until("node 1 is filtered out", |picture| {
        !picture.contains("  n1    up") && picture.contains("n2    up")
    });
    terminal.keys(&["?"]);
    terminal.shows("any key");
    terminal.keys(&["x"]);
    terminal.shows("names with \"n2\"");
    terminal.keys(&["p"]);
    terminal.shows("PAUSED");

    terminal.keys(&["q"]);
    let picture = terminal.shows("ended 0");
    assert!(
        picture.contains("before") && !picture.contains("PAUSED"),
        "the screen is not as before:\n{picture}"
    );
    terminal.keys(&["echo typed-$((6*7))", "Enter"]);
    terminal.shows("typed-42");
}

#[test]
fn a_daemon_that_dies_is_shown_and_comes_back() {
    need!("tmux");
    let dir = scratch();
    let mut cluster = two_nodes(dir.path());
    let terminal = Terminal::run(dir.path(), &top(dir.path()));
    terminal.shows("all is well, 2 of 2 nodes up");
    cluster.node(2).kill();
    let picture = terminal.shows("n2    away");
    assert!(picture.contains("not well, 1 of 2 nodes up") && picture.contains("n2 is away"), "{picture}");
    cluster.node(2).restart();
    terminal.shows("all is well, 2 of 2 nodes up");

    terminal.tmux(&["resize-window", "-x", "130", "-y", "30"]);
    let picture = terminal.shows("written/s");
    assert!(picture.lines().nth(29).is_some_and(|line| line.starts_with("q quit")), "{picture}");
}

#[test]
fn signals_give_the_terminal_back() {
    need!("tmux");
    let dir = scratch();
    let _cluster = two_nodes(dir.path());
    let pid = dir.path().join("pid");
    let terminal = Terminal::run(
        dir.path(),
        &format!(
            "echo before; sh -c 'echo $$ > {}; exec {CARDS} top --dir {}'",
            pid.display(),
            dir.path().display()
        ),
    );
    terminal.shows("all is well");
    sh(&format!("kill -TERM $(cat {})", pid.display()), SHORT).ok();
    let picture = terminal.until("the shell is back", |picture| picture.contains("before"));
    assert!(!picture.contains("all is well"), "{picture}");
    terminal.keys(&["echo typed-$((6*7))", "Enter"]);
    terminal.shows("typed-42");
}

#[test]
fn without_a_terminal_another_command_is_named() {
    let done = run(&[CARDS, "top"], SHORT).fails();
    assert_eq!(done.status.code(), Some(2), "{done}");
    assert!(done.stderr.contains("cards status --watch --json"), "{done}");
}

#[test]
fn a_watched_status_is_a_line_of_json_each_time_until_a_signal() {
    let dir = scratch();
    let mut cluster = two_nodes(dir.path());
    let log = dir.path().join("watch.log");
    let socket = cluster.node(1).admin_socket();
    let argv =
        [CARDS, "status", "--watch", "--interval", "100ms", "--json", "--socket", &socket].map(String::from);
    let mut process = Process::spawn(&argv, &log);
    process.until("three lines", || (process_lines(&log) >= 3).then_some(()));
    process.signal(libc::SIGTERM);
    assert!(process.wait(SHORT).success(), "{}", process.log());
    let text = process.log();
    assert!(text.ends_with('\n'), "{text}");
    for line in text.lines() {
        let status: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(status["node"], "n1");
    }

    // A reader that has seen enough, then a daemon that comes back.
    let code = dir.path().join("code");
    let script = format!("{{ {}; echo $? > {}; }} | head -n 2", argv.join(" "), code.display());
    let done = sh(&script, SHORT).ok();
    assert_eq!((done.stdout.lines().count(), done.stderr.as_str()), (2, ""), "{done}");
    let ended = || std::fs::read_to_string(&code).ok().filter(|code| code.ends_with('\n'));
    assert_eq!(eventually("the end of the watch", SHORT, ended), "0\n");

    let mut process = Process::spawn(&argv, &log);
    let before = process_lines(&log);
    process.until("a line", || (process_lines(&log) > before).then_some(()));
    cluster.node(1).kill();
    process.until("it is said", || process_text(&log).contains("is the daemon running").then_some(()));
    cluster.node(1).restart();
    let before = process_lines(&log);
    process.until("it comes back", || (process_lines(&log) > before).then_some(()));
    assert_eq!(process_text(&log).matches("is the daemon running").count(), 1);
}

fn process_text(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}

/// Lines of JSON.
fn process_lines(log: &Path) -> usize {
    process_text(log).lines().filter(|line| line.starts_with('{')).count()
}
