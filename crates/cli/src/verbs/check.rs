//! `cards check`: the protocol under random faults.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use cards_check::command::{Caller, Command, Verdict};
use clap::Args;

use crate::attend::until_done;
use crate::context::Context;
use crate::error::Error;
use crate::signals::Signals;

/// Attack a simulated cluster with random faults, and check what its clients see
#[derive(Debug, Args)]
#[command(after_help = "\
A seed draws everything: nodes, volumes, policies, faults, clients. The same seed gives the same run.
With -v a single --seed prints its trace: every input and output of every node.
When a seed fails, simpler runs are tried that fail in the same way: without kinds of faults, with fewer
nodes, writers and clients, with a shorter storm. The command that replays the simplest one is printed.
`--policy ./mine.wasm` is a policy of your own (`cards policy new`).
Ctrl-C prints what is finished. With --json the output is exactly one object.

Exit status: 0 nothing found, 1 a promise was broken, 2 wrong usage, 3 something never completed,
4 a node panicked, 5 a kind of fault never happened or an observer had nothing to judge (with 200 seeds
or more), 130 stopped by Ctrl-C. `--seeds N..` goes on until it is stopped.

Examples:
  cards check --seeds 1..40
  cards check --seeds 1..20 --policy 'hscc depth=3' --no-crashes --loss 100 --json
  cards check --seed 7 --nodes 2 --storm-ms 500")]
pub(crate) struct Check {
    #[command(flatten)]
    command: Command,
}

impl Check {
    /// Runs the seeds. The first signal stops it, a second one ends this program.
    pub(crate) fn run(self, cx: &Context) -> Result<ExitCode, Error> {
        let signals = Signals::block();
        let stop = AtomicBool::new(false);
        let caller = Caller { program: "cards check", verbose: cx.verbose > 0, stop: &stop };
        let end = || stop.store(true, Ordering::Relaxed);
        let (verdict, stopped) = until_done(&signals, end, || {}, || self.command.run(&caller));
        Ok(match stopped.filter(|_| verdict == Verdict::Stopped) {
            Some(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
            None => ExitCode::from(verdict.exit_code()),
        })
    }
}
