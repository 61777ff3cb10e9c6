//! The negative control: behind a volume lies a server that drops, tears, misplaces or flips data, and the
//! end-to-end check must notice each of the four. A suite that passes here proves something elsewhere.

use std::path::{Path, PathBuf};

use crate::harness::cluster::Cluster;
use crate::harness::export::Export;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run, sh};
use crate::harness::reference::Reference;
use crate::harness::tools::{need, skip};
use crate::harness::{LONG, SHORT, data, scratch};

const LIES: [&str; 4] = ["drop", "torn", "misdirect", "bitflip"];

/// The plug-in, if it can be built here.
fn build(dir: &Path) -> Result<PathBuf, String> {
    let plugin = dir.join("liar.so");
    let done = run(
        &[
            "cc",
            "-shared",
            "-fPIC",
            "-o",
            &plugin.display().to_string(),
            &data("liar.c").display().to_string(),
        ],
        SHORT,
    );
    match done.stderr.contains("nbdkit-plugin.h") {
        true => Err("nbdkit-plugin-dev is not installed".into()),
        false => Ok(done.ok()).map(|_| plugin),
    }
}

fn liar(dir: &Path, plugin: &Path, mode: &str) -> Reference {
    let arguments =
        [plugin.display().to_string(), format!("mode={mode}"), "every=50".into(), "size=32M".into()];
    Reference::nbdkit(dir, &arguments)
}

/// Writes through one export and verifies through the other: what the origin keeps, not what a cache remembers.
fn check(write: &Export, read: &Export) -> Finished {
    let job = "--bs=4k --size=32m --iodepth=16 --rw=randwrite --randseed=5 --verify=crc32c \
               --verify_fatal=1 --verify_state_save=0";
    let (write, read) = (write.uri(), read.uri());
    let script = format!(
        "fio --name=liar --ioengine=nbd --uri='{write}' {job} --do_verify=0 --end_fsync=1 || exit 9\n\
         fio --name=liar --ioengine=nbd --uri='{read}' {job} --verify_only"
    );
    sh(&script, LONG)
}

fn caught(done: &Finished) -> bool {
    assert_ne!(done.status.code(), Some(9), "the writing itself failed: {done}");
    let lie = done.stderr.contains("verify") || done.stdout.contains("verify: bad");
    assert!(done.status.success() || lie, "failed, but not for a wrong byte: {done}");
    !done.status.success()
}

/// Every lie is caught and honesty is not, with the exports that `serve` makes of the liar's.
fn all_lies(serve: impl Fn(&Path, &Export) -> (Option<Cluster>, Export, Export)) {
    need!("nbdkit", "fio", "cc");
    let dir = scratch();
    let plugin = match build(dir.path()) {
        Ok(plugin) => plugin,
        Err(reason) => return skip(&reason),
    };
    let told = |mode: &str| {
        let dir = scratch();
        let origin = liar(dir.path(), &plugin, mode);
        let (_cluster, write, read) = serve(dir.path(), &origin.export);
        caught(&check(&write, &read))
    };
    assert!(!told("honest"), "an honest origin was called a liar");
    let missed: Vec<&str> = LIES.into_iter().filter(|mode| !told(mode)).collect();
    assert!(missed.is_empty(), "lies nobody noticed: {missed:?}");
}

#[test]
fn a_lying_origin_is_caught_behind_a_volume() {
    all_lies(|dir, origin| {
        let plan = Plan::new(dir, 3).disk(Disk::remote(&origin.uri())).cache("4M");
        let cluster = Cluster::start(plan);
        let (write, read) = (cluster.export(1, "disk"), cluster.export(3, "disk"));
        (Some(cluster), write, read)
    });
}

#[test]
#[ignore = "tests the test"]
fn reference_liar_is_caught() {
    all_lies(|_, origin| (None, origin.clone(), origin.clone()));
}
