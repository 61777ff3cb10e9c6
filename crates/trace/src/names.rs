//! Names to numbers, in order of first appearance.

use std::collections::HashMap;

use crate::number::shown;
use crate::readers::NODES_MAX;

/// Numbers of the nodes, volumes and processes that a text names.
#[derive(Default)]
pub(crate) struct Names {
    nodes: Table,
    volumes: Table,
    processes: Table,
    key: Vec<u8>,
}

/// The most different processes of one trace.
const PROCESSES_MAX: usize = 1_000_000;
/// The most different volumes: [`crate::Request::volume`] has 16 bits.
const VOLUMES_MAX: usize = 65_535;
/// The longest host name, and the longest path.
const NODE_BYTES_MAX: usize = 255;
const VOLUME_BYTES_MAX: usize = 4_096;

impl Names {
    pub(crate) fn node(&mut self, name: &[u8]) -> Result<u32, String> {
        self.nodes.number("node", name, NODE_BYTES_MAX, NODES_MAX as usize)
    }

    pub(crate) fn volume(&mut self, name: &[u8]) -> Result<u16, String> {
        // In range because of the limit.
        self.volumes.number("volume", name, VOLUME_BYTES_MAX, VOLUMES_MAX).map(|number| number as u16)
    }

    /// A process of a node. Two nodes may both have a process 17: these are two.
    pub(crate) fn process(&mut self, node: u32, name: &[u8]) -> Result<u32, String> {
        self.key.clear();
        self.key.extend_from_slice(&node.to_le_bytes());
        self.key.extend_from_slice(name);
        self.processes.number("process", &self.key, NODE_BYTES_MAX, PROCESSES_MAX)
    }
}

#[derive(Default)]
struct Table {
    numbers: HashMap<Box<[u8]>, u32>,
    /// The name asked for last: runs of equal names are common.
    last: (Vec<u8>, u32),
}

impl Table {
    fn number(&mut self, what: &str, name: &[u8], bytes_max: usize, max: usize) -> Result<u32, String> {
        if self.last.0 == name && !self.numbers.is_empty() {
            return Ok(self.last.1);
        }
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None if name.len() > bytes_max => {
                return Err(format!("the {what} {} is longer than {bytes_max} bytes", shown(name)));
            }
            None if self.numbers.len() >= max => {
                return Err(format!(
                    "more than {max} different names of a {what}; is this the right column?"
                ));
            }
            None => {
                // In range: `max` is at most a million.
                let number = self.numbers.len() as u32;
                self.numbers.insert(name.into(), number);
                number
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(name);
        self.last.1 = number;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_appearance() {
        let mut names = Names::default();
        assert_eq!(names.node(b"b"), Ok(0));
        assert_eq!(names.node(b"a"), Ok(1));
        assert_eq!(names.node(b"b"), Ok(0));
        assert_eq!(names.volume(b""), Ok(0));
        assert_eq!(names.process(0, b"17"), Ok(0));
        assert_eq!(names.process(1, b"17"), Ok(1));
    }

    #[test]
    fn volumes_run_out() {
        let mut names = Names::default();
        for i in 0..65_535u32 {
            assert_eq!(names.volume(&i.to_le_bytes()), Ok(i as u16));
        }
        assert!(names.volume(b"more").unwrap_err().contains("65535"));
        assert!(names.node(&[b'x'; 300]).unwrap_err().contains("255 bytes"));
    }
}
