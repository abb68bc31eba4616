//! Single values, comparable across their widths in protobuf.

use std::cmp::Ordering;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use crate::value_type::{ValueType, is_wrapper};

/// A single value. Integers of every width, and numbers of enums, are `Int`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A timestamp or a duration.
    Time {
        seconds: i64,
        nanos: i32,
    },
}

impl Scalar {
    /// The value of a field; `None` for messages that are not scalar, lists and maps. Wrappers yield what they wrap.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::I32(value) | Value::EnumNumber(value) => Self::Int((*value).into()),
            Value::I64(value) => Self::Int((*value).into()),
            Value::U32(value) => Self::Int((*value).into()),
            Value::U64(value) => Self::Int((*value).into()),
            Value::F32(value) => Self::Float((*value).into()),
            Value::F64(value) => Self::Float(*value),
            Value::String(value) => Self::Text(value.clone()),
            Value::Bytes(value) => Self::Bytes(value.to_vec()),
            Value::Message(message) => Self::of_message(message)?,
            Value::List(_) | Value::Map(_) => return None,
        })
    }

    fn of_message(message: &DynamicMessage) -> Option<Self> {
        let descriptor = message.descriptor();
        if is_wrapper(descriptor.full_name()) {
            return Self::from_value(message.get_field_by_number(1)?.as_ref());
        }
        match descriptor.full_name() {
            "google.protobuf.Timestamp" | "google.protobuf.Duration" => Some(Self::Time {
                seconds: message.get_field_by_number(1)?.as_i64()?,
                nanos: message.get_field_by_number(2)?.as_i32()?,
            }),
            _ => None,
        }
    }

    /// Compares a field's value with this one; `None` for values without an order between them, such as NaN.
    pub(crate) fn compare(&self, value: &Value) -> Option<Ordering> {
        match (value, self) {
            // Texts and bytes compare without a copy.
            (Value::String(value), Self::Text(text)) => Some(value.as_bytes().cmp(text.as_bytes())),
            (Value::Bytes(value), Self::Bytes(bytes)) => Some(value.as_ref().cmp(bytes.as_slice())),
            (value, own) => Self::from_value(value)?.order(own),
        }
    }

    /// The natural order; `None` across kinds and for NaN.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Text(a), Self::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Time { seconds: a, nanos: m }, Self::Time { seconds: b, nanos: n }) => Some((a, m).cmp(&(b, n))),
            _ => None,
        }
    }

    /// A total order, in which NaN follows every number and zeros are equal.
    pub(crate) fn total_order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => match (a.is_nan(), b.is_nan()) {
                (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
                (a, b) => a.cmp(&b),
            },
            _ => self.order(other).unwrap_or_else(|| self.rank().cmp(&other.rank())),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) => 1,
            Self::Float(_) => 2,
            Self::Text(_) => 3,
            Self::Bytes(_) => 4,
            Self::Time { .. } => 5,
        }
    }

    /// A text that sorts bytewise as the value does among values of its type; `None` for floats.
    pub(crate) fn ordered_text(&self) -> Option<String> {
        /// Larger than the magnitude of any integer of protobuf.
        const BIAS: i128 = 1 << 64;
        Some(match self {
            Self::Bool(value) => u8::from(*value).to_string(),
            Self::Int(number) => format!("{:017x}", number.saturating_add(BIAS)),
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            Self::Time { seconds, nanos } => {
                format!("{:017x}{:017x}", i128::from(*seconds) + BIAS, i128::from(*nanos) + BIAS)
            }
            Self::Float(_) => return None,
        })
    }

    /// The value of a type that [`Scalar::index_text`] has this text for.
    pub(crate) fn of_index_text(value_type: &ValueType, text: &str) -> Option<Self> {
        Some(match value_type {
            ValueType::Bool => Self::Bool(text == "true"),
            ValueType::Int { .. } | ValueType::Enum(_) => Self::Int(text.parse().ok()?),
            ValueType::Text => Self::Text(text.to_owned()),
            ValueType::Bytes => Self::Bytes(STANDARD.decode(text).ok()?),
            ValueType::Timestamp | ValueType::Duration => {
                let (seconds, nanos) = text.split_once('.')?;
                // Nanoseconds of a negative duration are negative.
                Self::Time { seconds: seconds.parse().ok()?, nanos: nanos.parse().ok()? }
            }
            ValueType::Wrapper(inner) => Self::of_index_text(inner, text)?,
            ValueType::Float { .. } | ValueType::Message(_) => return None,
        })
    }

    /// The value as an index holds it; `None` for zero values, which do not show whether a field is present, and for
    /// floats, which have several texts.
    pub(crate) fn index_text(&self) -> Option<String> {
        match self {
            Self::Bool(true) => Some("true".to_owned()),
            Self::Int(number) if *number != 0 => Some(number.to_string()),
            Self::Text(text) if !text.is_empty() => Some(text.clone()),
            Self::Bytes(bytes) if !bytes.is_empty() => Some(STANDARD.encode(bytes)),
            Self::Time { seconds, nanos } => Some(format!("{seconds}.{nanos:09}")),
            _ => None,
        }
    }
}
