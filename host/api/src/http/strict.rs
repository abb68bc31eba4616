//! What protobuf's JSON mapping refuses and the reader that we use would take, so that the writer would have lost something
//! without a word:
//!
//! - a field that stands twice, be it under both of its spellings: one of the two would count;
//! - a whole number of 64 bits that went through floating point (with a point, an exponent, or out of range): it would be another;
//! - a quoted float out of range, which would be infinite;
//! - a leap second, or more than nine digits of one: they would be cut.
//!
//! Reads the text to its end and keeps the names of the objects that it is in, so it costs as much as reading once more. What
//! has a form of its own in JSON (`Struct`, `Any`) is known by the names as they stand.

use std::{collections::HashSet, fmt};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// What the error of a field that stands twice begins with; the name follows, in single quotes.
pub(super) const DUPLICATE: &str = "duplicate field name";

/// Floating point holds every whole number up to here.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads a message for what is refused.
///
/// # Errors
/// It is there, or the text is no JSON.
pub(super) fn check<'de, D: Deserializer<'de>>(message: &MessageDescriptor, from: D) -> Result<(), D::Error> {
    Shape::of(message.clone()).deserialize(from)
}

/// What a value is.
#[derive(Clone)]
enum Shape {
    /// A message with these fields.
    Fields(MessageDescriptor),
    /// Anything else; the names of an object are told apart as they are, and further down are these messages.
    Keys(Option<MessageDescriptor>),
    /// A whole number of 64 bits.
    Whole,
    /// Floating point of 32 or 64 bits.
    Float,
    Double,
    /// A point in time.
    Time,
}

impl Shape {
    fn of(message: MessageDescriptor) -> Self {
        match message.full_name() {
            "google.protobuf.Int64Value" | "google.protobuf.UInt64Value" => Self::Whole,
            "google.protobuf.FloatValue" => Self::Float,
            "google.protobuf.DoubleValue" => Self::Double,
            "google.protobuf.Timestamp" => Self::Time,
            name if name.starts_with("google.protobuf.") => Self::Keys(None),
            _ => Self::Fields(message),
        }
    }

    fn within(field: &FieldDescriptor) -> Self {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => Self::Keys(match entry.map_entry_value_field().kind() {
                Kind::Message(value) => Some(value),
                _ => None,
            }),
            Kind::Message(inner) => Self::of(inner),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => Self::Whole,
            Kind::Float => Self::Float,
            Kind::Double => Self::Double,
            _ => Self::Keys(None),
        }
    }

    /// What the name stands for, and what is below it.
    fn look_up(&self, name: &str) -> (String, Self) {
        match self {
            Self::Fields(message) => {
                let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
                match field {
                    Some(field) => (field.name().to_owned(), Self::within(&field)),
                    None => (name.to_owned(), Self::Keys(None)),
                }
            }
            Self::Keys(Some(value)) => (name.to_owned(), Self::of(value.clone())),
            _ => (name.to_owned(), Self::Keys(None)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let (field, below) = self.look_up(&name);
            if !seen.insert(field) {
                return Err(A::Error::custom(format!("{DUPLICATE} '{name}'")));
            }
            map.next_value_seed(below)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.clone())?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        match self {
            Self::Whole if number.abs() >= EXACT => {
                Err(E::custom("out of range, or a whole number with a point or exponent that may not be exact"))
            }
            _ => Ok(()),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let is_infinite = match self {
            Self::Float => text.parse().is_ok_and(f32::is_infinite),
            Self::Double => text.parse().is_ok_and(f64::is_infinite),
            _ => false,
        };
        if is_infinite && !matches!(text, "Infinity" | "-Infinity") {
            return Err(E::custom("float value out of range"));
        }
        if matches!(self, Self::Time) {
            // `2024-06-30T12:30:60.999999999Z`
            let (second, fraction) = (text.get(17..19), text.get(19..).and_then(|rest| rest.strip_prefix('.')));
            let digits = fraction.map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
            if second == Some("60") || digits > 9 {
                return Err(E::custom("a timestamp has seconds up to 59 and at most nine digits behind the point"));
            }
        }
        Ok(())
    }
}
