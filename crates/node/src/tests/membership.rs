//! Nodes that come and go, under a coordinator at node 1.

use cards_admin::{ClientError, MemberState, RefusalKind, VolumeState};
use cards_config::{Attach, Coordinator, Disk, EmbeddedHome, Mode, Origin, Web};

use super::cluster::{BLOCK, Cluster, free_address};
use crate::Daemon;

fn state(cluster: &Cluster, at: usize, of: &str) -> Option<MemberState> {
    cluster.status(at).members.iter().find(|member| member.name == of).map(|member| member.state)
}

#[test]
fn a_node_joins_a_running_cluster_and_reads_and_writes() {
    let mut cluster = Cluster::coordinated(2, 64 * BLOCK);
    assert_eq!(cluster.client(2).read(0, 100).unwrap(), cluster.content[..100]);
    let third = cluster.join();
    cluster.wait_ready(third);
    for node in 1..=third {
        cluster.wait(&format!("node {node} knows all"), || cluster.status(node).members.len() == 3);
    }
    let mut client = cluster.client(third);
    assert!(client.read(0, 64 * BLOCK).unwrap() == cluster.content);
    client.write(5, b"new").unwrap();
    assert_eq!(cluster.client(2).read(5, 3).unwrap(), b"new");
    let status = cluster.status(third);
    assert!(status.coordinator.is_some_and(|home| home.contains("n1")) && status.epoch >= 3);
}

#[test]
fn a_node_that_was_killed_is_back_at_once_with_its_number() {
    let mut cluster = Cluster::coordinated(3, 64 * BLOCK);
    cluster.client(2).write(0, b"before").unwrap();
    let before = cluster.status(1).epoch;
    cluster.kill(2);
    cluster.restart(2);
    cluster.wait_ready(2);
    assert_eq!(cluster.client(2).read(0, 6).unwrap(), b"before");
    cluster.client(3).write(0, b"behind").unwrap();
    assert_eq!(cluster.client(2).read(0, 6).unwrap(), b"behind");
    assert!(cluster.status(1).epoch > before);
    let names: Vec<String> = cluster.status(1).members.iter().map(|member| member.name.clone()).collect();
    assert_eq!(names, ["n1", "n2", "n3"]);
}

#[test]
fn a_node_that_stays_away_is_declared_dead_and_can_be_forgotten() {
    let mut cluster = Cluster::coordinated(3, 16 * BLOCK);
    let error = cluster.admin(1).forget("n9", false).unwrap_err().to_string();
    assert_eq!(error, "no node \"n9\" in the registry; members are n1, n2, n3");
    let error = cluster.admin(1).forget("n3", true).unwrap_err().to_string();
    assert!(error.contains("n3") && error.contains("live"), "{error}");
    cluster.kill(3);
    cluster.wait("n3 is dead", || state(&cluster, 2, "n3") == Some(MemberState::Dead));
    let problems = cluster.status(2).problems;
    assert!(
        problems.iter().any(|problem| problem.contains("n3") && problem.contains("cards forget")),
        "{problems:?}"
    );
    cluster.client(2).write(0, b"on").unwrap();
    assert_eq!(cluster.admin(2).forget("n3", false).unwrap().to_string(), "forgot n3");
    cluster.wait("n3 is forgotten", || state(&cluster, 2, "n3").is_none() && cluster.status(2).healthy);
}

#[test]
fn a_dead_node_is_forgotten_with_its_disks_only_if_that_is_said() {
    let mut cluster = Cluster::coordinated(1, 16 * BLOCK);
    let second = cluster.join_with_disk("d2");
    cluster.wait("d2 is registered", || cluster.registry().volumes.contains_key("d2"));
    cluster.kill(second);
    cluster.wait("n2 is dead", || state(&cluster, 1, "n2") == Some(MemberState::Dead));
    let error = cluster.admin(1).forget("n2", false).unwrap_err().to_string();
    assert_eq!(
        error,
        "node n2 has the disk of volume d2; run `cards forget n2 --with-disks` if that disk does not come back"
    );
    let forgotten = cluster.admin(1).forget("n2", true).unwrap();
    assert_eq!(forgotten.to_string(), "forgot n2, its disk d2 (1 MiB) and the volume on it");
    cluster.wait("n2 is forgotten", || state(&cluster, 1, "n2").is_none() && cluster.status(1).healthy);
    let volumes = cluster.status(1).volumes;
    assert!(volumes.iter().all(|volume| volume.name != "d2"), "{volumes:?}");
    cluster.restart(second);
    cluster.wait("d2 is back", || {
        cluster.status(1).volumes.iter().any(|v| v.name == "d2" && v.state == VolumeState::Ready)
    });
}

/// Whoever asks to write what nobody can has a card that reads, and the registry knows it as that.
#[test]
fn the_registry_follows_the_attachment_of_a_disk_that_nobody_can_write() {
    let mut cluster = Cluster::coordinated(1, 16 * BLOCK);
    let second = cluster.join_as(|config| {
        let path = config.runtime_dir.with_extension("img");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        config.disks = vec![Disk { read_only: true, ..Disk::new("sealed", Origin::Path(path)) }];
        config.attach = vec![Attach::new("sealed")];
    });
    let mode = |cluster: &Cluster| {
        let attachments = cluster.registry().attachments;
        attachments.into_iter().find(|attachment| attachment.volume == "sealed").map(|known| known.mode)
    };
    cluster.wait("the attachment is registered", || mode(&cluster).is_some());
    assert_eq!(mode(&cluster), Some(cards_coordinator::AttachMode::Ro));
    let problems = cluster.status(second).problems;
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn a_node_that_leaves_takes_its_disks_out_also_by_force() {
    let mut cluster = Cluster::coordinated(1, 16 * BLOCK);
    for force in [false, true] {
        let node = cluster.join_with_disk(if force { "d3" } else { "d2" });
        let (name, volume) = (format!("n{node}"), format!("d{node}"));
        cluster.wait("it is known", || cluster.status(1).volumes.iter().any(|known| known.name == volume));
        if force {
            cluster.admin(1).attach(Attach::new(&volume)).unwrap();
            assert!(cluster.admin(node).leave(false).unwrap_err().to_string().contains("attached at n1"));
        }
        cluster.admin(node).leave(force).unwrap();
        cluster.wait("it has left", || state(&cluster, 1, &name) == Some(MemberState::Left));
        cluster.drain(node);
        let volumes = cluster.status(1).volumes;
        match volumes.iter().find(|known| known.name == volume) {
            None => assert!(!force),
            Some(known) => {
                let reason = known.reason.as_deref().unwrap();
                assert!(force && reason.contains("has left the cluster"), "{reason}");
                cluster.admin(1).detach(&volume).unwrap();
            }
        }
        assert_eq!(cluster.admin(1).forget(&name, false).unwrap().to_string(), format!("forgot {name}"));
        cluster.wait("all is well", || cluster.status(1).healthy);
        assert!(cluster.status(1).volumes.iter().all(|known| known.name != volume));
    }
}

#[test]
fn a_takeover_is_what_the_registry_says_and_can_be_taken_back() {
    let cluster = Cluster::coordinated(3, 16 * BLOCK);
    let exclusive = |takeover| Attach { mode: Mode::Exclusive, takeover, ..Attach::new("disk") };
    let names = |cluster: &Cluster, node: usize| {
        let problems = cluster.status(node).problems;
        assert!(problems.iter().all(|problem| !problem.contains("registry")), "{problems:?}");
        problems.join("; ")
    };
    cluster.admin(2).detach("disk").unwrap();
    let error = cluster.admin(2).attach(exclusive(false)).unwrap_err().to_string();
    assert!(error.contains("`cards volume attach disk --mode exclusive --takeover`"), "{error}");
    let (mut owner, mut other) = (2, 3);
    for _ in 0..3 {
        cluster.admin(owner).attach(exclusive(true)).unwrap();
        cluster.wait("the other one is told", || names(&cluster, other).contains(&format!("node n{owner}")));
        cluster.wait("all is well at the owner", || cluster.status(owner).healthy);
        let error = cluster.admin(other).attach(exclusive(false)).unwrap_err().to_string();
        assert!(error.contains("and refused: ") && error.contains(&format!("node n{owner}")), "{error}");
        cluster.client(owner).write(0, b"mine").unwrap();
        (owner, other) = (other, owner);
    }
    for node in [other, owner] {
        // The daemon may learn of it later than the client that has gone.
        cluster.wait("its client is gone", || {
            cluster.status(node).volumes[0].attached.as_ref().is_none_or(|card| card.clients == 0)
        });
        cluster.admin(node).detach("disk").unwrap();
    }
    cluster.wait("the first card is back", || cluster.status(1).healthy);
}

#[test]
fn a_port_that_is_busy_is_found_before_the_node_joins() {
    let cluster = Cluster::coordinated(1, 16 * BLOCK);
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = cluster.config(1).clone();
    (config.node, config.address) = ("n2".into(), Some(free_address()));
    config.runtime_dir = config.runtime_dir.join("n2");
    config.state_dir = config.runtime_dir.join("state");
    (config.nbd.unix, config.attach) = (None, Vec::new());
    config.disks.clear();
    config.web = Some(Web { listen: busy.local_addr().unwrap().to_string(), ..Web::default() });
    let error = Daemon::start(config).err().unwrap().to_string();
    assert!(error.contains("web.listen") && error.contains("another process listens there"), "{error}");
    assert_eq!(state(&cluster, 1, "n2"), None);
}

#[test]
fn without_its_coordinator_io_goes_on() {
    let mut cluster = Cluster::coordinated(1, 64 * BLOCK);
    // Of two nodes the first keeps the registry alone. It has the disk here; a second disk node would do as well. So its session alone
    // is ended.
    let second = cluster.join();
    cluster.wait_ready(second);
    cluster.stop_session(1);
    let mut client = cluster.client(second);
    for round in 0..30u8 {
        client.write(0, &[round; 100]).unwrap();
        assert_eq!(cluster.client(1).read(0, 100).unwrap(), [round; 100]);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    cluster.wait("it is said", || {
        cluster.status(second).problems.iter().any(|problem| problem.contains("I/O goes on"))
    });
    cluster.kill(1);
    cluster.restart(1);
    cluster.wait_ready(second);
}

/// That many nodes keep the registry, as all that are up say.
fn keep(cluster: &Cluster, nodes: &[usize], arbiters: usize) {
    for &node in nodes {
        cluster.wait(&format!("n{node} knows who keeps the registry"), || {
            let registry = cluster.status(node).registry;
            registry.is_some_and(|registry| registry.arbiters.len() == arbiters && !registry.changes)
        });
    }
}

#[test]
fn with_three_nodes_the_death_of_any_stops_no_join_no_attachment_and_no_declaration_of_death() {
    let mut cluster = Cluster::coordinated(2, 16 * BLOCK);
    keep(&cluster, &[1, 2], 1);
    assert_eq!(cluster.status(2).registry.unwrap().arbiters, ["n1"]);
    let third = cluster.join_with_disk("d3");
    keep(&cluster, &[1, 2, 3], 3);
    cluster.kill(1);
    cluster.wait("n1 is dead", || state(&cluster, 2, "n1") == Some(MemberState::Dead));
    cluster.admin(2).attach(Attach::new("d3")).unwrap();
    cluster.wait("it is registered", || {
        cluster.registry_at(2).attachments.iter().any(|known| known.node == "n2" && known.volume == "d3")
    });
    // A node that is new is told of one that is there.
    let second = cluster.config(2).address.clone().unwrap();
    let fourth = cluster.join_as(|config| {
        let lease = config.coordinator.as_ref().unwrap().lease();
        config.coordinator =
            Some(Coordinator::Embedded(EmbeddedHome { lease, ..EmbeddedHome::new("n2", &second) }));
        config.attach.clear();
    });
    cluster.wait("n4 is in", || state(&cluster, 3, "n4") == Some(MemberState::Up));
    // One that was here before remembers the others. It is one of the two that are left of three: nobody joins without it.
    cluster.kill(2);
    cluster.restart(2);
    cluster.wait("n2 is back", || state(&cluster, 3, "n2") == Some(MemberState::Up));
    assert!(cluster.registry_at(third).members.contains_key("n4"));
    cluster.restart(1);
    for node in 1..=fourth {
        cluster.wait("all is well", || cluster.status(node).healthy);
    }
    keep(&cluster, &[1, 2, 3, 4], 3);
    // Whoever leads now is the next.
    let leader = cluster.status(1).registry.unwrap().leader.unwrap();
    let leader: usize = leader[1..].parse().unwrap();
    let other = if leader == 4 { 3 } else { 4 };
    cluster.kill(leader);
    let name = format!("n{leader}");
    cluster.wait("it is dead", || state(&cluster, other, &name) == Some(MemberState::Dead));
    cluster.restart(leader);
    cluster.wait("it is back", || state(&cluster, other, &name) == Some(MemberState::Up));
}

#[test]
fn a_node_that_leaves_hands_its_part_of_the_registry_over() {
    let mut cluster = Cluster::coordinated(3, 16 * BLOCK);
    keep(&cluster, &[1, 2, 3], 3);
    cluster.admin(3).detach("disk").unwrap();
    cluster.admin(3).leave(false).unwrap();
    // They say so when they renew their memberships next.
    keep(&cluster, &[1, 2], 1);
    assert_ne!(cluster.status(1).registry.unwrap().arbiters, ["n3"]);
    cluster.drain(3);
    assert_eq!(cluster.admin(1).forget("n3", false).unwrap().to_string(), "forgot n3");
}

#[test]
fn leaving_is_refused_while_somebody_needs_the_node() {
    let mut cluster = Cluster::coordinated(3, 16 * BLOCK);
    let refused = |cluster: &Cluster, node: usize| match cluster.admin(node).leave(false) {
        Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Coordinator => refusal.message,
        other => panic!("{other:?}"),
    };
    let message = refused(&cluster, 1);
    assert!(message.contains("keeps the registry") && message.contains("n2, n3"), "{message}");
    let client = cluster.client(3);
    assert!(refused(&cluster, 3).contains("1 client(s)"));
    drop(client);
    cluster.wait("the client is gone", || {
        cluster.status(3).volumes[0].attached.as_ref().is_some_and(|c| c.clients == 0)
    });
    cluster.admin(3).leave(false).unwrap();
    cluster.wait("n3 has left", || state(&cluster, 1, "n3") == Some(MemberState::Left));
    cluster.drain(3);
    assert!(cluster.status(1).healthy, "{:?}", cluster.status(1).problems);
    cluster.client(2).write(0, b"on").unwrap();
}

#[test]
fn a_second_node_of_a_name_is_refused_and_the_first_goes_on() {
    let mut cluster = Cluster::coordinated(2, 16 * BLOCK);
    let third = cluster.join();
    cluster.wait_ready(third);
    let mut twin = cluster.config(third).clone();
    twin.node = "n2".into();
    twin.address = Some("127.0.0.1:1".into());
    twin.runtime_dir = twin.runtime_dir.join("twin");
    twin.state_dir = twin.runtime_dir.join("state");
    (twin.nbd.unix, twin.attach) = (None, Vec::new());
    twin.address = Some(free_address());
    let error = Daemon::start(twin).err().unwrap().to_string();
    assert!(error.contains("n2") && error.contains("give this node another name"), "{error}");
    cluster.client(2).write(0, b"on").unwrap();
    assert!(cluster.status(2).healthy);
}

#[test]
fn a_node_of_another_cluster_is_refused_by_name() {
    let cluster = Cluster::coordinated(1, 16 * BLOCK);
    let mut stranger = cluster.config(1).clone();
    (stranger.cluster, stranger.node) = ("other".into(), "n9".into());
    stranger.address = Some(free_address());
    stranger.runtime_dir = stranger.runtime_dir.join("stranger");
    stranger.state_dir = stranger.runtime_dir.join("state");
    (stranger.nbd.unix, stranger.attach) = (None, Vec::new());
    stranger.disks.clear();
    let error = Daemon::start(stranger).err().unwrap().to_string();
    assert!(error.contains("other") && error.contains("test"), "{error}");
}

#[test]
fn a_registry_that_is_lost_is_not_made_anew_and_a_damaged_one_is_refused() {
    let mut cluster = Cluster::coordinated(1, 16 * BLOCK);
    cluster.kill(1);
    let registry = cluster.config(1).register();
    let whole = std::fs::read(&registry).unwrap();
    std::fs::remove_file(&registry).unwrap();
    let error = Daemon::start(cluster.config(1).clone()).err().unwrap().to_string();
    assert!(error.contains("bring the registry back"), "{error}");
    std::fs::write(&registry, &whole[..whole.len() / 2]).unwrap();
    let error = Daemon::start(cluster.config(1).clone()).err().unwrap().to_string();
    assert!(error.contains("is damaged") && error.contains("/register"), "{error}");
    // It is brought back, and said to be the latest state: a copy alone is not believed.
    std::fs::remove_file(&registry).unwrap();
    std::fs::write(registry.with_extension("moved"), &whole).unwrap();
    cluster.restart(1);
    cluster.wait_ready(1);
}
