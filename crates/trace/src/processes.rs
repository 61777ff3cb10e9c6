//! New numbers for processes when their nodes change.

use std::collections::HashMap;

use crate::TraceError;

/// The most processes that are told apart: 384 MiB of them.
const PROCESSES_MAX: usize = 1 << 24;

/// Gives each pair of a part (a node, a trace) and a process a number of its own, in the order of appearance:
/// two nodes never share a process.
#[derive(Default)]
pub(crate) struct Processes {
    numbers: HashMap<(u32, u32), u32>,
    last: Option<((u32, u32), u32)>,
}

impl Processes {
    pub(crate) fn number(&mut self, part: u32, process: u32) -> Result<u32, TraceError> {
        let key = (part, process);
        if let Some((last, number)) = self.last
            && last == key
        {
            return Ok(number);
        }
        // In range because of the limit.
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if self.numbers.len() > PROCESSES_MAX {
            return Err(TraceError::Processes { max: PROCESSES_MAX });
        }
        self.last = Some((key, number));
        Ok(number)
    }
}
