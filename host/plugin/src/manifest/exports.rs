//! Interfaces that a component exports, for the checks of its manifest.

/// The optional interfaces that a component exports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    pub(crate) mutating: bool,
    pub(crate) validating: bool,
    pub(crate) authorizing: bool,
    pub(crate) upgrading: bool,
    pub(crate) configuring: bool,
    pub(crate) controlling: bool,
    pub(crate) mapping: bool,
    pub(crate) initializing: bool,
    pub(crate) planning: bool,
    pub(crate) moving: bool,
    pub(crate) importing: bool,
    pub(crate) functions: bool,
}
