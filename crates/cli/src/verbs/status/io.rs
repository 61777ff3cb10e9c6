//! What clients of the node ask of its volumes, and how long that takes.

use cards_admin::{Io, OpIo, Status};
use cards_config::size;

use crate::table::{Align, Table, count, time};

/// A row for each volume and kind of request; since `before`, or since the daemon was started. Nothing if there were
/// no requests.
pub(super) fn render(status: &Status, before: Option<&Status>) -> String {
    let mut table = Table::new(&[
        ("volume", Align::Left),
        ("requests", Align::Left),
        (if before.is_some() { "now" } else { "so far" }, Align::Right),
        ("bytes", Align::Right),
        ("failed", Align::Right),
        ("half within", Align::Right),
        ("99 % within", Align::Right),
    ]);
    let mut any = false;
    for volume in &status.volumes {
        let earlier = before.and_then(|before| before.volumes.iter().find(|other| other.name == volume.name));
        let io = earlier.map_or_else(|| volume.io.clone(), |earlier| volume.io.since(&earlier.io));
        for one in rows(&io) {
            any = true;
            let within = |share| one.latency.quantile(share).map_or_else(|| "-".into(), time);
            table.row([
                volume.name.clone(),
                one.op.name().into(),
                count(one.latency.count()),
                size::human(one.bytes),
                count(one.errors),
                within(0.5),
                within(0.99),
            ]);
        }
    }
    let slow = match (status.slow.count, status.slow.threshold_ms) {
        (0, _) | (_, None) => String::new(),
        (slow, Some(ms)) => format!(
            "  {} request{} took {ms} ms or more; `cards top` shows the last ones.\n",
            count(slow),
            if slow == 1 { "" } else { "s" }
        ),
    };
    if any { table.to_string() + &slow } else { slow }
}

fn rows(io: &Io) -> impl Iterator<Item = &OpIo> {
    io.ops.iter().filter(|one| one.latency.count() > 0)
}

#[cfg(test)]
mod tests {
    use cards_admin::{Op, bucket_of};

    use super::*;
    use crate::verbs::status::tests::sample;

    fn with(requests: u64) -> Status {
        let mut read = OpIo { bytes: requests << 12, ..OpIo::none(Op::Read) };
        read.latency.add(bucket_of(96_000), requests);
        let mut status = sample();
        status.volumes[0].io.ops = vec![read];
        status
    }

    #[test]
    fn requests_are_counted_so_far_or_since_the_last_look() {
        let so_far = render(&with(100), None);
        assert!(so_far.contains("so far") && so_far.contains("400 KiB"), "{so_far}");
        let row = so_far.lines().find(|line| line.contains("read")).unwrap();
        assert!(
            row.split_whitespace().eq(["disk", "read", "100", "400", "KiB", "0", "104", "us", "112", "us"]),
            "{row}"
        );
        let now = render(&with(100), Some(&with(75)));
        assert!(now.contains("now") && now.contains("100 KiB"), "{now}");
        assert_eq!(render(&with(100), Some(&with(100))), "");
        assert_eq!(render(&sample(), None), "");
    }

    #[test]
    fn slow_requests_are_mentioned() {
        let mut status = sample();
        (status.slow.count, status.slow.threshold_ms) = (3, Some(100));
        assert_eq!(
            render(&status, None),
            "  3 requests took 100 ms or more; `cards top` shows the last ones.\n"
        );
    }
}
