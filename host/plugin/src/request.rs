//! Hooks of one request. The instance is made when the first hook is called; a request without hooks makes none.
use std::{pin::Pin, sync::Arc};

use mortise_resource::{Diagnostic, EncodedResource, authorizer::Authorizer, pb, redaction::Secrets};
use parking_lot::Mutex;
use prost::Message as _;

use crate::{
    call::{
        answer::{Decision, MutateReply, NewResourceReply, PlanReply, UpgradeReply, Usage},
        decision_cache::Key,
        export::{
            AuthorizeList, AuthorizeRead, AuthorizeWrite, HookExport, HookGuest, Move, Mutate, Plan, Upgrade, Validate,
        },
        hook_instance::HookInstance,
        hook_slots::CallerClass,
        instrumented_call::InstrumentedCall,
    },
    error::HookError,
    health::breaker::CallerId,
    hook::Hook,
    opaque::Owned,
    plugin::Plugin,
};

/// Hook calls of one request to a plugin, on behalf of one caller.
pub struct Call {
    plugin: Arc<Plugin>,
    caller: Arc<dyn Authorizer>,
    /// Caller of the calls in the counts of quarantine.
    by: CallerId,
    instance: Option<Owned<HookInstance>>,
    /// The hook that made the instance.
    opened_by: Hook,
    /// Callers that may share an instance with this request; `None`: its instances are fresh.
    class: Option<CallerClass>,
    /// Whether it waits for a slot if none is free.
    waits: bool,
    /// Secrets to remove from the plugin's texts: of the resources that its instance got in this request.
    secrets: Arc<Mutex<Secrets>>,
}

impl Call {
    /// Makes a call. Costs nothing until a hook is called.
    #[must_use]
    pub fn new(plugin: Arc<Plugin>, caller: Arc<dyn Authorizer>) -> Self {
        Self {
            plugin,
            caller,
            by: CallerId::HOST,
            instance: None,
            opened_by: Hook::Mutate,
            class: None,
            waits: true,
            secrets: Arc::default(),
        }
    }

    /// Counts the calls for this caller instead of the host.
    #[must_use]
    pub fn for_caller(mut self, caller: CallerId) -> Self {
        self.by = caller;
        self
    }

    /// Makes it fail at once if no instance is free: for a caller that already holds one.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.waits = false;
        self
    }

    /// Lets the next hooks share instances with other requests of a class, if the plugin reuses instances. Authorize
    /// hooks, upgrades and moves have fresh ones in any case.
    pub fn share_within(&mut self, class: impl FnOnce() -> CallerClass) {
        self.class = self.plugin.reuses_instances().then(class);
    }

    /// Keeps the instance from serving another request: its answer broke the contract in a way that only the asker sees.
    pub fn spoil(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.spoil();
        }
    }

    pub(crate) fn caller_number(&self) -> CallerId {
        self.by
    }

    pub(crate) fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Calls a hook in this request's instance, on the threads that the plugin's priority selects.
    pub(crate) fn call<E: HookExport<Guest = HookGuest>>(
        &mut self,
        export: E,
    ) -> Pin<Box<dyn Future<Output = Result<E::Reply, HookError>> + Send + '_>> {
        // Boxed for the reason given in `opaque`: this future holds an instance.
        Box::pin(self.call_here(export))
    }

    async fn call_here<E: HookExport<Guest = HookGuest>>(&mut self, export: E) -> Result<E::Reply, HookError> {
        let plugin = self.plugin.clone();
        let (reporter, threads) = (&plugin.hooks.reporter, &plugin.sandbox.low_priority);
        let running = InstrumentedCall::begin(reporter, threads, E::HOOK, self.by, || export.fingerprint())?;
        let class = self.class.clone().filter(|_| E::HOOK.may_reuse());
        if self.instance.as_ref().is_some_and(|kept| kept.must_retire() || !kept.serves(class.as_ref())) {
            self.release();
        }
        if self.instance.is_none() {
            self.opened_by = E::HOOK;
        }
        let (instance, owner, secrets, waits) =
            (self.instance.take(), plugin.clone(), self.secrets.clone(), self.waits);
        let work = || async move {
            let mut instance = match instance {
                Some(instance) => instance,
                None => owner.hook_instance(E::HOOK, waits, class).await?,
            };
            instance.hide(&secrets);
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

    /// Makes the instance, if it does not exist yet, without calling a hook: for measuring the cost that every request
    /// pays.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn instantiate(&mut self) -> Result<(), HookError> {
        if self.instance.is_none() {
            self.opened_by = Hook::Validate;
            self.instance = Some(self.plugin.hook_instance(Hook::Validate, self.waits, self.class.clone()).await?);
        }
        Ok(())
    }

    /// Fuel and memory of the last hook; 0 without an instance.
    #[must_use]
    pub fn used(&self) -> Usage {
        let memory = self.instance.as_ref().map_or(0, |instance| instance.memory());
        Usage { fuel: self.spent(), memory }
    }

    /// Whether the instance of the last hook has served another request before.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.is_reused())
    }

    /// Calls `mutate` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn mutate(&mut self, resource: Vec<u8>) -> Result<MutateReply, HookError> {
        self.record_secrets(&[&resource]);
        Ok(match self.call(Mutate { resource }).await? {
            MutateReply::Refused(reasons) => MutateReply::Refused(self.hide_secrets(reasons)),
            reply => reply,
        })
    }

    /// Calls `validate` with an encoded resource and the stored one.
    ///
    /// # Errors
    /// The plugin's fault. Diagnostics are an answer.
    pub async fn validate(&mut self, resource: Vec<u8>, prior: Option<Vec<u8>>) -> Result<Vec<Diagnostic>, HookError> {
        self.record_secrets(&[&resource, prior.as_deref().unwrap_or_default()]);
        let diagnostics = self.call(Validate { resource, prior }).await?;
        Ok(self.hide_secrets(diagnostics))
    }

    /// Calls `upgrade` with data of this type, of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn upgrade(&mut self, owner: pb::Type, since: u32, data: Vec<u8>) -> Result<UpgradeReply, HookError> {
        self.plugin.manifest().note_secrets_of_data(&owner, &data, &mut self.secrets.lock());
        Ok(match self.call(Upgrade { kind: owner, since, data }).await? {
            UpgradeReply::Refused(reasons) => UpgradeReply::Refused(self.hide_secrets(reasons)),
            reply => reply,
        })
    }

    /// Calls `plan` with an encoded, mutated resource, the stored one, and its private bytes.
    ///
    /// # Errors
    /// The plugin's fault. Diagnostics are an answer.
    pub async fn plan(
        &mut self,
        input: Vec<u8>,
        prior: Option<Vec<u8>>,
        kept: Option<Vec<u8>>,
    ) -> Result<PlanReply, HookError> {
        self.record_secrets(&[&input, prior.as_deref().unwrap_or_default()]);
        let planned = self.call(Plan { input, prior, kept }).await?;
        Ok(PlanReply { diagnostics: self.hide_secrets(planned.diagnostics), ..planned })
    }

    /// Calls `move` with an encoded resource of any type, whose data is of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn move_to(
        &mut self,
        to: pb::Type,
        source: Vec<u8>,
        since: u32,
        kept: Option<Vec<u8>>,
    ) -> Result<NewResourceReply, HookError> {
        self.record_secrets(&[&source]);
        Ok(match self.call(Move { source, since, to, kept }).await? {
            NewResourceReply::Refused(reasons) => NewResourceReply::Refused(self.hide_secrets(reasons)),
            reply => reply,
        })
    }

    /// Calls `authorizing.read`. Without a resource the answer may be to ask again with it.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_read(
        &mut self,
        id: &pb::Id,
        resource: Option<&EncodedResource>,
    ) -> Result<Decision, HookError> {
        let id = id.encode_to_vec();
        let version = resource.map_or("", EncodedResource::version);
        let key = self.key(u8::from(resource.is_some()), &[&id, version.as_bytes()]);
        if let Some(decision) = self.cached_decision(Hook::AuthorizeRead, &key) {
            return Ok(decision);
        }
        let resource = resource.map(|resource| resource.bytes().to_vec());
        self.record_secrets(&[resource.as_deref().unwrap_or_default()]);
        let decision = self.call(AuthorizeRead { caller: self.caller.clone(), id, resource }).await?;
        let decision = self.redact_decision(decision);
        self.plugin.decision_cache.put(key, &decision);
        Ok(decision)
    }

    /// Calls `authorizing.write` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_write(&mut self, resource: Vec<u8>) -> Result<Decision, HookError> {
        self.record_secrets(&[&resource]);
        let decision = self.call(AuthorizeWrite { caller: self.caller.clone(), resource }).await?;
        Ok(self.redact_decision(decision))
    }

    /// Calls `authorizing.list`.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_list(&mut self, owner: &pb::Type, within: &pb::Tenancy) -> Result<Decision, HookError> {
        let key = self.key(2, &[&owner.encode_to_vec(), &within.encode_to_vec()]);
        if let Some(decision) = self.cached_decision(Hook::AuthorizeList, &key) {
            return Ok(decision);
        }
        let export = AuthorizeList { caller: self.caller.clone(), kind: owner.clone(), within: within.clone() };
        let decision = self.call(export).await?;
        self.plugin.decision_cache.put(key, &decision);
        Ok(decision)
    }

    /// Gives the next hook the fuel and the time of a whole request: between the items of a list.
    pub fn next_item(&mut self) {
        if self.instance.as_ref().is_some_and(|instance| instance.must_retire()) {
            self.release();
        }
        match &mut self.instance {
            Some(instance) => instance.renew(),
            // The instance that knew them is gone.
            None => self.secrets = Arc::default(),
        }
    }

    /// Records the redacted fields of encoded resources.
    fn record_secrets(&self, resources: &[&[u8]]) {
        let manifest = self.plugin.manifest();
        if manifest.redaction.is_none() {
            return;
        }
        for bytes in resources {
            if let Ok(resource) = pb::Resource::decode(*bytes) {
                manifest.note_secrets(&resource, &mut self.secrets.lock());
            }
        }
    }

    /// Removes secrets from diagnostics.
    fn hide_secrets(&self, mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let secrets = self.secrets.lock();
        if !secrets.is_empty() {
            for diagnostic in &mut diagnostics {
                for text in [&mut diagnostic.path, &mut diagnostic.summary, &mut diagnostic.detail] {
                    *text = secrets.hide(text).into_owned();
                }
            }
        }
        diagnostics
    }

    /// Removes secrets from a decision.
    fn redact_decision(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Deny(reason) => Decision::Deny(self.secrets.lock().hide(&reason).into()),
            decision => decision,
        }
    }

    /// Releases the instance. The next hook, if any, gets a fresh one, or an idle one of its class.
    pub fn release(&mut self) {
        let Some(instance) = self.instance.take() else { return };
        let gone = self.plugin.keep(self.opened_by, instance);
        // Releasing a guest's memory takes the system as long as the guest took to write it.
        if let Some(threads) = self.plugin.low_priority_threads(Hook::Mutate)
            && !gone.is_empty()
        {
            threads.drop_in_background(gone);
        }
    }

    /// Fuel of the last call, units; 0 without an instance.
    fn spent(&self) -> u64 {
        self.instance.as_ref().map_or(0, |instance| instance.spent())
    }

    fn key(&self, hook: u8, parts: &[&[u8]]) -> Key {
        Key::new(hook, self.caller.fingerprint(), parts)
    }

    /// A cached decision. A quarantined hook uses none, or else the contents of the cache would decide what can still
    /// be read.
    fn cached_decision(&self, hook: Hook, key: &Key) -> Option<Decision> {
        if self.plugin.health().is_quarantined(hook) { None } else { self.plugin.decision_cache.get(key) }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.release();
    }
}
