//! Placement policies of users, as WebAssembly modules behind the core's contract.
//!
//! A module is what [`cards_policy_sdk::abi`] says: exports for the operations and hooks of [`cards_core::policy::Policy`], and a
//! record in its memory. It has no imports, so it can only compute. [`Module`] checks it; [`UserPolicy`] runs it, with
//! [`limits`] on instructions, memory and notes; after a trap, an answer without a meaning, or too many instructions the volume
//! has the policy `rd` for good, and [`Fallbacks`] keeps the reason. [`Modules`] offers modules to the core by their digest.
//!
//! Runs are the same everywhere: instructions are counted, not timed, and modules with floating point are refused, since the bits of
//! a NaN differ between machines.
//!
//! | file | noun |
//! |---|---|
//! | `choice` | a policy as a person names it: by its name, or a module's file |
//! | `digest` | the name of a module: the SHA-256 of its bytes |
//! | `error` | why a module cannot be used |
//! | `failure` | why a module is not used any more, and for which volumes |
//! | `instance` | a module with its memory: calls, with the record written before and read after |
//! | `limits` | what a module may use |
//! | `module` | a module that was checked |
//! | `modules` | the modules of a node, by digest |
//! | `notes` | how many notes a module may send |
//! | `policy` | a module as a policy |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod choice;
mod digest;
mod error;
mod failure;
mod instance;
pub mod limits;
mod module;
mod modules;
mod notes;
mod policy;

pub use choice::{Choice, ChoiceError};
pub use digest::Digest;
pub use error::ModuleError;
pub use failure::{Failure, Fallbacks};
pub use module::Module;
pub use modules::Modules;
pub use policy::UserPolicy;
