//! The keys of plugins' reconcilers: small values, for each plugin its own. They are resources (type
//! `mortise.v1.Value`), and as durable. The plugin's resource owns them, and they are deleted with it.
//!
//! The values of a removed plugin are deleted a while later; a plugin installed under its name starts without any. So a
//! value counts only if the present incarnation of the plugin's resource owns it. Any other is replaced by a new
//! resource, which the deletion of the old one does not touch.
//!
//! A change that has begun goes on to its end, even if its caller gives it up, so that memory and store agree.
//!
//! # Limits
//! Each plugin has a quota of keys and of bytes, keys included; a key has 1 to [`MAX_KEY_BYTES`] bytes, a value at most
//! as many as the store takes for one resource.
//!
//! # Cost
//! A read is two reads of the store. The first use of a plugin's keys reads them all, page by page; from then on
//! its keys and sizes are in memory. A write is one commit; the writes of a plugin run one after another.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
};

use mortise_resource::{data, pb, types};
use mortise_store::{Backend, Batch, Consistency, Mutation, StoreError};
use prost::Message as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Mutex, task::JoinError};
use ulid::Ulid;

/// Longest key, bytes.
pub const MAX_KEY_BYTES: usize = 256;

const TYPE_URL: &str = "type.googleapis.com/mortise.v1.Value";

/// Limits of one plugin's values; `[kv]` in config.toml sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// Values of one plugin.
    pub values: usize,
    /// Bytes of one plugin's keys and values together.
    pub bytes: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self { values: 10_000, bytes: 4 << 20 }
    }
}

/// The error of an operation on values. Nothing was changed, except where [`KvError::Interrupted`] says so.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// The key is empty or too long; its bytes.
    #[error("a key must have 1 to {MAX_KEY_BYTES} bytes, got {0}; shorten it, or use its digest")]
    Key(usize),
    /// The plugin has reached its limit of keys.
    #[error("the plugin keeps {limit} values already (limit kv.keys); remove some, or raise the limit")]
    Values {
        /// Limit of keys.
        limit: usize,
    },
    /// The plugin would exceed its limit of bytes.
    #[error("the plugin's values would take {would} bytes (limit kv.bytes, {limit}); remove some, or raise the limit")]
    Bytes {
        /// Bytes after the change.
        would: usize,
        /// Limit of bytes.
        limit: usize,
    },
    /// The plugin's own resource, which would own the value, is not stored.
    #[error("the plugin's resource is not stored (yet); try again later")]
    NoOwner,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server is stopping, or the change met a fault of the host's. It may have been made.
    #[error("the change was interrupted; read the value before trying again")]
    Interrupted(#[source] JoinError),
}

/// The values of all plugins. Cheap to clone.
#[derive(Clone)]
pub struct PluginKv {
    backend: Arc<dyn Backend>,
    quota: Quota,
    keys: Arc<Mutex<HashMap<String, SharedKeys>>>,
    /// Lease on which changes depend.
    held: Option<Arc<str>>,
}

/// The keys of a plugin; `None` until their first use. Writers hold the lock, so the writes of a plugin run one after
/// another.
type SharedKeys = Arc<Mutex<Option<PluginKeys>>>;

/// The keys of a plugin, with the bytes of each key and its value.
#[derive(Default)]
struct PluginKeys {
    /// Uid of the plugin's resource, the owner of the values.
    owner: String,
    sizes: BTreeMap<String, usize>,
    bytes: usize,
}

impl PluginKeys {
    fn set(&mut self, key: &str, size: usize) {
        self.bytes = self.bytes + size - self.sizes.insert(key.to_owned(), size).unwrap_or(0);
    }

    fn remove(&mut self, key: &str) {
        self.bytes -= self.sizes.remove(key).unwrap_or(0);
    }
}

impl PluginKv {
    /// Makes the values over a store.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, quota: Quota) -> Self {
        Self { backend, quota, keys: Arc::default(), held: None }
    }

    /// Makes changes depend on a lease ([`Batch::held`]).
    #[must_use]
    pub fn holding(self, held: Option<Arc<str>>) -> Self {
        Self { held, ..self }
    }

    /// Gets the value under a key.
    ///
    /// # Errors
    /// [`KvError::Key`], and faults of the store.
    pub async fn get(&self, plugin: &str, key: &str) -> Result<Option<Vec<u8>>, KvError> {
        check(key)?;
        let Some((resource, content)) = self.stored(plugin, key).await? else { return Ok(None) };
        let owner = self.owner(plugin).await?;
        Ok(owner.is_none_or(|owner| owns(&owner, &resource)).then_some(content.value))
    }

    /// Sets the value under a key.
    ///
    /// # Errors
    /// [`KvError`].
    pub async fn set(&self, plugin: &str, key: &str, value: Vec<u8>) -> Result<(), KvError> {
        check(key)?;
        let (values, plugin, key) = (self.clone(), plugin.to_owned(), key.to_owned());
        run_and_report_end(async move { values.set_now(&plugin, &key, value).await }).await
    }

    async fn set_now(&self, plugin: &str, key: &str, value: Vec<u8>) -> Result<(), KvError> {
        let owner = self.owner(plugin).await?.ok_or(KvError::NoOwner)?;
        let keys = self.keys_of(plugin).await;
        let mut keys = keys.lock().await;
        let keys = self.load(&mut keys, plugin, &owner).await?;
        let (size, before) = (key.len() + value.len(), keys.sizes.get(key).copied());
        if before.is_none() && keys.sizes.len() >= self.quota.values {
            return Err(KvError::Values { limit: self.quota.values });
        }
        let would = keys.bytes + size - before.unwrap_or(0);
        if would > self.quota.bytes {
            return Err(KvError::Bytes { would, limit: self.quota.bytes });
        }
        let content = data::Value { plugin: plugin.to_owned(), key: key.to_owned(), value };
        let fresh = || pb::Resource {
            id: Some(pb::Id { uid: Ulid::generate().to_string(), ..id(plugin, key) }),
            owner: Some(owner.clone()),
            ..pb::Resource::default()
        };
        let (mut mutations, mut resource) = match self.stored(plugin, key).await? {
            Some((resource, _)) if owns(&owner, &resource) => (Vec::new(), resource),
            Some((old, _)) => {
                let delete = Mutation::Delete { id: old.id.unwrap_or_default(), version: old.version };
                (vec![delete], fresh())
            }
            None => (Vec::new(), fresh()),
        };
        resource.generation = Ulid::generate().to_string();
        resource.data = Some(prost_types::Any { type_url: TYPE_URL.into(), value: content.encode_to_vec() });
        mutations.push(Mutation::Put(Box::new(resource)));
        self.backend.commit(Batch::new(mutations).held(self.held.clone())).await?;
        keys.set(key, size);
        Ok(())
    }

    /// Removes a key and its value, if they exist.
    ///
    /// # Errors
    /// [`KvError::Key`], and faults of the store.
    pub async fn remove(&self, plugin: &str, key: &str) -> Result<(), KvError> {
        check(key)?;
        let (values, plugin, key) = (self.clone(), plugin.to_owned(), key.to_owned());
        run_and_report_end(async move { values.remove_now(&plugin, &key).await }).await
    }

    async fn remove_now(&self, plugin: &str, key: &str) -> Result<(), KvError> {
        let Some(owner) = self.owner(plugin).await? else { return Ok(()) };
        let keys = self.keys_of(plugin).await;
        let mut keys = keys.lock().await;
        let keys = self.load(&mut keys, plugin, &owner).await?;
        if let Some((resource, _)) = self.stored(plugin, key).await?
            && owns(&owner, &resource)
        {
            let delete = Mutation::Delete { id: resource.id.unwrap_or_default(), version: resource.version };
            self.backend.commit(Batch::single(delete).held(self.held.clone())).await?;
        }
        keys.remove(key);
        Ok(())
    }

    /// Lists the keys that begin with a prefix, in byte order.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn keys(&self, plugin: &str, prefix: &str) -> Result<Vec<String>, KvError> {
        let Some(owner) = self.owner(plugin).await? else { return Ok(Vec::new()) };
        let keys = self.keys_of(plugin).await;
        let mut keys = keys.lock().await;
        let keys = self.load(&mut keys, plugin, &owner).await?;
        let from = keys.sizes.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        Ok(from.map(|(key, _)| key).take_while(|key| key.starts_with(prefix)).cloned().collect())
    }

    /// Drops the keys of a plugin from memory, when it has no controllers any more. Its values stay stored; they are
    /// deleted with the plugin's resource.
    pub async fn forget(&self, plugin: &str) {
        self.keys.lock().await.remove(plugin);
    }

    async fn keys_of(&self, plugin: &str) -> SharedKeys {
        self.keys.lock().await.entry(plugin.to_owned()).or_default().clone()
    }

    /// Returns the keys, read from the store at their first use by this incarnation of the plugin's resource.
    async fn load<'a>(
        &self,
        keys: &'a mut Option<PluginKeys>,
        plugin: &str,
        owner: &pb::Id,
    ) -> Result<&'a mut PluginKeys, StoreError> {
        if keys.as_ref().is_some_and(|keys| keys.owner != owner.uid) {
            *keys = None;
        }
        if let Some(keys) = keys {
            return Ok(keys);
        }
        let mut found = PluginKeys { owner: owner.uid.clone(), ..PluginKeys::default() };
        let kind = types::value();
        let mut owned = self.backend.scan_owned(owner).await?;
        while let Some(page) = owned.next().await? {
            for value in page.iter().filter(|resource| resource.has_type(&kind)) {
                let content = content(&value.decode()?);
                if content.plugin == plugin {
                    found.set(&content.key, content.key.len() + content.value.len());
                }
            }
        }
        Ok(keys.insert(found))
    }

    async fn stored(&self, plugin: &str, key: &str) -> Result<Option<(pb::Resource, data::Value)>, StoreError> {
        match self.backend.read(Consistency::Consistent, &id(plugin, key)).await {
            Ok(resource) => {
                let content = content(&resource);
                Ok(Some((resource, content)))
            }
            Err(StoreError::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads the plugin's own resource; `None` if it is not stored.
    async fn owner(&self, plugin: &str) -> Result<Option<pb::Id>, StoreError> {
        let id = pb::Id {
            uid: String::new(),
            name: plugin.to_owned(),
            r#type: Some(types::plugin().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
        };
        match self.backend.read(Consistency::Consistent, &id).await {
            Ok(resource) => Ok(resource.id),
            Err(StoreError::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Carries out a change even if the caller gives it up.
async fn run_and_report_end(change: impl Future<Output = Result<(), KvError>> + Send + 'static) -> Result<(), KvError> {
    tokio::spawn(change).await.map_err(KvError::Interrupted)?
}

/// Whether a value is owned by this incarnation.
fn owns(owner: &pb::Id, value: &pb::Resource) -> bool {
    value.owner.as_ref().is_some_and(|id| id.uid == owner.uid)
}

fn check(key: &str) -> Result<(), KvError> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES { Err(KvError::Key(key.len())) } else { Ok(()) }
}

fn content(resource: &pb::Resource) -> data::Value {
    let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
    data::Value::decode(bytes).unwrap_or_default()
}

/// Returns the id of a value. Its name is a digest, since a key may be any text.
fn id(plugin: &str, key: &str) -> pb::Id {
    let digest = Sha256::new().chain_update(plugin).chain_update([0]).chain_update(key).finalize();
    pb::Id {
        uid: String::new(),
        // The precision is that of hexadecimal digits: 20 bytes.
        name: format!("v{digest:.40x}"),
        r#type: Some(types::value().to_pb()),
        tenancy: Some(pb::Tenancy::default()),
    }
}

#[cfg(test)]
mod tests {
    use mortise_store::{Options, SledBackend};

    use super::*;

    /// A store with the resources of two plugins.
    async fn store() -> (tempfile::TempDir, Arc<dyn Backend>) {
        let dir = tempfile::tempdir().unwrap();
        let backend = Arc::new(SledBackend::open(Options::new(dir.path().join("store"))).unwrap());
        for plugin in ["a", "b"] {
            let id = pb::Id {
                uid: Ulid::generate().to_string(),
                name: plugin.into(),
                r#type: Some(types::plugin().to_pb()),
                tenancy: Some(pb::Tenancy::default()),
            };
            backend.write_cas(pb::Resource { id: Some(id), ..pb::Resource::default() }).await.unwrap();
        }
        (dir, backend)
    }

    #[tokio::test]
    async fn each_plugin_has_its_own_and_they_last() {
        let (_dir, backend) = store().await;
        let values = PluginKv::new(backend.clone(), Quota::default());
        values.set("a", "k/1", b"one".to_vec()).await.unwrap();
        values.set("a", "k/2", Vec::new()).await.unwrap();
        values.set("a", "other", b"x".to_vec()).await.unwrap();
        values.set("b", "k/1", b"of b".to_vec()).await.unwrap();
        values.set("a", "k/1", b"eins".to_vec()).await.unwrap();
        let anew = PluginKv::new(backend, Quota::default());
        for values in [values, anew] {
            assert_eq!(values.get("a", "k/1").await.unwrap().unwrap(), b"eins");
            assert_eq!(values.get("a", "k/2").await.unwrap().unwrap(), b"");
            assert_eq!(values.get("b", "k/1").await.unwrap().unwrap(), b"of b");
            assert_eq!(values.get("b", "k/2").await.unwrap(), None);
            assert_eq!(values.keys("a", "k/").await.unwrap(), ["k/1", "k/2"]);
            assert_eq!(values.keys("a", "").await.unwrap(), ["k/1", "k/2", "other"]);
            assert_eq!(values.keys("c", "").await.unwrap(), [""; 0]);
        }
    }

    #[tokio::test]
    async fn they_belong_to_the_plugins_resource() {
        let (_dir, backend) = store().await;
        let values = PluginKv::new(backend.clone(), Quota::default());
        values.set("a", "k", b"v".to_vec()).await.unwrap();
        let owner = values.owner("a").await.unwrap().unwrap();
        assert_eq!(backend.list_by_owner(&owner).await.unwrap().len(), 1);
        let error = values.set("nobody", "k", b"v".to_vec()).await.unwrap_err();
        assert!(matches!(error, KvError::NoOwner), "{error}");
    }

    #[tokio::test]
    async fn quotas_hold_and_removal_makes_room() {
        let (_dir, backend) = store().await;
        let values = PluginKv::new(backend, Quota { values: 2, bytes: 20 });
        values.set("a", "1", vec![0; 9]).await.unwrap();
        values.set("a", "2", vec![0; 9]).await.unwrap();
        let error = values.set("a", "3", Vec::new()).await.unwrap_err();
        assert!(matches!(error, KvError::Values { limit: 2 }), "{error}");
        let error = values.set("a", "2", vec![0; 10]).await.unwrap_err();
        assert!(matches!(error, KvError::Bytes { would: 21, limit: 20 }), "{error}");
        assert_eq!(values.get("a", "2").await.unwrap().unwrap().len(), 9, "a refusal changes nothing");
        values.set("b", "3", vec![0; 9]).await.unwrap();
        values.remove("a", "1").await.unwrap();
        values.remove("a", "1").await.unwrap();
        values.set("a", "3", vec![0; 9]).await.unwrap();
        assert_eq!(values.keys("a", "").await.unwrap(), ["2", "3"]);
    }

    #[tokio::test]
    async fn what_was_stored_before_counts_and_nothing_of_others() {
        let (_dir, backend) = store().await;
        let values = PluginKv::new(backend.clone(), Quota::default());
        // More than the first page of a scan.
        for n in 0..100 {
            values.set("a", &format!("{n:02}"), vec![0; 8]).await.unwrap();
        }
        values.set("b", "other", vec![0; 8]).await.unwrap();
        let values = PluginKv::new(backend, Quota { values: 100, bytes: 1_001 });
        let keys = values.keys("a", "").await.unwrap();
        assert_eq!((keys.len(), &*keys[0], &*keys[99]), (100, "00", "99"));
        assert!(matches!(values.set("a", "100", Vec::new()).await, Err(KvError::Values { limit: 100 })));
        values.set("a", "99", vec![0; 9]).await.unwrap();
        let error = values.set("a", "99", vec![0; 10]).await.unwrap_err();
        assert!(matches!(error, KvError::Bytes { would: 1_002, limit: 1_001 }), "{error}");
    }

    /// The values of the old incarnation are deleted later; those of the new one stay.
    #[tokio::test]
    async fn a_plugin_that_is_installed_again_loses_no_value() {
        let (_dir, backend) = store().await;
        let values = PluginKv::new(backend.clone(), Quota { values: 2, ..Quota::default() });
        for key in ["k", "other"] {
            values.set("a", key, b"old".to_vec()).await.unwrap();
        }
        let old = values.owner("a").await.unwrap().unwrap();
        let stored = backend.read(Consistency::Consistent, &old).await.unwrap();
        backend.delete_cas(&old, &stored.version).await.unwrap();
        let id = pb::Id { uid: Ulid::generate().to_string(), ..old.clone() };
        backend.write_cas(pb::Resource { id: Some(id), ..pb::Resource::default() }).await.unwrap();

        assert_eq!(values.get("a", "k").await.unwrap(), None);
        assert_eq!(values.keys("a", "").await.unwrap(), [""; 0]);
        values.set("a", "k", b"new".to_vec()).await.unwrap();
        values.set("a", "one more", Vec::new()).await.unwrap();
        for child in backend.list_by_owner(&old).await.unwrap() {
            backend.delete_cas(&child.id.unwrap(), &child.version).await.unwrap();
        }
        assert_eq!(values.get("a", "k").await.unwrap().unwrap(), b"new");
        assert_eq!(values.keys("a", "").await.unwrap(), ["k", "one more"]);
    }

    #[tokio::test]
    async fn a_change_that_is_given_up_is_counted_when_it_is_stored() {
        let (_dir, backend) = store().await;
        let values = PluginKv::new(backend, Quota::default());
        assert!(values.keys("a", "").await.unwrap().is_empty());
        for n in 0..50 {
            let key = n.to_string();
            let patience = std::time::Duration::from_micros(20 * n);
            let _ = tokio::time::timeout(patience, values.set("a", &key, vec![1])).await;
            while values.get("a", &key).await.unwrap().is_none() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            assert_eq!(values.keys("a", &key).await.unwrap().first(), Some(&key), "{n}");
        }
    }

    #[test]
    fn ids_stay_as_they_are_stored() {
        assert_eq!(id("a", "k").name, "v9a2a77afb0d50c76464e852f250f179997217d5e");
    }

    #[tokio::test]
    async fn keys_have_a_length() {
        let (_dir, backend) = store().await;
        let values = PluginKv::new(backend, Quota::default());
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        for key in ["", &long] {
            assert!(matches!(values.set("a", key, Vec::new()).await, Err(KvError::Key(_))));
            assert!(matches!(values.get("a", key).await, Err(KvError::Key(_))));
            assert!(matches!(values.remove("a", key).await, Err(KvError::Key(_))));
        }
        values.set("a", &"ü/ \0".repeat(40), Vec::new()).await.unwrap();
    }
}
