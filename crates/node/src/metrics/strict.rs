//! A strict reader of what [`super::exposition`] writes: it refuses what OpenMetrics 1.0 refuses.

use std::collections::BTreeMap;

/// One family.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) help: String,
    /// By the name of the sample and its labels, sorted.
    pub(crate) samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads a text as families by their names.
///
/// # Errors
/// The line that is wrong, and why.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no EOF at the end")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.lines() {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ').ok_or_else(|| wrong("a comment"))?;
            let (name, value) = rest.split_once(' ').ok_or_else(|| wrong("no value"))?;
            if word == "TYPE" {
                is_name(name).then_some(()).ok_or_else(|| wrong("a name"))?;
                current = name.into();
                let family = Family { kind: value.into(), ..Family::default() };
                if families.insert(current.clone(), family).is_some() {
                    return Err(wrong("there twice"));
                }
            }
            let family =
                families.get_mut(name).filter(|_| name == current).ok_or_else(|| wrong("interleaved"))?;
            if !family.samples.is_empty() {
                return Err(wrong("after its samples"));
            }
            match word {
                "TYPE" => {}
                "HELP" if family.help.is_empty() => family.help = value.into(),
                "UNIT" if name.ends_with(&format!("_{value}")) => {}
                _ => return Err(wrong("a comment")),
            }
            continue;
        }
        let (name, labels, value) = sample(line).ok_or_else(|| wrong("no sample"))?;
        let family = families.get_mut(&current).ok_or_else(|| wrong("without a type"))?;
        let suffix = name.strip_prefix(&current).ok_or_else(|| wrong("of another family"))?;
        let fits = match family.kind.as_str() {
            "counter" => suffix == "_total" && value >= 0.0,
            "info" => suffix == "_info" && value == 1.0,
            "gauge" => suffix.is_empty(),
            "histogram" => matches!(suffix, "_bucket" | "_count" | "_sum"),
            _ => false,
        };
        if !fits {
            return Err(wrong("not as its type"));
        }
        if family.samples.iter().any(|(other, known, _)| (other, known) == (&name, &labels)) {
            return Err(wrong("there twice"));
        }
        family.samples.push((name, labels, value));
    }
    for (name, family) in &families {
        if family.help.is_empty() {
            return Err(format!("{name} has no help"));
        }
        if family.kind == "histogram" {
            histogram(name, family)?;
        }
    }
    Ok(families)
}

/// Buckets grow, end with all, and agree with the count.
fn histogram(name: &str, family: &Family) -> Result<(), String> {
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for (sample, labels, value) in family.samples.iter().filter(|(sample, ..)| sample.ends_with("_bucket")) {
        let mut labels = labels.clone();
        let at_most = labels.remove("le").ok_or_else(|| format!("{sample} without le"))?;
        let at_most = at_most.parse().map_err(|_| format!("{sample}: le={at_most}"))?;
        series.entry(labels).or_default().push((at_most, *value));
    }
    for (labels, buckets) in series {
        let grows = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let count = family.samples.iter().find(|(n, l, _)| n.ends_with("_count") && *l == labels);
        let all = buckets.last().filter(|(at_most, _)| at_most.is_infinite()).map(|(_, count)| *count);
        if !grows || all.is_none() || all != count.map(|(.., count)| *count) {
            return Err(format!("{name} {labels:?}: {buckets:?}"));
        }
    }
    Ok(())
}

fn sample(line: &str) -> Option<(String, BTreeMap<String, String>, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if rest.starts_with('{') {
        loop {
            let (label, after) = rest[1..].split_once("=\"")?;
            let (value, after) = quoted(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = after;
            match rest.as_bytes().first()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(name).then(|| (name.to_owned(), labels, value))
}

/// A value up to its quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[test]
fn what_the_format_refuses_is_refused() {
    let good = "# TYPE a counter\n# HELP a x\na_total 1\n# EOF\n";
    parse(good).unwrap();
    for (from, to) in [
        ("# EOF\n", ""),
        ("a_total 1", "a 1"),
        ("a_total 1", "a_total -1"),
        ("a_total 1", "a_total x"),
        ("a_total 1", "a_total{b=\"c} 1"),
        ("a_total 1", "a_total{b=\"c\",b=\"d\"} 1"),
        ("a_total 1", "a_total 1\na_total 2"),
        ("a_total 1", "b_total 1"),
        ("# HELP a x\n", ""),
        ("# HELP a x", "# UNIT a seconds"),
        ("a_total 1\n", "a_total 1\n# HELP a y\n"),
        ("a_total 1\n", "a_total 1\n\n"),
    ] {
        assert!(parse(&good.replace(from, to)).is_err(), "{to}");
    }
}
