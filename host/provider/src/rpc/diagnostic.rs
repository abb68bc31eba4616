//! What is told of faults, in core's terms.
//!
//! Core finds the line of a path as far as blocks, one attribute and one step further go; so a path is cut there, and the
//! whole of it is told in the detail.

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
    value::{PathText, Step, ValueError},
};

/// A fault of the whole.
pub(crate) fn error(summary: impl Into<String>, detail: impl Into<String>) -> Diagnostic {
    Diagnostic { severity: Severity::Error.into(), summary: summary.into(), detail: detail.into(), attribute: None }
}

/// What is no fault, and wants said.
pub(crate) fn warning(summary: impl Into<String>) -> Diagnostic {
    let (severity, summary) = (Severity::Warning.into(), summary.into());
    Diagnostic { severity, summary, detail: String::new(), attribute: None }
}

/// A fault of a part.
pub(crate) fn at(path: &[Step], summary: impl Into<String>) -> Diagnostic {
    let shown = shown(path);
    let detail = if shown.len() < path.len() { format!("at {}", PathText(path)) } else { String::new() };
    let attribute = (!shown.is_empty()).then(|| attribute_path(shown));
    Diagnostic { attribute, ..error(summary, detail) }
}

/// A fault of a value.
pub(crate) fn value_error(fault: &ValueError) -> Diagnostic {
    at(&fault.path, fault.what.as_str())
}

/// As much of a path as core finds the line of.
fn shown(path: &[Step]) -> &[Step] {
    let blocks = usize::from(matches!(path, [Step::Attribute(data), Step::Attribute(_), ..] if data == "data"));
    let further = path.get(blocks + 1).is_some_and(|step| !matches!(step, Step::Attribute(_)));
    path.get(..blocks + 1 + usize::from(further)).unwrap_or(path)
}

/// A path, in core's terms.
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

/// What the server refused, at the places that it names.
pub(crate) fn server_faults(doing: &str, address: &str, status: &Status) -> Vec<Diagnostic> {
    let violations = status.get_details_bad_request().map(|found| found.field_violations).unwrap_or_default();
    if status.code() == Code::InvalidArgument && !violations.is_empty() {
        return violations.iter().map(|one| at(&attribute_of(&one.field), one.description.as_str())).collect();
    }
    let said = status.message();
    let (summary, detail) = match status.code() {
        Code::InvalidArgument => return vec![at(&attribute_of(path_in(said)), said)],
        Code::Unavailable | Code::DeadlineExceeded => {
            (format!("{doing}: the server at {address} does not answer"), format!("{said}. Is it running?"))
        }
        Code::PermissionDenied => (
            format!("{doing}: the token may not do this"),
            format!("{said}. `mortise auth whoami` shows what it may do."),
        ),
        Code::Unauthenticated => (format!("{doing}: the token is not known"), said.to_owned()),
        _ => (format!("{doing}: {said}"), String::new()),
    };
    vec![error(summary, detail)]
}

/// The path that a message begins with, if it does: `data.name: must not be empty`.
fn path_in(message: &str) -> &str {
    let path = message.split_once(": ").map_or("", |(path, _)| path);
    let is_path = !path.is_empty() && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._[]\"-".contains(&b));
    if is_path && ["data", "metadata", "id", "owner"].iter().any(|root| path.starts_with(root)) { path } else { "" }
}

/// Where the attribute of a field of a resource is.
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
