//! Machines become nodes with a token: no file is carried from one to another.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::harness::cluster::CARDS;
use crate::harness::export::{Address, Export};
use crate::harness::plan::free_port;
use crate::harness::process::{Finished, Process, run};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

use super::{SEED, join_at};

/// A cluster of which nothing is known but who keeps it.
pub(super) struct Lab<'a> {
    pub(super) dir: &'a Path,
    pub(super) keeper: String,
}

impl Lab<'_> {
    pub(super) fn path(&self, node: &str, what: &str) -> String {
        self.dir.join(format!("{node}-{what}")).display().to_string()
    }

    /// `cards cluster …` on the keeper's machine.
    pub(super) fn cluster(&self, line: &str) -> Finished {
        let state = self.path("n1", "state");
        let command: Vec<&str> =
            [CARDS, "cluster"].into_iter().chain(line.split(' ')).chain(["--state-dir", &state]).collect();
        run(&command, SHORT)
    }

    pub(super) fn token(&self, line: &str) -> String {
        self.cluster(line).ok().stdout.trim().to_owned()
    }

    /// The command that joins, with everything of the node in files of its own.
    pub(super) fn join(&self, node: &str, more: &[&str]) -> Vec<String> {
        let own = free_port().to_string();
        // The keeper's address is known.
        let address: &[&str] = if node == "n1" { &[] } else { &["--address", &own] };
        join_at(self.dir, &self.keeper, "lab", node, &[address, more].concat())
    }

    pub(super) fn spawn(&self, node: &str, more: &[&str]) -> Process {
        Process::spawn(&self.join(node, more), &self.dir.join(format!("{node}.log")))
    }

    fn refuses(&self, node: &str, more: &[&str], words: &[&str]) {
        let command = self.join(node, more);
        let refused = run(&command.iter().map(String::as_str).collect::<Vec<_>>(), SHORT).fails();
        for word in words {
            assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
        }
        for left in ["node.toml", "state/identity"] {
            assert!(!Path::new(&self.path(node, left)).exists(), "{left} of {node} is there");
        }
    }

    /// The members and how they are, as a node says.
    pub(super) fn members(&self, node: &str) -> Vec<(String, String)> {
        let socket = format!("{}/admin.sock", self.path(node, "run"));
        let said = run(&[CARDS, "status", "--json", "--socket", &socket], SHORT);
        let status: serde_json::Value = serde_json::from_str(&said.stdout).unwrap_or_default();
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let text =
            |member: &serde_json::Value, key: &str| member[key].as_str().unwrap_or_default().to_owned();
        members.iter().map(|member| (text(member, "name"), text(member, "state"))).collect()
    }

    /// All three are in, as a node says.
    pub(super) fn is_whole(&self, node: &str) -> bool {
        let members = self.members(node);
        members.iter().map(|(name, _)| name.as_str()).eq(["n1", "n2", "n3"])
            && members.iter().all(|(name, state)| state == if name == node { "here" } else { "up" })
    }

    pub(super) fn export(&self, node: &str, process: &Process) -> Export {
        let socket = Path::new(&self.path(node, "run")).join("nbd.sock");
        Export { address: Address::Unix(socket), name: "disk".into(), pid: process.pid() }
    }
}

#[test]
fn three_machines_become_a_cluster_with_a_token() {
    let dir = scratch();
    let lab = Lab { dir: dir.path(), keeper: free_port().to_string() };
    let image = dir.path().join("disk.img");
    content::image(&image, 4 * MIB, SEED);
    let disk = format!("disk={}", image.display());
    let made = lab.cluster("init lab --node n1").ok();
    for word in ["cards join lab", "n1@HOST:7400", "cards cluster token", "authority.key"] {
        assert!(made.stdout.contains(word), "no {word:?} in {made}");
    }
    let mut first = lab.spawn("n1", &["--disk", &disk]);
    let export = lab.export("n1", &first);
    first.until("n1 serves", || export.read(0, 512).ok());
    // Whoever changes files of a daemon sends this; certificates are looked at anyhow.
    first.signal(libc::SIGHUP);
    first.until("it has heard it", || {
        let log = fs::read_to_string(lab.dir.join("n1.log")).unwrap_or_default();
        log.contains("SIGHUP").then_some(())
    });
    export.read(0, 512).unwrap();

    let token = lab.token("token --uses 2");
    let mut nodes = Vec::new();
    for node in ["n2", "n3"] {
        let mut process = lab.spawn(node, &["--token", &token]);
        let export = lab.export(node, &process);
        process.until("it serves", || export.read(0, 512).ok());
        export.check_all(SEED);
        let key = lab.path(node, "state/identity/node.key");
        assert_eq!(fs::metadata(key).expect("a key").permissions().mode() & 0o777, 0o600);
        assert!(!process.log().contains(&token[7..]), "a token is not logged");
        nodes.push(process);
    }
    for node in ["n1", "n2", "n3"] {
        eventually(&format!("{node} sees all"), SHORT, || lab.is_whole(node).then_some(()));
    }

    lab.refuses("n4", &["--token", &token], &["is used up", "cards cluster token"]);
    let other = lab.token("token");
    lab.refuses("n2x", &["--token", &other[..60]], &["the token is damaged"]);
    let list: serde_json::Value = serde_json::from_str(&lab.token("token --list --json")).expect("JSON");
    let id = list[1]["id"].as_str().expect("an ID");
    assert_eq!((&list[0]["uses"], &list[1]["uses"]), (&0.into(), &1.into()));
    lab.cluster(&format!("token --revoke {id}")).ok();
    lab.refuses("n4", &["--token", &other], &["knows no token", "revoked"]);

    // A machine that has lost everything comes again with its name, once it is dead, and by leave of the keeper.
    let again = lab.token("token --rejoin n3");
    let lost = |what: &str| fs::rename(lab.path("n3", what), lab.path("n3", &format!("{what}-lost")));
    nodes.pop().expect("n3").kill();
    for what in ["node.toml", "state", "run"] {
        lost(what).expect("a file to take away");
    }
    let any = lab.token("token");
    eventually("n3 is declared dead", SHORT, || {
        lab.members("n1").contains(&("n3".into(), "dead".into())).then_some(())
    });
    lab.refuses("n3", &["--token", &any], &["has died", "--rejoin n3"]);
    lab.refuses("n4", &["--token", &again], &["--node n3"]);
    let mut process = lab.spawn("n3", &["--token", &again]);
    let export = lab.export("n3", &process);
    process.until("n3 serves again", || export.read(0, 512).ok());
    export.check_all(SEED);

    // With an identity the token is not needed: that which is used up is not even sent.
    process.kill();
    fs::remove_file(lab.path("n3", "node.toml")).expect("a file");
    let mut process = lab.spawn("n3", &["--token", &again]);
    let export = lab.export("n3", &process);
    process.until("n3 serves once more", || export.read(0, 512).ok());
    assert!(process.log().contains("the token is not needed"), "{}", process.log());

    // The keeper comes back to its one port, and those who were there ask it again.
    first.kill();
    let config = lab.path("n1", "node.toml");
    let serve = [CARDS, "serve", "--config", &config].map(String::from);
    let mut first = Process::spawn(&serve, &dir.path().join("n1-again.log"));
    let export = lab.export("n1", &first);
    first.until("n1 serves again", || export.read(0, 512).ok());
    assert_eq!(listening(first.pid()), std::slice::from_ref(&lab.keeper), "one port");
    for node in ["n1", "n2", "n3"] {
        eventually(&format!("{node} sees all"), SHORT, || lab.is_whole(node).then_some(()));
    }
    let socket = format!("{}/admin.sock", lab.path("n3", "run"));
    run(&[CARDS, "leave", "--force", "--socket", &socket], SHORT).ok();
    run(&[CARDS, "forget", "n3", "--socket", &format!("{}/admin.sock", lab.path("n2", "run"))], SHORT).ok();
    eventually("n3 is forgotten", SHORT, || (lab.members("n1").len() == 2).then_some(()));
}

/// Where a process listens over TCP.
fn listening(pid: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process").flatten();
    let sockets: Vec<String> = links
        .filter_map(|link| fs::read_link(link.path()).ok())
        .filter_map(|of| Some(of.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("a table");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[3] == "0A" && sockets.iter().any(|socket| socket == row[9]))
        .map(|row| {
            let (host, port) = row[1].split_once(':').expect("an address");
            let host = u32::from_str_radix(host, 16).expect("digits").to_ne_bytes();
            format!("{}:{}", std::net::Ipv4Addr::from(host), u16::from_str_radix(port, 16).expect("digits"))
        })
        .collect()
}
