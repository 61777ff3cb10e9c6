//! Certificates that follow one another, that are taken away, and of which each name has one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cards_admin::Client;

use crate::harness::cluster::CARDS;
use crate::harness::export::Export;
use crate::harness::plan::free_port;
use crate::harness::process::{Process, run};
use crate::harness::{LONG, MIB, SHORT, content, eventually, scratch};

use super::SEED;
use super::tokens::Lab;

const BLOCK: usize = 4096;
const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Between two rounds of a client: enough of them for a load that notices, and few enough that others have the machine, too.
const PAUSE: Duration = Duration::from_millis(2);

fn status(lab: &Lab<'_>, node: &str) -> serde_json::Value {
    let asked = Client::connect_within(Path::new(&socket(lab, node)), SHORT);
    let status = asked.and_then(|mut client| client.status_of_start()).ok();
    status.and_then(|status| serde_json::to_value(status).ok()).unwrap_or_default()
}

fn socket(lab: &Lab<'_>, node: &str) -> String {
    format!("{}/admin.sock", lab.path(node, "run"))
}

/// Writes blocks of its own and reads those of all, until it is told to stop. Says how often.
fn works(export: &Export, part: u64, stop: &AtomicBool) -> io::Result<u64> {
    let mut client = export.open();
    let mut times = 0;
    while !stop.load(Ordering::Relaxed) {
        let byte = times as u8;
        let offset = part * MIB + times % 16 * BLOCK as u64;
        client.write(offset, &[byte; BLOCK])?;
        assert_eq!(client.read(offset, BLOCK)?, [byte; BLOCK], "at {offset}");
        for other in 0..NODES.len() as u64 {
            client.read(other * MIB + times % 16 * BLOCK as u64, BLOCK)?;
        }
        if times % 64 == 0 {
            client.flush()?;
        }
        times += 1;
        std::thread::sleep(PAUSE);
    }
    client.close();
    Ok(times)
}

fn serve(lab: &Lab<'_>, node: &str) -> Process {
    let config = lab.path(node, "node.toml");
    let command = [CARDS, "serve", "--config", &config].map(String::from);
    Process::spawn(&command, &lab.dir.join(format!("{node}-again.log")))
}

/// A cluster of three machines, and its processes.
fn three<'a>(dir: &'a Path, init: &str) -> (Lab<'a>, Vec<Process>) {
    let lab = Lab { dir, keeper: free_port().to_string() };
    let image = dir.join("disk.img");
    content::image(&image, 4 * MIB, SEED);
    let disk = format!("disk={}", image.display());
    lab.cluster(init).ok();
    let mut nodes = vec![lab.spawn("n1", &["--disk", &disk])];
    let export = lab.export("n1", &nodes[0]);
    nodes[0].until("n1 serves", || export.read(0, 512).ok());
    let token = lab.token("token --uses 2");
    for node in &NODES[1..] {
        let mut process = lab.spawn(node, &["--token", &token]);
        let export = lab.export(node, &process);
        process.until("it serves", || export.read(0, 512).ok());
        nodes.push(process);
    }
    for node in NODES {
        eventually(&format!("{node} sees all"), SHORT, || lab.is_whole(node).then_some(()));
    }
    (lab, nodes)
}

#[test]
fn nodes_renew_by_themselves_under_load_and_nobody_notices() {
    let dir = scratch();
    let (lab, mut nodes) = three(dir.path(), "init lab --node n1 --ttl 15s");
    let exports: Vec<Export> =
        NODES.iter().zip(&nodes).map(|(node, process)| lab.export(node, process)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let workers: Vec<_> = exports
            .iter()
            .enumerate()
            .map(|(part, export)| scope.spawn(move || works(export, part as u64, stop)))
            .collect();
        // Each end that is seen is another certificate.
        let mut ends = [(); 3].map(|()| BTreeSet::new());
        eventually("each node has renewed three times", LONG, || {
            for (node, ends) in NODES.iter().zip(&mut ends) {
                ends.extend(status(&lab, node)["certificate_ends_s"].as_u64());
            }
            ends.iter().all(|ends| ends.len() > 3).then_some(())
        });
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            let times = worker.join().expect("no wrong byte").expect("no I/O error");
            assert!(times > 0);
        }
    });
    // By hand as well, at the keeper and at another.
    for node in ["n1", "n2"] {
        let before = status(&lab, node)["certificate_ends_s"].as_u64().expect("an end");
        eventually("a later second", SHORT, || {
            let said =
                run(&[CARDS, "cluster", "renew", "--socket", &socket(&lab, node), "--json"], SHORT).ok();
            let said: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
            (said["certificate_ends_s"].as_u64()? > before).then_some(())
        });
    }
    // What it was made with has long ended: it comes up with what it has renewed, and is believed, and believes.
    nodes[1].kill();
    nodes[1] = serve(&lab, "n2");
    eventually("n2 is back", SHORT, || NODES.iter().all(|node| lab.is_whole(node)).then_some(()));
    for (node, process) in NODES.iter().zip(&nodes) {
        assert_eq!(process.log().matches("is not renewed").count(), 0, "{node}: {}", process.log());
    }
    // The keeper is away: others say so, and renew when it is back.
    nodes[0].signal(libc::SIGSTOP);
    eventually("n3 says that it cannot renew", LONG, || {
        status(&lab, "n3")["problems"].to_string().contains("renewing it has failed").then_some(())
    });
    nodes[0].signal(libc::SIGCONT);
    eventually("n3 renews again", LONG, || {
        let said = status(&lab, "n3");
        (!said["problems"].to_string().contains("certificate") && said["certificate_ends_s"].is_u64())
            .then_some(())
    });
    // One that is off until its certificate has ended does not wait for a coordinator that hangs up.
    nodes[2].kill();
    std::thread::sleep(Duration::from_secs(16));
    let ended = run(&[CARDS, "serve", "--config", &lab.path("n3", "node.toml")], SHORT).fails();
    assert!(ended.stderr.contains("no node believes this certificate"), "{ended}");
    assert!(ended.stderr.contains("--rejoin n3"), "{ended}");
}

#[test]
fn whoever_was_forgotten_is_believed_by_nobody_and_comes_again_with_a_token() {
    let dir = scratch();
    let (lab, mut nodes) = three(dir.path(), "init lab --node n1");
    let refused = run(&[CARDS, "forget", "n3", "--socket", &socket(&lab, "n1")], SHORT).fails();
    assert!(refused.stderr.contains("n3"), "{refused}");
    // Its machine stands still, and it is taken for dead.
    nodes[2].signal(libc::SIGSTOP);
    let forget = || run(&[CARDS, "forget", "n3", "--socket", &socket(&lab, "n1")], SHORT);
    eventually("n3 is forgotten", SHORT, || forget().stderr.is_empty().then_some(()));
    nodes[2].signal(libc::SIGCONT);
    eventually("n3 hears why", SHORT, || nodes[2].log().contains("was revoked").then_some(()));
    eventually("its status says so, and what to do", SHORT, || {
        let said = status(&lab, "n3")["problems"].clone();
        let said = said.as_array().filter(|said| said.len() == 1)?[0].to_string();
        (said.contains("was revoked") && said.contains("cards cluster token")).then_some(())
    });
    // Those whom it calls say whom they refuse, once.
    eventually("n1 says so", SHORT, || nodes[0].log().contains("n3.lab.cards was revoked").then_some(()));
    assert_eq!(nodes[0].log().matches("n3.lab.cards was revoked").count(), 1, "{}", nodes[0].log());
    for node in ["n1", "n2"] {
        assert!(lab.members(node).iter().all(|(name, _)| name != "n3"), "{node}");
    }
    // Nor after a restart; the others go on.
    nodes.pop().expect("n3").kill();
    let config = lab.path("n3", "node.toml");
    // Nor with a token, as long as the old identity is here.
    fs::rename(&config, dir.path().join("old.toml")).unwrap();
    let command = lab.join("n3", &["--token", &lab.token("token")]);
    let refused = run(&command.iter().map(String::as_str).collect::<Vec<_>>(), SHORT).fails();
    assert!(refused.stderr.contains("n3.lab.cards was revoked"), "{refused}");
    fs::rename(dir.path().join("old.toml"), &config).unwrap();
    let refused = run(&[CARDS, "serve", "--config", &config], SHORT).fails();
    for word in ["n3.lab.cards was revoked", "cards forget", "cards cluster token", "identity", "node.toml"] {
        assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
    }
    for (node, process) in NODES.iter().zip(&nodes) {
        lab.export(node, process).check_all(SEED);
    }
    // As that says: the file of the node stays.
    fs::rename(lab.path("n3", "state/identity"), lab.path("n3", "identity-old")).expect("an identity");
    let mut process = lab.spawn("n3", &["--token", &lab.token("token")]);
    let export = lab.export("n3", &process);
    process.until("n3 serves again", || export.read(0, 512).ok());
    eventually("all see it", SHORT, || NODES.iter().all(|node| lab.is_whole(node)).then_some(()));
}

#[test]
fn a_name_is_one_machines() {
    let dir = scratch();
    let lab = Lab { dir: dir.path(), keeper: free_port().to_string() };
    lab.cluster("init lab --node n1").ok();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, SEED);
    let mut first = lab.spawn("n1", &["--disk", &format!("disk={}", image.display())]);
    first.until("n1 runs", || status(&lab, "n1")["healthy"].as_bool());
    let token = lab.token("token");
    let join = |machine: &str, node: &str, token: &str| {
        let mut command = lab.join(machine, &["--token", token, "--write-only"]);
        let at = command.iter().position(|word| word == "--node").expect("a name") + 1;
        command[at] = node.into();
        run(&command.iter().map(String::as_str).collect::<Vec<_>>(), SHORT)
    };
    // It is killed when the keeper has signed, before it has an identity. The token is used up, and good for it still.
    join("a", "n2", &token).ok();
    fs::rename(lab.path("a", "state/identity/node.key"), lab.path("a", "state/joining.key")).expect("a key");
    fs::remove_dir_all(lab.path("a", "state/identity")).expect("an identity");
    fs::remove_file(lab.path("a", "node.toml")).expect("a configuration");
    join("a", "n2", &token).ok();
    assert!(!Path::new(&lab.path("a", "state/joining.key")).exists());

    let refused = join("b", "n2", &token).fails();
    assert!(refused.stderr.contains("is used up"), "{refused}");
    let token = lab.token("token");
    let refused = join("b", "n2", &token).fails();
    for word in ["`n2` was given to another machine", "--node", "cards forget n2"] {
        assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
    }
    run(&[CARDS, "forget", "n2", "--socket", &socket(&lab, "n1")], SHORT).ok();
    join("b", "n2", &token).ok();
    let refused = run(&[CARDS, "serve", "--config", &lab.path("a", "node.toml")], SHORT).fails();
    assert!(refused.stderr.contains("n2.lab.cards was revoked"), "{refused}");
}
