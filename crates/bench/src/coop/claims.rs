//! What the paper says about its figures 2 to 5, as checks of one volume each.

use serde::Serialize;

use super::{CoopRow, HDC, HSCC};

/// One of the paper's statements, for one setting of the policy it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// The statement.
    pub statement: &'static str,
    /// The policy it was checked for.
    pub policy: &'static str,
    /// Volumes it was checked with.
    pub checked: usize,
    /// Where it does not hold, and what was measured there.
    pub differs: Vec<String>,
}

impl Claim {
    /// `holds`, `differs`, or `-` if nothing was measured to check it with.
    pub fn verdict(&self) -> &'static str {
        match (self.checked, self.differs.is_empty()) {
            (0, _) => "-",
            (_, true) => "holds",
            (_, false) => "differs",
        }
    }
}

/// One volume under the policies a statement compares.
struct Volume<'a> {
    ours: &'a CoopRow,
    hdc: &'a CoopRow,
}

/// A statement: for which volumes, and whether it holds with the numbers that decide it.
struct Statement {
    text: &'static str,
    from_mb: u32,
    to_mb: u32,
    holds: fn(&Volume) -> Option<(bool, String)>,
}

const ALL: (u32, u32) = (0, u32::MAX);
/// A cold run that is at most this much slower is not slower.
const NEGLIGIBLE: f64 = 0.05;

fn statement(
    text: &'static str,
    (from_mb, to_mb): (u32, u32),
    holds: fn(&Volume) -> Option<(bool, String)>,
) -> Statement {
    Statement { text, from_mb, to_mb, holds }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn versus(ours: f64, hdc: f64) -> String {
    format!("{} to {}", percent(ours), percent(hdc))
}

/// About HSCC, against HDC where it says so.
fn about_hscc() -> Vec<Statement> {
    vec![
        statement("fig. 2: HSCC hits at least as often as HDC", ALL, |v| {
            Some((v.ours.hits() >= v.hdc.hits(), versus(v.ours.hits(), v.hdc.hits())))
        }),
        statement("fig. 2: HDC has about 85 % of HSCC's hits (310 MB; 75 to 95 %)", (0, 310), |v| {
            let ratio = v.hdc.hits() / v.ours.hits().max(f64::MIN_POSITIVE);
            Some(((0.75..=0.95).contains(&ratio), percent(ratio)))
        }),
        statement("fig. 2: HSCC hits at least twice as often (681 and 741 MB)", (681, 741), |v| {
            Some((v.ours.hits() >= 2.0 * v.hdc.hits(), versus(v.ours.hits(), v.hdc.hits())))
        }),
        statement("fig. 2: HSCC hits more than half, even beyond the global cache", ALL, |v| {
            Some((v.ours.hits() > 0.5, percent(v.ours.hits())))
        }),
        statement("fig. 3: HDC's local share is above HSCC's", ALL, |v| {
            Some((v.hdc.local > v.ours.local, versus(v.ours.local, v.hdc.local)))
        }),
        statement("fig. 3: HSCC's remote share is above HDC's", ALL, |v| {
            Some((v.ours.remote > v.hdc.remote, versus(v.ours.remote, v.hdc.remote)))
        }),
        statement("fig. 4: HDC stores more evicted blocks than HSCC", ALL, |v| {
            Some((v.hdc.stored > v.ours.stored, format!("{:.0} to {:.0}", v.ours.stored, v.hdc.stored)))
        }),
        statement("fig. 5: warm HSCC is faster than a remote disk", ALL, |v| {
            v.ours.warm_speedup.map(|speedup| (speedup > 1.0, format!("{speedup:.2}x")))
        }),
        statement("fig. 5: cold HSCC is not slower than a remote disk (by 5 %)", ALL, |v| {
            v.ours.cold_speedup.map(|speedup| (speedup >= 1.0 - NEGLIGIBLE, format!("{speedup:.2}x")))
        }),
    ]
}

fn about_hdc() -> Vec<Statement> {
    vec![
        statement("fig. 5: warm HDC is faster than a remote disk (310 MB)", (0, 310), |v| {
            v.ours.warm_speedup.map(|speedup| (speedup > 1.0, format!("{speedup:.2}x")))
        }),
        statement("fig. 5: warm HDC is slower than a remote disk (490 MB and more)", (490, 741), |v| {
            v.ours.warm_speedup.map(|speedup| (speedup < 1.0, format!("{speedup:.2}x")))
        }),
    ]
}

/// Checks all statements that the rows allow.
pub(super) fn check(rows: &[CoopRow]) -> Vec<Claim> {
    let of_hscc = HSCC.into_iter().flat_map(|policy| one_policy(rows, policy, about_hscc()));
    of_hscc.chain(one_policy(rows, HDC, about_hdc())).collect()
}

fn one_policy(rows: &[CoopRow], policy: &'static str, statements: Vec<Statement>) -> Vec<Claim> {
    let volumes: Vec<Volume> = rows
        .iter()
        .filter(|row| row.policy == policy)
        .filter_map(|ours| {
            let hdc = rows.iter().find(|row| row.policy == HDC && row.paper_mb == ours.paper_mb)?;
            Some(Volume { ours, hdc })
        })
        .collect();
    let claim = |statement: Statement| {
        let range = statement.from_mb..=statement.to_mb;
        let mut claim = Claim { statement: statement.text, policy, checked: 0, differs: Vec::new() };
        for volume in volumes.iter().filter(|volume| range.contains(&volume.ours.paper_mb)) {
            let Some((holds, measured)) = (statement.holds)(volume) else { continue };
            claim.checked += 1;
            if !holds {
                claim.differs.push(format!("{} MB: {measured}", volume.ours.paper_mb));
            }
        }
        claim
    };
    statements.into_iter().map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &'static str, paper_mb: u32, local: f64, remote: f64, warm: f64) -> CoopRow {
        CoopRow {
            paper_mb,
            size: 1 << 20,
            policy,
            local,
            remote,
            disk: 1.0 - local - remote,
            stored: if policy == HDC { 20.0 } else { 10.0 },
            forwarded: 0.0,
            cold_s: 1.0,
            warm_s: 1.0,
            cold_speedup: Some(0.97),
            warm_speedup: Some(warm),
            retries: 0.0,
        }
    }

    fn claim<'a>(claims: &'a [Claim], policy: &str, part: &str) -> &'a Claim {
        claims.iter().find(|c| c.policy == policy && c.statement.contains(part)).unwrap()
    }

    #[test]
    fn the_papers_shapes_hold() {
        let rows = [
            row("hscc", 310, 0.2, 0.8, 1.54),
            row(HDC, 310, 0.4, 0.45, 1.2),
            row("hscc", 741, 0.02, 0.5, 1.1),
            row(HDC, 741, 0.05, 0.14, 0.9),
        ];
        let claims = check(&rows);
        let measured = claims.iter().filter(|claim| claim.policy != HSCC[1]);
        for claim in measured {
            assert_eq!(claim.verdict(), "holds", "{claim:?}");
        }
        assert_eq!(claim(&claims, HSCC[1], "more than half").verdict(), "-", "it was not measured");
    }

    #[test]
    fn a_difference_names_the_volume_and_the_numbers() {
        let rows = [row("hscc", 741, 0.1, 0.2, 0.9), row(HDC, 741, 0.05, 0.5, 1.3)];
        let claims = check(&rows);
        let half = claim(&claims, "hscc", "more than half");
        assert_eq!((half.verdict(), half.differs.clone()), ("differs", vec!["741 MB: 30 %".to_owned()]));
        assert_eq!(claim(&claims, "hscc", "at least as often").differs, ["741 MB: 30 % to 55 %"]);
        assert_eq!(claim(&claims, HDC, "slower").differs, ["741 MB: 1.30x"]);
        assert_eq!(claim(&claims, HDC, "(310 MB)").verdict(), "-", "that volume was not measured");
    }
}
