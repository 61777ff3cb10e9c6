//! Machines that people describe: a base, and what differs.

use cards_nearest::nearest;
use toml::{Table, Value};

use super::{Library, Machine, MachineError};

/// The base that a description names.
pub(super) fn base_of(figures: &Value) -> Option<&str> {
    figures.get("base")?.as_str()
}

/// The machine that a description means.
pub(super) fn machine(
    library: &Library,
    origin: &str,
    name: &str,
    figures: &Value,
) -> Result<Machine, MachineError> {
    let wrong = |problem: String| MachineError::Definition { machine: name.to_owned(), problem };
    let Value::Table(figures) = figures else {
        return Err(wrong("want a table of figures, perhaps with a base".into()));
    };
    let mut given = figures.clone();
    let base = match given.remove("base") {
        None => None,
        Some(Value::String(base)) => Some(library.find(&base)?),
        Some(other) => return Err(wrong(format!("base: want the name of a machine, not {other}"))),
    };
    let sources = given.remove("sources");
    let parameters = parameters_of(&given);
    let known: Vec<String> = library
        .iter()
        .take(1)
        .flat_map(|any| any.figures().into_iter().map(|figure| figure.parameter.to_owned()))
        .chain(["title".to_owned()])
        .collect();
    let mut named: Vec<&str> = parameters.iter().map(String::as_str).collect();
    if let Some(Value::Table(sources)) = &sources {
        named.extend(sources.keys().map(String::as_str));
    }
    if let Some(unknown) =
        named.iter().find(|&&parameter| parameter != "disk" && !known.iter().any(|k| k == parameter))
    {
        return Err(MachineError::UnknownParameter {
            machine: name.to_owned(),
            parameter: (*unknown).to_owned(),
            near: nearest(unknown, known.iter().map(String::as_str)).map(str::to_owned),
            known: known.join(", "),
        });
    }
    let mut all = match base {
        None => Table::new(),
        Some(base) => Table::try_from(base).map_err(|error| wrong(error.to_string()))?,
    };
    merge(&mut all, given);
    all.insert("name".into(), name.into());
    let mut machine: Machine = Value::Table(all).try_into().map_err(|error| wrong(told(&error)))?;
    for parameter in parameters.iter().filter(|&parameter| parameter != "title") {
        machine.set_source(parameter, origin);
    }
    match sources {
        None => {}
        Some(Value::Table(sources)) => {
            for (parameter, source) in sources {
                let Value::String(source) = source else {
                    return Err(wrong(format!("the source of {parameter}: want text, not {source}")));
                };
                machine.set_source(&parameter, &source);
            }
        }
        Some(other) => {
            return Err(wrong(format!("sources: want a table of parameters and texts, not {other}")));
        }
    }
    Ok(machine)
}

/// Names as in [`Machine::figures`].
fn parameters_of(given: &Table) -> Vec<String> {
    let mut names = Vec::new();
    for (name, value) in given {
        match value {
            Value::Table(inner) => names.extend(inner.keys().map(|key| format!("{name}.{key}"))),
            _ => names.push(name.clone()),
        }
    }
    names
}

fn merge(into: &mut Table, given: Table) {
    for (name, value) in given {
        match (into.get_mut(&name), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// What the deserializer says, in one line that begins with the parameter.
fn told(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let problem = lines.next().unwrap_or_default().trim().to_owned();
    let place = lines.find_map(|line| line.trim().strip_prefix("in `")?.strip_suffix('`').map(str::to_owned));
    match place {
        Some(place) => format!("{place}: {problem}"),
        None if problem.starts_with("missing field") => format!("{problem}: give it, or a base"),
        None => problem,
    }
}
