//! Sprite (SIM-6, SIM-7): Cortes, Girona and Labarta, table 1; Baker et al.; Dahlin et al.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_trace::Op;

use super::lru::Lru;
use super::measure::{BLOCK, Comparison, Table1, requests};

#[test]
fn the_marginals_of_table_1_hold() {
    for spec in
        ["gen:sprite:requests=100k", "gen:sprite:requests=100k,seed=2", "gen:sprite:requests=100k,seed=3"]
    {
        let mut table = Table1::default();
        for request in requests(spec) {
            table.add(&request);
        }
        let all = 1565.0 / 100.0;
        let mut comparison = Comparison::default();
        comparison.within_percent("reads, % of requests", 519.0 / all, table.percent(table.read.count), 5.0);
        comparison.within_percent(
            "writes, % of requests",
            192.0 / all,
            table.percent(table.write.count),
            5.0,
        );
        comparison.within_percent("opens, % of requests", 407.0 / all, table.percent(table.opens), 5.0);
        comparison.within_percent("closes, % of requests", 400.0 / all, table.percent(table.closes), 5.0);
        comparison.within_percent("unlinks, % of requests", 47.0 / all, table.percent(table.unlinks), 5.0);
        comparison.within_percent("bytes per read", 4657.0, table.read.mean_bytes(), 5.0);
        comparison.within_percent("bytes per write", 8000.0, table.write.mean_bytes(), 5.0);
        comparison.within_percent(
            "8 KiB blocks per read",
            650.0 / 519.0,
            table.read.blocks_per_request(),
            5.0,
        );
        comparison.within_percent(
            "8 KiB blocks per write",
            305.0 / 192.0,
            table.write.blocks_per_request(),
            5.0,
        );
        comparison.check(spec);
    }
}

/// An open file.
struct Visit {
    time: Duration,
    size: u32,
    read: u64,
    written: u64,
}

#[test]
fn files_are_used_as_baker_and_others_found() {
    let mut visits: BTreeMap<u32, Visit> = BTreeMap::new();
    let mut created: BTreeMap<u64, Duration> = BTreeMap::new();
    let (mut opens, mut read_only, mut write_only, mut whole, mut quick, mut short) = (0, 0, 0, 0, 0, 0);
    let (mut deleted, mut soon) = (0, 0);
    let (mut read_bytes, mut long_bytes) = (0, 0);
    let mut end = Duration::ZERO;
    for request in requests("gen:sprite:requests=200k") {
        end = request.time;
        match request.op {
            Op::Open => {
                let visit = Visit { time: request.time, size: request.bytes, read: 0, written: 0 };
                visits.insert(request.node, visit);
            }
            Op::Read | Op::Write => {
                let visit = visits.get_mut(&request.node).unwrap();
                if request.op == Op::Read {
                    visit.read += u64::from(request.bytes);
                } else {
                    visit.written += u64::from(request.bytes);
                }
            }
            Op::Close => {
                let visit = visits.remove(&request.node).unwrap();
                opens += 1;
                quick += u64::from(request.time - visit.time < Duration::from_millis(250));
                short += u64::from(visit.size < 10_000);
                read_bytes += visit.read;
                long_bytes += if visit.size > 1_000_000 { visit.read } else { 0 };
                match (visit.read, visit.written) {
                    (read, 0) => {
                        read_only += 1;
                        whole += u64::from(read == u64::from(visit.size));
                    }
                    (0, _) => {
                        write_only += 1;
                        created.insert(request.offset, request.time);
                    }
                    _ => {}
                }
            }
            Op::Trim => {
                if let Some(time) = created.remove(&request.offset) {
                    deleted += 1;
                    soon += u64::from(request.time - time < Duration::from_secs(30));
                }
            }
            _ => {}
        }
    }
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all as f64;
    let mut comparison = Comparison::default();
    comparison.within_points("read-only opens, %", 88.0, percent(read_only, opens), 5.0);
    comparison.within_points("write-only opens, %", 11.0, percent(write_only, opens), 5.0);
    comparison.within_points("read-only opens of whole files, %", 78.0, percent(whole, read_only), 10.0);
    comparison.within_points("opens that last < 0.25 s, %", 75.0, percent(quick, opens), 10.0);
    comparison.within_points("opens of files < 10 KB, %", 80.0, percent(short, opens), 10.0);
    comparison.within_points("bytes read from files > 1 MB, %", 40.0, percent(long_bytes, read_bytes), 10.0);
    comparison.within_points("new files that live < 30 s, %", 72.0, percent(soon, deleted), 10.0);
    // 200 of the 1,565 thousand requests of 48 hours.
    comparison.within_percent("hours", 48.0 * 200.0 / 1565.0, end.as_secs_f64() / 3600.0, 25.0);
    comparison.check("files");
}

/// Dahlin et al.: 42 clients with 16 MB each, a server with 128 MB.
#[test]
fn local_and_server_caches_hit_as_in_dahlins_base_case() {
    let mut locals: Vec<_> = (0..42).map(|_| Lru::new((16 << 20) / BLOCK as usize)).collect();
    let mut server = Lru::new((128 << 20) / BLOCK as usize);
    let (mut reads, mut local_hits, mut server_hits) = (0u64, 0u64, 0u64);
    let mut servers = [0u64; 8];
    for (index, request) in requests("gen:sprite:clients=42").enumerate() {
        let local = &mut locals[request.node as usize];
        if !request.op.is_data() {
            continue;
        }
        for block in request.blocks(BLOCK) {
            let local_hit = local.touch(block);
            let server_hit = !local_hit && request.op == Op::Read && server.touch(block);
            // 15 of the 48 hours warm the caches.
            if request.op == Op::Read && index > 490_000 {
                reads += 1;
                local_hits += u64::from(local_hit);
                server_hits += u64::from(server_hit);
                let owner = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
                servers[owner as usize] += 1;
            }
        }
    }
    let percent = |part: u64| 100.0 * part as f64 / reads as f64;
    let mut comparison = Comparison::default();
    comparison.within_points("local hits, %", 78.0, percent(local_hits), 4.0);
    comparison.within_points("from the server's cache, %", 6.3, percent(server_hits), 4.0);
    comparison.within_points("from disk, %", 15.7, percent(reads - local_hits - server_hits), 4.0);
    comparison.at_most("busiest of 8 servers, % of the reads", 25.0, percent(*servers.iter().max().unwrap()));
    comparison.check("42 clients with 16 MiB, LRU");
}
