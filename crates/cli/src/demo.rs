//! `cards demo`: the main job, shown on this machine; what `make run` runs.

mod error;
mod image;
mod load;
mod reader;
mod report;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use cards_config::{Attached, Delivery, Handover, Mode, PolicySpec, ReadAhead, duration, size};
use cards_policies::Replacement;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub(crate) use error::DemoError;

use crate::dev::{Cluster, Daemon, DiskFrom, Plan};
use crate::error::Error;
use crate::output;
use crate::signals::Signals;
use load::Load;
use report::{Pass, Report};

/// The unit of caching of the demonstration, in bytes.
const BLOCK: u64 = 64 << 10;

/// Show the main job: what one node has read, the others get from its memory
#[derive(Debug, Args)]
#[command(after_help = "\
Starts three daemons; node 1 has a disk image with real content, made on first use, behind a
modelled slow disk. Node 2 reads the whole volume cold, then node 3 reads it. The cluster stays up
until Ctrl-C.

Examples:
  cards demo
  cards demo --size 1G --disk-delay 10ms --policy hdc
  cards demo --once")]
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
    #[arg(long, default_value = "hscc", value_name = "POLICY")]
    policy: PolicySpec,

    /// Directory of the disk image [default: ~/.cache/cards, else ./run]
    #[arg(long, value_name = "DIR", env = "CARDS_CACHE_DIR")]
    dir: Option<PathBuf>,

    /// End after the table
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
    pub(crate) fn run(self, verbose: u8) -> Result<(), Error> {
        let signals = Signals::block();
        let (image, contents) = image::find_or_make(self.dir.as_deref(), self.size, &signals)?;
        output::print(&format!("disk image   {} ({contents})\n", image.display()))?;
        let mut cluster = Cluster::start(&self.plan(&image, verbose), &signals)?;
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
        let cold = self.pass(&cluster, &image, 1, "n2 reads it all, cold", &signals)?;
        let before = load();
        let warm = self.pass(&cluster, &image, 2, "n3 reads it after n2", &signals)?;
        let others = load().others_since(&before);
        let disk_reads = cluster.nodes[0].status()?.disks.iter().map(|disk| disk.counters.reads).sum();
        let report = Report { passes: [cold, warm], disk_reads, disk_rate: self.disk_rate, others };
        output::print(&report.to_string())?;
        if !self.once {
            output::print(&next_steps(&cluster))?;
            cluster.stay(&signals);
        }
        cluster.stop();
        Ok(())
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
            nodes: 3,
            // The whole volume fits, and a quarter more.
            cache: (self.size + self.size / 4).max(16 << 20),
            block: BLOCK,
            policy: self.policy.clone(),
            replacement: Replacement::default(),
            disk: DiskFrom::File(image.into()),
            read_only: true,
            direct: false,
            disk_delay: self.disk_delay,
            disk_rate: self.disk_rate,
            delivery: Delivery::Event,
            attached: Attached::Computer,
            handover: Handover::Cache,
            mode: Mode::Rw,
            read_ahead: ReadAhead::Auto,
            shards: None,
            data_threads: 1,
            prefault: true,
            // On a busy machine a node that answers late is waited for: to read its blocks from the disk would show nothing.
            peer_timeout: Duration::from_secs(5),
            disk_wait: Duration::from_secs(30),
            lease: Duration::from_secs(10),
            tcp: true,
            insecure: false,
            verbose,
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
The cluster stays up until Ctrl-C. In another terminal:
  nbdcopy --progress '{uri3}' null:
  qemu-img compare -f raw -F raw '{uri1}' '{uri2}'
  qemu-img info '{tcp}'
  fio --name=hit --ioengine=nbd --uri='{uri3}' --rw=randread --bs=64k --iodepth=8 --time_based --runtime=5
  cards status --socket {socket}
  cards volume list --socket {socket}
{dashboard}"
    )
}
