//! A volume of several parts that one node has for itself: all of it or nothing, whichever primaries die.

use std::path::Path;

use serde_json::Value;

use super::mirrored::{Fio, ends_whole};
use super::site::{Site, missing_devices};
use crate::harness::cluster::CARDS;
use crate::harness::plan::Plan;
use crate::harness::process::{Finished, Process, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, eventually, scratch};

/// How long requests wait that were under way when their volume was taken: then they fail.
const TAKEN: &str = "20s";

/// A volume with parts at all nodes, of which each leads some.
fn laid_out(dir: &Path, disk_wait: &'static str) -> Site {
    Site::laid_out(Plan { disk_wait, ..Plan::new(dir, 3) }, "raid10:2")
}

/// The same with an ext4 that node 1 has mounted.
fn mounted(dir: &Path, disk_wait: &'static str) -> Site {
    let site = laid_out(dir, disk_wait);
    let device = site.prints(1, "attach disk --block --mode exclusive");
    sh(&format!("mke2fs -q -t ext4 {device}"), LONG).ok();
    site.cards(1, "detach disk").ok();
    site.mount(1, "").ok();
    site
}

fn parts(site: &Site, asked: usize) -> Vec<Value> {
    let told: Value = serde_json::from_str(&site.prints(asked, "volume show disk --json")).unwrap();
    told["striped"]["parts"].as_array().unwrap_or_else(|| panic!("{told:#}")).clone()
}

/// The nodes that lead the parts, the first one first.
fn primaries(site: &Site, asked: usize) -> Vec<usize> {
    let led = parts(site, asked).into_iter().map(|part| crate::mirror::number_of(&part["map"]["primary"]));
    led.map(|primary| primary.expect("a primary")).collect()
}

fn wait_in_sync(site: &Site, asked: usize) {
    eventually("all copies are in sync", LONG, || {
        let parts = parts(site, asked);
        let copies = parts.iter().flat_map(|part| part["copies"].as_array().unwrap());
        copies.into_iter().all(|copy| copy["state"] == "in_sync").then_some(())
    });
}

fn write(site: &Site, at: usize, what: &str) -> Finished {
    sh(&format!("cd {} && echo {what} > {what} && sync {what}", site.point(at).display()), LONG)
}

/// No other one of these nodes gets it, in any mode, and each refusal names the holder.
#[track_caller]
fn is_alone(site: &Site, holder: usize, others: &[usize]) {
    for &other in others.iter().filter(|other| **other != holder) {
        for mode in ["rw", "ro", "exclusive"] {
            let refused = site.cards(other, &format!("volume attach disk --mode {mode}")).fails();
            assert!(
                refused.stderr.contains(&format!("node n{holder} has volume")),
                "n{other} {mode}: {refused}"
            );
        }
    }
}

#[test]
fn of_two_nodes_that_want_all_parts_at_once_one_has_them() {
    let dir = scratch();
    let mut site = laid_out(dir.path(), "60s");
    for round in 0..6 {
        let layout = [[1, 2], [2, 3], [3, 1]][round % 3];
        let attach = |number| site.cards(number, "volume attach disk --mode exclusive");
        let done = std::thread::scope(|scope| {
            let asked = layout.map(|number| scope.spawn(move || attach(number)));
            asked.map(|done| done.join().unwrap())
        });
        let won: Vec<usize> = (0..2).filter(|at| done[*at].status.success()).collect();
        let [winner] = *won else { panic!("round {round}: {}, {}", done[0], done[1]) };
        let (winner, loser) = (layout[winner], &done[1 - winner]);
        assert!(loser.stderr.contains(&format!("node n{winner} has volume")), "{loser}");
        is_alone(&site, winner, &[1, 2, 3]);
        site.cards(winner, "volume detach disk").ok();
        // It is free for all.
        for number in 1..=3 {
            eventually("others have it", LONG, || {
                site.cards(number, "volume attach disk").status.success().then_some(())
            });
        }
        site.cards(1, "volume detach disk").ok();
        let refused = site.cards(1, "volume attach disk --mode exclusive").fails();
        assert!(refused.stderr.contains("so nobody can have it for itself"), "{refused}");
        (2..=3).for_each(|number| {
            site.cards(number, "volume detach disk").ok();
        });
    }
    site.is_bare(1);
}

#[test]
fn a_mount_of_many_parts_survives_the_death_of_each_node() {
    need!("mke2fs", "fio", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = mounted(dir.path(), "60s");
    is_alone(&site, 1, &[2, 3]);
    let mut fio = Fio::begin(&site, 1);
    for victim in [2, 3, 1] {
        wait_in_sync(&site, 1);
        site.cluster.node(victim).kill();
        if victim == 1 {
            eventually("others lead its parts", LONG, || (!primaries(&site, 2).contains(&1)).then_some(()));
            site.cluster.node(1).restart();
        }
        fio.goes_on(&site, 1, &format!("without{victim}"));
        if victim != 1 {
            let other = if victim == 2 { 3 } else { 2 };
            let refused = site.mount(other, "");
            assert!(!refused.status.success() && refused.stderr.contains("n1"), "{refused}");
            site.cluster.node(victim).restart();
        }
    }
    fio.ends();
    ends_whole(site, 1);
}

/// Takes the volume at node `taker` under what node 1 writes, while another node dies, and ends what is left of it at node 1.
fn is_taken(site: &mut Site, taker: usize, dies: Option<usize>) {
    write(site, 1, "before").ok();
    let fio = Fio::begin(site, 1);
    let mount = format!(
        "{CARDS} mount disk {} --takeover --socket {}/admin.sock",
        site.point(taker).display(),
        site.runtime(taker).display()
    );
    let log = site.point(taker).with_extension("mount");
    let mut mount = Process::spawn(&["sh".into(), "-c".into(), mount], &log);
    if let Some(dies) = dies {
        site.cluster.node(dies).kill();
    }
    if !mount.wait(LONG).success() {
        eventually("the other node has the volume", LONG, || {
            site.mount(taker, "--takeover").status.success().then_some(())
        });
    }
    write(site, taker, "after").ok();
    fio.fails();
    assert!(!write(site, 1, "void").status.success());
    site.umount(1);
    eventually("nothing is left", LONG, || {
        site.cards(1, "detach disk");
        site.card(1).is_null().then_some(())
    });
    let names = sh(&format!("ls {}", site.point(taker).display()), LONG).ok().stdout;
    assert!(names.contains("before") && names.contains("after") && !names.contains("void"), "{names}");
    is_alone(site, taker, &[1]);
    site.umount(taker).ok();
}

#[test]
fn who_takes_the_volume_over_has_all_parts_and_who_lost_it_none() {
    need!("mke2fs", "fio", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = mounted(dir.path(), TAKEN);
    is_taken(&mut site, 2, None);
    let device = site.prints(3, "attach disk --block --mode ro");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(3, "detach disk").ok();
    // All parts are free, and one node has them again.
    site.mount(1, "").ok();
    write(&site, 1, "anew").ok();
    site.umount(1).ok();
}

/// Another node than the taker leads a later part, and dies while parts are taken.
#[test]
fn a_takeover_during_the_death_of_a_primary_is_whole() {
    need!("mke2fs", "fio", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = mounted(dir.path(), TAKEN);
    wait_in_sync(&site, 1);
    let decides = primaries(&site, 1)[0];
    let dies = if decides == 2 { 3 } else { 2 };
    is_taken(&mut site, 5 - dies, Some(dies));
    site.cluster.node(dies).restart();
    wait_in_sync(&site, 1);
    let device = site.prints(dies, "attach disk --block --mode ro");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(dies, "detach disk").ok();
}

/// The primary of the first part, which decides, dies under what the holder writes, and the takeover comes to the next one.
#[test]
fn a_takeover_after_the_death_of_the_primary_that_decides_is_whole() {
    need!("mke2fs", "fio", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = mounted(dir.path(), TAKEN);
    // Its mount makes node 1 the holder; another one is to decide.
    wait_in_sync(&site, 1);
    let decides = primaries(&site, 1)[0];
    let victim = if decides == 1 { 3 } else { decides };
    let taker = (2..=3).find(|taker| *taker != victim).unwrap();
    site.cluster.node(victim).kill();
    is_taken(&mut site, taker, None);
    site.cluster.node(victim).restart();
    wait_in_sync(&site, taker);
    let device = site.prints(victim, "attach disk --block --mode ro");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(victim, "detach disk").ok();
}
