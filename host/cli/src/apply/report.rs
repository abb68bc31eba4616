//! What a plan, and the server's warnings, look like on the terminal.

use mortise_resource::Diagnostic;
use mortise_text::Document;

use super::plan::{Plan, unit_kind};
use crate::{
    output::ui::{Style, Ui},
    resources::ids::{id_of, placed_title},
};

/// Prints on standard error what is to be known of a plan: that the server did not judge it, or what validation let
/// pass.
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

/// Prints what validation let pass with a warning, each with its place in the document.
pub(crate) fn warnings(document: &Document, warnings: &[Diagnostic], ui: &Ui) {
    for Diagnostic { path, summary, detail, .. } in warnings {
        let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        ui.warn(&format!("{}: {path}{summary}{detail}", document.locate(path.trim_end_matches(": "))));
    }
}

/// A unified diff, with colours if there are any.
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
