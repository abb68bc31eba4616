//! The walk over encoded protobuf data along its message's descriptor.
//!
//! It accepts what prost and Go's protobuf both decode: unknown fields are left alone, known ones must have their wire
//! type (packed or not, where both are allowed), strings must be UTF-8, and nesting is bounded. It allocates only for a
//! fault, and for the positions in lists. 512 bytes take well under a microsecond.
//!
//! The walk builds no message, and its faults have a path:
//! docs/decisions/0018-protobuf-data-is-checked-by-a-walk-of-our-own.md.

use mortise_resource::{
    FieldFault, PathStep,
    wire::{Cursor, Field, MAX_DEPTH, Value, WireError, WireType, deeper},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};

/// Checks that bytes are an instance of a message.
pub(super) fn check(descriptor: &MessageDescriptor, bytes: &[u8]) -> Result<(), FieldFault> {
    message(descriptor, &mut Cursor::new(bytes), MAX_DEPTH, None)
}

fn wire_of(field: &FieldDescriptor) -> WireType {
    match field.kind() {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::Fixed64,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => WireType::Fixed32,
        Kind::String | Kind::Bytes => WireType::Delimited,
        Kind::Message(_) if field.is_group() => WireType::GroupStart,
        Kind::Message(_) => WireType::Delimited,
        _ => WireType::Varint,
    }
}

/// Walks one message; `group` is the number of the field that ends it, for a group.
fn message(
    descriptor: &MessageDescriptor,
    bytes: &mut Cursor<'_>,
    depth: usize,
    group: Option<u32>,
) -> Result<(), FieldFault> {
    // Positions in lists, for the path of a fault.
    let mut seen: Vec<(u32, u32)> = Vec::new();
    while !bytes.is_empty() {
        let (number, wire) = bytes.key()?;
        if wire == WireType::GroupEnd {
            return if group == Some(number) { Ok(()) } else { Err(WireError::StrayGroupEnd.into()) };
        }
        let Some(field) = descriptor.get_field(number) else {
            bytes.skip_value(number, wire, depth)?;
            continue;
        };
        let is_packed = || wire == WireType::Delimited && wire_of(&field) != WireType::Delimited && !field.is_group();
        let outcome = if field.is_map() {
            entry(&field, bytes, wire, depth).map_err(|(inner, key)| inner.within(PathStep::Key(key)))
        } else if field.is_list() && is_packed() {
            packed(&field, bytes)
                .map_err(|(inner, index)| FieldFault::<String>::from(inner).within(PathStep::Index(index)))
        } else if field.is_list() {
            let index = position(&mut seen, number);
            value(&field, bytes, wire, depth).map_err(|inner| inner.within(PathStep::Index(index)))
        } else {
            value(&field, bytes, wire, depth)
        };
        outcome.map_err(|inner| inner.within(PathStep::Field(field.name().to_owned())))?;
    }
    if group.is_some() { Err(WireError::Truncated.into()) } else { Ok(()) }
}

fn position(seen: &mut Vec<(u32, u32)>, number: u32) -> u32 {
    if let Some((_, count)) = seen.iter_mut().find(|(n, _)| *n == number) {
        *count += 1;
        return *count;
    }
    seen.push((number, 0));
    0
}

fn value(field: &FieldDescriptor, bytes: &mut Cursor<'_>, wire: WireType, depth: usize) -> Result<(), FieldFault> {
    let expected = wire_of(field);
    if wire != expected {
        let fault = format!("is written as {wire:?}, but {:?} is written as {expected:?}", field.kind());
        return Err(FieldFault::new(fault));
    }
    match (expected, field.kind()) {
        (WireType::GroupStart, Kind::Message(inner)) => message(&inner, bytes, deeper(depth)?, Some(field.number())),
        (_, Kind::Message(inner)) => {
            let depth = deeper(depth)?;
            message(&inner, &mut Cursor::new(bytes.delimited()?), depth, None)
        }
        (_, Kind::String) => {
            std::str::from_utf8(bytes.delimited()?).map(drop).map_err(|_| FieldFault::new("is not UTF-8"))
        }
        _ => Ok(bytes.skip_value(field.number(), wire, depth)?),
    }
}

/// Walks the scalars of a packed list. A fault comes with its position.
fn packed(field: &FieldDescriptor, bytes: &mut Cursor<'_>) -> Result<(), (WireError, u32)> {
    let mut run = Cursor::new(bytes.delimited().map_err(|fault| (fault, 0))?);
    let mut index = 0;
    while !run.is_empty() {
        run.skip_value(field.number(), wire_of(field), 0).map_err(|fault| (fault, index))?;
        index += 1;
    }
    Ok(())
}

/// Walks one entry of a map. A fault comes with the key.
fn entry(
    field: &FieldDescriptor,
    bytes: &mut Cursor<'_>,
    wire: WireType,
    depth: usize,
) -> Result<(), (FieldFault, String)> {
    let unknown = |fault| (fault, "?".to_owned());
    let Kind::Message(entry) = field.kind() else { return Err(unknown(FieldFault::new("is not a map"))) };
    if wire != WireType::Delimited {
        let fault = format!("is written as {wire:?}, but a map is written as Delimited");
        return Err(unknown(FieldFault::new(fault)));
    }
    let depth = deeper(depth).map_err(|fault| unknown(fault.into()))?;
    let inner = bytes.delimited().map_err(|fault| unknown(fault.into()))?;
    message(&entry, &mut Cursor::new(inner), depth, None).map_err(|mut fault| {
        // The entry is a message of key and value; in a path it is the key alone.
        fault.path.0.drain(..1.min(fault.path.0.len()));
        let key = DynamicMessage::decode(entry.clone(), inner).ok().map_or_else(
            || first_key(inner).unwrap_or_else(|| "?".into()),
            |decoded| {
                let key = decoded.get_field(&entry.map_entry_key_field());
                key.as_str().map_or_else(|| key.to_string(), str::to_owned)
            },
        );
        (fault, key)
    })
}

/// Returns the key of a map entry that does not decode, if the key comes first, as encoders write it.
fn first_key(entry: &[u8]) -> Option<String> {
    match Cursor::new(entry).next()?.ok()? {
        Field { number: 1, value: Value::Bytes(key), .. } => String::from_utf8(key.to_vec()).ok(),
        Field { number: 1, value: Value::Varint(key), .. } => Some(key.to_string()),
        _ => None,
    }
}
