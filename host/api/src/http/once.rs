//! That no field stands twice in a text, be it under both of its spellings: protobuf's JSON mapping has no say which of the
//! two counts, and whichever were taken, the writer would have lost the other without a word.
//!
//! Reads the text to its end and keeps the names of the objects that it is in, so it costs as much as reading once more. What
//! has a form of its own in JSON (`Struct`, `Any`) is known by the names as they stand.

use std::{collections::HashSet, fmt};

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// What an error begins with; the name follows, in single quotes.
pub(super) const DUPLICATE: &str = "duplicate field name";

/// Reads a message, or a list of them, for its names only.
///
/// # Errors
/// A name stands twice, or the text is no JSON.
pub(super) fn check<'de, D: Deserializer<'de>>(message: &MessageDescriptor, from: D) -> Result<(), D::Error> {
    Names::of(message.clone()).deserialize(from)
}

/// How the names of an object are told apart.
#[derive(Clone)]
enum Names {
    /// As a message's fields.
    Fields(MessageDescriptor),
    /// As they are; further down as the value has them.
    Keys(Option<MessageDescriptor>),
}

impl Names {
    fn of(message: MessageDescriptor) -> Self {
        match message.full_name().starts_with("google.protobuf.") {
            true => Self::Keys(None),
            false => Self::Fields(message),
        }
    }

    fn within(field: &FieldDescriptor) -> Self {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => Self::Keys(match entry.map_entry_value_field().kind() {
                Kind::Message(value) => Some(value),
                _ => None,
            }),
            Kind::Message(inner) => Self::of(inner),
            _ => Self::Keys(None),
        }
    }

    /// What the name stands for, and how it goes on below it.
    fn look_up(&self, name: &str) -> (String, Self) {
        match self {
            Self::Fields(message) => {
                let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
                match field {
                    Some(field) => (field.name().to_owned(), Self::within(&field)),
                    None => (name.to_owned(), Self::Keys(None)),
                }
            }
            Self::Keys(value) => (name.to_owned(), value.clone().map_or(Self::Keys(None), Self::of)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Names {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Names {
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

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}
