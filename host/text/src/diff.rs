//! What would change: a unified diff of two resources as YAML.

use mortise_resource::pb;
use similar::TextDiff;

use crate::{Types, to_yaml};

/// A unified diff of two resources in YAML with three lines around each change; empty when they print alike. Status,
/// generation, version and uid, which the server sets, are compared like the rest: clear them where they do not matter.
#[must_use]
pub fn diff(
    before: Option<&pb::Resource>,
    after: Option<&pb::Resource>,
    names: (&str, &str),
    types: &dyn Types,
) -> String {
    let text = |resource: Option<&pb::Resource>| resource.map(|resource| to_yaml(resource, types)).unwrap_or_default();
    unified(&text(before), &text(after), names)
}

/// A unified diff of two texts with three lines around each change; empty when they are alike.
#[must_use]
pub fn unified(before: &str, after: &str, names: (&str, &str)) -> String {
    TextDiff::from_lines(before, after).unified_diff().context_radius(3).header(names.0, names.1).to_string()
}
