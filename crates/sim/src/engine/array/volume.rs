//! A volume over the disks of a machine: what it is, and where its bytes are.

use cards_array::group::GroupTiming;
use cards_layout::domain::Level;
use cards_layout::geometry::{Geometry, Parameters, Spread};
use cards_layout::layout::{Layout, Shape};
use cards_layout::placement::{Disk, Group, Placement, PlacementError, Request};

use crate::setup::{Setup, SetupError};

/// A volume over all disks of the machine, each at a node of its own, and how clients use it. The last node has the first disk, the one before it the
/// second, so that the first clients are at other nodes than a lone disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// `raid0` and `raid10` are striped as in the daemon. `linear` and `raid1` are groups one after another, each with the same share of the
    /// volume: those of `raid1` are as many mirrored volumes as there are disks.
    pub layout: Layout,
    /// Bytes of the volume.
    pub bytes: u64,
    /// A client's request is cut into pieces of so many bytes, at multiples of that.
    pub piece_bytes: u32,
    /// Pieces of a request that are under way at a time, at most: what is read ahead, or written behind, of it.
    pub depth: u16,
    /// Each piece of a write is made durable, and a client waits for that.
    pub is_durable: bool,
    /// Writes and flushes are answered as soon as the node that orders them has the bytes in its memory, while so many are not on
    /// its disk; 0: when every column has them.
    pub write_memory: u64,
    /// The times of the groups.
    pub timing: GroupTiming,
}

/// As the coordinator of the daemon has it.
pub(super) const BUNDLE: u64 = 1 << 20;
/// As managed disks have it.
pub(super) const UNIT: u32 = 4096;

impl Array {
    /// A volume that is written through, by clients with one request at a time.
    #[must_use]
    pub fn new(layout: Layout, bytes: u64) -> Self {
        Self {
            layout,
            bytes,
            piece_bytes: 64 << 10,
            depth: 1,
            is_durable: false,
            write_memory: 0,
            timing: GroupTiming::default(),
        }
    }

    /// Checks that it can be built.
    ///
    /// # Errors
    /// [`SetupError::Bad`] names the parameter.
    pub(crate) fn check(&self, setup: &Setup) -> Result<(), SetupError> {
        Places::new(self, setup).map(|_| ())
    }

    /// Groups over so many disks: of `raid10` as many as the coordinator makes, two for each disk, and 16 over 16 disks or fewer at most.
    fn groups(&self, disks: usize) -> usize {
        match self.layout {
            Layout::Raid10 { .. } => (disks * 2).min(disks.max(16)),
            layout => layout.groups(disks),
        }
    }
}

/// Where the bytes of an [`Array`] are.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) geometry: Geometry,
    /// Of each group, its columns' disks: the first one's node orders its commands.
    pub(super) groups: Vec<Vec<usize>>,
    /// Of each group and column, where it begins on its disk.
    pub(super) begins: Vec<Vec<u64>>,
    /// Bytes of a column.
    pub(super) column_bytes: u64,
}

impl Places {
    pub(super) fn new(array: &Array, setup: &Setup) -> Result<Self, SetupError> {
        let bad = |parameter, value: String, want| SetupError::Bad { parameter, value, want };
        let disks = setup.machine.disks;
        if disks > setup.nodes {
            return Err(bad("disks", disks.to_string(), "at most one for each node"));
        }
        if array.depth == 0 {
            return Err(bad("array.depth", "0".into(), "at least 1"));
        }
        let shape = array.layout.shape(disks.into());
        if matches!(shape, Shape::Parity { .. }) {
            return Err(bad("array.layout", array.layout.to_string(), "raid0, raid1, raid10 or linear"));
        }
        let count = array.groups(disks.into()) as u64;
        let column_bytes = array.bytes.div_ceil(BUNDLE).div_ceil(count).saturating_mul(BUNDLE);
        let spread = match array.layout {
            Layout::Raid0 | Layout::Raid10 { .. } => {
                Spread::Striped { groups: count as u32, size: array.bytes }
            }
            _ => Spread::Concatenated { groups: (0..count).map(|_| column_bytes).collect() },
        };
        let chunk = Some(array.piece_bytes);
        let bundle = Some(BUNDLE);
        let geometry = Geometry::new(Parameters { shape, spread, block: UNIT, chunk, bundle });
        let geometry = geometry.map_err(|error| {
            let value = format!("{} of {} bytes: {error}", array.layout, array.bytes);
            bad("array", value, "a layout that has a geometry")
        })?;
        let described: Option<Vec<Disk>> = (0..disks)
            .map(|disk| {
                let node = format!("n{disk}");
                let domain = node.parse().ok()?;
                Some(Disk { name: format!("{node}:disk"), node, domain, space: 1 << 40, piece: BUNDLE })
            })
            .collect();
        let described = described.unwrap_or_else(|| unreachable!("n and a number is a name"));
        let request = Request {
            layout: array.layout,
            disks: &described,
            level: Level::Host,
            groups: Some(count as usize),
            key: setup.seed,
        };
        let placement = evenly_led(request).map_err(|error| {
            bad("array.layout", format!("{}: {error}", array.layout), "a layout that the disks have room for")
        })?;
        let groups = placement.groups.into_iter().map(|Group { mut columns, primary }| {
            columns.rotate_left(primary);
            columns
        });
        let groups: Vec<Vec<usize>> = groups.collect();
        let mut taken = vec![0; usize::from(disks)];
        let mut begin = |&disk: &usize| {
            taken[disk] += column_bytes;
            taken[disk] - column_bytes
        };
        let begins = groups.iter().map(|disks| disks.iter().map(&mut begin).collect());
        let begins = begins.collect();
        Ok(Self { geometry, begins, groups, column_bytes })
    }
}

/// Other placements are looked at, if a node would lead two groups more than another one.
const KEYS: u64 = 10_000;

/// The placement, with a key under which each disk's node leads about as many groups as the others: the coordinator of the daemon changes primaries
/// until that is so.
fn evenly_led(request: Request<'_>) -> Result<Placement, PlacementError> {
    let of_key = |n: u64| Request { key: request.key.wrapping_add(n << 32), ..request };
    let is_even = |placement: &Placement| {
        let mut led = vec![0; request.disks.len()];
        placement.groups.iter().for_each(|group| led[group.columns[group.primary]] += 1);
        led.iter().max() <= led.iter().min().map(|least| least + 1).as_ref()
    };
    let first = request.place()?;
    let even = (0..KEYS).filter_map(|n| of_key(n).place().ok()).find(is_even);
    Ok(even.unwrap_or(first))
}
