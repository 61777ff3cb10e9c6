//! Every format, on a small file whose requests are known.

use std::time::Duration;

use cards_trace::{BlkAction, DxtLevel, Format, Op, Options, Request, open};

use crate::support::{content, drain, read, read_with, request, sample};

const S: u64 = 1_000_000;

/// The trace that is there in all formats that can hold it.
fn same() -> Vec<Request> {
    vec![
        request(0, Op::Read, 4096, 8192),
        request(S, Op::Write, 0, 512),
        request(3 * S, Op::Read, 1 << 20, 4096),
        request(3 * S, Op::Write, 4096, 4096),
    ]
}

#[test]
fn the_same_trace_in_all_formats_gives_the_same_requests() {
    for name in [
        "same.csv",
        "same.csv.gz",
        "same.csv.zst",
        "same.msr.csv",
        "same.spc",
        "same.v1.vscsi",
        "same.v2.vscsi",
        "same.blkparse",
        "same.fio3.log",
        "same.disksim",
        "same.cards",
    ] {
        assert_eq!(read(name), expected(name), "{name}");
    }
    for (name, format) in [("same.alibaba.csv", Format::Alibaba), ("same.tencent.csv", Format::Tencent)] {
        let options = Options { format: Some(format), ..Options::default() };
        assert_eq!(read_with(name, &options).0, same(), "{name}");
    }
}

fn expected(name: &str) -> Vec<Request> {
    let mut expected = same();
    if name == "same.fio3.log" {
        // The file is opened two microseconds before the first request, which is where its times begin.
        expected.iter_mut().for_each(|request| request.time += Duration::from_micros(2));
        expected.insert(0, request(0, Op::Open, 0, 0));
    }
    expected
}

#[test]
fn formats_without_operations_read_everything() {
    let mut expected = same();
    expected.iter_mut().for_each(|request| request.op = Op::Read);
    assert_eq!(read("same.oracleGeneral.bin"), expected);
    // Without times, too.
    expected.iter_mut().for_each(|request| request.time = Duration::ZERO);
    assert_eq!(read("blocks.lis"), expected);
    let blocks = [4096, 0, 1 << 20, 4096].map(|offset| request(0, Op::Read, offset, 4096));
    assert_eq!(read("blocks.lirs"), blocks);
    assert!(!open(&sample("blocks.lirs"), &Options::default()).unwrap().has_times());
}

/// They look like nothing: the format is named, by an option or by the end of the file's name.
#[test]
fn bare_block_numbers_of_32_and_64_bits_are_read() {
    let numbers = [1u32, 0, 256, 1, u32::MAX];
    let wide: Vec<u8> = numbers.iter().flat_map(|&number| u64::from(number).to_le_bytes()).collect();
    let narrow: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let directory = tempfile::tempdir().unwrap();
    for (bytes, format, name) in [(&narrow, Format::U32, "a.u32"), (&wide, Format::U64, "a.u64")] {
        let expected: Vec<Request> =
            (numbers.iter()).map(|&number| request(0, Op::Read, u64::from(number) * 4096, 4096)).collect();
        let options = Options { format: Some(format), ..Options::default() };
        assert_eq!(content(bytes, &options).unwrap().0, expected);
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut source = open(path.to_str().unwrap(), &Options::default()).unwrap();
        assert!(!source.has_times() && drain(&mut *source).unwrap() == expected, "{name}");
    }
    let options = Options { format: Some(Format::U32), block_bytes: Some(512), ..Options::default() };
    assert_eq!(content(&narrow, &options).unwrap().0[2], request(0, Op::Read, 256 * 512, 512));
    assert!(
        content(&narrow[..7], &options).unwrap_err().contains("record 2"),
        "the file ends within a number"
    );
    let options = Options { format: Some(Format::U64), ..Options::default() };
    let error = content(&u64::MAX.to_le_bytes(), &options).unwrap_err();
    assert!(error.contains("record 1: block 18446744073709551615 lies beyond"), "{error}");
}

#[test]
fn a_file_that_is_packed_in_another_way_is_named_as_such() {
    for (magic, program) in
        [(&b"\xfd7zXZ\0\0\x04"[..], "xz"), (b"BZh91AY", "bzip2"), (b"\x04\x22\x4d\x18d", "lz4")]
    {
        for format in [None, Some(Format::Lirs)] {
            let error = content(magic, &Options { format, ..Options::default() }).unwrap_err();
            assert!(error.contains(&format!("packed with {program}")) && error.contains("-dk"), "{error}");
        }
    }
}

#[test]
fn the_size_of_a_block_can_be_chosen() {
    let options = Options { block_bytes: Some(8192), ..Options::default() };
    let (requests, _) = read_with("blocks.lis", &options);
    assert_eq!(requests[0], request(0, Op::Read, 8 * 8192, 16 * 8192));
    let (requests, _) = read_with("blocks.lirs", &options);
    assert_eq!(requests[2], request(0, Op::Read, 256 * 8192, 8192));
}

#[test]
fn waits_of_an_iolog_become_compute_times() {
    let mut expected = same();
    expected.iter_mut().for_each(|request| request.time = Duration::ZERO);
    expected[1].compute = Duration::from_secs(1);
    expected[2].compute = Duration::from_secs(2);
    assert_eq!(read("same.fio2.log"), expected);
}

#[test]
fn a_dxt_log_is_put_in_the_order_of_time() {
    // The write at 3 s comes first: the log lists the writes of a file before its reads.
    let mut expected = same();
    expected.swap(2, 3);
    assert_eq!(read("same.dxt.txt"), expected);
}

#[test]
fn files_hosts_and_ranks_of_a_dxt_log_are_told_apart() {
    let (requests, skipped) = read_with("two_ranks.dxt.txt", &Options::default());
    let on = |node, volume, request| Request { node, process: node, volume, ..request };
    assert_eq!(
        requests,
        [
            on(1, 0, request(0, Op::Write, 16384, 8192)),
            on(0, 0, request(550_000, Op::Write, 0, 8192)),
            on(0, 0, request(2_500_000, Op::Read, 8192, 8192)),
            on(1, 1, request(2_500_000, Op::Read, 0, 100)),
        ]
    );
    assert_eq!(skipped.get("another level of DXT than the chosen one"), 1);
    assert_eq!(skipped.get("zero size"), 1);
    let mpiio = Options { level: DxtLevel::Mpiio, ..Options::default() };
    assert_eq!(read_with("two_ranks.dxt.txt", &mpiio).0, [request(0, Op::Write, 0, 4096)]);
}

#[test]
fn hosts_ranks_and_files_of_a_csv_are_numbered_by_appearance() {
    let (requests, skipped) = read_with("cluster.csv", &Options::default());
    let on = |node, process, volume, request| Request { node, process, volume, ..request };
    assert_eq!(
        requests,
        [
            on(0, 1, 0, request(0, Op::Write, 4096, 100)),
            on(1, 2, 1, request(0, Op::Read, 0, 4096)),
            on(0, 0, 0, request(30, Op::Read, 4096, 100)),
        ]
    );
    assert_eq!(skipped.to_string(), "1 zero size");
}

#[test]
fn flushes_trims_and_other_events_of_blkparse_are_told_apart() {
    let (requests, skipped) = read_with("flush.blkparse", &Options::default());
    let on = |process, volume, request| Request { process, volume, ..request };
    assert_eq!(
        requests,
        [
            on(0, 0, request(0, Op::Flush, 0, 0)),
            on(0, 0, request(500_000, Op::Write, 1024 * 512, 4096)),
            on(
                0,
                0,
                Request {
                    time: Duration::from_nanos(500_000_100),
                    ..request(0, Op::Write, 2048 * 512, 4096)
                }
            ),
            on(1, 1, request(700_000, Op::Trim, 4096 * 512, 8192)),
            on(2, 0, request(800_000, Op::Read, 64 * 512, 4096)),
        ]
    );
    assert_eq!(skipped.get("another action than the chosen one"), 2);
    let dispatched = Options { action: BlkAction::Dispatched, ..Options::default() };
    let (requests, _) = read_with("same.blkparse", &dispatched);
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[3], same()[3]);
}

#[test]
fn a_file_tells_how_far_it_has_been_read() {
    let mut source = open(&sample("same.csv.gz"), &Options::default()).unwrap();
    while source.next().unwrap().is_some() {}
    let progress = source.progress();
    assert_eq!(Some(progress.done), progress.total);
}
