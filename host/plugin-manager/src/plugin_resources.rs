//! The resources of type `mortise.v1.Plugin`: read at the start, and written only when they change.
//!
//! They are the manager's memory: plugins that served, were disabled or rolled back survive a restart in them.

use std::{collections::BTreeMap, sync::Arc};

use mortise_resource::{
    data,
    pb::{self, Condition, condition::State},
    tenancy::WILDCARD,
    types,
};
use mortise_store::{Backend, Batch, Consistency, Mutation, Query, StoreError, TypeKey};
use prost::Message as _;
use ulid::Ulid;

/// Key of the status entry.
pub(crate) const STATUS_KEY: &str = "mortise";

const TYPE_URL: &str = "type.googleapis.com/mortise.v1.Plugin";

/// Longest message of a condition, bytes.
const MAX_MESSAGE_BYTES: usize = 4_096;

/// Most attempts of a write when the stored version is not the known one.
const WRITE_ATTEMPTS: u32 = 5;

/// Content of a plugin's resource.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PluginRecord {
    /// The data.
    pub(crate) data: data::Plugin,
    /// The condition `Loaded`.
    pub(crate) loaded: Condition,
    /// The condition `Healthy`.
    pub(crate) healthy: Condition,
}

/// The resources of all plugins.
pub(crate) struct PluginResources {
    backend: Arc<dyn Backend>,
    written: BTreeMap<String, pb::Resource>,
    /// Whether the fault of the last write is in the log.
    is_fault_logged: bool,
}

impl PluginResources {
    /// Reads the stored resources.
    ///
    /// # Errors
    /// Faults of the store.
    pub(crate) async fn open(backend: Arc<dyn Backend>) -> Result<Self, StoreError> {
        let any = || WILDCARD.to_owned();
        let tenancy = pb::Tenancy { partition: any(), namespace: any() };
        let query = Query { type_key: TypeKey::from(&types::plugin().to_pb()), tenancy, name_prefix: String::new() };
        let stored = backend.list(Consistency::Consistent, &query).await?;
        let named = |r: pb::Resource| (r.id.as_ref().map(|id| id.name.clone()).unwrap_or_default(), r);
        let written = stored.into_iter().map(named).collect();
        Ok(Self { backend, written, is_fault_logged: false })
    }

    /// Every plugin's data, by name.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&str, data::Plugin)> {
        self.written.iter().map(|(name, resource)| {
            let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
            (name.as_str(), data::Plugin::decode(bytes).unwrap_or_default())
        })
    }

    /// The resource as it was written last.
    #[must_use]
    pub(crate) fn resource(&self, name: &str) -> Option<&pb::Resource> {
        self.written.get(name)
    }

    /// Writes as [`PluginResources::put`], and logs a fault: once, since writes are tried again and again.
    ///
    /// # Errors
    /// Faults of the store.
    pub(crate) async fn put_logged(
        &mut self,
        pages: impl IntoIterator<Item = (&str, &PluginRecord)>,
    ) -> Result<(), StoreError> {
        let put = self.put(pages).await;
        let was_logged = std::mem::replace(&mut self.is_fault_logged, put.is_err());
        match &put {
            Err(e) if !was_logged => tracing::error!("the resources of plugins cannot be written: {e}"),
            Ok(()) if was_logged => tracing::info!("the resources of plugins can be written again"),
            _ => {}
        }
        put
    }

    /// Writes the changed ones of some records, in one commit.
    ///
    /// # Errors
    /// Faults of the store.
    async fn put(&mut self, records: impl IntoIterator<Item = (&str, &PluginRecord)>) -> Result<(), StoreError> {
        let changed: Vec<(&str, &PluginRecord)> =
            records.into_iter().filter(|(name, record)| self.changed_resource(name, record).is_some()).collect();
        for attempt in 1.. {
            let resources: Vec<_> =
                changed.iter().filter_map(|(name, record)| self.changed_resource(name, record)).collect();
            if resources.is_empty() {
                break;
            }
            let mutations = resources.into_iter().map(|r| Mutation::Put(Box::new(r))).collect();
            match self.backend.commit(Batch::new(mutations)).await {
                Ok(stored) => {
                    for resource in stored.into_iter().flatten() {
                        self.written.insert(resource.id().name.to_owned(), resource.decode()?);
                    }
                    break;
                }
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) if attempt < WRITE_ATTEMPTS => {
                    self.written = Self::open(self.backend.clone()).await?.written;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Forgets a resource that is gone from the store.
    pub(crate) fn forget(&mut self, name: &str) {
        self.written.remove(name);
    }

    /// The resource to store for a record; `None` if the stored one is up to date.
    fn changed_resource(&self, name: &str, record: &PluginRecord) -> Option<pb::Resource> {
        let value = record.data.encode_to_vec();
        let conditions = vec![cut_message(record.loaded.clone()), cut_message(record.healthy.clone())];
        let stored = self.written.get(name);
        let same_data = stored.and_then(|r| r.data.as_ref()).is_some_and(|any| any.value == value);
        let same_status = stored.and_then(|r| r.status.get(STATUS_KEY)).is_some_and(|s| s.conditions == conditions);
        if same_data && same_status {
            return None;
        }
        let mut resource = stored.cloned().unwrap_or_else(|| pb::Resource {
            id: Some(pb::Id {
                uid: Ulid::generate().to_string(),
                name: name.to_owned(),
                r#type: Some(types::plugin().to_pb()),
                tenancy: Some(pb::Tenancy::default()),
            }),
            ..pb::Resource::default()
        });
        if !same_data {
            resource.generation = Ulid::generate().to_string();
            resource.data = Some(prost_types::Any { type_url: TYPE_URL.into(), value });
        }
        let status =
            pb::Status { observed_generation: resource.generation.clone(), conditions, updated_at: Some(now()) };
        resource.status.insert(STATUS_KEY.into(), status);
        Some(resource)
    }
}

/// Makes a condition with the current time.
#[must_use]
pub(crate) fn condition(kind: &str, state: State, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        r#type: kind.to_owned(),
        state: state.into(),
        reason: reason.to_owned(),
        message: message.into(),
        resource: None,
    }
}

/// The current time in protobuf's form.
#[must_use]
pub(crate) fn now() -> prost_types::Timestamp {
    mortise_clock::timestamp()
}

fn cut_message(mut condition: Condition) -> Condition {
    if condition.message.len() > MAX_MESSAGE_BYTES {
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|i| condition.message.is_char_boundary(*i)).unwrap_or(0);
        condition.message.truncate(end);
        condition.message.push('…');
    }
    condition
}
