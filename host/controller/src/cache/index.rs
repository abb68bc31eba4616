//! Indexes, which find cached resources by other keys than their id.
//!
//! A key is a sequence of segments, each ended by a zero byte, so that the keys that begin with a few segments are a
//! range, and a key of all segments finds exactly itself.

use std::{cell::OnceCell, fmt, sync::Arc};

use mortise_resource::{EncodedResource, EncodingError, pb, tenancy::WILDCARD};

use crate::request::ReconcileError;

/// The index that every cached type has: partition, namespace, name, with any uid.
pub const ID: &str = "id";

/// A key of an index, or a prefix of keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct IndexKey(pub(crate) Vec<u8>);

impl IndexKey {
    /// The prefix of every key.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Makes a key of raw bytes without an end byte, for keys that are not a sequence of segments.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Makes a key of one segment.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::default().and(text)
    }

    /// Adds a segment.
    #[must_use]
    pub fn and(mut self, segment: &str) -> Self {
        self.0.extend_from_slice(segment.as_bytes());
        self.0.push(0);
        self
    }

    /// The key of exactly this resource in the index `id`.
    #[must_use]
    pub fn id(id: &pb::Id) -> Self {
        let (partition, namespace) = units(id.tenancy.as_ref());
        Self::text(partition).and(namespace).and(&id.name)
    }

    /// The prefix of the keys within a tenancy in the index `id`. An empty unit or `*` ends the key there.
    #[must_use]
    pub fn tenancy(tenancy: &pb::Tenancy) -> Self {
        Self::default().within(tenancy)
    }

    /// The key, in an index of owners or references, of resources that point at exactly this one, in any GroupVersion
    /// and with any uid.
    #[must_use]
    pub fn target(id: &pb::Id) -> Self {
        let (partition, namespace) = units(id.tenancy.as_ref());
        Self::of_type(id.r#type.as_ref()).and(partition).and(namespace).and(&id.name)
    }

    /// The prefix of the keys, in an index of owners or references, of resources that point at any resource of a type
    /// within a tenancy. An empty unit or `*` ends the key there.
    #[must_use]
    pub fn targets_in(resource_type: &pb::Type, tenancy: &pb::Tenancy) -> Self {
        Self::of_type(Some(resource_type)).within(tenancy)
    }

    fn of_type(resource_type: Option<&pb::Type>) -> Self {
        resource_type.map_or_else(
            || Self::text("").and(""),
            |resource_type| Self::text(&resource_type.group).and(&resource_type.kind),
        )
    }

    fn within(self, tenancy: &pb::Tenancy) -> Self {
        let cut = |unit: &str| unit.is_empty() || unit == WILDCARD;
        match (cut(&tenancy.partition), cut(&tenancy.namespace)) {
            (true, _) => self,
            (false, true) => self.and(&tenancy.partition),
            (false, false) => self.and(&tenancy.partition).and(&tenancy.namespace),
        }
    }
}

fn units(tenancy: Option<&pb::Tenancy>) -> (&str, &str) {
    tenancy.map_or(("", ""), |t| (&t.partition, &t.namespace))
}

/// Finds the references of a resource.
pub type References = Arc<dyn Fn(&pb::Resource) -> Result<Vec<pb::Reference>, ReconcileError> + Send + Sync>;

/// Makes the keys of a resource: none, one or many.
pub type Keys = Arc<dyn Fn(&pb::Resource) -> Result<Vec<IndexKey>, ReconcileError> + Send + Sync>;

/// The source of an index's keys.
#[derive(Clone)]
pub enum By {
    /// The owner, as [`IndexKey::target`]; a resource without one is not in the index.
    Owner,
    /// The targets of the resource's references, each as [`IndexKey::target`].
    References(References),
    /// Keys from a function.
    Keys(Keys),
}

/// An index of one cached type.
#[derive(Clone)]
pub struct Index {
    pub(crate) name: Arc<str>,
    pub(crate) by: By,
}

impl Index {
    /// Makes an index with the name that lookups use.
    pub fn new(name: impl Into<Arc<str>>, by: By) -> Self {
        Self { name: name.into(), by }
    }

    /// The keys of a resource. Decodes it only if they need it, and at most once for all indexes.
    pub(crate) fn keys(
        &self,
        resource: &EncodedResource,
        decoded: &OnceCell<pb::Resource>,
    ) -> Result<Vec<IndexKey>, ReconcileError> {
        let content = || match decoded.get() {
            Some(content) => Ok(content),
            None => resource.decode().map(|content| decoded.get_or_init(|| content)).map_err(undecodable),
        };
        Ok(match &self.by {
            By::Owner => resource.decode_owner().map_err(undecodable)?.iter().map(IndexKey::target).collect(),
            By::References(find) => find(content()?)?.into_iter().map(|r| IndexKey::target(&target(r))).collect(),
            By::Keys(make) => make(content()?)?,
        })
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            By::Owner => "owner",
            By::References(_) => "references",
            By::Keys(_) => "keys",
        };
        write!(f, "{} (by {by})", self.name)
    }
}

/// The error of a stored resource that cannot be decoded.
pub(crate) fn undecodable(error: EncodingError) -> ReconcileError {
    ReconcileError::because(format!("a stored resource cannot be decoded: {error}"), error)
}

/// The target of a reference, as an id.
pub(crate) fn target(reference: pb::Reference) -> pb::Id {
    pb::Id { uid: String::new(), name: reference.name, r#type: reference.r#type, tenancy: reference.tenancy }
}
