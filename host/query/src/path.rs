//! Paths into resources, resolved against the descriptors.
//!
//! A path is written as a [`FieldPath`]. A segment names a field as snake_case, lowerCamelCase or kebab-case, or is a
//! key of a map: `labels.env`, `labels.a\.b`, `labels."a.b"` or `labels["a.b"]`. A path passes through a list of
//! messages into each of them. Timestamps, durations and wrappers are leaves. `Struct`, `Value`, `Any` and other
//! messages are plain messages.

use std::fmt;

use mortise_resource::{FieldPath, PathError, PathStep, map_key::map_key_text};
use prost_reflect::{FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _};

use crate::{
    QueryError, Schema, limits,
    scalar::Scalar,
    schema::DATA,
    value_type::{Shape, ValueType, zero_of},
};

/// The start of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// The resource.
    Resource,
    /// The message in the resource's `data`.
    Data,
    /// The virtual field `name`.
    Name,
    /// A message of a list.
    Element,
}

/// Step of a path.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Into a field; if it is a list and steps follow, into each of its messages.
    Field(FieldDescriptor),
    /// Into an entry of a map.
    Key(MapKey),
}

/// An error from resolving a path.
struct Unresolved {
    fault: String,
    /// Whether the message reserves the name, as it does for a removed field.
    is_reserved: bool,
}

impl From<String> for Unresolved {
    fn from(fault: String) -> Self {
        Self { fault, is_reserved: false }
    }
}

/// A resolved path. `Display` writes its canonical form, in snake_case, which filters, orders and masks read back.
#[derive(Debug, Clone)]
pub struct Path {
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
    pub(crate) shape: Shape,
    /// The value that an absent one is compared as.
    pub(crate) zero: Option<Scalar>,
}

impl Path {
    /// Resolves a path.
    ///
    /// # Errors
    /// The text is not a path, or the path leads to no field.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, QueryError> {
        Self::resolve(text, schema).map_err(|unresolved| QueryError::path(text, unresolved.fault))
    }

    /// Resolves a path; `None` if it names a removed field, recognized by its reserved name.
    pub(crate) fn parse_unless_reserved(text: &str, schema: &Schema) -> Result<Option<Self>, QueryError> {
        match Self::resolve(text, schema) {
            Ok(path) => Ok(Some(path)),
            Err(Unresolved { is_reserved: true, .. }) => Ok(None),
            Err(Unresolved { fault, .. }) => Err(QueryError::path(text, fault)),
        }
    }

    /// Resolves a path that begins at a message of a list.
    pub(crate) fn parse_in(text: &str, message: &MessageDescriptor) -> Result<Self, QueryError> {
        let resolve = || match split(text)?.as_slice() {
            [] => Err(Unresolved::from("it is empty; name a field".to_owned())),
            segments => Self::walk(Root::Element, message.clone(), segments),
        };
        resolve().map_err(|unresolved| QueryError::path(text, unresolved.fault))
    }

    fn resolve(text: &str, schema: &Schema) -> Result<Self, Unresolved> {
        let fault = |fault: &str| Err(Unresolved::from(fault.to_owned()));
        let segments = split(text)?;
        let Some((first, rest)) = segments.split_first() else { return fault("it is empty; name a field") };
        if first == "name" {
            let path = Self { root: Root::Name, steps: Vec::new(), shape: Shape::One(ValueType::Text), zero: None };
            return if rest.is_empty() { Ok(path) } else { fault("name has no fields; write name alone") };
        }
        let (root, message, segments) = match find(Schema::resource(), first) {
            Some(field) if field.number() == DATA => match schema.data() {
                Some(data) => (Root::Data, data.clone(), rest),
                // A path to `data` itself needs no descriptor.
                None if rest.is_empty() => (Root::Data, ().descriptor(), rest),
                None => return fault("the message of the type's data is not known"),
            },
            _ => (Root::Resource, Schema::resource().clone(), segments.as_slice()),
        };
        Self::walk(root, message, segments)
    }

    fn walk(root: Root, message: MessageDescriptor, segments: &[String]) -> Result<Self, Unresolved> {
        let mut path = Self { root, steps: Vec::new(), shape: Shape::One(ValueType::Message(message)), zero: None };
        for segment in segments {
            path.step(segment)?;
        }
        Ok(path)
    }

    /// Whether the path passes through a list of messages before its end.
    pub(crate) fn is_through_list(&self) -> bool {
        passes_list(&self.steps)
    }

    fn step(&mut self, segment: &str) -> Result<(), Unresolved> {
        match &self.shape {
            Shape::Map { key, value } => {
                let key = map_key(key, segment).map_err(|fault| fault.to_string())?;
                self.steps.push(Step::Key(key));
                self.zero = value.zero();
                self.shape = Shape::One(value.clone());
            }
            Shape::One(ValueType::Message(message)) | Shape::List(ValueType::Message(message)) => {
                let field = find(message, segment).ok_or_else(|| unknown(message, segment))?;
                self.zero = zero_of(&field);
                self.shape = Shape::for_field(&field);
                self.steps.push(Step::Field(field));
            }
            Shape::One(_) if matches!(self.steps.last(), Some(Step::Key(_))) => {
                let fault = "follows a map's key, and the map's values have no fields; write a dot in a key as \\.";
                return Err(format!("{segment:?} {fault}").into());
            }
            Shape::One(_) => {
                return Err(format!("{segment:?} follows a value that has no fields; end the path before it").into());
            }
            Shape::List(_) => {
                return Err(
                    format!("{segment:?} follows a list of values without fields; end the path before it").into()
                );
            }
        }
        Ok(())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = match self.root {
            Root::Name => Some("name"),
            Root::Data => Some("data"),
            Root::Resource | Root::Element => None,
        };
        let mut text = root.unwrap_or_default().to_owned();
        for step in &self.steps {
            let segment = match step {
                Step::Field(field) => field.name().to_owned(),
                Step::Key(key) => written_key(&map_key_text(key)),
            };
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&segment);
        }
        f.write_str(&text)
    }
}

/// Returns a key as filters, orders and masks read it: in quotes, unless its letters stand for themselves.
fn written_key(key: &str) -> String {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '/');
    let is_plain = key.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && key.split('.').all(|part| !part.is_empty() && part.chars().all(is_letter));
    if is_plain { key.replace('.', "\\.") } else { format!("{key:?}") }
}

/// Whether steps pass through a list of messages before their end.
pub(crate) fn passes_list(steps: &[Step]) -> bool {
    let before = steps.split_last().map_or(steps, |(_, before)| before);
    before.iter().any(|step| matches!(step, Step::Field(field) if field.is_list()))
}

/// Splits a path into segments; a key in brackets is one, too.
fn split(text: &str) -> Result<Vec<String>, Unresolved> {
    if text.len() > limits::PATH_BYTES {
        return Err(format!("it has {} bytes; at most {} are allowed", text.len(), limits::PATH_BYTES).into());
    }
    let FieldPath(steps) = text.parse().map_err(|fault: PathError| fault.to_string())?;
    if steps.len() > limits::PATH_SEGMENTS {
        return Err(format!("it has {} segments; at most {} are allowed", steps.len(), limits::PATH_SEGMENTS).into());
    }
    let segment = |step| match step {
        PathStep::Field(name) | PathStep::Key(name) => Ok(name),
        PathStep::Index(index) => {
            Err(format!("[{index}] is a position, and a path leads into each item of a list; leave it out").into())
        }
    };
    steps.into_iter().map(segment).collect()
}

/// The field that a segment names, in any of its spellings.
pub(crate) fn find(message: &MessageDescriptor, segment: &str) -> Option<FieldDescriptor> {
    message
        .get_field_by_name(segment)
        .or_else(|| message.get_field_by_json_name(segment))
        .or_else(|| segment.contains('-').then(|| message.get_field_by_name(&segment.replace('-', "_"))).flatten())
}

/// Makes the error for an unknown field; it lists the fields if there are at most 20.
fn unknown(message: &MessageDescriptor, segment: &str) -> Unresolved {
    const MAX_LISTED_FIELDS: usize = 20;
    let names: Vec<String> =
        message.fields().take(MAX_LISTED_FIELDS + 1).map(|field| field.name().to_owned()).collect();
    let fault = format!("{} has no field {segment:?}", message.full_name());
    let snake = segment.replace('-', "_");
    let is_reserved = message.reserved_names().any(|name| name == snake || is_lower_camel_of(segment, name));
    match names.len() {
        1..=MAX_LISTED_FIELDS => Unresolved { fault: format!("{fault}; it has {}", names.join(", ")), is_reserved },
        _ => Unresolved { fault, is_reserved },
    }
}

/// Whether a text is the lowerCamelCase form of a name.
fn is_lower_camel_of(text: &str, name: &str) -> bool {
    let mut is_upper = false;
    let mut letters = name.chars().filter_map(|letter| match letter {
        '_' => {
            is_upper = true;
            None
        }
        letter if std::mem::take(&mut is_upper) => Some(letter.to_ascii_uppercase()),
        letter => Some(letter),
    });
    text.chars().all(|letter| letters.next() == Some(letter)) && letters.next().is_none()
}

/// A text that is not a key of a map: the text, and the keys that the map has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a key of the map; its keys are {keys}")]
pub(crate) struct MapKeyError {
    text: String,
    keys: &'static str,
}

/// Reads a key of a map with keys of this kind.
pub(crate) fn map_key(kind: &Kind, text: &str) -> Result<MapKey, MapKeyError> {
    let wrong = |keys| MapKeyError { text: text.to_owned(), keys };
    let fault = |_| wrong("numbers");
    Ok(match kind {
        Kind::Bool => MapKey::Bool(match text {
            "true" => true,
            "false" => false,
            _ => return Err(wrong("true and false")),
        }),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(text.parse().map_err(fault)?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(text.parse().map_err(fault)?),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(text.parse().map_err(fault)?),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(text.parse().map_err(fault)?),
        _ => MapKey::String(text.to_owned()),
    })
}
