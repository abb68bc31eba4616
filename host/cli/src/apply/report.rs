//! Plans and the server's warnings, as the terminal shows them.

use mortise_resource::Diagnostic;
use mortise_text::Document;

use super::plan::{Plan, unit_kind};
use crate::{
    error::diagnostic_line,
    output::ui::{Style, Ui},
    resources::ids::{id_of, placed_title},
};

/// Prints the notes of a plan on standard error: missing validation, and warnings of validation.
pub(crate) fn notes(document: &Document, plan: &Plan, ui: &Ui) {
    if let Some(unit) = &plan.unchecked {
        let name = placed_title(&id_of(&document.resource));
        ui.warn(&format!(
            "{}: {name}: not validated, and without defaults: {} {} does not exist before these files are applied",
            document.place,
            unit_kind(unit),
            unit.name
        ));
    }
    warnings(document, &plan.warnings, ui);
}

/// Prints the warnings of validation, each with its place in the document.
pub(crate) fn warnings(document: &Document, warnings: &[Diagnostic], ui: &Ui) {
    for warning in warnings {
        ui.warn(&format!("{}: {}", document.locate(&warning.path), diagnostic_line(warning)));
    }
}

/// Colours a unified diff, if output is coloured.
pub(crate) fn coloured(diff: &str, ui: &Ui) -> String {
    let mut out = String::with_capacity(diff.len());
    for line in diff.lines() {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Style::Bold,
            Some(b'+') => Style::Good,
            Some(b'-') => Style::Bad,
            Some(b'@') => Style::Dim,
            _ => Style::Plain,
        };
        out.push_str(&ui.paint(style, line));
        out.push('\n');
    }
    out
}
