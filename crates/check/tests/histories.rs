//! The judge on histories as long as real processes record them.

use std::collections::BTreeMap;

use cards_check::checkers::linearizable;
use cards_check::history::{Op, Step};
use cards_check::rng::Rng;

const CLIENTS: u64 = 16;
const OPS: usize = 50_000;
/// What a register holds at first; no client writes it.
const INITIAL: u64 = 0;

/// Operations of clients that are never idle, on registers that are what they should be. Each takes effect at
/// some moment while it lasts; one write of `open_one_in` is never answered, and then often takes no effect.
fn history(seed: u64, registers: u64, ops: usize, open_one_in: u64) -> Vec<Vec<Op>> {
    let mut rng = Rng::new(seed, 1);
    let mut free: BTreeMap<(Step, u64), ()> = (0..CLIENTS).map(|client| ((client, client), ())).collect();
    // When each operation takes effect: register, and its place in the history.
    let mut effects: BTreeMap<(Step, usize), (u64, usize)> = BTreeMap::new();
    let mut histories = vec![Vec::new(); registers as usize];
    for number in 1..=ops {
        let ((now, client), ()) = free.pop_first().expect("clients");
        let invoked = now + 1 + rng.below(5);
        let effect = invoked + rng.below(100);
        let returned = effect + 1 + rng.below(100);
        let (register, write) = (rng.below(registers), rng.chance(500));
        let open = write && rng.below(open_one_in) == 0;
        if !open || rng.chance(500) {
            // Later than its client has waited.
            let effect = if open { effect + rng.below(1_000) } else { effect };
            effects.insert((effect, number), (register, histories[register as usize].len()));
        }
        let tag = if write { number as u64 } else { INITIAL };
        let answered = if open { Step::MAX } else { returned };
        histories[register as usize].push(Op { invoked, returned: answered, write, tag });
        free.insert((returned, client), ());
    }
    let mut values = vec![INITIAL; registers as usize];
    for (register, position) in effects.into_values() {
        let (op, value) = (&mut histories[register as usize][position], &mut values[register as usize]);
        if op.write {
            *value = op.tag;
        } else {
            op.tag = *value;
        }
    }
    histories
}

fn passes(histories: &[Vec<Op>]) {
    for ops in histories {
        assert_eq!(linearizable::check(INITIAL, ops), Ok(()));
    }
}

/// Makes the last read of each register see what was overwritten before it began.
fn is_found_stale(histories: &mut [Vec<Op>]) {
    for ops in histories {
        let answered = |op: &&Op| op.write && op.returned != Step::MAX;
        let last = ops.iter().rposition(|op| !op.write).expect("a read");
        let began = ops[last].invoked;
        let newer = ops.iter().filter(answered).filter(|op| op.returned < began).max_by_key(|op| op.returned);
        let newer = newer.expect("a write before it").invoked;
        let older = ops.iter().filter(answered).filter(|op| op.returned < newer).max_by_key(|op| op.returned);
        ops[last].tag = older.expect("a write before that").tag;
        let story = linearizable::check(INITIAL, ops).expect_err("a stale read");
        assert!(story.contains(&format!("reads {:#x}", ops[last].tag)), "{story}");
    }
}

#[test]
fn fifty_thousand_operations_of_sixteen_clients_on_64_blocks_pass_and_one_stale_read_fails() {
    let mut histories = history(1, 64, OPS, 500);
    assert_eq!(histories.iter().map(Vec::len).sum::<usize>(), OPS);
    passes(&histories);
    is_found_stale(&mut histories);
}

#[test]
fn sixteen_clients_that_all_want_one_block_pass_and_one_stale_read_fails() {
    for seed in 0..8 {
        let mut histories = history(seed, 1, 3_000, 200);
        passes(&histories);
        is_found_stale(&mut histories);
    }
}
