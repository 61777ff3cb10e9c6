//! Policies of users.

use std::path::{Path, PathBuf};
use std::process::Command;

use cards_core::Coherence;
use cards_sim::{Library, Report, Setup, Timing, run};
use cards_trace::{Options, open};
use cards_user_policy::Module;

use crate::lab::{Shape, go, random_trace, setup};

const SHAPE: Shape = Shape { nodes: 5, volumes: 2, blocks: 60, requests: 3_000, writes: 20, others: 10 };

fn module(text: &str) -> Module {
    Module::new(&wat::parse_str(text).unwrap()).unwrap()
}

fn with(module: &Module) -> Setup {
    Setup { module: Some(module.clone()), ..setup("mine.wasm", 5, 12) }
}

#[test]
fn a_module_that_answers_at_random_is_slow_and_never_wrong() {
    let module = module(include_str!("../../user-policy/tests/modules/random.wat"));
    for seed in 1..=3 {
        let trace = random_trace(seed, SHAPE);
        let random = go(&with(&module), &trace);
        assert_eq!(random.policy_failure, None);
        assert_eq!(random.requests, 3_000);
        assert!(random.forwarded > 0 && random.remote_hits > 0, "{random:?}");
        assert_eq!(random, go(&with(&module), &trace), "the same seed, the same run");
    }
}

/// It fails at its first question, before it has changed anything.
#[test]
fn a_module_that_never_returns_is_rd() {
    let module = module(include_str!("../../user-policy/tests/modules/endless.wat"));
    let trace = random_trace(3, SHAPE);
    let (endless, rd) = (go(&with(&module), &trace), go(&setup("rd", 5, 12), &trace));
    let reason = endless.policy_failure.clone().unwrap();
    assert!(reason.ends_with(": `asked` used more than 100000 units of fuel"), "{reason}");
    assert_eq!(Report { policy: "rd".to_owned(), policy_failure: None, ..endless }, rd);
}

/// An example of the SDK, compiled; or why it cannot be.
fn compiled(name: &str) -> Result<Module, String> {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy-sdk");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&out).map_err(|error| error.to_string())?;
    let rustc = |source: PathBuf, more: &[&str]| {
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.args(["--edition", "2024", "--target", "wasm32-unknown-unknown", "-Copt-level=3"]);
        command.args(["-Cpanic=abort", "-Cstrip=symbols", "--out-dir"]).arg(&out).args(more).arg(source);
        let output = command.output().map_err(|error| format!("rustc: {error}"))?;
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(problem) }
    };
    rustc(sdk.join("src/lib.rs"), &["--crate-name", "cards_policy_sdk", "--crate-type", "rlib"])?;
    let sdk_file = format!("cards_policy_sdk={}", out.join("libcards_policy_sdk.rlib").display());
    let source = sdk.join(format!("examples/{name}.rs"));
    rustc(source, &["--crate-type", "cdylib", "-Clink-arg=-zstack-size=65536", "--extern", &sdk_file])?;
    let bytes = std::fs::read(out.join(format!("{name}.wasm"))).map_err(|error| error.to_string())?;
    Ok(Module::new(&bytes).unwrap())
}

/// Says why a test is left out where there is no such compiler.
fn compiled_or_skip(name: &str) -> Option<Module> {
    match compiled(name) {
        Ok(module) => Some(module),
        Err(problem) if problem.contains("wasm32-unknown-unknown") && problem.contains("target") => {
            eprintln!(
                "SKIP: no target wasm32-unknown-unknown here (`rustup target add wasm32-unknown-unknown`)"
            );
            None
        }
        Err(problem) => panic!("{problem}"),
    }
}

/// The policy of nodes and the same as a module, on three traces, each with both ways to keep copies coherent.
#[test]
fn hscc_as_a_module_counts_what_hscc_counts() {
    let Some(module) = compiled_or_skip("hscc") else { return };
    for trace in [
        "gen:oltp:nodes=4,bytes=4MiB,requests=3000,writes=0.3",
        "gen:boot:nodes=8,hot=2MiB",
        "gen:sprite:nodes=6,requests=6000",
    ] {
        for coherence in [Coherence::Confirmed, Coherence::Policy] {
            let machine = Library::default().find("lan25").unwrap().clone();
            let named = Setup {
                nodes: 8,
                block_bytes: 8192,
                cache_blocks: vec![48],
                shards: 2,
                coherence,
                timing: Timing::Serial,
                ..Setup::new(machine, "hscc")
            };
            let report = |setup: &Setup| {
                let mut source = open(trace, &Options::default()).unwrap();
                let report = run(setup, trace, &mut *source, &mut ()).unwrap();
                Report { wall_s: 0.0, requests_per_s: 0.0, ..report }
            };
            let with_name = report(&named);
            let as_module = report(&Setup { module: Some(module.clone()), ..named.clone() });
            assert!(with_name.remote_hits > 50 && with_name.forwarded > 0, "{with_name:?}");
            assert_eq!(as_module, with_name, "{trace}, {coherence:?}");
        }
    }
}
