//! `cards policy list`: the registries of policies and replacements.

use std::time::Duration;

use cards_admin::{ChosenPolicy, LoadedModule, Policies, PolicyOrder};
use cards_policies::Replacement;
use cards_policies::policy::{Entry, registry};
use serde::Serialize;

use crate::auto;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// How long a daemon may take that may not be there.
const PATIENCE: Duration = Duration::from_secs(2);

/// What `--json` prints.
#[derive(Serialize)]
struct Lists {
    policies: Vec<Listed>,
    replacements: Vec<ListedReplacement>,
    /// Of the cluster, if a daemon answers.
    modules: Vec<LoadedModule>,
    /// Those that were given another policy.
    volumes: Vec<ChosenPolicy>,
}

/// One policy, for programs.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    parameters: Vec<Parameter>,
    when_not: &'static str,
    /// What a node lacks to run it; null if it can.
    lacks: Option<&'static str>,
}

/// One replacement, for programs.
#[derive(Serialize)]
struct ListedReplacement {
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    parameters: Vec<Parameter>,
    when_not: &'static str,
}

/// One parameter of a policy, for programs.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
}

impl From<&Entry> for Listed {
    fn from(entry: &Entry) -> Self {
        let parameters = entry.parameters.iter().map(Parameter::from).collect();
        let Entry { name, title, paper, when_not, .. } = *entry;
        Self { name, title, paper, parameters, when_not, lacks: entry.lacks() }
    }
}

impl From<&cards_policies::policy::Parameter> for Parameter {
    fn from(parameter: &cards_policies::policy::Parameter) -> Self {
        let cards_policies::policy::Parameter { name, default, meaning } = *parameter;
        Self { name, default, meaning }
    }
}

impl From<Replacement> for ListedReplacement {
    fn from(replacement: Replacement) -> Self {
        let cards_policies::replacement::Entry { name, title, paper, parameters, when_not } =
            replacement.entry();
        Self { name, title, paper, parameters: parameters.iter().map(Parameter::from).collect(), when_not }
    }
}

/// Prints them: one JSON object with `json`.
pub(super) fn run(json: bool, daemon: &Daemon) -> Result<(), Error> {
    let known =
        daemon.connect_within(PATIENCE).and_then(|mut client| Ok(client.policies(PolicyOrder::List {})?));
    if json {
        let Policies { modules, volumes, .. } = known.unwrap_or_default();
        let policies = registry().iter().map(Listed::from).collect();
        let replacements = Replacement::ALL.into_iter().map(ListedReplacement::from).collect();
        return output::print_json(&Lists { policies, replacements, modules, volumes });
    }
    let of_cluster = known.map_or_else(|_| String::new(), |known| describe_modules(&known));
    output::print(&(render() + &of_cluster))
}

/// The modules, and the volumes with other policies.
pub(super) fn describe_modules(known: &Policies) -> String {
    let mut text = String::from("\nModules: policies of users\n\n");
    for LoadedModule { digest, name, here } in &known.modules {
        let away = if *here { "" } else { ", not at this node yet" };
        text += &format!("{name}: {digest}{away}\n");
    }
    if known.modules.is_empty() {
        text += "none is loaded: `cards policy load FILE.wasm`\n";
    }
    for ChosenPolicy { volume, policy, failure, auto } in &known.volumes {
        if let Some(auto) = auto {
            text += &format!("volume {volume}: {}\n", auto::describe(auto));
            continue;
        }
        let failed =
            failure.as_ref().map_or_else(String::new, |failure| format!(", replaced by rd: {failure}"));
        text += &format!("volume {volume}: {policy}{failed}\n");
    }
    text
}

fn render() -> String {
    let (nodes, simulator): (Vec<&Entry>, Vec<&Entry>) =
        registry().iter().partition(|entry| entry.lacks().is_none());
    let policies = |entries: Vec<&Entry>| entries.into_iter().map(describe).collect::<Vec<_>>().join("\n");
    let replacements: Vec<String> =
        Replacement::ALL.into_iter().map(|r| describe_replacement(&ListedReplacement::from(r))).collect();
    format!(
        "Policies: where copies live\n\n{}\nPolicies for the simulator (`cards sim`) only\n\n{}\n\
         Replacements: which block leaves a full cache\n\n{}",
        policies(nodes),
        policies(simulator),
        replacements.join("\n")
    )
}

fn describe(entry: &Entry) -> String {
    let mut text = format!("{}: {}\n  paper     {}\n", entry.name, entry.title, entry.paper);
    for parameter in entry.parameters {
        text += &format!("  {:<9} {} (default {})\n", parameter.name, parameter.meaning, parameter.default);
    }
    text += &format!("  not when  {}\n", entry.when_not);
    match entry.lacks() {
        None => text,
        Some(lacks) => text + &format!("  not yet   on nodes, which have no {lacks}\n"),
    }
}

fn describe_replacement(replacement: &ListedReplacement) -> String {
    let ListedReplacement { name, title, paper, parameters, when_not } = replacement;
    let parameters: String = parameters
        .iter()
        .map(|Parameter { name, default, meaning }| format!("  {name:<9} {meaning} (default {default})\n"))
        .collect();
    format!("{name}: {title}\n  paper     {paper}\n{parameters}  not when  {when_not}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_described() {
        for entry in registry() {
            let text = describe(entry);
            for part in [entry.name, entry.paper, entry.when_not] {
                assert!(!part.is_empty() && text.contains(part), "{text}");
            }
            assert_eq!(text.contains("not yet"), entry.lacks().is_some(), "{text}");
            assert!(render().contains(&text));
        }
    }

    #[test]
    fn every_replacement_is_described() {
        for replacement in Replacement::ALL {
            assert!(render().contains(&format!("\n{}: ", replacement.name())), "{replacement}");
        }
    }
}
