//! What the paper says about its figures, as predicates.

use super::reasons;
use super::site::{FIXED, LAZY, LEVELS, LIMITED, Means, NOT_LIMITED, Seeds, Site, XFS};
use crate::figure::Figure;
use crate::plan::Results;

/// `1.234, 2.345`
fn list(values: impl IntoIterator<Item = f64>, decimals: usize) -> String {
    values.into_iter().map(|value| format!("{value:.decimals$}")).collect::<Vec<_>>().join(", ")
}

fn points(all: &[Vec<Seeds>], results: &Results<'_>) -> Vec<Vec<Means>> {
    all.iter().map(|policies| Site::means(results, policies)).collect()
}

/// Within so large a share of each other.
fn near(a: f64, b: f64, share: f64) -> bool {
    (a / b - 1.0).abs() <= share
}

/// Whether each value is smaller than the one before; 2 % more count as no more.
fn falls(values: impl IntoIterator<Item = f64>) -> bool {
    let values: Vec<f64> = values.into_iter().collect();
    values.windows(2).all(|pair| pair[1] <= pair[0] * 1.02) && values.last() < values.first()
}

/// Of the dynamic ways of repartition.
const DYNAMIC: [usize; 3] = [NOT_LIMITED, LIMITED, LAZY];

pub(super) fn figure_2(figure: &mut Figure, pm: &Site, results: &Results<'_>) {
    let means = Site::means(results, &pm.policies);
    let read = |policy: usize| means[policy].read_ms;
    let (xfs, fixed) = (read(XFS), read(FIXED));
    figure.judge(
        ("PAFS-F2.1", "With fixed partitions, reads are very slow: slower than in xFS."),
        fixed > 1.5 * xfs,
        format!("{fixed:.3} ms, xFS {xfs:.3} ms"),
        reasons::FIXED_READS,
    );
    figure.judge(
        ("PAFS-F2.2", "PAFS reads faster than xFS with every dynamic repartition."),
        DYNAMIC.iter().all(|&policy| read(policy) < xfs),
        format!("{} ms, xFS {xfs:.3} ms", list(DYNAMIC.map(read), 3)),
        reasons::DYNAMIC,
    );
    figure.judge(
        ("PAFS-F2.3", "Limits and laziness are good: Lazy-and-limited reads no slower than Limited, Limited no slower than Not-limited."),
        read(LAZY) <= read(LIMITED) && read(LIMITED) <= read(NOT_LIMITED),
        format!("{} ms", list([read(LAZY), read(LIMITED), read(NOT_LIMITED)], 3)),
        reasons::LIMITS,
    );
    let write = |policy: usize| means[policy].write_ms;
    figure.judge(
        ("PAFS-F2.4", "PAFS writes faster than xFS."),
        DYNAMIC.iter().all(|&policy| write(policy) < write(XFS)),
        format!("{} ms, xFS {:.3} ms", list(DYNAMIC.map(write), 3), write(XFS)),
        reasons::WRITES,
    );
    let hits = [means[LAZY].hits(), means[XFS].hits()];
    figure.judge(
        ("PAFS-F2.5", "PAFS has more global hits (95 %) than xFS (92 %)."),
        hits[0] > hits[1],
        format!(
            "Lazy-and-limited {:.1} %, Limited {:.1} %, xFS {:.1} %",
            hits[0],
            means[LIMITED].hits(),
            hits[1]
        ),
        reasons::HITS,
    );
}

pub(super) fn figure_3(figure: &mut Figure, pm: &Site, results: &Results<'_>) {
    let points = points(&pm.ratios, results);
    let gaps: Vec<f64> = points.iter().map(|means| means[XFS].read_ms - means[LAZY].read_ms).collect();
    let (first, last) = (gaps[0], gaps[gaps.len() - 1]);
    figure.judge(
        (
            "PAFS-F3.1",
            "The difference between PAFS and xFS in reads does not depend on the network's bandwidth.",
        ),
        near(last, first, 0.25),
        format!("{} ms", list(gaps.iter().copied(), 3)),
        reasons::READ_GAP,
    );
    let writes: Vec<f64> = points.iter().map(|means| means[XFS].write_ms - means[LAZY].write_ms).collect();
    figure.judge(
        ("PAFS-F3.2", "The slower the network, the smaller the difference in writes."),
        writes[writes.len() - 1] < writes[0],
        format!("{} ms", list(writes.iter().copied(), 3)),
        reasons::WRITE_GAP,
    );
    let best = |means: &Vec<Means>| {
        let read = |policy: usize| means[policy].read_ms;
        read(LAZY) <= read(LIMITED) * 1.02 && read(LIMITED) <= read(NOT_LIMITED) * 1.02
    };
    figure.judge(
        ("PAFS-F3.3", "The bandwidth does not change the order of the ways of repartition."),
        points.iter().all(best) || !points.iter().any(best),
        "see the table of reads".to_owned(),
        reasons::LIMITS,
    );
}

pub(super) fn figure_4(figure: &mut Figure, pm: &Site, results: &Results<'_>) {
    let points = points(&pm.caches, results);
    let large = &points[points.len() - 1];
    let ratio = |means: &Vec<Means>| means[XFS].read_ms / means[LAZY].read_ms;
    figure.judge(
        ("PAFS-F4.1", "With large caches, Limited and Lazy-and-limited read equally fast."),
        near(large[LIMITED].read_ms, large[LAZY].read_ms, 0.1),
        format!("{} ms", list([large[LIMITED].read_ms, large[LAZY].read_ms], 3)),
        reasons::LARGE,
    );
    figure.judge(
        ("PAFS-F4.2", "The smaller the caches, the worse xFS reads in comparison with PAFS."),
        falls(points.iter().map(ratio)),
        format!("xFS takes {} times as long", list(points.iter().map(ratio), 2)),
        reasons::SMALL,
    );
    let writes: Vec<f64> = points.iter().map(|means| means[LAZY].write_ms).collect();
    let spread =
        writes.iter().copied().fold(0.0, f64::max) / writes.iter().copied().fold(f64::INFINITY, f64::min);
    figure.judge(
        ("PAFS-F4.3", "The size of the caches has little influence on writes."),
        spread < 1.5,
        format!("{} ms with Lazy-and-limited", list(writes, 3)),
        reasons::WRITE_SIZE,
    );
}

/// Times of level A, B, C and of xFS.
fn levels(site: &Site, results: &Results<'_>, of: fn(&Means) -> f64) -> ([f64; 3], f64) {
    let level = |i: usize| of(&Means::of(results, &site.levels[i]));
    ([0, 1, LEVELS.len() - 1].map(level), of(&Means::of(results, &site.policies[XFS])))
}

pub(super) fn figure_5(figure: &mut Figure, pm: &Site, results: &Results<'_>) {
    let ([a, b, c], xfs) = levels(pm, results, |means| means.write_ms);
    let (reads, xfs_reads) = levels(pm, results, |means| means.read_ms);
    figure.judge(
        ("PAFS-F5.1", "PAFS is faster than xFS even at level C."),
        c < xfs && reads[2] < xfs_reads,
        format!("reads {:.3} and {xfs_reads:.3} ms, writes {c:.3} and {xfs:.3} ms", reads[2]),
        reasons::LEVEL_C,
    );
    figure.judge(
        (
            "PAFS-F5.2",
            "Levels B and C write more slowly than A, and B hardly differs from C: few blocks are local.",
        ),
        a < b && a < c && near(b, c, 0.05),
        format!("{} ms", list([a, b, c], 3)),
        reasons::LEVELS,
    );
    figure.judge(
        ("PAFS-F5.3", "The levels hardly matter for reads."),
        near(reads[2], reads[0], 0.1) && near(reads[1], reads[0], 0.1),
        format!("{} ms", list(reads, 3)),
        reasons::LEVEL_READS,
    );
}

pub(super) fn figure_6(figure: &mut Figure, now: &Site, results: &Results<'_>) {
    let means = Site::means(results, &now.policies);
    let read = |policy: usize| means[policy].read_ms;
    figure.judge(
        ("PAFS-F6.1", "With fixed partitions, PAFS does well: the load is balanced."),
        near(read(FIXED), read(LAZY), 0.1),
        format!("reads {:.3} ms, Lazy-and-limited {:.3} ms", read(FIXED), read(LAZY)),
        reasons::NOW_FIXED,
    );
    figure.judge(
        ("PAFS-F6.2", "Not-limited does badly: buffers change owners for no good reason."),
        read(NOT_LIMITED) > 1.1 * read(FIXED),
        format!("reads {:.3} ms, Fixed {:.3} ms", read(NOT_LIMITED), read(FIXED)),
        reasons::NOW_NOT_LIMITED,
    );
    figure.judge(
        ("PAFS-F6.3", "As on PM, Lazy-and-limited is good: it reads faster than xFS."),
        read(LAZY) < read(XFS),
        format!("{:.3} ms, xFS {:.3} ms", read(LAZY), read(XFS)),
        reasons::NOW_READS,
    );
    figure.judge(
        ("PAFS-F6.4", "Lazy-and-limited writes faster than xFS."),
        means[LAZY].write_ms < means[XFS].write_ms,
        format!("{:.3} ms, xFS {:.3} ms", means[LAZY].write_ms, means[XFS].write_ms),
        reasons::NOW_WRITES,
    );
    figure.judge(
        ("PAFS-F6.5", "All but Fixed and Not-limited do as on PM: Limited is clearly better than Not-limited, and faster than xFS."),
        read(LIMITED) < 0.9 * read(NOT_LIMITED) && read(LIMITED) < read(XFS),
        format!("{:.3} ms, Not-limited {:.3} ms, xFS {:.3} ms", read(LIMITED), read(NOT_LIMITED), read(XFS)),
        reasons::NOW_LIMITED,
    );
}

pub(super) fn figure_7(figure: &mut Figure, now: &Site, results: &Results<'_>) {
    let points = points(&now.ratios, results);
    let gaps: Vec<f64> = points.iter().map(|means| means[XFS].write_ms - means[LAZY].write_ms).collect();
    figure.judge(
        ("PAFS-F7.1", "PAFS writes faster than xFS on fast networks, and more slowly where a remote copy takes 10 times as long as a local one."),
        now.ratio_values().iter().zip(&gaps).all(|(&ratio, &gap)| if ratio < 10.0 { gap > 0.0 } else { gap < 0.0 }),
        format!("with ratios of {}, xFS takes {} ms longer", list(now.ratio_values(), 0), list(gaps.iter().copied(), 3)),
        reasons::CROSSOVER,
    );
    figure.judge(
        ("PAFS-F7.2", "The slower the network, the smaller PAFS's advantage in writes."),
        gaps.windows(2).all(|pair| pair[1] < pair[0]),
        format!("{} ms", list(gaps.iter().copied(), 3)),
        reasons::NOW_WRITE_GAP,
    );
}

pub(super) fn figure_8(figure: &mut Figure, now: &Site, results: &Results<'_>) {
    let points = points(&now.caches, results);
    let ratio = |means: &Vec<Means>| means[XFS].read_ms / means[LAZY].read_ms;
    let large = &points[points.len() - 1];
    figure.judge(
        ("PAFS-F8.1", "As on PM: the smaller the caches, the worse xFS reads in comparison with PAFS."),
        falls(points.iter().map(ratio)),
        format!("xFS takes {} times as long", list(points.iter().map(ratio), 2)),
        reasons::NOW_SMALL,
    );
    figure.judge(
        ("PAFS-F8.2", "As on PM: with large caches, Limited and Lazy-and-limited read equally fast."),
        near(large[LIMITED].read_ms, large[LAZY].read_ms, 0.1),
        format!("{} ms", list([large[LIMITED].read_ms, large[LAZY].read_ms], 3)),
        reasons::NOW_LARGE,
    );
}

pub(super) fn figure_9(figure: &mut Figure, pm: &Site, now: &Site, results: &Results<'_>) {
    let ([_, b, c], _) = levels(now, results, |means| means.write_ms);
    let ([_, pm_b, pm_c], _) = levels(pm, results, |means| means.write_ms);
    let share = |b: f64, c: f64| 100.0 * (c / b - 1.0);
    figure.judge(
        (
            "PAFS-F9.1",
            "The difference between levels B and C is much larger than on PM: more blocks are local.",
        ),
        share(b, c) > 2.0 * share(pm_b, pm_c).max(0.0) && share(b, c) > 1.0,
        format!("C takes {:.1} % longer to write than B, on PM {:.1} %", share(b, c), share(pm_b, pm_c)),
        reasons::NOW_LEVELS,
    );
}
