//! A remedy as a change of the recorded command.

use super::words::quoted;

/// The change that a remedy makes to the recorded command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandChange {
    /// A variable with its new value, quoted.
    Set(String, String),
    /// A variable that goes.
    Unset(String),
    /// The remedy's command in its place.
    Instead,
}

impl CommandChange {
    /// The variable with this value.
    pub(super) fn set(name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        Self::Set(name.into(), quoted(value))
    }

    /// The change for all that follows in a shell.
    pub(super) fn exported(&self) -> String {
        match self {
            Self::Set(name, value) => format!("export {name}={value}"),
            Self::Unset(name) => format!("unset {name}"),
            Self::Instead => String::new(),
        }
    }
}
