//! A policy as a person names it.

use core::fmt;
use std::path::{Path, PathBuf};

use cards_policies::policy::{self, PolicyError};

use crate::error::ModuleError;
use crate::limits::MODULE_BYTES;
use crate::module::Module;

/// A policy with a name and parameters (`hscc depth=2`), or the file of a module (`./mine.wasm`), read and checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// As given.
    text: String,
    module: Option<Module>,
}

/// Why a text names no policy.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ChoiceError {
    /// There is no such policy, or it has no such parameter.
    #[error(transparent)]
    Named(#[from] PolicyError),
    /// The file cannot be read.
    #[error("{}: {reason}; name the file of a module (.wasm) that can be read; built-in policies and loaded modules have none: `cards policy list` \
         tells of them", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// As the system says it.
        reason: String,
    },
    /// The file is not a module for a policy.
    #[error("{}: {error}", path.display())]
    Module {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ModuleError,
    },
}

impl Choice {
    /// Reads a text: the file of a module if it ends with `.wasm`.
    ///
    /// # Errors
    /// No such policy or parameter, or the file is not a module for a policy.
    pub fn new(text: &str) -> Result<Self, ChoiceError> {
        let module = match Self::is_file(text) {
            true => Some(Self::read(Path::new(text.trim()))?),
            false => {
                policy::parse(text)?;
                None
            }
        };
        Ok(Self { text: text.to_owned(), module })
    }

    /// Whether a text names the file of a module.
    #[must_use]
    pub fn is_file(text: &str) -> bool {
        text.trim_end().ends_with(".wasm")
    }

    /// Reads and checks the file of a module.
    ///
    /// # Errors
    /// It cannot be read, or is no module for a policy.
    pub fn read(path: &Path) -> Result<Module, ChoiceError> {
        let read = |error: std::io::Error| ChoiceError::Read { path: path.into(), reason: error.to_string() };
        let module = |error: ModuleError| ChoiceError::Module { path: path.into(), error };
        let length = std::fs::metadata(path).map_err(read)?.len();
        if length > MODULE_BYTES as u64 {
            return Err(module(ModuleError::TooLarge {
                bytes: usize::try_from(length).unwrap_or(usize::MAX),
            }));
        }
        Module::new(&std::fs::read(path).map_err(read)?).map_err(module)
    }

    /// As given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The module, if it is one.
    #[must_use]
    pub const fn module(&self) -> Option<&Module> {
        self.module.as_ref()
    }

    /// What a volume has as its policy.
    #[must_use]
    pub fn spec(&self) -> String {
        self.module.as_ref().map_or_else(|| self.text.clone(), Module::spec)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
