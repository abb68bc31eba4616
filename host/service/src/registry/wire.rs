//! The walk over encoded protobuf data along its message's descriptor.
//!
//! It accepts what prost and Go's protobuf both decode: unknown fields are left alone, known ones must have their wire
//! type (packed or not, where both are allowed), strings must be UTF-8, and nesting is bounded. It allocates only for a
//! fault, and for the positions in lists. 512 bytes take well under a microsecond.
//!
//! The walk builds no message, and its faults have a path:
//! docs/decisions/0018-protobuf-data-is-checked-by-a-walk-of-our-own.md.

use mortise_resource::PathStep;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};

/// Deepest nesting of messages; prost and others accept as much.
pub(super) const MAX_DEPTH: usize = 100;

/// A fault, and the steps to its place, innermost first.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) steps: Vec<PathStep>,
    pub(super) what: String,
}

fn fault(what: impl Into<String>) -> Fault {
    Fault { steps: Vec::new(), what: what.into() }
}

const TRUNCATED: &str = "the bytes end too early";

/// Bytes not yet read.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(|| fault(TRUNCATED))?;
            self.0 = rest;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(fault("a number takes more than 64 bits"))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| fault(TRUNCATED))?;
        self.0 = rest;
        Ok(taken)
    }

    fn delimited(&mut self) -> Result<&'a [u8], Fault> {
        let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        self.take(len)
    }
}

/// The encoding of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Delimited,
    GroupStart,
    GroupEnd,
    Fixed32,
}

fn key(bytes: &mut Bytes<'_>) -> Result<(u32, Wire), Fault> {
    let key = u32::try_from(bytes.varint()?).map_err(|_| fault("a field number is out of range"))?;
    let wire = match key & 7 {
        0 => Wire::Varint,
        1 => Wire::Fixed64,
        2 => Wire::Delimited,
        3 => Wire::GroupStart,
        4 => Wire::GroupEnd,
        5 => Wire::Fixed32,
        other => return Err(fault(format!("wire type {other} does not exist"))),
    };
    match key >> 3 {
        0 => Err(fault("field number 0 does not exist")),
        number => Ok((number, wire)),
    }
}

fn wire_of(field: &FieldDescriptor) -> Wire {
    match field.kind() {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => Wire::Fixed64,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => Wire::Fixed32,
        Kind::String | Kind::Bytes => Wire::Delimited,
        Kind::Message(_) if field.is_group() => Wire::GroupStart,
        Kind::Message(_) => Wire::Delimited,
        _ => Wire::Varint,
    }
}

/// Walks one message; `group` is the number of the field that ends it, for a group.
pub(super) fn message(
    descriptor: &MessageDescriptor,
    bytes: &mut Bytes<'_>,
    depth: usize,
    group: Option<u32>,
) -> Result<(), Fault> {
    // Positions in lists, for the path of a fault.
    let mut seen: Vec<(u32, u32)> = Vec::new();
    while !bytes.0.is_empty() {
        let (number, wire) = key(bytes)?;
        if wire == Wire::GroupEnd {
            return if group == Some(number) { Ok(()) } else { Err(fault("a group ends without a beginning")) };
        }
        let Some(field) = descriptor.get_field(number) else {
            skip(bytes, number, wire, depth)?;
            continue;
        };
        let step = |mut inner: Fault, steps: Vec<PathStep>| {
            inner.steps.extend(steps);
            inner.steps.push(PathStep::Field(field.name().to_owned()));
            inner
        };
        let outcome = if field.is_map() {
            entry(&field, bytes, wire, depth).map_err(|(inner, key)| step(inner, vec![PathStep::Key(key)]))
        } else if field.is_list() && wire == Wire::Delimited && wire_of(&field) != Wire::Delimited && !field.is_group()
        {
            packed(&field, bytes).map_err(|(inner, index)| step(inner, vec![PathStep::Index(index)]))
        } else if field.is_list() {
            let index = position(&mut seen, number);
            value(&field, bytes, wire, depth).map_err(|inner| step(inner, vec![PathStep::Index(index)]))
        } else {
            value(&field, bytes, wire, depth).map_err(|inner| step(inner, Vec::new()))
        };
        outcome?;
    }
    if group.is_some() { Err(fault(TRUNCATED)) } else { Ok(()) }
}

fn position(seen: &mut Vec<(u32, u32)>, number: u32) -> u32 {
    if let Some((_, count)) = seen.iter_mut().find(|(n, _)| *n == number) {
        *count += 1;
        return *count;
    }
    seen.push((number, 0));
    0
}

fn value(field: &FieldDescriptor, bytes: &mut Bytes<'_>, wire: Wire, depth: usize) -> Result<(), Fault> {
    let expected = wire_of(field);
    if wire != expected {
        return Err(fault(format!("is written as {wire:?}, but {:?} is written as {expected:?}", field.kind())));
    }
    match (expected, field.kind()) {
        (Wire::Varint, _) => bytes.varint().map(drop),
        (Wire::Fixed64, _) => bytes.take(8).map(drop),
        (Wire::Fixed32, _) => bytes.take(4).map(drop),
        (Wire::GroupStart, Kind::Message(inner)) => {
            let depth = deeper(depth)?;
            message(&inner, bytes, depth, Some(field.number()))
        }
        (_, Kind::Message(inner)) => {
            let depth = deeper(depth)?;
            message(&inner, &mut Bytes(bytes.delimited()?), depth, None)
        }
        (_, Kind::String) => std::str::from_utf8(bytes.delimited()?).map(drop).map_err(|_| fault("is not UTF-8")),
        _ => bytes.delimited().map(drop),
    }
}

fn deeper(depth: usize) -> Result<usize, Fault> {
    depth.checked_sub(1).ok_or_else(|| fault(format!("messages are nested more than {MAX_DEPTH} deep")))
}

/// Walks the scalars of a packed list. A fault comes with its position.
fn packed(field: &FieldDescriptor, bytes: &mut Bytes<'_>) -> Result<(), (Fault, u32)> {
    let mut run = Bytes(bytes.delimited().map_err(|f| (f, 0))?);
    let mut index = 0;
    while !run.0.is_empty() {
        let one = match wire_of(field) {
            Wire::Fixed64 => run.take(8).map(drop),
            Wire::Fixed32 => run.take(4).map(drop),
            _ => run.varint().map(drop),
        };
        one.map_err(|f| (f, index))?;
        index += 1;
    }
    Ok(())
}

/// Walks one entry of a map. A fault comes with the key.
fn entry(field: &FieldDescriptor, bytes: &mut Bytes<'_>, wire: Wire, depth: usize) -> Result<(), (Fault, String)> {
    let unknown = |f| (f, "?".to_owned());
    let Kind::Message(entry) = field.kind() else { return Err(unknown(fault("is not a map"))) };
    if wire != Wire::Delimited {
        return Err(unknown(fault(format!("is written as {wire:?}, but a map is written as Delimited"))));
    }
    let depth = deeper(depth).map_err(unknown)?;
    let inner = bytes.delimited().map_err(unknown)?;
    message(&entry, &mut Bytes(inner), depth, None).map_err(|mut inner_fault| {
        // The entry is a message of key and value; in a path it is the key alone.
        inner_fault.steps.pop();
        let key = DynamicMessage::decode(entry.clone(), inner).ok().map_or_else(
            || first_string(inner).unwrap_or_else(|| "?".into()),
            |decoded| {
                let key = decoded.get_field(&entry.map_entry_key_field());
                key.as_str().map_or_else(|| key.to_string(), str::to_owned)
            },
        );
        (inner_fault, key)
    })
}

/// Returns the key of a map entry that does not decode, if the key comes first, as encoders write it.
fn first_string(entry: &[u8]) -> Option<String> {
    let mut bytes = Bytes(entry);
    match key(&mut bytes).ok()? {
        (1, Wire::Delimited) => String::from_utf8(bytes.delimited().ok()?.to_vec()).ok(),
        (1, Wire::Varint) => Some(bytes.varint().ok()?.to_string()),
        _ => None,
    }
}

fn skip(bytes: &mut Bytes<'_>, number: u32, wire: Wire, depth: usize) -> Result<(), Fault> {
    match wire {
        Wire::Varint => bytes.varint().map(drop),
        Wire::Fixed64 => bytes.take(8).map(drop),
        Wire::Fixed32 => bytes.take(4).map(drop),
        Wire::Delimited => bytes.delimited().map(drop),
        Wire::GroupEnd => Err(fault("a group ends without a beginning")),
        Wire::GroupStart => {
            let depth = deeper(depth)?;
            loop {
                let (inner, wire) = key(bytes)?;
                if wire == Wire::GroupEnd {
                    return if inner == number { Ok(()) } else { Err(fault("groups overlap")) };
                }
                skip(bytes, inner, wire, depth)?;
            }
        }
    }
}
