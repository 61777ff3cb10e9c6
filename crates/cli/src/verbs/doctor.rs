//! `cards doctor`: is this machine fit for a daemon, and if not, what to do?

mod daemon;
mod devices;
mod disks;
mod finding;
mod identity;
mod limits;
mod machine;
mod network;
mod register;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cards_config::{Config, Origin};
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::error::Error;
use crate::output;
use daemon::Daemon;
use finding::{Finding, Level};

/// How long all checks together may take: a name server or a disk may hang.
const WITHIN: Duration = Duration::from_secs(4);
/// Where the configuration is, if it is not said.
const CONFIG: &str = "/etc/cards/node.toml";

/// Check this machine, and say what to fix
#[derive(Debug, Args)]
#[command(after_help = "\
One line for each check: ok, warning (the daemon runs, with less) or problem (it does not start, or not
for long), what was seen and what to do. Nothing is changed. Run it as the user of the daemon.
Exit status: 0 no problem, 1 a problem. It takes at most 5 seconds.

Examples:
  cards doctor
  cards doctor --config node.toml
  cards doctor --socket /run/cards/n2/admin.sock
  cards doctor --json | jq -r '.findings[] | select(.level == \"problem\") | .check'")]
pub(crate) struct Doctor {
    /// The configuration that the machine is to be fit for [default: /etc/cards/node.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Admin socket of the daemon that is asked [default: admin.sock in the runtime_dir of the configuration]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What is printed with --json.
#[derive(Debug, Serialize)]
struct Report {
    /// There is no problem.
    ok: bool,
    findings: Vec<Finding>,
}

/// A check with its name, for the case that it does not come back.
type Check = (&'static str, Box<dyn FnOnce() -> Vec<Finding> + Send>);

impl Doctor {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let (config, mut findings) = configuration(self.config.as_deref());
        findings.extend(all_within(checks(config.map(Arc::new), self.socket), WITHIN));
        let report = Report { ok: findings.iter().all(|found| found.level != Level::Problem), findings };
        if self.json {
            output::print_json(&report)?;
        } else {
            output::print(&render(&report.findings))?;
        }
        Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The configuration, if there is one that can be used, and what is to be said of it.
fn configuration(file: Option<&Path>) -> (Option<Config>, Vec<Finding>) {
    const CHECK: &str = "config";
    let path = match file {
        Some(path) => path,
        None if Path::new(CONFIG).exists() => Path::new(CONFIG),
        None => {
            let remedy = "name one with --config, and its disks, ports and directories are checked too";
            return (None, vec![Finding::warning(CHECK, format!("there is no {CONFIG}"), remedy)]);
        }
    };
    match Config::load(path) {
        Ok(config) => (Some(config), vec![Finding::ok(CHECK, path.display().to_string())]),
        Err(e) => (None, vec![Finding::error(CHECK, e)]),
    }
}

/// Everything that is looked at, in the order in which it is told.
fn checks(config: Option<Arc<Config>>, socket: Option<PathBuf>) -> Vec<Check> {
    let mut checks: Vec<Check> = vec![
        ("kernel", Box::new(|| vec![machine::kernel()])),
        ("io_uring", Box::new(|| vec![disks::io_uring()])),
        (
            "clock",
            Box::new(|| vec![machine::clock_source(), machine::clock(), machine::swap(), machine::tcp()]),
        ),
        ("devices", Box::new(|| vec![devices::fuse(), devices::nbd(), devices::loop_devices()])),
    ];
    let Some(config) = config else {
        let of_socket = |socket: PathBuf| move || Daemon::at(&socket, None).findings_at(&socket);
        checks.extend(socket.map(|socket| ("daemon", Box::new(of_socket(socket)) as Box<_>)));
        return checks;
    };
    let daemon = Arc::new(Daemon::of(&config, socket.as_deref()));
    let of_daemon = (Arc::clone(&daemon), Arc::clone(&config));
    checks.push(("daemon", Box::new(move || of_daemon.0.findings(&of_daemon.1))));
    let mut with = |name, check: fn(&Config, &Daemon) -> Vec<Finding>| {
        let (config, daemon) = (Arc::clone(&config), Arc::clone(&daemon));
        checks.push((name, Box::new(move || check(&config, &daemon))));
    };
    with("limits", |config, daemon| {
        let rings_count = machine::rings_are_locked_memory();
        vec![
            limits::files(config),
            limits::locked(config, rings_count),
            limits::write_back(),
            machine::cache(config, daemon.is_there()),
        ]
    });
    with("directories", disks::directories);
    with("identity", |config, _| identity::identity(config));
    with("register", |config, _| register::register(config));
    with("ports", network::ports);
    with("coordinator", network::coordinator);
    let plain = |index: &usize| !matches!(config.disks[*index].origin, Origin::Managed(_));
    for index in (0..config.disks.len()).filter(plain) {
        let (config, daemon) = (Arc::clone(&config), Arc::clone(&daemon));
        checks.push(("disk", Box::new(move || vec![disks::disk(&config, &config.disks[index], &daemon)])));
    }
    checks.push(("managed disks", Box::new(move || disks::managed(&config, &daemon))));
    checks
}

/// Makes all checks at once; one that is not done `within` this time is a problem itself.
fn all_within(checks: Vec<Check>, within: Duration) -> Vec<Finding> {
    let deadline = Instant::now() + within;
    let started: Vec<_> = checks
        .into_iter()
        .map(|(name, check)| {
            let (to, found) = mpsc::channel();
            // If it hangs it ends with this program.
            thread::spawn(move || to.send(check()));
            (name, found)
        })
        .collect();
    let collected = started.into_iter().flat_map(|(name, found)| {
        found.recv_timeout(deadline.saturating_duration_since(Instant::now())).unwrap_or_else(|_| {
            let says = format!("no answer within {} s", within.as_secs());
            vec![Finding::problem(name, says, "see what hangs: a name server, a disk or a mount")]
        })
    });
    collected.collect()
}

/// The findings for people, and what they come to.
fn render(findings: &[Finding]) -> String {
    let number = |level| findings.iter().filter(|found| found.level == level).count();
    let counted = |number: usize, noun: &str| match number {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        many => format!("{many} {noun}s"),
    };
    let lines: String = findings.iter().map(|found| format!("{found}\n")).collect();
    let (problems, warnings) = (number(Level::Problem), number(Level::Warning));
    format!("{lines}\n{}, {}\n", counted(problems, "problem"), counted(warnings, "warning"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_hangs_is_a_problem_of_its_name() {
        let (hold, wait) = mpsc::channel::<()>();
        let checks: Vec<Check> = vec![
            ("a", Box::new(|| vec![Finding::ok("a", "fine")])),
            ("b", Box::new(move || wait.recv().map_or(Vec::new(), |()| Vec::new()))),
            ("c", Box::new(|| vec![Finding::warning("c", "slow", "wait")])),
        ];
        let found = all_within(checks, Duration::from_millis(200));
        drop(hold);
        let levels: Vec<_> = found.iter().map(|found| (found.check.as_str(), found.level)).collect();
        assert_eq!(levels, [("a", Level::Ok), ("b", Level::Problem), ("c", Level::Warning)]);
    }

    #[test]
    fn a_line_has_level_check_and_remedy() {
        let found =
            [Finding::ok("kernel", "Linux 6.1"), Finding::problem("memory", "too little", "buy some")];
        let text = render(&found);
        assert_eq!(
            text,
            "ok       kernel         Linux 6.1\n\
             problem  memory         too little; buy some\n\n\
             1 problem, no warnings\n"
        );
    }

    #[test]
    fn a_configuration_that_cannot_be_read_is_a_problem() {
        let (config, found) = configuration(Some(Path::new("/nonexistent/node.toml")));
        assert!(config.is_none());
        assert!(found[0].level == Level::Problem && found[0].says.contains("/nonexistent"), "{found:?}");
    }
}
