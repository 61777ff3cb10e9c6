//! A module that was checked.

use core::fmt;
use std::sync::{Arc, OnceLock};

use cards_policy_sdk::abi::needs;
use wasmi::{CompilationMode, Config, EnforcedLimits, Engine, ExternType, FuncType, ValType};

use crate::digest::Digest;
use crate::error::ModuleError;
use crate::failure::Failure;
use crate::instance::Instance;
use crate::limits::{CALL_DEPTH, MODULE_BYTES};

/// A policy of a user, that can be instantiated.
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

struct Inner {
    digest: Digest,
    bytes: Box<[u8]>,
    module: wasmi::Module,
    needs: u16,
    reserved_percent: u8,
    /// The first failure of an instance in this process.
    failed: OnceLock<Failure>,
}

/// Two modules are the same if their bytes are.
impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        self.inner.digest == other.inner.digest
    }
}

impl Eq for Module {}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.spec())
    }
}

/// How a volume's policy begins that is a module.
const PREFIX: &str = "wasm:";

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

/// A function that a module exports.
struct Export {
    name: &'static str,
    parameters: &'static [ValType],
    results: &'static [ValType],
    text: &'static str,
    required: bool,
}

macro_rules! export {
    ($name:literal, $parameters:expr, $results:expr, $text:literal, $required:literal) => {
        Export { name: $name, parameters: &$parameters, results: &$results, text: $text, required: $required }
    };
}

const EXPORTS: [Export; 11] = [
    export!("cards_policy_1", [], [I32], "function () -> i32", true),
    export!("route", [I32, I32, I32, I32], [I32], "function (i32, i32, i32, i32) -> i32", true),
    export!("handle_eviction", [], [I32], "function () -> i32", true),
    export!("keep_consistency", [I32], [], "function (i32) -> ()", true),
    export!(
        "offered",
        [I32, I32, I32, I32, I32, I32],
        [I64],
        "function (i32, i32, i32, i32, i32, i32) -> i64",
        true
    ),
    export!("asked", [I32, I32, I32, I32, I32], [], "function (i32, i32, i32, i32, i32) -> ()", false),
    export!("note", [I32, I32, I64], [], "function (i32, i32, i64) -> ()", false),
    export!("filled", [I32, I32, I32, I32], [], "function (i32, i32, i32, i32) -> ()", false),
    export!("fetched", [I32, I32, I32, I64], [], "function (i32, i32, i32, i64) -> ()", false),
    export!("stored", [I32], [], "function (i32) -> ()", false),
    export!("tick", [], [], "function () -> ()", false),
];

const NEEDS: [(u16, &str); 7] = [
    (needs::HOME, "home"),
    (needs::RUN_HOME, "run_home"),
    (needs::INDEX, "index"),
    (needs::RESIDENCE, "residence"),
    (needs::FRAME_DATA, "frame_data"),
    (needs::TAIL, "tail"),
    (needs::NODES, "nodes"),
];

impl Module {
    /// Checks the bytes of a module, and that it gets through its first call.
    ///
    /// # Errors
    /// What is wrong with it, and what it must be.
    pub fn new(bytes: &[u8]) -> Result<Self, ModuleError> {
        if bytes.len() > MODULE_BYTES {
            return Err(ModuleError::TooLarge { bytes: bytes.len() });
        }
        if !bytes.starts_with(b"\0asm") {
            return Err(ModuleError::NotWasm);
        }
        let engine = Engine::new(&config());
        let invalid = |error: wasmi::Error| ModuleError::Invalid { reason: error.to_string() };
        let module = wasmi::Module::new(&engine, bytes).map_err(invalid)?;
        if let Some(import) = module.imports().next() {
            let (module, name) = (import.module().to_owned(), import.name().to_owned());
            return Err(ModuleError::Import { module, name });
        }
        check_memory(&module)?;
        EXPORTS.iter().try_for_each(|export| check(&module, export))?;
        let instance = Instance::new(&module)?;
        let (needs, reserved_percent) = (instance.needs(), instance.reserved_percent());
        let (digest, bytes, failed) = (Digest::of(bytes), bytes.into(), OnceLock::new());
        let inner = Inner { digest, bytes, module, needs, reserved_percent, failed };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Its name.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.inner.digest
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.inner.bytes
    }

    /// How a volume names it as its policy: `wasm:` and the digest.
    #[must_use]
    pub fn spec(&self) -> String {
        Self::spec_of(self.digest())
    }

    /// How a volume names the module of this digest.
    #[must_use]
    pub fn spec_of(digest: Digest) -> String {
        format!("{PREFIX}{digest}")
    }

    /// The module that a spec names; None if the spec is that of a policy with a name.
    #[must_use]
    pub fn named(spec: &str) -> Option<Digest> {
        spec.strip_prefix(PREFIX)?.parse().ok()
    }

    /// Hooks that it has.
    #[must_use]
    pub fn hooks(&self) -> Vec<&'static str> {
        let optional = EXPORTS.iter().filter(|export| !export.required).map(|export| export.name);
        optional.filter(|name| self.inner.module.get_export(name).is_some()).collect()
    }

    /// What it looks at, in the words of the SDK.
    #[must_use]
    pub fn needs(&self) -> Vec<&'static str> {
        NEEDS.iter().filter(|(bit, _)| self.inner.needs & bit != 0).map(|(_, word)| *word).collect()
    }

    /// Percent of the cache that it reserves for blocks of other nodes.
    #[must_use]
    pub fn reserved_percent(&self) -> u8 {
        self.inner.reserved_percent
    }

    /// The exports that a module must have, then those that it may have, with their types.
    pub fn exports() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        EXPORTS.iter().map(|export| (export.name, export.text, export.required))
    }

    /// Why an instance was given up in this process, if one was: the first reason.
    #[must_use]
    pub fn first_failure(&self) -> Option<&Failure> {
        self.inner.failed.get()
    }

    /// An instance was given up.
    pub(crate) fn failed(&self, failure: &Failure) {
        let _ = self.inner.failed.set(failure.clone());
    }

    pub(crate) fn inner(&self) -> &wasmi::Module {
        &self.inner.module
    }
}

/// What a module may be made of: whole numbers, one memory, no start function; and fuel is counted.
fn config() -> Config {
    let mut config = Config::default();
    config
        .floats(false)
        .consume_fuel(true)
        .allow_start_fn(false)
        .ignore_custom_sections(true)
        .wasm_multi_memory(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .set_max_recursion_depth(CALL_DEPTH);
    config
}

fn check_memory(module: &wasmi::Module) -> Result<(), ModuleError> {
    let (name, wanted) = ("memory", "memory");
    match module.get_export(name) {
        Some(ExternType::Memory(_)) => Ok(()),
        Some(other) => Err(ModuleError::WrongExport { name, found: describe(&other), wanted }),
        None => Err(ModuleError::MissingExport { name, wanted }),
    }
}

fn check(module: &wasmi::Module, export: &Export) -> Result<(), ModuleError> {
    let Export { name, parameters, results, text: wanted, required } = *export;
    match module.get_export(name) {
        Some(ExternType::Func(found)) if found.params() == parameters && found.results() == results => Ok(()),
        Some(other) => Err(ModuleError::WrongExport { name, found: describe(&other), wanted }),
        None if required => Err(ModuleError::MissingExport { name, wanted }),
        None => Ok(()),
    }
}

fn describe(found: &ExternType) -> String {
    match found {
        ExternType::Func(function) => describe_function(function),
        ExternType::Memory(_) => "memory".to_owned(),
        ExternType::Global(_) => "global".to_owned(),
        ExternType::Table(_) => "table".to_owned(),
    }
}

fn describe_function(function: &FuncType) -> String {
    let list = |types: &[ValType]| types.iter().map(word).collect::<Vec<_>>().join(", ");
    match function.results() {
        [one] => format!("function ({}) -> {}", list(function.params()), word(one)),
        results => format!("function ({}) -> ({})", list(function.params()), list(results)),
    }
}

fn word(value: &ValType) -> String {
    format!("{value:?}").to_lowercase()
}
