//! With serial timing, what is counted does not depend on how fast anything is.

use cards_core::Coherence;
use cards_sim::{Library, Report, Setup, Timing, run};
use cards_trace::{Options, open};

const TRACE: &str = "gen:oltp:nodes=4,bytes=4MiB,requests=1500,writes=0.3";

fn report(machine: &str, policy: &str, coherence: Coherence) -> Report {
    let machine = Library::default().find(machine).unwrap().clone();
    let setup = Setup {
        nodes: 4,
        block_bytes: 8192,
        cache_blocks: vec![32],
        shards: 2,
        coherence,
        timing: Timing::Serial,
        check: true,
        ..Setup::new(machine, policy)
    };
    run(&setup, TRACE, &mut *open(TRACE, &Options::default()).unwrap(), &mut ()).unwrap()
}

fn counts(report: &Report) -> [u64; 7] {
    let Report { local_hits, remote_hits, disk_reads, disk_writes, messages, forwarded, .. } = *report;
    [local_hits, remote_hits, disk_reads, disk_writes, messages, forwarded, report.stored_for_others]
}

#[test]
fn every_machine_counts_the_same() {
    for policy in ["rd", "hdc", "hscc", "hscc depth=4 room=dup", "nchance", "hints", "gms"] {
        for coherence in [Coherence::Confirmed, Coherence::Policy] {
            let want = report("lan25", policy, coherence);
            assert!(want.simulated_s > 0.0 && want.messages > 1000, "{want:?}");
            for machine in ["pm", "now", "cards2003", "lan25-cloud"] {
                let got = report(machine, policy, coherence);
                assert_eq!(counts(&got), counts(&want), "{machine}, {policy}, {coherence:?}");
            }
        }
    }
}
