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

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use cards_config::{Config, Origin};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Error, Failure};
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

    /// Make the checks for another `cards doctor`, which hears of each as it ends
    #[arg(long, hide = true)]
    make_checks: bool,
}

/// What is printed with --json.
#[derive(Debug, Serialize)]
struct Report {
    /// There is no problem.
    ok: bool,
    findings: Vec<Finding>,
}

/// A check with its name, for the case that it does not come back.
type Check = (String, Box<dyn FnOnce() -> Vec<Finding> + Send>);

/// There is no process that makes the checks.
#[derive(Debug, thiserror::Error)]
#[error(
    "the checks cannot be made in a process of their own: {0}; raise the limits on processes and open files (ulimit -u, ulimit -n)"
)]
struct NotMade(io::Error);

impl Failure for NotMade {}

/// What the process that makes the checks says, a line each.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Said {
    /// All checks, in the order in which they are told.
    Checks(Vec<String>),
    /// What the check at this place has found.
    Found(usize, Vec<Finding>),
}

impl Doctor {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let (config, mut findings) = configuration(self.config.as_deref());
        if self.make_checks {
            make(checks(config.map(Arc::new), self.socket));
            return Ok(ExitCode::SUCCESS);
        }
        let maker = Maker::start(self.config.as_deref(), self.socket.as_deref());
        findings.extend(maker.map_err(NotMade)?.all_within(WITHIN));
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
        ("kernel".into(), Box::new(|| vec![machine::kernel()])),
        ("io_uring".into(), Box::new(|| vec![disks::io_uring()])),
        (
            "clock".into(),
            Box::new(|| vec![machine::clock_source(), machine::clock(), machine::swap(), machine::tcp()]),
        ),
        ("devices".into(), Box::new(|| vec![devices::fuse(), devices::nbd(), devices::loop_devices()])),
    ];
    let Some(config) = config else {
        let of_socket = |socket: PathBuf| move || Daemon::at(&socket, None).findings_at(&socket);
        checks.extend(socket.map(|socket| ("daemon".into(), Box::new(of_socket(socket)) as Box<_>)));
        return checks;
    };
    let daemon = Arc::new(Daemon::of(&config, socket.as_deref()));
    let of_daemon = (Arc::clone(&daemon), Arc::clone(&config));
    checks.push(("daemon".into(), Box::new(move || of_daemon.0.findings(&of_daemon.1))));
    let mut with = |name: &str, check: fn(&Config, &Daemon) -> Vec<Finding>| {
        let (config, daemon) = (Arc::clone(&config), Arc::clone(&daemon));
        checks.push((name.into(), Box::new(move || check(&config, &daemon))));
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
        let name = format!("disk {}", config.disks[index].name);
        checks.push((name, Box::new(move || vec![disks::plain(&config, index, &daemon)])));
    }
    checks.push(("managed disks".into(), Box::new(move || disks::managed(&config, &daemon))));
    checks
}

/// Makes all checks at once, and says on standard output what each has found as soon as it ends. Returns when all have ended.
fn make(checks: Vec<Check>) {
    let say = |said: &Said| {
        let mut out = io::stdout().lock();
        // Who listens may have gone.
        let _ = serde_json::to_writer(&mut out, said).map_err(io::Error::from).and_then(|()| writeln!(out));
    };
    say(&Said::Checks(checks.iter().map(|(name, _)| name.clone()).collect()));
    thread::scope(|scope| {
        for (place, (_, check)) in checks.into_iter().enumerate() {
            scope.spawn(move || say(&Said::Found(place, check())));
        }
    });
}

/// Another process, which makes the checks: one of its threads that a device or a mount holds in the kernel cannot be ended, and holds the
/// end of its process up for as long.
struct Maker {
    process: Child,
    said: ChildStdout,
}

impl Maker {
    fn start(config: Option<&Path>, socket: Option<&Path>) -> io::Result<Self> {
        // Also if the file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("cards").args(["doctor", "--make-checks"]);
        for (option, path) in [("--config", config), ("--socket", socket)] {
            if let Some(path) = path {
                command.arg(option).arg(path);
            }
        }
        // What a terminal or a pipe of this program waits for the end of must not be left open in that one.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let said = process.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
        Ok(Self { process, said })
    }

    /// What the checks have found `within` this time.
    fn all_within(mut self, within: Duration) -> Vec<Finding> {
        let (to, said) = mpsc::channel();
        let lines = BufReader::new(self.said).lines();
        thread::spawn(move || {
            let mut lines = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
            lines.try_for_each(|line: Said| to.send(line))
        });
        let found = collect(&said, within);
        // It has ended, or is not to be waited for.
        let _ = self.process.kill();
        let _ = self.process.try_wait();
        found
    }
}

/// Takes what is said of the checks `within` this time; of one that nothing is said of that is the finding.
fn collect(said: &mpsc::Receiver<Said>, within: Duration) -> Vec<Finding> {
    let deadline = Instant::now() + within;
    let (mut names, mut found) = (vec!["checks".to_owned()], Vec::new());
    while found.iter().flatten().count() < names.len() {
        match said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Said::Checks(all)) => {
                found = vec![None; all.len()];
                names = all;
            }
            Ok(Said::Found(place, findings)) => {
                found.get_mut(place).into_iter().for_each(|found| *found = Some(findings.clone()));
            }
            Err(_) => break,
        }
    }
    found.resize(names.len(), None);
    let hangs = |name: &String| {
        let says = format!("no answer within {} s", within.as_secs());
        vec![Finding::problem(name, says, "see what hangs: a name server, a disk or a mount")]
    };
    names.iter().zip(found).flat_map(|(name, found)| found.unwrap_or_else(|| hangs(name))).collect()
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
        let (to, said) = mpsc::channel();
        let say = |line| to.send(line).unwrap();
        say(Said::Checks(["a", "b", "c"].map(str::to_owned).to_vec()));
        say(Said::Found(2, vec![Finding::warning("c", "slow", "wait")]));
        say(Said::Found(0, vec![Finding::ok("a", "fine"), Finding::ok("a", "well")]));
        let levels = |found: &[Finding]| -> Vec<(String, Level)> {
            found.iter().map(|found| (found.check.clone(), found.level)).collect()
        };
        let found = levels(&collect(&said, Duration::from_millis(200)));
        let expected = [("a", Level::Ok), ("a", Level::Ok), ("b", Level::Problem), ("c", Level::Warning)];
        assert_eq!(found, expected.map(|(name, level)| (name.to_owned(), level)));
        // The process that makes them has said nothing at all.
        assert_eq!(
            levels(&collect(&said, Duration::from_millis(20))),
            [("checks".to_owned(), Level::Problem)]
        );
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
