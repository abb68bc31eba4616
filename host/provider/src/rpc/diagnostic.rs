//! Diagnostics in core's terms.
//!
//! Core finds the line of a path only as far as blocks, one attribute and one further step go; so a path is cut there,
//! and the detail has the whole path.

use mortise_resource::FieldPath;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    mapping::steps,
    proto::tfplugin6::{
        AttributePath, Diagnostic,
        attribute_path::{Step as ProtoStep, step::Selector},
        diagnostic::Severity,
    },
    state::StateError,
    value::{PathText, Step, ValueError},
};

/// An error without a place.
pub(crate) fn error(summary: impl Into<String>, detail: impl Into<String>) -> Diagnostic {
    Diagnostic { severity: Severity::Error.into(), summary: summary.into(), detail: detail.into(), attribute: None }
}

/// A warning without a place.
pub(crate) fn warning(summary: impl Into<String>) -> Diagnostic {
    let (severity, summary) = (Severity::Warning.into(), summary.into());
    Diagnostic { severity, summary, detail: String::new(), attribute: None }
}

/// An error at a path.
pub(crate) fn error_at(path: &[Step], summary: impl Into<String>) -> Diagnostic {
    let shown = locatable(path);
    let detail = if shown.len() < path.len() { format!("at {}", PathText(path)) } else { String::new() };
    let attribute = (!shown.is_empty()).then(|| attribute_path(shown));
    Diagnostic { attribute, ..error(summary, detail) }
}

/// An error of a value.
pub(crate) fn value_error(fault: &ValueError) -> Diagnostic {
    error_at(&fault.path, fault.what.as_str())
}

impl From<StateError> for Vec<Diagnostic> {
    fn from(fault: StateError) -> Self {
        vec![error(fault.to_string(), "")]
    }
}

/// The part of a path that core finds the line of.
fn locatable(path: &[Step]) -> &[Step] {
    let blocks = usize::from(matches!(path, [Step::Attribute(data), Step::Attribute(_), ..] if data == "data"));
    let further = path.get(blocks + 1).is_some_and(|step| !matches!(step, Step::Attribute(_)));
    path.get(..blocks + 1 + usize::from(further)).unwrap_or(path)
}

/// Converts a path to core's form.
pub(crate) fn attribute_path(path: &[Step]) -> AttributePath {
    let step = |step: &Step| ProtoStep {
        selector: Some(match step {
            Step::Attribute(name) => Selector::AttributeName(name.clone()),
            Step::Key(key) => Selector::ElementKeyString(key.clone()),
            Step::Index(index) => Selector::ElementKeyInt(i64::try_from(*index).unwrap_or(i64::MAX)),
        }),
    };
    AttributePath { steps: path.iter().map(step).collect() }
}

/// The server's faults, at the places that it names.
pub(crate) fn server_faults(doing: &str, address: &str, status: &Status) -> Vec<Diagnostic> {
    let violations = status.get_details_bad_request().map(|found| found.field_violations).unwrap_or_default();
    if status.code() == Code::InvalidArgument && !violations.is_empty() {
        return violations
            .iter()
            .map(|violation| error_at(&attribute_of(&violation.field), violation.description.as_str()))
            .collect();
    }
    let message = status.message();
    let (summary, detail) = match status.code() {
        Code::InvalidArgument => return vec![error_at(&attribute_of(path_in(message)), message)],
        // A fault of a plugin is an answer of the server.
        Code::Unavailable | Code::DeadlineExceeded if status.get_details_error_info().is_none() => {
            (format!("{doing}: the server at {address} does not answer"), format!("{message}. Is it running?"))
        }
        Code::PermissionDenied => (
            format!("{doing}: the token does not allow this"),
            format!("{message}. `mortise auth whoami` shows what it allows."),
        ),
        Code::Unauthenticated => (format!("{doing}: the server does not know the token"), message.to_owned()),
        _ => (format!("{doing}: {message}"), String::new()),
    };
    vec![error(summary, detail)]
}

/// The path at the start of a message such as `data.name: must not be empty`; empty without one.
fn path_in(message: &str) -> &str {
    let path = message.split_once(": ").map_or("", |(path, _)| path);
    let is_path = !path.is_empty() && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._[]\"-".contains(&b));
    if is_path && ["data", "metadata", "id", "owner"].iter().any(|root| path.starts_with(root)) { path } else { "" }
}

/// The path of the attribute for a field of a resource.
pub(crate) fn attribute_of(field: &str) -> Vec<Step> {
    let path = FieldPath::parse(field.strip_prefix("resource.").unwrap_or(field));
    let mut path = steps(&path);
    let is = |step: Option<&Step>, name: &str| matches!(step, Some(Step::Attribute(found)) if found == name);
    if is(path.first(), "id") {
        path.remove(0);
        if is(path.first(), "tenancy") {
            path.remove(0);
        }
    }
    let known = ["data", "metadata", "owner", "name", "partition", "namespace"];
    if known.iter().any(|name| is(path.first(), name)) { path } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn a_fault_of_a_plugin_is_not_a_server_that_is_away() {
        let details = ErrorDetails::with_error_info("PLUGIN_FAULT", "mortise", [("kind".into(), "deadline".into())]);
        for code in [Code::Unavailable, Code::DeadlineExceeded] {
            let fault = Status::with_error_details(code, "hook validate did not finish", details.clone());
            let [shown] = server_faults("create", "http://here", &fault).try_into().unwrap();
            assert_eq!(shown.summary, "create: hook validate did not finish");
            let [away] = server_faults("create", "http://here", &Status::new(code, "no answer")).try_into().unwrap();
            assert_eq!(away.summary, "create: the server at http://here does not answer");
        }
    }
}
