//! The part of a mask that applies to one message, and its use on encoded messages.

use std::collections::BTreeMap;

use mortise_resource::wire::{Cursor, Field, Value, WireError, put_bytes};
use prost_reflect::{Kind, MapKey, MessageDescriptor};

use crate::path::Step;

/// The selected parts of a value.
#[derive(Debug, Clone)]
pub(super) enum Selection {
    /// The whole value.
    Whole,
    /// These fields of a message, or of each message of a list. Selects nothing if there are no fields.
    Fields { message: Option<MessageDescriptor>, fields: BTreeMap<u32, Selection> },
    /// These entries of a map.
    Keys { kind: Kind, keys: BTreeMap<MapKey, Selection> },
}

impl Selection {
    pub(super) fn nothing() -> Self {
        Self::Fields { message: None, fields: BTreeMap::new() }
    }

    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Fields { fields, .. } if fields.is_empty())
    }

    /// The selection within a field.
    pub(super) fn field(&self, number: u32) -> Option<&Self> {
        match self {
            Self::Whole => Some(self),
            Self::Fields { fields, .. } => fields.get(&number),
            Self::Keys { .. } => None,
        }
    }

    /// Adds the value at the end of the steps.
    pub(super) fn add(&mut self, steps: &[Step]) {
        let mut node = self;
        for (index, step) in steps.iter().enumerate() {
            if matches!(node, Self::Whole) {
                return;
            }
            let below = || match steps.get(index + 1) {
                None => Self::Whole,
                Some(Step::Field(_)) => Self::nothing(),
                // Keys follow the field of their map.
                Some(Step::Key(_)) => Self::Keys { kind: key_kind(step), keys: BTreeMap::new() },
            };
            node = match (node, step) {
                (Self::Fields { message, fields }, Step::Field(field)) => {
                    message.get_or_insert_with(|| field.parent_message().clone());
                    fields.entry(field.number()).or_insert_with(below)
                }
                (Self::Keys { keys, .. }, Step::Key(key)) => keys.entry(key.clone()).or_insert_with(below),
                // The steps of a resolved path always fit.
                _ => return,
            };
        }
        *node = Self::Whole;
    }

    /// Keeps the selected parts of an encoded message.
    pub(super) fn project(&self, message: &[u8]) -> Result<Vec<u8>, WireError> {
        let Self::Fields { fields, .. } = self else { return Ok(message.to_vec()) };
        let mut out = Vec::new();
        for field in Cursor::new(message) {
            let field = field?;
            match (fields.get(&field.number), field.value.bytes()) {
                (None, _) => {}
                (Some(Self::Whole), _) => out.extend_from_slice(field.raw),
                (Some(below @ Self::Fields { .. }), Some(inner)) => {
                    put_bytes(field.number, &below.project(inner)?, &mut out);
                }
                (Some(Self::Keys { kind, keys }), Some(entry)) => {
                    let key = entry_key(entry, kind)?;
                    match key.and_then(|key| keys.get(&key)) {
                        None => {}
                        Some(Self::Whole) => out.extend_from_slice(field.raw),
                        Some(below) => put_bytes(field.number, &below.project_entry(entry)?, &mut out),
                    }
                }
                // The descriptor expects another kind here; a decoder rejects the field.
                (Some(_), None) => out.extend_from_slice(field.raw),
            }
        }
        Ok(out)
    }

    fn project_entry(&self, entry: &[u8]) -> Result<Vec<u8>, WireError> {
        let mut out = Vec::new();
        for field in Cursor::new(entry) {
            let field = field?;
            match (field.number, field.value.bytes()) {
                (2, Some(value)) => put_bytes(2, &self.project(value)?, &mut out),
                _ => out.extend_from_slice(field.raw),
            }
        }
        Ok(out)
    }

    /// The encoded message `stored`, with the selected parts taken from `incoming`. Fields are written by number.
    pub(super) fn merge(&self, stored: &[u8], incoming: &[u8]) -> Result<Vec<u8>, WireError> {
        let Self::Fields { message, fields } = self else { return Ok(incoming.to_vec()) };
        let (mut stored, incoming) = (by_number(stored)?, by_number(incoming)?);
        let mut merged: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for (number, below) in fields {
            let (old, new) = (stored.remove(number).unwrap_or_default(), incoming.get(number));
            let new = new.map(Vec::as_slice).unwrap_or_default();
            if !new.is_empty() {
                for sibling in siblings(message.as_ref(), *number) {
                    stored.remove(&sibling);
                    merged.remove(&sibling);
                }
            }
            let value = match below {
                Self::Whole => raw(new),
                Self::Fields { .. } if old.is_empty() && new.is_empty() => Vec::new(),
                Self::Fields { .. } => {
                    let mut out = Vec::new();
                    put_bytes(*number, &below.merge(&join_parts(&old), &join_parts(new))?, &mut out);
                    out
                }
                Self::Keys { kind, keys } => merge_entries(*number, kind, keys, &old, new)?,
            };
            merged.insert(*number, value);
        }
        for (number, fields) in stored {
            merged.insert(number, raw(&fields));
        }
        Ok(merged.into_values().flatten().collect())
    }
}

/// Replaces the selected entries of a map. Entries are written in the order of their keys.
fn merge_entries(
    number: u32,
    kind: &Kind,
    keys: &BTreeMap<MapKey, Selection>,
    old: &[Field<'_>],
    new: &[Field<'_>],
) -> Result<Vec<u8>, WireError> {
    let (mut old, new) = (entries(old, kind)?, entries(new, kind)?);
    for (key, below) in keys {
        let stored = old.remove(key);
        let entry = match (below, stored, new.get(key)) {
            (Selection::Whole, _, new) => new.cloned(),
            (_, None, None) => None,
            (below, stored, new) => {
                let value = below.merge(&entry_value(stored.as_deref())?, &entry_value(new.map(Vec::as_slice))?)?;
                let key = stored.as_deref().or(new.map(Vec::as_slice)).unwrap_or_default();
                let mut entry: Vec<u8> = fields(key)?
                    .into_iter()
                    .filter(|field| field.number == 1)
                    .flat_map(|key| key.raw.to_vec())
                    .collect();
                put_bytes(2, &value, &mut entry);
                Some(entry)
            }
        };
        if let Some(entry) = entry {
            old.insert(key.clone(), entry);
        }
    }
    let mut out = Vec::new();
    for entry in old.values() {
        put_bytes(number, entry, &mut out);
    }
    Ok(out)
}

/// Encoded entries, by key; of several with one key, the last.
fn entries(fields: &[Field<'_>], kind: &Kind) -> Result<BTreeMap<MapKey, Vec<u8>>, WireError> {
    let mut entries = BTreeMap::new();
    for entry in fields.iter().filter_map(|field| field.value.bytes()) {
        if let Some(key) = entry_key(entry, kind)? {
            entries.insert(key, entry.to_vec());
        }
    }
    Ok(entries)
}

fn entry_value(entry: Option<&[u8]>) -> Result<Vec<u8>, WireError> {
    let values = fields(entry.unwrap_or_default())?.into_iter().filter(|field| field.number == 2);
    Ok(values.filter_map(|field| field.value.bytes()).flatten().copied().collect())
}

/// Reads all fields of a message.
fn fields(message: &[u8]) -> Result<Vec<Field<'_>>, WireError> {
    Cursor::new(message).collect()
}

fn by_number(message: &[u8]) -> Result<BTreeMap<u32, Vec<Field<'_>>>, WireError> {
    let mut numbers: BTreeMap<u32, Vec<Field<'_>>> = BTreeMap::new();
    for field in Cursor::new(message) {
        let field = field?;
        numbers.entry(field.number).or_default().push(field);
    }
    Ok(numbers)
}

fn raw(fields: &[Field<'_>]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.raw).copied().collect()
}

/// Joins a message that is encoded in several parts: a decoder merges parts that follow one another.
fn join_parts(fields: &[Field<'_>]) -> Vec<u8> {
    fields.iter().filter_map(|field| field.value.bytes()).flatten().copied().collect()
}

/// The other members of a field's oneof.
fn siblings(message: Option<&MessageDescriptor>, number: u32) -> Vec<u32> {
    let oneof = message.and_then(|message| message.get_field(number)).and_then(|field| field.containing_oneof());
    let numbers = |oneof: prost_reflect::OneofDescriptor| oneof.fields().map(|field| field.number()).collect();
    let all: Vec<u32> = oneof.map(numbers).unwrap_or_default();
    all.into_iter().filter(|sibling| *sibling != number).collect()
}

fn key_kind(step: &Step) -> Kind {
    match step {
        Step::Field(field) => match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_key_field().kind(),
            kind => kind,
        },
        Step::Key(_) => Kind::String,
    }
}

/// The key of an encoded entry of a map; the zero key if it has none. `None` if it is of another kind.
fn entry_key(entry: &[u8], kind: &Kind) -> Result<Option<MapKey>, WireError> {
    let key = fields(entry)?.into_iter().rfind(|field| field.number == 1).map(|field| field.value);
    // As in protobuf, only the lower half of too wide integers counts.
    Ok(match (kind, key) {
        (_, None) => Some(MapKey::default_value(kind)),
        (Kind::Bool, Some(Value::Varint(key))) => Some(MapKey::Bool(key != 0)),
        (Kind::Int32, Some(Value::Varint(key))) => Some(MapKey::I32(key as i32)),
        (Kind::Int64, Some(Value::Varint(key))) => Some(MapKey::I64(key as i64)),
        (Kind::Uint32, Some(Value::Varint(key))) => Some(MapKey::U32(key as u32)),
        (Kind::Uint64, Some(Value::Varint(key))) => Some(MapKey::U64(key)),
        (Kind::Sint32, Some(Value::Varint(key))) => Some(MapKey::I32(unzigzag(key & u64::from(u32::MAX)) as i32)),
        (Kind::Sint64, Some(Value::Varint(key))) => Some(MapKey::I64(unzigzag(key))),
        (Kind::Fixed32, Some(Value::Fixed32(key))) => Some(MapKey::U32(u32::from_le_bytes(key))),
        (Kind::Sfixed32, Some(Value::Fixed32(key))) => Some(MapKey::I32(i32::from_le_bytes(key))),
        (Kind::Fixed64, Some(Value::Fixed64(key))) => Some(MapKey::U64(u64::from_le_bytes(key))),
        (Kind::Sfixed64, Some(Value::Fixed64(key))) => Some(MapKey::I64(i64::from_le_bytes(key))),
        (Kind::String, Some(Value::Bytes(key))) => String::from_utf8(key.to_vec()).ok().map(MapKey::String),
        _ => None,
    })
}

fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}
