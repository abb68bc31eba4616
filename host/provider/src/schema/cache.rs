//! The schema that the connections of a process share: cores open a connection for each instance of the provider, and a
//! schema of many types takes megabytes.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{ProviderSchema, TypeDescription};

/// The schema that was built last. It goes with the last connection that uses it; the types stay.
#[derive(Debug, Default)]
pub struct SchemaCache(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    types: Vec<TypeDescription>,
    prefix: String,
    schema: Weak<ProviderSchema>,
}

impl SchemaCache {
    /// The schema of these types: the known one if it was built from the same.
    #[must_use]
    pub fn schema(&self, types: Vec<TypeDescription>, prefix: &str) -> Arc<ProviderSchema> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|known| known.prefix == prefix && known.types == types);
        if let Some(schema) = known.and_then(|known| known.schema.upgrade()) {
            return schema;
        }
        let schema = Arc::new(ProviderSchema::of(&types, prefix));
        *last = Some(Known { types, prefix: prefix.to_owned(), schema: Arc::downgrade(&schema) });
        schema
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::{data::TypeInfo, pb};

    use super::*;

    fn types(kinds: &[&str]) -> Vec<TypeDescription> {
        let of = |kind: &&str| {
            let kind = pb::Type { group: "demo".into(), group_version: "v1".into(), kind: (*kind).into() };
            let info = TypeInfo { r#type: Some(kind), ..TypeInfo::default() };
            TypeDescription { info, descriptors: Default::default() }
        };
        kinds.iter().map(of).collect()
    }

    #[test]
    fn connections_to_the_same_types_share_a_schema() {
        let cache = SchemaCache::default();
        let first = cache.schema(types(&["A"]), "mortise");
        assert!(Arc::ptr_eq(&first, &cache.schema(types(&["A"]), "mortise")));
        let other = cache.schema(types(&["A", "B"]), "mortise");
        assert_eq!((first.left_out.len(), other.left_out.len()), (1, 2), "a plugin was loaded meanwhile");
        assert!(!Arc::ptr_eq(&other, &cache.schema(types(&["A", "B"]), "edge")));
        let weak = Arc::downgrade(&other);
        drop(other);
        assert!(weak.upgrade().is_none(), "the last connection frees it");
    }
}
