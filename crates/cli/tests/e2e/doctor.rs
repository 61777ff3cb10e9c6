//! `cards doctor` on configurations that are right and wrong.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::tools::{is_root, need};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

fn doctor(config: &Path, more: &[&str]) -> Finished {
    let config = config.display().to_string();
    run(&[&[CARDS, "doctor", "--config", &config], more].concat(), SHORT)
}

/// Level and text of the finding about `check`.
fn found(done: &Finished, check: &str) -> (String, String) {
    let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done}"));
    let findings = report["findings"].as_array().unwrap();
    let one =
        findings.iter().find(|found| found["check"] == check).unwrap_or_else(|| panic!("no {check}: {done}"));
    let word = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    (word("level"), format!("{}; {}", word("says"), word("remedy")))
}

#[test]
fn a_daemon_that_stands_still_is_not_taken_for_another_program() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, 8 * MIB, 5);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 1).disk(Disk::file(&image)).cache("16M"));
    cluster.node(1).pause();
    let done = doctor(&dir.path().join("n1.toml"), &["--json"]);
    cluster.node(1).resume();
    let (level, said) = found(&done, "daemon");
    assert!(level == "problem" && said.contains("does not answer: it stands still"), "{level} {said}");
    assert!(!done.stdout.contains("end the program"), "{done}");
}

/// Another user than the daemon's may not see whether it runs, and what it may open is no problem of the machine.
#[test]
fn what_only_the_daemon_s_user_may_do_is_no_problem_for_another() {
    need!("setpriv");
    if !is_root() {
        println!("SKIP: gives up being root");
        return;
    }
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, 8 * MIB, 5);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 1).disk(Disk::file(&image)).cache("16M"));
    let config = dir.path().join("n1.toml");
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(dir.path(), 0o755);
    mode(&config, 0o644);
    mode(&image, 0o600);
    mode(&dir.path().join("n1"), 0o700);
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let config = config.display().to_string();
    let done = run(&[&other[..], &[CARDS, "doctor", "--config", &config, "--json"]].concat(), SHORT);
    for check in ["daemon", "runtime_dir", "state_dir", "disk disk"] {
        let (level, said) = found(&done, check);
        assert!(
            level == "warning" && said.contains("is not seen; run this as root"),
            "{check}: {level} {said}"
        );
    }
    assert!(cluster.node(1).is_alive());
}

#[test]
fn a_good_configuration_has_no_problem_before_and_while_the_daemon_runs() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, 8 * MIB, 5);
    let mut cluster = Cluster::down(Plan::new(dir.path(), 2).disk(Disk::file(&image)).cache("16M"));
    let config = dir.path().join("n1.toml");
    for runs in [false, true] {
        if runs {
            cluster.node(1).spawn();
            cluster.node(2).spawn();
            cluster.node(1).wait_ready();
            // What the daemon says of itself, the doctor says, too.
            // Also of node 2: until it has joined, all is well without it.
            eventually("all is well", SHORT, || {
                let status = cluster.node(1).status();
                (status["healthy"] == true && status["members"].as_array()?.len() == 2).then_some(())
            });
        }
        let done = doctor(&config, &["--json"]).ok();
        for check in ["config", "daemon", "open files", "memory", "runtime_dir", "address", "disk disk"] {
            let (level, text) = found(&done, check);
            assert_eq!(level, "ok", "{check}: {text}");
        }
        assert_eq!(found(&done, "disk disk").1.contains("in use by this node"), runs, "{done}");
        assert_eq!(found(&done, "daemon").1.starts_with("runs"), runs, "{done}");
    }
    let before = fs::read_to_string(&config).unwrap();
    let more = dir.path().join("more.img");
    content::image(&more, MIB, 5);
    let added = format!("{before}\n[[disk]]\nname = \"more\"\npath = \"{}\"\n", more.display());
    fs::write(&config, added).unwrap();
    let (level, said) = found(&doctor(&config, &["--json"]).ok(), "daemon");
    assert!(level == "warning" && said.contains("has by now: disk more; restart it"), "{level} {said}");
    fs::write(&config, before).unwrap();
    // Under the name of another node's disk it must not be restarted with it.
    let other = dir.path().join("n2.toml");
    let own = fs::read_to_string(&other).unwrap();
    fs::write(&other, format!("{own}\n[[disk]]\nname = \"disk\"\npath = \"{}\"\n", more.display())).unwrap();
    let (level, said) = found(&doctor(&other, &["--json"]).fails(), "daemon");
    assert!(
        level == "problem" && said.contains("on a disk of node n1") && !said.contains("restart it"),
        "{level} {said}"
    );
    let socket = cluster.node(1).admin_socket();
    let (level, said) = found(&doctor(&config, &["--json", "--socket", &socket]).ok(), "daemon");
    assert!(level == "ok" && said.starts_with("runs with the disks and cards"), "{level}: {said}");
    let (level, said) = found(&doctor(&other, &["--json", "--socket", &socket]).fails(), "daemon");
    assert!(level == "problem" && said.contains("is node n1 of cluster"), "{level}: {said}");
    let text = doctor(&config, &[]).ok();
    assert!(text.stdout.contains("\nok       disk disk") && text.stdout.contains("no problems"), "{text}");
}

#[test]
fn a_wrong_configuration_is_told_with_its_remedies() {
    let dir = scratch();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap()
    };
    let at = dir.path().display();
    let config = dir.path().join("node.toml");
    let text = format!(
        "cluster = \"lab\"\nnode = \"n1\"\naddress = \"{}\"\ncache = \"4000T\"\n\
         runtime_dir = \"{at}/run\"\nstate_dir = \"/proc/state\"\n\
         [coordinator.embedded]\nkeeper = \"n2\"\naddress = \"{silent}\"\n\
         [[disk]]\nname = \"gone\"\npath = \"{at}/gone.img\"\n\
         [[disk]]\nname = \"far\"\nuri = \"nbd://{silent}/x\"\n\
         [nbd]\ntcp = \"192.0.2.1:10809\"\n",
        taken.local_addr().unwrap()
    );
    fs::write(&config, text).unwrap();
    let done = doctor(&config, &["--json"]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    for (check, remedy) in [
        ("address", "ss -ltnp"),
        ("memory", "smaller `cache`"),
        ("state_dir", "correct `state_dir`"),
        ("coordinator", "start node n2"),
        ("disk gone", "truncate -s 1G"),
        ("disk far", "check that the server runs"),
        ("nbd.tcp", "not one of this machine"),
    ] {
        let (level, text) = found(&done, check);
        assert!(level == "problem" && text.contains(remedy), "{check}: {level} {text}");
    }
    assert_eq!(found(&done, "runtime_dir").0, "ok");
    assert!(!dir.path().join("run").exists(), "nothing is changed");

    let etcd = format!(
        "cluster = \"lab\"\nnode = \"n1\"\naddress = \"127.0.0.1:1\"\nruntime_dir = \"{at}\"\nstate_dir = \"{at}\"\n\
         cache = \"16M\"\nshards = 1\n[coordinator.etcd]\nendpoints = [\"http://{silent}\", \"http://{}\"]\n",
        taken.local_addr().unwrap()
    );
    fs::write(&config, etcd).unwrap();
    let done = doctor(&config, &[]);
    let of_etcd: Vec<&str> = done.stdout.lines().filter(|line| line.contains(" etcd ")).collect();
    assert!(of_etcd[0].starts_with("problem") && of_etcd[1].starts_with("ok"), "{done}");

    fs::write(&config, "cluster = 7").unwrap();
    let done = doctor(&config, &[]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stdout.starts_with("problem  config") && done.stdout.contains("io_uring"), "{done}");
}
