//! `cards policy load`, `unload` and `set`: what the daemons are told.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cards_admin::{Client, MODULE_PART_BYTES, Policies, PolicyOrder, Silent};
use cards_user_policy::{Choice, Module};
use serde::Serialize;

use crate::auto;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// How long the nodes may take: one that does not answer is waited for, and modules are fetched.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of a node that has not got what is new.
const LACKS: &str = "does not have it yet";

/// What `--json` prints of a module that was loaded or unloaded.
#[derive(Serialize)]
struct Changed {
    module: String,
    /// None of one that was unloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    loaded: bool,
    /// The nodes that do not know of it yet.
    silent: Vec<Silent>,
}

/// What `--json` prints of a volume that was given a policy.
#[derive(Serialize)]
struct Given {
    volume: String,
    /// None: the one that it was made with.
    policy: Option<String>,
    /// The nodes that do not know of it yet.
    silent: Vec<Silent>,
}

pub(super) fn load(file: &Path, daemon: &Daemon, json: bool) -> Result<(), Error> {
    let module = Choice::read(file)?;
    let mut client = daemon.connect_within(PATIENCE)?;
    let (name, known) = send(&mut client, file, &module)?;
    let digest = module.digest().to_string();
    let text = format!("module {name}: {digest}\n") + &silent(&known, LACKS);
    let changed = Changed { module: name, digest: Some(digest), loaded: true, silent: known.silent };
    output::print_either(json, &changed, || text)
}

/// Has all nodes get the module; what it is called.
fn send(client: &mut Client, file: &Path, module: &Module) -> Result<(String, Policies), Error> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for part in module.bytes().chunks(MODULE_PART_BYTES) {
        client.policies(PolicyOrder::Part { data: STANDARD.encode(part) })?;
    }
    let known = client.policies(PolicyOrder::Load { name: name.clone() })?;
    Ok((name, known))
}

pub(super) fn unload(module: String, daemon: &Daemon, json: bool) -> Result<(), Error> {
    let mut client = daemon.connect_within(PATIENCE)?;
    let known = client.policies(PolicyOrder::Unload { module: module.clone() })?;
    let text = format!("module {module} is unloaded\n") + &silent(&known, "has it still");
    let changed = Changed { module, digest: None, loaded: false, silent: known.silent };
    output::print_either(json, &changed, || text)
}

pub(super) fn set(volume: String, policy: Option<String>, daemon: &Daemon, json: bool) -> Result<(), Error> {
    let file = policy.as_ref().filter(|policy| Choice::is_file(policy));
    let module = file.map(|file| Choice::read(Path::new(file))).transpose()?;
    let mut client = daemon.connect_within(PATIENCE)?;
    let policy = match (file, &module) {
        (Some(file), Some(module)) => {
            let digest = module.digest().to_string();
            // Whatever it was loaded under keeps its name.
            let known = client.policies(PolicyOrder::List {})?;
            if !known.modules.iter().any(|known| known.digest == digest) {
                send(&mut client, Path::new(file), module)?;
            }
            Some(digest)
        }
        _ => policy,
    };
    let known = client.policies(PolicyOrder::Choose { volume: volume.clone(), policy })?;
    let now = known.volumes.iter().find(|chosen| chosen.volume == volume);
    let policy = now.map(|chosen| chosen.policy.clone());
    let now = now.map_or_else(
        || "the policy that it was made with".to_owned(),
        |chosen| match &chosen.auto {
            Some(auto) => format!("auto, {}", auto::in_force(auto)),
            None => chosen.policy.clone(),
        },
    );
    let text = format!("volume {volume}: {now}\n") + &silent(&known, LACKS);
    output::print_either(json, &Given { volume, policy, silent: known.silent }, || text)
}

/// The nodes that do not know of a change yet, with what each does until then.
fn silent(known: &Policies, until_then: &str) -> String {
    let line = |Silent { node, reason }: &Silent| {
        format!("node {node} {until_then}: {reason}; it hears of the change when it answers again\n")
    };
    known.silent.iter().map(line).collect()
}
