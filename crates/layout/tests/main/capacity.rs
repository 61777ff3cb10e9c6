//! How large a volume can be.

use cards_layout::capacity::{Capacity, spare_default};
use cards_layout::placement::Disk;

use crate::placement::{disk, request};

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

fn capacity(layout: &str, disks: &[Disk], spare: usize) -> Capacity {
    request(layout, disks).place().unwrap().capacity(disks, spare).unwrap()
}

fn nodes(sizes: &[u64]) -> Vec<Disk> {
    sizes.iter().enumerate().map(|(node, size)| disk(node + 1, 'a', *size, None)).collect()
}

#[test]
fn usable_space_is_as_the_layouts_promise() {
    let four = nodes(&[TIB; 4]);
    for (layout, volume) in [
        ("linear", 4 * TIB),
        ("raid0", 4 * TIB),
        ("raid1:2", 2 * TIB),
        ("raid10:2", 2 * TIB),
        ("raid1:4", TIB),
        ("raid5:3+1", 3 * TIB),
        ("raid6:2+2", 2 * TIB),
    ] {
        let found = capacity(layout, &four, 0);
        assert_eq!((found.space, found.volume, found.spare), (4 * TIB, volume, 0), "{layout}");
        assert!(found.idle.iter().all(|idle| *idle == 0));
    }
}

#[test]
fn a_concatenation_uses_disks_of_different_sizes_and_a_stripe_the_smallest() {
    let mixed = nodes(&[4 * TIB, TIB, 2 * TIB]);
    let linear = capacity("linear", &mixed, 0);
    assert_eq!((linear.volume, linear.columns), (7 * TIB, vec![4 * TIB, TIB, 2 * TIB]));
    let raid0 = capacity("raid0", &mixed, 0);
    assert_eq!((raid0.volume, raid0.idle), (3 * TIB, vec![3 * TIB, 0, TIB]));
}

#[test]
fn more_groups_waste_less_of_unequal_disks() {
    let mixed = nodes(&[2 * TIB, TIB, TIB]);
    let few = capacity("raid1:2", &mixed, 0);
    let many = capacity("raid10:2", &mixed, 0);
    assert!(few.volume < many.volume, "{few:?} {many:?}");
    assert!(many.volume > 2 * TIB - 12 * GIB);
    for found in [few, many] {
        assert_eq!(found.idle.iter().sum::<u64>(), found.space - 2 * found.volume);
    }
}

#[test]
fn columns_are_whole_pieces_of_the_disk_with_the_largest() {
    let mut disks = nodes(&[10 * GIB, 10 * GIB]);
    disks[1].piece = 4 * GIB;
    let found = capacity("raid1:2", &disks, 0);
    // Two groups share each disk: five GiB for a column, of which four are whole pieces.
    assert_eq!((found.volume, found.idle), (8 * GIB, vec![2 * GIB; 2]));
}

#[test]
fn space_of_one_disk_is_kept_free_where_a_lost_one_can_be_rebuilt() {
    let five = nodes(&[TIB; 5]);
    let placement = request("raid5:3+1", &five).place().unwrap();
    assert_eq!(spare_default(&placement, 5), 1);
    let found = placement.capacity(&five, 1).unwrap();
    assert!(found.spare.abs_diff(TIB) < 5 && found.volume <= 3 * TIB && found.volume > 3 * TIB - 60 * GIB);
    assert_eq!(spare_default(&request("raid5", &five).place().unwrap(), 5), 0);
    assert_eq!(spare_default(&request("raid1:2", &five).place().unwrap(), 5), 0);
}

#[test]
fn no_room_is_said_with_the_numbers() {
    let two = nodes(&[TIB, TIB]);
    let placement = request("raid1:2", &two).place().unwrap();
    assert_eq!(
        placement.capacity(&two, 2).unwrap_err().to_string(),
        "the space of 2 disks is to be kept free, and there are 2; keep less free, or add disks"
    );
    let small = nodes(&[3 * GIB, 3 * GIB]);
    let placement = request("raid10:2", &small).place().unwrap();
    assert_eq!(
        placement.capacity(&small, 0).unwrap_err().to_string(),
        "disk n1:a has 3 GiB for 8 columns of at least 1 GiB; leave it out, or use fewer groups"
    );
}
