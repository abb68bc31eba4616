//! Values as messages and back, by way of proto3's JSON: all data here is read and printed by that mapping.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use mortise_resource::{FieldPath, PathStep, map_key::map_key_text};
use mortise_text::{Limits, data_from_json, data_to_json};
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, ReflectMessage as _, Value as Stored};
use prost_types::Any;
use serde_json::value::RawValue;

use super::{
    name::attribute_name,
    shape::{Attribute, Leaf, Object, Shape},
};
use crate::value::{Number, Step, Value, ValueError};

/// Makes data of a wholly known value. Each fault has its path, which begins below the data itself.
///
/// # Errors
/// The faults of the value.
pub fn to_data(message: &Object, value: &Value) -> Result<Any, Vec<ValueError>> {
    let mut json = String::new();
    let mut faults = Vec::new();
    object(message, value, &mut Writer { json: &mut json, path: Vec::new(), faults: &mut faults });
    if !faults.is_empty() {
        return Err(faults);
    }
    data_from_json(&json, &message.message, &Limits::default()).map_err(|found| {
        let fault = |diagnostic: mortise_text::Diagnostic| ValueError {
            path: steps(&FieldPath::parse(&diagnostic.path)).into_iter().skip(1).collect(),
            what: match diagnostic.remedy {
                Some(remedy) => format!("{}; {remedy}", diagnostic.message),
                None => diagnostic.message,
            },
        };
        found.diagnostics.into_iter().map(fault).collect()
    })
}

/// Converts a path from protobuf's names to those of the protocol.
#[must_use]
pub fn steps(path: &FieldPath) -> Vec<Step> {
    let step = |step: &PathStep| match step {
        PathStep::Field(name) => Step::Attribute(attribute_name(name)),
        PathStep::Index(index) => Step::Index(usize::try_from(*index).unwrap_or(usize::MAX)),
        PathStep::Key(key) => Step::Key(key.clone()),
    };
    path.0.iter().map(step).collect()
}

struct Writer<'a> {
    json: &'a mut String,
    path: Vec<Step>,
    faults: &'a mut Vec<ValueError>,
}

impl Writer<'_> {
    fn within(&mut self, step: Step, inner: impl FnOnce(&mut Self)) {
        self.path.push(step);
        inner(self);
        self.path.pop();
    }

    fn fault(&mut self, what: impl Into<String>) {
        self.json.push_str("null");
        self.faults.push(ValueError { path: self.path.clone(), what: what.into() });
    }

    fn text(&mut self, text: &str) {
        // Writes to memory do not fail.
        self.json.push_str(&serde_json::to_string(text).unwrap_or_default());
    }
}

fn object(message: &Object, value: &Value, to: &mut Writer<'_>) {
    to.json.push('{');
    let mut first = true;
    let mut chosen: BTreeMap<String, &Attribute> = BTreeMap::new();
    // What the server alone sets is not sent.
    let is_sent = |field: &&Attribute| field.flags.required || field.flags.optional;
    for filled in message.attributes.iter().filter(is_sent).filter(|filled| !value.get(&filled.name).is_null()) {
        if !std::mem::take(&mut first) {
            to.json.push(',');
        }
        to.text(filled.field.name());
        to.json.push(':');
        let oneof = filled.field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        let before = oneof.and_then(|oneof| chosen.insert(oneof.name().to_owned(), filled));
        to.within(Step::Attribute(filled.name.clone()), |to| match before {
            Some(other) => to.fault(format!("only one of {} and {} may be set", other.name, filled.name)),
            None => self::value(&filled.shape, value.get(&filled.name), to),
        });
    }
    to.json.push('}');
}

fn value(shape: &Shape, value: &Value, to: &mut Writer<'_>) {
    match (shape, value) {
        (_, Value::Null) => to.fault("null cannot be an element"),
        (Shape::Object(message), Value::Map(_)) => object(message, value, to),
        (Shape::Map(element), Value::Map(entries)) => {
            to.json.push('{');
            for (position, (key, entry)) in entries.iter().enumerate() {
                to.json.push_str(if position > 0 { "," } else { "" });
                to.text(key);
                to.json.push(':');
                to.within(Step::Key(key.clone()), |to| self::value(element, entry, to));
            }
            to.json.push('}');
        }
        // A field mask is a single string in JSON.
        (Shape::Paths, Value::List(items)) => {
            let mut names = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let path = item.as_str().unwrap_or_default();
                let name = json_name(path);
                if path.is_empty() || path.contains(',') || field_name(&name) != path {
                    to.within(Step::Index(index), |to| to.fault("it is not a path of fields such as spec.some_field"));
                }
                names.push(name);
            }
            to.text(&names.join(","));
        }
        (Shape::List(element) | Shape::Set(element), Value::List(items)) => {
            to.json.push('[');
            for (index, item) in items.iter().enumerate() {
                to.json.push_str(if index > 0 { "," } else { "" });
                to.within(Step::Index(index), |to| self::value(element, item, to));
            }
            to.json.push(']');
        }
        (Shape::Leaf(leaf), value) => self::leaf(leaf, value, to),
        _ => to.fault("it is of another type"),
    }
}

fn leaf(leaf: &Leaf, value: &Value, to: &mut Writer<'_>) {
    match (leaf, value) {
        (Leaf::Bool, Value::Bool(value)) => to.json.push_str(if *value { "true" } else { "false" }),
        (Leaf::Integer, Value::Number(number)) if number.is_negative_zero() => to.json.push('0'),
        // The JSON mapping reports faults of numbers with their places.
        (Leaf::Integer | Leaf::Float | Leaf::Double, Value::Number(number)) => {
            let _ = write!(to.json, "{number}");
        }
        (Leaf::Enum(enumeration), Value::String(name)) => {
            match (enumeration.get_value_by_name(name), name.parse::<i32>()) {
                (None, Ok(number)) => {
                    let _ = write!(to.json, "{number}");
                }
                _ => to.text(name),
            }
        }
        (Leaf::Json, Value::String(text)) => match serde_json::from_str::<&RawValue>(text) {
            Ok(json) => to.json.push_str(json.get()),
            Err(e) => to.fault(format!("it is not JSON: {e}")),
        },
        (Leaf::String | Leaf::Bytes | Leaf::Timestamp | Leaf::Duration, Value::String(text)) => to.text(text),
        _ => to.fault("it is of another type"),
    }
}

/// Converts a path of a field mask to JSON's names.
fn json_name(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    let mut upper = false;
    for letter in path.chars() {
        match letter {
            '_' => upper = true,
            letter if std::mem::take(&mut upper) => name.push(letter.to_ascii_uppercase()),
            letter => name.push(letter),
        }
    }
    name
}

/// Converts a path of a field mask from JSON's names.
fn field_name(path: &str) -> String {
    let mut name = String::with_capacity(path.len() + 4);
    for letter in path.chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Makes a value of stored data. A part that a message cannot tell from an absent one is null. A part without a form in
/// configurations, such as NaN or a timestamp of the year 20,000, is null, too; the second result has its path.
#[must_use]
pub fn from_data(object: &Object, data: Option<&Any>) -> (Value, Vec<ValueError>) {
    let nothing = Any::default();
    let data = data.unwrap_or(&nothing);
    let mut reader = DataReader { path: Vec::new(), faults: Vec::new() };
    let value = match data_to_json(data, &object.message) {
        Some(json) => reader.object(object, &json),
        None => match DynamicMessage::decode(object.message.clone(), data.value.as_slice()) {
            Ok(message) => reader.fields(object, &message),
            Err(_) => {
                reader.fault("the data is not a message of its type");
                Value::Map(object.attributes.iter().map(|field| (field.name.clone(), Value::Null)).collect())
            }
        },
    };
    (value, reader.faults)
}

/// Fault of a stored value that no configuration can have.
const NO_FORM: &str = "the stored value has no form in a configuration, and is shown as null";

struct DataReader {
    path: Vec<Step>,
    faults: Vec<ValueError>,
}

impl DataReader {
    fn within(&mut self, step: Step, inner: impl FnOnce(&mut Self) -> Value) -> Value {
        self.path.push(step);
        let value = inner(self);
        self.path.pop();
        value
    }

    /// Records a fault at the current path.
    fn fault(&mut self, what: &str) -> Value {
        self.faults.push(ValueError { path: self.path.clone(), what: what.to_owned() });
        Value::Null
    }

    fn parse<'j, T: serde::Deserialize<'j>>(
        &mut self,
        json: &'j str,
        read: impl FnOnce(&mut Self, T) -> Value,
    ) -> Value {
        match serde_json::from_str(json) {
            Ok(parsed) => read(self, parsed),
            Err(_) => self.fault(NO_FORM),
        }
    }

    fn object(&mut self, object: &Object, json: &str) -> Value {
        self.parse(json, |reader, fields: BTreeMap<String, &RawValue>| {
            let attribute = |attribute: &Attribute| {
                let value = match fields.get(attribute.field.json_name()) {
                    Some(json) => reader.within(Step::Attribute(attribute.name.clone()), |reader| {
                        reader.value(&attribute.shape, json.get())
                    }),
                    None => Value::Null,
                };
                (attribute.name.clone(), value)
            };
            Value::Map(object.attributes.iter().map(attribute).collect())
        })
    }

    fn value(&mut self, shape: &Shape, json: &str) -> Value {
        match shape {
            Shape::Object(object) => self.object(object, json),
            Shape::Map(element) => self.parse(json, |reader, entries: BTreeMap<String, &RawValue>| {
                let entry = |(key, json): (String, &RawValue)| {
                    let value = reader.within(Step::Key(key.clone()), |reader| reader.value(element, json.get()));
                    (key, value)
                };
                Value::Map(entries.into_iter().map(entry).collect())
            }),
            Shape::Paths => self.parse(json, |_, paths: String| {
                let paths = paths.split(',').filter(|path| !path.is_empty());
                Value::List(paths.map(|path| Value::String(field_name(path))).collect())
            }),
            Shape::List(element) | Shape::Set(element) => self.parse(json, |reader, items: Vec<&RawValue>| {
                let item = |(index, json): (usize, &RawValue)| {
                    reader.within(Step::Index(index), |reader| reader.value(element, json.get()))
                };
                Value::List(items.into_iter().enumerate().map(item).collect())
            }),
            Shape::Leaf(leaf) => self.leaf(leaf, json),
        }
    }

    fn leaf(&mut self, leaf: &Leaf, json: &str) -> Value {
        match leaf {
            Leaf::Bool => self.parse(json, |_, value| Value::Bool(value)),
            // JSON has numbers of 64 bits as strings, and the names of NaN and infinities.
            Leaf::Integer | Leaf::Float | Leaf::Double => match json.trim_matches('"').parse::<Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => self.fault(NO_FORM),
            },
            Leaf::Enum(_) if !json.starts_with('"') => Value::String(json.to_owned()),
            Leaf::Json => Value::String(json.to_owned()),
            Leaf::String | Leaf::Bytes | Leaf::Timestamp | Leaf::Duration | Leaf::Enum(_) => {
                self.parse(json, |_, text| Value::String(text))
            }
        }
    }

    /// Reads a message that has no form in JSON as a whole, field by field.
    fn fields(&mut self, object: &Object, message: &DynamicMessage) -> Value {
        let attribute = |attribute: &Attribute| {
            let field = &attribute.field;
            let value = match message.has_field(field) {
                true => self.within(Step::Attribute(attribute.name.clone()), |reader| {
                    reader.stored(&attribute.shape, field, &message.get_field(field))
                }),
                false => Value::Null,
            };
            (attribute.name.clone(), value)
        };
        Value::Map(object.attributes.iter().map(attribute).collect())
    }

    /// Reads a value of a field by its form in JSON; `None` if it has none.
    fn stored_alone(&mut self, shape: &Shape, field: &FieldDescriptor, value: Stored) -> Option<Value> {
        let mut alone = DynamicMessage::new(field.parent_message().clone());
        alone.set_field(field, value);
        let data = Any { type_url: String::new(), value: alone.encode_to_vec() };
        let json = data_to_json(&data, &alone.descriptor())?;
        Some(self.parse(&json, |reader, fields: BTreeMap<String, &RawValue>| {
            fields.get(field.json_name()).map_or(Value::Null, |json| reader.value(shape, json.get()))
        }))
    }

    /// Reads a value of a field: by its form in JSON, or else by its parts.
    fn stored(&mut self, shape: &Shape, field: &FieldDescriptor, value: &Stored) -> Value {
        if let Some(read) = self.stored_alone(shape, field, value.clone()) {
            return read;
        }
        match (shape, value) {
            (Shape::Object(object), Stored::Message(message)) => self.fields(object, message),
            (Shape::List(element) | Shape::Set(element), Stored::List(items)) => {
                let item = |(index, item): (usize, &Stored)| {
                    self.within(Step::Index(index), |reader| match (&**element, item) {
                        (Shape::Object(object), Stored::Message(message)) => reader.fields(object, message),
                        _ => match reader.stored_alone(shape, field, Stored::List(vec![item.clone()])) {
                            Some(Value::List(one)) => one.into_iter().next().unwrap_or(Value::Null),
                            _ => reader.fault(NO_FORM),
                        },
                    })
                };
                Value::List(items.iter().enumerate().map(item).collect())
            }
            (Shape::Map(element), Stored::Map(entries)) => {
                let entry = |(key, item): (&MapKey, &Stored)| {
                    let name = map_key_text(key);
                    let value = self.within(Step::Key(name.clone()), |reader| match (&**element, item) {
                        (Shape::Object(object), Stored::Message(message)) => reader.fields(object, message),
                        _ => {
                            let one = Stored::Map(HashMap::from([(key.clone(), item.clone())]));
                            let read = reader.stored_alone(shape, field, one);
                            read.map_or_else(|| reader.fault(NO_FORM), |read| read.get(&name).clone())
                        }
                    });
                    (name, value)
                };
                Value::Map(entries.iter().map(entry).collect())
            }
            _ => self.fault(NO_FORM),
        }
    }
}
