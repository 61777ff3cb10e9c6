//! The files: pools that all clients share, and pools of each client's own.

use crate::generate::random::{Permutation, Random, Zipf, fraction_of, scramble};

/// A file, in bytes from the start of the volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Files of about one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Up to 8 KiB: eight opens of ten.
    Short,
    /// Up to 64 KiB.
    Medium,
    /// 1 to 8 MiB: few opens, but a good part of the bytes.
    Long,
}

const CLASSES: [Class; 3] = [Class::Short, Class::Medium, Class::Long];

/// Files in the shared pool and in each private one, and how skewed their popularities are. Calibrated for the
/// hit ratios of Dahlin et al.: 42 clients with 16 MB each under LRU find 78 % of the blocks locally, and 16 %
/// come from disk behind a server cache of 128 MB.
const FILES: [(u64, u64); 3] = [(700, 200), (120, 60), (300, 40)];
const SHARED_SKEW: f64 = 0.9;
const PRIVATE_SKEW: f64 = 1.1;
const SHARED_OPENS: f64 = 0.3;

/// New files go round in rings. A file is deleted long before its place is needed again.
const NEW_SHORT: u64 = 256;
const NEW_LONG: u64 = 128;
const NEW_LONG_SLOT: u64 = 1 << 20;

impl Class {
    /// The room that a file of the class takes at most.
    pub(super) const fn slot(self) -> u64 {
        match self {
            Self::Short => 8 << 10,
            Self::Medium => 64 << 10,
            Self::Long => 8 << 20,
        }
    }

    /// The size of a file follows from its number.
    fn size(self, file: u64) -> u64 {
        let mut random = Random::new(scramble(file));
        let bytes = match self {
            Self::Short => random.lognormal(2080.0, 0.7).clamp(64.0, 8192.0),
            Self::Medium => random.lognormal(11_500.0, 0.35).clamp(8193.0, 65_536.0),
            Self::Long => random.pareto(1_050_000.0, 8_388_608.0, 1.3),
        };
        bytes as u64
    }
}

/// The files of one class.
#[derive(Debug)]
struct Pool {
    class: Class,
    shared: (u64, Zipf, Permutation),
    private: (u64, Zipf, Permutation),
}

/// All files.
#[derive(Debug)]
pub(super) struct Pools {
    pools: [Pool; 3],
    seed: u64,
    clients: u64,
    /// The end of the shared pools.
    shared: u64,
    /// The size of a client's own pools and rings.
    private: u64,
}

impl Pools {
    pub(super) fn new(seed: u64, clients: u32) -> Self {
        let (mut shared, mut private) = (0, 0);
        let mut index = 0;
        let pools = CLASSES.map(|class| {
            let (many, few) = FILES[index];
            index += 1;
            let pool = Pool {
                class,
                shared: (shared, Zipf::new(many, SHARED_SKEW), Permutation::new(many, seed)),
                private: (private, Zipf::new(few, PRIVATE_SKEW), Permutation::new(few, seed)),
            };
            shared += many * class.slot();
            private += few * class.slot();
            pool
        });
        private += NEW_SHORT * Class::Short.slot() + NEW_LONG * NEW_LONG_SLOT;
        Self { pools, seed, clients: u64::from(clients), shared, private }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.shared + self.clients * self.private
    }

    /// A file that a client opens to read.
    pub(super) fn existing(&self, class: Class, client: u32, random: &mut Random) -> File {
        let pool = match class {
            Class::Short => &self.pools[0],
            Class::Medium => &self.pools[1],
            Class::Long => &self.pools[2],
        };
        let everybody = random.chance(SHARED_OPENS);
        let (start, popularity, place) = if everybody { &pool.shared } else { &pool.private };
        let base = if everybody { 0 } else { self.home(client) };
        let offset = base + start + place.at(popularity.draw(random)) * pool.class.slot();
        File { offset, bytes: pool.class.size(self.seed ^ scramble(offset)) }
    }

    /// Where a client's new file goes.
    pub(super) fn new_file(&self, long: bool, client: u32, number: u64, random: &mut Random) -> File {
        let end = self.home(client) + self.private;
        let longs = end - NEW_LONG * NEW_LONG_SLOT;
        if long {
            let bytes = random.pareto(64.0 * 1024.0, NEW_LONG_SLOT as f64, 0.8) as u64;
            return File { offset: longs + number % NEW_LONG * NEW_LONG_SLOT, bytes };
        }
        let shorts = longs - NEW_SHORT * Class::Short.slot();
        let bytes = (2048.0 * (2.0 + 2.0 * fraction_of(number))) as u64;
        File { offset: shorts + number % NEW_SHORT * Class::Short.slot(), bytes }
    }

    fn home(&self, client: u32) -> u64 {
        self.shared + u64::from(client) * self.private
    }
}
