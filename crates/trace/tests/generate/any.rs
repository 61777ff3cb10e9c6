//! What holds for every generator.

use std::collections::BTreeMap;

use cards_trace::Request;
use cards_trace::generate::{Kind, SpecError, generator, open, registry};
use proptest::prelude::*;

use super::measure::requests;

/// The first requests of a generator.
fn first(spec: &str, count: usize) -> Vec<Request> {
    requests(spec).take(count).collect()
}

#[test]
fn the_same_spec_gives_the_same_stream_and_another_seed_another_one() {
    for entry in registry() {
        let spec = |seed| first(&format!("gen:{}:seed={seed}", entry.name), 5000);
        assert_eq!(spec(1), spec(1), "{}", entry.name);
        assert_ne!(spec(1), spec(2), "{}", entry.name);
        assert_eq!(
            first(&format!("gen:{}", entry.name), 5000),
            spec(1),
            "{}: the default seed is 1",
            entry.name
        );
    }
}

/// Checks what every consumer relies on: times never go back, nodes and processes exist, no request reaches beyond
/// its volume, and no process is on two nodes.
fn check_stream(spec: &str, nodes: u32, count: usize) {
    let volumes = generator(spec).unwrap().volume_bytes();
    let mut time = std::time::Duration::ZERO;
    let mut homes: BTreeMap<u32, u32> = BTreeMap::new();
    for request in requests(spec).take(count) {
        assert!(request.time >= time, "{spec}: {request:?} after {time:?}");
        time = request.time;
        assert!(request.node < nodes, "{spec}: {request:?}");
        assert_eq!(*homes.entry(request.process).or_insert(request.node), request.node, "{spec}");
        let end = request.offset + u64::from(request.bytes);
        assert!(end <= volumes[usize::from(request.volume)], "{spec}: {request:?} beyond {volumes:?}");
        assert!(!request.op.is_data() || request.bytes > 0, "{spec}: {request:?}");
    }
}

#[test]
fn every_generator_gives_a_sound_stream_by_default() {
    for entry in registry() {
        let nodes = entry.parameters.iter().find(|parameter| parameter.name == "nodes").unwrap();
        check_stream(&format!("gen:{}", entry.name), nodes.default.parse().unwrap(), 100_000);
    }
}

#[test]
fn the_limit_and_the_progress_agree() {
    for entry in registry() {
        let mut generator = generator(&format!("gen:{}:requests=1234", entry.name)).unwrap();
        let mut count = 0;
        while generator.next().unwrap().is_some() {
            count += 1;
            assert_eq!(generator.progress().done, count);
            assert!(count <= generator.progress().total.unwrap());
        }
        // A job of a few requests makes no sense: charisma may stop a little earlier.
        assert!((1200..=1234).contains(&count), "{}: {count}", entry.name);
        assert_eq!(generator.progress().total, Some(count));
        assert!(generator.next().unwrap().is_none());
        assert!(generator.has_times() && generator.skipped().total() == 0);
    }
}

#[test]
fn time_scales_times_and_compute() {
    for entry in registry() {
        let plain = first(&format!("gen:{}", entry.name), 500);
        let halved = first(&format!("gen:{}:time=0.5", entry.name), 500);
        for (plain, halved) in plain.iter().zip(&halved) {
            assert_eq!(plain.offset, halved.offset);
            assert!(halved.time.abs_diff(plain.time / 2).as_nanos() < 1000, "{plain:?} {halved:?}");
            assert!(halved.compute.abs_diff(plain.compute / 2).as_nanos() < 10, "{plain:?} {halved:?}");
        }
    }
}

#[test]
fn a_wrong_spec_is_an_error_that_names_it() {
    for (spec, words) in [
        ("gen:scan:node=3", "node=3: there are 3 nodes"),
        ("gen:scan:then=1+7", "then=1+7: there are 3 nodes"),
        ("gen:boot:hot=9GiB", "hot=9GiB: should not exceed image"),
        ("gen:training:nodes=9,samples=8", "samples=8: should be at least the number of nodes"),
        ("gen:training:samples=2G,sample=1GiB", "samples=2G"),
        ("gen:oltp:nodes=65535,clients=65535", "clients=65535: nodes times clients"),
        ("gen:oltp:bytes=1MiB,page=1MiB", "bytes=1MiB: should hold at least one page per node"),
        ("gen:oltp:skew=-1", "skew=-1: should be a number from 0 to 5"),
        ("gen:model:bytes=0", "bytes=0: should be a size from 1B to"),
    ] {
        let error = open(spec).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{spec}: ")) && error.contains(words), "{error}");
    }
    assert_eq!(generator("model").map(|_| ()).unwrap_err(), SpecError::NotAGenerator);
}

/// A value of a parameter: mostly one that it takes, also the extremes, sometimes nonsense.
fn value(kind: Kind) -> BoxedStrategy<String> {
    let numbers = |least: u64, most: u64, unit: &'static str| {
        let near = least..=most.min(least.saturating_add(200));
        prop_oneof![near, Just(least), Just(most), least..=most].prop_map(move |n| format!("{n}{unit}"))
    };
    let right = match kind {
        Kind::Count(least, most) => numbers(least, most, "").boxed(),
        Kind::Bytes(least, most) => numbers(least, most, "").boxed(),
        Kind::Time(seconds) => numbers(0, seconds * 1_000_000_000, "ns").boxed(),
        Kind::Real(least, most) => {
            prop_oneof![Just(least), Just(most), least..=most].prop_map(|real| real.to_string()).boxed()
        }
        Kind::Word(words) => prop::sample::select(words).prop_map(str::to_owned).boxed(),
        Kind::Nodes => prop::collection::vec(0..9u32, 1..4)
            .prop_map(|nodes| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join("+"))
            .boxed(),
    };
    let nonsense =
        prop::sample::select(vec!["", "0", "-1", "1e99", "18446744073709551615", "x", "9TB", "1h"]);
    prop_oneof![12 => right, 1 => nonsense.prop_map(str::to_owned)].boxed()
}

/// A spec with some parameters set.
fn spec() -> impl Strategy<Value = String> {
    prop::sample::select(registry()).prop_flat_map(|entry| {
        let settings: Vec<_> = entry
            .parameters
            .iter()
            .map(|parameter| {
                let name = parameter.name;
                // Thousands of nodes are right, but take long to set up in a debug build.
                let kind = if name == "nodes" { Kind::Count(1, 300) } else { parameter.kind };
                let setting = value(kind).prop_map(move |value| format!("{name}={value}"));
                prop_oneof![2 => Just(None), 1 => setting.prop_map(Some)]
            })
            .collect();
        settings.prop_map(move |settings| {
            let settings: Vec<String> = settings.into_iter().flatten().collect();
            format!("gen:{}:{}", entry.name, settings.join(","))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_parameters_give_a_sound_stream_or_an_error(spec in spec()) {
        match generator(&spec) {
            Ok(_) => check_stream(&spec, 300, 300),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_text_is_a_spec_or_an_error(text in "(gen:)?[a-z]{0,8}[:=,a-z0-9.+]{0,30}") {
        if let Err(error) = generator(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn the_reference_names_every_generator_and_parameter_with_its_default() {
    let reference = include_str!("../../../../docs/reference/workloads.md");
    for entry in registry() {
        let (_, section) = reference.split_once(&format!("\n## {}\n", entry.name)).unwrap();
        let section = section.split("\n## ").next().unwrap();
        for parameter in entry.parameters {
            if ["seed", "nodes", "requests", "time"].contains(&parameter.name) {
                continue;
            }
            let row = format!("| `{}` | {} |", parameter.name, parameter.default);
            assert!(section.contains(&row), "{}: {row}", entry.name);
        }
    }
}
