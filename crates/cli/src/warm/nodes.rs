//! Nodes whose caches are to be filled.

use cards_admin::{Client, ClientError, Cluster, MemberState, NodeStatus, RefusalKind};
use cards_nearest::nearest;
use serde::Serialize;

use super::WarmError;
use crate::error::Error;

/// As they are given: `all`, a number, or names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Nodes {
    /// All that have the volume attached.
    All,
    /// So many of them, the one that is asked first.
    Count(usize),
    /// These, each once.
    Named(Vec<String>),
}

impl Nodes {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        match text.parse() {
            Ok(0) => return Err("at least one node has a cache to fill; write all, a number or names".into()),
            Ok(count) => return Ok(Self::Count(count)),
            Err(_) => {}
        }
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim) {
            match name {
                "" => return Err("write all, a number, or names with commas between them: n1,n2".into()),
                name if names.iter().any(|known| known == name) => {}
                name => names.push(name.into()),
            }
        }
        Ok(Self::Named(names))
    }
}

/// One node whose cache is to be filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Target {
    pub(super) node: String,
    /// Bytes of its cache.
    pub(super) cache: u64,
}

/// One node whose cache is not to be filled, or cannot be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(super) node: String,
    pub(super) reason: String,
}

/// What has been chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Choice {
    pub(super) targets: Vec<Target>,
    /// They do not have the volume, and need not.
    pub(super) left_out: Vec<LeftOut>,
    /// They were to be warmed, and do not answer, or refuse.
    pub(super) missing: Vec<LeftOut>,
}

impl Nodes {
    /// The nodes of the cluster that are meant, after each was asked whether it would warm the volume.
    pub(super) fn choose(&self, client: &mut Client, volume: &str) -> Result<Choice, Error> {
        let cluster = client.cluster()?;
        let mut choice = Choice::default();
        for node in self.candidates(&cluster)? {
            if matches!(self, Self::Count(count) if choice.targets.len() == *count) {
                break;
            }
            self.ask(client, volume, node, &mut choice)?;
        }
        match self {
            Self::Count(count) if choice.targets.len() < *count => {
                let nodes: Vec<_> = choice.targets.into_iter().map(|target| target.node).collect();
                Err(WarmError::TooFew { volume: volume.into(), wanted: *count, nodes }.into())
            }
            _ if choice.targets.is_empty() => {
                Err(WarmError::Nowhere { volume: volume.into(), missing: choice.missing }.into())
            }
            _ => Ok(choice),
        }
    }

    /// The members that come into question, in the order in which they are asked.
    fn candidates<'a>(&self, cluster: &'a Cluster) -> Result<Vec<&'a NodeStatus>, Error> {
        let mut all: Vec<_> = cluster.nodes.iter().collect();
        match self {
            Self::All => Ok(all),
            Self::Count(_) => {
                all.sort_by_key(|node| node.state != MemberState::Here);
                Ok(all)
            }
            Self::Named(names) => names
                .iter()
                .map(|name| {
                    cluster.nodes.iter().find(|node| node.name == *name).ok_or_else(|| {
                        let near = nearest(name, cluster.nodes.iter().map(|node| node.name.as_str()));
                        let near = near.map_or_else(String::new, |near| format!("did you mean {near:?}? Else "));
                        Error::Usage {
                            problem: format!(
                                "--nodes: no node {name:?} in this cluster; {near}see `cards status --cluster`"
                            ),
                        }
                    })
                })
                .collect(),
        }
    }

    /// Asks one whether it would warm the volume: fetching nothing.
    fn ask(
        &self,
        client: &mut Client,
        volume: &str,
        node: &NodeStatus,
        choice: &mut Choice,
    ) -> Result<(), ClientError> {
        let named = matches!(self, Self::Named(_));
        let out = |reason| LeftOut { node: node.name.clone(), reason };
        let Some(status) = &node.status else {
            let reason = node.error.clone().unwrap_or_else(|| "it does not answer".into());
            let is_gone = node.state == MemberState::Dead && !named;
            if is_gone { &mut choice.left_out } else { &mut choice.missing }.push(out(reason));
            return Ok(());
        };
        match client.warm_at(&node.name, volume, &[]) {
            Ok(_) => choice.targets.push(Target { node: node.name.clone(), cache: status.cache.bytes }),
            Err(ClientError::Refused(refusal)) => {
                let need_not = refusal.kind == RefusalKind::NotAttached && !named;
                if need_not { &mut choice.left_out } else { &mut choice.missing }.push(out(refusal.message));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_all_or_some_or_named() {
        assert_eq!(Nodes::parse("all"), Ok(Nodes::All));
        assert_eq!(Nodes::parse("3"), Ok(Nodes::Count(3)));
        let named = Nodes::Named(vec!["n1".into(), "rack-2".into()]);
        assert_eq!(Nodes::parse("n1, rack-2,n1"), Ok(named));
        for wrong in ["", "0", "n1,", ",", "n1,,n2"] {
            assert!(Nodes::parse(wrong).is_err(), "{wrong}");
        }
    }
}
