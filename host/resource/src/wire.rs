//! A cursor over the protobuf wire format: the fields of an encoded message, in the order of their bytes.
//!
//! # Contract
//! The cursor accepts the bytes that prost and Go's protobuf both accept. It knows no schema: a nested message is a
//! field of bytes, and its reader bounds the nesting by [`MAX_DEPTH`]. A group is skipped as a whole; groups nest at
//! most [`MAX_DEPTH`] deep. After an error the cursor is at its end.
//!
//! # Cost
//! The cursor copies and allocates nothing. A field takes a few nanoseconds.

use prost::encoding::{self, encode_key, encode_varint};

use crate::FieldFault;

/// Deepest nesting of messages and groups; prost and others accept as much.
pub const MAX_DEPTH: usize = 100;

/// Most bytes of a number.
const VARINT_BYTES: usize = 10;

/// The reason why bytes are not an encoded message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end within a field or a group.
    #[error("the bytes end too early")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("a number takes more than 64 bits")]
    LongNumber,
    /// A key has more than 32 bits.
    #[error("a field number is out of range")]
    FieldNumber,
    /// A key has the field number 0.
    #[error("field number 0 does not exist")]
    FieldZero,
    /// A key has the wire type 6 or 7.
    #[error("wire type {0} does not exist")]
    UnknownType(u32),
    /// A group ends outside of a group.
    #[error("a group ends without a beginning")]
    StrayGroupEnd,
    /// A group ends within another one.
    #[error("groups overlap")]
    OverlappingGroups,
    /// Messages or groups are nested too deep.
    #[error("messages are nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

impl From<WireError> for FieldFault {
    fn from(fault: WireError) -> Self {
        Self::new(fault.to_string())
    }
}

/// The encoding of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireType {
    /// A number of 1 to 10 bytes.
    Varint,
    /// 8 bytes.
    Fixed64,
    /// A length and as many bytes.
    Delimited,
    /// The beginning of a group.
    GroupStart,
    /// The end of a group.
    GroupEnd,
    /// 4 bytes.
    Fixed32,
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'b> {
    /// Number of the field; at least 1.
    pub number: u32,
    /// Content of the field.
    pub value: Value<'b>,
    /// All bytes of the field, key included.
    pub raw: &'b [u8],
}

/// Content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'b> {
    /// A number, as it is encoded: signed ones of `sint32` and `sint64` in zigzag.
    Varint(u64),
    /// 8 bytes, lowest first.
    Fixed64([u8; 8]),
    /// A text, bytes, a message, or a packed list.
    Bytes(&'b [u8]),
    /// A group; its bytes are those of the field.
    Group,
    /// 4 bytes, lowest first.
    Fixed32([u8; 4]),
}

impl<'b> Value<'b> {
    /// The bytes of a message or a text; `None` for another encoding.
    #[must_use]
    pub fn bytes(self) -> Option<&'b [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The bytes that are not read yet.
#[derive(Debug, Clone)]
pub struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    /// Begins at the first field of a message.
    #[must_use]
    pub fn new(message: &'b [u8]) -> Self {
        Self(message)
    }

    /// Whether every byte is read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a number.
    ///
    /// # Errors
    /// [`WireError::Truncated`] and [`WireError::LongNumber`].
    #[inline]
    pub fn varint(&mut self) -> Result<u64, WireError> {
        match self.0.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.0 = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for (position, &byte) in self.0.iter().enumerate().take(VARINT_BYTES) {
            if position == VARINT_BYTES - 1 && byte > 1 {
                return Err(WireError::LongNumber);
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte < 0x80 {
                self.0 = self.0.get(position + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(WireError::Truncated)
    }

    #[inline]
    fn bytes(&mut self, length: usize) -> Result<&'b [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads a length and as many bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`] and [`WireError::LongNumber`].
    #[inline]
    pub fn delimited(&mut self) -> Result<&'b [u8], WireError> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        self.bytes(length)
    }

    /// Reads the key of a field: its number and the encoding of its value.
    ///
    /// # Errors
    /// The key is malformed.
    #[inline]
    pub fn key(&mut self) -> Result<(u32, WireType), WireError> {
        let key = u32::try_from(self.varint()?).map_err(|_| WireError::FieldNumber)?;
        let wire_type = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Delimited,
            3 => WireType::GroupStart,
            4 => WireType::GroupEnd,
            5 => WireType::Fixed32,
            other => return Err(WireError::UnknownType(other)),
        };
        match key >> 3 {
            0 => Err(WireError::FieldZero),
            number => Ok((number, wire_type)),
        }
    }

    /// Skips the value after a key, groups at most `depth` levels deep.
    ///
    /// # Errors
    /// The value is malformed, or groups are nested deeper.
    pub fn skip_value(&mut self, number: u32, wire_type: WireType, depth: usize) -> Result<(), WireError> {
        match wire_type {
            WireType::Varint => self.varint().map(drop),
            WireType::Fixed64 => self.bytes(8).map(drop),
            WireType::Fixed32 => self.bytes(4).map(drop),
            WireType::Delimited => self.delimited().map(drop),
            WireType::GroupEnd => Err(WireError::StrayGroupEnd),
            WireType::GroupStart => {
                let depth = deeper(depth)?;
                loop {
                    match self.key()? {
                        (inner, WireType::GroupEnd) if inner == number => return Ok(()),
                        (_, WireType::GroupEnd) => return Err(WireError::OverlappingGroups),
                        (inner, wire_type) => self.skip_value(inner, wire_type, depth)?,
                    }
                }
            }
        }
    }

    #[inline]
    fn field(&mut self) -> Result<Field<'b>, WireError> {
        let begin = self.0;
        let (number, wire_type) = self.key()?;
        let value = match wire_type {
            WireType::Delimited => Value::Bytes(self.delimited()?),
            WireType::Varint => Value::Varint(self.varint()?),
            WireType::Fixed64 => Value::Fixed64(self.fixed()?),
            WireType::Fixed32 => Value::Fixed32(self.fixed()?),
            WireType::GroupStart | WireType::GroupEnd => {
                self.skip_value(number, wire_type, MAX_DEPTH)?;
                Value::Group
            }
        };
        Ok(Field { number, value, raw: begin.get(..begin.len() - self.0.len()).unwrap_or_default() })
    }
}

impl<'b> Iterator for Cursor<'b> {
    type Item = Result<Field<'b>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// The depth that is left within a message or a group.
///
/// # Errors
/// [`WireError::TooDeep`].
pub fn deeper(depth: usize) -> Result<usize, WireError> {
    depth.checked_sub(1).ok_or(WireError::TooDeep)
}

/// Appends a field with the bytes of a message or a text.
pub fn put_bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    encode_key(number, encoding::WireType::LengthDelimited, out);
    encode_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use prost::{
        Message,
        encoding::{DecodeContext, decode_key, skip_field},
    };

    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Field<'_>>, WireError> {
        Cursor::new(bytes).collect()
    }

    /// Whether prost reads the bytes as fields.
    fn prost_reads(mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Ok((number, wire_type)) = decode_key(&mut bytes) else { return false };
            if skip_field(wire_type, number, &mut bytes, DecodeContext::default()).is_err() {
                return false;
            }
        }
        true
    }

    fn groups(depth: usize) -> Vec<u8> {
        [vec![0x0b; depth], vec![0x0c; depth]].concat()
    }

    #[test]
    fn fields_have_their_number_value_and_bytes() {
        let bytes = [8, 0x96, 1, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, b'h', b'i', 0x23, 8, 1, 0x24, 0x2d, 1, 2, 3, 4];
        let expected = [
            (1, Value::Varint(150), 0..3),
            (2, Value::Fixed64([1, 2, 3, 4, 5, 6, 7, 8]), 3..12),
            (3, Value::Bytes(b"hi"), 12..16),
            (4, Value::Group, 16..20),
            (5, Value::Fixed32([1, 2, 3, 4]), 20..25),
        ];
        let expected = expected.map(|(number, value, range)| Field { number, value, raw: &bytes[range] });
        assert_eq!(read(&bytes).unwrap(), expected);
        assert_eq!(read(&[]).unwrap(), []);
    }

    #[test]
    fn malformed_bytes_are_an_error_and_the_end() {
        let long = [&[8][..], &[0xff; 9], &[2]].concat();
        for (bytes, fault) in [
            (&[0x80][..], WireError::Truncated),
            (&[8], WireError::Truncated),
            (&[0x0a, 5, 0], WireError::Truncated),
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], WireError::Truncated),
            (&[0x0d, 1, 2, 3], WireError::Truncated),
            (&[0x09, 1, 2, 3, 4, 5, 6, 7], WireError::Truncated),
            (&[0x0b, 8, 1], WireError::Truncated),
            (&long, WireError::LongNumber),
            (&[0xff, 0xff, 0xff, 0xff, 0x7f], WireError::FieldNumber),
            (&[0, 1], WireError::FieldZero),
            (&[0x0e], WireError::UnknownType(6)),
            (&[0x0f], WireError::UnknownType(7)),
            (&[0x0c], WireError::StrayGroupEnd),
            (&[0x0b, 0x14, 0x0c], WireError::OverlappingGroups),
            (&groups(101), WireError::TooDeep),
            (&groups(100_000), WireError::TooDeep),
        ] {
            let mut cursor = Cursor::new(bytes);
            assert_eq!(cursor.next(), Some(Err(fault)), "{bytes:?}");
            assert_eq!(cursor.next(), None, "{bytes:?}");
            assert!(!prost_reads(bytes), "{bytes:?}");
        }
        assert_eq!(read(&groups(100)).unwrap().len(), 1);
        assert_eq!(
            read(&[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).unwrap()[0].value,
            Value::Varint(u64::MAX)
        );
    }

    /// Bytes of a real message with each bit flipped, and cut off after each byte.
    #[test]
    fn the_cursor_reads_what_prost_reads() {
        let field =
            prost_types::FieldDescriptorProto { name: Some("név".into()), number: Some(300), ..Default::default() };
        let message = prost_types::DescriptorProto { name: Some("M".into()), field: vec![field], ..Default::default() };
        let group = [0x23, 8, 1, 0x2b, 0x2c, 0x24, 0x2d, 1, 2, 3, 4, 0x31, 1, 2, 3, 4, 5, 6, 7, 8, 0x38, 0xff, 0xff, 3];
        let bytes = [message.encode_to_vec(), group.to_vec()].concat();
        let (mut read_ones, mut refused) = (0, 0);
        for length in 0..=bytes.len() {
            for bit in 0..length * 8 {
                let mut broken = bytes[..length].to_vec();
                broken[bit / 8] ^= 1 << (bit % 8);
                let is_read = read(&broken).is_ok();
                assert_eq!(is_read, prost_reads(&broken), "{broken:?}");
                *if is_read { &mut read_ones } else { &mut refused } += 1;
            }
        }
        assert!(read_ones > 500 && refused > 500, "{read_ones} read, {refused} refused");
    }

    #[test]
    fn written_bytes_are_read_back() {
        let (content, mut out) = (vec![7; 300], Vec::new());
        put_bytes(1001, &content, &mut out);
        assert_eq!(read(&out).unwrap(), [Field { number: 1001, value: Value::Bytes(&content), raw: &out }]);
    }
}
