//! Types of the values at the end of a path.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value};

use crate::scalar::Scalar;

/// The type of one value.
#[derive(Debug, Clone)]
pub(crate) enum ValueType {
    Bool,
    /// An integer, and its smallest and largest value.
    Int {
        low: i128,
        high: i128,
    },
    /// A float; of 32 bits if `single`.
    Float {
        single: bool,
    },
    Text,
    Bytes,
    Enum(EnumDescriptor),
    Timestamp,
    Duration,
    /// A wrapper of protobuf, with the type of the wrapped value.
    Wrapper(Box<ValueType>),
    Message(MessageDescriptor),
}

/// Whether a message, by its full name, is one of protobuf's wrappers.
pub(crate) fn is_wrapper(message: &str) -> bool {
    matches!(
        message,
        "google.protobuf.BoolValue"
            | "google.protobuf.Int32Value"
            | "google.protobuf.Int64Value"
            | "google.protobuf.UInt32Value"
            | "google.protobuf.UInt64Value"
            | "google.protobuf.FloatValue"
            | "google.protobuf.DoubleValue"
            | "google.protobuf.StringValue"
            | "google.protobuf.BytesValue"
    )
}

/// Single value, list or map.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    One(ValueType),
    List(ValueType),
    Map { key: Kind, value: ValueType },
}

impl Shape {
    pub(crate) fn for_field(field: &FieldDescriptor) -> Self {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => Self::Map {
                key: entry.map_entry_key_field().kind(),
                value: ValueType::from_kind(entry.map_entry_value_field().kind()),
            },
            kind if field.is_list() => Self::List(ValueType::from_kind(kind)),
            kind => Self::One(ValueType::from_kind(kind)),
        }
    }

    /// The type of a single value that has an order.
    pub(crate) fn scalar(&self) -> Option<&ValueType> {
        match self {
            Self::One(ValueType::Message(_)) | Self::List(_) | Self::Map { .. } => None,
            Self::One(value_type) => Some(value_type),
        }
    }
}

impl ValueType {
    pub(crate) fn from_kind(kind: Kind) -> Self {
        match kind {
            Kind::Bool => Self::Bool,
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Self::Int { low: i32::MIN.into(), high: i32::MAX.into() },
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Self::Int { low: i64::MIN.into(), high: i64::MAX.into() },
            Kind::Uint32 | Kind::Fixed32 => Self::Int { low: 0, high: u32::MAX.into() },
            Kind::Uint64 | Kind::Fixed64 => Self::Int { low: 0, high: u64::MAX.into() },
            Kind::Float => Self::Float { single: true },
            Kind::Double => Self::Float { single: false },
            Kind::String => Self::Text,
            Kind::Bytes => Self::Bytes,
            Kind::Enum(enumeration) => Self::Enum(enumeration),
            Kind::Message(message) => Self::of_message(message),
        }
    }

    fn of_message(message: MessageDescriptor) -> Self {
        match (message.full_name(), message.get_field(1)) {
            ("google.protobuf.Timestamp", _) => Self::Timestamp,
            ("google.protobuf.Duration", _) => Self::Duration,
            (name, Some(field)) if is_wrapper(name) => Self::Wrapper(Box::new(Self::from_kind(field.kind()))),
            _ => Self::Message(message),
        }
    }

    /// The value that an absent one is compared as; timestamps, durations and messages have none.
    pub(crate) fn zero(&self) -> Option<Scalar> {
        match self {
            Self::Bool => Some(Scalar::Bool(false)),
            Self::Int { .. } => Some(Scalar::Int(0)),
            Self::Enum(enumeration) => Some(Scalar::Int(enumeration.default_value().number().into())),
            Self::Float { .. } => Some(Scalar::Float(0.0)),
            Self::Text => Some(Scalar::Text(String::new())),
            Self::Bytes => Some(Scalar::Bytes(Vec::new())),
            Self::Wrapper(inner) => inner.zero(),
            Self::Timestamp | Self::Duration | Self::Message(_) => None,
        }
    }

    /// Describes the type in error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Bool => "a boolean: TRUE or FALSE".to_owned(),
            Self::Int { low, high } => format!("an integer from {low} to {high}"),
            Self::Float { .. } => "a number".to_owned(),
            Self::Text => "a string in double quotes".to_owned(),
            Self::Bytes => "bytes, in base64 and double quotes".to_owned(),
            Self::Enum(enumeration) => {
                format!("a value of {}, its name in double quotes or its number", enumeration.full_name())
            }
            Self::Timestamp => "a timestamp such as \"2026-01-31T12:00:00Z\"".to_owned(),
            Self::Duration => "a duration such as \"1.5s\"".to_owned(),
            Self::Wrapper(inner) => inner.describe(),
            Self::Message(message) => format!("a {} in braces", message.full_name()),
        }
    }
}

/// The value that an absent field is compared as: the field's declared default, or else the zero value.
pub(crate) fn zero_of(field: &FieldDescriptor) -> Option<Scalar> {
    match Shape::for_field(field) {
        Shape::One(value_type @ (ValueType::Wrapper(_) | ValueType::Timestamp | ValueType::Duration)) => {
            value_type.zero()
        }
        Shape::One(ValueType::Message(_)) | Shape::List(_) | Shape::Map { .. } => None,
        Shape::One(_) => Scalar::from_value(&Value::default_value_for_field(field)),
    }
}
