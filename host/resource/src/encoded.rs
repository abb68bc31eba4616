//! Resources in the form in which they are stored and sent: the encoded bytes, and the positions of the fields that the
//! service's rules need (the *head*): id, owner, version, generation, deletion mark, schema version, meta.
//!
//! Code that passes a resource on hands on its bytes; code that needs its content decodes it. The head is found once,
//! when bytes come from the store or a write makes them, by one walk over the fields that copies nothing.
//!
//! # Contract
//! The bytes are an encoded `hashicorp.consul.resource.Resource` in which each message of the head occurs once. If one
//! occurs several times, which protobuf merges, the resource is decoded and encoded again. Clones share the bytes.
//!
//! # Cost
//! A head takes 128 bytes; finding it takes about 0.1 µs. Reading a text checks again that its bytes are UTF-8.

use std::{ops::Range, str};

use prost::{
    DecodeError, Message as _,
    bytes::{Buf as _, Bytes},
    encoding::{self, DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use crate::{Error, IdRef, data::ReferenceRecord, goten::Meta, meta::DELETION_TIMESTAMP, pb, types::Gvk};

/// A resource as it is stored and sent. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedResource {
    bytes: Bytes,
    head: Head,
}

/// The reason why bytes are not a resource.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// The bytes do not decode.
    #[error("the resource cannot be decoded: {0}")]
    Undecodable(#[from] DecodeError),
    /// A text of the id, the version or the generation is not UTF-8.
    #[error("the resource cannot be decoded: a text is not UTF-8")]
    InvalidUtf8(#[from] str::Utf8Error),
    /// The resource has 4 GiB or more.
    #[error("the resource has {0} bytes; the limit is 4 GiB")]
    TooLong(usize),
}

impl From<EncodingError> for Error {
    /// Reports a stored resource that does not decode; it was checked before, so the fault is in the host.
    fn from(fault: EncodingError) -> Self {
        Self::internal(format!("a stored resource: {fault}"))
    }
}

/// Range of a field in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
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
const REFERENCES: u32 = 1002;
/// Number of the meta's field `labels`.
const LABELS: u32 = 5;

/// Positions of the fields that rules ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Head {
    id: Option<Span>,
    group: Span,
    group_version: Span,
    kind: Span,
    partition: Span,
    namespace: Span,
    name: Span,
    uid: Span,
    owner: Option<Span>,
    version: Span,
    generation: Span,
    deletion_mark: Option<Span>,
    schema_version: u32,
    meta: Option<Span>,
    /// Bytes of the records of references, tags and lengths included.
    references: u32,
}

impl EncodedResource {
    /// Finds the head in the bytes.
    ///
    /// # Errors
    /// The bytes are not an encoded resource. The content outside of the head is not decoded, so its faults may stay
    /// unnoticed.
    pub fn parse(bytes: Bytes) -> Result<Self, EncodingError> {
        match Self::with_head(bytes.clone()) {
            Ok(Some(resource)) => Ok(resource),
            Err(fault @ EncodingError::TooLong(_)) => Err(fault),
            // Repeated messages have to be merged; other faults get the decoder's error.
            Ok(None) | Err(_) => Self::encode(&pb::Resource::decode(bytes)?),
        }
    }

    /// Encodes a resource.
    ///
    /// # Errors
    /// [`EncodingError::TooLong`].
    pub fn encode(resource: &pb::Resource) -> Result<Self, EncodingError> {
        let bytes = Bytes::from(resource.encode_to_vec());
        let length = bytes.len();
        // An encoder writes each message once.
        Self::with_head(bytes)?.ok_or(EncodingError::TooLong(length))
    }

    /// Finds the head; `None` when one of its messages occurs several times.
    fn with_head(bytes: Bytes) -> Result<Option<Self>, EncodingError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(EncodingError::TooLong(bytes.len()));
        }
        Ok(Head::find(&bytes)?.map(|head| Self { bytes, head }))
    }

    /// The encoded bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Decodes the whole resource.
    ///
    /// # Errors
    /// Its content does not decode.
    pub fn decode(&self) -> Result<pb::Resource, EncodingError> {
        Ok(pb::Resource::decode(self.bytes.clone())?)
    }

    /// The parts of the resource's id.
    #[must_use]
    pub fn id(&self) -> IdRef<'_> {
        let Head { group, group_version, kind, partition, namespace, name, uid, .. } = self.head;
        IdRef {
            group: self.text(group),
            group_version: self.text(group_version),
            kind: self.text(kind),
            partition: self.text(partition),
            namespace: self.text(namespace),
            name: self.text(name),
            uid: self.text(uid),
        }
    }

    /// Whether the resource has exactly this type, GroupVersion included. Compares without checking UTF-8 again.
    #[must_use]
    pub fn has_type(&self, of: &Gvk) -> bool {
        self.has_kind(&of.group, &of.kind) && self.has(self.head.group_version, &of.group_version)
    }

    /// Whether the resource has this group and kind; the GroupVersion is ignored.
    #[must_use]
    pub fn has_kind(&self, group: &str, kind: &str) -> bool {
        self.has(self.head.kind, kind) && self.has(self.head.group, group)
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> &str {
        self.text(self.head.partition)
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text(self.head.namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text(self.head.name)
    }

    /// The uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text(self.head.uid)
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.text(self.head.version)
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> &str {
        self.text(self.head.generation)
    }

    /// The schema version of the data; at least 1.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.head.schema_version.max(1)
    }

    /// The value of the metadata key `deletionTimestamp`, if present.
    #[must_use]
    pub fn deletion_mark(&self) -> Option<&str> {
        self.head.deletion_mark.map(|span| self.text(span))
    }

    /// Whether the resource has an owner.
    #[must_use]
    pub fn has_owner(&self) -> bool {
        self.head.owner.is_some()
    }

    /// Whether the resource has a meta.
    #[must_use]
    pub fn has_meta(&self) -> bool {
        self.head.meta.is_some()
    }

    /// Decodes the meta.
    ///
    /// # Errors
    /// It does not decode.
    pub fn decode_meta(&self) -> Result<Option<Meta>, EncodingError> {
        Ok(self.head.meta.map(|span| Meta::decode(part(&self.bytes, span))).transpose()?)
    }

    /// Decodes the records of the resource's references.
    ///
    /// # Errors
    /// A record does not decode.
    pub fn references(&self) -> Result<Vec<ReferenceRecord>, EncodingError> {
        let mut found = Vec::new();
        if self.head.references == 0 {
            return Ok(found);
        }
        let mut fields = Fields::of(&self.bytes, whole(&self.bytes));
        while let Some((tag, value)) = fields.next()? {
            if let (REFERENCES, Value::Bytes(span)) = (tag, value) {
                found.push(ReferenceRecord::decode(part(&self.bytes, span))?);
            }
        }
        Ok(found)
    }

    /// Bytes of the records of references in the encoding.
    #[must_use]
    pub fn references_bytes(&self) -> usize {
        self.head.references as usize
    }

    /// The labels, in no particular order; of a repeated key the last value counts.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut fields = self.head.meta.map(|span| Fields::of(&self.bytes, span));
        std::iter::from_fn(move || {
            let fields = fields.as_mut()?;
            while let Ok(Some((tag, value))) = fields.next() {
                if let (LABELS, Value::Bytes(entry)) = (tag, value) {
                    return self.entry(entry);
                }
            }
            None
        })
    }

    /// Key and value of a map's entry.
    fn entry(&self, span: Span) -> Option<(&str, &str)> {
        let (mut key, mut value) = (Span::default(), Span::default());
        let mut fields = Fields::of(&self.bytes, span);
        while let Ok(Some((tag, found))) = fields.next() {
            match (tag, found) {
                (1, Value::Bytes(span)) => key = span,
                (2, Value::Bytes(span)) => value = span,
                _ => {}
            }
        }
        let text = |span| str::from_utf8(part(&self.bytes, span)).ok();
        Some((text(key)?, text(value)?))
    }

    /// Decodes the id.
    ///
    /// # Errors
    /// It does not decode.
    pub fn decode_id(&self) -> Result<Option<pb::Id>, EncodingError> {
        self.message(self.head.id)
    }

    /// Decodes the owner.
    ///
    /// # Errors
    /// It does not decode.
    pub fn decode_owner(&self) -> Result<Option<pb::Id>, EncodingError> {
        self.message(self.head.owner)
    }

    fn message(&self, span: Option<Span>) -> Result<Option<pb::Id>, EncodingError> {
        Ok(span.map(|span| pb::Id::decode(part(&self.bytes, span))).transpose()?)
    }

    fn has(&self, span: Span, text: &str) -> bool {
        part(&self.bytes, span) == text.as_bytes()
    }

    /// The text of a span; the head's search has checked that it is UTF-8.
    fn text(&self, span: Span) -> &str {
        str::from_utf8(part(&self.bytes, span)).unwrap_or_default()
    }
}

fn part(bytes: &[u8], span: Span) -> &[u8] {
    bytes.get(span.range()).unwrap_or_default()
}

impl Head {
    /// Walks over the fields; `None` when a message occurs several times.
    fn find(bytes: &[u8]) -> Result<Option<Self>, EncodingError> {
        let mut head = Self::default();
        let mut fields = Fields::of(bytes, whole(bytes));
        while let Some((tag, value)) = fields.next()? {
            match (tag, value) {
                (1, Value::Bytes(span)) if head.id.is_none() => {
                    head.id = Some(span);
                    if !head.find_id(bytes, span)? {
                        return Ok(None);
                    }
                }
                (2, Value::Bytes(span)) if head.owner.is_none() => head.owner = Some(span),
                (1 | 2, Value::Bytes(_)) => return Ok(None),
                (3, Value::Bytes(span)) => head.version = text(bytes, span)?,
                (4, Value::Bytes(span)) => head.generation = text(bytes, span)?,
                (5, Value::Bytes(span)) => head.find_deletion_mark(bytes, span)?,
                // Protobuf keeps the lower 32 bits of a longer number.
                (1000, Value::Number(number)) => head.schema_version = number as u32,
                (META, Value::Bytes(span)) if head.meta.is_none() => head.meta = Some(span),
                (REFERENCES, Value::Bytes(span)) => {
                    let length = u64::from(span.end - span.start);
                    let key = encoding::key_len(REFERENCES) + encoding::encoded_len_varint(length);
                    head.references += u32::try_from(key).unwrap_or_default() + span.end - span.start;
                }
                (1..=7 | 1000 | META | REFERENCES, Value::Number(_) | Value::Other)
                | (1000 | META, Value::Bytes(_)) => {
                    return Ok(None);
                }
                _ => {}
            }
        }
        Ok(Some(head))
    }

    /// Finds the parts of the id; false when one of its messages occurs several times.
    fn find_id(&mut self, bytes: &[u8], id: Span) -> Result<bool, EncodingError> {
        let (mut types, mut tenancies) = (0, 0);
        let mut fields = Fields::of(bytes, id);
        while let Some((tag, value)) = fields.next()? {
            match (tag, value) {
                (1, Value::Bytes(span)) => self.uid = text(bytes, span)?,
                (2, Value::Bytes(span)) => self.name = text(bytes, span)?,
                (3, Value::Bytes(span)) => {
                    types += 1;
                    let mut parts = Fields::of(bytes, span);
                    while let Some((tag, value)) = parts.next()? {
                        match (tag, value) {
                            (1, Value::Bytes(span)) => self.group = text(bytes, span)?,
                            (2, Value::Bytes(span)) => self.group_version = text(bytes, span)?,
                            (3, Value::Bytes(span)) => self.kind = text(bytes, span)?,
                            _ => {}
                        }
                    }
                }
                (4, Value::Bytes(span)) => {
                    tenancies += 1;
                    let mut parts = Fields::of(bytes, span);
                    while let Some((tag, value)) = parts.next()? {
                        match (tag, value) {
                            (1, Value::Bytes(span)) => self.partition = text(bytes, span)?,
                            (2, Value::Bytes(span)) => self.namespace = text(bytes, span)?,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(types <= 1 && tenancies <= 1)
    }

    /// Records an entry of the metadata that is the deletion mark.
    fn find_deletion_mark(&mut self, bytes: &[u8], entry: Span) -> Result<(), EncodingError> {
        let (mut is_mark, mut found) = (false, Span::default());
        let mut fields = Fields::of(bytes, entry);
        while let Some((tag, value)) = fields.next()? {
            match (tag, value) {
                (1, Value::Bytes(span)) => is_mark = part(bytes, span) == DELETION_TIMESTAMP.as_bytes(),
                (2, Value::Bytes(span)) => found = text(bytes, span)?,
                _ => {}
            }
        }
        if is_mark {
            self.deletion_mark = Some(found);
        }
        Ok(())
    }
}

fn whole(bytes: &[u8]) -> Span {
    Span { start: 0, end: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
}

/// Checks that the bytes of a span are UTF-8 and returns the span.
fn text(bytes: &[u8], span: Span) -> Result<Span, EncodingError> {
    str::from_utf8(part(bytes, span))?;
    Ok(span)
}

/// The value of a field.
enum Value {
    Bytes(Span),
    Number(u64),
    Other,
}

/// An iterator over the fields of a message, in the order of the bytes.
struct Fields<'b> {
    left: &'b [u8],
    end: u32,
}

impl<'b> Fields<'b> {
    fn of(bytes: &'b [u8], span: Span) -> Self {
        Self { left: part(bytes, span), end: span.end }
    }

    fn next(&mut self) -> Result<Option<(u32, Value)>, EncodingError> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let (tag, wire_type) = decode_key(&mut self.left)?;
        let value = match wire_type {
            WireType::LengthDelimited => {
                let mut rest = self.left;
                let length = decode_varint(&mut rest)?;
                // Returns the decoder's error for a length beyond the end.
                skip_field(wire_type, tag, &mut self.left, DecodeContext::default())?;
                let end = self.end - u32::try_from(self.left.remaining()).unwrap_or_default();
                Value::Bytes(Span { start: end - u32::try_from(length).unwrap_or_default(), end })
            }
            WireType::Varint => Value::Number(decode_varint(&mut self.left)?),
            _ => {
                skip_field(wire_type, tag, &mut self.left, DecodeContext::default())?;
                Value::Other
            }
        };
        Ok(Some((tag, value)))
    }
}

#[cfg(test)]
mod tests;
