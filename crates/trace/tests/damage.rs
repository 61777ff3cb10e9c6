//! Files that are cut, mislabelled or nonsense: every error says where and what.

use cards_trace::{Format, Op, Options, open};

use crate::support::{content, request, sample};

fn error_of(text: &str) -> String {
    content(text.as_bytes(), &Options::default()).unwrap_err()
}

fn error_as(format: Format, bytes: &[u8]) -> String {
    content(bytes, &Options { format: Some(format), ..Options::default() }).unwrap_err()
}

#[test]
fn a_missing_file_is_named() {
    let error = open("/no/such/trace", &Options::default()).err().unwrap().to_string();
    assert!(error.starts_with("/no/such/trace: "), "{error}");
}

#[test]
fn an_empty_file_holds_no_requests() {
    assert!(error_of("").ends_with("holds no requests"));
    assert!(error_of("time,op,offset,size\n").ends_with("holds no requests"));
    assert!(error_as(Format::Msr, b"").ends_with("holds no requests"));
    assert!(error_of("*\n*\n").ends_with("holds no requests"));
    let error = error_of("time,op,offset,size\n1,R,0,0\n2,R,0,0\n");
    assert!(error.ends_with("holds no requests (2 zero size)"), "{error}");
}

#[test]
fn an_error_has_its_line() {
    let error = error_of("time,op,offset,size\n1,R,0,512\n2,R,-512,512\n");
    assert!(error.ends_with("line 3: the offset \"-512\" is negative"), "{error}");
    assert!(
        error_of("time,op,offset,size\n1,R,0\n").ends_with("line 2: fewer fields than the 4 of the header")
    );
    assert!(error_of("time,op,offset,size\n1,R,0,1,2\n").contains("more fields"));
    assert!(error_of("time,op,offset,size\n1,X,0,1\n").contains("the operation \"X\" is not known"));
    assert!(error_of("time,op,ofset,size\n1,X,0,1\n").contains("line 1: the column \"ofset\""));
}

#[test]
fn a_cut_last_line_is_an_error() {
    let text = std::fs::read(sample("same.msr.csv")).unwrap();
    let error = content(&text[..text.len() - 12], &Options::default()).unwrap_err();
    assert!(error.contains("line 4: 5 fields, not the 7"), "{error}");
}

#[test]
fn a_cut_last_record_is_an_error() {
    for (name, format) in [
        ("same.v1.vscsi", Format::Vscsi),
        ("same.v2.vscsi", Format::Vscsi),
        ("same.oracleGeneral.bin", Format::OracleGeneral),
    ] {
        let bytes = std::fs::read(sample(name)).unwrap();
        let error = error_as(format, &bytes[..bytes.len() - 1]);
        assert!(error.contains("record 4: the file ends after"), "{name}: {error}");
    }
}

#[test]
fn packed_data_that_is_cut_or_damaged_is_an_error() {
    for name in ["same.csv.gz", "same.csv.zst"] {
        let bytes = std::fs::read(sample(name)).unwrap();
        assert!(content(&bytes[..bytes.len() - 9], &Options::default()).is_err(), "{name} cut");
        let mut bytes = bytes;
        // Within the last checksum.
        let last = bytes.len() - if name.ends_with("gz") { 6 } else { 2 };
        bytes[last] ^= 1;
        assert!(content(&bytes, &Options::default()).is_err(), "{name} damaged");
    }
}

#[test]
fn a_wrong_format_is_an_error_in_the_first_line() {
    let csv = std::fs::read(sample("same.csv")).unwrap();
    for format in
        [Format::Msr, Format::Spc, Format::Arc, Format::Lirs, Format::DiskSim, Format::Fio, Format::Dxt]
    {
        let error = error_as(format, &csv);
        assert!(error.contains("line 1: "), "{format}: {error}");
    }
    assert!(error_as(Format::Vscsi, &csv).contains("record 1: not the records of a vscsi trace"));
    assert!(error_as(Format::OracleGeneral, &csv).contains("record "));
    assert!(error_as(Format::Cards, &csv).contains("not the header of a cards recording"));
    // Nothing in it is an event; what it is not is counted.
    assert!(error_as(Format::Blkparse, &csv).contains("5 not an event of blkparse"));
}

#[test]
fn an_enormous_offset_is_an_error() {
    let last = (1u64 << 44) - 512;
    let fits = format!("time,op,offset,size\n0,R,{last},512\n");
    assert_eq!(content(fits.as_bytes(), &Options::default()).unwrap().0, [request(0, Op::Read, last, 512)]);
    let error = error_of(&format!("time,op,offset,size\n0,R,{last},513\n"));
    assert!(error.contains("line 2") && error.contains("beyond 16 TiB"), "{error}");
    assert!(error_of(&format!("time,op,lbn,size\n0,R,{},512\n", u64::MAX)).contains("beyond 16 TiB"));
    assert!(error_of("time,op,offset,size\n0,R,0,4294967296\n").contains("at most 4294967295"));
}

#[test]
fn a_large_trim_becomes_several() {
    let text = format!("time,op,offset,size\n0,trim,4096,{}\n", (2u64 << 30) + 512);
    let (requests, _) = content(text.as_bytes(), &Options::default()).unwrap();
    let sizes: Vec<_> = requests.iter().map(|r| (r.offset, r.bytes)).collect();
    assert_eq!(sizes, [(4096, 1 << 30), (4096 + (1 << 30), 1 << 30), (4096 + (2 << 30), 512)]);
}

#[test]
fn times_that_go_back_are_set_to_the_latest_and_counted() {
    let text = "time_us,op,offset,size\n10,R,0,512\n30,R,512,512\n20,R,1024,512\n5,R,0,512\n31,R,0,512\n";
    let (requests, skipped) = content(text.as_bytes(), &Options::default()).unwrap();
    let times: Vec<u128> = requests.iter().map(|r| r.time.as_micros()).collect();
    assert_eq!(times, [0, 20, 20, 20, 21]);
    assert_eq!(skipped.total(), 2);
}

#[test]
fn an_endless_line_is_refused() {
    let error = error_as(Format::Lirs, &vec![b'1'; 1 << 20]);
    assert!(error.contains("line 1: longer than 8192 bytes"), "{error}");
}

#[test]
fn after_an_error_a_source_is_at_its_end() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "1\nx\n2\n").unwrap();
    let options = Options { format: Some(Format::Lirs), ..Options::default() };
    let mut source = open(&file.path().to_string_lossy(), &options).unwrap();
    assert!(source.next().unwrap().is_some());
    assert!(source.next().is_err());
    assert_eq!(source.next().unwrap(), None);
}
