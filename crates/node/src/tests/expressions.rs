//! Expressions of Prometheus in what is shipped, the dashboard for Grafana and the pages: they name metrics, labels and
//! values that a daemon has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::cluster::{BLOCK, Cluster};
use super::http::{get, web};
use crate::metrics::strict;

/// Labels that Prometheus itself adds.
const ADDED: [&str; 2] = ["instance", "job"];
/// What has no labels but those it is told to keep.
const AGGREGATIONS: [&str; 2] = ["count", "sum"];
const FUNCTIONS: [&str; 4] = ["histogram_quantile", "increase", "label_values", "rate"];
const OPERATORS: [&str; 2] = ["and", "bool"];
/// What a list of labels follows.
const LISTS: [&str; 3] = ["by", "group_left", "on"];

/// What a daemon exports: for each name of a sample the labels of each.
struct Exported(BTreeMap<String, Vec<BTreeMap<String, String>>>);

/// What an expression names.
#[derive(Debug, Default, PartialEq)]
struct Names {
    /// Metrics, and for each what its labels have to be: label, operator, value.
    metrics: Vec<(String, Vec<[String; 3]>)>,
    /// Labels that are kept or compared.
    labels: BTreeSet<String>,
    /// Others are dropped.
    aggregates: bool,
}

impl Exported {
    /// That of a disk node with a peer, a volume and a client.
    fn of_a_node() -> Self {
        let authority = cards_tls::Authority::create("test").unwrap();
        let cluster = Cluster::with(2, 64 * BLOCK, |config| {
            web(config);
            authority.equip(&config.node, &[], &config.identity_files()).unwrap();
        });
        cluster.client(1).read(0, BLOCK).unwrap();
        let families = strict::parse(&get(&cluster, 1, "/metrics")).unwrap();
        let mut exported: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (name, labels, _) in families.into_values().flat_map(|family| family.samples) {
            exported.entry(name).or_default().push(labels);
        }
        // Whether a scrape has succeeded.
        exported.insert("up".into(), vec![BTreeMap::new()]);
        Self(exported)
    }

    /// Whether an expression, shown with `legend`, can show anything.
    fn check(&self, expression: &str, legend: &str) -> Result<(), String> {
        let names = read(expression)?;
        let mut known: BTreeSet<&str> = ADDED.into();
        for (metric, wanted) in &names.metrics {
            let samples = self.0.get(metric).ok_or_else(|| format!("{metric} is not exported"))?;
            known.extend(samples.iter().flat_map(|labels| labels.keys()).map(String::as_str));
            for [label, operator, value] in wanted {
                let has =
                    |value: &str| samples.iter().any(|labels| labels.get(label).is_some_and(|v| v == value));
                let values: Vec<&str> =
                    if operator == "=~" { value.split('|').collect() } else { vec![value] };
                if !ADDED.contains(&label.as_str())
                    && !samples.iter().all(|labels| labels.contains_key(label))
                {
                    return Err(format!("{metric} has no label {label}"));
                }
                // A variable of the dashboard may have any value.
                if let Some(value) = values.iter().find(|value| !value.starts_with('$') && !has(value))
                    && !ADDED.contains(&label.as_str())
                {
                    return Err(format!("{metric} has no {label}={value:?}"));
                }
            }
        }
        if names.metrics.is_empty() {
            return Err("no metric".into());
        }
        let kept = match names.labels.is_empty() && !names.aggregates {
            true => known.clone(),
            false => names.labels.iter().map(String::as_str).collect(),
        };
        let shown =
            legend.split("{{").skip(1).filter_map(|part| part.split_once("}}")).map(|(label, _)| label);
        let unknown = names.labels.iter().map(String::as_str).find(|label| !known.contains(label));
        match unknown.or(shown.into_iter().find(|label| !kept.contains(label))) {
            Some(label) => Err(format!("nothing has the label {label}")),
            None => Ok(()),
        }
    }
}

/// Reads as much of the language as is used here; anything else is an error.
fn read(expression: &str) -> Result<Names, String> {
    let mut names = Names::default();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        rest = match word {
            "" if first == '[' => rest.split_once(']').ok_or("a range without end")?.1,
            "" if "()+-*/<>=, ".contains(first) => &rest[1..],
            "" => return Err(format!("not understood: {rest}")),
            _ if first.is_ascii_digit() => after.strip_prefix('.').unwrap_or(after),
            _ if AGGREGATIONS.contains(&word) => {
                names.aggregates = true;
                after
            }
            _ if FUNCTIONS.contains(&word) || OPERATORS.contains(&word) => after,
            _ if LISTS.contains(&word) => {
                let list = after.trim_start().strip_prefix('(').and_then(|list| list.split_once(')'));
                let (list, after) = list.ok_or_else(|| format!("{word} without a list"))?;
                names
                    .labels
                    .extend(list.split(',').map(str::trim).filter(|l| !l.is_empty()).map(String::from));
                after
            }
            _ if expression.starts_with("label_values") && after == ")" => {
                names.labels.insert(word.into());
                after
            }
            _ => {
                let (wanted, after) = match after.strip_prefix('{') {
                    Some(list) => matchers(list)?,
                    None => (Vec::new(), after),
                };
                names.metrics.push((word.into(), wanted));
                after
            }
        };
        rest = rest.trim_start();
    }
    Ok(names)
}

/// What is between braces, and what follows.
fn matchers(mut list: &str) -> Result<(Vec<[String; 3]>, &str), String> {
    let mut wanted = Vec::new();
    loop {
        let (head, after) = list.split_once('"').ok_or_else(|| format!("no value: {list}"))?;
        let (value, after) = after.split_once('"').ok_or_else(|| format!("a value without end: {list}"))?;
        let at = head.find(['=', '!']).ok_or_else(|| format!("no operator: {list}"))?;
        let (label, operator) = head.split_at(at);
        wanted.push([label.trim(), operator, value].map(String::from));
        match after.split_at_checked(1) {
            Some((",", after)) => list = after,
            Some(("}", after)) => return Ok((wanted, after)),
            _ => return Err(format!("braces without end: {list}")),
        }
    }
}

/// All values of a field, wherever it is, each with the object it is in.
fn objects_with<'a>(value: &'a Value, field: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            if object.contains_key(field) {
                found.push(value);
            }
            object.values().for_each(|value| objects_with(value, field, found));
        }
        Value::Array(array) => array.iter().for_each(|value| objects_with(value, field, found)),
        _ => {}
    }
}

#[test]
fn what_cannot_be_shown_is_found() {
    let sample =
        |labels: &[(&str, &str)]| labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let reads = vec![
        sample(&[("volume", "data"), ("source", "local")]),
        sample(&[("volume", "data"), ("source", "disk")]),
    ];
    let exported = Exported([("reads_total".to_owned(), reads)].into());
    for (good, legend) in [
        ("reads_total", "{{instance}} {{source}}"),
        (
            "sum by (source, instance) (rate(reads_total{volume=~\"$volume\"}[$__rate_interval])) > 0.5",
            "{{source}}",
        ),
        ("sum(reads_total{source=~\"local|disk\"}) / on () sum(reads_total{source!=\"disk\"})", "all"),
        ("label_values(reads_total, source)", ""),
    ] {
        assert_eq!(exported.check(good, legend), Ok(()), "{good}");
    }
    for (bad, legend) in [
        ("", ""),
        ("writes_total", ""),
        ("rat(reads_total[5m])", ""),
        ("reads_total{kind=\"local\"}", ""),
        ("reads_total{source=\"locale\"}", ""),
        ("reads_total{source!=\"tape\"}", ""),
        ("reads_total{source=~\"local|tape\"}", ""),
        ("reads_total{source=\"local\"", ""),
        ("sum by (node) (reads_total)", ""),
        ("sum by (volume) (reads_total)", "{{source}}"),
        ("sum(reads_total)", "{{volume}}"),
        ("reads_total", "{{node}}"),
        ("label_values(reads_total, node)", ""),
        ("reads_total ?", ""),
    ] {
        assert!(exported.check(bad, legend).is_err(), "{bad} {legend}");
    }
}

#[test]
fn the_dashboard_for_grafana_shows_what_there_is() {
    let dashboard = include_str!("../../../../packaging/grafana/cards.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let exported = Exported::of_a_node();
    let (mut panels, mut variables) = (Vec::new(), Vec::new());
    objects_with(&dashboard, "expr", &mut panels);
    objects_with(&dashboard, "definition", &mut variables);
    assert!(panels.len() > 20 && variables.len() == 2, "{} {}", panels.len(), variables.len());
    for (object, field) in panels
        .into_iter()
        .map(|panel| (panel, "expr"))
        .chain(variables.into_iter().map(|v| (v, "definition")))
    {
        let (expression, legend) = (object[field].as_str().unwrap(), object["legendFormat"].as_str());
        let checked = exported.check(expression, legend.unwrap_or_default());
        assert_eq!(checked, Ok(()), "{expression}\n{legend:?}");
    }
}

#[test]
fn the_pages_for_operators_ask_for_what_there_is() {
    let page = include_str!("../../../../docs/operating/monitoring.md").replace("\\|", "|");
    let rules = page.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let (_, questions) = page.split_once("\n## Questions\n").unwrap();
    let (questions, _) = questions.split_once("\n## ").unwrap();
    let expressions: Vec<&str> = rules.chain(questions.split('`').skip(1).step_by(2)).collect();
    assert!(expressions.len() > 8, "{expressions:?}");
    let exported = Exported::of_a_node();
    for expression in expressions {
        assert_eq!(exported.check(expression, ""), Ok(()), "{expression}");
    }
}

#[test]
fn the_reference_has_every_metric_with_its_labels_and_no_others() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let explained: BTreeMap<&str, BTreeSet<&str>> = rows
        .map(|(name, row)| {
            let labels = row.split('|').next().unwrap_or_default().split(',').map(str::trim);
            (name, labels.filter(|label| !label.is_empty()).collect())
        })
        .collect();
    let exported = Exported::of_a_node();
    let mut there: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, samples) in exported.0.iter().filter(|(name, _)| *name != "up") {
        let family = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let labels = samples.iter().flat_map(|labels| labels.keys()).map(String::as_str);
        there.entry(family.unwrap_or(name)).or_default().extend(labels.filter(|label| *label != "le"));
    }
    assert_eq!(explained, there);
}
