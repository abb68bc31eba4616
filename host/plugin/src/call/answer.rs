//! Answers of hooks, in the host's own types, and the texts of refusals.

use std::sync::Arc;

use mortise_resource::{Diagnostic, FieldPath, PathStep, Severity, authorizer::denial_text};

use crate::bindings;

/// Fuel and memory that one call of a guest took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Work, in wasmtime's fuel units: about one for each instruction.
    pub fuel: u64,
    /// Linear memory of the instance after the call, bytes. It never shrinks, so this is also the most that the call
    /// had.
    pub memory: usize,
}

/// Answer of `mutate`.
#[derive(Debug, Clone, PartialEq)]
pub enum MutateReply {
    /// The resource stays as it is.
    Unchanged,
    /// The encoded resource to continue with.
    Changed(Vec<u8>),
    /// The plugin refuses, for these reasons.
    Refused(Vec<Diagnostic>),
}

/// Answer of `upgrade`.
#[derive(Debug, Clone, PartialEq)]
pub enum UpgradeReply {
    /// Data of the current schema version.
    Data(Vec<u8>),
    /// The plugin cannot upgrade it, for these reasons.
    Refused(Vec<Diagnostic>),
}

/// Answer of `plan`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanReply {
    /// The encoded resource that is expected in the end, if it differs from the input.
    pub predicted: Option<Vec<u8>>,
    /// Fields whose new value the stored resource cannot take.
    pub replace: Vec<FieldPath>,
    /// Diagnostics; errors refuse the plan.
    pub diagnostics: Vec<Diagnostic>,
}

/// Answer of `move` or `import`.
#[derive(Debug, Clone, PartialEq)]
pub enum NewResourceReply {
    /// The new resource.
    Made {
        /// Encoded resource.
        resource: Vec<u8>,
        /// Private bytes for the plugin's controllers.
        kept: Option<Vec<u8>>,
    },
    /// The plugin refuses, for these reasons.
    Refused(Vec<Diagnostic>),
}

/// Reason of a function for giving no result, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionFault {
    /// Index of the faulty argument, from 0.
    pub argument: Option<u32>,
    /// A sentence.
    pub text: String,
}

/// Answer of an authorize hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The caller may proceed.
    Allow,
    /// The caller may not, for this reason, which begins with `Permission denied`.
    Deny(Arc<str>),
    /// The hook must be asked again with the resource.
    NeedResource,
}

/// Text of a refusal: the guest's, or, if that is empty, one that names the permission it missed.
pub(crate) fn denied(caller: &str, reason: &str, refused: Option<(String, String)>) -> String {
    match (reason, refused) {
        ("", Some((permission, name))) => denial_text(caller, &permission, &name),
        ("", None) => format!("Permission denied: {caller} may not do this"),
        (text, _) if text.starts_with("Permission denied") => text.to_owned(),
        (text, _) => format!("Permission denied: {text}"),
    }
}

/// Diagnostics of an answer.
pub(crate) fn diagnostics(wit: Vec<bindings::Diagnostic>) -> Vec<Diagnostic> {
    wit.into_iter().map(diagnostic).collect()
}

/// A diagnostic. Severities that the contract does not know count as errors.
fn diagnostic(wit: bindings::Diagnostic) -> Diagnostic {
    let severity = if wit.severity == 2 { Severity::Warning } else { Severity::Error };
    Diagnostic {
        severity: severity.into(),
        path: field_path(wit.path).to_string(),
        summary: wit.summary,
        detail: wit.detail,
    }
}

/// A path into a resource.
pub(crate) fn field_path(wit: Vec<bindings::PathStep>) -> FieldPath {
    let step = |step| match step {
        bindings::PathStep::Field(name) => PathStep::Field(name),
        bindings::PathStep::Index(index) => PathStep::Index(index),
        bindings::PathStep::Key(key) => PathStep::Key(key),
    };
    FieldPath(wit.into_iter().map(step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_permission() {
        let asked = || Some(("key:read".to_owned(), "resource/x".to_owned()));
        assert_eq!(
            denied("anonymous token", "", asked()),
            "Permission denied: anonymous token lacks permission 'key:read' on \"resource/x\""
        );
        assert_eq!(denied("anonymous token", "not today", asked()), "Permission denied: not today");
        assert_eq!(denied("t", "Permission denied: no", None), "Permission denied: no");
        assert_eq!(denied("t", "", None), "Permission denied: t may not do this");
    }
}
