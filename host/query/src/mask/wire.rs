//! The records of an encoded message: the bytes of its fields, one after the other.

use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field},
};
use prost_reflect::{Kind, MapKey};

/// A record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'b> {
    pub(super) number: u32,
    pub(super) value: WireValue<'b>,
    /// All bytes of the record, with its number.
    pub(super) raw: &'b [u8],
}

/// Content of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum WireValue<'b> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(&'b [u8]),
    Group,
}

/// The records of a message, in their order.
pub(super) fn records(mut bytes: &[u8]) -> Result<Vec<Record<'_>>, DecodeError> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let begin = bytes;
        let (number, wire_type) = decode_key(&mut bytes)?;
        let content = bytes;
        skip_field(wire_type, number, &mut bytes, DecodeContext::default())?;
        let passed = |of: &'_ [u8]| of.len() - bytes.len();
        let raw = begin.get(..passed(begin)).unwrap_or_default();
        let content = content.get(..passed(content)).unwrap_or_default();
        records.push(Record { number, value: WireValue::of(wire_type, content)?, raw });
    }
    Ok(records)
}

impl<'b> WireValue<'b> {
    fn of(wire_type: WireType, mut content: &'b [u8]) -> Result<Self, DecodeError> {
        Ok(match wire_type {
            WireType::Varint => Self::Varint(decode_varint(&mut content)?),
            WireType::LengthDelimited => {
                decode_varint(&mut content)?;
                Self::Bytes(content)
            }
            WireType::ThirtyTwoBit => content.try_into().map_or(Self::Group, Self::Fixed32),
            WireType::SixtyFourBit => content.try_into().map_or(Self::Group, Self::Fixed64),
            WireType::StartGroup | WireType::EndGroup => Self::Group,
        })
    }

    /// The bytes of a message or a text.
    pub(super) fn bytes(self) -> Option<&'b [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Writes a record of bytes.
pub(super) fn write(number: u32, content: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(u64::try_from(content.len()).unwrap_or(u64::MAX), out);
    out.extend_from_slice(content);
}

/// The key of an encoded entry of a map; the zero key if it has none. `None` if it is of another kind.
pub(super) fn entry_key(entry: &[u8], kind: &Kind) -> Result<Option<MapKey>, DecodeError> {
    let key = records(entry)?.into_iter().rfind(|record| record.number == 1).map(|record| record.value);
    // As in protobuf, only the lower half of too wide integers counts.
    Ok(match (kind, key) {
        (_, None) => Some(MapKey::default_value(kind)),
        (Kind::Bool, Some(WireValue::Varint(key))) => Some(MapKey::Bool(key != 0)),
        (Kind::Int32, Some(WireValue::Varint(key))) => Some(MapKey::I32(key as i32)),
        (Kind::Int64, Some(WireValue::Varint(key))) => Some(MapKey::I64(key as i64)),
        (Kind::Uint32, Some(WireValue::Varint(key))) => Some(MapKey::U32(key as u32)),
        (Kind::Uint64, Some(WireValue::Varint(key))) => Some(MapKey::U64(key)),
        (Kind::Sint32, Some(WireValue::Varint(key))) => Some(MapKey::I32(unzigzag(key & u64::from(u32::MAX)) as i32)),
        (Kind::Sint64, Some(WireValue::Varint(key))) => Some(MapKey::I64(unzigzag(key))),
        (Kind::Fixed32, Some(WireValue::Fixed32(key))) => Some(MapKey::U32(u32::from_le_bytes(key))),
        (Kind::Sfixed32, Some(WireValue::Fixed32(key))) => Some(MapKey::I32(i32::from_le_bytes(key))),
        (Kind::Fixed64, Some(WireValue::Fixed64(key))) => Some(MapKey::U64(u64::from_le_bytes(key))),
        (Kind::Sfixed64, Some(WireValue::Fixed64(key))) => Some(MapKey::I64(i64::from_le_bytes(key))),
        (Kind::String, Some(WireValue::Bytes(key))) => String::from_utf8(key.to_vec()).ok().map(MapKey::String),
        _ => None,
    })
}

fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}
