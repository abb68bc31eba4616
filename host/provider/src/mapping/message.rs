//! Values as messages and back, by way of proto3's JSON: all data here is read and printed by that mapping.

use std::{collections::BTreeMap, fmt::Write as _};

use mortise_resource::{FieldPath, PathStep};
use mortise_text::{Limits, data_from_json, data_to_json};
use prost_types::Any;
use serde_json::value::RawValue;

use super::shape::{Attribute, Leaf, Object, Shape, attribute_name};
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
    for filled in message.attributes.iter().filter(|filled| !value.get(&filled.name).is_null()) {
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
            let paths: Vec<_> = items.iter().filter_map(Value::as_str).map(json_name).collect();
            to.text(&paths.join(","));
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

/// Makes a value of data. A part that a message cannot tell from an absent one is null.
///
/// # Errors
/// The data is not a message of the type, or has a part that no value can hold, such as NaN.
pub fn from_data(message: &Object, data: Option<&Any>) -> Result<Value, ValueError> {
    let nothing = Any::default();
    let json = data_to_json(data.unwrap_or(&nothing), &message.message).ok_or_else(|| {
        ValueError::new("the server's data has fields that its type does not declare, or values without a form in JSON")
    })?;
    read_object(message, &parse(&json)?)
}

fn parse<'j, T: serde::Deserialize<'j>>(json: &'j str) -> Result<T, ValueError> {
    serde_json::from_str(json).map_err(|e| ValueError::new(format!("it is of another type: {e}")))
}

fn read_object(object: &Object, fields: &BTreeMap<String, &RawValue>) -> Result<Value, ValueError> {
    let attribute = |attribute: &Attribute| {
        let value = match fields.get(attribute.field.json_name()) {
            Some(json) => {
                read(&attribute.shape, json.get()).map_err(|e| e.within(Step::Attribute(attribute.name.clone())))?
            }
            None => Value::Null,
        };
        Ok((attribute.name.clone(), value))
    };
    object.attributes.iter().map(attribute).collect::<Result<_, _>>().map(Value::Map)
}

fn read(shape: &Shape, json: &str) -> Result<Value, ValueError> {
    match shape {
        Shape::Object(object) => read_object(object, &parse(json)?),
        Shape::Map(element) => {
            let entries: BTreeMap<String, &RawValue> = parse(json)?;
            let entry = |(key, json): (String, &RawValue)| {
                let value = read(element, json.get()).map_err(|e| e.within(Step::Key(key.clone())))?;
                Ok((key, value))
            };
            entries.into_iter().map(entry).collect::<Result<_, _>>().map(Value::Map)
        }
        Shape::Paths => {
            let paths: String = parse(json)?;
            let paths = paths.split(',').filter(|path| !path.is_empty());
            Ok(Value::List(paths.map(|path| Value::String(field_name(path))).collect()))
        }
        Shape::List(element) | Shape::Set(element) => {
            let items: Vec<&RawValue> = parse(json)?;
            let item =
                |(index, json): (usize, &RawValue)| read(element, json.get()).map_err(|e| e.within(Step::Index(index)));
            items.into_iter().enumerate().map(item).collect::<Result<_, _>>().map(Value::List)
        }
        Shape::Leaf(leaf) => read_leaf(leaf, json),
    }
}

fn read_leaf(leaf: &Leaf, json: &str) -> Result<Value, ValueError> {
    match leaf {
        Leaf::Bool => parse(json).map(Value::Bool),
        // JSON has numbers of 64 bits as strings.
        Leaf::Integer | Leaf::Float | Leaf::Double => {
            let text = json.trim_matches('"');
            let number =
                text.parse::<Number>().map_err(|_| ValueError::new(format!("{text} cannot be a number here")))?;
            Ok(Value::Number(number))
        }
        Leaf::Enum(_) if !json.starts_with('"') => Ok(Value::String(json.to_owned())),
        Leaf::Json => Ok(Value::String(json.to_owned())),
        Leaf::String | Leaf::Bytes | Leaf::Timestamp | Leaf::Duration | Leaf::Enum(_) => parse(json).map(Value::String),
    }
}
