//! Shows changes: a unified diff of two resources as YAML. It leaves out values of fields that a schema marks with
//! `debug_redact`: a number stands for each, and a different number for a different value.

use diffy::{DiffOptions, PatchFormatter};
use mortise_resource::pb;

use crate::{Types, data::hidden::RedactedValues, print};

/// A unified diff of two resources in YAML with three lines around each change; empty when they print alike. Status,
/// generation, version and uid, which the server sets, are compared as well: clear them where they do not matter.
#[must_use]
pub fn diff(
    before: Option<&pb::Resource>,
    after: Option<&pb::Resource>,
    names: (&str, &str),
    types: &dyn Types,
) -> String {
    let hidden = RedactedValues::default();
    let print = |resource: &pb::Resource| print::yaml::write(&print::resource(resource, types, Some(&hidden)));
    let text = |resource: Option<&pb::Resource>| resource.map(print).unwrap_or_default();
    unified(&text(before), &text(after), names)
}

/// A unified diff of two texts with three lines around each change; empty when they are alike.
#[must_use]
pub fn unified(before: &str, after: &str, names: (&str, &str)) -> String {
    if before == after {
        return String::new();
    }
    let mut options = DiffOptions::new();
    options.set_original_filename(names.0.to_owned()).set_modified_filename(names.1.to_owned());
    // An empty line of the context keeps its blank, as in `diff -u`.
    let formatter = PatchFormatter::new().suppress_blank_empty(false);
    formatter.fmt_patch(&options.create_patch(before, after)).to_string()
}
