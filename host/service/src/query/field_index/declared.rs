//! The indexed fields of a type, and a resource's values in them.

use mortise_query::{Candidate, IndexPath, Schema};
use mortise_resource::{EncodedResource, types::Gvk};
use mortise_store::{ChangeEvent, PriorState, Query};

use super::content::{EntryChange, IndexEntry, Terms};
use crate::{core::ids::query_everywhere, registry::ResourceType};

/// Values of one resource; a resource with more is found by every value.
const MAX_RESOURCE_VALUES: usize = 64;

/// The declaration of a type. It does not hold the plugin, which may be replaced meanwhile.
pub(super) struct IndexedFields {
    pub(super) gvk: Gvk,
    paths: Vec<IndexPath>,
    schema: Schema,
    schema_version: u32,
}

impl IndexedFields {
    pub(super) fn new(kind: &ResourceType) -> Self {
        Self {
            gvk: kind.gvk.clone(),
            paths: kind.query.indexed.clone(),
            schema: Schema::new(Some(kind.schema.message().clone())),
            schema_version: kind.schema_version.get(),
        }
    }

    /// Returns the query for all resources of the type.
    pub(super) fn query(&self) -> Query {
        query_everywhere(&self.gvk.to_pb())
    }

    pub(super) fn fields(&self) -> usize {
        self.paths.len()
    }

    /// Returns the index entry of a resource; `None` for another GroupVersion, which no query of this type finds.
    pub(super) fn entry(&self, resource: &EncodedResource) -> Option<IndexEntry> {
        if !resource.has_type(&self.gvk) {
            return None;
        }
        let place = [resource.partition(), resource.namespace(), resource.name()].join("\0");
        // Queries see data of another schema version as the plugin upgrades it.
        let terms = Some(resource).filter(|resource| resource.schema_version() == self.schema_version);
        Some(IndexEntry { place, terms: terms.and_then(|resource| self.terms(resource)).unwrap_or(Terms::Any) })
    }

    /// Returns the effect of a change on the indexes.
    pub(super) fn step(&self, change: &ChangeEvent) -> EntryChange {
        let before = match &change.before {
            PriorState::Resource(before) => self.entry(before),
            PriorState::Absent | PriorState::Unknown => None,
        };
        EntryChange { before, now: change.now.as_ref().and_then(|now| self.entry(now)) }
    }

    /// Returns the values of a resource; `None` if its data cannot be read, or has too many values.
    fn terms(&self, resource: &EncodedResource) -> Option<Terms> {
        let candidate = Candidate::new(resource, &self.schema);
        let mut terms = Vec::new();
        for (field, path) in self.paths.iter().enumerate() {
            terms.extend(path.keys(&candidate).ok()?.into_iter().map(|value| (field, value)));
        }
        (terms.len() <= MAX_RESOURCE_VALUES).then_some(Terms::Known(terms))
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::{goten::Meta, pb};
    use prost::Message as _;
    use prost_reflect::DescriptorPool;

    use super::*;

    /// Makes a resource of `g.v1.Kind` with a number of tags.
    fn tagged(tags: usize, schema_version: u32) -> pb::Resource {
        let data = Meta { tags: (0..tags).map(|n| format!("t{n}")).collect(), ..Meta::default() };
        let gvk = pb::Type { group: "g".into(), group_version: "v1".into(), kind: "Kind".into() };
        pb::Resource {
            id: Some(pb::Id { r#type: Some(gvk), name: "a".into(), ..pb::Id::default() }),
            data: Some(prost_types::Any { type_url: "x/goten.types.Meta".into(), value: data.encode_to_vec() }),
            schema_version,
            ..pb::Resource::default()
        }
    }

    #[test]
    fn what_cannot_be_said_is_found_by_every_value() {
        let pool = DescriptorPool::decode(mortise_resource::DESCRIPTORS).unwrap();
        let schema = Schema::new(pool.get_message_by_name("goten.types.Meta"));
        let paths = vec![IndexPath::parse("data.tags", &schema).unwrap()];
        let declared = IndexedFields { gvk: Gvk::new("g", "v1", "Kind"), paths, schema, schema_version: 2 };
        let terms = |resource: &pb::Resource| {
            declared.entry(&EncodedResource::encode(resource).unwrap()).map(|IndexEntry { terms, .. }| match terms {
                Terms::Known(terms) => Some(terms.len()),
                Terms::Any => None,
            })
        };
        assert_eq!(
            [0, 1, MAX_RESOURCE_VALUES, MAX_RESOURCE_VALUES + 1].map(|tags| terms(&tagged(tags, 2))),
            [Some(Some(0)), Some(Some(1)), Some(Some(MAX_RESOURCE_VALUES)), Some(None)]
        );
        assert_eq!([1, 3].map(|version| terms(&tagged(1, version))), [Some(None); 2]);
        let mut other = tagged(1, 2);
        if let Some(data) = &mut other.data {
            data.value = vec![0xff];
        }
        assert_eq!(terms(&other), Some(None));
        if let Some(resource_type) = other.id.as_mut().and_then(|id| id.r#type.as_mut()) {
            resource_type.group_version = "v2".into();
        }
        assert_eq!(terms(&other), None);
    }
}
