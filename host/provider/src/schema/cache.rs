//! The schema that the connections of a process share: cores open a connection for each instance of the provider, and a
//! schema of many types takes megabytes.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{ProviderSchema, TypeDescription};

/// The schema that was built last. It goes with the last connection that uses it; the types stay.
#[derive(Debug, Default)]
pub struct SchemaCache(Mutex<Option<Known>>);

#[derive(Debug)]
struct Known {
    /// Number of the types, if the server gives them one.
    version: Option<u64>,
    types: Vec<TypeDescription>,
    prefix: String,
    schema: Weak<ProviderSchema>,
}

impl SchemaCache {
    /// The schema of these types: the known one if it was built from the same. `version` is the number of the types, as
    /// far as the server gives them one.
    #[must_use]
    pub fn schema(&self, types: Vec<TypeDescription>, version: Option<u64>, prefix: &str) -> Arc<ProviderSchema> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_mut().filter(|known| known.prefix == prefix && known.types == types) {
            known.version = version;
            return known.schema();
        }
        let (prefix, schema) = (prefix.to_owned(), Weak::new());
        last.insert(Known { version, types, prefix, schema }).schema()
    }

    /// The schema of the types with this number, if they are the known ones.
    #[must_use]
    pub fn of_version(&self, version: u64, prefix: &str) -> Option<Arc<ProviderSchema>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_mut().filter(|known| known.prefix == prefix && known.version == Some(version));
        known.map(Known::schema)
    }
}

impl Known {
    /// The schema, built again if the last connection has freed it.
    fn schema(&mut self) -> Arc<ProviderSchema> {
        self.schema.upgrade().unwrap_or_else(|| {
            let schema = Arc::new(ProviderSchema::of(&self.types, &self.prefix));
            self.schema = Arc::downgrade(&schema);
            schema
        })
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
        let first = cache.schema(types(&["A"]), None, "mortise");
        assert!(Arc::ptr_eq(&first, &cache.schema(types(&["A"]), None, "mortise")));
        let other = cache.schema(types(&["A", "B"]), None, "mortise");
        assert_eq!((first.left_out.len(), other.left_out.len()), (1, 2), "a plugin was loaded meanwhile");
        assert!(!Arc::ptr_eq(&other, &cache.schema(types(&["A", "B"]), None, "edge")));
        let weak = Arc::downgrade(&other);
        drop(other);
        assert!(weak.upgrade().is_none(), "the last connection frees it");
    }

    #[test]
    fn types_of_a_version_are_known_until_others_come() {
        let cache = SchemaCache::default();
        assert!(cache.of_version(1, "mortise").is_none());
        let first = cache.schema(types(&["A"]), Some(1), "mortise");
        assert!(Arc::ptr_eq(&first, &cache.of_version(1, "mortise").unwrap()));
        assert!(cache.of_version(2, "mortise").is_none() && cache.of_version(1, "edge").is_none());
        drop(first);
        assert_eq!(cache.of_version(1, "mortise").unwrap().left_out.len(), 1, "it is built again");
        // Another change of the registry gives the same types another number.
        drop(cache.schema(types(&["A"]), Some(2), "mortise"));
        assert!(cache.of_version(1, "mortise").is_none() && cache.of_version(2, "mortise").is_some());
        drop(cache.schema(types(&["A", "B"]), None, "mortise"));
        assert!(cache.of_version(2, "mortise").is_none(), "types without a number are those of no number");
    }
}
