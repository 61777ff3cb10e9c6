//! Placement: domains, balance, refusals, and placements that must never change.

use std::collections::BTreeSet;

use cards_layout::domain::Level;
use cards_layout::placement::{Disk, Placement, PlacementError, Request};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Disk `n1:a` of node `n1`, in domain `rack1/n1` if a rack is given.
pub(crate) fn disk(node: usize, letter: char, space: u64, rack: Option<usize>) -> Disk {
    let host = format!("n{node}");
    let domain = rack.map_or_else(|| host.clone(), |rack| format!("rack{rack}/{host}"));
    Disk { name: format!("{host}:{letter}"), node: host, domain: domain.parse().unwrap(), space, piece: GIB }
}

pub(crate) fn request<'a>(layout: &str, disks: &'a [Disk]) -> Request<'a> {
    Request { layout: layout.parse().unwrap(), disks, level: Level::Host, groups: None, key: 7 }
}

fn nodes(count: usize) -> Vec<Disk> {
    (1..=count).map(|node| disk(node, 'a', TIB, None)).collect()
}

fn assert_domains_differ(placement: &Placement, disks: &[Disk], level: Level) {
    for group in &placement.groups {
        let domains: BTreeSet<_> =
            group.columns.iter().map(|disk| disks[*disk].domain_at(level).unwrap()).collect();
        assert_eq!(domains.len(), usize::from(placement.shape.width()));
        assert!(group.primary < group.columns.len());
    }
}

proptest! {
    #[test]
    fn no_two_columns_of_a_group_share_a_domain(
        spaces in prop::collection::vec((1..=16u64, 0..6usize, 0..4usize), 1..24), key: u64, width in 0..6usize, level in 0..3usize,
    ) {
        let layout = ["raid1:2", "raid1:3", "raid10:2", "raid5:2+1", "raid5", "raid6:2+2"][width];
        let letters = 'a'..;
        let disks: Vec<Disk> =
            spaces.iter().zip(letters).map(|((space, node, rack), letter)| disk(*node, letter, space * TIB, Some(*rack))).collect();
        let level = Level::ALL[level];
        let request = Request { level, key, ..request(layout, &disks) };
        match request.place() {
            Ok(placement) => {
                assert_domains_differ(&placement, &disks, level);
                prop_assert_eq!(request.place(), Ok(placement.clone()));
                prop_assert!(placement.survives(&disks, level).unwrap() >= usize::from(placement.shape.tolerance()));
                // What was chosen can be written down by hand.
                let map = placement.groups.iter().map(|group| group.columns.clone()).collect();
                prop_assert_eq!(request.explicit(map), Ok(placement));
            }
            Err(PlacementError::TooFewDomains { needs, domains, .. }) => prop_assert!(domains.len() < needs),
            Err(other) => panic!("{other}"),
        }
    }

    /// Each disk has its share of the columns by its space, within 3 %, where domains leave the choice: none has more than its
    /// part of a group.
    #[test]
    fn disks_are_filled_evenly(spaces in prop::collection::vec(4..=8u64, 8..20), key: u64, width in 1..4u8) {
        let disks: Vec<Disk> =
            spaces.iter().enumerate().map(|(node, space)| disk(node, 'a', space * TIB, None)).collect();
        let layout = if width == 1 { "raid10:2".into() } else { format!("raid5:{width}+1") };
        let groups = Some(1000);
        let placement = Request { groups, key, ..request(&layout, &disks) }.place().unwrap();
        let columns = placement.columns(disks.len());
        let total: u64 = columns.iter().sum();
        let space: u64 = spaces.iter().sum();
        for (disk, has) in columns.iter().enumerate() {
            let share = total as f64 * spaces[disk] as f64 / space as f64;
            prop_assert!((*has as f64 - share).abs() <= share * 0.03, "disk {disk} has {has} columns, its share is {share}");
        }
    }

    #[test]
    fn equal_disks_differ_by_one_column_at_most(count in 3..40usize, key: u64) {
        let disks = nodes(count);
        for layout in ["raid1:2", "raid10:3", "raid5:2+1"] {
            let placement = Request { key, ..request(layout, &disks) }.place().unwrap();
            let columns = placement.columns(count);
            prop_assert!(columns.iter().max().unwrap() - columns.iter().min().unwrap() <= 1, "{layout}: {columns:?}");
        }
    }
}

fn golden(placement: &Placement) -> String {
    let group = |group: &cards_layout::placement::Group| {
        let columns: Vec<String> = group.columns.iter().map(ToString::to_string).collect();
        format!("{}/{}", columns.join(","), group.primary)
    };
    placement.groups.iter().map(group).collect::<Vec<_>>().join(" ")
}

/// Placements are written down in maps, and a volume that is laid out again by a later version has to look the same.
#[test]
fn golden_placements_are_frozen() {
    let three = nodes(3);
    let six: Vec<Disk> =
        (1..=6).map(|node| disk(node, 'a', if node < 3 { 2 * TIB } else { TIB }, None)).collect();
    let racks: Vec<Disk> = (0..8).map(|node| disk(node, 'a', TIB, Some(node / 2))).collect();
    let placed = [
        golden(&request("linear", &three).place().unwrap()),
        golden(&request("raid0", &three).place().unwrap()),
        golden(&request("raid1:2", &three).place().unwrap()),
        golden(&Request { key: 8, ..request("raid1:2", &three) }.place().unwrap()),
        golden(&request("raid5:3+1", &six).place().unwrap()),
        golden(
            &Request { level: Level::Rack, groups: Some(6), ..request("raid6:2+2", &racks) }.place().unwrap(),
        ),
    ];
    assert_eq!(placed, GOLDEN);
}

/// Of each group the disks of its columns, and behind the slash the column of its primary.
const GOLDEN: [&str; 6] = [
    "0/0 1/0 2/0",
    "0/0 1/0 2/0",
    "2,1/0 0,2/0 0,1/1",
    "2,0/0 1,2/0 1,0/1",
    "1,0,2,4/0 0,3,5,1/1 0,1,2,4/2 0,3,5,1/0 0,1,2,5/3 3,4,1,0/1 1,0,5,4/2 1,2,3,0/3 1,0,5,3/0 \
     0,4,2,1/1 0,1,4,5/2 1,2,3,0/1 1,0,4,5/0 0,1,3,2/2 1,0,3,5/2 1,4,2,0/3 0,1,3,4/0 1,2,0,5/1 \
     1,0,5,4/2 0,3,1,2/3 1,0,2,5/0 4,3,1,0/1 1,0,5,3/2 0,4,2,1/1",
    "2,1,4,6/0 7,0,3,5/1 7,2,4,0/2 6,3,5,1/3 0,2,7,5/2 3,4,1,6/3",
];

#[test]
fn primaries_are_spread_over_the_nodes() {
    for count in 3..12 {
        let disks = nodes(count);
        let placement = request("raid10:2", &disks).place().unwrap();
        let mut primaries = vec![0; count];
        for group in &placement.groups {
            primaries[group.columns[group.primary]] += 1;
        }
        assert!(primaries.iter().all(|groups| (3..=5).contains(groups)), "{count}: {primaries:?}");
    }
}

#[test]
fn refusals_have_the_arithmetic_and_the_remedy() {
    let five = nodes(5);
    let refused = |request: Request<'_>| request.place().unwrap_err().to_string();
    assert_eq!(
        refused(request("raid6:4+2", &five)),
        "raid6:4+2 needs 6 failure domains (level host); there are 5: n1 n2 n3 n4 n5. Add 1 more, or use raid6:3+2"
    );
    let two_each: Vec<Disk> =
        (0..10).map(|i| disk(i / 2 + 1, if i % 2 == 0 { 'a' } else { 'b' }, TIB, None)).collect();
    assert_eq!(
        refused(request("raid6:4+2", &two_each)),
        "raid6:4+2 needs 6 failure domains (level host); there are 5: n1 n2 n3 n4 n5. Add 1 more, use raid6:3+2, or \
         --domain disk (survives disks, not hosts)"
    );
    let rack: Vec<Disk> = (1..=3).map(|node| disk(node, 'a', TIB, Some(1))).collect();
    assert_eq!(
        refused(Request { level: Level::Rack, ..request("raid1:2", &rack) }),
        "raid1:2 needs 2 failure domains (level rack); there is 1: rack1. Add 1 more, or --domain host (survives hosts, \
         not racks)"
    );
    assert_eq!(
        refused(Request { level: Level::Rack, ..request("raid1:2", &five) }),
        "disk n1:a is in n1, which names no rack; give it a domain such as rack1/n1, or tell hosts apart, not racks"
    );
    assert_eq!(refused(request("raid1:2", &[])), "no disks; name at least one");
    let twice = [disk(1, 'a', TIB, None), disk(1, 'a', TIB, None)];
    assert_eq!(refused(request("raid0", &twice)), "disk n1:a is there twice; name each disk once");
    let small = [disk(1, 'a', GIB - 1, None)];
    assert_eq!(refused(request("raid0", &small)), "disk n1:a has no room for a piece; leave it out");
    assert_eq!(
        refused(Request { groups: Some(4), ..request("raid0", &five) }),
        "4 groups: raid0 has one group for each disk, 5 over these disks"
    );
    for groups in [0, 65_537] {
        let text = refused(Request { groups: Some(groups), ..request("raid1:2", &five) });
        assert!(text.ends_with("a volume (raid1:2) has 1 to 65536; ask for fewer groups or disks"), "{text}");
    }
}

#[test]
fn a_disk_has_room_if_it_has_a_piece() {
    let disks = [disk(1, 'a', GIB, None), disk(2, 'a', GIB, None)];
    assert_eq!(request("linear", &disks).place().unwrap().groups.len(), 2);
}

#[test]
fn a_map_made_by_hand_is_held_to_the_same_rules() {
    let disks = [disk(1, 'a', TIB, None), disk(1, 'b', TIB, None), disk(2, 'a', TIB, None)];
    let request = request("raid1:2", &disks);
    let refused = |map: Vec<Vec<usize>>| request.explicit(map).unwrap_err().to_string();
    assert_eq!(refused(vec![vec![0, 2], vec![0]]), "group 1 has 1 disks and needs 2, one for each column");
    assert_eq!(
        refused(vec![vec![0, 3]]),
        "group 0 is to be on disk number 3; there are 3, the first is number 0"
    );
    assert_eq!(
        refused(vec![vec![0, 2], vec![0, 1]]),
        "group 1 has columns on n1:a and n1:b, both in n1 (level host); use disks of different domains"
    );
    assert_eq!(
        refused(vec![vec![2, 2]]),
        "group 0 has columns on n2:a and n2:a, both in n2 (level host); use disks of different domains"
    );
    assert_eq!(request.explicit(vec![vec![0, 2]]).unwrap().groups.len(), 1);
}

#[test]
fn what_is_survived_follows_from_the_map() {
    // Three disks at one host, one elsewhere: columns of disks apart share hosts.
    let disks: Vec<Disk> =
        [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'a')].map(|(node, letter)| disk(node, letter, TIB, None)).into();
    let by_disk = Request { level: Level::Disk, ..request("raid1:2", &disks) }.place().unwrap();
    assert_eq!(
        [Level::Disk, Level::Host, Level::Rack].map(|level| by_disk.survives(&disks, level)),
        [Some(1), Some(0), None]
    );
    let raid6 = request("raid6:2+2", &nodes(4)).place().unwrap();
    assert_eq!(raid6.survives(&nodes(4), Level::Host), Some(2));
    assert_eq!(request("raid0", &disks).place().unwrap().survives(&disks, Level::Disk), Some(0));
}
