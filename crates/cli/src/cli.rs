//! The command line: the verbs in their groups.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::context::Context;
use crate::error::Error;
use crate::verbs::{
    advise, attach, bench, check, cluster, completions, demo, detach, dev, device, disk, doctor, join,
    layout, leave, lock, man, mount, paper, pin, policy, profile, replay, serve, sim, spans, status, top,
    trace, umount, volume, why,
};
use crate::warm;

/// Cluster-aware remote disks: the disks and the memories of a cluster as one.
#[derive(Debug, Parser)]
#[command(
    name = "cards",
    version,
    max_term_width = 100,
    after_help = "\
Start with `cards demo`, or with a captive cluster:
  cards dev --nodes 3 --run 'nbdinfo $uri'

Exit status: 0 done, 1 failed, 2 wrong usage. With --json an error is one object on standard output,
{\"error\":{\"kind\":...,\"message\":...}}, and a line for people on standard error."
)]
pub(crate) struct Cli {
    /// Log more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,

    #[command(subcommand)]
    verb: Verb,
}

/// The exit status of a verb that got as far as it should.
trait Exit {
    fn code(self) -> ExitCode;
}

impl Exit for () {
    fn code(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

impl Exit for ExitCode {
    fn code(self) -> ExitCode {
        self
    }
}

/// Declares the verbs in the order of `--help`: `run(self, &Context) -> Result<impl Exit, Error>` each.
macro_rules! verbs {
    ($($group:literal { $($name:ident: $verb:ty,)* })*) => {
        #[derive(Debug, Subcommand)]
        enum Verb {
            $($($name($verb),)*)*
        }

        /// The groups of `--help`, and the verbs of each.
        const GROUPS: &[(&str, &[&str])] = &[$(($group, &[$(stringify!($name)),*])),*];

        impl Cli {
            /// Runs the verb; its exit status if it got that far.
            pub(crate) fn run(self) -> Result<ExitCode, Error> {
                let cx = Context { verbose: self.verbose, command };
                match self.verb {
                    $($(Verb::$name(verb) => verb.run(&cx).map(Exit::code),)*)*
                }
            }
        }
    };
}

verbs! {
    "Cluster" {
        Serve: serve::Serve,
        Cluster: cluster::Cluster,
        Join: Box<join::Join>,
        Leave: leave::Leave,
        Forget: leave::Forget,
    }
    "Volumes" {
        Volume: volume::Volume,
        Attach: Box<attach::Attach>,
        Detach: detach::Detach,
        Mount: Box<mount::Mount>,
        Umount: umount::Umount,
        Device: Box<device::Device>,
        Warm: Box<warm::Warm>,
        Pin: Box<pin::Pin>,
        Unpin: Box<pin::Unpin>,
        Profile: Box<profile::Profile>,
        Lock: Box<lock::Lock>,
        Disk: disk::Disk,
        Layout: layout::Layout,
    }
    "See" {
        Status: status::Status,
        Top: top::Top,
        Why: why::Why,
        Spans: spans::Spans,
        Doctor: doctor::Doctor,
        Advise: advise::Advise,
        Policy: policy::Policy,
    }
    "Laboratory" {
        Demo: demo::Demo,
        Dev: Box<dev::Dev>,
        Trace: trace::Trace,
        Replay: Box<replay::Replay>,
        Sim: Box<sim::Sim>,
        Paper: paper::PaperVerb,
        Check: Box<check::Check>,
        Bench: bench::Bench,
    }
    "Shell" {
        Completions: completions::Completions,
        Man: man::Man,
    }
}

/// The definition of the command line, with a help that has the verbs in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let mut verbs = String::new();
    for (group, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(verbs, "\n\x1b[1m\x1b[4m{group}:\x1b[0m");
        for name in names.iter().map(|name| name.to_lowercase()) {
            let about = command.find_subcommand(&name).and_then(clap::Command::get_about);
            let _ = writeln!(
                verbs,
                "  \x1b[1m{name:<12}\x1b[0m{}",
                about.map(ToString::to_string).unwrap_or_default()
            );
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{verbs}\n\x1b[1m\x1b[4mOptions:\x1b[0m\n{{options}}{{after-help}}"
    ))
}

/// Reads a command line, the name of the program first.
pub(crate) fn parse(words: impl IntoIterator<Item: Into<OsString> + Clone>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches_from(words).map_err(without_escape)?)
}

/// Without the advice to write an option that there is not behind `--`: it would be a name then, of a volume or a file.
fn without_escape(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        super::parse(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_help_has_every_verb_once_in_its_group() {
        let help = command().render_help().to_string();
        for verb in command().get_subcommands() {
            let name = format!("\n  {} ", verb.get_name());
            assert_eq!(help.matches(&name).count(), 1, "{name:?} in {help}");
        }
        for (group, _) in GROUPS {
            assert!(help.contains(&format!("{group}:")), "{group}");
        }
        assert!(
            !help.contains("Commands:") && help.contains("--verbose") && help.contains("Exit status"),
            "{help}"
        );
    }

    #[test]
    fn every_verb_has_examples() {
        fn check(command: &clap::Command) {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let leaf = !command.has_subcommands();
            assert!(!leaf || examples.contains("cards "), "`{}` has no examples", command.get_name());
            command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(check);
        }
        check(&command());
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
            "cards cluster client backup --ttl 1y",
            "cards lock list --authority a.pem",
            "cards cluster token --uses 0",
            "cards cluster token --ttl 1y",
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
    fn an_option_that_there_is_not_is_not_to_be_written_as_a_name() {
        let told = parse("cards volume show data --jsn").unwrap_err().to_string();
        assert!(told.contains("'--json'") && !told.contains("-- --"), "{told}");
        let told = parse("cards volume limit data --iops abc").unwrap_err().to_string();
        assert!(told.contains("such as 5000"), "{told}");
    }

    #[test]
    fn flags_go_before_and_after_the_verb() {
        assert_eq!(parse("cards -v status --json").unwrap().verbose, 1);
        assert_eq!(parse("cards status -vv").unwrap().verbose, 2);
    }
}
