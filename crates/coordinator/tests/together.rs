//! A registry that three nodes keep together, over loopback: leaders die, stores are lost, and old copies come back.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cards_coordinator::{
    ArbiterStore, AttachMode, Blank, Change, Coordinator, Epoch, Error, Kept, Local, LocalConfig,
    MemberState, Opened, RecoverError, Refusal, Remote, RemoteConfig, RemoteError, Revision, Route, Seat,
    Survivor, WallClock, serve,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::common::{join, seat, terms, visits, volume};

const LEASE_MS: u64 = 1500;
const LEASE: Duration = Duration::from_millis(LEASE_MS);
const LONG: Duration = Duration::from_secs(20);

/// A node: its part of the registry, and who answers the others. What is of no node any more is `None`.
struct Node {
    name: &'static str,
    address: String,
    dir: PathBuf,
    /// How others are reached, as its file says.
    home: String,
    lives: u64,
    runs: Option<Runs>,
}

struct Runs {
    local: Local,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.local.close();
    }
}

struct Lab {
    nodes: Vec<Node>,
    _dir: TempDir,
}

fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

impl Node {
    fn file(&self) -> PathBuf {
        self.dir.join("register")
    }

    fn config(&self) -> LocalConfig {
        let own = Some(self.address.clone());
        let remote = RemoteConfig { own, ..RemoteConfig::new(&self.home, "lab") };
        LocalConfig {
            lost_after: Duration::from_millis(500),
            ..LocalConfig::new(&self.file(), self.name, remote)
        }
    }

    /// As a daemon begins.
    async fn start(&mut self) {
        match Local::open(self.config()).await.unwrap() {
            Opened::Keeps(local) => self.run(local).await,
            Opened::Blank(blank) | Opened::Missing(blank) => self.enlist(blank).await,
        }
    }

    async fn enlist(&mut self, blank: Blank) {
        if let Some(lease) = blank.lease() {
            let local = blank.enlist(lease).unwrap();
            return self.run(local).await;
        }
        let remote = Remote::open(blank.config().remote.clone()).await.unwrap();
        assert_eq!(remote.view().await.unwrap().lease, LEASE);
        let local = blank.enlist(LEASE).unwrap();
        self.run(local).await;
    }

    async fn run(&mut self, local: Local) {
        self.lives += 1;
        let listener = loop {
            // The last life's may be there for a moment.
            match TcpListener::bind(&self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let visits = visits(listener, None);
        let server = tokio::spawn(serve(visits, local.clone(), None, None, None, std::future::pending()));
        let member =
            tokio::spawn(be_member(local.clone(), seat(self.name, self.lives), self.address.clone()));
        self.runs = Some(Runs { local, tasks: vec![server, member] });
    }

    fn kill(&mut self) {
        self.runs = None;
    }

    fn local(&self) -> &Local {
        &self.runs.as_ref().expect("it runs").local
    }

    fn coordinator(&self) -> Coordinator {
        Coordinator::Local(self.local().clone())
    }
}

/// Joins, and renews for as long as it lives.
async fn be_member(local: Local, me: Seat, address: String) {
    let coordinator = Coordinator::Local(local.clone());
    let mut is_member = false;
    loop {
        if !is_member {
            let mut join = join(&me.name, me.incarnation.0, WallClock::now());
            join.address.clone_from(&address);
            join.succeeds = Some(cards_coordinator::Incarnation(me.incarnation.0.saturating_sub(1)));
            is_member = coordinator.join(join).await.is_ok();
        }
        if is_member {
            let _ = coordinator.renew(&me, WallClock::now()).await;
            if let Some(store) = local.store() {
                let _ = coordinator.submit(Change::PutStore { seat: me.clone(), store }).await;
            }
        }
        tokio::time::sleep(LEASE / 3).await;
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < LONG, "{what}: never");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Lab {
    /// Node 1 alone, and others that are not there yet.
    async fn founded(nodes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let addresses: Vec<String> = (0..nodes).map(|_| free_address()).collect();
        let node = |(number, address): (usize, &String)| {
            let name = ["n1", "n2", "n3", "n4", "n5"][number];
            // The first has heard of the second.
            let home = addresses[usize::from(number == 0 && nodes > 1)].clone();
            let dir = dir.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            Node { name, address: address.clone(), dir, home, lives: 0, runs: None }
        };
        let mut lab = Self { nodes: addresses.iter().enumerate().map(node).collect(), _dir: dir };
        let local = Local::found(lab.nodes[0].config(), &terms(LEASE_MS)).unwrap();
        lab.nodes[0].run(local).await;
        lab
    }

    /// Node n4, which is to be the fourth, begins.
    async fn start_another(&mut self) {
        let dir = self.nodes[0].dir.parent().unwrap().join("n4");
        std::fs::create_dir(&dir).unwrap();
        let home = self.nodes[0].address.clone();
        self.nodes.push(Node { name: "n4", address: free_address(), dir, home, lives: 0, runs: None });
        self.nodes[3].start().await;
    }

    /// All of them keep the registry, if they are three or five.
    async fn settled(nodes: usize) -> Self {
        let mut lab = Self::founded(nodes).await;
        for number in 1..nodes {
            lab.nodes[number].start().await;
        }
        lab.has_arbiters(nodes).await;
        lab
    }

    async fn has_arbiters(&self, count: usize) {
        let told = tokio::time::timeout(LONG - Duration::from_secs(2), self.have_arbiters(count)).await;
        if told.is_err() {
            for node in &self.nodes {
                let Some(runs) = &node.runs else { continue };
                println!("{}: {:?} {:?}", node.name, runs.local.kept(), runs.local.problems());
                println!("{:?}", runs.local.view().await);
            }
            panic!("not all keep the registry");
        }
    }

    /// One of three is counted under its present name.
    async fn counts(&self, number: usize) {
        let node = &self.nodes[number];
        eventually("it is counted under its new name", async || {
            let view = node.local().view().await.unwrap();
            let kept = node.local().kept();
            let is_told = view.stores.get(node.name).map(|known| known.store) == node.local().store();
            is_told && !kept.changes && kept.arbiters.iter().map(|route| &route.node).eq(["n1", "n2", "n3"])
        })
        .await;
    }

    async fn have_arbiters(&self, count: usize) {
        eventually("all keep the registry", async || {
            self.nodes.iter().filter_map(|node| node.runs.as_ref()).all(|runs| {
                let kept = runs.local.kept();
                kept.arbiters.len() == count && !kept.changes
            })
        })
        .await;
    }

    /// A node of this release joins, and is not heard of again.
    async fn visited_by(&self, guest: &str) {
        let home = self.nodes[0].coordinator();
        home.join(join(guest, 1, WallClock::now())).await.unwrap();
        let store = ArbiterStore::new_id();
        home.submit(Change::PutStore { seat: seat(guest, 1), store }).await.unwrap();
    }

    /// The number of the node that leads, and not one that has only led.
    async fn leader(&self) -> usize {
        let mut leader = None;
        eventually("a leader", async || {
            for (number, node) in self.nodes.iter().enumerate() {
                let Some(runs) = &node.runs else { continue };
                let kept = runs.local.kept();
                if kept.leader.is_some_and(|leader| leader.node == node.name)
                    && runs.local.view().await.is_ok()
                {
                    leader = Some(number);
                }
            }
            leader.is_some()
        })
        .await;
        leader.unwrap()
    }

    async fn state(&self, at: usize, of: &str) -> Option<MemberState> {
        Some(self.nodes[at].local().view().await.ok()?.members.get(of)?.state)
    }

    async fn is(&self, at: usize, of: &str, state: MemberState) {
        eventually(&format!("{of} is {state}"), async || self.state(at, of).await == Some(state)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_death_of_the_node_that_leads_stops_no_join_and_no_attachment() {
    let mut lab = Lab::settled(3).await;
    assert_eq!(lab.nodes[0].local().kept().spare(), 1);
    for round in 0..3 {
        let leader = lab.leader().await;
        lab.nodes[leader].kill();
        let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
        let name = format!("guest{round}");
        for (at, number) in others.iter().enumerate() {
            let home = lab.nodes[*number].coordinator();
            let guest = format!("{name}{at}");
            home.join(join(&guest, 1, WallClock::now())).await.unwrap();
            let (disk, volume_name) = (format!("{guest}:0"), format!("v{guest}"));
            home.put_disk(&seat(&guest, 1), &disk, 1 << 30).await.unwrap();
            home.put_volume(volume(&volume_name, &disk)).await.unwrap();
            home.attach(&seat(&guest, 1), &volume_name, AttachMode::Exclusive).await.unwrap();
            home.renew(&seat(&guest, 1), WallClock::now()).await.unwrap();
        }
        // Who is not heard of dies under the next leader too, and nobody else.
        lab.is(others[0], lab.nodes[leader].name, MemberState::Dead).await;
        lab.is(others[0], &format!("{name}0"), MemberState::Dead).await;
        for number in &others {
            assert_eq!(lab.state(others[0], lab.nodes[*number].name).await, Some(MemberState::Joined));
        }
        lab.nodes[leader].start().await;
        lab.is(leader, lab.nodes[leader].name, MemberState::Joined).await;
        lab.has_arbiters(3).await;
    }
}

/// Two of three are stopped at a time: the one that did not lead is not elected in the middle of its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_process_ends_is_not_elected() {
    for ends in 1..3 {
        let lab = Lab::settled(3).await;
        let leader = lab.leader().await;
        let (other, next) = ((leader + ends) % 3, (leader + 3 - ends) % 3);
        lab.nodes[other].local().resign().await;
        lab.nodes[leader].local().resign().await;
        assert_eq!(lab.leader().await, next);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_another_node_is_led_to_the_one_that_leads() {
    let lab = Lab::settled(3).await;
    let leader = lab.leader().await;
    let other = (leader + 1) % 3;
    let asked = Remote::open(RemoteConfig::new(&lab.nodes[other].address, "lab")).await.unwrap();
    let kept = asked.kept();
    assert_eq!(kept.leader.unwrap().address, lab.nodes[leader].address);
    assert_eq!(kept.arbiters.len(), 3);
    assert_eq!(asked.history(), lab.nodes[leader].local().history());
}

/// Somebody that takes connections and says nothing.
fn silent() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_silent_is_passed_over() {
    let lab = Lab::founded(1).await;
    let (_silent, address) = silent();
    let gone = Route { node: String::new(), address: free_address() };
    let there = Route { node: String::new(), address: lab.nodes[0].address.clone() };
    let config = RemoteConfig {
        others: vec![gone, there],
        request_timeout: Duration::from_millis(200),
        ..RemoteConfig::new(&address, "lab")
    };
    let asked = Remote::open(config).await.unwrap();
    asked.submit(Change::Join(join("a", 1, WallClock::now()))).await.unwrap();
    // From now on that one is asked first.
    let began = Instant::now();
    for _ in 0..20 {
        asked.view().await.unwrap();
    }
    assert!(began.elapsed() < LONG / 4, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_change_hears_of_it_from_the_next_leader() {
    let mut lab = Lab::settled(3).await;
    let leader = lab.leader().await;
    let (other, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let revision = lab.nodes[other].local().view().await.unwrap().revision;
    let waiter = {
        let local = lab.nodes[other].local().clone();
        tokio::spawn(async move {
            loop {
                let mut last = revision;
                match local.changed(last).await {
                    Ok(view) if view.members.contains_key("late") => return,
                    Ok(view) => last = view.revision,
                    Err(error) => assert!(matches!(error, Error::Remote(_)), "{error}"),
                }
                assert!(last >= revision);
            }
        })
    };
    lab.nodes[leader].kill();
    lab.nodes[third].coordinator().join(join("late", 1, WallClock::now())).await.unwrap();
    tokio::time::timeout(LONG, waiter).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_or_two_nodes_have_one_arbiter_and_five_have_five() {
    let mut lab = Lab::founded(5).await;
    lab.nodes[1].start().await;
    lab.is(0, "n2", MemberState::Joined).await;
    tokio::time::sleep(LEASE).await;
    lab.has_arbiters(1).await;
    assert_eq!(lab.nodes[1].local().kept().arbiters[0].node, "n1");
    for number in 2..5 {
        lab.nodes[number].start().await;
    }
    lab.has_arbiters(5).await;
    assert_eq!(lab.nodes[4].local().kept().spare(), 2);
    // Two at once, the leader among them.
    let leader = lab.leader().await;
    lab.nodes[leader].kill();
    lab.nodes[(leader + 1) % 5].kill();
    let at = (leader + 2) % 5;
    lab.nodes[at].coordinator().join(join("new", 1, WallClock::now())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_away_for_long_gives_its_place_to_another() {
    let mut lab = Lab::settled(3).await;
    lab.start_another().await;
    lab.is(0, "n4", MemberState::Joined).await;
    lab.nodes[2].kill();
    eventually("n4 takes the place of n3", async || {
        let kept = lab.nodes[0].local().kept();
        let names: Vec<String> = kept.arbiters.into_iter().map(|route| route.node).collect();
        names == ["n1", "n2", "n4"] && !kept.changes
    })
    .await;
    // It comes back as a member like others.
    lab.nodes[2].start().await;
    lab.is(2, "n3", MemberState::Joined).await;
    let leader = lab.leader().await;
    lab.nodes[leader].kill();
    let at = (leader + 1) % 2;
    lab.nodes[at].coordinator().join(join("new", 1, WallClock::now())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_arbiter_that_has_lost_its_store_is_another() {
    let mut lab = Lab::settled(3).await;
    let before = lab.nodes[2].local().store().unwrap();
    lab.nodes[2].kill();
    std::fs::remove_file(lab.nodes[2].file()).unwrap();
    lab.nodes[2].start().await;
    assert_ne!(lab.nodes[2].local().store().unwrap(), before);
    lab.counts(2).await;
    // Its votes count: with one of the others it is enough.
    let leader = lab.leader().await;
    assert_ne!(leader, 2);
    lab.nodes[leader].kill();
    lab.nodes[2].coordinator().join(join("new", 1, WallClock::now())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_copy_of_an_arbiters_store_does_not_vote() {
    let mut lab = Lab::settled(3).await;
    let before = lab.nodes[2].local().store().unwrap();
    let copy = std::fs::read(lab.nodes[2].file()).unwrap();
    lab.visited_by("later").await;
    lab.nodes[2].kill();
    std::fs::write(lab.nodes[2].file(), copy).unwrap();
    match Local::open(lab.nodes[2].config()).await.unwrap() {
        Opened::Blank(blank) => lab.nodes[2].enlist(blank).await,
        other => panic!("{other:?}"),
    }
    assert_ne!(lab.nodes[2].local().store().unwrap(), before);
    let problems = lab.nodes[2].local().problems();
    assert!(
        problems[0].contains("is a copy of another file") && problems[0].contains("register.copy"),
        "{problems:?}"
    );
    lab.counts(2).await;
    lab.nodes[0].kill();
    assert!(lab.nodes[1].local().view().await.unwrap().members.contains_key("later"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_were_moved_with_nothing_lost_are_taken_if_that_is_said() {
    let mut lab = Lab::settled(3).await;
    let stores: Vec<_> = lab.nodes.iter().map(|node| node.local().store()).collect();
    let revision = lab.nodes[0].local().view().await.unwrap().revision;
    for node in &mut lab.nodes {
        node.kill();
        let bytes = std::fs::read(node.file()).unwrap();
        std::fs::remove_file(node.file()).unwrap();
        std::fs::write(node.dir.join("register.moved"), bytes).unwrap();
    }
    for node in &mut lab.nodes {
        node.start().await;
    }
    assert_eq!(lab.nodes.iter().map(|node| node.local().store()).collect::<Vec<_>>(), stores);
    assert!(lab.nodes[0].local().view().await.unwrap().revision >= revision);
    assert!(!lab.nodes[0].dir.join("register.moved").exists());
    lab.nodes[1].kill();
    lab.nodes[1].start().await;
    assert!(lab.nodes[1].local().problems().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_that_has_lost_everything_is_followed_by_nobody() {
    let mut lab = Lab::settled(3).await;
    let history = lab.nodes[1].local().history();
    lab.nodes[0].kill();
    std::fs::remove_file(lab.nodes[0].file()).unwrap();
    let fresh = Local::found(lab.nodes[0].config(), &terms(LEASE_MS)).unwrap();
    lab.nodes[0].run(fresh).await;
    lab.nodes[1].coordinator().join(join("new", 1, WallClock::now())).await.unwrap();
    assert!(lab.nodes[2].local().view().await.unwrap().members.contains_key("new"));
    assert_eq!(lab.nodes[1].local().history(), history);
    assert_ne!(lab.nodes[0].local().history(), history);
    // Also by who comes to it first.
    let config = RemoteConfig { history, ..RemoteConfig::new(&lab.nodes[0].address, "lab") };
    match Remote::open(config).await {
        Err(Error::Remote(error @ RemoteError::OtherRegistry { .. })) => {
            let said = error.to_string();
            assert!(
                said.contains("keeps another registry") && said.contains("Remove nothing there"),
                "{said}"
            );
        }
        other => panic!("{other:?}"),
    }
    let problems = lab.nodes[0].local().problems();
    assert!(problems[0].contains("follow another registry"), "{problems:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_founder_that_was_alone_decides_nothing() {
    let mut lab = Lab::founded(3).await;
    let early = std::fs::read(lab.nodes[0].file()).unwrap();
    for number in 1..3 {
        lab.nodes[number].start().await;
    }
    lab.has_arbiters(3).await;
    let (history, before) = (lab.nodes[0].local().history(), lab.nodes[0].local().store());
    lab.nodes[0].kill();
    std::fs::write(lab.nodes[0].file(), early).unwrap();
    // By what it says it is the only one, and it knows of nobody.
    lab.nodes[0].home = lab.nodes[0].address.clone();
    lab.nodes[0].start().await;
    let local = lab.nodes[0].local().clone();
    assert!(local.store() != before && local.history() == history);
    let problems = local.problems();
    assert!(
        problems[0].contains("is a copy of another file") && problems[0].contains("register.moved"),
        "{problems:?}"
    );
    // The others count on the store that it had, and by that it hears of them.
    lab.is(0, "n1", MemberState::Joined).await;
    assert_eq!(local.aside(), None);
    lab.counts(0).await;
    // What was put aside is wanted no more: it would bring an old part back.
    eventually("nothing is wrong any more", async || local.problems().is_empty()).await;
    lab.nodes[1].kill();
    lab.nodes[0].coordinator().join(join("new", 1, WallClock::now())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_only_part_waits_for_the_word_of_an_operator_over_any_number_of_starts() {
    let mut lab = Lab::founded(1).await;
    lab.is(0, "n1", MemberState::Joined).await;
    let store = lab.nodes[0].local().store();
    let (file, aside) = (lab.nodes[0].file(), lab.nodes[0].dir.join("register.copy"));
    lab.nodes[0].kill();
    let kept = std::fs::read(&file).unwrap();
    std::fs::write(&file, &kept).unwrap();
    for start in 0..3 {
        lab.nodes[0].start().await;
        let local = lab.nodes[0].local();
        let says = local.aside().expect("it knows of nobody").to_owned();
        assert!(says.contains("register.copy") && says.contains("register.moved"), "{start}: {says}");
        assert_eq!(local.problems().is_empty(), start > 0);
        local.submit(Change::Expire).await.unwrap_err();
        lab.nodes[0].kill();
        // What was made meanwhile is moved as well: it is worth nothing.
        let blank = std::fs::read(&file).unwrap();
        std::fs::write(&file, blank).unwrap();
        assert_eq!(std::fs::read(&aside).unwrap(), kept);
    }
    std::fs::rename(&aside, lab.nodes[0].dir.join("register.moved")).unwrap();
    lab.nodes[0].start().await;
    assert_eq!(lab.nodes[0].local().store(), store);
    lab.is(0, "n1", MemberState::Joined).await;
    assert!(!lab.nodes[0].dir.join("register.moved").exists());
    // One that a power cut left there is not taken again.
    lab.nodes[0].kill();
    let kept = std::fs::read(&file).unwrap();
    std::fs::write(lab.nodes[0].dir.join("register.moved"), kept).unwrap();
    lab.nodes[0].start().await;
    assert!(!lab.nodes[0].dir.join("register.moved").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_state_of_a_founder_that_was_alone_does_not_lead_though_it_is_said_to_be_the_latest() {
    let mut lab = Lab::founded(3).await;
    let blank = std::fs::read(lab.nodes[0].file()).unwrap();
    for name in ["n2", "n3"] {
        let node = lab.nodes.iter().find(|node| node.name == name).unwrap();
        let mut joining = join(name, 0, WallClock::now());
        joining.address.clone_from(&node.address);
        lab.nodes[0].coordinator().join(joining).await.unwrap();
    }
    let early = std::fs::read(lab.nodes[0].file()).unwrap();
    for number in 1..3 {
        lab.nodes[number].start().await;
    }
    lab.has_arbiters(3).await;
    // It knows of others, and they say that they keep a later one.
    let is_the_latest = |node: &mut Node, bytes: Vec<u8>| {
        node.kill();
        let _ = std::fs::remove_file(node.file());
        std::fs::write(node.dir.join("register.moved"), bytes).unwrap();
    };
    is_the_latest(&mut lab.nodes[0], early);
    match Local::open(lab.nodes[0].config()).await.unwrap() {
        Opened::Blank(blank) => {
            assert!(blank.kept().arbiters.len() == 3 && blank.has_others());
            lab.nodes[0].enlist(blank).await;
        }
        other => panic!("{other:?}"),
    }
    let problems = lab.nodes[0].local().problems();
    assert!(problems[0].contains("is an old one"), "{problems:?}");
    lab.has_arbiters(3).await;
    // It knows of nobody. The first who comes and has heard of more ends it.
    is_the_latest(&mut lab.nodes[0], blank);
    lab.nodes[0].home = lab.nodes[0].address.clone();
    let Opened::Keeps(local) = Local::open(lab.nodes[0].config()).await.unwrap() else {
        panic!("it is alone")
    };
    lab.nodes[0].run(local).await;
    let mut config = RemoteConfig::new(&lab.nodes[0].address, "lab");
    (config.seen, config.patience) =
        (lab.nodes[1].local().view().await.unwrap().epoch, Duration::from_millis(500));
    config.history = lab.nodes[1].local().history();
    // It finds that out, and the asker is told of the others as soon as this node is.
    let _ = Remote::open(config).await;
    let problems = lab.nodes[0].local().problems();
    assert!(problems[0].contains("is an old one"), "{problems:?}");
    assert!(lab.nodes[0].local().store().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_at_an_arbiter_stops_that_one_only() {
    let mut lab = Lab::settled(3).await;
    let leader = lab.leader().await;
    let (second, third) = ((leader + 1) % 3, (leader + 2) % 3);
    for (round, full) in [second, leader].into_iter().enumerate() {
        let dir = lab.nodes[full].dir.clone();
        let away = dir.with_extension("away");
        std::fs::rename(&dir, &away).unwrap();
        for guest in 0..3 {
            let guest = join(&format!("g{round}-{guest}"), 1, WallClock::now());
            lab.nodes[third].coordinator().join(guest).await.unwrap();
        }
        eventually("it says so", async || lab.nodes[full].local().store().is_none()).await;
        let problems = lab.nodes[full].local().problems();
        assert!(problems[0].contains("see to its disk, then restart"), "{problems:?}");
        // It is a member as before.
        lab.nodes[full].local().view().await.unwrap();
        lab.nodes[full].kill();
        std::fs::rename(&away, &dir).unwrap();
        lab.nodes[full].start().await;
        lab.is(full, lab.nodes[full].name, MemberState::Joined).await;
        lab.has_arbiters(3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_at_once_are_back_after_they_were_off() {
    let mut lab = Lab::settled(3).await;
    lab.nodes[0].coordinator().join(join("guest", 1, WallClock::now())).await.unwrap();
    let revision = lab.nodes[0].local().view().await.unwrap().revision;
    lab.nodes.iter_mut().for_each(Node::kill);
    for node in &mut lab.nodes {
        node.start().await;
    }
    for node in &lab.nodes {
        let view = node.local().view().await.unwrap();
        assert!(view.revision >= revision && view.members.contains_key("guest"));
    }
    // Two of three are gone: nothing is decided, until one is back.
    lab.nodes[0].kill();
    lab.nodes[1].kill();
    let mut config = RemoteConfig::new(&lab.nodes[2].address, "lab");
    config.patience = LEASE * 2;
    let asked = Remote::open(config.clone()).await;
    if let Ok(asked) = asked {
        // Its term had not ended yet.
        let error = asked.changed(Revision(u64::MAX)).await;
        assert!(error.is_ok() || matches!(error, Err(Error::Remote(_))));
    }
    eventually("nobody leads", async || Remote::open(config.clone()).await.is_err()).await;
    let error = Remote::open(config).await.unwrap_err();
    assert!(
        matches!(error, Error::Remote(RemoteError::NoLeader { .. } | RemoteError::Unreachable { .. })),
        "{error}"
    );
    lab.nodes[1].start().await;
    lab.nodes[2].coordinator().join(join("new", 1, WallClock::now())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_remembers_of_a_registry_without_a_name_ends_no_other() {
    let lab = Lab::founded(1).await;
    lab.is(0, "n1", MemberState::Joined).await;
    // Its state_dir is of another cluster of this name, and of a release that knew of no histories.
    let mut config = RemoteConfig::new(&lab.nodes[0].address, "lab");
    config.seen = Epoch(500);
    let node = Coordinator::Remote(Remote::open(config).await.unwrap());
    let mut joining = join("n2", 1, WallClock::now());
    joining.seen = Epoch(500);
    let error = node.join(joining).await.unwrap_err();
    assert!(matches!(error.refusal(), Some(Refusal::RegistryBehind { .. })), "{error}");
    node.view().await.unwrap();
    let problems = lab.nodes[0].local().problems();
    assert!(problems.is_empty(), "{problems:?}");
    lab.nodes[0].coordinator().join(join("n3", 1, WallClock::now())).await.unwrap();
}

/// Says to whoever asks that the registry is kept so.
fn says(kept: &Kept) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let kept = serde_json::to_string(kept).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = (&stream).read(&mut [0; 4096]);
            let length = kept.len();
            let _ = write!(
                &stream,
                "HTTP/1.1 200 OK\r\ncards-cluster: lab\r\ncards-lease-ms: 1500\r\ncontent-length: {length}\r\n\r\n{kept}"
            );
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_dies_while_others_become_arbiters_beside_it_keeps_its_part() {
    for (ahead, changes, keeps) in [(1, true, true), (1, false, false), (2, true, false)] {
        let mut lab = Lab::founded(1).await;
        lab.is(0, "n1", MemberState::Joined).await;
        eventually("its store is known", async || {
            !lab.nodes[0].local().view().await.unwrap().stores.is_empty()
        })
        .await;
        // Another node has voted for the next value, by which it is an arbiter as well, and this one was about to.
        let mut kept = lab.nodes[0].local().kept();
        let (version, address) = (kept.version, free_address());
        (kept.version, kept.changes) = (version + 1 + ahead, changes);
        kept.arbiters.push(Route { node: "n2".into(), address });
        let mut joining = join("n2", 1, WallClock::now());
        joining.address = says(&kept);
        lab.nodes[0].coordinator().join(joining).await.unwrap();
        let local = lab.nodes[0].local().clone();
        lab.nodes[0].kill();
        assert_eq!(local.kept().version, version + 1);
        let opened = Local::open(lab.nodes[0].config()).await.unwrap();
        assert_eq!(matches!(opened, Opened::Keeps(_)), keeps, "{ahead} {changes}: {opened:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_goes_on_from_one_part_and_the_lost_ones_that_come_back_after_all_are_not_merged() {
    let mut lab = Lab::settled(5).await;
    lab.visited_by("guest").await;
    let (earlier, epoch) = (lab.nodes[4].local().history(), lab.nodes[4].local().view().await.unwrap().epoch);
    // Three of five are lost; the fifth has merely not voted for long.
    for number in [0, 1, 2, 3] {
        lab.nodes[number].kill();
    }
    let survivor = lab.nodes[3].file();
    let part = Survivor::open(&survivor).unwrap();
    assert_eq!((part.cluster(), part.count(), part.arbiters().len()), ("lab", 5, 5));
    let aside = part.recover().unwrap();
    assert_eq!(aside, lab.nodes[3].dir.join("register.before-recovery"));
    assert!(matches!(Survivor::open(&survivor), Err(RecoverError::Alone)));
    lab.nodes[3].start().await;
    // Who followed the earlier one follows this one, also a node that had a part of that.
    for at in [3, 4] {
        lab.is(at, "n4", MemberState::Joined).await;
        lab.is(at, "n5", MemberState::Joined).await;
        lab.is(at, "n1", MemberState::Dead).await;
        let view = lab.nodes[at].local().view().await.unwrap();
        assert!(view.members.contains_key("guest") && view.epoch > epoch);
    }
    let later = lab.nodes[3].local().history();
    assert!(later != earlier && lab.nodes[4].local().history() == later);
    assert!(
        lab.nodes[4].local().problems()[0].contains("register.old"),
        "{:?}",
        lab.nodes[4].local().problems()
    );
    // They are most of the earlier one, and could lead that.
    for number in [0, 1, 2] {
        lab.nodes[number].start().await;
    }
    for number in [0, 1, 2] {
        let name = lab.nodes[number].name;
        lab.is(3, name, MemberState::Joined).await;
        let node = &lab.nodes[number];
        eventually("its part is put aside", async || node.local().history() == later).await;
        assert!(node.dir.join("register.old").exists());
        assert!(node.local().view().await.unwrap().epoch > epoch);
    }
    // With the next start they keep a part of this one.
    for number in [0, 1, 2, 4] {
        lab.nodes[number].kill();
        lab.nodes[number].start().await;
    }
    lab.has_arbiters(5).await;
    assert!(lab.nodes.iter().all(|node| node.local().history() == later));
    let leader = lab.leader().await;
    lab.nodes[leader].kill();
    // What became of a request that the leader had when it ended is not known.
    let other = lab.nodes[(leader + 1) % 5].coordinator();
    eventually("another one leads", async || other.join(join("new", 1, WallClock::now())).await.is_ok())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_goes_on_from_no_copy_no_blank_part_and_not_from_the_only_one() {
    let mut lab = Lab::settled(3).await;
    lab.start_another().await;
    lab.nodes[3].kill();
    let opened = |number: usize| Survivor::open(&lab.nodes[number].file()).unwrap_err().to_string();
    assert!(opened(3).contains("has no part of a registry"), "{}", opened(3));
    let gone = Survivor::open(&lab.nodes[3].dir.join("nothing")).unwrap_err();
    assert!(matches!(gone, RecoverError::NoPart { .. }), "{gone}");
    let bytes = std::fs::read(lab.nodes[1].file()).unwrap();
    let copy = lab.nodes[3].dir.join("copy");
    std::fs::write(&copy, bytes).unwrap();
    let copied = Survivor::open(&copy).unwrap_err();
    assert!(copied.to_string().contains("copy.moved"), "{copied}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_of_an_earlier_release_holds_up_who_keeps_the_registry_and_is_named() {
    let mut lab = Lab::founded(3).await;
    // It has never said where it could keep a part, and knows only where the registry was.
    lab.nodes[0].coordinator().join(join("early", 1, WallClock::now())).await.unwrap();
    lab.is(0, "early", MemberState::Dead).await;
    for number in 1..3 {
        lab.nodes[number].start().await;
        lab.is(0, lab.nodes[number].name, MemberState::Joined).await;
    }
    eventually("it is said", async || {
        lab.nodes[0]
            .local()
            .problems()
            .iter()
            .any(|problem| problem.contains("early") && problem.contains("cards forget"))
    })
    .await;
    lab.has_arbiters(1).await;
    lab.nodes[1].coordinator().submit(Change::Forget { name: "early".into() }).await.unwrap();
    lab.has_arbiters(3).await;
    eventually("all is well", async || lab.nodes.iter().all(|node| node.local().problems().is_empty())).await;
}
