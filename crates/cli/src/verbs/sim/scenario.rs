//! Scenario files, and files of machines.

use std::path::Path;

use cards_nearest::nearest;
use cards_sim::Library;
use toml::{Table, Value};

use super::error::SimError;
use super::options::Options;

/// The keys of a scenario, as in [`Options`].
const KEYS: [&str; 22] = [
    "trace",
    "machine",
    "nodes",
    "policy",
    "cache",
    "block",
    "replacement",
    "seed",
    "warmup",
    "timing",
    "spread",
    "fold",
    "disk_nodes",
    "shards",
    "coherence",
    "attached",
    "placement",
    "read_ahead",
    "format",
    "level",
    "action",
    "unit",
];
/// The key of the machines that a file describes.
const MACHINES: &str = "machines";

/// Reads a scenario; its machines go to the library.
pub(super) fn load(path: &Path, library: &mut Library) -> Result<Options, SimError> {
    let mut table = read(path)?;
    add_machines(path, &mut table, library)?;
    check_keys(path, &table, &KEYS)?;
    Value::Table(table).try_into().map_err(|error: toml::de::Error| wrong(path, &error))
}

/// Reads a file of machines.
pub(super) fn load_machines(path: &Path, library: &mut Library) -> Result<(), SimError> {
    let mut table = read(path)?;
    add_machines(path, &mut table, library)?;
    check_keys(path, &table, &[])
}

/// Writes options as a scenario.
pub(super) fn save(path: &Path, options: &Options) -> Result<(), SimError> {
    let text = toml::to_string_pretty(options).expect("options are text and lists of text");
    std::fs::write(path, text).map_err(|source| SimError::Write { path: path.into(), source })
}

fn read(path: &Path) -> Result<Table, SimError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| SimError::Read { path: path.into(), source })?;
    text.parse().map_err(|error: toml::de::Error| SimError::Toml {
        path: path.into(),
        problem: error.to_string().trim_end().to_owned(),
    })
}

fn add_machines(path: &Path, table: &mut Table, library: &mut Library) -> Result<(), SimError> {
    match table.remove(MACHINES) {
        None => Ok(()),
        Some(Value::Table(machines)) => library
            .add(&path.display().to_string(), &machines)
            .map_err(|source| SimError::MachineFile { path: path.into(), source }),
        Some(_) => Err(SimError::Toml {
            path: path.into(),
            problem: format!("{MACHINES}: want a table for each machine: [{MACHINES}.NAME]"),
        }),
    }
}

fn check_keys(path: &Path, table: &Table, known: &[&'static str]) -> Result<(), SimError> {
    let all = || known.iter().copied().chain([MACHINES]);
    let Some(key) = table.keys().find(|key| !all().any(|known| known == key.as_str())) else { return Ok(()) };
    Err(SimError::Key {
        path: path.into(),
        key: key.clone(),
        near: nearest(key, all()),
        known: all().collect::<Vec<_>>().join(", "),
    })
}

/// What the deserializer says: the key, then the problem.
fn wrong(path: &Path, error: &toml::de::Error) -> SimError {
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    SimError::Toml { path: path.into(), problem: lines.join(" ") }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::error::Failure;

    fn loaded(text: &str) -> Result<(Options, Library), SimError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("study.toml");
        std::fs::write(&path, text).unwrap();
        let mut library = Library::default();
        load(&path, &mut library).map(|options| (options, library))
    }

    #[test]
    fn the_keys_are_the_flags() {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            options: Options,
        }
        let command = Only::command();
        let flags: Vec<&str> = command.get_arguments().map(|argument| argument.get_id().as_str()).collect();
        assert_eq!(flags, KEYS);
    }

    #[test]
    fn values_are_text_or_numbers_alone_or_in_lists() {
        let (options, library) = loaded(
            "trace = 'gen:boot'\nnodes = [8, '16']\ncache = '10%'\nfold = true\nwarmup = 1000\n\
             machine = 'rack'\n[machines.rack]\nbase = 'lan25'\n",
        )
        .unwrap();
        assert_eq!(options.trace, ["gen:boot"]);
        assert_eq!(options.nodes, ["8", "16"]);
        assert_eq!(options.warmup.as_deref(), Some("1000"));
        assert!(options.fold && library.find("rack").is_ok());
    }

    #[test]
    fn what_is_saved_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("study.toml");
        let (mut options, _) =
            loaded("trace = ['a b', 'gen:oltp:nodes=3']\npolicy = 'hscc depth=3'\n").unwrap();
        options.reading.format = Some("msr".into());
        save(&path, &options).unwrap();
        let again = load(&path, &mut Library::default()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{options:?}"));
    }

    #[test]
    fn mistakes_name_the_file_and_the_key() {
        for (text, want) in [
            ("polcy = 'rd'\n", "study.toml: unknown key `polcy` (did you mean policy?): there are trace, "),
            ("nodes = true\n", "study.toml: want text or a number, or a list of them in `nodes`"),
            ("nodes = \n", "study.toml: TOML parse error at line 1"),
            ("machines = 3\n", "study.toml: machines: want a table"),
            ("[machines.x]\nbase = 'lan-25'\n", "study.toml: unknown machine `lan-25` (did you mean lan25?)"),
        ] {
            let error = loaded(text).unwrap_err();
            assert!(error.to_string().contains(want), "{text}: {error}");
            assert_eq!(Failure::exit_code(&error), 2);
        }
    }

    #[test]
    fn flags_win_over_the_scenario() {
        let (scenario, _) = loaded("trace = 'a'\nnodes = 3\npolicy = ['rd']\n").unwrap();
        let flags = Options { nodes: vec!["5".into()], ..Options::default() };
        let both = flags.over(scenario);
        assert_eq!(
            (both.trace, both.nodes, both.policy),
            (vec!["a".into()], vec!["5".into()], vec!["rd".into()])
        );
    }
}
