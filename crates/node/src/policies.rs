//! What `cards policy` does: modules that all nodes get, and policies that volumes have from now on.
//!
//! Each node has a table of both, with a version for each entry ([`node::policies`](crate::node::policies)). A change is told to all
//! members at once. A node that was away hears of it from the others, which tell one member after the other what they know; one that
//! lacks a module asks for it by its digest. Nodes with different policies for a volume are slow at worst: a policy only gives hints.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cards_admin::{
    self as admin, Auto, ChosenPolicy, LoadedModule, PolicyOrder, Refusal, RefusalKind, Silent,
};
use cards_coordinator::MemberState;
use cards_core::{Coherence, Input, PgId, VolumeSpec};
use cards_nearest::nearest;
use cards_policies::policy;
use cards_user_policy::{Digest, Module, limits};
use serde::{Deserialize, Serialize};

use crate::inquiry::{self, Question};
use crate::mirrors;
use crate::node::Node;
use crate::node::policies::{Chosen, InForce, KnownModule, MODULES_MAX, Table, VOLUMES_MAX};
use crate::problems::policy_failure;
use crate::state_dir;

/// Time between two members that are told what this node knows.
const ROUND: Duration = Duration::from_secs(3);

/// What a node answers that was told a table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Heard {
    /// Its own, both together.
    table: Table,
    /// Digests of modules that it could not get.
    absent: Vec<String>,
}

/// A module, asked for by its digest.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Content {
    /// In base 64.
    data: String,
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal { kind: RefusalKind::BadRequest, message: message.into() }
}

fn not_kept(node: &Node, error: &io::Error) -> Refusal {
    let (directory, remedy) = (node.policies.directory().display(), state_dir::remedy(error));
    let message = format!("state_dir: {directory}: {error}; {remedy}");
    Refusal { kind: RefusalKind::Failed, message }
}

/// Does what an order says; what there is then. `parts` is what the connection has sent of a module.
///
/// # Errors
/// The order makes no sense, or this node cannot keep what it says.
pub(crate) async fn carry_out(
    node: &Arc<Node>,
    parts: &mut Vec<u8>,
    order: PolicyOrder,
) -> Result<admin::Policies, Refusal> {
    match order {
        PolicyOrder::List {} => Ok(list_with_choosers(node).await),
        PolicyOrder::Part { data } => {
            let bytes =
                STANDARD.decode(data).map_err(|error| bad(format!("the part is not base 64: {error}")))?;
            if parts.len() + bytes.len() > limits::MODULE_BYTES {
                parts.clear();
                return Err(bad(format!("a module has at most {} bytes", limits::MODULE_BYTES)));
            }
            parts.extend(bytes);
            Ok(admin::Policies::default())
        }
        PolicyOrder::Load { name } => load(node, name, std::mem::take(parts)).await,
        PolicyOrder::Unload { module } => unload(node, &module).await,
        PolicyOrder::Choose { volume, policy } => choose(node, volume, policy).await,
    }
}

async fn load(node: &Arc<Node>, name: String, bytes: Vec<u8>) -> Result<admin::Policies, Refusal> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_word) {
        return Err(bad(format!(
            "`{}`: the name of a module has letters, digits, `_`, `-` and `.`, 64 at most; rename its file",
            &name[..name.floor_char_boundary(100)]
        )));
    }
    let module = Module::new(&bytes).map_err(|error| bad(format!("{name}: {error}")))?;
    let digest = module.digest().to_string();
    let table = node.policies.table();
    check_name(&table, &name, &digest)?;
    let loaded = table.modules.values().filter(|module| module.loaded).count();
    if !table.modules.contains_key(&digest) && (loaded >= MODULES_MAX || table.modules.len() >= MODULES_MAX) {
        return Err(bad(format!(
            "there are {MODULES_MAX} modules already, unloaded ones among them; unload and forget some"
        )));
    }
    keep(node, module).await?;
    let entry = KnownModule { version: table.next_version(), name, loaded: true };
    change(node, Table { modules: [(digest, entry)].into(), ..Table::default() }).await
}

/// A module can be had by its name.
fn check_name(table: &Table, name: &str, digest: &str) -> Result<(), Refusal> {
    if policy::registry().iter().any(|entry| entry.name == name) {
        return Err(bad(format!(
            "{name} is a built-in policy, so that no volume could have the module by this name: rename its file, as in my-{name}.wasm"
        )));
    }
    let known = table.modules.get(digest).filter(|known| known.loaded && known.name != name);
    known.map_or(Ok(()), |known| {
        Err(bad(format!(
            "this module is loaded already, and called {0}: name it so, as in `cards policy set VOLUME {0}`; for another name run \
             `cards policy unload {0}` first",
            known.name
        )))
    })
}

async fn unload(node: &Arc<Node>, module: &str) -> Result<admin::Policies, Refusal> {
    let table = node.policies.table();
    let digest = find(&table, module)?.ok_or_else(|| {
        let shown = &module[..module.floor_char_boundary(100)];
        bad(format!("no module {shown:?} is loaded ({})", names_of(&table)))
    })?;
    let user = table.chosen().into_iter().find(|(_, policy)| Module::named(policy) == Some(digest));
    if let Some((volume, _)) = user {
        let message = format!(
            "volume {volume:?} has this policy; give it another one first: `cards policy set {volume} SPEC`, or --reset"
        );
        return Err(Refusal { kind: RefusalKind::Busy, message });
    }
    let digest = digest.to_string();
    let known = table.modules.get(&digest).map_or(String::new(), |module| module.name.clone());
    let entry = KnownModule { version: table.next_version(), name: known, loaded: false };
    change(node, Table { modules: [(digest, entry)].into(), ..Table::default() }).await
}

/// The loaded module that a person names: by its digest, the beginning of that, or its name. None: no module.
///
/// # Errors
/// Several have the name.
fn find(table: &Table, named: &str) -> Result<Option<Digest>, Refusal> {
    let named = named.strip_prefix("wasm:").unwrap_or(named);
    let loaded = || table.modules.iter().filter(|(_, module)| module.loaded);
    let is_meant = |(digest, module): &(&String, &KnownModule)| {
        module.name == named || named.len() >= 6 && digest.starts_with(named)
    };
    let found: Vec<&String> = loaded().filter(is_meant).map(|(digest, _)| digest).collect();
    match found.as_slice() {
        [one] => Ok(one.parse().ok()),
        [] => Ok(None),
        several => {
            let digests: Vec<&str> = several.iter().map(|digest| &digest[..12]).collect();
            Err(bad(format!(
                "there are several modules {named:?}: name one by its digest: {}",
                digests.join(", ")
            )))
        }
    }
}

/// The names of the loaded modules.
fn names_of(table: &Table) -> String {
    let loaded = table.modules.values().filter(|module| module.loaded);
    let names: Vec<&str> = loaded.map(|module| module.name.as_str()).collect();
    if names.is_empty() { "none is loaded".to_owned() } else { names.join(", ") }
}

/// A volume has another policy from now on, at all nodes; none: the one that it was made with.
///
/// # Errors
/// The volume or the policy is unknown, or this node cannot keep it.
pub(crate) async fn choose(
    node: &Arc<Node>,
    volume: String,
    policy: Option<String>,
) -> Result<admin::Policies, Refusal> {
    let table = node.policies.table();
    let spec = mirrors::known(node, &volume).await?;
    if spec.coherence == Coherence::Policy && !spec.read_only {
        return Err(bad(format!(
            "volume {volume:?} has coherence = \"policy\": only the policy it was made with knows its copies; make it read-only, or \
             coherence = \"confirmed\", in node.toml of its disk"
        )));
    }
    if !table.volumes.contains_key(&volume) && table.volumes.len() >= VOLUMES_MAX {
        return Err(bad(format!("{VOLUMES_MAX} volumes have had policies chosen already")));
    }
    let policy = policy.map(|policy| chosen(&table, &policy)).transpose()?;
    let entry = Chosen { version: table.next_version(), policy, in_force: None };
    change(node, Table { volumes: [(volume, entry)].into(), ..Table::default() }).await
}

/// `auto` has come to another policy for a volume: all nodes hear of it.
///
/// # Errors
/// This node cannot keep it.
pub(crate) async fn put_in_force(node: &Arc<Node>, volume: &str, in_force: InForce) -> Result<(), Refusal> {
    let table = node.policies.table();
    let entry = table.volumes.get(volume).cloned().unwrap_or_default();
    let in_force = InForce { version: table.next_version(), ..in_force };
    let entry = Chosen { in_force: Some(in_force), ..entry };
    change(node, Table { volumes: [(volume.to_owned(), entry)].into(), ..Table::default() }).await?;
    Ok(())
}

/// What a volume has as its policy that a person chose.
fn chosen(table: &Table, policy: &str) -> Result<String, Refusal> {
    let name = policy.split_whitespace().next().unwrap_or_default();
    if policy::registry().iter().any(|entry| entry.name == name) {
        policy::build(policy).and_then(|_| policy::normalize(policy)).map_err(|error| bad(error.to_string()))
    } else {
        find(table, policy)?.map(Module::spec_of).ok_or_else(|| bad(unknown(table, policy)))
    }
}

/// What there is instead of a policy that there is not.
fn unknown(table: &Table, named: &str) -> String {
    let built_in = policy::registry().iter().filter(|entry| entry.lacks().is_none()).map(|entry| entry.name);
    let modules = table.modules.values().filter(|module| module.loaded).map(|module| module.name.as_str());
    let near = nearest(named, built_in.clone().chain(modules));
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    let shown = &named[..named.floor_char_boundary(100)];
    let names: Vec<&str> = built_in.collect();
    format!(
        "there is no policy and no module {shown:?}{near}: a volume can have {}, or a module ({}): `cards policy load FILE.wasm`",
        names.join(", "),
        names_of(table)
    )
}

/// Something is otherwise from now on, here and at all members.
async fn change(node: &Arc<Node>, news: Table) -> Result<admin::Policies, Refusal> {
    // What a person chooses once more begins anew; what `auto` comes to does where it is another policy.
    let is_word = |(_, chosen): &(&String, &Chosen)| chosen.in_force.is_none();
    let again: BTreeSet<String> = news.volumes.iter().filter(is_word).map(|(name, _)| name.clone()).collect();
    merge(node, news, again).await?;
    let table = node.policies.table();
    let question = Question::Policies { table: Box::new(table) };
    let mut silent = Vec::new();
    for (peer, answer) in inquiry::ask_members::<Heard>(node, &question).await {
        let reason = match answer {
            Ok(heard) if heard.absent.is_empty() => continue,
            Ok(heard) => format!("it has not got {}", heard.absent.join(", ")),
            Err(error) => error.to_string(),
        };
        silent.push(Silent { node: node.name(peer), reason });
    }
    // Nobody asks them; one may have died since it was asked.
    let members = node.members();
    let dead = members.all().filter(|(_, member)| member.state == MemberState::Dead);
    for (_, member) in dead {
        if silent.iter().all(|known| known.node != member.name) {
            silent.push(Silent { node: member.name.clone(), reason: "it was declared dead".to_owned() });
        }
    }
    Ok(admin::Policies { silent, ..list(node) })
}

/// Takes over what another node knows, and gets the modules that are missing here.
///
/// # Errors
/// This node cannot keep it.
pub(crate) async fn hear(node: &Arc<Node>, table: Table) -> Result<Heard, Refusal> {
    merge(node, table, BTreeSet::new()).await?;
    fetch(node).await;
    let absent = node.policies.absent().iter().map(Digest::short).collect();
    Ok(Heard { table: node.policies.table(), absent })
}

/// A module for another node.
///
/// # Errors
/// It is not here.
pub(crate) fn content(node: &Node, digest: &str) -> Result<Content, Refusal> {
    let module = digest.parse().ok().and_then(|digest| node.policies.modules.get(digest));
    let module = module.ok_or_else(|| bad(format!("module {digest} is not here")))?;
    Ok(Content { data: STANDARD.encode(module.bytes()) })
}

/// Merges a table; the volumes whose policy changes by that, and those in `again`, begin anew.
async fn merge(node: &Arc<Node>, news: Table, again: BTreeSet<String>) -> Result<(), Refusal> {
    let before = node.policies.table().chosen();
    let at = Arc::clone(node);
    let merged = tokio::task::spawn_blocking(move || at.policies.merge(news)).await;
    let ending = |_| Refusal { kind: RefusalKind::Failed, message: "the daemon is ending".into() };
    merged.map_err(ending)?.map_err(|error| not_kept(node, &error))?;
    let after = node.policies.table().chosen();
    let names = before.keys().chain(after.keys()).cloned().chain(again.iter().cloned());
    let changed: BTreeSet<String> =
        names.filter(|name| again.contains(name) || before.get(name) != after.get(name)).collect();
    begin_anew(node, &changed).await;
    Ok(())
}

/// The shards take the policies of these volumes from the table.
async fn begin_anew(node: &Arc<Node>, volumes: &BTreeSet<String>) {
    if volumes.is_empty() {
        return;
    }
    let ids: Vec<PgId> = {
        let control = node.control();
        control
            .volumes()
            .filter(|spec| volumes.contains(&node.volume_name(spec)))
            .map(|spec| spec.id)
            .collect()
    };
    for name in volumes {
        let policy = node.policies.modules.chosen(name).map(|policy| node.policies.table().shown(&policy));
        tracing::info!(
            volume = name,
            "its policy is {}",
            policy.as_deref().unwrap_or("the one it was made with")
        );
    }
    ids.iter().for_each(|&volume| node.policies.modules.fallbacks().forgive(volume));
    node.on_data_thread(0, move |local| {
        ids.iter().for_each(|&volume| local.all_shards(&Input::PolicyChosen { volume }));
        local.route();
    })
    .await;
}

async fn keep(node: &Arc<Node>, module: Module) -> Result<(), Refusal> {
    let at = Arc::clone(node);
    let kept = tokio::task::spawn_blocking(move || at.policies.keep(module)).await;
    let ending = |_| Refusal { kind: RefusalKind::Failed, message: "the daemon is ending".into() };
    kept.map_err(ending)?.map_err(|error| not_kept(node, &error))
}

/// Gets the modules that this node lacks from those that have them.
async fn fetch(node: &Arc<Node>) {
    for digest in node.policies.absent() {
        let members = node.members();
        let peers: Vec<_> = members.live().map(|(peer, _)| peer).filter(|&peer| peer != node.me).collect();
        for peer in peers {
            if !node.links[usize::from(peer.0)].answers() {
                continue;
            }
            let question = Question::Module { digest: digest.to_string() };
            let Ok(content) = inquiry::ask::<Content>(node, peer, &question).await else { continue };
            let bytes = STANDARD.decode(content.data).unwrap_or_default();
            // What it is called by is what it is.
            let module = Module::new(&bytes).ok().filter(|module| module.digest() == digest);
            let Some(module) = module else { continue };
            if let Err(refusal) = keep(node, module).await {
                tracing::warn!("{refusal}");
                return;
            }
            tracing::info!(module = %digest.short(), from = node.name(peer), "a policy was fetched");
            let chosen = node.policies.table().chosen();
            let users = chosen.into_iter().filter(|(_, policy)| Module::named(policy) == Some(digest));
            begin_anew(node, &users.map(|(volume, _)| volume).collect()).await;
            break;
        }
    }
}

/// What `auto` does for volumes, as far as this node knows.
fn autos(node: &Node) -> BTreeMap<String, Auto> {
    let specs: Vec<VolumeSpec> = node.control().volumes().cloned().collect();
    let auto = |spec: &VolumeSpec| {
        let volume = node.volume_name(spec);
        let auto = node.policies.auto(&volume, &spec.policy)?;
        Some((volume, auto))
    };
    specs.iter().filter_map(auto).collect()
}

/// What there is, and what choosers at other nodes know.
async fn list_with_choosers(node: &Arc<Node>) -> admin::Policies {
    let mut known = list(node);
    for chosen in &mut known.volumes {
        let Some(auto) = chosen.auto.as_mut().filter(|auto| auto.chooser.is_none()) else { continue };
        let primary = node.volume(&chosen.volume).and_then(|spec| node.primary(spec.id));
        let Some(primary) = primary.filter(|&primary| primary != node.me) else { continue };
        let question = Question::Chooser { volume: chosen.volume.clone() };
        auto.chooser = inquiry::ask(node, primary, &question).await.unwrap_or_default();
    }
    known
}

/// What this node's chooser of a volume knows; nothing if it has none.
pub(crate) fn chooser(node: &Node, volume: &str) -> Option<admin::Chooser> {
    node.policies.choosers.lock().unwrap_or_else(PoisonError::into_inner).get(volume).cloned()
}

/// What there is here.
fn list(node: &Node) -> admin::Policies {
    let table = node.policies.table();
    let loaded = table.modules.iter().filter(|(_, module)| module.loaded);
    let modules = loaded.map(|(digest, module)| LoadedModule {
        here: digest.parse().is_ok_and(|digest| node.policies.modules.get(digest).is_some()),
        digest: digest.clone(),
        name: module.name.clone(),
    });
    let mut volumes: BTreeMap<String, ChosenPolicy> = BTreeMap::new();
    for (volume, policy) in table.chosen() {
        let failure = policy_failure(node, &volume, &policy);
        let chosen =
            ChosenPolicy { volume: volume.clone(), policy: table.shown(&policy), failure, auto: None };
        volumes.insert(volume, chosen);
    }
    for (volume, auto) in autos(node) {
        let policy = auto.in_force.clone();
        volumes.insert(volume.clone(), ChosenPolicy { volume, policy, failure: None, auto: Some(auto) });
    }
    admin::Policies {
        node: node.config.node.clone(),
        modules: modules.collect(),
        volumes: volumes.into_values().collect(),
        silent: Vec::new(),
    }
}

/// Tells one member after the other what this node knows, so that those that were away hear of it; never ends.
pub(crate) async fn run(node: &Arc<Node>) {
    let mut turn = 0_usize;
    loop {
        tokio::time::sleep(ROUND).await;
        let table = node.policies.table();
        if table.is_empty() {
            continue;
        }
        let members = node.members();
        let is_there =
            |peer: &cards_core::NodeId| *peer != node.me && node.links[usize::from(peer.0)].answers();
        let peers: Vec<_> = members.live().map(|(peer, _)| peer).filter(is_there).collect();
        let Some(&peer) = peers.get(turn % peers.len().max(1)) else { continue };
        turn = turn.wrapping_add(1);
        let question = Question::Policies { table: Box::new(table) };
        if let Ok(heard) = inquiry::ask::<Heard>(node, peer, &question).await
            && let Err(refusal) = hear(node, heard.table).await
        {
            tracing::warn!("{refusal}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(modules: &[(&str, &str)]) -> Table {
        let entry = |name: &str| KnownModule { version: 1, name: name.into(), loaded: true };
        let modules = modules.iter().map(|(digest, name)| (digest.repeat(64), entry(name)));
        Table { modules: modules.collect(), ..Table::default() }
    }

    #[test]
    fn a_module_can_be_had_by_the_name_that_it_was_loaded_under() {
        let table = table(&[("a", "mine")]);
        let (same, other) = ("a".repeat(64), "b".repeat(64));
        assert_eq!(check_name(&table, "mine", &same), Ok(()));
        assert_eq!(check_name(&table, "mine", &other), Ok(()), "a new version of it");
        assert_eq!(check_name(&table, "yours", &other), Ok(()));
        let refused = |name, digest: &str| check_name(&table, name, digest).unwrap_err().message;
        assert!(refused("hscc", &other).contains("rename its file, as in my-hscc.wasm"));
        assert!(refused("yours", &same).contains("`cards policy set VOLUME mine`"));
    }

    #[test]
    fn what_is_no_policy_is_refused_with_those_that_there_are() {
        let table = table(&[("a", "mine"), ("b", "twice"), ("c", "twice")]);
        let refused = |policy| chosen(&table, policy).unwrap_err().message;
        let typo = refused("hsc");
        assert!(
            typo.starts_with("there is no policy and no module \"hsc\" (did you mean hscc?): "),
            "{typo}"
        );
        assert!(typo.contains("rd, greedy,") && typo.contains("or a module (mine, twice, twice)"), "{typo}");
        assert!(!typo.contains("opt"), "a node does not run it: {typo}");
        assert!(refused("min").contains("did you mean mine?"));
        assert!(refused("twice").contains("several modules"));
        assert!(refused("hscc dept=2").contains("did you mean depth?"));
        assert_eq!(chosen(&table, "mine").unwrap(), format!("wasm:{}", "a".repeat(64)));
    }
}
