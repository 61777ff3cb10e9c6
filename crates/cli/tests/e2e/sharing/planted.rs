//! A lie in a true history: does the judge see it?

use cards_check::history::Step;

use super::history::History;

/// Makes the last read of the history of one block see what was overwritten before it began.
pub(super) fn plant(history: &mut History) {
    let events = &mut history.0;
    let latest_write_before = |moment: Step| {
        let before = events.iter().filter(|event| event.op.write && event.op.returned < moment);
        before.max_by_key(|event| event.op.returned).expect("a write before").op
    };
    let reads = events.iter().enumerate().filter(|(_, event)| !event.op.write);
    let (last, began) =
        reads.map(|(at, event)| (at, event.op.invoked)).max_by_key(|(_, began)| *began).expect("a read");
    let newer = latest_write_before(began);
    let older = latest_write_before(newer.invoked);
    events[last].op.tag = older.tag;
}
