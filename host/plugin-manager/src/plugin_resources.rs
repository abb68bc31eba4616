//! The resources of type `mortise.v1.Plugin`: read at the start, and written only when they change.
//!
//! They are the manager's memory: plugins that served, were disabled or rolled back survive a restart in them.
//!
//! Servers that share a store have their memory in files ([`OwnRecords`]), and the resource in common: every server has a
//! status of its own in it, `mortise/SERVER`, and `mortise` is that of the server that is worst off.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mortise_resource::{
    data,
    pb::{self, Condition, condition::State},
    tenancy::WILDCARD,
    types,
};
use mortise_store::{Backend, Batch, Consistency, Mutation, Query, StoreError, TypeKey};
use prost::Message as _;
use ulid::Ulid;

use crate::{
    options::StartError,
    shared::{
        Shared,
        records::{OwnRecords, worst},
    },
};

/// Key of the status entry; of all servers together where several share a store.
const STATUS_KEY: &str = "mortise";

/// Beginning of the key of a server's own status entry, where several share a store.
const SERVER_STATUS_PREFIX: &str = "mortise/";

pub(crate) const TYPE_URL: &str = "type.googleapis.com/mortise.v1.Plugin";

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
    /// Records of this server, if others share the store.
    own: Option<Own>,
}

/// Memory of a server that shares its store.
struct Own {
    shared: Shared,
    records: OwnRecords,
    /// Plugins whose data has changed here, and is not in the store yet.
    unwritten: BTreeSet<String>,
}

impl Own {
    /// Returns the key of this server's status.
    fn status_key(&self) -> String {
        format!("{SERVER_STATUS_PREFIX}{}", self.shared.server)
    }

    /// Removes the statuses of servers that are gone.
    fn remove_gone(&self, status: &mut BTreeMap<String, pb::Status>) {
        let servers = self.shared.plans.servers();
        if servers.contains(&self.shared.server) {
            status.retain(|key, _| {
                key.strip_prefix(SERVER_STATUS_PREFIX).is_none_or(|server| servers.iter().any(|known| known == server))
            });
        }
    }
}

impl PluginResources {
    /// Reads the stored resources, and the records of this server if others share the store.
    ///
    /// # Errors
    /// Faults of the store; files that cannot be read.
    pub(crate) async fn open(backend: Arc<dyn Backend>, shared: Option<Shared>) -> Result<Self, StartError> {
        let own = shared.map(|shared| {
            let path = shared.records.clone();
            let records = OwnRecords::open(path.clone()).map_err(|source| StartError::Records { path, source })?;
            Ok::<_, StartError>(Own { shared, records, unwritten: BTreeSet::new() })
        });
        let written = Self::read(&backend, Consistency::Consistent).await?;
        Ok(Self { backend, written, is_fault_logged: false, own: own.transpose()? })
    }

    async fn read(
        backend: &Arc<dyn Backend>,
        consistency: Consistency,
    ) -> Result<BTreeMap<String, pb::Resource>, StoreError> {
        let any = || WILDCARD.to_owned();
        let tenancy = pb::Tenancy { partition: any(), namespace: any() };
        let query = Query { type_key: TypeKey::from(&types::plugin().to_pb()), tenancy, name_prefix: String::new() };
        let stored = backend.list(consistency, &query).await?;
        let named = |r: pb::Resource| (r.id.as_ref().map(|id| id.name.clone()).unwrap_or_default(), r);
        Ok(stored.into_iter().map(named).collect())
    }

    /// Returns the records of this server as of its stop, by the plugins' names.
    pub(crate) fn stored(&self) -> Vec<(String, PluginRecord)> {
        match &self.own {
            Some(own) => own.records.all().into_iter().chain(self.inherited(own)).collect(),
            None => self.written.iter().map(|(name, resource)| (name.clone(), record(resource))).collect(),
        }
    }

    /// Returns the plugins that a single server had before, and that the other ones do not know yet.
    pub(crate) fn inherited_names(&self) -> Vec<String> {
        let inherited = self.own.as_ref().map(|own| self.inherited(own)).unwrap_or_default();
        inherited.into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the records of the single server that had the store before: this is the first one of several.
    fn inherited(&self, own: &Own) -> Vec<(String, PluginRecord)> {
        let is_of_one =
            |resource: &&pb::Resource| !resource.status.keys().any(|key| key.starts_with(SERVER_STATUS_PREFIX));
        let of_one = self.written.iter().filter(|(name, resource)| !own.records.has(name) && is_of_one(resource));
        of_one.map(|(name, resource)| (name.clone(), record(resource))).collect()
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
        let mut changed: Vec<(&str, &PluginRecord)> = Vec::new();
        for (name, record) in records {
            if let Some(own) = &mut self.own {
                let path = || own.shared.records.join(name);
                let fault = |source| StoreError::Io { path: path(), action: "write", source };
                if own.records.put(name, record).map_err(fault)? {
                    own.unwritten.insert(name.to_owned());
                }
            }
            if self.changed_resource(name, record).is_some() {
                changed.push((name, record));
            }
        }
        for attempt in 1.. {
            let resources: Vec<_> =
                changed.iter().filter_map(|(name, record)| self.changed_resource(name, record)).collect();
            if resources.is_empty() {
                break;
            }
            let mutations = resources.into_iter().map(|r| Mutation::Put(Box::new(r))).collect();
            match self.backend.commit(Batch::new(mutations)).await {
                Ok(stored) => {
                    if let Some(own) = &mut self.own {
                        let written = changed.iter().filter(|(_, record)| !is_behind(record));
                        for (name, _) in written {
                            own.unwritten.remove(*name);
                        }
                    }
                    for resource in stored.into_iter().flatten() {
                        self.written.insert(resource.id().name.to_owned(), resource.decode()?);
                    }
                    break;
                }
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) if attempt < WRITE_ATTEMPTS => {
                    self.written = Self::read(&self.backend, Consistency::Consistent).await?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads what other servers have made of the resources meanwhile, from this server's copy.
    ///
    /// # Errors
    /// Faults of the store.
    pub(crate) async fn refresh(&mut self) -> Result<(), StoreError> {
        if self.own.is_some() {
            self.written = Self::read(&self.backend, Consistency::Eventual).await?;
        }
        Ok(())
    }

    /// Forgets a resource that is gone from the store.
    pub(crate) fn forget(&mut self, name: &str) {
        self.written.remove(name);
        if let Some(own) = &mut self.own {
            own.records.forget(name);
        }
    }

    /// Removes this server's part of a resource that other servers still need. Returns false if none of them does.
    pub(crate) async fn leave(&mut self, name: &str) -> Result<bool, StoreError> {
        let Some(own) = &mut self.own else { return Ok(false) };
        for attempt in 1.. {
            let Some(mut resource) = Self::read(&self.backend, Consistency::Consistent).await?.remove(name) else {
                return Ok(false);
            };
            resource.status.remove(&own.status_key());
            own.remove_gone(&mut resource.status);
            let rest = resource.status.iter().filter(|(key, _)| key.starts_with(SERVER_STATUS_PREFIX));
            let Some(status) = rest.map(|(_, status)| status.clone()).next() else { return Ok(false) };
            resource.status.insert(STATUS_KEY.to_owned(), status);
            match self.backend.commit(Batch::new(vec![Mutation::Put(Box::new(resource))])).await {
                Ok(_) => break,
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) if attempt < WRITE_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        own.records.forget(name);
        self.written.remove(name);
        Ok(true)
    }

    /// The resource to store for a record; `None` if the stored one is up to date.
    fn changed_resource(&self, name: &str, record: &PluginRecord) -> Option<pb::Resource> {
        let value = record.data.encode_to_vec();
        let conditions = vec![cut_message(record.loaded.clone()), cut_message(record.healthy.clone())];
        let stored = self.written.get(name);
        let own_key = self.own.as_ref().map(Own::status_key);
        let key = own_key.as_deref().unwrap_or(STATUS_KEY);
        // The data is about what serves: that of the last change, on any server that could load it.
        let leaves_data = self
            .own
            .as_ref()
            .is_some_and(|own| stored.is_some() && (is_behind(record) || !own.unwritten.contains(name)));
        let same_data = leaves_data || stored.and_then(|r| r.data.as_ref()).is_some_and(|any| any.value == value);
        let has = |key: &str, conditions: &[Condition]| {
            stored.and_then(|r| r.status.get(key)).is_some_and(|s| s.conditions == conditions)
        };
        let of_all = self.own.as_ref().map(|own| {
            let mut others = stored.map(|stored| stored.status.clone()).unwrap_or_default();
            own.remove_gone(&mut others);
            let is_complete = stored.is_some_and(|stored| stored.status.len() == others.len());
            let of_all = conditions.iter().map(|condition| cut_message(of_all(condition, key, &others)));
            (of_all.collect::<Vec<_>>(), is_complete)
        });
        let same_of_all = of_all.as_ref().is_none_or(|(of_all, is_complete)| *is_complete && has(STATUS_KEY, of_all));
        if same_data && has(key, &conditions) && same_of_all {
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
        let observed_generation = resource.generation.clone();
        let status = |conditions| pb::Status {
            observed_generation: observed_generation.clone(),
            conditions,
            updated_at: Some(now()),
        };
        if let (Some(own), Some((of_all, _))) = (&self.own, of_all) {
            own.remove_gone(&mut resource.status);
            if !has(key, &conditions) {
                resource.status.insert(key.to_owned(), status(conditions));
            }
            resource.status.insert(STATUS_KEY.into(), status(of_all));
        } else {
            // A store that several servers shared before.
            resource.status.retain(|key, _| !key.starts_with(SERVER_STATUS_PREFIX));
            resource.status.insert(STATUS_KEY.into(), status(conditions));
        }
        Some(resource)
    }
}

/// Returns whether a record is about a failure, and not about what serves or what an operator has done.
fn is_behind(record: &PluginRecord) -> bool {
    let failed = record.loaded.state() != State::True;
    failed && !record.data.disabled && !record.data.withdrawn
}

/// Returns a condition for all servers.
fn of_all(own: &Condition, own_key: &str, status: &BTreeMap<String, pb::Status>) -> Condition {
    let others = status.iter().filter(|(key, _)| *key != own_key).filter_map(|(key, status)| {
        let found = status.conditions.iter().find(|condition| condition.r#type == own.r#type)?;
        Some((key.strip_prefix(SERVER_STATUS_PREFIX)?, found))
    });
    worst(own, others)
}

/// Reads the record in a resource.
fn record(resource: &pb::Resource) -> PluginRecord {
    let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
    let conditions = resource.status.get(STATUS_KEY).map(|status| status.conditions.as_slice()).unwrap_or_default();
    let find = |kind: &str| {
        let found = conditions.iter().find(|condition| condition.r#type == kind).cloned();
        found.unwrap_or_else(|| condition(kind, State::Unknown, "NotLoaded", ""))
    };
    PluginRecord {
        data: data::Plugin::decode(bytes).unwrap_or_default(),
        loaded: find("Loaded"),
        healthy: find("Healthy"),
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
