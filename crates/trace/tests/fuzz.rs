//! Arbitrary content never makes a reader panic or loop.

use cards_trace::{DxtLevel, Format, Info, Options, Spread, open};
use proptest::prelude::*;

use crate::support::sample;

/// Every reader, on a file with this content. Requests are bounded by what a byte can say.
fn all_readers(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let path = file.path().to_string_lossy();
    let formats = Format::ALL.into_iter().map(Some).chain([None]);
    for format in formats {
        let options = Options { format, level: DxtLevel::Mpiio, ..Options::default() };
        let Ok(mut source) = open(&path, &options) else { continue };
        let mut count = 0usize;
        let mut last = std::time::Duration::ZERO;
        while let Ok(Some(request)) = source.next() {
            count += 1;
            assert!(request.time >= last, "{format:?}: times never go back");
            assert!(request.offset + u64::from(request.bytes) <= 1 << 44, "{format:?}: within a volume");
            last = request.time;
            // A line of 20 bytes can trim 16 TiB: 2^14 requests.
            assert!(count <= (bytes.len() + 1) << 14, "{format:?} goes on and on");
        }
        assert!(source.next().unwrap_or(None).is_none());
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut names: Vec<_> =
        std::fs::read_dir(sample("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        all_readers(&bytes);
    }

    #[test]
    fn any_text(text in "[0-9a-zA-Z,.*#:+ \n-]{0,400}") {
        all_readers(text.as_bytes());
    }

    #[test]
    fn numbers_in_columns(text in "(([0-9]{1,20}|R|W|Read|8,0|Q|\\*)[ ,\n]){0,60}") {
        all_readers(text.as_bytes());
    }

    #[test]
    fn damaged_samples(
        which in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let samples = samples();
        let mut bytes = samples[which.index(samples.len())].clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1).max(bytes.len() / 2));
        all_readers(&bytes);
    }

    #[test]
    fn rules_of_spreading(text in ".{0,20}") {
        let _ = text.parse::<Spread>();
        let _ = text.parse::<Format>();
    }
}

#[test]
fn every_sample_is_understood_or_refused_by_every_reader() {
    for bytes in samples() {
        all_readers(&bytes);
    }
}

#[test]
fn the_page_on_any_sample_can_be_shown() {
    for name in ["same.csv", "cluster.csv", "flush.blkparse", "blocks.lis", "same.cards"] {
        let mut source = open(&sample(name), &Options::default()).unwrap();
        let page = Info::read(&mut *source, 4096).unwrap().to_string();
        assert!(page.lines().count() > 15, "{page}");
    }
}
