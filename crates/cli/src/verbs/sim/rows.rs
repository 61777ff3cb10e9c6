//! Reports for programs: JSON and CSV.

use std::fmt;

use cards_sim::Report;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Runs<'a> {
    /// A report for each combination, in their order.
    pub(super) runs: &'a [Report],
}

/// The columns are the names of [`Report`], in its order, and `more.NAME` for the counters in `more`.
pub(super) fn csv(reports: &[Report]) -> String {
    let mut text = String::new();
    for (i, report) in reports.iter().enumerate() {
        let columns = columns(report);
        if i == 0 {
            text += &line(columns.iter().map(|(name, _)| name.clone()));
        }
        text += &line(columns.into_iter().map(|(_, value)| value));
    }
    text
}

fn columns(report: &Report) -> Vec<(String, String)> {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = serde_json::to_string(report).expect("reports have only string keys");
    let Fields(fields) = serde_json::from_str(&text).expect("a report is an object");
    let mut columns = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Object(more) => {
                columns.extend(more.iter().map(|(key, value)| (format!("{name}.{key}"), plain(value))));
            }
            value => columns.push((name, plain(&value))),
        }
    }
    columns
}

/// The fields of an object, in their order.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = |field: String| {
        if field.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    fields.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        let fields = ["a,b", "say \"x\"", "plain"].map(str::to_owned);
        assert_eq!(line(fields.into_iter()), "\"a,b\",\"say \"\"x\"\"\",plain\n");
    }
}
