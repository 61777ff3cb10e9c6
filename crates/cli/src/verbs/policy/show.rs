//! `cards policy show`: the file of a module.

use std::path::Path;

use cards_config::size;
use cards_user_policy::{Choice, ChoiceError, Module};
use serde::Serialize;

use crate::error::{Error, Failure};
use crate::output;

impl Failure for ChoiceError {
    fn exit_code(&self) -> u8 {
        2
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shown {
    digest: String,
    bytes: usize,
    /// Hooks that it has.
    hooks: Vec<&'static str>,
    /// What it looks at.
    needs: Vec<&'static str>,
    reserved_percent: u8,
}

impl From<&Module> for Shown {
    fn from(module: &Module) -> Self {
        Self {
            digest: module.digest().to_string(),
            bytes: module.bytes().len(),
            hooks: module.hooks(),
            needs: module.needs(),
            reserved_percent: module.reserved_percent(),
        }
    }
}

pub(super) fn run(file: &Path, json: bool) -> Result<(), Error> {
    let module = Choice::read(file)?;
    let shown = Shown::from(&module);
    if json {
        return output::print_json(&shown);
    }
    let Shown { digest, bytes, hooks, needs, reserved_percent } = shown;
    let list = |words: Vec<&str>| if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    output::print(&format!(
        "{}: a policy\n  digest    {digest}\n  size      {}\n  hooks     {}\n  looks at  {}\n  reserves  {reserved_percent} % of \
         the cache for blocks of other nodes\n",
        file.display(),
        size::human(bytes as u64),
        list(hooks),
        list(needs),
    ))
}
