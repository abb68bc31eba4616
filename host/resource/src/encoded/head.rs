//! The head of an encoded resource: the positions of the parts that rules ask for, found by one walk over its fields.

use std::{ops::Range, str};

use super::EncodingError;
use crate::{
    meta::DELETION_TIMESTAMP,
    wire::{Cursor, Field, MAX_DEPTH, Value, WireType},
};

/// Range of a field in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Number of the resource's field `meta`.
const META: u32 = 1001;
/// Number of the resource's field with the records of its references.
pub(super) const REFERENCES: u32 = 1002;

/// Positions of the fields that rules ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) id: Option<Span>,
    pub(super) group: Span,
    pub(super) group_version: Span,
    pub(super) kind: Span,
    pub(super) partition: Span,
    pub(super) namespace: Span,
    pub(super) name: Span,
    pub(super) uid: Span,
    pub(super) owner: Option<Span>,
    pub(super) version: Span,
    pub(super) generation: Span,
    pub(super) deletion_mark: Option<Span>,
    pub(super) schema_version: u32,
    pub(super) meta: Option<Span>,
    /// Bytes of the records of references, tags and lengths included.
    pub(super) references: u32,
}

pub(super) fn part(bytes: &[u8], span: Span) -> &[u8] {
    bytes.get(span.range()).unwrap_or_default()
}

/// Passes on the fields of a message that are texts or messages; skips others.
fn each_delimited<'b>(
    message: &'b [u8],
    mut each: impl FnMut(u32, &'b [u8]) -> Result<(), EncodingError>,
) -> Result<(), EncodingError> {
    let mut rest = Cursor::new(message);
    while !rest.is_empty() {
        match rest.key()? {
            (number, WireType::Delimited) => each(number, rest.delimited()?)?,
            (number, other) => rest.skip_value(number, other, MAX_DEPTH)?,
        }
    }
    Ok(())
}

/// Key and value of a map's entry.
pub(super) fn entry(bytes: &[u8]) -> Result<(&[u8], &[u8]), EncodingError> {
    let (mut key, mut value) = (&[][..], &[][..]);
    each_delimited(bytes, |number, found| {
        match number {
            1 => key = found,
            2 => value = found,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

impl Head {
    /// Walks over the fields; `None` when a message occurs several times.
    pub(super) fn find(bytes: &[u8]) -> Result<Option<Self>, EncodingError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(EncodingError::TooLong(bytes.len()));
        }
        let mut head = Self::default();
        for field in Cursor::new(bytes) {
            let Field { number, value, raw } = field?;
            match (number, value) {
                (1, Value::Bytes(id)) if head.id.is_none() => {
                    head.id = Some(span(bytes, id));
                    if !head.find_id(bytes, id)? {
                        return Ok(None);
                    }
                }
                (2, Value::Bytes(owner)) if head.owner.is_none() => head.owner = Some(span(bytes, owner)),
                (1 | 2, Value::Bytes(_)) => return Ok(None),
                (3, Value::Bytes(version)) => head.version = text(bytes, version)?,
                (4, Value::Bytes(generation)) => head.generation = text(bytes, generation)?,
                (5, Value::Bytes(metadata)) => {
                    let (key, mark) = entry(metadata)?;
                    let mark = text(bytes, mark)?;
                    if key == DELETION_TIMESTAMP.as_bytes() {
                        head.deletion_mark = Some(mark);
                    }
                }
                // Protobuf keeps the lower 32 bits of a longer number.
                (1000, Value::Varint(version)) => head.schema_version = version as u32,
                (META, Value::Bytes(meta)) if head.meta.is_none() => head.meta = Some(span(bytes, meta)),
                (REFERENCES, Value::Bytes(_)) => head.references += u32::try_from(raw.len()).unwrap_or_default(),
                (1..=7 | META | REFERENCES, value) if value.bytes().is_none() => return Ok(None),
                (1000 | META, _) => return Ok(None),
                _ => {}
            }
        }
        Ok(Some(head))
    }

    /// Finds the parts of the id; false when one of its messages occurs several times.
    fn find_id(&mut self, bytes: &[u8], id: &[u8]) -> Result<bool, EncodingError> {
        let (mut types, mut tenancies) = (0, 0);
        each_delimited(id, |number, content| {
            match number {
                1 => self.uid = text(bytes, content)?,
                2 => self.name = text(bytes, content)?,
                3 => {
                    types += 1;
                    each_delimited(content, |number, part| {
                        match number {
                            1 => self.group = text(bytes, part)?,
                            2 => self.group_version = text(bytes, part)?,
                            3 => self.kind = text(bytes, part)?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                }
                4 => {
                    tenancies += 1;
                    let (partition, namespace) = entry(content)?;
                    (self.partition, self.namespace) = (text(bytes, partition)?, text(bytes, namespace)?);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(types <= 1 && tenancies <= 1)
    }
}

/// Position of a part that a cursor found in the bytes; an empty part is at 0, wherever it is.
fn span(bytes: &[u8], part: &[u8]) -> Span {
    if part.is_empty() {
        return Span::default();
    }
    let start = part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
    let position = |offset| u32::try_from(offset).unwrap_or_default();
    Span { start: position(start), end: position(start + part.len()) }
}

/// Checks that a part is UTF-8, and returns its position.
fn text(bytes: &[u8], part: &[u8]) -> Result<Span, EncodingError> {
    // Most texts are short and plain, which is found out sooner.
    if !part.is_ascii() {
        str::from_utf8(part)?;
    }
    Ok(span(bytes, part))
}
