//! Paths to what an index can be kept of.

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
    /// It leads nowhere, or to what no index can be kept of.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, QueryError> {
        let path = Path::parse(text, schema)?;
        let fault = match &path.shape {
            _ if path.root != Root::Data || path.steps.is_empty() => {
                Some("an index is of a field in data; write data.field")
            }
            Shape::One(of) | Shape::List(of) if !has_text(of) => {
                Some("no index is kept of floats and messages; name a field with a text, a number, an enum or a time")
            }
            Shape::Map { .. } => Some("no index is kept of a map; name one of its keys"),
            _ if path.zero.as_ref().is_some_and(|zero| zero.index_text().is_some()) => {
                Some("no index is kept of a field with a default of its own; name another one")
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

    /// The values that a resource is found by.
    ///
    /// # Errors
    /// Its `data` does not decode.
    pub fn values(&self, candidate: &Candidate<'_>) -> Result<Vec<String>, Undecodable> {
        candidate.index_values(&self.path)
    }
}

fn has_text(of: &ValueType) -> bool {
    match of {
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
