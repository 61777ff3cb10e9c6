//! Values of options.

use cards_config::{ReadAhead, duration, size};
use cards_core::{Coherence, PlacementKind};
use cards_nearest::nearest;
use cards_policies::Replacement;
use cards_policies::read_ahead::Window;
use cards_policies::replacement::GhostKind;
use cards_sim::{Timing, WarmUp};

use super::error::SimError;

/// The cache of each node, as given.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cache {
    /// Bytes: one figure for all nodes, or one for each.
    Bytes(Vec<u64>),
    /// A share of the trace's footprint.
    Share(f64),
}

/// The items of a list, each parsed; `default` without a list.
pub(super) fn list<T>(
    option: &'static str,
    texts: &[String],
    default: T,
    parse: impl Fn(&str) -> Result<T, SimError>,
) -> Result<Vec<T>, SimError> {
    if texts.is_empty() {
        return Ok(vec![default]);
    }
    let item = |text: &String| match text.trim() {
        "" => Err(SimError::EmptyItem { option }),
        text => parse(text),
    };
    texts.iter().map(item).collect()
}

/// One of some words; the first without an option.
pub(super) fn word<T: Copy>(
    option: &'static str,
    text: Option<&String>,
    words: &[(&'static str, T)],
) -> Result<T, SimError> {
    let Some(text) = text else { return Ok(words[0].1) };
    words.iter().find(|(word, _)| word == text).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = nearest(text, known.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
        SimError::value(option, text, format!("{near}There are {}", known.join(", ")))
    })
}

/// A number from 1 to `max`.
pub(super) fn count(option: &'static str, text: &str, max: u16) -> Result<u16, SimError> {
    text.parse()
        .ok()
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| SimError::value(option, text, format!("want a number from 1 to {max}")))
}

/// A seed.
pub(super) fn seed(text: &str) -> Result<u64, SimError> {
    text.parse().map_err(|_| SimError::value("seed", text, "want a number from 0 to 2^64 - 1"))
}

/// The size of a block.
pub(crate) fn block(option: &'static str, text: &str, least: u32) -> Result<u32, SimError> {
    let bytes = size::parse(text).map_err(|error| SimError::value(option, text, error.to_string()))?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| bytes.is_power_of_two() && (least..=1 << 20).contains(bytes))
        .ok_or_else(|| {
            let want = format!("want a power of two from {least} to 1M");
            SimError::value(option, text, want)
        })
}

/// The size of the caches.
pub(super) fn cache(text: &str) -> Result<Cache, SimError> {
    if let Some(percent) = text.strip_suffix('%') {
        return share("cache", text, percent).map(Cache::Share);
    }
    let one = |part: &str| {
        size::parse(part).map_err(|error| {
            let problem = format!("{error}, or as a share of the footprint (10%)");
            SimError::value("cache", text, problem)
        })
    };
    text.split('+').map(one).collect::<Result<_, _>>().map(Cache::Bytes)
}

/// What is not measured.
pub(super) fn warm_up(text: &str) -> Result<WarmUp, SimError> {
    if let Some(percent) = text.strip_suffix('%') {
        let share = share("warmup", text, percent)?;
        return if share < 1.0 {
            Ok(WarmUp::Share(share))
        } else {
            Err(SimError::value("warmup", text, "want less than 100%, or nothing is measured"))
        };
    }
    if let Ok(requests) = text.parse() {
        return Ok(WarmUp::Requests(requests));
    }
    duration::parse(text).map(WarmUp::Time).map_err(|_| {
        let want =
            "want a time of the trace (15h), a number of requests (1000000) or a share of the trace (30%)";
        SimError::value("warmup", text, want)
    })
}

fn share(option: &'static str, text: &str, percent: &str) -> Result<f64, SimError> {
    percent
        .trim()
        .parse()
        .ok()
        .filter(|percent| (0.0..=1000.0).contains(percent) && *percent > 0.0)
        .map(|percent: f64| percent / 100.0)
        .ok_or_else(|| SimError::value(option, text, "want a share from above 0% to 1000%"))
}

/// `arc`, or `arc ghosts=exact`.
pub(super) fn replacement(text: &str) -> Result<(Replacement, GhostKind), SimError> {
    let problem = |problem: String| SimError::value("replacement", text, problem);
    let (name, parameters) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let replacement: Replacement = name.parse().map_err(|error| problem(format!("{error}")))?;
    let mut ghosts = GhostKind::Hashed;
    for parameter in parameters.split_whitespace() {
        ghosts = match parameter {
            _ if !replacement.has_ghosts() => {
                return Err(problem(format!("{replacement} has no parameter that can be set")));
            }
            "ghosts=hashed" => GhostKind::Hashed,
            "ghosts=exact" => GhostKind::Exact,
            other => return Err(problem(format!("{other:?}: want ghosts=hashed or ghosts=exact"))),
        };
    }
    Ok((replacement, ghosts))
}

pub(super) fn timing(text: Option<&String>) -> Result<Timing, SimError> {
    word("timing", text, &[("trace", Timing::Trace), ("fast", Timing::Fast), ("serial", Timing::Serial)])
}

pub(super) fn coherence(text: Option<&String>) -> Result<Coherence, SimError> {
    word("coherence", text, &[("policy", Coherence::Policy), ("confirmed", Coherence::Confirmed)])
}

pub(super) fn network_attached(text: Option<&String>) -> Result<bool, SimError> {
    word("attached", text, &[("computer", false), ("network", true)])
}

pub(super) fn placement(text: Option<&String>) -> Result<PlacementKind, SimError> {
    let kinds = [("rendezvous", PlacementKind::Rendezvous), ("modulo", PlacementKind::Modulo)];
    word("placement", text, &kinds)
}

/// How far sequential reads run ahead, with caches of so many bytes at least.
pub(super) fn read_ahead(text: Option<&String>, cache_bytes: u64) -> Result<Window, SimError> {
    let Some(text) = text else { return Ok(Window::Off) };
    match text.parse() {
        Ok(ReadAhead::Off) => Ok(Window::Off),
        Ok(ReadAhead::Auto) => Ok(Window::Adaptive(cache_bytes / 16)),
        Ok(ReadAhead::Bytes(bytes)) if bytes <= ReadAhead::BYTES_MAX => Ok(Window::Fixed(bytes)),
        _ => Err(SimError::value("read-ahead", text, "want off, auto or a size up to 64M")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn caches_are_sizes_shares_or_one_for_each_node() {
        assert_eq!(cache("16M").unwrap(), Cache::Bytes(vec![16 << 20]));
        assert_eq!(cache("240M+225M").unwrap(), Cache::Bytes(vec![240 << 20, 225 << 20]));
        assert_eq!(cache("2.5%").unwrap(), Cache::Share(0.025));
        for text in ["16Q", "0%", "-1%", "%", "NaN%", "1M+", "x%"] {
            let error = cache(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--cache {text:?}: ")), "{error}");
        }
    }

    #[test]
    fn a_replacement_with_ghosts_may_have_exact_ones() {
        assert_eq!(replacement("arc").unwrap(), (Replacement::Arc, GhostKind::Hashed));
        assert_eq!(replacement("arc ghosts=hashed").unwrap(), (Replacement::Arc, GhostKind::Hashed));
        assert_eq!(replacement("s3-fifo  ghosts=exact").unwrap(), (Replacement::S3Fifo, GhostKind::Exact));
        for (text, problem) in [
            ("lru ghosts=exact", "lru has no parameter that can be set"),
            ("arc ghosts=no", "want ghosts=hashed or ghosts=exact"),
            ("arcs", "did you mean arc?"),
        ] {
            let error = replacement(text).unwrap_err().to_string();
            assert!(error.starts_with("--replacement ") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn warm_ups_are_times_requests_or_shares() {
        assert_eq!(warm_up("15h").unwrap(), WarmUp::Time(Duration::from_secs(54_000)));
        assert_eq!(warm_up("1000000").unwrap(), WarmUp::Requests(1_000_000));
        assert_eq!(warm_up("30%").unwrap(), WarmUp::Share(0.3));
        for text in ["15", "0"] {
            assert!(matches!(warm_up(text), Ok(WarmUp::Requests(_))), "{text}");
        }
        for text in ["15x", "100%", "-3", ""] {
            assert!(warm_up(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_has_no_empty_items() {
        let seeds = |texts: &[&str]| {
            list("seed", &texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), 1, seed)
        };
        assert_eq!(seeds(&[]).unwrap(), [1]);
        assert_eq!(seeds(&["3", " 4"]).unwrap(), [3, 4]);
        assert!(matches!(seeds(&["3", ""]), Err(SimError::EmptyItem { option: "seed" })));
        assert!(seeds(&["x"]).is_err());
    }

    #[test]
    fn a_wrong_word_gets_the_nearest() {
        let error = timing(Some(&"serail".to_owned())).unwrap_err().to_string();
        assert_eq!(error, "--timing \"serail\": did you mean serial? There are trace, fast, serial");
        assert_eq!(timing(None).unwrap(), Timing::Trace);
    }

    #[test]
    fn read_ahead_has_a_limit() {
        let window = |text: &str| read_ahead(Some(&text.to_owned()), 16 << 20);
        assert_eq!(window("auto").unwrap(), Window::Adaptive(1 << 20));
        assert_eq!(window("128K").unwrap(), Window::Fixed(128 << 10));
        assert!(window("1G").is_err() && window("much").is_err());
    }
}
