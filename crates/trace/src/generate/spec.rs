//! `gen:NAME:key=value,key=value`: what people type to get a workload.

use cards_nearest::nearest;

use super::parameter::{Parameter, Value};
use super::registry::{Entry, REGISTRY};

/// What every generator's name starts with.
pub const PREFIX: &str = "gen:";

/// Why there is no such workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    /// It does not start with `gen:`.
    #[error("not a generator: a generator is written gen:NAME:key=value,key=value")]
    NotAGenerator,
    /// Nobody has registered this name.
    #[error("there is no generator `{name}`; {hint}")]
    UnknownGenerator {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        hint: String,
    },
    /// A part is not of the form `key=value`.
    #[error("`{part}` should be key=value")]
    NotKeyValue {
        /// The part.
        part: String,
    },
    /// The generator has no such parameter.
    #[error("`{generator}` has no parameter `{parameter}`; {hint}")]
    UnknownParameter {
        /// The generator.
        generator: &'static str,
        /// What was asked for.
        parameter: String,
        /// What may have been meant.
        hint: String,
    },
    /// A parameter is given twice.
    #[error("`{parameter}` is given twice; once is enough")]
    Repeated {
        /// The parameter.
        parameter: &'static str,
    },
    /// A value is not what the parameter takes, or does not go with the other values.
    #[error("{parameter}={value}: {problem}")]
    BadValue {
        /// The parameter.
        parameter: &'static str,
        /// The value.
        value: String,
        /// What would be right.
        problem: String,
    },
}

/// The values of a generator's parameters, given or by default.
#[derive(Debug)]
pub(crate) struct Values {
    parameters: &'static [Parameter],
    given: Vec<(String, Value)>,
}

impl Values {
    fn find(&self, name: &str) -> Option<&(String, Value)> {
        let index = self.parameters.iter().position(|parameter| parameter.name == name)?;
        self.given.get(index)
    }

    /// A count, a size in bytes, or a time in ns.
    pub(crate) fn number(&self, name: &str) -> u64 {
        match self.find(name) {
            Some((_, Value::Number(number))) => *number,
            other => unreachable!("{name} is registered as a number, not {other:?}"),
        }
    }

    /// A count that its range keeps small.
    pub(crate) fn small(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).unwrap_or(u32::MAX)
    }

    /// A number with a fraction.
    pub(crate) fn real(&self, name: &str) -> f64 {
        match self.find(name) {
            Some((_, Value::Real(real))) => *real,
            other => unreachable!("{name} is registered as a real, not {other:?}"),
        }
    }

    /// One of several words.
    pub(crate) fn word(&self, name: &str) -> &'static str {
        match self.find(name) {
            Some((_, Value::Word(word))) => word,
            other => unreachable!("{name} is registered as a word, not {other:?}"),
        }
    }

    /// A list of nodes.
    pub(crate) fn list(&self, name: &str) -> &[u32] {
        match self.find(name) {
            Some((_, Value::Nodes(nodes))) => nodes,
            other => unreachable!("{name} is registered as a list, not {other:?}"),
        }
    }

    /// The complaint that a value does not go with the others.
    pub(crate) fn conflict(&self, parameter: &'static str, problem: impl Into<String>) -> SpecError {
        let value = self.find(parameter).map_or_else(String::new, |(text, _)| text.clone());
        SpecError::BadValue { parameter, value, problem: problem.into() }
    }
}

/// Finds the generator and reads the values of its parameters.
///
/// # Errors
/// An unknown name, or a value that makes no sense; the error says which, and what would.
pub(crate) fn parse(spec: &str) -> Result<(&'static Entry, Values), SpecError> {
    let rest = spec.strip_prefix(PREFIX).ok_or(SpecError::NotAGenerator)?;
    let (name, pairs) = rest.split_once(':').unwrap_or((rest, ""));
    let entry = REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let hint = hint(name, REGISTRY.iter().map(|entry| entry.name));
        SpecError::UnknownGenerator { name: name.to_owned(), hint }
    })?;
    let mut texts: Vec<Option<&str>> = vec![None; entry.parameters.len()];
    for part in pairs.split(',').filter(|part| !part.is_empty()) {
        let Some((key, text)) = part.split_once('=') else {
            return Err(SpecError::NotKeyValue { part: part.to_owned() });
        };
        let found = entry.parameters.iter().zip(&mut texts).find(|(parameter, _)| parameter.name == key);
        let Some((parameter, place)) = found else {
            let hint = hint(key, entry.parameters.iter().map(|parameter| parameter.name));
            return Err(SpecError::UnknownParameter {
                generator: entry.name,
                parameter: key.to_owned(),
                hint,
            });
        };
        if place.replace(text).is_some() {
            return Err(SpecError::Repeated { parameter: parameter.name });
        }
    }
    let mut given = Vec::with_capacity(texts.len());
    for (parameter, text) in entry.parameters.iter().zip(texts) {
        let text = text.unwrap_or(parameter.default);
        given.push((text.to_owned(), parameter.parse(text)?));
    }
    Ok((entry, Values { parameters: entry.parameters, given }))
}

/// What was probably meant, and all there is.
fn hint(word: &str, known: impl Iterator<Item = &'static str> + Clone) -> String {
    let all = known.clone().collect::<Vec<_>>().join(", ");
    match nearest(word, known) {
        Some(candidate) => format!("did you mean `{candidate}`? There are: {all}"),
        None => format!("there are: {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(spec: &str) -> String {
        parse(spec).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest_one() {
        assert!(complaint("gen:boots").starts_with("there is no generator `boots`; did you mean `boot`?"));
        let parameter = complaint("gen:oltp:node=3");
        assert!(
            parameter.starts_with("`oltp` has no parameter `node`; did you mean `nodes`?"),
            "{parameter}"
        );
        assert!(parameter.ends_with("skew, affinity, log, compute"), "{parameter}");
        assert!(complaint("trace.csv").contains("gen:NAME:key=value"));
    }

    #[test]
    fn a_bad_value_is_named_with_what_would_be_right() {
        assert_eq!(complaint("gen:oltp:nodes=0"), "nodes=0: should be a count from 1 to 65535");
        assert_eq!(complaint("gen:oltp:nodes"), "`nodes` should be key=value");
        assert_eq!(complaint("gen:oltp:nodes=1,nodes=2"), "`nodes` is given twice; once is enough");
        assert_eq!(complaint("gen:training:mode=both"), "mode=both: should be sharded or replicated");
    }

    #[test]
    fn given_values_replace_the_defaults() {
        let (entry, values) = parse("gen:oltp:nodes=7,requests=2.5k,bytes=3MiB").unwrap();
        assert_eq!(entry.name, "oltp");
        assert_eq!(values.small("nodes"), 7);
        assert_eq!(values.number("requests"), 2500);
        assert_eq!(values.number("bytes"), 3 << 20);
        assert_eq!(values.number("seed"), 1);
    }
}
