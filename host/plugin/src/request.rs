//! The hooks of one request. An instance is made when the first hook is called, and not at all when none is.
use std::{pin::Pin, sync::Arc};

use mortise_resource::{Diagnostic, EncodedResource, authorizer::Authorizer, pb, redaction::Secrets};
use parking_lot::Mutex;
use prost::Message as _;

use crate::{
    call::{
        answer::{Decision, MadeReply, MutateReply, PlanReply, UpgradeReply, Usage},
        decision_cache::Key,
        export::{
            AuthorizeList, AuthorizeRead, AuthorizeWrite, HookExport, HookGuest, Move, Mutate, Plan, Upgrade, Validate,
        },
        hook_instance::HookInstance,
        instrumented_call::InstrumentedCall,
    },
    error::HookError,
    health::breaker::CallerNumber,
    hook::Hook,
    opaque::Owned,
    plugin::Plugin,
};

/// One request's dealings with a plugin, on behalf of one caller.
pub struct Call {
    plugin: Arc<Plugin>,
    caller: Arc<dyn Authorizer>,
    /// Whose calls these are.
    by: CallerNumber,
    instance: Option<Owned<HookInstance>>,
    /// Whether it waits for a place, should none be free.
    waits: bool,
    /// What the plugin's texts are not to hold: of the resources that its instance was handed in this request.
    secrets: Arc<Mutex<Secrets>>,
}

impl Call {
    /// Costs nothing until a hook is called.
    #[must_use]
    pub fn new(plugin: Arc<Plugin>, caller: Arc<dyn Authorizer>) -> Self {
        Self { plugin, caller, by: CallerNumber::HOST, instance: None, waits: true, secrets: Arc::default() }
    }

    /// Makes them the calls of this caller, not of the host.
    #[must_use]
    pub fn by(mut self, caller: CallerNumber) -> Self {
        self.by = caller;
        self
    }

    /// Has it fail at once where no instance is free: whoever waits for it holds one already.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.waits = false;
        self
    }

    pub(crate) fn caller_number(&self) -> CallerNumber {
        self.by
    }

    pub(crate) fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Calls a hook in this request's instance, on the threads where the plugin's calls belong now.
    pub(crate) fn call<E: HookExport<Guest = HookGuest>>(
        &mut self,
        export: E,
    ) -> Pin<Box<dyn Future<Output = Result<E::Reply, HookError>> + Send + '_>> {
        // In a box, as what is opaque: an instance is in this future.
        Box::pin(self.call_here(export))
    }

    async fn call_here<E: HookExport<Guest = HookGuest>>(&mut self, export: E) -> Result<E::Reply, HookError> {
        let plugin = self.plugin.clone();
        let (reporter, threads) = (&plugin.hooks.reporter, &plugin.sandbox.low_priority);
        let running = InstrumentedCall::begin(reporter, threads, E::HOOK, self.by, || export.fingerprint())?;
        if self.instance.as_ref().is_some_and(|instance| instance.must_retire()) {
            self.release();
        }
        let (instance, of, secrets, waits) = (self.instance.take(), plugin.clone(), self.secrets.clone(), self.waits);
        let work = || async move {
            let mut instance = match instance {
                Some(instance) => instance,
                None => of.hook_instance(E::HOOK, waits).await?,
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

    /// Makes the instance, if there is none yet, and calls no hook: what is measured then is what every request pays.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn instantiate(&mut self) -> Result<(), HookError> {
        if self.instance.is_none() {
            self.instance = Some(self.plugin.hook_instance(Hook::Validate, self.waits).await?);
        }
        Ok(())
    }

    /// What the last hook used; nothing when there is no instance.
    #[must_use]
    pub fn used(&self) -> Usage {
        let memory = self.instance.as_ref().map_or(0, |instance| instance.memory());
        Usage { fuel: self.spent(), memory }
    }

    /// Calls `mutate` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn mutate(&mut self, resource: Vec<u8>) -> Result<MutateReply, HookError> {
        self.note(&[&resource]);
        Ok(match self.call(Mutate { resource }).await? {
            MutateReply::Refused(reasons) => MutateReply::Refused(self.hidden(reasons)),
            reply => reply,
        })
    }

    /// Calls `validate` with an encoded resource and what is stored now.
    ///
    /// # Errors
    /// The plugin's fault. Diagnostics are an answer.
    pub async fn validate(&mut self, resource: Vec<u8>, prior: Option<Vec<u8>>) -> Result<Vec<Diagnostic>, HookError> {
        self.note(&[&resource, prior.as_deref().unwrap_or_default()]);
        let said = self.call(Validate { resource, prior }).await?;
        Ok(self.hidden(said))
    }

    /// Calls `upgrade` with the data of a resource of this type, which is of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn upgrade(&mut self, of: pb::Type, since: u32, data: Vec<u8>) -> Result<UpgradeReply, HookError> {
        self.plugin.manifest().note_secrets_of_data(&of, &data, &mut self.secrets.lock());
        Ok(match self.call(Upgrade { of, since, data }).await? {
            UpgradeReply::Refused(reasons) => UpgradeReply::Refused(self.hidden(reasons)),
            reply => reply,
        })
    }

    /// Calls `plan` with an encoded, mutated resource, what is stored now, and what is kept for that.
    ///
    /// # Errors
    /// The plugin's fault. Diagnostics are an answer.
    pub async fn plan(
        &mut self,
        input: Vec<u8>,
        prior: Option<Vec<u8>>,
        kept: Option<Vec<u8>>,
    ) -> Result<PlanReply, HookError> {
        self.note(&[&input, prior.as_deref().unwrap_or_default()]);
        let said = self.call(Plan { input, prior, kept }).await?;
        Ok(PlanReply { diagnostics: self.hidden(said.diagnostics), ..said })
    }

    /// Calls `move` with an encoded resource of whatever type, whose data is of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn move_to(
        &mut self,
        to: pb::Type,
        source: Vec<u8>,
        since: u32,
        kept: Option<Vec<u8>>,
    ) -> Result<MadeReply, HookError> {
        self.note(&[&source]);
        Ok(match self.call(Move { source, since, to, kept }).await? {
            MadeReply::Refused(reasons) => MadeReply::Refused(self.hidden(reasons)),
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
        if let Some(decision) = self.remembered(Hook::AuthorizeRead, &key) {
            return Ok(decision);
        }
        let resource = resource.map(|resource| resource.bytes().to_vec());
        self.note(&[resource.as_deref().unwrap_or_default()]);
        let decision = self.call(AuthorizeRead { caller: self.caller.clone(), id, resource }).await?;
        let decision = self.decided(decision);
        self.plugin.decision_cache.put(key, &decision);
        Ok(decision)
    }

    /// Calls `authorizing.write` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_write(&mut self, resource: Vec<u8>) -> Result<Decision, HookError> {
        self.note(&[&resource]);
        let decision = self.call(AuthorizeWrite { caller: self.caller.clone(), resource }).await?;
        Ok(self.decided(decision))
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
        if self.instance.as_ref().is_some_and(|instance| instance.must_retire()) {
            self.release();
        }
        match &mut self.instance {
            Some(instance) => instance.renew(),
            // Who knew them has gone.
            None => self.secrets = Arc::default(),
        }
    }

    /// Adds what encoded resources hold that is redacted.
    fn note(&self, resources: &[&[u8]]) {
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

    /// Diagnostics without what is redacted.
    fn hidden(&self, mut said: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let secrets = self.secrets.lock();
        if !secrets.is_empty() {
            for one in &mut said {
                for text in [&mut one.path, &mut one.summary, &mut one.detail] {
                    *text = secrets.hide(text).into_owned();
                }
            }
        }
        said
    }

    /// The same of a decision.
    fn decided(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Deny(reason) => Decision::Deny(self.secrets.lock().hide(&reason).into()),
            decision => decision,
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
        self.instance.as_ref().map_or(0, |instance| instance.spent())
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
