//! Resources in the form in which they are stored and sent: their encoding, and beside it where in it stands what the
//! rules ask for.
//!
//! Whoever passes a resource on hands on its bytes; whoever looks into its content decodes it. The head is found once,
//! when the bytes come from the store or a write makes them, by one walk over the fields that copies nothing.
//!
//! # Contract
//! The bytes are an encoded `hashicorp.consul.resource.Resource` in which each message of the head stands once. Bytes in
//! which one stands several times, which protobuf merges, are encoded anew. Clones share the bytes.
//!
//! # Cost
//! A head of some 100 bytes; finding it takes about 0.1 µs. Looking a text up compares its bytes with UTF-8 again.

use std::{ops::Range, str};

use prost::{
    DecodeError, Message as _,
    bytes::{Buf as _, Bytes},
    encoding::{self, DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use crate::{data::ReferenceRecord, goten::Meta, meta::DELETION_TIMESTAMP, pb, types::Gvk};

/// A resource as it is stored and sent. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedResource {
    bytes: Bytes,
    head: Head,
}

/// The parts of an id; those that are absent are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdRef<'r> {
    /// Of the type.
    pub group: &'r str,
    /// Of the type.
    pub group_version: &'r str,
    /// Of the type.
    pub kind: &'r str,
    /// Of the tenancy.
    pub partition: &'r str,
    /// Of the tenancy.
    pub namespace: &'r str,
    /// The name.
    pub name: &'r str,
    /// The incarnation.
    pub uid: &'r str,
}

/// Bytes that are no resource.
#[derive(Debug, thiserror::Error)]
pub enum EncodingError {
    /// They do not decode.
    #[error("it does not decode: {0}")]
    Undecodable(#[from] DecodeError),
    /// A text of the id, the version or the generation is none.
    #[error("it does not decode: a text is not UTF-8")]
    InvalidUtf8(#[from] str::Utf8Error),
    /// They are too many.
    #[error("it has {0} bytes, and 4 GiB are too many")]
    TooLong(usize),
}

/// Where something stands in the bytes.
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

/// The field of a resource that has its meta.
const META: u32 = 1001;
/// The field of a resource that has a record of what it refers to.
const REFERENCES: u32 = 1002;
/// The field of a meta that has the labels.
const LABELS: u32 = 5;

/// What the rules ask for.
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
    /// Bytes of the records of what it refers to, with their tags and lengths.
    references: u32,
}

impl<'r> From<&'r pb::Id> for IdRef<'r> {
    fn from(id: &'r pb::Id) -> Self {
        let (group, group_version, kind) =
            id.r#type.as_ref().map_or(("", "", ""), |t| (&t.group, &t.group_version, &t.kind));
        let (partition, namespace) = id.tenancy.as_ref().map_or(("", ""), |t| (&t.partition, &t.namespace));
        Self { group, group_version, kind, partition, namespace, name: &id.name, uid: &id.uid }
    }
}

impl IdRef<'_> {
    /// Whether both are of one incarnation, GroupVersion aside.
    #[must_use]
    pub fn is_same_incarnation(self, other: IdRef<'_>) -> bool {
        IdRef { group_version: "", ..self } == IdRef { group_version: "", ..other }
    }
}

impl EncodedResource {
    /// Of bytes, which are looked through as far as the head goes.
    ///
    /// # Errors
    /// They are no encoded resource, as far as can be told without decoding its content.
    pub fn parse(bytes: Bytes) -> Result<Self, EncodingError> {
        match Self::with_head(bytes.clone()) {
            Ok(Some(resource)) => Ok(resource),
            Err(fault @ EncodingError::TooLong(_)) => Err(fault),
            // What is merged, or what only decoding can make sense of.
            Ok(None) | Err(_) => Self::encode(&pb::Resource::decode(bytes)?),
        }
    }

    /// The encoding of a resource.
    ///
    /// # Errors
    /// [`EncodingError::TooLong`].
    pub fn encode(resource: &pb::Resource) -> Result<Self, EncodingError> {
        let bytes = Bytes::from(resource.encode_to_vec());
        let length = bytes.len();
        // An encoder writes each message once.
        Self::with_head(bytes)?.ok_or(EncodingError::TooLong(length))
    }

    /// With the head of bytes; `None` when a message of it stands several times.
    fn with_head(bytes: Bytes) -> Result<Option<Self>, EncodingError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(EncodingError::TooLong(bytes.len()));
        }
        Ok(Head::find(&bytes)?.map(|head| Self { bytes, head }))
    }

    /// The encoding.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The whole resource.
    ///
    /// # Errors
    /// Its content does not decode.
    pub fn decode(&self) -> Result<pb::Resource, EncodingError> {
        Ok(pb::Resource::decode(self.bytes.clone())?)
    }

    /// The parts of its id.
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

    /// Whether it is of this very type, its GroupVersion included.
    #[must_use]
    pub fn has_type(&self, of: &Gvk) -> bool {
        self.has_kind(&of.group, &of.kind) && self.has(self.head.group_version, &of.group_version)
    }

    /// Whether it is of a type of this group and kind, whatever its GroupVersion.
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

    /// The incarnation.
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

    /// The schema version that its data is in, from 1 up.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.head.schema_version.max(1)
    }

    /// The value of the mark of a deletion, if it has one.
    #[must_use]
    pub fn deletion_mark(&self) -> Option<&str> {
        self.head.deletion_mark.map(|span| self.text(span))
    }

    /// Whether it has an owner.
    #[must_use]
    pub fn has_owner(&self) -> bool {
        self.head.owner.is_some()
    }

    /// Whether it has a meta.
    #[must_use]
    pub fn has_meta(&self) -> bool {
        self.head.meta.is_some()
    }

    /// Its meta, as a message of its own.
    ///
    /// # Errors
    /// It does not decode.
    pub fn decode_meta(&self) -> Result<Option<Meta>, EncodingError> {
        Ok(self.head.meta.map(|span| Meta::decode(part(&self.bytes, span))).transpose()?)
    }

    /// The records of what it refers to.
    ///
    /// # Errors
    /// One of them does not decode.
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

    /// Bytes that these records take in the encoding.
    #[must_use]
    pub fn references_bytes(&self) -> usize {
        self.head.references as usize
    }

    /// Its labels, in no particular order; a key may come again, and the last counts.
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

    /// The two texts of a map's entry.
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

    /// Its id, as a message of its own.
    ///
    /// # Errors
    /// It does not decode.
    pub fn decode_id(&self) -> Result<Option<pb::Id>, EncodingError> {
        self.message(self.head.id)
    }

    /// Its owner, as a message of its own.
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

    /// Checked when the head was found.
    fn text(&self, span: Span) -> &str {
        str::from_utf8(part(&self.bytes, span)).unwrap_or_default()
    }
}

fn part(bytes: &[u8], span: Span) -> &[u8] {
    bytes.get(span.range()).unwrap_or_default()
}

impl Head {
    /// Walks over the fields; `None` when a message stands several times.
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
                // As protobuf has it, the lower half counts.
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

    /// False when a message stands several times in the id.
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

    /// Looks whether an entry of the metadata is the mark of a deletion.
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

/// The span, of which the bytes are a text.
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

/// The fields of a message, as they follow one another.
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
                // Says what is wrong with a length that is too long.
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
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn id(name: &str) -> pb::Id {
        pb::Id {
            uid: format!("uid of {name}"),
            name: name.into(),
            r#type: Some(pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() }),
            tenancy: Some(pb::Tenancy { partition: "p".into(), namespace: "n".into() }),
        }
    }

    fn record(name: &str, on_delete: i32) -> ReferenceRecord {
        ReferenceRecord { kind: "Artist".into(), name: name.into(), on_delete, ..ReferenceRecord::default() }
    }

    fn resource() -> pb::Resource {
        pb::Resource {
            id: Some(id("miles")),
            owner: Some(id("label")),
            version: "17".into(),
            generation: "g".into(),
            metadata: BTreeMap::from([("a".into(), "b".into()), (DELETION_TIMESTAMP.into(), "now".into())]),
            status: BTreeMap::from([(
                "s".into(),
                pb::Status { observed_generation: "g".into(), ..Default::default() },
            )]),
            data: Some(prost_types::Any { type_url: "t".into(), value: vec![0xff; 300] }),
            schema_version: 3,
            references: vec![record("miles", 1), record(&"long".repeat(50), 6)],
            meta: Some(Box::new(Meta {
                generation: 7,
                labels: BTreeMap::from([("env".into(), "prod".into()), ("none".into(), String::new())]),
                ..Meta::default()
            })),
        }
    }

    #[test]
    fn the_head_is_what_decoding_finds() {
        let whole = resource();
        for resource in [
            whole.clone(),
            pb::Resource::default(),
            pb::Resource { id: None, ..whole.clone() },
            pb::Resource { id: Some(pb::Id { r#type: None, tenancy: None, ..id("x") }), ..whole.clone() },
            pb::Resource { owner: None, metadata: BTreeMap::new(), schema_version: 0, ..whole.clone() },
            pb::Resource { schema_version: u32::MAX, version: "ü".into(), ..whole.clone() },
        ] {
            let encoded = EncodedResource::encode(&resource).unwrap();
            assert_eq!(encoded.decode().unwrap(), resource);
            assert_eq!(encoded.bytes(), &resource.encode_to_vec());
            assert_eq!(encoded.id(), resource.id.as_ref().map(IdRef::from).unwrap_or_default());
            assert_eq!(encoded.references().unwrap(), resource.references);
            let without = pb::Resource { references: Vec::new(), ..resource.clone() };
            assert_eq!(encoded.references_bytes(), resource.encoded_len() - without.encoded_len());
            assert_eq!(encoded.uid(), encoded.id().uid);
            assert_eq!(encoded.name(), encoded.id().name);
            assert_eq!([encoded.partition(), encoded.namespace()], [encoded.id().partition, encoded.id().namespace]);
            let id = encoded.id();
            for (group, group_version, kind) in
                [("demo", "v2", "Artist"), ("demo", "v1", "Artist"), ("", "", ""), ("demo", "v2", "Album")]
            {
                let is_of = (id.group, id.group_version, id.kind) == (group, group_version, kind);
                assert_eq!(encoded.has_type(&Gvk::new(group, group_version, kind)), is_of);
            }
            assert_eq!(encoded.decode_id().unwrap(), resource.id);
            assert_eq!(encoded.decode_owner().unwrap(), resource.owner);
            assert_eq!(encoded.has_owner(), resource.owner.is_some());
            assert_eq!(encoded.decode_meta().unwrap(), resource.meta.as_deref().cloned());
            let labels = resource.meta.as_ref().map(|meta| meta.labels.clone()).unwrap_or_default();
            let found = encoded.labels().map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(found.collect::<BTreeMap<_, _>>(), labels);
            assert_eq!((encoded.version(), encoded.generation()), (&*resource.version, &*resource.generation));
            assert_eq!(encoded.schema_version(), resource.schema_version.max(1));
            assert_eq!(encoded.deletion_mark(), resource.metadata.get(DELETION_TIMESTAMP).map(String::as_str));
        }
    }

    /// What protobuf would merge, or take the last of, is the same in the head as in the whole.
    #[test]
    fn fields_that_stand_several_times_are_merged_as_protobuf_does() {
        let first = resource();
        let second = pb::Resource {
            id: Some(pb::Id { uid: "other".into(), ..pb::Id::default() }),
            version: "18".into(),
            schema_version: 4,
            ..pb::Resource::default()
        };
        for (a, b) in [(&first, &second), (&second, &first), (&first, &first)] {
            let bytes = [a.encode_to_vec(), b.encode_to_vec()].concat();
            let merged = pb::Resource::decode(bytes.as_slice()).unwrap();
            let encoded = EncodedResource::parse(bytes.into()).unwrap();
            assert_eq!(encoded.decode().unwrap(), merged);
            assert_eq!(encoded.bytes(), &merged.encode_to_vec());
            assert_eq!(encoded.version(), merged.version);
            assert_eq!(encoded.uid(), merged.id.as_ref().unwrap().uid);
        }
        // Twice within the id: the kind of the first, the group of the second.
        let part = |group: &str, kind: &str| {
            let of = pb::Type { group: group.into(), group_version: String::new(), kind: kind.into() };
            pb::Id { r#type: Some(of), ..pb::Id::default() }.encode_to_vec()
        };
        let id = [part("a", "K"), part("b", "")].concat();
        let bytes = [vec![1 << 3 | 2, u8::try_from(id.len()).unwrap()], id].concat();
        let encoded = EncodedResource::parse(bytes.into()).unwrap();
        assert_eq!((encoded.id().group, encoded.id().kind), ("b", "K"));
    }

    /// Of every byte of an encoding that is changed, cut off or put in: what is parsed has the head that decoding finds,
    /// and what decodes is parsed.
    #[test]
    fn damaged_bytes_are_refused_or_agree_with_their_head() {
        let good = resource().encode_to_vec();
        let (mut parsed, mut refused) = (0, 0);
        for position in 0..good.len() {
            let flips = (0..8).map(|bit| {
                let mut bytes = good.clone();
                bytes[position] ^= 1 << bit;
                bytes
            });
            for bytes in
                flips.chain([good[..position].to_vec(), [&good[..position], &[0x80], &good[position..]].concat()])
            {
                let decoded = pb::Resource::decode(bytes.as_slice());
                match EncodedResource::parse(bytes.into()) {
                    Err(why) => {
                        refused += 1;
                        assert!(decoded.is_err(), "at {position}: {why}");
                    }
                    Ok(encoded) => {
                        parsed += 1;
                        let Ok(decoded) = decoded else { continue };
                        assert_eq!(
                            encoded.id(),
                            decoded.id.as_ref().map(IdRef::from).unwrap_or_default(),
                            "{position}"
                        );
                        assert_eq!(encoded.version(), decoded.version);
                        assert_eq!(encoded.generation(), decoded.generation);
                        assert_eq!(encoded.schema_version(), decoded.schema_version.max(1));
                        assert_eq!(encoded.decode_owner().unwrap(), decoded.owner);
                        let mark = decoded.metadata.get(DELETION_TIMESTAMP).map(String::as_str);
                        assert_eq!(encoded.deletion_mark(), mark);
                        assert_eq!(encoded.decode_meta().unwrap(), decoded.meta.as_deref().cloned(), "{position}");
                    }
                }
            }
        }
        assert!(parsed > 1_000 && refused > 1_000, "{parsed} {refused}");
    }

    #[test]
    fn incarnations_are_compared_without_the_group_version() {
        let (mut a, b) = (id("a"), id("a"));
        assert!(IdRef::from(&a).is_same_incarnation(IdRef::from(&b)));
        a.r#type.as_mut().unwrap().group_version = "v9".into();
        assert!(IdRef::from(&a).is_same_incarnation(IdRef::from(&b)));
        a.uid = "another".into();
        assert!(!IdRef::from(&a).is_same_incarnation(IdRef::from(&b)));
    }
}
