//! The hooks of one request. An instance is made when the first hook is called, and not at all when none is.
#![allow(clippy::ptr_arg, reason = "the generated bindings take bytes as vectors")]

use std::sync::Arc;

use mortise_resource::{Diagnostic, authorizer::Authorizer, pb};
use prost::Message as _;

use crate::{
    error::HookError,
    memo::Key,
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

    async fn session(&mut self, hook: &'static str) -> Result<&mut Session, HookError> {
        if self.session.as_ref().is_some_and(Session::is_worn) {
            self.session = None;
        }
        match &mut self.session {
            Some(session) => Ok(session),
            empty => Ok(empty.insert(Session::open(&self.plugin, hook).await?)),
        }
    }

    /// Calls `mutate` with an encoded resource.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn mutate(&mut self, resource: &Vec<u8>) -> Result<Mutated, HookError> {
        self.session("mutate").await?.mutate(resource).await
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
        self.session("validate").await?.validate(resource, prior).await
    }

    /// Calls `upgrade` with the data of a resource of this type, which is of schema version `since`.
    ///
    /// # Errors
    /// The plugin's fault. A refusal is an answer.
    pub async fn upgrade(&mut self, of: &pb::Type, since: u32, data: &Vec<u8>) -> Result<Upgraded, HookError> {
        self.session("upgrade").await?.upgrade(of, since, data).await
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
        if let Some(decision) = self.plugin.memo.get(&key) {
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
        if let Some(decision) = self.plugin.memo.get(&key) {
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

    fn key(&self, hook: u8, parts: &[&[u8]]) -> Key {
        Key::new(hook, self.caller.fingerprint(), parts)
    }

    async fn ask(&mut self, question: Question<'_>, key: Option<Key>) -> Result<Decision, HookError> {
        let caller = self.caller.clone();
        let decision = self.session(question.hook()).await?.authorize(caller, question).await?;
        if let Some(key) = key {
            self.plugin.memo.put(key, &decision);
        }
        Ok(decision)
    }
}
