//! A machine as a list of figures, for people.

use std::time::Duration;

use super::Machine;

/// One figure of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// The parameter, as in files.
    pub parameter: &'static str,
    /// Its value.
    pub value: String,
    /// The unit of the value; empty for counts.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: String,
}

impl Machine {
    /// Every figure with its unit and its source.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let Self { disk, .. } = self;
        let caches: Vec<String> = self.cache_bytes.iter().map(|&bytes| binary(bytes, 20)).collect();
        let list = [
            ("nodes", self.nodes.to_string(), ""),
            ("cache_bytes", caches.join(" + "), "MiB"),
            ("block_bytes", binary(self.block_bytes.into(), 10), "KiB"),
            ("memory_bandwidth_bytes_per_s", megabytes(self.memory_bandwidth), "MB/s"),
            ("network_bandwidth_bytes_per_s", megabytes(self.network_bandwidth), "MB/s"),
            ("network_latency_us", microseconds(self.network_latency), "us"),
            ("local_port_us", microseconds(self.local_port), "us"),
            ("remote_port_us", microseconds(self.remote_port), "us"),
            ("local_copy_us", microseconds(self.local_copy), "us"),
            ("remote_copy_us", microseconds(self.remote_copy), "us"),
            ("message_bytes", binary(self.message_bytes.into(), 10), "KiB"),
            ("service_us", microseconds(self.service), "us"),
            ("staging_copies", self.staging_copies.to_string(), ""),
            ("staging_bandwidth_bytes_per_s", megabytes(self.staging_bandwidth), "MB/s"),
            ("disks", self.disks.to_string(), ""),
            ("disk.read_seek_us", microseconds(disk.read_seek), "us"),
            ("disk.sequential_seek_us", microseconds(disk.sequential_seek), "us"),
            ("disk.write_seek_us", microseconds(disk.write_seek), "us"),
            ("disk.bandwidth_bytes_per_s", megabytes(disk.bandwidth), "MB/s"),
            ("disk.channels", disk.channels.to_string(), ""),
            ("disk.passovers", disk.passovers.to_string(), ""),
        ];
        let figure = |(parameter, value, unit)| Figure {
            parameter,
            value,
            unit,
            source: self.source_of(parameter).to_owned(),
        };
        list.into_iter().map(figure).collect()
    }

    /// Where a parameter's figure comes from.
    #[must_use]
    pub fn source_of(&self, parameter: &str) -> &str {
        let given = self.sources.iter().find(|(name, _)| name == parameter);
        given.map_or("not given", |(_, source)| source)
    }

    pub(super) fn set_source(&mut self, parameter: &str, source: &str) {
        self.sources.retain(|(name, _)| name != parameter);
        self.sources.push((parameter.to_owned(), source.to_owned()));
    }
}

/// In units of 2 to the power of `shift`.
fn binary(bytes: u64, shift: u8) -> String {
    rounded(bytes as f64 / f64::from(1u32 << shift))
}

fn megabytes(bytes: f64) -> String {
    rounded(bytes / 1e6)
}

fn microseconds(duration: Duration) -> String {
    rounded(duration.as_nanos() as f64 / 1e3)
}

/// At most three decimals.
fn rounded(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::Library;

    #[test]
    fn every_figure_of_every_machine_has_a_source() {
        for machine in Library::default().iter() {
            for figure in machine.figures() {
                assert_ne!(figure.source, "not given", "{} {}", machine.name, figure.parameter);
                assert!(!figure.value.is_empty());
            }
            for (parameter, _) in &machine.sources {
                let known = machine.figures().iter().any(|figure| figure.parameter == parameter);
                assert!(known, "{}: a source of `{parameter}`, which is no figure", machine.name);
            }
        }
    }
}
