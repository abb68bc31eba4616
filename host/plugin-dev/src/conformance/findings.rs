//! Rules and their outcomes.

/// Outcome of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    /// Broken, with the observation.
    Broken(String),
    /// Left out, with the reason.
    LeftOut(String),
}

impl Verdict {
    /// Returns [`Verdict::Broken`] if there is an observation.
    pub(super) fn of(broken: Option<String>) -> Self {
        broken.map_or(Self::Kept, Self::Broken)
    }
}

/// A rule, and its outcome for a type or a controller.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) subject: String,
    pub(super) rule: &'static str,
    pub(super) verdict: Verdict,
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, subject: impl ToString, rule: &'static str, verdict: Verdict) {
        self.0.push(Finding { subject: subject.to_string(), rule, verdict });
    }
}
