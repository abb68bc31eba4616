//! Converts values of a filter to the type of their field, once, when the filter is compiled.
//!
//! Numbers have to fit: an integer field takes no fraction and nothing out of its range. As in protobuf's JSON, an
//! integer may stand in quotes, and so may `NaN`, `Infinity` and `-Infinity`.

use std::collections::HashMap;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use super::{
    fault::Fault,
    syntax::{Term, TermValue},
};
use crate::{
    number::{self, BadNumber},
    path,
    scalar::Scalar,
    value_type::ValueType,
};

/// A value that a field's value is compared with.
#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Scalar(Scalar),
    Message(DynamicMessage),
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Converts a value to a type.
pub(crate) fn literal(term: &Term<'_>, value_type: &ValueType) -> Result<Literal, Fault> {
    match (value_type, &term.value) {
        (ValueType::Message(message), TermValue::Map(entries)) => Ok(Literal::Message(build(entries, message)?)),
        _ => scalar(term, value_type).map(Literal::Scalar),
    }
}

/// Converts a value to a type other than a message.
pub(crate) fn scalar(term: &Term<'_>, value_type: &ValueType) -> Result<Scalar, Fault> {
    let mismatch = |why: &str| {
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        Fault::new(
            term.offset,
            format!("{} does not fit{why}; the field is {}", term.describe(), value_type.describe()),
        )
    };
    let bad_number = |bad: BadNumber| mismatch(bad.describe());
    match (value_type, &term.value) {
        (_, TermValue::Null) => Err(Fault::new(term.offset, "NULL is not a value here; write IS NULL or IS NOT NULL")),
        (ValueType::Wrapper(inner), _) => scalar(term, inner),
        (ValueType::Bool, TermValue::Bool(value)) => Ok(Scalar::Bool(*value)),
        (ValueType::Int { low, high }, TermValue::Number(text)) => integer(text, *low, *high).map_err(bad_number),
        (ValueType::Int { low, high }, TermValue::Text(text)) => integer(text, *low, *high).map_err(bad_number),
        (ValueType::Float { single }, TermValue::Number(text)) => {
            number::float(text, *single).map(Scalar::Float).map_err(bad_number)
        }
        (ValueType::Float { .. }, TermValue::Text(text)) => match text.as_str() {
            "NaN" => Ok(Scalar::Float(f64::NAN)),
            "Infinity" => Ok(Scalar::Float(f64::INFINITY)),
            "-Infinity" => Ok(Scalar::Float(f64::NEG_INFINITY)),
            _ => Err(mismatch("")),
        },
        (ValueType::Text, TermValue::Text(text)) => Ok(Scalar::Text(text.clone())),
        (ValueType::Bytes, TermValue::Text(text)) => {
            let bytes = STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text));
            bytes.map(Scalar::Bytes).map_err(|_| mismatch("it is not base64"))
        }
        (ValueType::Enum(enumeration), TermValue::Text(text)) => match enumeration.get_value_by_name(text) {
            Some(value) => Ok(Scalar::Int(value.number().into())),
            None => Err(mismatch("the enum has no such value")),
        },
        (ValueType::Enum(_), TermValue::Number(text)) => {
            integer(text, i32::MIN.into(), i32::MAX.into()).map_err(bad_number)
        }
        (ValueType::Timestamp, TermValue::Text(text)) => {
            let time: prost_types::Timestamp = text.parse().map_err(|_| mismatch("it is not a timestamp"))?;
            Ok(Scalar::Time { seconds: time.seconds, nanos: time.nanos })
        }
        (ValueType::Duration, TermValue::Text(text)) => {
            let time: prost_types::Duration = text.parse().map_err(|_| mismatch("it is not a duration"))?;
            Ok(Scalar::Time { seconds: time.seconds, nanos: time.nanos })
        }
        _ => Err(mismatch("")),
    }
}

fn integer(text: &str, low: i128, high: i128) -> Result<Scalar, BadNumber> {
    let value = number::integer(text)?;
    if (low..=high).contains(&value) { Ok(Scalar::Int(value)) } else { Err(BadNumber::Range) }
}

/// Builds a message from the entries in braces.
fn build(entries: &[(Term<'_>, Term<'_>)], descriptor: &MessageDescriptor) -> Result<DynamicMessage, Fault> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (key, term) in entries {
        let TermValue::Text(name) = &key.value else {
            return Err(Fault::new(key.offset, "a field's name must be in double quotes"));
        };
        let Some(field) = path::find(descriptor, name) else {
            return Err(Fault::new(key.offset, format!("{} has no field {}", descriptor.full_name(), key.describe())));
        };
        if message.has_field(&field) {
            return Err(Fault::new(key.offset, format!("{} is set twice; set it once", key.describe())));
        }
        if term.value != TermValue::Null {
            let value = field_value(term, &field)?;
            set(&mut message, &field, value, term)?;
        }
    }
    Ok(message)
}

fn set(message: &mut DynamicMessage, field: &FieldDescriptor, value: Value, term: &Term<'_>) -> Result<(), Fault> {
    let fault = |_| Fault::new(term.offset, format!("{} does not fit the field {}", term.describe(), field.name()));
    message.try_set_field(field, value).map_err(fault)
}

fn field_value(term: &Term<'_>, field: &FieldDescriptor) -> Result<Value, Fault> {
    match (field.kind(), &term.value) {
        (Kind::Message(entry), TermValue::Map(entries)) if field.is_map() => {
            let (key_kind, value_kind) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
            let mut map = HashMap::new();
            for (key, value) in entries {
                let single = single(value, value_kind.clone())?;
                if map.insert(map_key(key, &key_kind)?, single).is_some() {
                    return Err(Fault::new(key.offset, format!("{} is set twice; set it once", key.describe())));
                }
            }
            Ok(Value::Map(map))
        }
        _ if field.is_map() => Err(Fault::new(term.offset, format!("{} is a map; write {{...}}", field.name()))),
        _ if field.is_list() => Err(Fault::new(
            term.offset,
            format!("{} is a list, and filters cannot write lists in braces; leave it out", field.name()),
        )),
        (kind, _) => single(term, kind),
    }
}

fn map_key(term: &Term<'_>, kind: &Kind) -> Result<MapKey, Fault> {
    let text = match &term.value {
        TermValue::Text(text) => text.as_str(),
        TermValue::Number(text) => text,
        TermValue::Bool(true) => "true",
        TermValue::Bool(false) => "false",
        TermValue::Null | TermValue::Map(_) => "",
    };
    path::map_key(kind, text).map_err(|fault| Fault::new(term.offset, fault.to_string()))
}

/// The value of a field that is neither a list nor a map.
fn single(term: &Term<'_>, kind: Kind) -> Result<Value, Fault> {
    let value_type = ValueType::from_kind(kind.clone());
    match (&value_type, kind, &term.value) {
        (ValueType::Message(message), _, TermValue::Map(entries)) => Ok(Value::Message(build(entries, message)?)),
        (ValueType::Wrapper(_), Kind::Message(message), _) => {
            let mut wrapper = DynamicMessage::new(message.clone());
            if let Some(field) = message.get_field(1) {
                set(&mut wrapper, &field, single(term, field.kind())?, term)?;
            }
            Ok(Value::Message(wrapper))
        }
        (_, kind, _) => {
            let scalar = scalar(term, &value_type)?;
            proto(scalar, kind).ok_or_else(|| Fault::new(term.offset, format!("{} does not fit", term.describe())))
        }
    }
}

/// Converts a scalar to a field's kind.
fn proto(scalar: Scalar, kind: Kind) -> Option<Value> {
    Some(match (scalar, kind) {
        (Scalar::Int(value), Kind::Int32 | Kind::Sint32 | Kind::Sfixed32) => Value::I32(value.try_into().ok()?),
        (Scalar::Int(value), Kind::Int64 | Kind::Sint64 | Kind::Sfixed64) => Value::I64(value.try_into().ok()?),
        (Scalar::Int(value), Kind::Uint32 | Kind::Fixed32) => Value::U32(value.try_into().ok()?),
        (Scalar::Int(value), Kind::Uint64 | Kind::Fixed64) => Value::U64(value.try_into().ok()?),
        (Scalar::Int(value), Kind::Enum(_)) => Value::EnumNumber(value.try_into().ok()?),
        (Scalar::Float(value), Kind::Float) => Value::F32(value as f32),
        (Scalar::Float(value), _) => Value::F64(value),
        (Scalar::Bool(value), _) => Value::Bool(value),
        (Scalar::Text(value), _) => Value::String(value),
        (Scalar::Bytes(value), _) => Value::Bytes(value.into()),
        (Scalar::Time { seconds, nanos }, Kind::Message(message)) => {
            let mut time = DynamicMessage::new(message);
            time.try_set_field_by_number(1, Value::I64(seconds)).ok()?;
            time.try_set_field_by_number(2, Value::I32(nanos)).ok()?;
            Value::Message(time)
        }
        _ => return None,
    })
}
