//! Answers of hooks, in the host's own types, and the texts of refusals.

use std::sync::Arc;

use mortise_resource::{Diagnostic, FieldPath, PathStep, Severity, authorizer::denial};

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
    /// The data as it is now.
    Data(Vec<u8>),
    /// The plugin cannot upgrade it, for these reasons.
    Refused(Vec<Diagnostic>),
}

/// What `plan` answered.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanReply {
    /// The encoded resource that is expected in the end, if it is another than the input.
    pub predicted: Option<Vec<u8>>,
    /// Fields that the stored resource cannot take.
    pub replace: Vec<FieldPath>,
    /// Errors refuse the plan.
    pub diagnostics: Vec<Diagnostic>,
}

/// What `move` or `import` answered.
#[derive(Debug, Clone, PartialEq)]
pub enum MadeReply {
    /// A resource.
    Made {
        /// Encoded.
        resource: Vec<u8>,
        /// What the plugin's controllers are to find.
        kept: Option<Vec<u8>>,
    },
    /// The plugin refuses, for these reasons.
    Refused(Vec<Diagnostic>),
}

/// Why a function has no result, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionFault {
    /// The argument that is at fault, counted from 0.
    pub argument: Option<u32>,
    /// One sentence.
    pub text: String,
}

/// What an authorize hook answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Allow,
    /// No, in these words, which begin with `Permission denied`.
    Deny(Arc<str>),
    /// Ask again with the resource.
    NeedResource,
}

/// The words of a refusal: the guest's, or, if it gave none, those that name the permission it missed.
pub(crate) fn denied(caller: &str, reason: &str, refused: Option<(String, String)>) -> String {
    match (reason, refused) {
        ("", Some((permission, name))) => denial(caller, &permission, &name),
        ("", None) => format!("Permission denied: {caller} may not do this"),
        (text, _) if text.starts_with("Permission denied") => text.to_owned(),
        (text, _) => format!("Permission denied: {text}"),
    }
}

/// The diagnostics of an answer.
pub(crate) fn diagnostics(wit: Vec<bindings::Diagnostic>) -> Vec<Diagnostic> {
    wit.into_iter().map(diagnostic).collect()
}

/// Severities that the contract does not know count as errors.
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
