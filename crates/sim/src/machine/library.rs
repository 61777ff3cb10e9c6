//! All machines that have a name.

use cards_nearest::nearest;

use super::{Machine, MachineError, modern, overlay, papers};

/// The presets, and what files add to them.
#[derive(Clone, Debug)]
pub struct Library {
    machines: Vec<Machine>,
}

/// The presets.
impl Default for Library {
    fn default() -> Self {
        let mut machines = vec![papers::pm(), papers::now(), papers::cards2003(), papers::sios1999()];
        machines.extend(modern::all());
        Self { machines }
    }
}

impl Library {
    /// All machines, the presets first.
    pub fn iter(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter()
    }

    /// The machine of a name.
    ///
    /// # Errors
    /// There is none; the error names the nearest and all.
    pub fn find(&self, name: &str) -> Result<&Machine, MachineError> {
        self.iter().find(|machine| machine.name == name).ok_or_else(|| {
            let names = || self.iter().map(|machine| machine.name.as_str());
            MachineError::Unknown {
                name: name.to_owned(),
                near: nearest(name, names()).map(str::to_owned),
                known: names().collect::<Vec<_>>().join(", "),
            }
        })
    }

    /// Adds the machines of a table: names with their figures, and perhaps a `base` whose figures hold where none is
    /// given. A base may be of the same table. `origin` says where the table is from; it is the source of figures
    /// that name none.
    ///
    /// # Errors
    /// A name that is taken, an unknown base or parameter, a figure of the wrong kind or out of its range.
    pub fn add(&mut self, origin: &str, table: &toml::Table) -> Result<(), MachineError> {
        let mut waiting: Vec<(&String, &toml::Value)> = table.iter().collect();
        while !waiting.is_empty() {
            let names: Vec<&str> = waiting.iter().map(|(name, _)| name.as_str()).collect();
            let ready = waiting
                .iter()
                .position(|(_, figures)| overlay::base_of(figures).is_none_or(|base| !names.contains(&base)));
            let Some(ready) = ready else {
                let problem = "its base is based on it: start from one of the presets".to_owned();
                return Err(MachineError::Definition { machine: names[0].to_owned(), problem });
            };
            let (name, figures) = waiting.remove(ready);
            if self.find(name).is_ok() {
                let problem = "there is a machine of this name already: choose another".to_owned();
                return Err(MachineError::Definition { machine: name.clone(), problem });
            }
            let machine = overlay::machine(self, origin, name, figures)?;
            machine.check()?;
            self.machines.push(machine);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str) -> Result<Library, String> {
        let mut library = Library::default();
        library.add("rack.toml", &text.parse().unwrap()).map_err(|error| error.to_string())?;
        Ok(library)
    }

    #[test]
    fn presets_are_sound_and_have_different_names() {
        let library = Library::default();
        for machine in library.iter() {
            machine.check().unwrap();
            assert_eq!(library.find(&machine.name), Ok(machine));
        }
        let cloud = library.find("lan25-cloud").unwrap();
        assert_eq!(cloud.network_bandwidth, 3.125e9);
        assert_eq!(cloud.disk.read_seek.as_micros(), 700);
    }

    #[test]
    fn an_unknown_machine_gets_the_nearest() {
        let error = Library::default().find("lan-25").unwrap_err().to_string();
        assert!(
            error.starts_with("unknown machine `lan-25` (did you mean lan25?): there are pm, now, "),
            "{error}"
        );
    }

    #[test]
    fn a_file_changes_some_figures_of_a_base() {
        let library = add("[slow]\nbase = 'rack'\ndisk.channels = 1\n\
                           [rack]\nbase = 'lan25'\nnodes = 16\nservice_us = 3\n\
                           cache_bytes = [1_048_576, 2_097_152]\ndisk.read_seek_us = 90.5\n\
                           sources = { service_us = 'perf' }\n")
        .unwrap();
        let (rack, base) = (library.find("rack").unwrap(), library.find("lan25").unwrap());
        assert_eq!((rack.nodes, rack.disk.read_seek.as_nanos()), (16, 90_500));
        assert_eq!(rack.cache_bytes, [1 << 20, 2 << 20]);
        assert_eq!(rack.remote_port, base.remote_port);
        assert_eq!(rack.source_of("service_us"), "perf");
        assert_eq!(rack.source_of("disk.read_seek_us"), "rack.toml");
        assert_eq!(rack.source_of("remote_port_us"), base.source_of("remote_port_us"));
        let slow = library.find("slow").unwrap();
        assert_eq!((slow.disk.channels, slow.disk.read_seek), (1, rack.disk.read_seek));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, want) in [
            ("[rack]\nbase = 'lan-25'\n", "unknown machine `lan-25` (did you mean lan25?)"),
            (
                "[rack]\nbase = 'lan25'\nnode = 3\n",
                "machine rack has no parameter `node` (did you mean nodes?)",
            ),
            (
                "[rack]\nbase = 'lan25'\ndisk.read_seek = 3\n",
                "machine rack has no parameter `disk.read_seek` (did you mean disk.read_seek_us?)",
            ),
            ("[rack]\nbase = 'lan25'\nnodes = 'x'\n", "machine rack: nodes: invalid type: string"),
            ("[rack]\nbase = 'lan25'\nnodes = 0\n", "machine rack: nodes is 0: want 1 to 1023"),
            ("[rack]\nbase = 'lan25'\nservice_us = -1\n", "machine rack: service_us: -1: want microseconds"),
            (
                "[rack]\nbase = 'lan25'\ncache_bytes = 'x'\n",
                "machine rack: cache_bytes: want a number of bytes",
            ),
            (
                "[rack]\nbase = 'lan25'\ncache_bytes = 5\n",
                "machine rack: cache_bytes is 5: want at least one block",
            ),
            ("[rack]\nbase = 'lan25'\ndisk = 5\n", "machine rack: disk: "),
            ("[rack]\nbase = 5\n", "machine rack: base: want the name of a machine"),
            ("rack = 5\n", "machine rack: want a table"),
            ("[rack]\nnodes = 3\n", "machine rack: missing field `title`: give it, or a base"),
            ("[now]\nbase = 'pm'\n", "machine now: there is a machine of this name already"),
            ("[a]\nbase = 'b'\n[b]\nbase = 'a'\n", "machine a: its base is based on it"),
            (
                "[rack]\nbase = 'lan25'\nsources = { nods = 'x' }\n",
                "machine rack has no parameter `nods` (did you mean nodes?)",
            ),
        ] {
            let error = add(text).unwrap_err();
            assert!(error.starts_with(want), "{text}: {error}");
        }
    }
}
