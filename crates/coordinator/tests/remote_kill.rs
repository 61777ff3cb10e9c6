//! `kill -9` of a coordinator between request and answer.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use cards_coordinator::{Coordinator, Local, Remote, RemoteConfig, Revision, WallClock, serve};

use crate::common::{alone, join, opened, seat, terms, visits, volume};
use crate::proxy::Proxy;

/// Where the child finds its registry; without it there is nothing to do.
const REGISTRY: &str = "CARDS_TEST_SERVED_REGISTRY";

/// Not a test of its own: the coordinator that is killed. Prints where it listens.
#[tokio::test]
async fn child_that_serves_until_it_is_killed() {
    let Some(file) = std::env::var_os(REGISTRY) else { return };
    let home = opened(Path::new(&file)).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listens {}", listener.local_addr().unwrap());
    serve(visits(listener, None), home, None, None, None, std::future::pending()).await;
}

/// A coordinator in a process of its own.
struct Process {
    file: PathBuf,
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["remote_kill::child_that_serves_until_it_is_killed", "--exact", "--nocapture"])
            .env(REGISTRY, file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address =
            lines.find_map(|line| line.strip_prefix("listens ").map(|address| address.parse().unwrap()));
        Self { file: file.to_owned(), child, address: address.expect("the child listens") }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn kill_and_restart(&mut self) {
        self.kill();
        *self = Self::start(&self.file.clone());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Kills the coordinator after the next request that begins so and starts another on its registry.
fn kill_at(proxy: &Proxy, process: &Arc<Mutex<Process>>, request: &'static str, answered: bool) {
    let (to, process) = (proxy.clone(), Arc::clone(process));
    proxy.cut(request, answered, move || {
        let mut process = process.lock().unwrap();
        process.kill_and_restart();
        to.lead_to(process.address);
    });
}

#[tokio::test]
async fn a_coordinator_killed_between_request_and_answer_loses_nothing_and_its_clients_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("registry");
    drop(Local::found(alone(&file), &terms(3_600_000)).unwrap());
    let process = Arc::new(Mutex::new(Process::start(&file)));
    let address = process.lock().unwrap().address;
    let proxy = Proxy::before(address).await;
    let config = RemoteConfig::new(&proxy.address.to_string(), "lab");
    let home = Coordinator::Remote(Remote::open(config).await.unwrap());
    let (submit, changed) = ("POST /v1/coordinator/submit", "GET /v1/coordinator/changed");

    kill_at(&proxy, &process, submit, true);
    assert_eq!(home.join(join("a", 1, WallClock::now())).await.unwrap().applied.id, Some(0));
    kill_at(&proxy, &process, submit, false);
    assert_eq!(home.join(join("b", 1, WallClock::now())).await.unwrap().applied.id, Some(1));
    home.put_disk(&seat("a", 1), "wwn-1", 1 << 30).await.unwrap();
    home.put_volume(volume("v", "wwn-1")).await.unwrap();
    let mut last = home.view().await.unwrap();
    assert_eq!((last.epoch.0, last.revision.0), (2, 4), "each change has been made once");
    for turn in 0..6 {
        kill_at(&proxy, &process, submit, turn % 2 == 0);
        let policy = format!("policy {turn}");
        let applied = home.set_policy("v", &policy).await.unwrap();
        assert!(proxy.is_cut());
        let view = home.view().await.unwrap();
        assert_eq!(view.revision, applied.revision);
        assert_eq!(view.revision, Revision(last.revision.0 + 1), "each change has been made once");
        assert_eq!(view.volumes["v"].policy, policy);
        last = view;
    }

    kill_at(&proxy, &process, changed, false);
    let waiter = tokio::spawn({
        let home = home.clone();
        async move { home.changed(last.revision).await }
    });
    while !proxy.is_cut() {
        tokio::task::yield_now().await;
    }
    let applied = home.set_policy("v", "at last").await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap().revision, applied.revision, "who waits goes on too");
}
