//! `fio` with its NBD engine: the client people compare servers with.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::Error;
use crate::load::{Access, Mode, Options, Outcome, Target};
use crate::proc::child::{Guard, find_tool};
use crate::proc::cpu::Meter;
use crate::stats::LatencySummary;

/// How long fio may take beyond its run time.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Runs `options` with fio, pinned to `core`; one fio thread per connection.
///
/// fio writes its own data, so after a write load the content of the range is no longer the test disk's.
pub fn run(target: &Target, options: &Options, core: Option<usize>, dir: &Path) -> Result<Outcome, Error> {
    let tool = find_tool("fio").ok_or_else(missing)?;
    let output = dir.join("fio.json");
    // A report of the run before must not be read as this one's.
    let _ = std::fs::remove_file(&output);
    let mut command = Command::new(tool);
    command.current_dir(dir).args(arguments(target, options)).arg(format!("--output={}", output.display()));
    let mut meter = (!target.pids.is_empty()).then(|| Meter::start(&target.pids));
    let mut fio = Guard::spawn("fio", command, core, &dir.join("fio.log"))?;
    let limit = options.duration + START_LIMIT;
    let status = fio.wait_for_end(limit, || {
        if let Some(meter) = &mut meter {
            meter.sample();
        }
    })?;
    if !status.success() {
        return Err(Error::Exited {
            name: "fio".to_owned(),
            status: status.to_string(),
            log: fio.log_tail(),
        });
    }
    if let Some(meter) = &mut meter {
        meter.sample();
    }
    let text = std::fs::read_to_string(&output).map_err(Error::io("reading the report of fio"))?;
    let mut outcome = parse(&text, options.mode)?;
    outcome.server_cpu_us = meter
        .filter(|_| outcome.requests > 0)
        .map(|meter| meter.used_ns() as f64 / 1e3 / outcome.requests as f64);
    Ok(outcome)
}

/// What to say when fio is not there.
pub(crate) fn missing() -> Error {
    let remedy = "install the package 'fio', or measure with '--only own'";
    Error::MissingTool { tool: "fio".to_owned(), remedy }
}

fn arguments(target: &Target, options: &Options) -> Vec<String> {
    let rw = match (options.access, options.mode) {
        (Access::Random | Access::Once, Mode::Read) => "randread",
        (Access::Random | Access::Once, Mode::Write) => "randwrite",
        (Access::Sequential | Access::Scan, Mode::Read) => "read",
        (Access::Sequential | Access::Scan, Mode::Write) => "write",
    };
    let mut arguments = vec![
        "--name=load".to_owned(),
        "--thread".to_owned(),
        "--ioengine=nbd".to_owned(),
        format!("--uri={}", target.uri),
        format!("--rw={rw}"),
        format!("--bs={}", options.block),
        format!("--iodepth={}", options.depth),
        format!("--numjobs={}", options.connections),
        "--group_reporting".to_owned(),
        "--time_based".to_owned(),
        format!("--runtime={}ms", options.duration.as_millis()),
        "--output-format=json".to_owned(),
    ];
    arguments.push(format!("--offset={}", options.range.start));
    if options.range.end != u64::MAX {
        arguments.push(format!("--size={}", options.range.end - options.range.start));
    }
    arguments
}

/// Reads the JSON report of a run with one job group.
pub fn parse(text: &str, mode: Mode) -> Result<Outcome, Error> {
    let wrong = |reason: String| Error::Output { tool: "fio", reason };
    // fio may print notes before the report.
    let start = text.find('{').ok_or_else(|| wrong("no JSON object".to_owned()))?;
    let report: Value = serde_json::from_str(&text[start..]).map_err(|error| wrong(error.to_string()))?;
    let job = &report["jobs"][0];
    match job["error"].as_i64() {
        Some(0) => {}
        Some(errno) => return Err(wrong(format!("the job failed with errno {errno}"))),
        None => return Err(wrong("no field 'jobs[0].error'".to_owned())),
    }
    let side = &job[if mode == Mode::Read { "read" } else { "write" }];
    let number = |path: &[&str]| {
        path.iter()
            .fold(side, |value, key| &value[*key])
            .as_f64()
            .ok_or_else(|| wrong(format!("no number '{}'", path.join("."))))
    };
    let requests = number(&["total_ios"])? as u64;
    if requests == 0 {
        return Err(wrong("no request was answered".to_owned()));
    }
    Ok(Outcome {
        requests,
        iops: number(&["iops"])?,
        bytes_per_s: number(&["bw_bytes"])?,
        latency: LatencySummary {
            mean_us: number(&["lat_ns", "mean"])? / 1e3,
            p50_us: number(&["clat_ns", "percentile", "50.000000"])? / 1e3,
            p99_us: number(&["clat_ns", "percentile", "99.000000"])? / 1e3,
            max_us: number(&["clat_ns", "max"])? / 1e3,
        },
        server_cpu_us: None,
        seconds: number(&["runtime"])? / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"fio: connected to NBD server
        { "jobs": [ { "error": 0, "read": { "total_ios": 50577, "iops": 50526.47, "bw_bytes": 206956435,
          "runtime": 1001, "lat_ns": { "mean": 632514.79 },
          "clat_ns": { "max": 4000000, "percentile": { "50.000000": 481280, "99.000000": 3194880 } } },
          "write": { "total_ios": 0, "iops": 0.0, "bw_bytes": 0, "runtime": 0, "lat_ns": { "mean": 0 },
          "clat_ns": {} } } ] }"#;

    #[test]
    fn the_report_is_read() {
        let outcome = parse(REPORT, Mode::Read).unwrap();
        assert_eq!(outcome.requests, 50_577);
        assert_eq!(outcome.latency.p99_us, 3194.88);
        assert_eq!(outcome.seconds, 1.001);
    }

    #[test]
    fn a_report_without_results_is_an_error() {
        let cases = [
            ("".to_owned(), "no JSON"),
            ("{}".to_owned(), "jobs[0].error"),
            (REPORT.replace("\"error\": 0", "\"error\": 5"), "errno 5"),
            (REPORT.replace("\"iops\": 50526.47,", ""), "'iops'"),
            (REPORT.replace("50577", "0"), "no request"),
        ];
        for (text, expected) in cases {
            let error = parse(&text, Mode::Read).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse(REPORT, Mode::Write).is_err());
    }
}
