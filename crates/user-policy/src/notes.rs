//! How many notes a module may send.

/// A bound on notes: two modules that answer each note with notes would otherwise never stop.
///
/// Reads, evictions and writes pay for eight notes each. A note that has come pays for a little less than one, so that notes can
/// run through a list of nodes, and not in circles for ever.
#[derive(Debug)]
pub(crate) struct Notes {
    /// In parts of a note.
    credit: u32,
}

/// Parts of a note.
const NOTE: u32 = 16;
const MOST: u32 = 4096 * NOTE;

impl Notes {
    pub(crate) const fn new() -> Self {
        Self { credit: MOST }
    }

    /// Something has happened that a policy may tell others.
    pub(crate) fn event(&mut self) {
        self.credit = (self.credit + 8 * NOTE).min(MOST);
    }

    /// A note has come, or a time.
    pub(crate) fn echo(&mut self) {
        self.credit = (self.credit + NOTE - 1).min(MOST);
    }

    /// Whether a note may be sent. It is paid for.
    pub(crate) fn allow(&mut self) -> bool {
        let left = self.credit.checked_sub(NOTE);
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_answer_notes_come_to_an_end() {
        let mut notes = Notes::new();
        let mut sent = 0_u32;
        loop {
            notes.echo();
            if !notes.allow() {
                break;
            }
            sent += 1;
        }
        assert!((4096..100_000).contains(&sent), "{sent}");
        notes.event();
        assert!(notes.allow());
    }
}
