//! The identity of a node that joins: a key of its own, and the keeper's signature.

use std::fs;
use std::path::PathBuf;

use cards_config::{Config, EmbeddedHome, host_of};
use cards_coordinator::{KEY_FILE, Token};
use cards_tls::{Files, Identity, Name, NodeKey};

use super::registry::event_loop;
use crate::error::Error;
use crate::this_machine::identity_dir;

/// Makes a key, and has the keeper sign that it is this node's. An identity that is there already is used; whether the
/// identity is new is returned.
pub(super) fn get(config: &Config, token: &Token, home: &EmbeddedHome) -> Result<bool, Error> {
    let name = Name::new(&config.cluster, &config.node);
    let files = config.identity_files();
    let kept = config.state_dir.join(KEY_FILE);
    if let Some(error) = files.hidden() {
        return Err(error.into());
    }
    if files.any() {
        Identity::load(&name, &files)?;
        // Of a join that was killed when it was done.
        let _ = fs::remove_file(&kept);
        eprintln!("cards: this machine is {name} already; the token is not needed");
        return Ok(false);
    }
    name.dns()?;
    // A join that is repeated with the same key, after a crash say, spends no other use of the token.
    let key = NodeKey::kept(&kept)?;
    let keeper = Name::new(&config.cluster, &home.keeper);
    let admission = event_loop()?.block_on(cards_coordinator::admit(
        &home.address,
        &keeper,
        token,
        &config.node,
        &hosts(config),
        &key.public(),
    ))?;
    let dir = identity_dir(&config.state_dir);
    cards_tls::place(&dir, |new| {
        let files = Files::within(new);
        files.write(&key, &admission.certificate, &admission.authority)?;
        Identity::load(&name, &files).map(drop)
    })?;
    let _ = fs::remove_file(&kept);
    eprintln!("cards: {keeper} has signed that this machine is {name}: {}", dir.display());
    Ok(true)
}

/// The names by which clients that are no nodes know this machine: the host by which others reach it, if a certificate can
/// name it.
fn hosts(config: &Config) -> Vec<String> {
    let host = config.address.as_deref().and_then(host_of);
    host.filter(|host| cards_tls::check_host(host).is_ok()).map(String::from).into_iter().collect()
}

/// Removes the identity that was made here, but for the key, with which the token is good once more.
pub(super) fn remove(config: &Config) -> Result<(), Error> {
    let dir: PathBuf = identity_dir(&config.state_dir);
    let Files { authority, certificate, key } = Files::within(&dir);
    let kept = fs::rename(key, config.state_dir.join(KEY_FILE));
    let removed = kept.and_then(|()| [authority, certificate].iter().try_for_each(fs::remove_file));
    removed
        .and_then(|()| fs::remove_dir(&dir))
        .map_err(|source| Error::Write { path: dir.clone(), source })?;
    eprintln!(
        "cards: {} is gone again; by the same name this machine joins with the same token, which has been used",
        dir.display()
    );
    Ok(())
}
