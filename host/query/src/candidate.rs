//! A resource that a query is evaluated against.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use mortise_resource::{EncodedResource, IdRef};
use prost::{Message as _, bytes::Bytes};
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage as _, Value};

use crate::{
    Path, Schema, Undecodable,
    path::Root,
    scalar::Scalar,
    walk::{self, Slot},
};

/// A resource, decoded as far as queries look into it: its id not at all, the rest and `data` once each.
#[derive(Debug)]
pub struct Candidate<'r> {
    resource: &'r EncodedResource,
    schema: &'r Schema,
    parts: Arc<Parts>,
}

/// The decoded parts of a resource.
#[derive(Debug, Default)]
struct Parts {
    whole: OnceLock<Value>,
    data: OnceLock<Option<Value>>,
    labels: OnceLock<BTreeMap<String, String>>,
}

/// Cache of decoded parts for many queries that look at the same resources one after another, as watches do. It holds
/// at most the latest 32 resources of up to 4 KiB each, which is some MiB at worst once they are decoded; each query
/// decodes larger resources itself.
#[derive(Debug, Default)]
pub struct RecentlyDecoded {
    latest_first: Mutex<VecDeque<Decoded>>,
}

/// A cached resource, recognized by the address of its bytes. The cache holds the bytes, so no others can take their
/// address.
#[derive(Debug)]
struct Decoded {
    resource: Bytes,
    data: Option<MessageDescriptor>,
    parts: Arc<Parts>,
}

impl RecentlyDecoded {
    const MAX_RESOURCES: usize = 32;
    const MAX_RESOURCE_BYTES: usize = 4 << 10;

    fn parts(&self, resource: &Bytes, schema: &Schema) -> Arc<Parts> {
        if resource.len() > Self::MAX_RESOURCE_BYTES {
            return Arc::default();
        }
        let mut recent = self.latest_first.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |decoded: &&Decoded| {
            (decoded.resource.as_ptr(), decoded.resource.len()) == (resource.as_ptr(), resource.len())
                && decoded.data.as_ref() == schema.data()
        };
        if let Some(known) = recent.iter().find(is_same) {
            return known.parts.clone();
        }
        let parts = Arc::<Parts>::default();
        recent.truncate(Self::MAX_RESOURCES - 1);
        recent.push_front(Decoded { resource: resource.clone(), data: schema.data().cloned(), parts: parts.clone() });
        parts
    }
}

impl<'r> Candidate<'r> {
    /// Makes a candidate without decoding anything.
    #[must_use]
    pub fn new(resource: &'r EncodedResource, schema: &'r Schema) -> Self {
        Self { resource, schema, parts: Arc::default() }
    }

    /// Makes a candidate that shares its decoded parts with others of the same resource (the same bytes in memory) and
    /// schema.
    #[must_use]
    pub fn sharing(resource: &'r EncodedResource, schema: &'r Schema, recent: &RecentlyDecoded) -> Self {
        Self { resource, schema, parts: recent.parts(resource.bytes(), schema) }
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &'r EncodedResource {
        self.resource
    }

    /// Whether a part of the resource was decoded.
    #[must_use]
    pub fn is_decoded(&self) -> bool {
        self.parts.whole.get().is_some() || self.parts.data.get().is_some() || self.parts.labels.get().is_some()
    }

    /// The resource's labels, for a [`Selector`](crate::Selector). Decoding skips the rest.
    ///
    /// # Errors
    /// The resource does not decode.
    pub fn labels(&self) -> Result<&BTreeMap<String, String>, Undecodable> {
        if let Some(labels) = self.parts.labels.get() {
            return Ok(labels);
        }
        let meta = MetaPart::decode(self.resource.bytes().clone())?.meta;
        Ok(self.parts.labels.get_or_init(|| meta.unwrap_or_default().labels))
    }

    /// The values at a path as an index holds them, sorted, without repetitions; a
    /// [`Subject::Field`](crate::Subject::Field) is looked up by them. Zero values, floats, messages and absent values
    /// have none; a list has one per element.
    ///
    /// # Errors
    /// The part that the path goes into does not decode.
    pub fn index_values(&self, path: &Path) -> Result<Vec<String>, Undecodable> {
        let mut texts = Vec::new();
        let mut add = |value: &Value| texts.extend(Scalar::from_value(value).and_then(|value| value.index_text()));
        self.any(path, &mut |slot| {
            match slot {
                Slot::Value(Value::List(items)) => items.iter().for_each(&mut add),
                Slot::Value(value) => add(value),
                Slot::Unset | Slot::Absent => {}
            }
            false
        })?;
        texts.sort();
        texts.dedup();
        Ok(texts)
    }

    pub(crate) fn id(&self) -> IdRef<'r> {
        self.resource.id()
    }

    /// Whether something holds for a value at a path.
    pub(crate) fn any<'c>(
        &'c self,
        path: &Path,
        is_sought: &mut dyn FnMut(Slot<'c>) -> bool,
    ) -> Result<bool, Undecodable> {
        let root = match path.root {
            Root::Data => self.data()?,
            Root::Resource | Root::Name | Root::Element => Some(self.whole()?),
        };
        Ok(walk::any(root.map_or(Slot::Absent, Slot::Value), &path.steps, is_sought))
    }

    fn whole(&self) -> Result<&Value, Undecodable> {
        if let Some(whole) = self.parts.whole.get() {
            return Ok(whole);
        }
        let whole = DynamicMessage::decode(Schema::resource().clone(), self.resource.bytes().clone())?;
        Ok(self.parts.whole.get_or_init(|| Value::Message(whole)))
    }

    fn data(&self) -> Result<Option<&Value>, Undecodable> {
        if let Some(data) = self.parts.data.get() {
            return Ok(data.as_ref());
        }
        let any = DataPart::decode(self.resource.bytes().clone())?.data;
        let decode = |any: AnyBytes| match self.schema.data() {
            Some(_) => decode_data(self.schema, &any.type_url, any.value),
            // Paths then lead to the data as a whole; only its presence is known.
            None => Ok(DynamicMessage::new(().descriptor())),
        };
        let data = any.map(decode).transpose()?;
        Ok(self.parts.data.get_or_init(|| data.map(Value::Message)).as_ref())
    }
}

/// Decodes data of the type's message.
pub(crate) fn decode_data(schema: &Schema, type_url: &str, value: Bytes) -> Result<DynamicMessage, Undecodable> {
    let found = type_url.rsplit('/').next().unwrap_or_default();
    let Some(message) = schema.data().filter(|message| message.full_name() == found) else {
        let expected = schema.data().map_or_else(|| "not known".to_owned(), |message| message.full_name().to_owned());
        return Err(Undecodable::OtherMessage { expected, found: found.to_owned() });
    };
    DynamicMessage::decode(message.clone(), value)
        .map_err(|source| Undecodable::Data { message: message.full_name().to_owned(), source })
}

/// The part of a resource that holds its data. Decoding skips the rest and copies nothing.
#[derive(Clone, PartialEq, prost::Message)]
struct DataPart {
    #[prost(message, optional, tag = "7")]
    data: Option<AnyBytes>,
}

/// `google.protobuf.Any`, sharing the bytes that it was decoded from.
#[derive(Clone, PartialEq, prost::Message)]
struct AnyBytes {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// The part of a resource that holds its labels.
#[derive(Clone, PartialEq, prost::Message)]
struct MetaPart {
    #[prost(message, optional, tag = "1001")]
    meta: Option<MetaLabels>,
}

/// The part of `goten.types.Meta` that holds the labels.
#[derive(Clone, PartialEq, prost::Message)]
struct MetaLabels {
    #[prost(btree_map = "string, string", tag = "5")]
    labels: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb;

    use super::*;

    fn resource(name: &str, size: usize) -> EncodedResource {
        let generation = "g".repeat(size);
        let id = Some(pb::Id { name: name.into(), ..pb::Id::default() });
        EncodedResource::encode(&pb::Resource { id, generation, ..pb::Resource::default() }).unwrap()
    }

    #[test]
    fn what_was_decoded_is_shared_by_the_same_resource_and_schema_alone() {
        let (schema, recent) = (Schema::new(None), RecentlyDecoded::default());
        let shares = |resource: &EncodedResource, schema: &Schema, other: &EncodedResource, by: &Schema| {
            let candidate = Candidate::sharing(resource, schema, &recent);
            Arc::ptr_eq(&candidate.parts, &Candidate::sharing(other, by, &recent).parts)
        };
        let small = resource("a", 10);
        assert!(shares(&small, &schema, &small.clone(), &schema));
        assert!(!shares(&small, &schema, &resource("a", 10), &schema), "equal, but at another address");
        assert!(!shares(&small, &schema, &small, &Schema::new(Some(Schema::resource().clone()))));
        let large = resource("a", RecentlyDecoded::MAX_RESOURCE_BYTES);
        assert!(!shares(&large, &schema, &large, &schema));
        for n in 0..100 {
            assert!(!Candidate::sharing(&resource(&n.to_string(), 10), &schema, &recent).is_decoded());
        }
        assert_eq!(recent.latest_first.lock().unwrap().len(), RecentlyDecoded::MAX_RESOURCES);
    }
}
