//! Same trace, same setup, same result.

use std::sync::Arc;
use std::thread;

use cards_sim::{Combination, Report, Setup, Timing, Watch, Workload, run_all};
use cards_trace::{Beyond, Options, Request, Spread};

use crate::lab::{Shape, go, policies, random_trace, serial, setup};

/// Policies whose nodes draw whom they send to.
const RANDOM: [&str; 4] = ["nchance", "gms", "xfs", "chaos"];

fn requests() -> Vec<Request> {
    let shape = Shape { nodes: 4, volumes: 3, blocks: 200, requests: 250, writes: 15, others: 30 };
    random_trace(41, shape)
}

fn bytes(report: &Report) -> String {
    format!("{report:?}")
}

#[test]
fn the_same_run_gives_the_same_bytes_on_any_thread() {
    let requests = requests();
    for policy in policies() {
        for timing in [Timing::Serial, Timing::Trace, Timing::Fast] {
            let setup = Setup { timing, disk_nodes: 2, ..setup(policy, 4, 12) };
            let here = bytes(&go(&setup, &requests));
            // Tables that hash with keys of their thread would differ there.
            let there = thread::scope(|scope| scope.spawn(|| bytes(&go(&setup, &requests))).join());
            assert_eq!(Ok(here), there.map_err(|_| ()), "{policy} {timing:?}");
        }
    }
}

#[test]
fn the_seed_matters_to_policies_that_draw_and_to_no_other() {
    let requests = requests();
    for policy in policies() {
        let of_seed = |seed| Report { seed: 0, ..go(&Setup { seed, ..serial(policy, 4, 12) }, &requests) };
        let first = of_seed(1);
        let differs = (2..5).any(|seed| of_seed(seed) != first);
        assert_eq!(differs, RANDOM.contains(&policy), "{policy}");
    }
}

#[test]
fn a_study_has_the_same_results_whatever_runs_at_the_same_time() {
    let workload = Arc::new(Workload {
        name: "gen:oltp:nodes=3,bytes=2MiB,requests=600".into(),
        options: Options::default(),
        spread: Spread::AsIs,
        beyond: Beyond::Refuse,
    });
    let all: Vec<Combination> = policies()
        .filter(|&policy| policy != "opt")
        .map(|policy| Combination { setup: setup(policy, 3, 40), workload: Arc::clone(&workload) })
        .collect();
    let reports = |jobs| -> Vec<String> {
        run_all(&all, jobs, &Watch::new(all.len()))
            .into_iter()
            .map(|result| match result {
                Some(Ok(report)) => bytes(&Report { wall_s: 0.0, requests_per_s: 0.0, ..report }),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let alone = reports(1);
    assert_eq!(alone, reports(2));
}
