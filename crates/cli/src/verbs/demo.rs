//! `cards demo`: the main job, shown on this machine; what `make run` runs.

mod connection;
mod error;
mod image;
mod load;
mod outage;
mod reader;
mod report;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use cards_config::{PolicySpec, duration, size};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(crate) use error::DemoError;

use crate::captive::{Cluster, Daemon, DiskFrom, Plan};
use crate::complete;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::signals::Signals;
use load::Load;
use report::{Pass, Report};

/// The unit of caching of the demonstration, in bytes.
const BLOCK: u64 = 64 << 10;

/// Show the main job: what one node has read, the others get from its memory, and a node may be killed
#[derive(Debug, Args)]
#[command(after_help = "\
The first act starts three daemons; node 1 has a disk image with real content, made on first use, behind a
modelled slow disk. Node 2 reads the whole volume cold, then node 3 reads it. This cluster stays up
until Ctrl-C.
The second act starts three others, with a mirrored volume. Node 1 orders its writes, and is killed with -9 while node 2
reads and writes; then it comes back. It takes about 20 s.

Examples:
  cards demo
  cards demo --size 1G --disk-delay 10ms --policy hdc
  cards demo --once
  cards demo --act 2")]
pub(crate) struct Demo {
    /// Size of the disk image
    #[arg(long, default_value = "256M", value_parser = image_size)]
    size: u64,

    /// Modelled slow disk: added to each read
    #[arg(long, default_value = "2ms", value_name = "TIME", value_parser = duration::parse)]
    disk_delay: Duration,

    /// Modelled slow disk: bytes per second, 0 is no limit
    #[arg(long, default_value = "60M", value_name = "SIZE", value_parser = size::parse)]
    disk_rate: u64,

    /// The policy, with parameters if any; see `cards policy list`
    #[arg(long, default_value = "auto", value_name = "POLICY", add = complete::policies())]
    policy: PolicySpec,

    /// Directory of the disk image [default: ~/.cache/cards, else ./run]
    #[arg(long, value_name = "DIR", env = "CARDS_CACHE_DIR")]
    dir: Option<PathBuf>,

    /// Only this act: 1 the caches, 2 the node that is killed
    #[arg(long, value_name = "ACT", value_parser = clap::value_parser!(u8).range(1..=2))]
    act: Option<u8>,

    /// End after the tables
    #[arg(long)]
    once: bool,
}

fn image_size(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text).map_err(|e| e.to_string())?;
    if !(1 << 20..=1 << 40).contains(&bytes) || !bytes.is_multiple_of(BLOCK) {
        return Err("the image has 1M to 1T, a multiple of 64K".into());
    }
    Ok(bytes)
}

impl Demo {
    pub(crate) fn run(self, cx: &Context) -> Result<(), Error> {
        let signals = Signals::block();
        let cluster = if self.act == Some(2) { None } else { Some(self.caches(cx, &signals)?) };
        if self.act != Some(1) {
            output::print(
                "\nA mirrored volume at three other daemons: n1 and n2 have copies, and n1 is killed in 8 s.\n\n",
            )?;
            output::print(&outage::run(cx.verbose, &signals)?.to_string())?;
        }
        if let Some(mut cluster) = cluster {
            if !self.once {
                output::print(&next_steps(&cluster))?;
                cluster.stay(&signals);
            }
            cluster.stop();
        }
        Ok(())
    }

    /// The first act; its cluster is up.
    fn caches(&self, cx: &Context, signals: &Signals) -> Result<Cluster, Error> {
        let (image, contents) = image::find_or_make(self.dir.as_deref(), self.size, signals)?;
        output::print(&format!("disk image   {} ({contents})\n", image.display()))?;
        let cluster = Cluster::start(&self.plan(&image, cx.verbose), signals)?;
        output::print(&format!(
            "cluster      3 daemons on this machine; n1 has the disk, modelled: {} a read, {}\n\n",
            duration::exact(self.disk_delay),
            if self.disk_rate == 0 {
                "any rate".into()
            } else {
                format!("{}/s", size::human(self.disk_rate))
            }
        ))?;
        let load = || Load::now(cluster.nodes.iter().map(Daemon::pid).chain([std::process::id()]));
        let cold = self.pass(&cluster, &image, 1, "n2 reads it all, cold", signals)?;
        let before = load();
        let warm = self.pass(&cluster, &image, 2, "n3 reads it after n2", signals)?;
        let others = load().others_since(&before);
        let disk_reads = cluster.nodes[0].status()?.disks.iter().map(|disk| disk.counters.reads).sum();
        let report = Report { passes: [cold, warm], disk_reads, disk_rate: self.disk_rate, others };
        output::print(&report.to_string())?;
        Ok(cluster)
    }

    /// Reads the whole volume at node `i`, from 0, and compares it with the image.
    fn pass(
        &self,
        cluster: &Cluster,
        image: &std::path::Path,
        i: usize,
        what: &'static str,
        signals: &Signals,
    ) -> Result<Pass, Error> {
        let node = &cluster.nodes[i];
        let before = node.status()?.counters;
        let bar = progress_bar(what, self.size);
        let elapsed = reader::read_all(&cluster.socket(i), image, signals, |bytes| bar.inc(bytes))?;
        bar.finish_and_clear();
        let counters = node.status()?.counters.since(&before);
        Ok(Pass { what, bytes: self.size, elapsed, counters })
    }

    fn plan(&self, image: &std::path::Path, verbose: u8) -> Plan {
        Plan {
            // The whole volume fits, and a quarter more.
            cache: (self.size + self.size / 4).max(16 << 20),
            block: BLOCK,
            policy: self.policy.clone(),
            read_only: true,
            disk_delay: self.disk_delay,
            disk_rate: self.disk_rate,
            prefault: true,
            // On a busy machine a node that answers late is waited for: to read its blocks from the disk would show nothing.
            peer_timeout: Duration::from_secs(5),
            lease: Duration::from_secs(10),
            tcp: true,
            verbose,
            ..Plan::new(3, DiskFrom::File(image.into()))
        }
    }
}

fn progress_bar(what: &'static str, bytes: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template("{msg}  [{bar:30}] {bytes}/{total_bytes}  {bytes_per_sec}");
    let style = style.expect("the template is constant").progress_chars("=> ");
    ProgressBar::with_draw_target(Some(bytes), target).with_style(style).with_message(what)
}

/// What to paste into another terminal.
fn next_steps(cluster: &Cluster) -> String {
    let (uri1, uri2, uri3) = (cluster.uri(0), cluster.uri(1), cluster.uri(2));
    let tcp = cluster.tcp_uri(2).unwrap_or_default();
    let socket = cluster.nodes[2].config.admin_socket();
    let socket = socket.display();
    let dashboard = cluster.dashboard(2).map(|page| format!("  {page} in a browser\n")).unwrap_or_default();
    format!(
        "
The cluster of the first act stays up until Ctrl-C. In another terminal:
  nbdcopy --progress '{uri3}' null:
  qemu-img compare -f raw -F raw '{uri1}' '{uri2}'
  qemu-img info '{tcp}'
  fio --name=hit --ioengine=nbd --uri='{uri3}' --rw=randread --bs=64k --iodepth=8 --time_based --runtime=5
  cards status --socket {socket}
  cards volume list --socket {socket}
  cards dev --layout raid1
{dashboard}"
    )
}
