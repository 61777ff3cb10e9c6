//! `cards dev`: a captive cluster of real daemons that lives as long as one command.

mod report;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cards_config::{Attached, Delivery, Handover, PolicySpec, duration, size};
use cards_layout::layout::Layout;
use cards_policies::Replacement;
use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;

use crate::captive::{CaptiveError, Cluster, DiskFrom, MirrorPlan, Plan};
use crate::card_args::CardArgs;
use crate::complete;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::signals::Signals;

/// Run a captive cluster on this machine, for as long as a command or until Ctrl-C
#[derive(Debug, Args)]
#[command(after_help = "\
Node 1 has the disk; every node attaches it as the volume `disk` and exports it over NBD. With --layout each
node has a managed disk, and the volume is on these. Of raid1 the first nodes have copies, of raid10 any two of each part: kill
any node with -9, and I/O goes on.
The command is run by `sh -c` and gets
  $uri1 ... $uriN  the volume at each node: nbd+unix:///disk?socket=...    $uri is $uri1
  $web1 ... $webN  the dashboard at each node: http://127.0.0.1:...
  $nbd             the same for old tools: nbd:unix:...:exportname=disk
  $tcp1 ... $tcpN  with --tcp: nbd://127.0.0.1:PORT/disk
  $CARDS_DIR       nodeN.toml, nodeN.pid, nodeN.log, nodeN/admin.sock, nodeN/nbd.sock
  $CARDS_NODES     the number of nodes
  $pid1 ... $pidN  the daemons; `cards serve --config $CARDS_DIR/nodeN.toml &` brings one back
The exit status is the command's; 128 + N if signal N ended it. At the end, the counters of every
node are printed, in blocks. With --json that is exactly one JSON object on standard output, and the
command's own standard output goes to standard error:
  nodes[]  name, reads = local_hits + remote_hits + disk_reads, writes, evictions, forwarded,
           stored_for_others, served (the peers' remote_hits), messages_sent, messages_received,
           bytes_sent, bytes_received (peers), bytes_read, bytes_written (clients), and more;
           unreachable, the reason, for a node that does not answer any more
  disk     reads, writes, bytes_read, bytes_written; of all copies of a mirrored volume together

Examples:
  cards dev --disk disk.img --run 'nbdcopy $uri2 null: && nbdcopy $uri3 null:'
  cards dev --disk disk.img --read-only --disk-delay 10ms --json --run 'qemu-img compare disk.img $uri2'
  cards dev --policy 'hscc depth=3' --replacement lru
  cards dev --layout raid1 --size 1G
  cards dev --layout raid1:3 --run 'nbdcopy disk.img $uri2 & sleep 1; kill -9 $pid1; wait $!'
  cards dev --nodes 4 --layout raid10 --size 4G")]
pub(crate) struct Dev {
    /// Number of nodes
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,

    /// Cache of each node
    #[arg(long, default_value = "256M", value_name = "SIZE", value_parser = size::parse)]
    cache: u64,

    /// The unit of caching
    #[arg(long, default_value = "64K", value_name = "SIZE", value_parser = size::parse)]
    block: u64,

    /// The policy, with parameters if any; see `cards policy list`
    #[arg(long, default_value = "auto", value_name = "POLICY", add = complete::policies())]
    policy: PolicySpec,

    /// Which block leaves a full cache
    #[arg(long, default_value = "s3-fifo", value_parser = replacement())]
    replacement: Replacement,

    /// A file, a block device, an NBD URI or the URL of an object (https://, http://, s3://) as the disk [default: a new sparse file]
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    disk: Option<String>,

    /// Size of the new sparse file, or of the volume over managed disks
    #[arg(long, default_value = "1G", value_parser = size::parse)]
    size: u64,

    /// A volume over new managed disks of the nodes: `raid1:N` has N copies (default 2), each at another node; `raid10:N` the same for
    /// each of its parts, spread over all; `raid0` and `linear` have none [default: one plain disk, at node 1]
    #[arg(long, value_name = "LAYOUT", conflicts_with = "disk")]
    layout: Option<Layout>,

    /// The disk cannot be written
    #[arg(long)]
    read_only: bool,

    /// Open the disk past the page cache (O_DIRECT)
    #[arg(long)]
    direct: bool,

    /// Modelled slow disk: added to each read
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = duration::parse)]
    disk_delay: Duration,

    /// Modelled slow disk: bytes per second, 0 is no limit
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = size::parse)]
    disk_rate: u64,

    /// How the disk node answers: on completion, a thread per request, or one after the other
    #[arg(long, default_value = "event",
        value_parser = PossibleValuesParser::new(["event", "thread", "sync"]).map(delivery))]
    delivery: Delivery,

    /// computer: the disk node keeps copies too; network: the requester has the single copy
    #[arg(long, default_value = "computer",
        value_parser = PossibleValuesParser::new(["computer", "network"]).map(attached))]
    attached: Attached,

    /// cache: what was just written is read from its writer's memory; disk: from the disk
    #[arg(long, default_value = "cache",
        value_parser = PossibleValuesParser::new(["cache", "disk"]).map(handover))]
    handover: Handover,

    #[command(flatten)]
    card: CardArgs,

    /// Parts of each cache [default: 16, or fewer if the cache is small]
    #[arg(long, value_name = "N")]
    shards: Option<u32>,

    /// Data threads of each node
    #[arg(long, default_value_t = 1, value_name = "N")]
    data_threads: usize,

    /// Take the memory of the caches at start
    #[arg(long)]
    prefault: bool,

    /// A peer that does not answer for this long is passed over
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = duration::parse)]
    peer_timeout: Duration,

    /// A disk node that does not answer for this long gives EIO
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    disk_wait: Duration,

    /// How long a card serves blocks of a writable volume without renewal
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = duration::parse)]
    lease: Duration,

    /// Export over TCP as well, on free ports of 127.0.0.1
    #[arg(long)]
    tcp: bool,

    /// Let the nodes talk in the clear: what their proofs and encryption cost is the difference
    #[arg(long)]
    insecure: bool,

    /// Print the counters as one JSON object
    #[arg(long)]
    json: bool,

    /// The command; without it the cluster stays up until Ctrl-C
    #[arg(long, value_name = "CMD")]
    run: Option<String>,
}

fn replacement() -> impl clap::builder::TypedValueParser<Value = Replacement> {
    PossibleValuesParser::new(Replacement::ALL.map(Replacement::name))
        .map(|name| name.parse().unwrap_or_default())
}

fn delivery(name: String) -> Delivery {
    [Delivery::Thread, Delivery::Sync].into_iter().find(|d| d.name() == name).unwrap_or_default()
}

fn attached(name: String) -> Attached {
    if name == Attached::Network.name() { Attached::Network } else { Attached::Computer }
}

fn handover(name: String) -> Handover {
    if name == Handover::Disk.name() { Handover::Disk } else { Handover::Cache }
}

impl Dev {
    pub(crate) fn run(self, cx: &Context) -> Result<ExitCode, Error> {
        let signals = Signals::block();
        let mut cluster = Cluster::start(&self.plan(cx.verbose)?, &signals)?;
        let code = match &self.run {
            Some(command) => run::command(command, &cluster, self.json, &signals)?,
            None => {
                let uris = run::uris(&cluster);
                if self.json {
                    eprint!("{uris}")
                } else {
                    output::print(&uris)?
                }
                cluster.stay(&signals);
                0
            }
        };
        let report = report::Report::collect(&cluster);
        cluster.stop();
        output::print_either(self.json, &report, || report.to_string())?;
        Ok(ExitCode::from(code))
    }

    fn plan(&self, verbose: u8) -> Result<Plan, CaptiveError> {
        Ok(Plan {
            nodes: self.nodes.into(),
            cache: self.cache,
            block: self.block,
            policy: self.policy.clone(),
            replacement: self.replacement,
            disk: match (&self.disk, self.layout) {
                (_, Some(layout @ (Layout::Raid5 { .. } | Layout::Raid6 { .. }))) => {
                    return Err(CaptiveError::Layout(layout));
                }
                (_, Some(layout)) => DiskFrom::Mirror(MirrorPlan { layout, bytes: self.size }),
                (Some(disk), None) if disk.contains("://") => DiskFrom::Uri(disk.clone()),
                (Some(disk), None) => DiskFrom::File(PathBuf::from(disk)),
                (None, None) => DiskFrom::Sparse(self.size),
            },
            read_only: self.read_only,
            direct: self.direct,
            disk_delay: self.disk_delay,
            disk_rate: self.disk_rate,
            delivery: self.delivery,
            attached: self.attached,
            handover: self.handover,
            mode: self.card.mode,
            read_ahead: self.card.read_ahead,
            shards: self.shards,
            data_threads: self.data_threads,
            prefault: self.prefault,
            peer_timeout: self.peer_timeout,
            disk_wait: self.disk_wait,
            lease: self.lease,
            tcp: self.tcp,
            insecure: self.insecure,
            verbose,
        })
    }
}
