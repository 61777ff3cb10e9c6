//! A daemon that is scraped: its metrics are well formed, thousands of scrapes cost no memory, and Prometheus' own
//! checker has nothing to say against them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::tools::need;
use crate::harness::{MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 41;

fn one_node(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, SEED);
    Cluster::start(Plan::new(dir, 1).disk(Disk::file(&image)).cache("16M"))
}

/// The API's socket beside the admin socket.
fn api(cluster: &mut Cluster) -> PathBuf {
    api_of(cluster, 1)
}

fn api_of(cluster: &mut Cluster, number: usize) -> PathBuf {
    Path::new(&cluster.node(number).admin_socket()).with_file_name("api.sock")
}

/// The metrics of a node.
pub(crate) fn metrics(cluster: &mut Cluster, number: usize) -> String {
    Scraper::connect(&api_of(cluster, number)).scrape()
}

/// Scrapes over one connection.
struct Scraper(BufReader<UnixStream>);

impl Scraper {
    fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("the API's socket");
        stream.set_read_timeout(Some(SHORT)).expect("a timeout");
        Self(BufReader::new(stream))
    }

    fn scrape(&mut self) -> String {
        self.0.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("a request");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a header");
            let line = line.trim().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        String::from_utf8(body).expect("text")
    }
}

fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

/// Resident bytes, as the daemon itself says.
fn resident(text: &str) -> f64 {
    value(text, "process_resident_memory_bytes").expect("the daemon says what memory it has")
}

#[test]
fn thousands_of_scrapes_cost_no_memory() {
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    cluster.export(1, "disk").check_all(SEED);
    let socket = api(&mut cluster);
    let mut scraper = Scraper::connect(&socket);
    // The daemon takes the memory of its cache in the background, and what is only needed once for the first scrapes.
    let tasks = format!("/proc/{}/task", cluster.export(1, "disk").pid);
    eventually("the daemon has the memory of its cache", SHORT, || {
        let mut tasks = std::fs::read_dir(&tasks).expect("the daemon lives").flatten();
        let takes = |comm: String| comm.trim() == "cards-prefault";
        let taking = tasks.any(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(takes));
        (!taking).then_some(())
    });
    for _ in 0..200 {
        scraper.scrape();
    }
    let before = resident(&scraper.scrape());
    for _ in 0..3_000 {
        scraper.scrape();
    }
    for _ in 0..200 {
        Scraper::connect(&socket).scrape();
    }
    let after = resident(&scraper.scrape());
    // A scrape is tens of KiB: all of them together would be a hundred MiB.
    assert!(after - before < 8.0 * MIB as f64, "{before} bytes before, {after} after");
}

#[test]
fn what_a_client_does_is_seen_in_the_metrics() {
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    let mut scraper = Scraper::connect(&api(&mut cluster));
    let reads = "cards_requests_total{volume=\"disk\",op=\"read\"}";
    let before = value(&scraper.scrape(), reads).unwrap_or(0.0);
    let mut client = cluster.export(1, "disk").open();
    for block in 0..100 {
        client.read(block * 4096, 4096).expect("a read");
    }
    client.flush().expect("a flush");
    client.close();
    eventually("all requests are counted", SHORT, || {
        let text = scraper.scrape();
        // What was read before is counted when its reply has left, which may be now.
        let all = value(&text, reads)? >= before + 100.0;
        (all && value(&text, "cards_requests_total{volume=\"disk\",op=\"flush\"}")? >= 1.0).then_some(())
    });
}

#[test]
fn prometheus_takes_the_metrics() {
    need!("promtool");
    let dir = scratch();
    let mut cluster = one_node(dir.path());
    cluster.export(1, "disk").check_all(SEED);
    let text = Scraper::connect(&api(&mut cluster)).scrape();
    // `promtool check metrics` knows the older format only. To fill a database it reads OpenMetrics, as a server does
    // that scrapes, if each sample has a time.
    let timed = text
        .lines()
        .map(|line| if line.starts_with('#') { format!("{line}\n") } else { format!("{line} 1795000000\n") });
    let (file, database) = (dir.path().join("metrics.txt"), dir.path().join("database"));
    std::fs::write(&file, timed.collect::<String>()).expect("a file");
    let done = Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&file, &database])
        .output()
        .expect("promtool");
    assert!(done.status.success(), "{}\n{text}", String::from_utf8_lossy(&done.stderr));
}
