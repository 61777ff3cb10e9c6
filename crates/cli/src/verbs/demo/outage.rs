//! The second act: a node that has a copy of a mirrored volume is killed while another one reads and writes it.

use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use cards_admin::{CopyState, Mirror};
use cards_config::size;
use cards_layout::layout::Layout;

use super::connection::Connection;
use super::load::Load;
use super::{BLOCK, DemoError};
use crate::captive::{CaptiveError, Cluster, Daemon, DiskFrom, MirrorPlan, Plan};
use crate::error::Error;
use crate::signals::Signals;
use crate::table::{Align, Table, count};

/// Bytes of the volume.
const SIZE: u64 = 256 << 20;
/// Blocks that are read and written, from the start of the volume.
const BLOCKS: u64 = 512;
/// What carries one seed: a write is of a block, and a read may come between its parts.
const UNIT: usize = 4096;
/// For so long the primary is it when it is killed. With these leases the next one need not wait for anyone to confirm that
/// the copies of earlier primaries are void (1.5 leases of a primary, and 1.5 of a card) after that.
const BEFORE: Duration = Duration::from_millis(7500);
/// How long is read and written without the node, and again with it.
const AFTER: Duration = Duration::from_secs(1);
/// The survivors have to go on within this.
const GOES_ON_WITHIN: Duration = Duration::from_secs(30);
/// From then on the copy has to be in sync.
const IN_SYNC_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// The node whose clients read and write.
const CLIENT: usize = 1;

/// One stream of requests, one at a time.
#[derive(Debug, Default)]
struct Flow {
    done: AtomicU64,
    errors: AtomicU64,
    /// Between the ends of two requests, in microseconds.
    longest_us: AtomicU64,
}

/// What is known of the blocks: seeds of the writes that were acknowledged, and that were sent.
struct Known {
    acknowledged: Vec<AtomicU64>,
    sent: Vec<AtomicU64>,
    /// Blocks that are written while it is noted which.
    noted: Mutex<Option<Vec<bool>>>,
    stop: AtomicBool,
    reads: Flow,
    writes: Flow,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Outage {
    killed: String,
    was_primary: bool,
    client: String,
    reads: Told,
    writes: Told,
    /// From its kill to the start of its next process.
    away: Duration,
    /// Different blocks that were written from its kill until it was in sync again.
    blocks: u64,
    copied: u64,
    /// From the start of its next process until its copy was in sync.
    resync: Duration,
    /// The share of the processors that other programs used.
    others: f64,
}

/// Of one stream.
#[derive(Clone, Copy, Debug)]
struct Told {
    done: u64,
    errors: u64,
    longest: Duration,
}

impl Flow {
    fn told(&self) -> Told {
        Told {
            done: self.done.load(SeqCst),
            errors: self.errors.load(SeqCst),
            longest: Duration::from_micros(self.longest_us.load(SeqCst)),
        }
    }

    /// Carries requests out, one after another, until it is told to stop.
    fn run(
        &self,
        stop: &AtomicBool,
        mut request: impl FnMut(u64) -> Result<(), DemoError>,
    ) -> Result<(), DemoError> {
        let mut last = Instant::now();
        for number in 1.. {
            if stop.load(SeqCst) {
                break;
            }
            match request(number) {
                Ok(()) => self.done.fetch_add(1, SeqCst),
                Err(DemoError::Failed { .. }) => self.errors.fetch_add(1, SeqCst),
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            self.longest_us.fetch_max((now - last).as_micros() as u64, SeqCst);
            last = now;
        }
        Ok(())
    }
}

impl Known {
    fn new() -> Self {
        let seeds = || (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
        Self {
            acknowledged: seeds(),
            sent: seeds(),
            noted: Mutex::new(None),
            stop: AtomicBool::new(false),
            reads: Flow::default(),
            writes: Flow::default(),
        }
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Option<Vec<bool>>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes blocks in a random order.
    fn write(&self, socket: &Path) -> Result<(), DemoError> {
        let (mut connection, _) = Connection::open(socket, 1)?;
        let (mut random, mut bytes) = (Random(1), vec![0; BLOCK as usize]);
        self.writes.run(&self.stop, |seed| {
            let block = random.below(BLOCKS);
            self.sent[block as usize].store(seed, SeqCst);
            if let Some(noted) = self.noted().as_mut() {
                noted[block as usize] = true;
            }
            fill(&mut bytes, block, seed);
            connection.write(block * BLOCK, &bytes)?;
            self.acknowledged[block as usize].store(seed, SeqCst);
            Ok(())
        })?;
        connection.close();
        Ok(())
    }

    /// Reads them in another order, and compares them with what may be there.
    fn read(&self, socket: &Path) -> Result<(), DemoError> {
        let (mut connection, _) = Connection::open(socket, 1)?;
        let mut random = Random(2);
        self.reads.run(&self.stop, |_| self.compare(&mut connection, socket, random.below(BLOCKS)))?;
        connection.close();
        Ok(())
    }

    /// Reads all of them once.
    fn read_all(&self, socket: &Path) -> Result<(), DemoError> {
        let (mut connection, _) = Connection::open(socket, 1)?;
        (0..BLOCKS).try_for_each(|block| self.compare(&mut connection, socket, block))?;
        connection.close();
        Ok(())
    }

    /// A block has what was acknowledged before the read began, or what was sent since.
    fn compare(&self, connection: &mut Connection, socket: &Path, block: u64) -> Result<(), DemoError> {
        let least = self.acknowledged[block as usize].load(SeqCst);
        let chunk = connection.read(block * BLOCK, BLOCK as u32)?;
        let most = self.sent[block as usize].load(SeqCst);
        for (unit, at) in chunk.data.chunks_exact(UNIT).zip((chunk.offset..).step_by(UNIT)) {
            let seed = seed_of(unit);
            let mut expected = [0; UNIT];
            if seed > 0 {
                fill_unit(&mut expected, at, seed);
            }
            if !(least..=most).contains(&seed) || unit != expected {
                return Err(DemoError::Lost { path: socket.into(), offset: at, seed, least, most });
            }
        }
        connection.reuse(chunk);
        Ok(())
    }
}

/// Starts a cluster with a mirrored volume, kills a node while another one reads and writes, and brings it back.
pub(super) fn run(verbose: u8, signals: &Signals) -> Result<Outage, Error> {
    let mirror = MirrorPlan { layout: Layout::Raid1 { copies: 2 }, bytes: SIZE };
    let plan = Plan { cache: 16 << 20, block: BLOCK, verbose, ..Plan::new(3, DiskFrom::Mirror(mirror)) };
    let mut cluster = Cluster::start(&plan, signals)?;
    let known = Known::new();
    let outage = thread::scope(|scope| {
        let (socket, known) = (cluster.socket(CLIENT), &known);
        let flows = [
            scope.spawn({
                let socket = socket.clone();
                move || known.write(&socket)
            }),
            scope.spawn(move || known.read(&socket)),
        ];
        let outage = watch(&mut cluster, known, verbose, signals);
        known.stop.store(true, SeqCst);
        for flow in flows {
            // What the streams met explains what the watcher did.
            flow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        outage
    })?;
    let outage = Outage { reads: known.reads.told(), writes: known.writes.told(), ..outage };
    known.read_all(&cluster.socket(0))?;
    cluster.stop();
    Ok(outage)
}

fn watch(cluster: &mut Cluster, known: &Known, verbose: u8, signals: &Signals) -> Result<Outage, Error> {
    let pause = |duration| if signals.end_within(duration) { Err(DemoError::Interrupted) } else { Ok(()) };
    pause(BEFORE)?;
    let victim = 0;
    // Without the node that is killed: its time is gone with it.
    let load = |cluster: &Cluster| {
        let survivors = cluster.nodes.iter().skip(victim + 1).map(Daemon::pid);
        Load::now(survivors.chain([std::process::id()]))
    };
    let before = load(cluster);
    let is_primary = |mirror: Mirror| mirror.map.is_some_and(|map| map.primary == "n1");
    let was_primary = cluster.mirror(CLIENT)?.is_some_and(is_primary);
    let copied = copied(cluster);
    *known.noted() = Some(vec![false; BLOCKS as usize]);
    let killed_at = Instant::now();
    cluster.kill(victim);
    let done = (known.reads.told().done, known.writes.told().done);
    // One of each may have been answered, and not counted, when the node was killed.
    while known.reads.told().done < done.0 + 2 || known.writes.told().done < done.1 + 2 {
        if killed_at.elapsed() > GOES_ON_WITHIN {
            return Err(DemoError::Stands { seconds: GOES_ON_WITHIN.as_secs() }.into());
        }
        pause(LOOK)?;
    }
    pause(AFTER)?;
    let away = killed_at.elapsed();
    // Counted before it is gone with its process.
    let others = load(cluster).others_since(&before);
    let restarted_at = Instant::now();
    cluster.restart(victim, verbose)?;
    loop {
        let mirror = cluster.mirror(CLIENT)?;
        let in_sync = |mirror: &Mirror| mirror.copies.iter().all(|copy| copy.state == CopyState::InSync);
        if mirror.as_ref().is_some_and(in_sync) {
            break;
        }
        if restarted_at.elapsed() > IN_SYNC_WITHIN {
            let reason = mirror.map_or_else(|| "the volume is not known".into(), |mirror| mirror.health());
            let (seconds, node) = (IN_SYNC_WITHIN.as_secs(), "n1".into());
            return Err(CaptiveError::NotReady {
                node,
                seconds,
                reason,
                log: cluster.nodes[victim].log_tail(),
            }
            .into());
        }
        pause(LOOK)?;
    }
    let resync = restarted_at.elapsed();
    let noted = known.noted().take().unwrap_or_default();
    let copied = self::copied(cluster).saturating_sub(copied);
    pause(AFTER)?;
    Ok(Outage {
        killed: "n1".into(),
        was_primary,
        client: cluster.nodes[CLIENT].config.node.clone(),
        reads: known.reads.told(),
        writes: known.writes.told(),
        away,
        blocks: noted.into_iter().filter(|is_written| *is_written).count() as u64,
        copied,
        resync,
        others,
    })
}

/// Bytes that the nodes have copied to copies which had missed them.
fn copied(cluster: &Cluster) -> u64 {
    (0..cluster.nodes.len()).filter_map(|i| cluster.mirror(i).ok()??.copied.into()).sum()
}

/// The contents of a block of that seed.
fn fill(bytes: &mut [u8], block: u64, seed: u64) {
    for (unit, at) in bytes.chunks_exact_mut(UNIT).zip((block * BLOCK..).step_by(UNIT)) {
        fill_unit(unit, at, seed);
    }
}

/// The seed, then words that only this seed has at this place.
fn fill_unit(unit: &mut [u8], at: u64, seed: u64) {
    let mut random = Random(at ^ seed.rotate_left(32));
    for (i, word) in unit.chunks_exact_mut(8).enumerate() {
        let value = if i == 0 { seed } else { random.next() };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

fn seed_of(unit: &[u8]) -> u64 {
    u64::from_le_bytes(unit[..8].try_into().expect("a unit is longer"))
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, client, away, blocks, copied, resync, .. } = self;
        let right = Align::Right;
        let mut table =
            Table::new(&[("", Align::Left), ("blocks", right), ("errors", right), ("longest pause", right)]);
        for (verb, told) in [("reads", self.reads), ("writes", self.writes)] {
            table.row([
                format!("{client} {verb}, {killed} is killed"),
                count(told.done),
                count(told.errors),
                format!("{:.1} s", told.longest.as_secs_f64()),
            ]);
        }
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "  {killed} {} when it was killed with -9, and was away for {:.1} s. {} were read and written, all compared with what",
            if self.was_primary {
                "ordered the writes"
            } else {
                "had a copy, and another node ordered the writes,"
            },
            away.as_secs_f64(),
            count(self.reads.done + self.writes.done),
        )?;
        writeln!(f, "  may be there, and in the end each of the {} once more, at {killed}.", count(BLOCKS))?;
        writeln!(
            f,
            "  To bring its copy back into sync, {} of {} were copied, {:.1} s after the start of its daemon: {} were written\n  meanwhile.",
            size::human(*copied),
            size::human(SIZE),
            resync.as_secs_f64(),
            size::human(blocks * BLOCK),
        )?;
        if self.others >= super::report::BUSY {
            writeln!(
                f,
                "  This machine is busy: other programs used {:.0} % of its processors meanwhile, and pauses may be longer for that.",
                100.0 * self.others
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage() -> Outage {
        let told = |done, errors, ms| Told { done, errors, longest: Duration::from_millis(ms) };
        Outage {
            killed: "n1".into(),
            was_primary: true,
            client: "n2".into(),
            reads: told(12_345, 0, 2345),
            writes: told(2000, 1, 3100),
            away: Duration::from_millis(4200),
            blocks: 100,
            copied: 7 << 20,
            resync: Duration::from_millis(1500),
            others: 0.0,
        }
    }

    #[test]
    fn the_table_says_what_was_measured() {
        let text = outage().to_string();
        for part in [
            "12 345       0          2.3 s",
            "2 000       1          3.1 s",
            "n1 ordered the writes when it was killed with -9, and was away for 4.2 s. 14 345 were read and written",
            "7 MiB of 256 MiB were copied, 1.5 s after",
            "6.2 MiB were written",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert!(!text.contains("busy"), "{text}");
        let text = Outage { others: 0.5, was_primary: false, ..outage() }.to_string();
        assert!(text.contains("other programs used 50 %"), "{text}");
        assert!(text.contains("n1 had a copy, and another node ordered the writes"), "{text}");
    }

    #[test]
    fn contents_are_of_one_place_and_one_seed() {
        let (mut one, mut other) = ([0; UNIT], [0; UNIT]);
        fill_unit(&mut one, 4096, 7);
        assert_eq!(seed_of(&one), 7);
        for (at, seed) in [(8192, 7), (4096, 8)] {
            fill_unit(&mut other, at, seed);
            assert_ne!(one[8..], other[8..]);
        }
    }

    #[test]
    fn the_longest_pause_is_between_two_ends() {
        let (flow, stop) = (Flow::default(), AtomicBool::new(false));
        let failed = || DemoError::Failed {
            path: "x".into(),
            what: "reading",
            offset: 0,
            length: 0,
            reason: String::new(),
        };
        flow.run(&stop, |number| {
            stop.store(number == 3, SeqCst);
            thread::sleep(Duration::from_millis(if number == 2 { 20 } else { 0 }));
            if number == 2 { Err(failed()) } else { Ok(()) }
        })
        .unwrap();
        let told = flow.told();
        assert_eq!((told.done, told.errors), (2, 1));
        assert!(told.longest >= Duration::from_millis(20));
    }
}
