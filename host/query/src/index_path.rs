//! Paths to values that can be indexed, and the keys of an index: texts that sort as the values do, absent ones first.

use prost_reflect::Value;

use crate::{
    Candidate, Path, QueryError, Schema, Undecodable,
    path::Root,
    scalar::Scalar,
    value_type::{Shape, ValueType},
    walk::Slot,
};

/// The key of an absent value, which precedes all others.
pub const ABSENT_KEY: &str = "0";
/// The beginning of the keys of all other values, and the smallest of them.
pub(crate) const PRESENT_KEY: &str = "1";

/// The key of a value; `None` for floats.
pub(crate) fn key(value: Option<&Scalar>) -> Option<String> {
    match value {
        None => Some(ABSENT_KEY.to_owned()),
        Some(value) => Some(format!("{PRESENT_KEY}{}", value.ordered_text()?)),
    }
}

/// A path into `data` to values that have one text each, or to lists of such values.
#[derive(Debug, Clone)]
pub struct IndexPath {
    path: Path,
    name: String,
}

impl IndexPath {
    /// Resolves a path.
    ///
    /// # Errors
    /// The path leads to no field, or to one that cannot be indexed.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, QueryError> {
        let path = Path::parse(text, schema)?;
        let fault = match &path.shape {
            _ if path.root != Root::Data || path.steps.is_empty() => {
                Some("an index needs a field in data; write data.field")
            }
            Shape::One(value_type) | Shape::List(value_type) if !has_text(value_type) => {
                Some("floats and messages cannot be indexed; name a field with a string, an integer, an enum or a time")
            }
            Shape::Map { .. } => Some("a map cannot be indexed; name one of its keys"),
            _ if path.zero.as_ref().is_some_and(|zero| zero.index_text().is_some()) => {
                Some("a field with its own default cannot be indexed; name another one")
            }
            _ => None,
        };
        match fault {
            Some(fault) => Err(QueryError::path(text, fault.to_owned())),
            None => Ok(Self { name: path.to_string(), path }),
        }
    }

    /// The path in snake_case, as [`Subject::Field`](crate::Subject::Field) has it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether each resource has exactly one key.
    #[must_use]
    pub fn is_single(&self) -> bool {
        matches!(self.path.shape, Shape::One(_)) && !self.path.is_through_list()
    }

    /// The keys by which an index finds a resource, sorted, without repetitions. A single value has one, even if it is
    /// zero or absent; a list has one for each element, and none for zero values below messages.
    ///
    /// # Errors
    /// Its `data` does not decode.
    pub fn keys(&self, candidate: &Candidate<'_>) -> Result<Vec<String>, Undecodable> {
        let is_single = self.is_single();
        let mut keys = Vec::new();
        let mut add = |value: &Value| keys.extend(Scalar::from_value(value).and_then(|value| key(Some(&value))));
        candidate.any(&self.path, &mut |slot| {
            match slot {
                Slot::Value(Value::List(items)) => items.iter().for_each(&mut add),
                Slot::Value(value) => add(value),
                Slot::Unset | Slot::Absent => {}
            }
            false
        })?;
        if is_single && keys.is_empty() {
            let mut is_absent = false;
            candidate.any(&self.path, &mut |slot| {
                is_absent = matches!(slot, Slot::Absent);
                true
            })?;
            keys.extend(key(self.path.zero.as_ref().filter(|_| !is_absent)));
        }
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    /// The key of a value that a [`Fact`](crate::Fact) has; `None` if the field cannot have the value.
    #[must_use]
    pub fn key_of(&self, value: &str) -> Option<String> {
        match &self.path.shape {
            Shape::One(value_type) | Shape::List(value_type) => key(Some(&Scalar::of_index_text(value_type, value)?)),
            Shape::Map { .. } => None,
        }
    }
}

fn has_text(value_type: &ValueType) -> bool {
    match value_type {
        ValueType::Float { .. } | ValueType::Message(_) => false,
        ValueType::Wrapper(inner) => has_text(inner),
        ValueType::Bool
        | ValueType::Int { .. }
        | ValueType::Text
        | ValueType::Bytes
        | ValueType::Enum(_)
        | ValueType::Timestamp
        | ValueType::Duration => true,
    }
}
