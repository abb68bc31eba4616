//! The resources of a case: those that reconcilers read and write, and that hooks find when they search.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_plugin::testing::{Store, is_type};
use mortise_plugin_host::{LookupHost, Manifest};
use mortise_query::{
    Schema,
    in_memory::{self, InMemoryError},
};
use mortise_resource::{
    Code, Error,
    data::{SearchRequest, SearchResponse},
    meta, pb,
    tenancy::WILDCARD,
};
use parking_lot::{Mutex, MutexGuard};

use super::{case::Case, codec::Codec, error::CaseError};

/// Time of a case that names none: 2025-01-01T00:00:00Z in milliseconds since 1970, as in a
/// [`mortise_plugin::testing::World`].
const DEFAULT_NOW_MILLIS: u64 = 1_735_689_600_000;

/// Fault of a resource that a server would have removed.
const NO_FINALIZER: &str = "{what}: a deleted resource without finalizers is gone; give it metadata.finalizers, or leave \
                            metadata.deletionTimestamp out";

/// Resources in memory, at a fixed time.
pub(crate) struct StoredResources {
    codec: Arc<Codec>,
    now: u64,
    store: Mutex<Store>,
}

impl StoredResources {
    /// Makes an empty store for a plugin's types.
    pub(crate) fn of(manifest: &Manifest) -> Arc<Self> {
        let mut codec = Codec::default();
        codec.add(manifest);
        Arc::new(Self { codec: Arc::new(codec), now: DEFAULT_NOW_MILLIS, store: Mutex::default() })
    }

    /// Makes the store of a case, at the time of the case.
    ///
    /// # Errors
    /// A fault of a resource, or of the time.
    pub(super) fn of_case(codec: &Arc<Codec>, case: &Case) -> Result<Arc<Self>, CaseError> {
        let now = match &case.now {
            None => DEFAULT_NOW_MILLIS,
            Some(text) => {
                let time: jiff::Timestamp =
                    text.parse().map_err(|e| format!("now: {e}; write it as 2025-01-01T00:00:00Z"))?;
                u64::try_from(time.as_millisecond()).map_err(|_| "now: it must be after 1970")?
            }
        };
        let stored = Self { codec: codec.clone(), now, store: Mutex::default() };
        let mut deleted = Vec::new();
        for (place, item) in case.store.iter().enumerate() {
            let what = format!("store[{place}]");
            let mut resource = codec.read(&what, item)?;
            if resource.metadata.remove(meta::DELETION_TIMESTAMP).is_some() {
                if !meta::has_finalizers(&resource.metadata) {
                    return Err(NO_FINALIZER.replace("{what}", &what).into());
                }
                deleted.push(resource.id.clone().unwrap_or_default());
            }
            stored.put(resource).map_err(|e| CaseError::field(what, e))?;
        }
        // The deletion of an owner marks its children, which may come later in the case.
        for id in deleted {
            stored.lock().delete(&id, "", now).map_err(|e| CaseError::field("store".to_owned(), e))?;
        }
        Ok(Arc::new(stored))
    }

    /// Codec that reads and shows the resources.
    pub(super) fn codec(&self) -> &Arc<Codec> {
        &self.codec
    }

    /// Time in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock()
    }

    /// Stores a resource as it is, with its status.
    ///
    /// # Errors
    /// The store's refusal.
    pub(super) fn put(&self, mut resource: pb::Resource) -> Result<(), mortise_plugin::Failure> {
        let status = std::mem::take(&mut resource.status);
        (resource.version, resource.generation) = (String::new(), String::new());
        let mut store = self.store.lock();
        let stored = store.write(resource, self.now)?;
        let id = stored.id.clone().unwrap_or_default();
        for (key, mut status) in status {
            if status.observed_generation.is_empty() {
                status.observed_generation.clone_from(&stored.generation);
            }
            store.write_status(&id, "", &key, status, self.now)?;
        }
        Ok(())
    }

    /// Returns the whole resource, if it exists.
    pub(super) fn find(&self, id: &pb::Id) -> Option<pb::Resource> {
        self.store.lock().read(id).cloned()
    }

    /// Lists the resources of a type in a tenancy, by a prefix of their names.
    pub(super) fn list(&self, resource_type: &pb::Type, within: &pb::Tenancy, prefix: &str) -> Vec<pb::Resource> {
        let scope = self.codec.scope(&resource_type.into());
        let mut within = within.clone();
        scope.fill_query(&mut within);
        let unit =
            |wanted: &str, is: &str| wanted == WILDCARD || wanted == is || (wanted.is_empty() && is == "default");
        let fits = |resource: &&pb::Resource| {
            let id = resource.id.clone().unwrap_or_default();
            let tenancy = id.tenancy.unwrap_or_default();
            is_type(resource, resource_type)
                && id.name.starts_with(prefix)
                && unit(&within.partition, &tenancy.partition)
                && unit(&within.namespace, &tenancy.namespace)
        };
        self.store.lock().all().filter(fits).cloned().collect()
    }

    /// Returns the schema for the paths in queries.
    pub(super) fn schema(&self, resource_type: Option<&pb::Type>) -> Schema {
        Schema::new(resource_type.and_then(|resource_type| self.codec.message(&resource_type.into())))
    }

    /// Returns one page of a query's result.
    ///
    /// # Errors
    /// The query is invalid.
    pub(super) fn find_all(&self, request: &SearchRequest) -> Result<SearchResponse, Error> {
        let resource_type = request.r#type.clone().ok_or_else(|| Error::invalid("type is required"))?;
        let candidates = self.list(&resource_type, &request.tenancy.clone().unwrap_or_default(), &request.parent);
        in_memory::search(candidates, request, &self.schema(Some(&resource_type))).map_err(|e| refused(&e))
    }
}

#[async_trait]
impl LookupHost for StoredResources {
    async fn search(&self, _plugin: &str, request: SearchRequest) -> Result<SearchResponse, Error> {
        self.find_all(&request)
    }
}

/// Converts an error of the SDK's store to that of the host.
pub(super) fn refused(error: &InMemoryError) -> Error {
    let code = match error {
        InMemoryError::Query(_) => Code::InvalidArgument,
        InMemoryError::Condition => Code::Aborted,
        InMemoryError::Undecodable(_) | InMemoryError::Encoding(_) => Code::Internal,
    };
    Error::new(code, error.to_string())
}
