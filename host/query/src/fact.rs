//! What a query requires of every resource that it matches, for a look-up in an index.

use std::collections::BTreeSet;

/// What a [`Fact`] is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Partition of the id.
    Partition,
    /// Namespace of the id.
    Namespace,
    /// Name of the id.
    Name,
    /// Incarnation of the id.
    Uid,
    /// Value of a label, by its key.
    Label(String),
    /// Presence of a label, by its key; such a fact has no values.
    LabelPresence(String),
    /// Another field of the resource or of its `data`, by its path in snake_case. Values are those of
    /// [`Candidate::index_values`](crate::Candidate::index_values).
    Field(String),
}

/// One requirement: the subject is there, and is one of the values. Of a field that is a list, or is in a list, one of
/// the elements is. No
/// resource without the label or field satisfies it, not even one whose value would count as zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is about.
    pub subject: Subject,
    /// What it may be. Empty for [`Subject::LabelPresence`]; for others, nothing matches if it is empty.
    pub values: BTreeSet<String>,
}

impl Fact {
    pub(crate) fn new(subject: Subject, values: impl IntoIterator<Item = String>) -> Self {
        Self { subject, values: values.into_iter().collect() }
    }
}

/// The facts that hold if one of several branches does: those whose subject every branch has a fact about.
pub(crate) fn common_facts(mut branches: impl Iterator<Item = Vec<Fact>>) -> Vec<Fact> {
    let mut facts = branches.next().unwrap_or_default();
    for branch in branches {
        facts.retain_mut(|fact| match branch.iter().find(|other| other.subject == fact.subject) {
            Some(other) => {
                fact.values.extend(other.values.iter().cloned());
                true
            }
            None => false,
        });
    }
    facts
}
