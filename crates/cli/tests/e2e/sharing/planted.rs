//! A lie in a true history: does the judge see it?

use cards_check::history::{Op, Step};

use super::history::{BLOCKS, History};

/// In one block after the other, a read sees what was overwritten before it began, and the judge must see that. In how
/// many blocks there was such a read.
#[track_caller]
pub(super) fn are_found(history: &History) -> u64 {
    let mut found = 0;
    for block in 0..BLOCKS {
        let mut planted = history.of(block);
        if plant(&mut planted).is_some() {
            let story = planted.judge().expect_err("a stale read");
            assert!(story.contains(&format!("block {block} is not linearizable")), "{story}");
            found += 1;
        }
    }
    found
}

/// Makes the last read of the history of one block see what was overwritten before it began, if anything was.
fn plant(history: &mut History) -> Option<()> {
    let events = &mut history.0;
    let latest_write_before = |moment: Step| -> Option<Op> {
        let before = events.iter().filter(|event| event.op.write && event.op.returned < moment);
        before.max_by_key(|event| event.op.returned).map(|event| event.op)
    };
    let reads = events.iter().enumerate().filter(|(_, event)| !event.op.write);
    let (last, began) =
        reads.map(|(at, event)| (at, event.op.invoked)).max_by_key(|(_, began)| *began).expect("a read");
    let newer = latest_write_before(began)?;
    let older = latest_write_before(newer.invoked)?;
    events[last].op.tag = older.tag;
    Some(())
}
