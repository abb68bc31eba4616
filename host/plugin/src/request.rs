//! The hooks of one request. An instance is made when the first hook is called, and not at all when none is.
use std::sync::Arc;

use mortise_resource::{Diagnostic, authorizer::Authorizer, pb};
use prost::Message as _;

use crate::{
    call::{
        answer::{Decision, MutateReply, UpgradeReply, Usage},
        decision_cache::Key,
        export::{AuthorizeList, AuthorizeRead, AuthorizeWrite, HookExport, HookGuest, Mutate, Upgrade, Validate},
        hook_instance::HookInstance,
        instrumented_call::InstrumentedCall,
    },
    error::HookError,
    hook::Hook,
    plugin::Plugin,
};

/// One request's dealings with a plugin, on behalf of one caller.
pub struct Call {
    plugin: Arc<Plugin>,
    caller: Arc<dyn Authorizer>,
    instance: Option<HookInstance>,
}

impl Call {
    /// Costs nothing until a hook is called.
    #[must_use]
    pub fn new(plugin: Arc<Plugin>, caller: Arc<dyn Authorizer>) -> Self {
        Self { plugin, caller, instance: None }
    }

    /// Calls a hook in this request's instance, on the threads where the plugin's calls belong now.
    async fn call<E: HookExport<Guest = HookGuest>>(&mut self, export: E) -> Result<E::Reply, HookError> {
        let plugin = self.plugin.clone();
        let running = InstrumentedCall::begin(&plugin.hooks.reporter, &plugin.sandbox.low_priority, E::HOOK, || {
            export.fingerprint()
        })?;
        if self.instance.as_ref().is_some_and(HookInstance::must_retire) {
            self.release();
        }
        let (instance, of) = (self.instance.take(), plugin.clone());
        let work = || async move {
            let mut instance = match instance {
                Some(instance) => instance,
                None => HookInstance::open(&of.hooks, E::NAME).await?,
            };
            let reply = instance.call(export).await;
            Ok((instance, reply))
        };
        let done = running.work(work).await;
        let outcome = done.and_then(|(instance, reply)| {
            self.instance = Some(instance);
            reply
        });
        running.end(outcome, self.spent())
    }

    /// Makes the instance, if there is none yet, and calls no hook: what is measured then is what every request pays.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn instantiate(&mut self) -> Result<(), HookError> {
        if self.instance.is_none() {
            self.instance = Some(HookInstance::open(&self.plugin.hooks, Hook::Validate.name()).await?);
        }
        Ok(())
    }

    /// What the last hook used; nothing when there is no instance.
    #[must_use]
    pub fn used(&self) -> Usage {
        let memory = self.instance.as_ref().map_or(0, HookInstance::memory);
        Usage { fuel: self.spent(), memory }
    }

    /// Calls `mutate` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn mutate(&mut self, resource: Vec<u8>) -> Result<MutateReply, HookError> {
        self.call(Mutate { resource }).await
    }

    /// Calls `validate` with an encoded resource and what is stored now.
    ///
    /// # Errors
    /// The plugin's fault. Diagnostics are an answer.
    pub async fn validate(&mut self, resource: Vec<u8>, prior: Option<Vec<u8>>) -> Result<Vec<Diagnostic>, HookError> {
        self.call(Validate { resource, prior }).await
    }

    /// Calls `upgrade` with the data of a resource of this type, which is of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn upgrade(&mut self, of: pb::Type, since: u32, data: Vec<u8>) -> Result<UpgradeReply, HookError> {
        self.call(Upgrade { of, since, data }).await
    }

    /// Calls `authorizing.read`. Without a resource the answer may be to ask again with it.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_read(
        &mut self,
        id: &pb::Id,
        resource: Option<&pb::Resource>,
    ) -> Result<Decision, HookError> {
        let id = id.encode_to_vec();
        let version = resource.map_or("", |r| r.version.as_str());
        let key = self.key(u8::from(resource.is_some()), &[&id, version.as_bytes()]);
        if let Some(decision) = self.remembered(Hook::AuthorizeRead, &key) {
            return Ok(decision);
        }
        let resource = resource.map(prost::Message::encode_to_vec);
        let decision = self.call(AuthorizeRead { caller: self.caller.clone(), id, resource }).await?;
        self.plugin.decision_cache.put(key, &decision);
        Ok(decision)
    }

    /// Calls `authorizing.write` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_write(&mut self, resource: Vec<u8>) -> Result<Decision, HookError> {
        self.call(AuthorizeWrite { caller: self.caller.clone(), resource }).await
    }

    /// Calls `authorizing.list`.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_list(&mut self, of: &pb::Type, within: &pb::Tenancy) -> Result<Decision, HookError> {
        let key = self.key(2, &[&of.encode_to_vec(), &within.encode_to_vec()]);
        if let Some(decision) = self.remembered(Hook::AuthorizeList, &key) {
            return Ok(decision);
        }
        let export = AuthorizeList { caller: self.caller.clone(), of: of.clone(), within: within.clone() };
        let decision = self.call(export).await?;
        self.plugin.decision_cache.put(key, &decision);
        Ok(decision)
    }

    /// Gives the next hook the fuel and the time of a request of its own: between the items of a list.
    pub fn next_item(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.renew();
        }
    }

    /// Gives the instance back. The next hook, if any, gets a fresh one.
    pub fn release(&mut self) {
        let Some(instance) = self.instance.take() else { return };
        // Clearing away what a guest wrote takes the system as long as the guest took to write it.
        if let Some(threads) = self.plugin.low_priority_threads(Hook::Mutate) {
            threads.clear_away(instance);
        }
    }

    /// Fuel of the last call; nothing when there was no instance for it.
    fn spent(&self) -> u64 {
        self.instance.as_ref().map_or(0, HookInstance::spent)
    }

    fn key(&self, hook: u8, parts: &[&[u8]]) -> Key {
        Key::new(hook, self.caller.fingerprint(), parts)
    }

    /// A decision that was made before. A quarantined hook decides nothing, or else it would depend on chance what can
    /// still be read.
    fn remembered(&self, hook: Hook, key: &Key) -> Option<Decision> {
        if self.plugin.health().is_quarantined(hook) { None } else { self.plugin.decision_cache.get(key) }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.release();
    }
}
