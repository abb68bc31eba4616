//! Facts: requirements of a query that every match meets, for a look-up in an index. A fact may fit more resources than
//! the query, never fewer.

use std::{collections::BTreeSet, ops::Bound};

/// The part of a resource that a [`Fact`] is about.
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

/// Requirement: the subject is present and has one of the values; a field that is a list, or in a list, has an element
/// with one of the values. No resource without the label or field satisfies it, not even if the absent value would
/// compare as zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The part of the resource that has the value.
    pub subject: Subject,
    /// Allowed values. Empty for [`Subject::LabelPresence`]; for others, nothing matches if it is empty.
    pub values: BTreeSet<String>,
}

/// Requirement on a single value in `data`: its key in an index ([`IndexPath`](crate::IndexPath)) is in this range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRange {
    /// The path in snake_case.
    pub path: String,
    /// Smallest key of a present value.
    pub low: Bound<String>,
    /// Largest key of a present value.
    pub high: Bound<String>,
    /// Whether absent values are in the range, too.
    pub with_absent: bool,
}

impl FieldRange {
    /// Restricts the range to another one of the same path.
    pub(crate) fn intersect(&mut self, other: Self) {
        let key = |bound: &Bound<String>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        let is_excluded = |bound: &Bound<String>| matches!(bound, Bound::Excluded(_));
        let (old, new) = (key(&self.low), key(&other.low));
        if new > old || (new == old && is_excluded(&other.low)) {
            self.low = other.low;
        }
        let is_lower = match (key(&self.high), key(&other.high)) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => new < old || (new == old && is_excluded(&other.high)),
        };
        if is_lower {
            self.high = other.high;
        }
        self.with_absent &= other.with_absent;
    }
}

impl Fact {
    pub(crate) fn new(subject: Subject, values: impl IntoIterator<Item = String>) -> Self {
        Self { subject, values: values.into_iter().collect() }
    }
}

/// The facts that hold if one of several branches does: those about subjects that every branch has a fact about.
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
