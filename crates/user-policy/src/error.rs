//! Why a module cannot be used.

use crate::limits::{MEMORY_BYTES, MODULE_BYTES};

/// Why a module cannot be used as a policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModuleError {
    /// There are too many bytes.
    #[error(
        "the module has {bytes} bytes, more than the {MODULE_BYTES} allowed: build it optimized for size and strip it"
    )]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// It is another kind of file.
    #[error(
        "not a WebAssembly module: a module begins with the bytes 00 61 73 6d; build for the target wasm32-unknown-unknown"
    )]
    NotWasm,
    /// The bytes are no valid module, or use what policies must not.
    #[error("not a valid module for a policy (floating point, threads and SIMD are refused): {reason}")]
    Invalid {
        /// As the interpreter says it.
        reason: String,
    },
    /// It wants something from outside.
    #[error(
        "the module imports `{module}::{name}`; a policy has no imports: it sees and changes only what is in its memory"
    )]
    Import {
        /// The module that it imports from.
        module: String,
        /// What it imports.
        name: String,
    },
    /// An export is missing.
    #[error("the module does not export `{name}`, a {wanted}; `export!` of the SDK makes all exports")]
    MissingExport {
        /// Its name.
        name: &'static str,
        /// Its type.
        wanted: &'static str,
    },
    /// An export has another type.
    #[error("the module's export `{name}` is a {found}; want a {wanted}")]
    WrongExport {
        /// Its name.
        name: &'static str,
        /// Its type.
        found: String,
        /// The type that it must have.
        wanted: &'static str,
    },
    /// It does not get through its first call.
    #[error("the module failed at its beginning, before any question: {reason}")]
    Beginning {
        /// What happened.
        reason: String,
    },
    /// The record is not where a record can be.
    #[error(
        "`cards_policy_1` returned the address {address}: want a multiple of 8 with {record_bytes} bytes of memory behind it (of at most {MEMORY_BYTES})"
    )]
    Record {
        /// Where.
        address: u32,
        /// How much memory is needed there.
        record_bytes: usize,
    },
    /// It asks for a part of the cache that it cannot have.
    #[error("the module reserves {percent} percent of the cache; want less than 100")]
    Reserved {
        /// As given.
        percent: u8,
    },
}
