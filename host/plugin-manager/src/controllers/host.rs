//! Answers the calls of reconcilers to the host: resources through the service, like every request; the cache of the
//! controller's own run; the plugin's values. The caller has checked grants, sizes and deadlines before.
//!
//! Writes carry the controller's name: in the log (debug), in the metric `mortise_controller_writes_total`, and, as the
//! caller, in refusals.

use std::{hash::BuildHasher as _, sync::Arc};

use async_trait::async_trait;
use mortise_controller::{CacheError, Context, IndexKey};
use mortise_plugin_host::{CacheKey, EachResource, Failure, Placement, ProbeWriter, ReconcilerHost};
use mortise_resource::{
    Code, EncodingError, Error, IdRef,
    authorizer::{Authorizer, Effect, Verb},
    data::{SearchRequest, SearchResponse, UpdateRequest, UpdateResponse},
    pb,
    redaction::Secrets,
    tenancy::WILDCARD,
    types,
};
use mortise_service::{
    Caller, Consistency, Deleted, Origin, Remote, ResourceService, Surface,
    kv::{KvError, PluginKv},
    registry::Owner,
};

/// The identity of a controller, or of a plugin with a searching hook, to the service. The plugin's grants decide
/// before which types it reaches; to these it has the access that a rule by type gives. It is not an operator, and
/// cannot make others operators.
pub(crate) struct Identity {
    name: String,
    fingerprint: u64,
}

impl Identity {
    /// The identity of a controller by its whole name, such as `demo/artists`.
    pub(crate) fn new(controller: &str) -> Self {
        Self::named(format!("controller {controller}"))
    }

    /// The identity of the hooks of a plugin.
    pub(crate) fn of_hooks(plugin: &str) -> Self {
        Self::named(format!("hooks of plugin {plugin}"))
    }

    fn named(name: String) -> Self {
        // Decisions of hooks are cached under the fingerprint only while the process lives.
        let fingerprint = std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default().hash_one(&name);
        Self { name, fingerprint }
    }
}

impl Authorizer for Identity {
    fn is_allowed(&self, permission: &str, _name: &str) -> bool {
        !permission.starts_with("operator:")
    }

    fn effect(&self, verb: Verb, id: IdRef<'_>, _name: Option<&str>) -> Effect {
        let is_acl = types::token().is_of(id) || types::policy().is_of(id);
        match verb {
            Verb::Write | Verb::Delete | Verb::Escalate if is_acl => Effect::Deny,
            _ => Effect::Allow,
        }
    }

    fn caller(&self) -> &str {
        &self.name
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

/// The parts that all reconciles of a controller share.
pub(crate) struct ControllerContext {
    service: ResourceService,
    plugin_kv: PluginKv,
    plugin: Arc<str>,
    controller: Arc<str>,
    caller: Caller,
}

impl ControllerContext {
    /// Makes the context of a plugin's controller, by its whole name.
    pub(crate) fn new(
        service: ResourceService,
        plugin_kv: PluginKv,
        plugin: Arc<str>,
        controller: Arc<str>,
        placement: Placement,
    ) -> Arc<Self> {
        let authorizer = Arc::new(Identity::new(&controller));
        let held = (placement == Placement::Singleton).then(|| controller.clone());
        let caller =
            Caller::new(authorizer, Consistency::Consistent).as_controller_of(plugin.clone()).holding(held.clone());
        let plugin_kv = plugin_kv.holding(held);
        Arc::new(Self { service, plugin_kv, plugin, controller, caller })
    }

    fn wrote(&self, operation: &'static str, id: &pb::Id) {
        metrics::counter!(
            "mortise_controller_writes_total", "controller" => self.controller.to_string(), "operation" => operation
        )
        .increment(1);
        tracing::debug!(controller = &*self.controller, operation, "{}", types::describe(id));
    }
}

/// The host of a reconcile.
pub(crate) struct Client {
    shared: Arc<ControllerContext>,
    /// Identity of the controller in this reconcile.
    caller: Caller,
    /// The call that the host works for; it records the writes.
    context: Context,
}

impl Client {
    pub(crate) fn new(shared: &Arc<ControllerContext>, context: &Context) -> Arc<Self> {
        let origin = Arc::new(Origin::new(Surface::Controller, Remote::Unknown, None));
        let caller = shared.caller.clone().from(Some(origin));
        Arc::new(Self { shared: shared.clone(), caller, context: context.clone() })
    }

    fn stored(&self, operation: &'static str, resource: pb::Resource) -> pb::Resource {
        let id = resource.id.clone().unwrap_or_default();
        self.shared.wrote(operation, &id);
        self.context.wrote(&id, &resource.version);
        resource
    }
}

/// Adds the values of a resource's redacted fields, of any plugin.
pub(crate) fn note_secrets(service: &ResourceService, resource: &pb::Resource, secrets: &mut Secrets) {
    let Some(resource_type) = resource.id.as_ref().and_then(|id| id.r#type.as_ref()) else { return };
    if let Some(Owner::Plugin(plugin)) = service.types().get(resource_type).map(|found| &found.owner) {
        plugin.manifest().note_secrets(resource, secrets);
    }
}

/// Writes the results of probes. It belongs to no reconcile: the reconcile that a result wakes is not its link.
struct Writer {
    shared: Arc<ControllerContext>,
    caller: Caller,
}

#[async_trait]
impl ProbeWriter for Writer {
    async fn write_status(&self, id: pb::Id, version: String, key: String, status: pb::Status) -> Result<(), Failure> {
        let request = pb::WriteStatusRequest { id: Some(id.clone()), version, key, status: Some(status) };
        self.shared.service.write_status(&self.caller, request).await?;
        self.shared.wrote("write-status", &id);
        Ok(())
    }

    async fn delete(&self, id: pb::Id) -> Result<(), Failure> {
        let request = pb::DeleteRequest { id: Some(id.clone()), version: String::new() };
        self.shared.service.delete_stored(&self.caller, request).await?;
        self.shared.wrote("delete", &id);
        Ok(())
    }
}

#[async_trait]
impl ReconcilerHost for Client {
    fn note_secrets(&self, resource: &pb::Resource, secrets: &mut Secrets) {
        note_secrets(&self.shared.service, resource, secrets);
    }

    async fn read(&self, id: pb::Id) -> Result<pb::Resource, Failure> {
        let stored = self.shared.service.read(&self.caller, pb::ReadRequest { id: Some(id) }).await?;
        stored.decode().map_err(undecodable)
    }

    async fn list(
        &self,
        resource_type: pb::Type,
        within: pb::Tenancy,
        name_prefix: String,
        each: EachResource<'_>,
    ) -> Result<(), Failure> {
        let request = pb::ListRequest { r#type: Some(resource_type), tenancy: Some(within), name_prefix };
        self.shared.service.list_each(&self.caller, request, |resource| each(&resource)).await
    }

    async fn list_by_owner(&self, owner: pb::Id, each: EachResource<'_>) -> Result<(), Failure> {
        let request = pb::ListByOwnerRequest { owner: Some(owner) };
        self.shared.service.list_each(&self.caller, request, |resource| each(&resource)).await
    }

    async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, Failure> {
        let request = pb::WriteRequest { resource: Some(resource) };
        let written = self.shared.service.write(&self.caller, request).await?;
        Ok(self.stored("write", written.resource.decode().map_err(undecodable)?))
    }

    async fn write_status(
        &self,
        id: pb::Id,
        version: String,
        key: String,
        status: pb::Status,
    ) -> Result<pb::Resource, Failure> {
        let request = pb::WriteStatusRequest { id: Some(id), version, key, status: Some(status) };
        let stored = self.shared.service.write_status(&self.caller, request).await?;
        Ok(self.stored("write-status", stored.decode().map_err(undecodable)?))
    }

    async fn delete(&self, id: pb::Id, version: String) -> Result<(), Failure> {
        let request = pb::DeleteRequest { id: Some(id.clone()), version };
        let deleted = self.shared.service.delete_stored(&self.caller, request).await?;
        self.shared.wrote("delete", &id);
        match deleted {
            Some(Deleted { id, marked: None, .. }) => self.context.deleted(&id),
            Some(Deleted { id, marked: Some(version), .. }) => self.context.wrote(&id, &version),
            None => {}
        }
        Ok(())
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, Failure> {
        Ok(self.shared.service.search(&self.caller, request).await?)
    }

    async fn update(&self, request: UpdateRequest) -> Result<UpdateResponse, Failure> {
        // The mask would drop the version, which identifies this controller's write.
        let request = UpdateRequest { response_mask: None, ..request };
        let answer = self.shared.service.update(&self.caller, request).await?;
        let resource = self.stored("update", answer.resource.unwrap_or_default());
        Ok(UpdateResponse { resource: Some(resource), ..answer })
    }

    async fn cache_get(
        &self,
        resource_type: pb::Type,
        index: String,
        key: CacheKey,
    ) -> Result<Option<pb::Resource>, Failure> {
        let key = index_key(&index, &key, true);
        let found = self.context.cache().get_by(&resource_type, &index, &key).map_err(unknown)?;
        found.map(|resource| resource.decode().map_err(undecodable)).transpose()
    }

    async fn cache_list(
        &self,
        resource_type: pb::Type,
        index: String,
        key: CacheKey,
        each: EachResource<'_>,
    ) -> Result<(), Failure> {
        let key = index_key(&index, &key, false);
        let found = self.context.cache().list(&resource_type, &index, &key).map_err(unknown)?;
        found.iter().try_for_each(|resource| each(&resource.decode().map_err(undecodable)?))
    }

    async fn cache_page(
        &self,
        resource_type: pb::Type,
        tenancy: pb::Tenancy,
        (index, key): (String, CacheKey),
        (from, before): (String, String),
        most: usize,
    ) -> Result<Vec<pb::Resource>, Failure> {
        let key = index_key(&index, &key, false);
        let found = self.context.cache().page(&resource_type, &tenancy, (&index, &key), (&from, &before), most);
        let found = found.map_err(unknown)?;
        found.iter().map(|resource| resource.decode().map_err(undecodable)).collect()
    }

    fn probe_writer(&self) -> Option<Arc<dyn ProbeWriter>> {
        Some(Arc::new(Writer { shared: self.shared.clone(), caller: self.caller.clone() }))
    }

    async fn kv_get(&self, key: String) -> Result<Option<Vec<u8>>, Failure> {
        self.shared.plugin_kv.get(&self.shared.plugin, &key).await.map_err(refused)
    }

    async fn kv_set(&self, key: String, value: Vec<u8>) -> Result<(), Failure> {
        self.shared.plugin_kv.set(&self.shared.plugin, &key, value).await.map_err(refused)
    }

    async fn kv_remove(&self, key: String) -> Result<(), Failure> {
        self.shared.plugin_kv.remove(&self.shared.plugin, &key).await.map_err(refused)
    }

    async fn kv_keys(&self, prefix: String) -> Result<Vec<String>, Failure> {
        self.shared.plugin_kv.keys(&self.shared.plugin, &prefix).await.map_err(refused)
    }

    async fn private_bytes_get(&self, id: pb::Id) -> Result<Option<Vec<u8>>, Failure> {
        let kept = self.shared.service.private_bytes().get(&self.shared.plugin, &id).await;
        kept.map_err(|e| refused(KvError::Store(e)))
    }

    async fn private_bytes_set(&self, id: pb::Id, value: Vec<u8>) -> Result<(), Failure> {
        Ok(self.shared.service.private_bytes().set(&self.shared.plugin, &id, value).await?)
    }

    async fn private_bytes_remove(&self, id: pb::Id) -> Result<(), Failure> {
        Ok(self.shared.service.private_bytes().remove(&self.shared.plugin, &id).await?)
    }
}

/// The cache's key for the guest's key. In a list an open tenancy unit, or an empty name, ends the key.
fn index_key(index: &str, key: &CacheKey, exact: bool) -> IndexKey {
    match key {
        CacheKey::Value(value) if exact => IndexKey::text(value),
        CacheKey::Value(value) => IndexKey::bytes(value.as_bytes()),
        CacheKey::Id(id) => {
            let tenancy = id.tenancy.clone().unwrap_or_default();
            let open = !exact && (id.name.is_empty() || tenancy.partition == WILDCARD || tenancy.namespace == WILDCARD);
            match (index == mortise_controller::ID, open) {
                (true, false) => IndexKey::id(id),
                (true, true) => IndexKey::tenancy(&tenancy),
                (false, false) => IndexKey::target(id),
                (false, true) => IndexKey::targets_in(&id.r#type.clone().unwrap_or_default(), &tenancy),
            }
        }
    }
}

fn undecodable(error: EncodingError) -> Failure {
    Error::from(error).into()
}

fn unknown(error: CacheError) -> Failure {
    Error::invalid(error.to_string()).into()
}

fn refused(error: KvError) -> Failure {
    let code = match &error {
        KvError::Key(_) => Code::InvalidArgument,
        KvError::Values { .. } | KvError::Bytes { .. } => Code::ResourceExhausted,
        KvError::NoOwner => Code::Unavailable,
        KvError::Store(_) | KvError::Interrupted(_) => Code::Internal,
    };
    Error::new(code, error.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ() {
        let (identity, other) = (Identity::new("demo/artists"), Identity::new("demo/albums"));
        assert_eq!(identity.caller(), "controller demo/artists");
        assert_ne!(identity.fingerprint(), other.fingerprint());
        assert_eq!(identity.fingerprint(), Identity::new("demo/artists").fingerprint());
    }

    #[test]
    fn keys_of_ids_end_where_a_unit_is_open() {
        let id = |partition: &str, namespace: &str, name: &str| pb::Id {
            uid: "u".into(),
            name: name.into(),
            r#type: Some(pb::Type { group: "g".into(), group_version: "v1".into(), kind: "K".into() }),
            tenancy: Some(pb::Tenancy { partition: partition.into(), namespace: namespace.into() }),
        };
        let key = |index: &str, id: pb::Id, exact| index_key(index, &CacheKey::Id(id), exact);
        assert_eq!(key("id", id("p", "n", "x"), false), IndexKey::id(&id("p", "n", "x")));
        assert_eq!(key("id", id("p", "*", ""), false), IndexKey::text("p"));
        assert_eq!(key("id", id("*", "*", ""), false), IndexKey::all());
        assert_eq!(key("by", id("p", "n", ""), false), IndexKey::text("g").and("K").and("p").and("n"));
        assert_eq!(key("by", id("p", "n", "x"), true), IndexKey::target(&id("p", "n", "x")));
        assert_eq!(index_key("by", &CacheKey::Value("v".into()), true), IndexKey::text("v"));
        assert_eq!(index_key("by", &CacheKey::Value("v".into()), false), IndexKey::bytes("v"));
    }
}
