//! Paths to values that can be indexed.

use crate::{
    Candidate, Path, QueryError, Schema, Undecodable,
    path::Root,
    value_type::{Shape, ValueType},
};

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

    /// The values by which an index finds a resource.
    ///
    /// # Errors
    /// Its `data` does not decode.
    pub fn values(&self, candidate: &Candidate<'_>) -> Result<Vec<String>, Undecodable> {
        candidate.index_values(&self.path)
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
