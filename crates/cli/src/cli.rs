//! The command line: verbs and what they share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cards_admin::Client;
use clap::{Args, Parser, Subcommand};

use crate::error::Error;
use crate::{
    advise, attach, bench, check, cluster, completions, demo, detach, dev, device, disk, doctor, join,
    layout, leave, lock, man, mount, paper, policy, profile, replay, serve, sim, spans, status, top, trace,
    umount, volume, warm, why,
};

/// Cluster-aware remote disks: the disks and the memories of a cluster as one.
#[derive(Debug, Parser)]
#[command(
    name = "cards",
    version,
    max_term_width = 100,
    after_help = "\
Start with `cards demo`, or with a captive cluster:
  cards dev --nodes 3 --run 'nbdinfo $uri'

Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub(crate) struct Cli {
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Serve(serve::Serve),
    Cluster(cluster::Cluster),
    Join(Box<join::Join>),
    Leave(leave::Leave),
    Forget(leave::Forget),
    Dev(Box<dev::Dev>),
    Device(Box<device::Device>),
    Demo(demo::Demo),
    Status(status::Status),
    Top(top::Top),
    Why(why::Why),
    Spans(spans::Spans),
    Doctor(doctor::Doctor),
    Advise(advise::Advise),
    Volume(volume::Volume),
    Disk(disk::Disk),
    Layout(layout::Layout),
    Warm(Box<warm::Warm>),
    Profile(Box<profile::Profile>),
    Attach(Box<attach::Attach>),
    Detach(detach::Detach),
    Mount(Box<mount::Mount>),
    Umount(umount::Umount),
    Lock(Box<lock::Lock>),
    Policy(policy::Policy),
    Sim(Box<sim::Sim>),
    Trace(trace::Trace),
    Paper(paper::PaperVerb),
    Replay(Box<replay::Replay>),
    Check(Box<check::Check>),
    Bench(bench::Bench),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Runs the verb; its exit status if it got that far.
    pub(crate) fn run(self) -> Result<ExitCode, Error> {
        let done = |()| ExitCode::SUCCESS;
        match self.verb {
            Verb::Serve(verb) => verb.run(self.verbose).map(done),
            Verb::Cluster(verb) => verb.run().map(done),
            Verb::Join(verb) => verb.run(self.verbose).map(done),
            Verb::Leave(verb) => verb.run().map(done),
            Verb::Forget(verb) => verb.run().map(done),
            Verb::Dev(verb) => verb.run(self.verbose),
            Verb::Device(verb) => verb.run(self.verbose).map(done),
            Verb::Demo(verb) => verb.run(self.verbose).map(done),
            Verb::Status(verb) => verb.run(self.verbose).map(done),
            Verb::Top(verb) => verb.run().map(done),
            Verb::Why(verb) => verb.run().map(done),
            Verb::Spans(verb) => verb.run().map(done),
            Verb::Doctor(verb) => verb.run(),
            Verb::Advise(verb) => verb.run().map(done),
            Verb::Volume(verb) => verb.run().map(done),
            Verb::Disk(verb) => verb.run(),
            Verb::Layout(verb) => verb.run(),
            Verb::Warm(verb) => verb.run(),
            Verb::Profile(verb) => verb.run(),
            Verb::Attach(verb) => verb.run().map(done),
            Verb::Detach(verb) => verb.run().map(done),
            Verb::Mount(verb) => verb.run().map(done),
            Verb::Umount(verb) => verb.run().map(done),
            Verb::Lock(verb) => Ok(verb.run()),
            Verb::Policy(verb) => verb.run().map(done),
            Verb::Sim(verb) => verb.run(),
            Verb::Trace(verb) => verb.run(),
            Verb::Paper(verb) => verb.run(),
            Verb::Replay(verb) => verb.run(self.verbose),
            Verb::Check(verb) => Ok(verb.run(self.verbose)),
            Verb::Bench(verb) => verb.run(),
            Verb::Completions(verb) => verb.run().map(done),
            Verb::Man(verb) => verb.run().map(done),
        }
    }
}

/// Which daemon to talk to.
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// Admin socket of the daemon: admin.sock in its runtime_dir
    #[arg(long, value_name = "PATH", env = "CARDS_SOCKET", default_value = "/run/cards/admin.sock")]
    socket: PathBuf,
}

impl Daemon {
    /// Its admin socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Connects to its admin socket.
    pub(crate) fn connect(&self) -> Result<Client, Error> {
        Ok(Client::connect(&self.socket)?)
    }

    /// Connects to its admin socket; each request may take `timeout`.
    pub(crate) fn connect_within(&self, timeout: std::time::Duration) -> Result<Client, Error> {
        Ok(Client::connect_within(&self.socket, timeout)?)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples() {
        fn check(command: &clap::Command) {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let leaf = !command.has_subcommands();
            assert!(!leaf || examples.contains("cards "), "`{}` has no examples", command.get_name());
            command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn usage_errors_exit_with_2() {
        for line in [
            "cards",
            "cards frobnicate",
            "cards serve",
            "cards cluster",
            "cards cluster init",
            "cards cluster client",
            "cards cluster client backup --ttl 1d",
            "cards lock list --authority a.pem",
            "cards cluster token --uses 0",
            "cards cluster token --ttl 1d",
            "cards cluster token --list --revoke 00000000",
            "cards join lab --etcd http://a:1 --address a:1 --token x",
            "cards dev --block 64Q",
            "cards dev --nodes 0",
            "cards dev --delivery later",
            "cards dev --disk a --size 1G",
            "cards volume attach",
            "cards volume attach disk --mode maybe",
            "cards lock acquire disk 0 1M",
            "cards lock acquire disk 0+1M --mode own",
            "cards lock list --range 0+1M",
            "cards completions cobol",
            "cards sim gen:boot --jobs 0",
            "cards sim gen:boot --json --csv",
            "cards trace",
            "cards paper",
            "cards paper xfs",
            "cards trace convert only-one",
            "cards check --seeds 5..1",
            "cards check --first",
            "cards top --interval 1ms",
            "cards status --interval 1s",
            "cards status --cluster --watch",
            "cards why disk",
            "cards why disk 1Q",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn flags_go_before_and_after_the_verb() {
        assert_eq!(parse("cards -v status --json").unwrap().verbose, 1);
        assert_eq!(parse("cards status -vv").unwrap().verbose, 2);
    }
}
