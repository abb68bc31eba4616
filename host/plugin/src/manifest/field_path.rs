//! References and values in a resource's data, for the mappers and indexes that a manifest declares by a path.
//!
//! A [`DataPath`] is resolved once for each message; [`References`] and [`Values`] then read data with it. Reading
//! decodes all of the data, a microsecond or a few for a KB. Data that does not decode is an error; an unset field has
//! no values.

use std::fmt;

use mortise_resource::{FieldPath, PathStep, pb};
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

/// Longest path, bytes.
const MAX_PATH: usize = 256;

const REFERENCE: &str = "hashicorp.consul.resource.Reference";
const ID: &str = "hashicorp.consul.resource.ID";

/// Reason that a path cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DataPathError {
    /// The path is malformed.
    #[error("{path:?} is not a path; write names of fields joined by dots, such as \"spec.target\"")]
    Syntax {
        /// The path.
        path: String,
    },
    /// A step before the last is repeated, or not a message.
    #[error("{path:?} goes through a field that is not a single message")]
    Through {
        /// The path.
        path: String,
    },
    /// A step does not name a field.
    #[error("{path:?}: {message} has no field {field:?}")]
    NoField {
        /// The path.
        path: String,
        /// Full name of the message.
        message: String,
        /// The step.
        field: String,
    },
    /// The last field is of an unsupported kind.
    #[error("{path:?} is {what}")]
    Kind {
        /// The path.
        path: String,
        /// Description of the kind.
        what: String,
    },
    /// Data does not decode as the type.
    #[error("{what}: {source}")]
    Data {
        /// Description of the data.
        what: String,
        /// Cause.
        source: prost::DecodeError,
    },
}

/// Path of field names joined by dots, from the message of a type down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPath(FieldPath);

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl DataPath {
    pub(crate) fn new(text: &str) -> Result<Self, DataPathError> {
        let is_name = |step: &PathStep| {
            let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            matches!(step, PathStep::Field(name) if name.bytes().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()))
        };
        let path = text.parse::<FieldPath>().unwrap_or_default();
        if text.len() > MAX_PATH || path.is_empty() || !path.0.iter().all(is_name) {
            return Err(DataPathError::Syntax { path: text.to_owned() });
        }
        Ok(Self(path))
    }

    /// Resolves the path to a field of references.
    ///
    /// # Errors
    /// The fault of the path in this message, or of its last field.
    pub fn references(&self, message: &MessageDescriptor) -> Result<References, DataPathError> {
        let field = ResolvedField::find(message, self)?;
        match field.last.kind() {
            Kind::Message(message) if !field.last.is_map() && message.full_name() == REFERENCE => {
                Ok(References { field, id: false })
            }
            Kind::Message(message) if !field.last.is_map() && message.full_name() == ID => {
                Ok(References { field, id: true })
            }
            _ => Err(self.of_kind(format!("neither a {REFERENCE} nor an {ID}"))),
        }
    }

    /// Resolves the path to a field of values.
    ///
    /// # Errors
    /// The fault of the path in this message, or of its last field.
    pub fn values(&self, message: &MessageDescriptor) -> Result<Values, DataPathError> {
        let resolved = ResolvedField::find(message, self)?;
        match resolved.last.kind() {
            Kind::Message(entry) if resolved.last.is_map() => {
                let is_text = |field: FieldDescriptor| field.kind() == Kind::String;
                if is_text(entry.map_entry_key_field()) && is_text(entry.map_entry_value_field()) {
                    Ok(Values { field: resolved })
                } else {
                    Err(self.of_kind("a map; only maps of string to string can be used"))
                }
            }
            Kind::Message(_) | Kind::Bytes => Err(self.of_kind("not a string, number, bool or enum")),
            _ => Ok(Values { field: resolved }),
        }
    }

    fn of_kind(&self, what: impl Into<String>) -> DataPathError {
        DataPathError::Kind { path: self.to_string(), what: what.into() }
    }
}

/// A resolved path to references.
#[derive(Debug, Clone)]
pub struct References {
    field: ResolvedField,
    /// Whether the field holds ids; otherwise, references.
    id: bool,
}

impl References {
    /// References in encoded data. References without a type or a name are left out; tenancies are as the data has
    /// them.
    ///
    /// # Errors
    /// The data does not decode.
    pub fn read(&self, data: &[u8]) -> Result<Vec<pb::Reference>, DataPathError> {
        let undecodable = |source| DataPathError::Data { what: self.field.last.full_name().to_owned(), source };
        let mut found = Vec::new();
        for value in self.field.read(data)? {
            let Value::Message(message) = value else { continue };
            let bytes = message.encode_to_vec();
            // The plugin may define a message of this name with other fields; only the content tells.
            let reference = if self.id {
                let id = pb::Id::decode(bytes.as_slice()).map_err(undecodable)?;
                pb::Reference { r#type: id.r#type, tenancy: id.tenancy, name: id.name, section: String::new() }
            } else {
                pb::Reference::decode(bytes.as_slice()).map_err(undecodable)?
            };
            if reference.r#type.is_some() && !reference.name.is_empty() {
                found.push(reference);
            }
        }
        Ok(found)
    }
}

/// A resolved path to values.
#[derive(Debug, Clone)]
pub struct Values {
    field: ResolvedField,
}

impl Values {
    /// Values in encoded data, as text: numbers in decimal, `true` and `false`, enums by the names of their values, the
    /// entries of a map as `key=value`. Empty texts are left out; so are unset fields, if the message tracks presence.
    ///
    /// # Errors
    /// The data does not decode.
    pub fn read(&self, data: &[u8]) -> Result<Vec<String>, DataPathError> {
        let kind = self.field.last.kind();
        let text = |value| match value {
            Value::String(text) => text,
            Value::Bool(truth) => truth.to_string(),
            Value::I32(number) => number.to_string(),
            Value::I64(number) => number.to_string(),
            Value::U32(number) => number.to_string(),
            Value::U64(number) => number.to_string(),
            Value::F32(number) => number.to_string(),
            Value::F64(number) => number.to_string(),
            Value::EnumNumber(number) => match kind.as_enum().and_then(|enumeration| enumeration.get_value(number)) {
                Some(value) => value.name().to_owned(),
                None => number.to_string(),
            },
            Value::Bytes(_) | Value::Message(_) | Value::List(_) | Value::Map(_) => String::new(),
        };
        let texts = |value| match value {
            Value::Map(entries) => entries.iter().filter_map(entry).collect(),
            single => vec![text(single)],
        };
        Ok(self.field.read(data)?.into_iter().flat_map(texts).filter(|text| !text.is_empty()).collect())
    }
}

/// Text of an entry in a map of string to string.
fn entry((key, value): (&MapKey, &Value)) -> Option<String> {
    Some(format!("{}={}", key.as_str()?, value.as_str()?))
}

/// Resolves a path through message fields to the fields that it names.
///
/// # Errors
/// [`DataPathError::Through`] and [`DataPathError::NoField`].
pub(crate) fn resolve(
    message: &MessageDescriptor,
    DataPath(path): &DataPath,
) -> Result<Vec<FieldDescriptor>, DataPathError> {
    let mut current = Some(message.clone());
    let mut fields = Vec::new();
    for step in &path.0 {
        let (Some(message), PathStep::Field(step)) = (current, step) else {
            return Err(DataPathError::Through { path: path.to_string() });
        };
        let field = message.get_field_by_name(step).ok_or_else(|| DataPathError::NoField {
            path: path.to_string(),
            message: message.full_name().to_owned(),
            field: step.clone(),
        })?;
        current = match field.kind() {
            Kind::Message(next) if !field.is_list() && !field.is_map() => Some(next),
            _ => None,
        };
        fields.push(field);
    }
    Ok(fields)
}

/// A field, and the path to it.
#[derive(Debug, Clone)]
struct ResolvedField {
    message: MessageDescriptor,
    way: Vec<FieldDescriptor>,
    last: FieldDescriptor,
}

impl ResolvedField {
    fn find(message: &MessageDescriptor, path: &DataPath) -> Result<Self, DataPathError> {
        let mut way = resolve(message, path)?;
        // Always some: a path has at least one step.
        let last = way.pop().ok_or_else(|| DataPathError::Syntax { path: path.to_string() })?;
        Ok(Self { message: message.clone(), way, last })
    }

    /// Content of the field; each item if it is repeated.
    fn read(&self, data: &[u8]) -> Result<Vec<Value>, DataPathError> {
        let mut current = DynamicMessage::decode(self.message.clone(), data).map_err(|source| DataPathError::Data {
            what: format!("data is not a {}", self.message.full_name()),
            source,
        })?;
        for step in &self.way {
            if !current.has_field(step) {
                return Ok(Vec::new());
            }
            match current.get_field(step).into_owned() {
                Value::Message(next) => current = next,
                _ => return Ok(Vec::new()),
            }
        }
        if self.last.supports_presence() && !current.has_field(&self.last) {
            return Ok(Vec::new());
        }
        Ok(match current.get_field(&self.last).into_owned() {
            Value::List(items) => items,
            single => vec![single],
        })
    }
}

#[cfg(test)]
mod tests;
