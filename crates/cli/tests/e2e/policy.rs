//! Policies of users: from a new project to a module that is simulated and attacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, run};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, scratch};

#[track_caller]
fn cards(arguments: &[&str]) -> Finished {
    let mut argv = vec![CARDS];
    argv.extend(arguments);
    run(&argv, LONG)
}

/// It ends with status 2: wrong usage.
#[track_caller]
fn refused(arguments: &[&str]) -> Finished {
    let done = cards(arguments);
    assert_eq!(done.status.code(), Some(2), "{done}");
    done
}

/// Why nothing can be compiled for the target of modules, if it cannot.
pub(crate) fn missing_wasm_target() -> Option<String> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let target = sysroot.join("lib/rustlib/wasm32-unknown-unknown");
    (!target.is_dir()).then(|| "the target wasm32-unknown-unknown is not installed".to_owned())
}

/// A module of the tests, from its text.
pub(crate) fn module(dir: &Path, name: &str) -> String {
    let text = format!("{}/../user-policy/tests/modules/{name}.wat", env!("CARGO_MANIFEST_DIR"));
    let bytes = wat::parse_file(text).unwrap();
    let path = dir.join(format!("{name}.wasm"));
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn json(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
}

#[test]
fn a_new_project_compiles_and_its_module_runs_everywhere() {
    need!("cargo", "rustc");
    skip_if!(missing_wasm_target());
    let dir = scratch();
    let done = cards(&["policy", "new", "mine", "--dir", dir.path().to_str().unwrap()]).ok();
    assert!(done.stdout.contains("cargo wasm"), "{done}");
    let project = dir.path().join("mine");
    for verb in ["test", "wasm"] {
        let built = Command::new("cargo")
            .args([verb, "--offline", "--quiet"])
            .current_dir(&project)
            .env("CARGO_TARGET_DIR", project.join("target"))
            .output()
            .unwrap();
        assert!(built.status.success(), "cargo {verb}: {}", String::from_utf8_lossy(&built.stderr));
    }
    let module = project.join("target/wasm32-unknown-unknown/release/mine.wasm");
    let module = module.to_str().unwrap();
    let shown = json(&cards(&["policy", "show", module, "--json"]).ok());
    assert_eq!(shown["hooks"], serde_json::json!(["asked", "note"]));
    assert_eq!(shown["needs"], serde_json::json!(["home", "index", "residence"]));
    assert!(shown["bytes"].as_u64().unwrap() < 200_000, "{shown}");
    let policies = format!("rd,{module}");
    let trace = "gen:oltp:nodes=4,bytes=4MiB,requests=3000";
    let simulated = ["sim", trace, "--nodes", "4", "--cache", "1M", "--policy", &policies, "--json"];
    let rows = json(&cards(&simulated).ok())["runs"].as_array().unwrap().clone();
    assert_eq!((&rows[1]["policy"], &rows[1]["policy_failure"]), (&module.into(), &Value::Null));
    // It forwards, so the disk is read less.
    assert!(rows[1]["disk_reads"].as_u64() < rows[0]["disk_reads"].as_u64(), "{rows:?}");
    let checked = json(&cards(&["check", "--seeds", "1..6", "--policy", module, "--json"]).ok());
    assert_eq!((&checked["passed"], &checked["policy_failure"]), (&6.into(), &Value::Null));
}

#[test]
fn a_module_that_fails_is_named_with_the_reason() {
    let dir = scratch();
    let endless = module(dir.path(), "endless");
    let done = cards(&["sim", "gen:oltp:nodes=3,bytes=4MiB,requests=500", "--policy", &endless]).ok();
    let reason = "`asked` used more than 100000 units of fuel";
    assert!(done.stdout.contains("failed, and rd went on: node ") && done.stdout.contains(reason), "{done}");
    let done = cards(&["check", "--seeds", "1..2", "--policy", &endless]).ok();
    assert!(done.stdout.contains("the module was given up in runs, where rd went on: `asked`"), "{done}");
}

#[test]
fn files_that_are_no_modules_are_refused_with_the_remedy() {
    let dir = scratch();
    let path = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = path("text.wasm", b"not a module");
    let empty = path("empty.wasm", b"\0asm\x01\0\0\0");
    for (file, problem) in [
        (text.as_str(), "not a WebAssembly module"),
        (&empty, "the module does not export `memory`, a memory"),
        ("/none/mine.wasm", "No such file or directory"),
    ] {
        for verb in [
            ["policy", "show", file].as_slice(),
            &["sim", "gen:oltp", "--policy", file],
            &["check", "--seeds", "1..2", "--policy", file],
        ] {
            let done = refused(verb);
            assert!(done.stderr.contains(problem) && done.stderr.contains(file), "{verb:?}: {done}");
        }
    }
}

#[test]
fn a_project_replaces_nothing() {
    let dir = scratch();
    let parent = dir.path().to_str().unwrap();
    cards(&["policy", "new", "mine", "--dir", parent]).ok();
    let done = refused(&["policy", "new", "mine", "--dir", parent]);
    assert!(done.stderr.contains("is there already"), "{done}");
    let done = refused(&["policy", "new", "My-Policy", "--dir", parent]);
    assert!(done.stderr.contains("lower-case letters"), "{done}");
}
