//! The register of a group over each home, with answers that are lost and proposals that come late.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use cards_array::group::{Answer, Map, Marks, Member};
use cards_coordinator::{
    Change, Coordinator, Etcd, EtcdConfig, GroupRegister, NewMap, Refusal, Remote, RemoteConfig, Terms,
    ToldColumn, WallClock,
};
use cards_core::NodeId;

use crate::common::{join, new_group, seat, told_disk, uuid};
use crate::etcd::cluster::{Cluster, missing};
use crate::proxy::Proxy;
use crate::remote::served;

const A: Member = Member { node: NodeId(0), incarnation: 1 };
const B: Member = Member { node: NodeId(1), incarnation: 1 };

/// Makes a volume over disks of nodes a and b in a new registry; says its number.
async fn make_volume(home: &Coordinator) -> u32 {
    for (node, disk) in [("a", 1), ("b", 2)] {
        home.join(join(node, 1, WallClock::now())).await.unwrap();
        let disk = told_disk(disk, 8 << 20);
        home.submit(Change::PutManagedDisk { seat: seat(node, 1), disk }).await.unwrap();
    }
    home.submit(Change::CreateGroup(new_group("v", 9))).await.unwrap();
    for (node, disk) in [("a", 1), ("b", 2)] {
        let told =
            ToldColumn { seat: seat(node, 1), volume: uuid(9), group: 0, disk: uuid(disk), free: 4 << 20 };
        home.submit(Change::ColumnMade(told)).await.unwrap();
    }
    home.view().await.unwrap().groups["v"].number
}

async fn read(register: &mut GroupRegister) -> Map {
    match register.read().await {
        Answer::Read(map) => map,
        other => panic!("{other:?}"),
    }
}

/// What a proposal of this map is, as the registry is now.
async fn proposal(home: &Coordinator, number: u32, map: &Map) -> Change {
    let held = home.view().await.unwrap().maps[&number].clone();
    let (generation, epoch, fence) = (held.generation, held.epoch, held.fence);
    Change::PutMap(NewMap { number, generation, epoch, fence, map: map.encode() })
}

/// What a register does whose answers all come.
async fn two_processes(home: &Coordinator, number: u32) {
    let (mut of_a, mut of_b) =
        (GroupRegister::new(home.clone(), number), GroupRegister::new(home.clone(), number));
    let first = read(&mut of_a).await;
    assert_eq!(read(&mut of_b).await, first);
    let (by_a, by_b) = (first.taken_over(A).unwrap(), first.taken_over(B).unwrap());
    assert_eq!(of_a.propose(&by_a).await, Answer::Taken);
    assert_eq!(of_b.propose(&by_b).await, Answer::NotTaken);
    assert_eq!(read(&mut of_b).await, by_a);
    // What a process knows from others it may propose upon without having read it.
    let next = by_a.without(A, 1, 2, Marks(0)).unwrap();
    assert_eq!(of_a.propose(&next).await, Answer::Taken);
    let mut late = GroupRegister::new(home.clone(), number);
    assert_eq!(late.propose(&next).await, Answer::Taken, "it is there already");
    assert_eq!(late.propose(&next.taken_over(A).unwrap().taken_over(A).unwrap()).await, Answer::NotTaken);
    assert_eq!(read(&mut late).await, next);
    let mut none = GroupRegister::new(home.clone(), number + 1);
    assert_eq!((none.read().await, none.propose(&next).await), (Answer::Unknown, Answer::Unknown));
}

/// A port where nothing is ever answered.
fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    address
}

/// A register over `home`, which comes to the registry by way of the proxy, and is in doubt about this map: nobody has answered its
/// proposal, which has not come to the registry. The registry can be reached again.
async fn in_doubt(
    home: &Coordinator,
    number: u32,
    (proxy, server): (&Proxy, SocketAddr),
    request: &'static str,
) -> (GroupRegister, Map) {
    let mut register = GroupRegister::new(home.clone(), number);
    let first = read(&mut register).await;
    // The connections that are open end, and new ones lead nowhere.
    proxy.lead_to(silent());
    proxy.cut(request, true, || {});
    let _ = home.view().await;
    assert!(proxy.is_cut());
    let next = first.without(first.primary, 1, 1, Marks(0)).unwrap();
    assert_eq!(register.propose(&next).await, Answer::Unknown);
    assert_eq!(register.propose(&next).await, Answer::Unknown, "a read comes first");
    assert_eq!(register.read().await, Answer::Unknown, "nobody answers");
    proxy.lead_to(server);
    (register, next)
}

/// After a read that shows the map before it, a proposal is not taken however late it comes.
async fn late_proposal(direct: &Coordinator, number: u32, register: &mut GroupRegister, next: &Map) {
    let late = proposal(direct, number, next).await;
    let first = read(register).await;
    assert_eq!(first.term.epoch + 1, next.term.epoch);
    let refused = direct.submit(late).await.unwrap_err();
    assert!(matches!(refused.refusal(), Some(Refusal::MapNotTaken { fence: 1, .. })), "{refused}");
    assert_eq!(read(register).await, first);
    assert_eq!(register.propose(next).await, Answer::Taken, "it can be proposed anew");
    assert_eq!(read(register).await, *next);
}

/// A read that shows the proposal, or what has followed it, needs no fence.
async fn proposal_that_came(direct: &Coordinator, number: u32, register: &mut GroupRegister, next: &Map) {
    let late = proposal(direct, number, next).await;
    direct.submit(late.clone()).await.unwrap();
    assert_eq!(read(register).await, *next);
    let refused = proposal(direct, number, &next.taken_over(A).unwrap()).await;
    direct.submit(refused).await.unwrap();
    let view = direct.view().await.unwrap();
    assert_eq!((view.maps[&number].fence, view.maps[&number].epoch), (0, 3));
    assert!(direct.submit(late).await.is_err());
}

fn impatient(address: SocketAddr) -> RemoteConfig {
    RemoteConfig {
        connect_timeout: Duration::from_millis(500),
        request_timeout: Duration::from_millis(500),
        patience: Duration::from_millis(500),
        ..RemoteConfig::new(&address.to_string(), "lab")
    }
}

#[tokio::test]
async fn a_register_at_this_node_and_at_another() {
    let here = served(3_600_000).await;
    let home = Coordinator::Local(here.home.clone());
    let number = make_volume(&home).await;
    two_processes(&home, number).await;
    let there = served(3_600_000).await;
    let home = there.client().await;
    let number = make_volume(&home).await;
    two_processes(&home, number).await;
}

#[tokio::test]
async fn a_proposal_whose_answer_another_node_owes_is_settled_by_a_read() {
    for came in [false, true] {
        let served = served(3_600_000).await;
        let direct = served.client().await;
        let number = make_volume(&direct).await;
        let proxy = Proxy::before(served.address).await;
        let home = Coordinator::Remote(Remote::open(impatient(proxy.address)).await.unwrap());
        let (mut register, next) = in_doubt(&home, number, (&proxy, served.address), "GET").await;
        match came {
            true => proposal_that_came(&direct, number, &mut register, &next).await,
            false => late_proposal(&direct, number, &mut register, &next).await,
        }
    }
}

#[tokio::test]
async fn a_proposal_that_a_caller_no_longer_waits_for_is_in_doubt() {
    let served = served(3_600_000).await;
    let home = served.client().await;
    let number = make_volume(&home).await;
    let mut register = GroupRegister::new(home.clone(), number);
    let next = read(&mut register).await.taken_over(A).unwrap();
    let late = proposal(&home, number, &next).await;
    tokio::select! {
        biased;
        answer = register.propose(&next) => panic!("{answer:?}"),
        () = std::future::ready(()) => {}
    }
    let found = read(&mut register).await;
    let after = home.submit(late).await;
    assert!(found == next || after.is_err(), "either it was there, or it does not come any more");
}

#[tokio::test]
async fn a_register_in_etcd() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    let terms = Terms { lease: Duration::from_secs(30), ..Terms::new("lab") };
    let direct = Coordinator::Etcd(Etcd::create(&cluster.config(), &terms).await.unwrap());
    let number = make_volume(&direct).await;
    two_processes(&direct, number).await;
}

#[tokio::test]
async fn a_proposal_whose_answer_etcd_owes_is_settled_by_a_read() {
    if missing("etcd") {
        return;
    }
    for came in [false, true] {
        let cluster = Cluster::start(1, &[]);
        let terms = Terms { lease: Duration::from_secs(30), ..Terms::new("lab") };
        let direct = Coordinator::Etcd(Etcd::create(&cluster.config(), &terms).await.unwrap());
        let number = make_volume(&direct).await;
        let server = cluster.config().endpoints[0].strip_prefix("http://").unwrap().parse().unwrap();
        let proxy = Proxy::before(server).await;
        let endpoints = vec![format!("http://{}", proxy.address)];
        let config = EtcdConfig { endpoints, patience: Duration::from_secs(2), ..cluster.config() };
        let home = Coordinator::Etcd(Etcd::open(&config, "lab").await.unwrap());
        let (mut register, next) = in_doubt(&home, number, (&proxy, server), "POST").await;
        match came {
            true => proposal_that_came(&direct, number, &mut register, &next).await,
            false => late_proposal(&direct, number, &mut register, &next).await,
        }
    }
}

#[tokio::test]
async fn a_proposal_is_made_once_though_its_answer_is_lost_in_etcd() {
    if missing("etcd") {
        return;
    }
    let cluster = Cluster::start(1, &[]);
    let terms = Terms { lease: Duration::from_secs(30), ..Terms::new("lab") };
    let direct = Coordinator::Etcd(Etcd::create(&cluster.config(), &terms).await.unwrap());
    let number = make_volume(&direct).await;
    let server = cluster.config().endpoints[0].strip_prefix("http://").unwrap().parse().unwrap();
    let proxy = Proxy::before(server).await;
    let config = EtcdConfig { endpoints: vec![format!("http://{}", proxy.address)], ..cluster.config() };
    let home = Coordinator::Etcd(Etcd::open(&config, "lab").await.unwrap());
    let mut register = GroupRegister::new(home, number);
    let next = read(&mut register).await.taken_over(A).unwrap();
    proxy.cut("POST /v3/kv/txn", true, || {});
    let answer = register.propose(&next).await;
    assert!(proxy.is_cut() && matches!(answer, Answer::Taken | Answer::Unknown), "{answer:?}");
    assert_eq!(read(&mut register).await, next);
    assert_eq!(direct.view().await.unwrap().maps[&number].epoch, 2);
}
