//! What can be wrong with a machine.

/// Why a machine makes no sense.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MachineError {
    /// There is no such machine.
    #[error("unknown machine `{name}`{}: there are {known}", did_you_mean(near.as_deref()))]
    Unknown {
        /// The name given.
        name: String,
        /// The nearest name.
        near: Option<String>,
        /// All names.
        known: String,
    },
    /// There is no such parameter.
    #[error("machine {machine} has no parameter `{parameter}`{}: there are {known}", did_you_mean(near.as_deref()))]
    UnknownParameter {
        /// The machine.
        machine: String,
        /// The parameter given.
        parameter: String,
        /// The nearest name.
        near: Option<String>,
        /// All names.
        known: String,
    },
    /// A figure is out of its range.
    #[error("machine {machine}: {parameter} is {value}: want {want}")]
    Bad {
        /// The machine.
        machine: String,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        want: &'static str,
    },
    /// A definition makes no sense.
    #[error("machine {machine}: {problem}")]
    Definition {
        /// The machine.
        machine: String,
        /// What is wrong with it, and the remedy.
        problem: String,
    },
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}
