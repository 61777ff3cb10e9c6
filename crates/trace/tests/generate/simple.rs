//! `webstone` and `oltp`.

use std::collections::BTreeMap;

use cards_trace::Op;
use cards_trace::generate::generator;

use super::measure::{Comparison, requests};

#[test]
fn webstone_asks_for_the_papers_amounts_from_a_document_set_of_1_gb() {
    // Section 7.2: 150 connections ask for about 900 MB, 300 for about 1.6 GB.
    for (connections, megabytes) in [(150, 900.0), (300, 1600.0)] {
        let spec = format!("gen:webstone:connections={connections}");
        let (mut bytes, mut gets) = (0u64, 0u64);
        let mut per_connection: BTreeMap<u32, u64> = BTreeMap::new();
        let mut classes: BTreeMap<u32, u64> = BTreeMap::new();
        let mut open: BTreeMap<u32, u64> = BTreeMap::new();
        for request in requests(&spec) {
            bytes += u64::from(request.bytes);
            *per_connection.entry(request.process).or_default() += 1;
            // A request that does not go on where the last one ended is a new GET.
            let end = open.insert(request.process, request.offset + u64::from(request.bytes));
            if end != Some(request.offset) {
                gets += 1;
                *classes.entry(request.bytes).or_default() += 1;
            }
        }
        let percent = |size: u32| 100.0 * classes[&size] as f64 / gets as f64;
        let mut comparison = Comparison::default();
        comparison.within_percent("megabytes requested", megabytes, bytes as f64 / 1e6, 8.0);
        comparison.within_percent("connections", f64::from(connections), per_connection.len() as f64, 0.0);
        comparison.within_points("GETs of 500 B, %", 35.0, percent(500), 2.0);
        comparison.within_points("GETs of 5 KB, %", 50.0, percent(5000), 2.0);
        comparison.within_points("GETs of 50 KB, %", 14.0, percent(50_000), 2.0);
        let gigabytes = generator(&spec).unwrap().footprint_bytes() as f64 / (1u64 << 30) as f64;
        comparison.within_percent("GiB of documents", 1.0, gigabytes, 5.0);
        comparison.check(&spec);
    }
}

#[test]
fn webstone_opens_each_document_that_it_reads_and_nothing_else_changes() {
    let opened: Vec<_> = requests("gen:webstone:connections=20,open=yes").collect();
    let reads = |all: &[cards_trace::Request]| -> BTreeMap<u32, Vec<(u64, u32)>> {
        let mut by_connection: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
        for one in all.iter().filter(|one| one.op == Op::Read) {
            by_connection.entry(one.process).or_default().push((one.offset, one.bytes));
        }
        by_connection
    };
    let mut open: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for request in &opened {
        let end = request.offset + u64::from(request.bytes);
        if request.op == Op::Open {
            let before = open.insert(request.process, (request.offset, end));
            assert!(before.is_none_or(|(at, end)| at == end), "a document is read to its end");
        } else {
            let (at, last) = open.get_mut(&request.process).unwrap();
            assert_eq!((*at, request.compute.is_zero()), (request.offset, true));
            assert!(end <= *last, "beyond the document");
            *at = end;
        }
    }
    assert!(reads(&opened).len() == 20 && opened.iter().any(|one| !one.compute.is_zero()));
}

#[test]
fn webstone_prefers_popular_documents() {
    let mut documents: BTreeMap<u64, u64> = BTreeMap::new();
    for request in requests("gen:webstone").filter(|request| request.bytes == 5000) {
        *documents.entry(request.offset).or_default() += 1;
    }
    let mut counts: Vec<f64> = documents.values().map(|&count| count as f64).collect();
    counts.sort_unstable_by(|a, b| b.total_cmp(a));
    let ratio = counts[0] / counts[9];
    // Zipf with exponent 0.9: the first is asked for 10^0.9 times as often as the tenth.
    assert!((5.0..12.0).contains(&ratio), "{ratio}");
}

#[test]
fn transactions_read_write_log_and_flush_in_the_proportions_that_are_asked_for() {
    let spec = "gen:oltp:requests=200k,nodes=4,affinity=0.8,writes=0.3,bytes=1GiB";
    let (mut reads, mut writes, mut logs, mut flushes, mut own) = (0u64, 0u64, 0u64, 0u64, 0u64);
    let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
    let mut log_ends: BTreeMap<u32, u64> = BTreeMap::new();
    for request in requests(spec) {
        match (request.op, request.volume) {
            (Op::Read, 0) => {
                reads += 1;
                own += u64::from(request.offset / (256 << 20) == u64::from(request.node));
                *pages.entry(request.offset).or_default() += 1;
            }
            (Op::Write, 0) => {
                writes += 1;
                assert!(pages.contains_key(&request.offset), "a page is read before it is written");
            }
            (Op::Write, 1) => {
                logs += 1;
                let end = log_ends.insert(request.node, request.offset + u64::from(request.bytes));
                assert!(end.is_none_or(|end| end == request.offset), "a log is written sequentially");
            }
            (Op::Flush, 1) => flushes += 1,
            _ => panic!("{request:?}"),
        }
    }
    let mut comparison = Comparison::default();
    comparison.within_percent("reads per transaction that writes", 10.3, reads as f64 / logs as f64, 3.0);
    comparison.within_percent("writes per read", 0.3, writes as f64 / reads as f64, 3.0);
    comparison.within_percent("flushes per log write", 1.0, flushes as f64 / logs as f64, 1.0);
    // 80 %, and a quarter of the rest by chance.
    comparison.within_points("pages of the own partition, %", 85.0, 100.0 * own as f64 / reads as f64, 1.0);
    let mut counts: Vec<u64> = pages.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let hot: u64 = counts.iter().take(131_072 / 100).sum();
    comparison.at_least("reads of the hottest 1 % of pages, %", 35.0, 100.0 * hot as f64 / reads as f64);
    comparison.check(spec);
}
