//! Writes: to the disk, through the one writer, seen by all.

use cards_wire::nbd::{Command, Errno};

use super::cluster::{BLOCK, Cluster};

#[test]
fn what_is_written_is_read_everywhere_and_on_the_disk() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    let mut expected = cluster.content.clone();
    let (mut writer, mut reader) = (cluster.client(2), cluster.client(3));
    assert!(reader.read(0, 64 * BLOCK).unwrap() == expected);
    let mut write = |offset: usize, length: usize, fua: bool| {
        let data: Vec<u8> = (0..length).map(|i| (i * 7 + offset) as u8).collect();
        let result =
            if fua { writer.write_fua(offset as u64, &data) } else { writer.write(offset as u64, &data) };
        result.unwrap();
        expected[offset..offset + length].copy_from_slice(&data);
        assert!(writer.read(offset as u64, length).unwrap() == data);
    };
    write(0, 512, false);
    write(BLOCK - 100, 200, true);
    write(3 * BLOCK + 17, 40 * BLOCK, false);
    writer.command(Command::WriteZeroes, 10 * BLOCK as u64 + 1, 20 * BLOCK as u32).unwrap();
    expected[10 * BLOCK + 1..30 * BLOCK + 1].fill(0);
    writer.command(Command::Flush, 0, 0).unwrap();
    assert!(reader.read(0, 64 * BLOCK).unwrap() == expected);
    assert!(writer.read(0, 64 * BLOCK).unwrap() == expected);
    assert!(cluster.disk_bytes() == expected);
}

#[test]
fn the_second_writer_is_refused_until_the_first_has_left() {
    let cluster = Cluster::start(3, 16 * BLOCK);
    let (mut first, mut second) = (cluster.client(2), cluster.client(3));
    first.write(0, b"first").unwrap();
    assert_eq!(second.write(0, b"second"), Err(Errno::Perm));
    assert_eq!(second.read(0, 5).unwrap(), b"first");
    cluster.wait("node 3 knows the writer", || cluster.status(3).volumes[0].writer.as_deref() == Some("n2"));
    assert!(cluster.client(3).session.read_only());
    drop(first);
    cluster.wait("the role is given back", || second.write(0, b"second").is_ok());
    assert_eq!(cluster.client(2).read(0, 6).unwrap(), b"second");
}

#[test]
fn a_card_of_mode_rw_is_the_writer_from_its_start_to_its_end() {
    let cluster = Cluster::with(3, 16 * BLOCK, |config| {
        if config.node == "n2" {
            config.attach[0].mode = crate::config::Mode::Rw;
        }
    });
    let mut other = cluster.client(3);
    cluster.wait("node 3 knows the writer", || cluster.status(3).volumes[0].writer.as_deref() == Some("n2"));
    assert_eq!(other.write(0, b"other"), Err(Errno::Perm), "without any client of the writer");
    let mut client = cluster.client(2);
    client.write(0, b"first").unwrap();
    drop(client);
    assert_eq!(other.write(0, b"other"), Err(Errno::Perm), "after its last client");
    cluster.wait("the client is gone", || cluster.admin(2).detach("disk").is_ok());
    cluster.wait("the role is free", || other.write(0, b"other").is_ok());
    assert_eq!(cluster.client(1).read(0, 5).unwrap(), b"other");
}

#[test]
fn two_clients_of_one_node_write_together() {
    let cluster = Cluster::start(2, 16 * BLOCK);
    let (mut a, mut b) = (cluster.client(2), cluster.client(2));
    a.write(0, &[1; 4096]).unwrap();
    b.write(4096, &[2; 4096]).unwrap();
    drop(a);
    b.write(8192, &[3; 4096]).unwrap();
    assert_eq!(b.read(4095, 2).unwrap(), [1, 2]);
}

#[test]
fn a_read_only_card_refuses_writes() {
    let cluster = Cluster::with(1, 16 * BLOCK, |config| config.attach[0].mode = crate::config::Mode::Ro);
    let mut client = cluster.client(1);
    assert!(client.session.read_only());
    assert_eq!(client.write(0, b"x"), Err(Errno::Perm));
    assert_eq!(client.read(0, 10).unwrap(), cluster.content[..10]);
}

#[test]
fn trim_and_zeroes_read_back() {
    let cluster = Cluster::start(1, 64 * BLOCK);
    let mut client = cluster.client(1);
    client.read(0, 64 * BLOCK).unwrap();
    client.command(Command::WriteZeroes, 100, 3 * BLOCK as u32).unwrap();
    assert_eq!(client.read(0, 100).unwrap(), cluster.content[..100]);
    assert!(client.read(100, 3 * BLOCK).unwrap().iter().all(|byte| *byte == 0));
    client.command(Command::Trim, 0, 64 * BLOCK as u32).unwrap();
    let read = client.read(0, 64 * BLOCK).unwrap();
    assert!(read == cluster.disk_bytes());
}

#[test]
fn a_flush_needs_no_writer_role() {
    let cluster = Cluster::start(3, 16 * BLOCK);
    let (mut reader, mut writer) = (cluster.client(2), cluster.client(3));
    assert_eq!(reader.command(Command::Flush, 0, 0), Ok(()));
    writer.write(0, b"x").unwrap();
    assert_eq!(reader.command(Command::Flush, 0, 0), Ok(()));
    assert_eq!(writer.command(Command::Flush, 0, 0), Ok(()));
}

#[test]
fn a_writer_that_vanishes_in_the_middle_makes_room_for_the_next() {
    let cluster = Cluster::start(3, 64 * BLOCK);
    for node in [2, 3, 2] {
        let mut client = cluster.client(node);
        cluster.wait("the role is free", || client.write(0, b"x").is_ok());
        for i in 0..20 {
            client.send(Command::Write, 0, i * BLOCK as u64, BLOCK as u32, &vec![i as u8; BLOCK]);
        }
    }
    let mut client = cluster.client(3);
    cluster.wait("the role is free again", || client.write(0, b"last").is_ok());
    assert_eq!(client.read(0, 4).unwrap(), b"last");
}
