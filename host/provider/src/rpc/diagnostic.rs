//! Diagnostics in core's terms.
//!
//! Core finds the line of a path only as far as blocks, one attribute and one position in a list go; so a path is cut
//! there, and the detail has the whole path. It is cut before the key of a map, too: core fails at a key if the
//! configuration has numbers as keys.

use mortise_resource::{Diagnostic as ServerDiagnostic, FieldPath, Severity as ServerSeverity};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    client::diagnostics_of,
    mapping::steps,
    proto::tfplugin6::{
        AttributePath, Diagnostic,
        attribute_path::{Step as ProtoStep, step::Selector},
        diagnostic::Severity,
    },
    value::{PathText, Step, ValueError},
};

/// An error without a place.
pub(crate) fn error(summary: impl Into<String>, detail: impl Into<String>) -> Diagnostic {
    Diagnostic { severity: Severity::Error.into(), summary: summary.into(), detail: detail.into(), attribute: None }
}

/// A warning of a stored value that no configuration can have.
pub(crate) fn stored_warning(fault: &ValueError) -> Diagnostic {
    Diagnostic { severity: Severity::Warning.into(), ..value_error(fault) }
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

/// A diagnostic of the server, at the place that it names.
pub(crate) fn server_diagnostic(one: &ServerDiagnostic) -> Diagnostic {
    let mut shown = error_at(&attribute_of(&one.path), one.summary.as_str());
    if one.severity() == ServerSeverity::Warning {
        shown.severity = Severity::Warning.into();
    }
    let texts = [std::mem::take(&mut shown.detail), one.detail.clone()];
    shown.detail = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    shown
}

/// An error at the place of the value.
pub(crate) fn value_error(fault: &ValueError) -> Diagnostic {
    error_at(&fault.path, fault.what.as_str())
}

/// The part of a path that core finds the line of.
fn locatable(path: &[Step]) -> &[Step] {
    let blocks = usize::from(matches!(path, [Step::Attribute(data), Step::Attribute(_), ..] if data == "data"));
    let further = matches!(path.get(blocks + 1), Some(Step::Index(_)));
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
    let found = diagnostics_of(status);
    if matches!(status.code(), Code::InvalidArgument | Code::FailedPrecondition) && !found.is_empty() {
        return found.iter().map(server_diagnostic).collect();
    }
    let message = status.message();
    let (summary, detail) = match status.code() {
        Code::InvalidArgument => return vec![error_at(&place_of(message), message)],
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

/// The attribute that a refusal is about, by its words: the server has no code for a place that does not exist.
fn place_of(message: &str) -> Vec<Step> {
    const PLACES: [(&str, &str); 4] = [
        ("partition not found: ", "partition"),
        ("namespace not found: ", "namespace"),
        ("resource.owner ", "owner"),
        ("failed to resolve owner", "owner"),
    ];
    match PLACES.into_iter().find(|(start, _)| message.starts_with(start)) {
        Some((_, attribute)) => vec![Step::Attribute(attribute.to_owned())],
        None => attribute_of(path_in(message)),
    }
}

/// The path at the start of a message such as `data.name: must not be empty` or `id.name invalid: it is too long`;
/// empty without one.
fn path_in(message: &str) -> &str {
    let path = message.split_once(": ").map_or("", |(path, _)| path.strip_suffix(" invalid").unwrap_or(path));
    let is_path = !path.is_empty() && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._[]\"-".contains(&b));
    let rooted = path.strip_prefix("resource.").unwrap_or(path);
    if is_path && ["data", "meta", "id", "owner"].iter().any(|root| rooted.starts_with(root)) { path } else { "" }
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
    if is(path.first(), "meta") {
        path.remove(0);
    }
    let known = ["data", "metadata", "owner", "name", "partition", "namespace", "labels", "annotations", "tags"];
    if known.iter().any(|name| is(path.first(), name)) { path } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use tonic_types::ErrorDetails;

    use super::*;

    /// A refusal with these diagnostics, as the server sends it.
    fn refusal(diagnostics: &[ServerDiagnostic]) -> Status {
        let details = diagnostics.iter().map(|one| prost_types::Any {
            type_url: "type.googleapis.com/mortise.v1.Diagnostic".into(),
            value: one.encode_to_vec(),
        });
        let details = tonic_types::Status { details: details.collect(), ..tonic_types::Status::default() };
        Status::with_details(Code::InvalidArgument, "no", details.encode_to_vec().into())
    }

    #[test]
    fn faults_and_warnings_of_a_plugin_are_shown_at_their_attributes_with_their_explanations() {
        let one = |severity: ServerSeverity, path: &str, detail: &str| ServerDiagnostic {
            severity: severity.into(),
            path: path.into(),
            summary: "too early".into(),
            detail: detail.into(),
        };
        let status = refusal(&[
            one(ServerSeverity::Error, "data.year", "Leave it out."),
            one(ServerSeverity::Warning, "data.tracks[1].title", "Cut it."),
            one(ServerSeverity::Error, "", ""),
            one(ServerSeverity::Error, "data.by_number[\"1\"].name", "Not that one."),
            one(ServerSeverity::Error, "metadata[\"1\"]", ""),
        ]);
        let [first, second, third, keyed, top] = server_faults("create", "http://here", &status).try_into().unwrap();
        assert_eq!(
            (first.severity(), &*first.summary, &*first.detail),
            (Severity::Error, "too early", "Leave it out.")
        );
        assert_eq!(first.attribute, Some(attribute_path(&attribute_of("data.year"))));
        assert_eq!((second.severity(), &*second.detail), (Severity::Warning, "at data.tracks[1].title\nCut it."));
        assert!(second.attribute.is_some());
        assert_eq!((third.attribute, &*third.detail), (None, ""));
        // Core fails at a key if the configuration has a number as a key.
        assert_eq!(keyed.attribute, Some(attribute_path(&attribute_of("data.by_number"))));
        assert_eq!(keyed.detail, "at data.by_number[\"1\"].name\nNot that one.");
        assert_eq!(
            (top.attribute, &*top.detail),
            (Some(attribute_path(&attribute_of("metadata"))), "at metadata[\"1\"]")
        );
        // A server that sends violations alone.
        let details = ErrorDetails::with_bad_request_violation("data.year", "too early");
        let older = Status::with_error_details(Code::InvalidArgument, "no", details);
        let [shown] = server_faults("create", "http://here", &older).try_into().unwrap();
        assert_eq!((&*shown.summary, &*shown.detail), ("too early", ""));
        assert_eq!(shown.attribute, first.attribute);
    }

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

    #[test]
    fn refusals_of_names_and_places_are_at_their_attributes() {
        for (message, attribute) in [
            ("namespace not found: team", "namespace"),
            ("partition not found: p", "partition"),
            ("resource.id.name invalid: a resource name must be short", "name"),
            ("id.tenancy.namespace invalid: a resource name must be short", "namespace"),
            ("resource.owner does not exist", "owner"),
            ("data.name: must not be empty", "data.name"),
        ] {
            let [shown] = server_faults("create", "here", &Status::invalid_argument(message)).try_into().unwrap();
            let path: Vec<_> = attribute.split('.').map(|name| Step::Attribute(name.to_owned())).collect();
            assert_eq!(shown.attribute, Some(attribute_path(&path)), "{message}");
        }
    }
}
