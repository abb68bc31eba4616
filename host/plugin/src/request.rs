//! The hooks of one request. An instance is made when the first hook is called, and not at all when none is.
use std::sync::Arc;

use mortise_resource::{Diagnostic, authorizer::Authorizer, pb};
use prost::Message as _;

use crate::{
    call::{
        decision_cache::Key,
        instrumented_call::InstrumentedCall,
        session::{Decision, MutateReply, Question, Session, UpgradeReply},
    },
    error::HookError,
    hook::Hook,
    plugin::Plugin,
};

/// What one call of a guest took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Work, in wasmtime's fuel units: about one for each instruction.
    pub fuel: u64,
    /// Linear memory of the instance afterwards, bytes. It never shrinks, so that was the most that it had.
    pub memory: usize,
}

/// One request's dealings with a plugin, on behalf of one caller.
pub struct Call {
    plugin: Arc<Plugin>,
    caller: Arc<dyn Authorizer>,
    session: Option<Session>,
}

impl Call {
    /// Costs nothing until a hook is called.
    #[must_use]
    pub fn new(plugin: Arc<Plugin>, caller: Arc<dyn Authorizer>) -> Self {
        Self { plugin, caller, session: None }
    }

    /// Calls a hook in this request's instance, on the threads where the plugin's calls belong now.
    async fn run<T, F, A>(&mut self, hook: Hook, ask: F) -> Result<T, HookError>
    where
        F: FnOnce(Session) -> A + Send + 'static,
        A: Future<Output = (Session, Result<T, HookError>)> + Send + 'static,
        T: Send + 'static,
    {
        let plugin = self.plugin.clone();
        let running = InstrumentedCall::begin(&plugin, hook)?;
        if self.session.as_ref().is_some_and(Session::must_retire) {
            self.release();
        }
        let (session, of) = (self.session.take(), plugin.clone());
        let work = || async move {
            let session = match session {
                Some(session) => session,
                None => Session::open(&of, hook.name()).await?,
            };
            Ok(ask(session).await)
        };
        let done = running.work(work).await;
        let outcome = done.and_then(|(session, answer)| {
            self.session = Some(session);
            answer
        });
        running.end(outcome, self.spent())
    }

    /// Makes the instance, if there is none yet, and calls no hook: what is measured then is what every request pays.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn instantiate(&mut self) -> Result<(), HookError> {
        if self.session.is_none() {
            self.session = Some(Session::open(&self.plugin, Hook::Validate.name()).await?);
        }
        Ok(())
    }

    /// What the last hook used; nothing when there is no instance.
    #[must_use]
    pub fn used(&self) -> Usage {
        let memory = self.session.as_ref().map_or(0, Session::memory);
        Usage { fuel: self.spent(), memory }
    }

    /// Calls `mutate` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn mutate(&mut self, resource: Vec<u8>) -> Result<MutateReply, HookError> {
        let ask = |mut session: Session| async move {
            let answer = session.mutate(&resource).await;
            (session, answer)
        };
        self.run(Hook::Mutate, ask).await
    }

    /// Calls `validate` with an encoded resource and what is stored now.
    ///
    /// # Errors
    /// The plugin's fault. Diagnostics are an answer.
    pub async fn validate(&mut self, resource: Vec<u8>, prior: Option<Vec<u8>>) -> Result<Vec<Diagnostic>, HookError> {
        let ask = |mut session: Session| async move {
            let answer = session.validate(&resource, prior.as_ref()).await;
            (session, answer)
        };
        self.run(Hook::Validate, ask).await
    }

    /// Calls `upgrade` with the data of a resource of this type, which is of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn upgrade(&mut self, of: pb::Type, since: u32, data: Vec<u8>) -> Result<UpgradeReply, HookError> {
        let ask = move |mut session: Session| async move {
            let answer = session.upgrade(&of, since, &data).await;
            (session, answer)
        };
        self.run(Hook::Upgrade, ask).await
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
        self.ask(Question::Read { id, resource }, Some(key)).await
    }

    /// Calls `authorizing.write` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_write(&mut self, resource: Vec<u8>) -> Result<Decision, HookError> {
        self.ask(Question::Write { resource }, None).await
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
        self.ask(Question::List { of: of.clone(), within: within.clone() }, Some(key)).await
    }

    /// Gives the next hook the fuel and the time of a request of its own: between the items of a list.
    pub fn next_item(&mut self) {
        if let Some(session) = &mut self.session {
            session.renew();
        }
    }

    /// Gives the instance back. The next hook, if any, gets a fresh one.
    pub fn release(&mut self) {
        let Some(session) = self.session.take() else { return };
        // Clearing away what a guest wrote takes the system as long as the guest took to write it.
        if let Some(threads) = self.plugin.aside(Hook::Mutate) {
            threads.clear_away(session);
        }
    }

    /// Fuel of the last call; nothing when there was no instance for it.
    fn spent(&self) -> u64 {
        self.session.as_ref().map_or(0, Session::spent)
    }

    fn key(&self, hook: u8, parts: &[&[u8]]) -> Key {
        Key::new(hook, self.caller.fingerprint(), parts)
    }

    /// A decision that was made before. A quarantined hook decides nothing, or else it would depend on chance what can
    /// still be read.
    fn remembered(&self, hook: Hook, key: &Key) -> Option<Decision> {
        if self.plugin.health().is_quarantined(hook) { None } else { self.plugin.decision_cache.get(key) }
    }

    async fn ask(&mut self, question: Question, key: Option<Key>) -> Result<Decision, HookError> {
        let (caller, hook) = (self.caller.clone(), question.hook());
        let ask = |mut session: Session| async move {
            let answer = session.authorize(caller, question).await;
            (session, answer)
        };
        let decision = self.run(hook, ask).await?;
        if let Some(key) = key {
            self.plugin.decision_cache.put(key, &decision);
        }
        Ok(decision)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.release();
    }
}
