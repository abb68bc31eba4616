//! The result of an apply or a deletion.

use crate::{mapping::Divergences, proto::tfplugin6::Diagnostic, value::Value};

/// Result of an apply. After a fault the state is the one that exists then.
#[derive(Default)]
pub(crate) struct ApplyResult {
    pub(crate) state: Option<Value>,
    /// The server's values where the state has the user's spelling.
    pub(crate) divergences: Divergences,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl ApplyResult {
    /// The result if nothing was changed: core keeps its state.
    pub(super) fn refused(diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics, ..Self::default() }
    }
}
