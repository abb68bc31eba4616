//! A host in memory, for one reconcile: the store of `mortise_plugin::testing::World`, behind the plugin's own hooks in
//! the sandbox.
//!
//! # Limits
//! No call is authorised. Grants are checked by the sandbox, as on a server. The cache is never behind.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use mortise_plugin::testing::{is_type, is_under};
use mortise_plugin_host::{
    CacheKey, Call, ControllerDecl, DataPathError, Failure, IndexBy, IndexDecl, MutateReply, Plugin,
};
use mortise_query::in_memory;
use mortise_resource::{Code, Scope, Severity, authorizer::AllowAll, pb, types::Gvk};
use parking_lot::Mutex;
use prost::Message as _;

use super::{
    exchange::{Answer, HostCall, Responder},
    outside::Outside,
    stored::{StoredResources, refused},
};

/// The plugin's own values.
pub(super) type Values = BTreeMap<String, Vec<u8>>;

/// A host in memory.
pub(super) struct Memory {
    plugin: Arc<Plugin>,
    controller: ControllerDecl,
    stored: Arc<StoredResources>,
    values: Mutex<Values>,
    /// Private bytes that the plugin keeps for single resources, by uid.
    private_bytes: Mutex<BTreeMap<String, Vec<u8>>>,
    outside: Outside,
}

impl Memory {
    pub(super) fn new(
        plugin: &Arc<Plugin>,
        controller: &ControllerDecl,
        stored: &Arc<StoredResources>,
        values: Values,
        outside: Outside,
    ) -> Self {
        Self {
            plugin: plugin.clone(),
            controller: controller.clone(),
            stored: stored.clone(),
            values: Mutex::new(values),
            private_bytes: Mutex::default(),
            outside,
        }
    }

    /// Keeps private bytes for a stored resource.
    ///
    /// # Errors
    /// The resource is not stored.
    pub(super) fn keep(&self, id: &pb::Id, bytes: Vec<u8>) -> Result<(), Failure> {
        let found = self.stored.find(id).and_then(|found| found.id);
        let Some(found) = found.filter(|found| id.uid.is_empty() || id.uid == found.uid) else {
            return Err(Failure::new(Code::NotFound, "resource not found"));
        };
        self.private_bytes.lock().insert(found.uid, bytes);
        Ok(())
    }

    /// Private bytes of stored resources, with their ids.
    pub(super) fn kept(&self) -> Vec<(pb::Id, Vec<u8>)> {
        let (stored, kept) = (self.stored.lock(), self.private_bytes.lock());
        let ids = stored.all().filter_map(|resource| resource.id.clone());
        ids.filter_map(|id| kept.get(&id.uid).cloned().map(|bytes| (id, bytes))).collect()
    }

    pub(super) fn values(&self) -> Values {
        self.values.lock().clone()
    }

    /// Runs the plugin's own hooks on a write, as on a server.
    async fn apply_hooks(&self, mut resource: pb::Resource) -> Result<pb::Resource, Failure> {
        let resource_type = resource.id.as_ref().and_then(|id| id.r#type.as_ref()).map(Gvk::from);
        let decl = self.plugin.manifest().types.iter().find(|decl| Some(&decl.gvk) == resource_type.as_ref());
        let Some(hooks) = decl.map(|decl| decl.hooks) else { return Ok(resource) };
        let mut call = Call::new(self.plugin.clone(), Arc::new(AllowAll));
        let broken = |e: mortise_plugin_host::HookError| Failure::from(mortise_resource::Error::from(e));
        let refused = |diagnostics: &[mortise_resource::Diagnostic]| {
            let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity() != Severity::Warning);
            let summaries = errors.map(|error| error.summary.as_str()).collect::<Vec<_>>();
            Failure::new(Code::InvalidArgument, summaries.join("; "))
        };
        if hooks.mutate {
            match call.mutate(resource.encode_to_vec()).await.map_err(broken)? {
                MutateReply::Unchanged => {}
                MutateReply::Changed(bytes) => {
                    let unreadable =
                        |e| Failure::new(Code::Internal, format!("mutate's answer is not a resource: {e}"));
                    resource = pb::Resource::decode(bytes.as_slice()).map_err(unreadable)?;
                }
                MutateReply::Refused(diagnostics) => return Err(refused(&diagnostics)),
            }
        }
        if hooks.validate {
            let prior = resource.id.as_ref().and_then(|id| self.stored.find(id)).map(|found| found.encode_to_vec());
            let diagnostics = call.validate(resource.encode_to_vec(), prior).await.map_err(broken)?;
            if diagnostics.iter().any(|diagnostic| diagnostic.severity() != Severity::Warning) {
                return Err(refused(&diagnostics));
            }
        }
        Ok(resource)
    }

    /// Finds the resources of a type under a key of one of the controller's indexes.
    fn look_up(
        &self,
        resource_type: &pb::Type,
        index: &str,
        key: &CacheKey,
        listing: bool,
    ) -> Result<Vec<pb::Resource>, Failure> {
        let same = |gvk: &Gvk| gvk.group == resource_type.group && gvk.kind == resource_type.kind;
        let watched = self.controller.watches.iter().find(|watch| same(&watch.kind));
        let indexes: &[IndexDecl] = match watched {
            _ if same(&self.controller.manages) => &self.controller.indexes,
            Some(watch) => &watch.indexes,
            None => return Err(invalid("the resource type specified is not indexed")),
        };
        let by = match indexes.iter().find(|declared| &*declared.name == index) {
            Some(found) => Some(found),
            None if index == "id" => None,
            None => return Err(invalid(format!("No index with name {index:?} exists"))),
        };
        let all: Vec<_> =
            self.stored.lock().all().filter(|resource| is_type(resource, resource_type)).cloned().collect();
        let mut found = Vec::new();
        for resource in all {
            if self.is_under(&resource, by, key, listing)? {
                found.push(resource);
            }
        }
        Ok(found)
    }

    fn is_under(
        &self,
        resource: &pb::Resource,
        index: Option<&IndexDecl>,
        key: &CacheKey,
        listing: bool,
    ) -> Result<bool, Failure> {
        let message = || {
            let resource_type = resource
                .id
                .as_ref()
                .and_then(|id| id.r#type.as_ref())
                .map(Gvk::from)
                .unwrap_or_else(|| Gvk::new("", "", ""));
            self.stored
                .codec()
                .message(&resource_type)
                .ok_or_else(|| invalid(format!("the type {resource_type} is not known; --with FILE.wasm adds it")))
        };
        let undecodable = |fault: DataPathError| invalid(fault.to_string());
        let data = resource.data.as_ref().map(|data| data.value.as_slice());
        Ok(match (index.map(|index| (index, &index.by)), key, data) {
            (None, CacheKey::Id(key), _) => resource.id.as_ref().is_some_and(|id| is_under(id, key, listing)),
            (Some((_, IndexBy::Owner)), CacheKey::Id(key), _) => {
                resource.owner.as_ref().is_some_and(|id| is_under(id, key, listing))
            }
            (Some((_, IndexBy::Reference(path))), CacheKey::Id(key), Some(data)) => {
                let found = path.references(&message()?).and_then(|field| field.read(data)).map_err(undecodable)?;
                let holder = resource.id.clone().unwrap_or_default();
                found.iter().any(|to| {
                    let scope = to
                        .r#type
                        .as_ref()
                        .map_or(Scope::Undefined, |resource_type| self.stored.codec().scope(&resource_type.into()));
                    is_under(&scope.referent(to, &holder), key, listing)
                })
            }
            (Some((index, _)), CacheKey::Value(key), _) => {
                let found = index.values(resource, |path, data| {
                    path.values(&message()?).and_then(|field| field.read(data)).map_err(undecodable)
                })?;
                // As in the cache's keys, a value ends with a zero byte, so that a prefix can end with a whole value.
                found
                    .into_iter()
                    .any(|value| if listing { format!("{value}\0").starts_with(key.as_str()) } else { value == *key })
            }
            _ => false,
        })
    }
}

/// Error for a question that the cache cannot answer, in the host's words.
fn invalid(error: impl ToString) -> Failure {
    Failure::new(Code::InvalidArgument, error.to_string())
}

fn failure(failure: mortise_plugin::Failure) -> Failure {
    Failure { code: failure.code, message: failure.message }
}

#[async_trait]
impl Responder for Memory {
    async fn answer(&self, ask: &HostCall) -> Result<Answer, Failure> {
        let answer = |resource: pb::Resource| Answer::Resource(Some(Box::new(resource)));
        Ok(match ask {
            HostCall::Read(id) => {
                answer(self.stored.find(id).ok_or_else(|| Failure::new(Code::NotFound, "resource not found"))?)
            }
            HostCall::List { kind: resource_type, within, name_prefix } => {
                Answer::Resources(self.stored.list(resource_type, within, name_prefix))
            }
            HostCall::ListByOwner(owner) => {
                let found = self.stored.find(owner).and_then(|found| found.id).map(|id| id.uid);
                let uid = if owner.uid.is_empty() { found.unwrap_or_default() } else { owner.uid.clone() };
                Answer::Resources(self.stored.lock().owned(&uid).cloned().collect())
            }
            HostCall::Write(resource) => {
                let judged = self.apply_hooks(pb::Resource::clone(resource)).await?;
                answer(self.stored.lock().write(judged, self.stored.now()).map_err(failure)?)
            }
            HostCall::Search(request) => {
                let found = self.stored.find_all(request)?;
                Answer::Page { resources: found.resources, prev: found.prev_page_token, next: found.next_page_token }
            }
            HostCall::Update(request) => {
                let id = request.resource.as_ref().and_then(|resource| resource.id.clone()).unwrap_or_default();
                let stored = self.stored.find(&id);
                if stored.is_none() && !request.allow_missing {
                    return Err(Failure::new(Code::NotFound, "resource not found"));
                }
                let schema = self.stored.schema(id.r#type.as_ref());
                let next =
                    in_memory::update(stored.as_ref(), request, &schema).map_err(|e| Failure::from(refused(&e)))?;
                if stored.as_ref() == Some(&next) {
                    return Ok(answer(next));
                }
                let judged = self.apply_hooks(next).await?;
                answer(self.stored.lock().write(judged, self.stored.now()).map_err(failure)?)
            }
            HostCall::WriteStatus { id, version, key, status } => answer(
                self.stored
                    .lock()
                    .write_status(id, version, key, status.clone(), self.stored.now())
                    .map_err(failure)?,
            ),
            HostCall::Delete { id, version } => {
                self.stored.lock().delete(id, version, self.stored.now()).map_err(failure)?;
                Answer::Nothing
            }
            HostCall::CacheGet { kind: resource_type, index, key } => {
                Answer::Resource(self.look_up(resource_type, index, key, false)?.into_iter().next().map(Box::new))
            }
            HostCall::CacheList { kind: resource_type, index, key } => {
                Answer::Resources(self.look_up(resource_type, index, key, true)?)
            }
            HostCall::KvGet(key) => Answer::Value(self.values.lock().get(key).cloned()),
            HostCall::KvSet(key, value) => {
                self.values.lock().insert(key.clone(), value.clone());
                Answer::Nothing
            }
            HostCall::KvRemove(key) => {
                self.values.lock().remove(key);
                Answer::Nothing
            }
            HostCall::KvKeys(prefix) => {
                Answer::Keys(self.values.lock().keys().filter(|key| key.starts_with(prefix)).cloned().collect())
            }
            HostCall::PrivateBytesGet(id) => Answer::Value(self.private_bytes.lock().get(&id.uid).cloned()),
            HostCall::PrivateBytesSet(id, value) => {
                self.keep(id, value.clone())?;
                Answer::Nothing
            }
            HostCall::PrivateBytesRemove(id) => {
                self.private_bytes.lock().remove(&id.uid);
                Answer::Nothing
            }
            HostCall::Http { .. } | HostCall::Connect(_) => self.outside.answer(ask).await?,
        })
    }

    fn now(&self) -> u64 {
        self.stored.now()
    }
}
