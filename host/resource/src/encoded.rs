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

mod head;

use std::str;

use prost::{DecodeError, Message as _, bytes::Bytes};

use self::head::{Head, REFERENCES, Span, entry, part};
use crate::{
    Error, IdRef,
    data::ReferenceRecord,
    goten::Meta,
    pb,
    types::Gvk,
    wire::{Cursor, Field, Value, WireError},
};

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
    /// The bytes are not an encoded message.
    #[error("the resource cannot be decoded: {0}")]
    Malformed(#[from] WireError),
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

/// Number of the meta's field `labels`.
const LABELS: u32 = 5;

impl EncodedResource {
    /// Finds the head in the bytes.
    ///
    /// # Errors
    /// The bytes are not an encoded resource. The content outside of the head is not decoded, so its faults may stay
    /// unnoticed.
    pub fn parse(bytes: Bytes) -> Result<Self, EncodingError> {
        match Head::find(&bytes) {
            Ok(Some(head)) => Ok(Self { bytes, head }),
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
        let head = Head::find(&bytes)?.ok_or(EncodingError::TooLong(length))?;
        Ok(Self { bytes, head })
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
    pub fn has_type(&self, gvk: &Gvk) -> bool {
        self.has_kind(&gvk.group, &gvk.kind) && self.has(self.head.group_version, &gvk.group_version)
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
        for field in Cursor::new(&self.bytes) {
            if let Field { number: REFERENCES, value: Value::Bytes(record), .. } = field? {
                found.push(ReferenceRecord::decode(record)?);
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
        let meta = self.head.meta.map(|span| part(&self.bytes, span)).unwrap_or_default();
        let fields = Cursor::new(meta).map_while(Result::ok).filter(|field| field.number == LABELS);
        fields.filter_map(|field| field.value.bytes()).map_while(|label| {
            let (key, value) = entry(label).ok()?;
            Some((str::from_utf8(key).ok()?, str::from_utf8(value).ok()?))
        })
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

#[cfg(test)]
mod tests;
