//! Evaluation of a compiled filter.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
};

use prost_reflect::{MapKey, Value};

use super::{
    literal::Literal,
    pattern::Pattern,
    syntax::Comparison,
    values::{Values, order},
};
use crate::{
    Candidate, Path, Undecodable,
    name::NamePattern,
    scalar::Scalar,
    walk::{self, Slot},
};

/// A compiled expression.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Constant(bool),
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// The name matches one of the patterns.
    Name(Vec<NamePattern>),
    Test {
        path: Path,
        test: Test,
    },
}

/// A test of the values at a path.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Compare(Comparison, Literal),
    IsNull,
    IsNan,
    In(Values),
    /// Whether the list contains some (or `all`) of the values.
    Contains {
        all: bool,
        values: Values,
    },
    /// Whether the map contains some (or `all`) of the entries; each is `key:value`.
    HasEntry {
        all: bool,
        entries: Vec<String>,
    },
    /// Whether the text has this form.
    Like(Pattern),
    /// Whether the list contains a message for which the expression holds.
    ContainsWhere(Box<Node>),
}

/// The value that paths begin at.
#[derive(Clone, Copy)]
pub(super) enum Subject<'c> {
    Resource(&'c Candidate<'c>),
    /// A message of a list, already decoded.
    Element(&'c Value),
}

impl<'c> Subject<'c> {
    fn any(self, path: &Path, is_sought: &mut dyn FnMut(Slot<'c>) -> bool) -> Result<bool, Undecodable> {
        match self {
            Self::Resource(candidate) => candidate.any(path, is_sought),
            Self::Element(value) => Ok(walk::any(Slot::Value(value), &path.steps, is_sought)),
        }
    }
}

impl Node {
    pub(super) fn matches(&self, subject: Subject<'_>) -> Result<bool, Undecodable> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::All(parts) => {
                for part in parts {
                    if !part.matches(subject)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.matches(subject)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(inner) => Ok(!inner.matches(subject)?),
            Self::Name(patterns) => Ok(match subject {
                Subject::Resource(candidate) => patterns.iter().any(|pattern| pattern.matches(candidate.id())),
                // Messages of lists have fields alone.
                Subject::Element(_) => false,
            }),
            Self::Test { path, test: Test::IsNull } => {
                Ok(!subject.any(path, &mut |slot| !matches!(slot, Slot::Absent))?)
            }
            Self::Test { path, test } => subject.any(path, &mut |slot| test.holds(slot, path.zero.as_ref())),
        }
    }
}

impl Test {
    fn holds(&self, slot: Slot<'_>, zero: Option<&Scalar>) -> bool {
        match (self, slot) {
            (Self::Compare(comparison, literal), slot) => comparison.holds(order(slot, zero, literal)),
            (Self::In(values), slot) => values.find(slot, zero).is_some(),
            (Self::IsNull, slot) => matches!(slot, Slot::Absent),
            (Self::IsNan, Slot::Value(value)) => {
                matches!(Scalar::from_value(value), Some(Scalar::Float(number)) if number.is_nan())
            }
            (Self::Contains { all, values }, Slot::Value(Value::List(items))) => {
                let mut found = items.iter().filter_map(|item| values.find(Slot::Value(item), None));
                if !*all {
                    return found.next().is_some();
                }
                found.collect::<BTreeSet<usize>>().len() == values.len()
            }
            (Self::HasEntry { all, entries }, Slot::Value(Value::Map(map))) => {
                if *all {
                    entries.iter().all(|entry| has_entry(map, entry))
                } else {
                    entries.iter().any(|entry| has_entry(map, entry))
                }
            }
            (Self::Like(pattern), Slot::Value(Value::String(text))) => pattern.matches(text),
            (Self::Like(pattern), slot) => {
                let text = match slot {
                    Slot::Value(value) => Scalar::from_value(value),
                    Slot::Unset | Slot::Absent => zero.cloned(),
                };
                matches!(text, Some(Scalar::Text(text)) if pattern.matches(&text))
            }
            (Self::ContainsWhere(node), Slot::Value(Value::List(items))) => {
                // A message of a list is decoded with it, so the expression always has an outcome.
                items.iter().any(|item| matches!(node.matches(Subject::Element(item)), Ok(true)))
            }
            (Self::IsNan | Self::Contains { .. } | Self::HasEntry { .. } | Self::ContainsWhere(_), _) => false,
        }
    }
}

/// Whether a map has an entry that is written `key:value`. Keys may hold colons, so each entry is compared.
fn has_entry(map: &HashMap<MapKey, Value>, entry: &str) -> bool {
    map.iter().any(|(key, value)| match (key, value) {
        (MapKey::String(key), Value::String(value)) => {
            entry.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix(':')) == Some(value)
        }
        _ => false,
    })
}

impl Comparison {
    pub(super) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order.is_some_and(Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}
