//! Differences between the expected and the actual outcome, as text.

use mortise_resource::{Diagnostic, Severity};

use super::expect::ExpectedDiagnostic;

pub(super) const OTHER_DATA: &str = "other data than expected:";

/// Differences from the expected outcome.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    pub(super) fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    pub(super) fn extend(&mut self, problem: Option<String>) {
        self.0.extend(problem);
    }

    /// Returns all of them, if there are any.
    pub(super) fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join("\n"))
    }

    /// Compares two texts, line by line.
    pub(super) fn same(&mut self, heading: &str, expected: &str, found: &str) {
        if expected != found {
            let diff = mortise_text::diff::unified(&ended(expected), &ended(found), ("expected", "found"));
            self.add(format!("{heading}\n{}", diff.trim_end()));
        }
    }

    /// Compares a fault of the plugin with the expected one.
    pub(super) fn fault(&mut self, expected: Option<&str>, found: &str) {
        match expected {
            Some(part) if found.contains(part) => {}
            Some(part) => self.add(format!("another fault than expected:\n-…{part}…\n+{found}")),
            None => self.add(found),
        }
    }

    /// Checks, without a fault, that none is expected.
    pub(super) fn no_fault(&mut self, expected: Option<&str>) {
        if let Some(part) = expected {
            self.add(format!("expected a fault ({part:?}), but there was none"));
        }
    }

    /// Compares diagnostics with the expected ones, in any order. A path is compared only if it is expected.
    pub(super) fn diagnostics(&mut self, expected: &[ExpectedDiagnostic], found: &[Diagnostic]) {
        let mut rest: Vec<&Diagnostic> = found.iter().collect();
        let mut missing = Vec::new();
        for wanted in expected {
            match rest.iter().position(|found| is(wanted, found)) {
                Some(place) => {
                    rest.remove(place);
                }
                None => missing.push(wanted),
            }
        }
        if missing.is_empty() && rest.is_empty() {
            return;
        }
        let mut text = "other diagnostics than expected:".to_owned();
        for wanted in missing {
            text.push_str(&format!("\n-{}", expected_line(wanted)));
        }
        for diagnostic in rest {
            text.push_str(&format!("\n+{}", line(diagnostic)));
        }
        self.add(text);
    }
}

/// Problem of a hook that refuses, and has no error among its reasons.
pub(super) fn without_error(hook: &str) -> String {
    format!("{hook} refused without an error among its diagnostics; a server's answer would have no reason")
}

/// Tells whether any diagnostic is more than a warning.
pub(super) fn is_refusal(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity() != Severity::Warning)
}

fn is(expected: &ExpectedDiagnostic, found: &Diagnostic) -> bool {
    let (text, severity) = match (&expected.error, &expected.warning) {
        (Some(text), _) => (text, Severity::Error),
        (None, Some(text)) => (text, Severity::Warning),
        (None, None) => return false,
    };
    let warning = found.severity() == Severity::Warning;
    warning == (severity == Severity::Warning)
        && found.summary == *text
        && expected.path.as_ref().is_none_or(|path| *path == found.path)
}

fn expected_line(expected: &ExpectedDiagnostic) -> String {
    let path = expected.path.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
    match (&expected.error, &expected.warning) {
        (Some(text), _) => format!("error{path}: {text}"),
        (None, text) => format!("warning{path}: {}", text.as_deref().unwrap_or_default()),
    }
}

fn line(diagnostic: &Diagnostic) -> String {
    let kind = if diagnostic.severity() == Severity::Warning { "warning" } else { "error" };
    let path = if diagnostic.path.is_empty() { String::new() } else { format!(" at {}", diagnostic.path) };
    let detail = if diagnostic.detail.is_empty() { String::new() } else { format!(" ({})", diagnostic.detail) };
    format!("{kind}{path}: {}{detail}", diagnostic.summary)
}

fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(severity: Severity, path: &str, summary: &str) -> Diagnostic {
        Diagnostic { severity: severity.into(), path: path.into(), summary: summary.into(), detail: String::new() }
    }

    fn expected(error: &str, path: Option<&str>) -> ExpectedDiagnostic {
        ExpectedDiagnostic { error: Some(error.into()), warning: None, path: path.map(str::to_owned) }
    }

    #[test]
    fn diagnostics_come_in_any_order_and_each_counts_once() {
        let all = [found(Severity::Error, "data.a", "one"), found(Severity::Error, "data.b", "one")];
        let mut problems = Problems::default();
        problems.diagnostics(&[expected("one", Some("data.b")), expected("one", None)], &all);
        assert_eq!(problems.text(), None);
        problems.diagnostics(&[expected("one", Some("data.b"))], &all);
        assert_eq!(problems.text().unwrap(), "other diagnostics than expected:\n+error at data.a: one");
    }

    #[test]
    fn a_warning_is_no_error() {
        let mut problems = Problems::default();
        problems.diagnostics(&[expected("one", None)], &[found(Severity::Warning, "", "one")]);
        assert_eq!(problems.text().unwrap(), "other diagnostics than expected:\n-error: one\n+warning: one");
    }

    #[test]
    fn differences_are_shown_by_lines() {
        let mut problems = Problems::default();
        problems.same("x:", "a: 1\nb: 2\n", "a: 1\nb: 3\n");
        let text = problems.text().unwrap();
        assert!(text.starts_with("x:\n--- expected\n+++ found\n"), "{text}");
        assert!(text.contains("-b: 2\n+b: 3"), "{text}");
    }
}
