//! What `auto` does for a volume, for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cards_admin::{Auto, Chooser};

/// A sentence, and a line for each candidate.
pub(crate) fn describe(auto: &Auto) -> String {
    let mut text = format!("auto, {}", in_force(auto));
    let Some(Chooser { state, candidates, bytes, load_ppm, .. }) = &auto.chooser else {
        return text + "; the node that chooses has not answered";
    };
    text += &format!("\n  {state}");
    if candidates.is_empty() {
        return text;
    }
    text += &format!(
        "; its tables have {:.1} MiB, and it takes {:.2} % of a processor",
        *bytes as f64 / f64::from(1 << 20),
        *load_ppm as f64 / 1e4
    );
    for (policy, ns) in candidates {
        let now = if *policy == auto.in_force { ", in force" } else { "" };
        text += &format!("\n  {policy}: {} a read{now}", time(*ns));
    }
    text
}

/// What is in force, since when, and why.
pub(crate) fn in_force(auto: &Auto) -> String {
    let Some(since_us) = auto.since_us else {
        return format!("{} in force, as at the start", auto.in_force);
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago = now.saturating_sub(Duration::from_micros(since_us)).as_secs();
    let why = match auto.expected_ns {
        Some((was, is)) => format!("a read takes {} instead of {} by the sample", time(is), time(was)),
        None => "for what disk and peers cost".to_owned(),
    };
    let by = auto.by.as_deref().map_or_else(String::new, |by| format!(", chosen by node {by}"));
    format!("{} in force for {ago} s{by}: {why}", auto.in_force)
}

/// Mean times have three digits that say something.
fn time(ns: u64) -> String {
    match ns as f64 / 1e3 {
        us if us < 999.5 => format!("{us:.1} us"),
        us => format!("{:.2} ms", us / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_in_force_and_why() {
        let start = Auto { in_force: "single".into(), ..Auto::default() };
        assert!(describe(&start).starts_with("auto, single in force, as at the start; the node"));
        let chooser = Chooser {
            state: "chooses by 900 reads of one block in 4".into(),
            candidates: vec![("rd".into(), 81_000), ("single".into(), 1_240_000)],
            bytes: 3 << 19,
            load_ppm: 1_234,
            ..Chooser::default()
        };
        let chosen = Auto {
            in_force: "rd".into(),
            since_us: Some(1),
            expected_ns: Some((1_240_000, 81_000)),
            by: Some("n1".into()),
            chooser: Some(chooser),
        };
        let text = describe(&chosen);
        for words in [
            "chosen by node n1: a read takes 81.0 us instead of 1.24 ms by the sample",
            "\n  chooses by 900 reads of one block in 4; its tables have 1.5 MiB, and it takes 0.12 % of a processor",
            "\n  rd: 81.0 us a read, in force\n  single: 1.24 ms a read",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
