//! Geometry: the map and its inverse, every byte in exactly one chunk, rows and runs.

use std::collections::{BTreeMap, BTreeSet};

use cards_layout::geometry::{Geometry, GeometryError, Location, Parameters, RUN_MAX, RUN_MIN, Spread, Unit};
use cards_layout::layout::Shape;
use proptest::prelude::*;

const KIB: u32 = 1 << 10;
const MIB: u64 = 1 << 20;

fn shape() -> impl Strategy<Value = Shape> {
    let parity = (2..=8u8, 1..=2u8).prop_map(|(data, parity)| Shape::Parity { data, parity });
    prop_oneof![(1..=4u8).prop_map(Shape::Copies), parity]
}

fn geometry() -> impl Strategy<Value = Geometry> {
    let spread = |row: u64| {
        let striped = (1..=9u32, 1..=1u64 << 36);
        let concatenated = prop::collection::vec(1..=1u64 << 16, 1..6);
        prop_oneof![
            striped.prop_map(|(groups, size)| Spread::Striped { groups, size }),
            concatenated.prop_map(move |rows| Spread::Concatenated {
                groups: rows.into_iter().map(|rows| rows * row).collect()
            }),
        ]
    };
    let parts = (shape(), 12..=20u32, 1..=4u32, prop::option::of(1..=7u64));
    let parts = parts.prop_filter("rows of at most a run", |(shape, _, blocks, _)| {
        u32::from(shape.data()) * blocks <= RUN_MAX
    });
    parts.prop_flat_map(move |(shape, block, blocks, rows)| {
        let (block, chunk) = (1 << block, blocks << block);
        let row = u64::from(shape.data()) * u64::from(chunk);
        let bundle = rows.map(|rows| rows * row);
        spread(row).prop_map(move |spread| {
            Geometry::new(Parameters { shape, spread, block, chunk: Some(chunk), bundle }).unwrap()
        })
    })
}

proptest! {
    #[test]
    fn the_map_has_an_inverse(geometry in geometry(), at: u64) {
        let offset = at % geometry.size();
        let location = geometry.locate(offset).unwrap();
        prop_assert_eq!(geometry.offset(location), Some(offset));
        let number = geometry.block_number(location);
        let block = geometry.block();
        let start = Location { within: location.within / block * block, ..location };
        prop_assert_eq!(geometry.block_location(location.group, number), Some(start));
        prop_assert_eq!(geometry.locate(geometry.size()), None);
    }

    #[test]
    fn block_numbers_name_at_most_one_block(geometry in geometry(), number: u32, group in 0..10u32) {
        if let Some(location) = geometry.block_location(group, number) {
            prop_assert_eq!(geometry.block_number(location), number);
            let offset = geometry.offset(location).unwrap();
            prop_assert_eq!(geometry.locate(offset), Some(location));
        }
    }

    #[test]
    fn extents_cover_each_byte_once_and_never_leave_a_chunk(geometry in geometry(), at: u64, length in 0..64 * MIB) {
        let offset = at % geometry.size();
        let mut next = offset;
        for extent in geometry.extents(offset, length) {
            prop_assert_eq!(geometry.offset(extent.location), Some(next));
            prop_assert!(extent.length > 0 && extent.location.within + extent.length <= geometry.chunk());
            let last = Location { within: extent.location.within + extent.length - 1, ..extent.location };
            next += u64::from(extent.length);
            prop_assert_eq!(geometry.offset(last), Some(next - 1));
        }
        prop_assert_eq!(next, offset.saturating_add(length).min(geometry.size()));
    }

    #[test]
    fn a_row_is_in_one_run(geometry in geometry(), at: u64) {
        let location = geometry.locate(at % geometry.size()).unwrap();
        let first = geometry.block_number(Location { chunk: 0, within: 0, ..location });
        let last_chunk = geometry.shape().data() - 1;
        let last = geometry.block_number(Location { chunk: last_chunk, within: geometry.chunk() - 1, ..location });
        prop_assert!(geometry.run().is_power_of_two() && (RUN_MIN..=RUN_MAX).contains(&geometry.run()));
        prop_assert_eq!(first / geometry.run(), last / geometry.run());
        prop_assert!((last - first) < geometry.run());
    }

    #[test]
    fn a_row_has_each_unit_in_one_column(shape in shape(), row: u64) {
        let spread = Spread::Striped { groups: 1, size: MIB };
        let geometry =
            Geometry::new(Parameters { shape, spread, block: 64 * KIB, chunk: None, bundle: None }).unwrap();
        let units: Vec<Unit> = (0..shape.width()).map(|column| geometry.unit(row, column).unwrap()).collect();
        prop_assert_eq!(geometry.unit(row, shape.width()), None);
        if let Shape::Parity { data, parity } = shape {
            let distinct: BTreeSet<String> = units.iter().map(|unit| format!("{unit:?}")).collect();
            prop_assert_eq!(distinct.len(), usize::from(data + parity));
            for chunk in 0..data {
                prop_assert_eq!(units[usize::from(geometry.data_column(row, chunk))], Unit::Data(chunk));
            }
        } else {
            prop_assert!(units.iter().all(|unit| *unit == Unit::Data(0)));
        }
    }
}

proptest! {
    /// The largest volume for columns of a size has no byte behind their ends, and one bundle more for each group would not fit.
    #[test]
    fn a_volume_of_the_largest_size_stays_in_its_columns(shape in shape(), groups in 1..9u32, column in 32 * MIB..1 << 40, at: u64) {
        let make = |size| {
            let spread = Spread::Striped { groups, size };
            Geometry::new(Parameters { shape, spread, block: 64 * KIB, chunk: None, bundle: None }).unwrap()
        };
        let size = make(1).size_for(column);
        let geometry = make(size);
        for offset in [size - 1, at % size] {
            let location = geometry.locate(offset).unwrap();
            prop_assert!(geometry.column_offset(location) < column);
        }
        let larger = size + u64::from(groups) * geometry.bundle().unwrap();
        let last = make(larger).locate(larger - 1).unwrap();
        let end = geometry.column_offset(Location { within: geometry.chunk() - 1, ..last });
        prop_assert!(end >= column);
    }
}

/// Every byte of a small volume, one by one: all columns are filled without holes, and no place has two bytes.
#[test]
fn every_byte_of_small_volumes_is_in_exactly_one_place() {
    let shapes =
        [Shape::Copies(2), Shape::Parity { data: 3, parity: 1 }, Shape::Parity { data: 2, parity: 2 }];
    for shape in shapes {
        let parameters = Parameters {
            shape,
            spread: Spread::Striped { groups: 3, size: 9 * 4096 * 12 * u64::from(shape.data()) },
            block: 4 * KIB,
            chunk: Some(12 * KIB),
            bundle: None,
        };
        let geometry = Geometry::new(Parameters {
            bundle: Some(24 * u64::from(KIB * u32::from(shape.data()))),
            ..parameters
        })
        .unwrap();
        let mut places: BTreeMap<(u32, u8), BTreeSet<u64>> = BTreeMap::new();
        for offset in (0..geometry.size()).step_by(512) {
            let location = geometry.locate(offset).unwrap();
            let column = geometry.data_column(location.row, location.chunk);
            let of_column = places.entry((location.group, column)).or_default();
            assert!(
                of_column.insert(geometry.column_offset(location)),
                "{shape:?}: two bytes at {location:?}"
            );
        }
        let sectors: usize = places.values().map(BTreeSet::len).sum();
        assert_eq!(sectors as u64 * 512, geometry.size());
    }
}

/// Two groups of two rows, each of three chunks of 12 KiB, side by side and one after the other.
#[test]
fn a_place_beyond_a_row_a_chunk_or_a_group_is_no_byte_of_the_volume() {
    let (chunk, row) = (12 * KIB, 36 << 10);
    let group = 2 * row;
    for (spread, bundle) in [
        (Spread::Striped { groups: 2, size: 2 * group }, Some(row)),
        (Spread::Concatenated { groups: vec![group, group] }, None),
    ] {
        let shape = Shape::Parity { data: 3, parity: 1 };
        let parameters = Parameters { shape, spread, block: 4 * KIB, chunk: Some(chunk), bundle };
        let geometry = Geometry::new(parameters).unwrap();
        let last = Location { group: 0, row: 1, chunk: 2, within: chunk - 1 };
        assert!(geometry.offset(last).is_some());
        for beyond in [
            Location { row: 0, chunk: 3, within: 0, ..last },
            Location { row: 0, chunk: 0, within: chunk, ..last },
            Location { row: 2, chunk: 0, within: 0, ..last },
            Location { group: 2, row: 0, chunk: 0, within: 0 },
        ] {
            assert_eq!(geometry.offset(beyond), None, "{beyond:?}");
        }
    }
}

#[test]
fn left_symmetric_rotation_is_as_in_the_books() {
    let shape = Shape::Parity { data: 3, parity: 1 };
    let spread = Spread::Striped { groups: 1, size: MIB };
    let geometry =
        Geometry::new(Parameters { shape, spread, block: 64 * KIB, chunk: None, bundle: None }).unwrap();
    let rows: Vec<String> = (0..5)
        .map(|row| {
            let unit = |column| match geometry.unit(row, column).unwrap() {
                Unit::Data(chunk) => chunk.to_string(),
                Unit::Parity(_) => "P".into(),
            };
            (0..4).map(unit).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(rows, ["0 1 2 P", "1 2 P 0", "2 P 0 1", "P 0 1 2", "0 1 2 P"]);
}

#[test]
fn defaults_are_those_of_the_page() {
    let make = |shape, block| {
        let spread = Spread::Striped { groups: 4, size: 1 << 30 };
        Geometry::new(Parameters { shape, spread, block, chunk: None, bundle: None }).unwrap()
    };
    let of = |geometry: Geometry| (geometry.chunk(), geometry.bundle().unwrap(), geometry.run());
    assert_eq!(of(make(Shape::Copies(2), 64 * KIB)), (64 * KIB, MIB, 16));
    assert_eq!(of(make(Shape::Copies(2), 1 << 20)), (1 << 20, MIB, 16));
    assert_eq!(of(make(Shape::Copies(1), 4 * KIB)), (64 * KIB, MIB, 16));
    // Three chunks of 64 KiB: five rows are the most that a bundle of 1 MiB has room for.
    assert_eq!(of(make(Shape::Parity { data: 3, parity: 1 }, 64 * KIB)), (64 * KIB, 960 << 10, 16));
    assert_eq!(of(make(Shape::Parity { data: 8, parity: 2 }, 4 * KIB)), (64 * KIB, MIB, 128));
}

#[test]
fn broken_rules_are_refused_with_the_numbers() {
    let good = Parameters {
        shape: Shape::Parity { data: 3, parity: 1 },
        spread: Spread::Striped { groups: 2, size: 1 << 30 },
        block: 64 * KIB,
        chunk: None,
        bundle: None,
    };
    let refused = |parameters: Parameters| Geometry::new(parameters).unwrap_err().to_string();
    let block = |block| Parameters { block, ..good.clone() };
    for wrong in [0, 2048, 4097, 96 << 10, 2 << 20] {
        assert!(refused(block(wrong)).ends_with("a power of two from 4 KiB to 1 MiB"), "{wrong}");
    }
    assert_eq!(
        refused(Parameters { chunk: Some(96 * KIB), ..good.clone() }),
        "chunk 96 KiB: a chunk is whole blocks, and a block has 64 KiB; use a multiple of that"
    );
    assert_eq!(
        refused(Parameters { bundle: Some(MIB), ..good.clone() }),
        "bundle 1 MiB: a bundle is whole rows, and a row has 192 KiB of data; use a multiple of that"
    );
    assert_eq!(
        refused(Parameters { shape: Shape::Parity { data: 30, parity: 2 }, block: 4 * KIB, ..good.clone() }),
        "30 data chunks of 64 KiB are 480 blocks of 4 KiB, and a row has at most 256; use larger blocks, smaller chunks, or \
         fewer data columns"
    );
    let spread = Spread::Striped { groups: 2, size: 100 << 40 };
    assert_eq!(
        refused(Parameters { spread, shape: Shape::Copies(2), block: 4 * KIB, ..good.clone() }),
        "a group of 50 TiB has more than 2^32 blocks of 4 KiB; use larger blocks, or more groups: with this block a group \
         has at most 16 TiB"
    );
    let none = |spread| Geometry::new(Parameters { spread, ..good.clone() }).unwrap_err();
    assert_eq!(none(Spread::Striped { groups: 0, size: 1 }), GeometryError::NoGroups);
    assert_eq!(none(Spread::Concatenated { groups: vec![] }), GeometryError::NoGroups);
    let part = none(Spread::Concatenated { groups: vec![192 << 10, 64 << 10] });
    assert_eq!(part.to_string(), "group 1 has 64 KiB: a group is whole rows of 192 KiB, at least one");
}
