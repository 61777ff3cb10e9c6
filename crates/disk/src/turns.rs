//! Whose job is next at a disk: all engines of a disk together have a bounded number of jobs at it, and those that wait are
//! taken in turn from the cards they are of, by bytes (deficit round robin, Shreedhar and Varghese 1995). So one card that
//! asks for hundreds of blocks at once does not have another's single read wait behind them. A disk's own queue is in no
//! such order, hence the bound: it is to be as large as the disk needs to be busy, and no larger.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// A card in its turn may have so many bytes more. Small beside a block: then cards take turns job by job.
const QUANTUM: u64 = 16 << 10;
/// What the smallest job counts.
const COST_MIN: u64 = 4 << 10;

/// The queue in front of a disk, shared by its engines.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Most jobs at the disk.
    depth: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Jobs at the disk.
    running: usize,
    /// Cards of which jobs wait, the one in its turn first.
    cards: VecDeque<Card>,
    /// By their numbers.
    engines: Vec<Engine>,
}

#[derive(Debug)]
struct Card {
    number: u32,
    /// Bytes it may have in its turn.
    credit: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    engine: usize,
    job: u32,
    cost: u64,
}

#[derive(Debug, Default)]
struct Engine {
    /// Its jobs whose turn has come.
    granted: Vec<u32>,
    /// Its drain task, when it waits.
    waker: Option<Waker>,
}

impl Turns {
    /// `depth` is the most jobs at the disk, at least 1.
    pub(crate) fn new(depth: usize) -> Self {
        Self { depth: depth.max(1), state: Mutex::default() }
    }

    /// The number of a new engine.
    pub(crate) fn enter(&self) -> usize {
        let mut state = self.lock();
        state.engines.push(Engine::default());
        state.engines.len() - 1
    }

    /// A job of a card, of so many bytes: whether it may start at once. If not, it waits for its turn.
    pub(crate) fn ask(&self, engine: usize, card: u32, job: u32, bytes: u64) -> bool {
        let mut state = self.lock();
        if state.running < self.depth {
            state.running += 1;
            return true;
        }
        let waiting = Waiting { engine, job, cost: bytes.max(COST_MIN) };
        match state.cards.iter_mut().find(|known| known.number == card) {
            Some(card) => card.waiting.push_back(waiting),
            None => {
                let waiting = VecDeque::from([waiting]);
                state.cards.push_back(Card { number: card, credit: QUANTUM, waiting });
            }
        }
        false
    }

    /// So many jobs of an engine have left the disk: others have their turn. The engine itself is to look at once.
    pub(crate) fn done(&self, engine: usize, jobs: usize) {
        let mut state = self.lock();
        state.running -= jobs;
        let wakers = state.grant(self.depth, engine);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Moves the engine's jobs whose turn has come to `out`; those whose turn comes later wake `waker`.
    pub(crate) fn granted(&self, engine: usize, out: &mut Vec<u32>, waker: &Waker) {
        let mut state = self.lock();
        let engine = &mut state.engines[engine];
        out.append(&mut engine.granted);
        match &mut engine.waker {
            Some(own) => own.clone_from(waker),
            None => engine.waker = Some(waker.clone()),
        }
    }

    /// An engine ends with so many jobs at the disk: those of it that wait are forgotten.
    pub(crate) fn leave(&self, engine: usize, running: usize) {
        let mut state = self.lock();
        for card in &mut state.cards {
            card.waiting.retain(|waiting| waiting.engine != engine);
        }
        state.cards.retain(|card| !card.waiting.is_empty());
        let granted = std::mem::take(&mut state.engines[engine]).granted.len();
        drop(state);
        self.done(engine, running + granted);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock but for a count that is wrong, which the next one meets again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives turns while there is room at the disk; says who is to be woken, beside the engine that looks for itself.
    fn grant(&mut self, depth: usize, looks: usize) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.running < depth {
            let Some(Waiting { engine, job, .. }) = self.next() else { break };
            self.running += 1;
            let granted = &mut self.engines[engine];
            granted.granted.push(job);
            if engine != looks {
                wakers.extend(granted.waker.take());
            }
        }
        wakers
    }

    /// The next job.
    fn next(&mut self) -> Option<Waiting> {
        loop {
            let is_alone = self.cards.len() == 1;
            let card = self.cards.front_mut()?;
            if let Some(job) = card.waiting.pop_front_if(|job| is_alone || job.cost <= card.credit) {
                card.credit = card.credit.saturating_sub(job.cost);
                if card.waiting.is_empty() {
                    self.cards.pop_front();
                }
                return Some(job);
            }
            card.credit += QUANTUM;
            self.cards.rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves what waits one after the other, and says of which cards it is; job numbers are those of the cards.
    fn serve(turns: &Turns, count: usize) -> Vec<u32> {
        let mut served = Vec::new();
        while served.len() < count {
            turns.done(0, 1);
            let before = served.len();
            turns.granted(0, &mut served, Waker::noop());
            assert!(served.len() > before, "nobody has the turn after {served:?}");
        }
        served
    }

    /// An engine whose disk is full, with `count` jobs of card 1 that wait.
    fn flooded(depth: usize, count: u32, bytes: u64) -> Turns {
        let turns = Turns::new(depth);
        assert_eq!(turns.enter(), 0);
        assert!((0..depth).all(|_| turns.ask(0, 1, 1, bytes)), "there is room at the disk");
        assert!((0..count).all(|_| !turns.ask(0, 1, 1, bytes)));
        turns
    }

    #[test]
    fn a_single_read_does_not_wait_behind_a_flood() {
        for bytes in [4 << 10, 64 << 10, 1 << 20] {
            let turns = flooded(8, 256, bytes);
            for _ in 0..20 {
                assert!(!turns.ask(0, 2, 2, bytes));
                let served = serve(&turns, 6);
                let place = served.iter().position(|card| *card == 2).expect("it is served");
                assert!(place <= (QUANTUM / bytes) as usize + 1, "{bytes}: {served:?}");
            }
        }
    }

    #[test]
    fn cards_that_always_wait_have_the_same_bytes() {
        let turns = flooded(4, 400, 64 << 10);
        // Of these the jobs are a quarter as long.
        assert!((0..1_600).all(|_| !turns.ask(0, 2, 2, 16 << 10)));
        let served = serve(&turns, 1_000);
        let of = |card| served.iter().filter(|served| **served == card).count();
        assert!(of(1).abs_diff(200) <= 2 && of(2).abs_diff(800) <= 4, "{} and {}", of(1), of(2));
    }

    #[test]
    fn jobs_of_one_card_keep_their_order() {
        let turns = Turns::new(1);
        turns.enter();
        assert!(turns.ask(0, 7, 0, 0));
        assert!((1..100).all(|job| !turns.ask(0, 7, job, u64::from(job) << 12)));
        assert_eq!(serve(&turns, 99), (1..100).collect::<Vec<_>>());
    }

    #[test]
    fn engines_share_the_depth_and_have_their_own_jobs_back() {
        let turns = Turns::new(2);
        let engines = [turns.enter(), turns.enter()];
        assert!(turns.ask(engines[0], 1, 10, 0) && turns.ask(engines[0], 1, 11, 0));
        assert!(!turns.ask(engines[1], 1, 20, 0) && !turns.ask(engines[0], 1, 12, 0));
        let granted = |engine| {
            let mut out = Vec::new();
            turns.granted(engine, &mut out, Waker::noop());
            out
        };
        turns.done(engines[0], 1);
        assert_eq!((granted(engines[0]), granted(engines[1])), (vec![], vec![20]));
        turns.done(engines[0], 2);
        assert_eq!((granted(engines[0]), granted(engines[1])), (vec![12], vec![]));
    }

    #[test]
    fn an_engine_that_ends_leaves_its_room_to_others() {
        let turns = Turns::new(2);
        let engines = [turns.enter(), turns.enter()];
        assert!(turns.ask(engines[0], 1, 0, 0) && turns.ask(engines[0], 1, 1, 0));
        assert!(!turns.ask(engines[0], 1, 2, 0) && !turns.ask(engines[1], 2, 3, 0));
        assert!(!turns.ask(engines[1], 2, 4, 0));
        turns.leave(engines[0], 2);
        let mut out = Vec::new();
        turns.granted(engines[1], &mut out, Waker::noop());
        assert_eq!(out, [3, 4]);
        turns.done(engines[1], 2);
        assert!(turns.ask(engines[1], 2, 5, 0));
    }
}
