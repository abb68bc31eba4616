//! The hooks of one request. An instance is made when the first hook is called, and not at all when none is.
#![allow(clippy::ptr_arg, reason = "the generated bindings take bytes as vectors")]

use std::{sync::Arc, time::Instant};

use mortise_resource::{Diagnostic, authorizer::Authorizer, pb};
use prost::Message as _;
use tracing::{Instrument as _, Span, field::Empty};

use crate::{
    error::HookError,
    health::Pass,
    hook::Hook,
    memo::Key,
    meter::HookMeter,
    plugin::Plugin,
    session::{Decision, Mutated, Question, Session, Upgraded},
};

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

    async fn session(&mut self, hook: Hook) -> Result<&mut Session, HookError> {
        if self.session.as_ref().is_some_and(Session::is_worn) {
            self.session = None;
        }
        match &mut self.session {
            Some(session) => Ok(session),
            empty => Ok(empty.insert(Session::open(&self.plugin, hook.name()).await?)),
        }
    }

    /// Calls `mutate` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn mutate(&mut self, resource: &Vec<u8>) -> Result<Mutated, HookError> {
        let plugin = self.plugin.clone();
        let running = Running::begin(&plugin, Hook::Mutate)?;
        let span = running.span.clone();
        let call = async { self.session(Hook::Mutate).await?.mutate(resource).await };
        let outcome = call.instrument(span).await;
        running.end(outcome, self.spent())
    }

    /// Calls `validate` with an encoded resource and what is stored now.
    ///
    /// # Errors
    /// The plugin's fault. Diagnostics are an answer.
    pub async fn validate(
        &mut self,
        resource: &Vec<u8>,
        prior: Option<&Vec<u8>>,
    ) -> Result<Vec<Diagnostic>, HookError> {
        let plugin = self.plugin.clone();
        let running = Running::begin(&plugin, Hook::Validate)?;
        let span = running.span.clone();
        let call = async { self.session(Hook::Validate).await?.validate(resource, prior).await };
        let outcome = call.instrument(span).await;
        running.end(outcome, self.spent())
    }

    /// Calls `upgrade` with the data of a resource of this type, which is of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn upgrade(&mut self, of: &pb::Type, since: u32, data: &Vec<u8>) -> Result<Upgraded, HookError> {
        let plugin = self.plugin.clone();
        let running = Running::begin(&plugin, Hook::Upgrade)?;
        let span = running.span.clone();
        let call = async { self.session(Hook::Upgrade).await?.upgrade(of, since, data).await };
        let outcome = call.instrument(span).await;
        running.end(outcome, self.spent())
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
        let question = Question::Read { id: &id, resource: resource.as_ref() };
        self.ask(question, Some(key)).await
    }

    /// Calls `authorizing.write` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault.
    pub async fn authorize_write(&mut self, resource: &Vec<u8>) -> Result<Decision, HookError> {
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
        self.ask(Question::List { of, within }, Some(key)).await
    }

    /// Gives the next hook the fuel and the time of a request of its own: between the items of a list.
    pub fn next_item(&mut self) {
        if let Some(session) = &mut self.session {
            session.renew();
        }
    }

    /// Gives the instance back. The next hook, if any, gets a fresh one.
    pub fn rest(&mut self) {
        self.session = None;
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
        if self.plugin.health().is_quarantined(hook) { None } else { self.plugin.memo.get(key) }
    }

    async fn ask(&mut self, question: Question<'_>, key: Option<Key>) -> Result<Decision, HookError> {
        let caller = self.caller.clone();
        let plugin = self.plugin.clone();
        let running = Running::begin(&plugin, question.hook())?;
        let span = running.span.clone();
        let call = async { self.session(question.hook()).await?.authorize(caller, question).await };
        let outcome = call.instrument(span).await;
        let decision = running.end(outcome, self.spent())?;
        if let Some(key) = key {
            self.plugin.memo.put(key, &decision);
        }
        Ok(decision)
    }
}

/// A call of a hook from its admission to its end: what is counted, timed and traced about it.
struct Running<'a> {
    meter: &'a HookMeter,
    pass: Pass<'a>,
    begun: Instant,
    span: Span,
}

impl<'a> Running<'a> {
    /// Begins, unless the hook is quarantined. The span costs one load of a static while nobody asked for spans.
    fn begin(plugin: &'a Plugin, hook: Hook) -> Result<Self, HookError> {
        let name = hook.name();
        let pass = plugin.health().admit(hook).map_err(|fault| plugin.fault(name, fault, None))?;
        let span = tracing::debug_span!(
            target: "mortise::span", "hook",
            plugin = plugin.name(), version = plugin.version(), hook = name, fuel = Empty, fault = Empty
        );
        Ok(Self { meter: plugin.meter.hook(hook), pass, begun: Instant::now(), span })
    }

    /// Counts how it ended. What the host did counts for nothing: the pass is dropped without an outcome.
    fn end<T>(self, outcome: Result<T, HookError>, fuel: u64) -> Result<T, HookError> {
        self.meter.called(self.begun.elapsed(), fuel);
        self.span.record("fuel", fuel);
        match &outcome {
            Ok(_) => self.pass.succeeded(),
            Err(error) => {
                self.span.record("fault", error.fault.kind());
                if error.counts {
                    self.pass.failed(&error.fault);
                }
            }
        }
        outcome
    }
}
