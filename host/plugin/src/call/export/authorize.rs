//! The exports of `authorizing`.

use std::sync::Arc;

use mortise_resource::{authorizer::Authorizer, pb};
use wasmtime::Store;

use super::{Export, HookExport, HookGuest, type_name};
use crate::{
    bindings,
    call::answer::{Decision, denied},
    error::HookFault,
    hook::Hook,
    host::state::State,
};

/// `authorizing.read` of an encoded id, with the encoded resource where it is at hand.
pub(crate) struct AuthorizeRead {
    pub(crate) caller: Arc<dyn Authorizer>,
    pub(crate) id: Vec<u8>,
    pub(crate) resource: Option<Vec<u8>>,
}

impl Export for AuthorizeRead {
    const NAME: &'static str = Hook::AuthorizeRead.name();
    type Guest = HookGuest;
    type Reply = Decision;

    fn size(&self) -> usize {
        self.id.len() + self.resource.as_ref().map_or(0, Vec::len)
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<Decision> {
        let authorizes = guest.authorizing(store)?;
        let authorizing = authorizes.mortise_plugin_authorizing();
        begin_authorize(store, &self.caller);
        let answer = authorizing.call_read(&mut *store, &self.id, self.resource.as_ref()).await;
        decision(store, &self.caller, answer, self.resource.is_none())
    }
}

impl HookExport for AuthorizeRead {
    const HOOK: Hook = Hook::AuthorizeRead;

    fn input(&self) -> Vec<&[u8]> {
        vec![&self.id]
    }
}

/// `authorizing.write` of an encoded resource.
pub(crate) struct AuthorizeWrite {
    pub(crate) caller: Arc<dyn Authorizer>,
    pub(crate) resource: Vec<u8>,
}

impl Export for AuthorizeWrite {
    const NAME: &'static str = Hook::AuthorizeWrite.name();
    type Guest = HookGuest;
    type Reply = Decision;

    fn size(&self) -> usize {
        self.resource.len()
    }

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<Decision> {
        let authorizes = guest.authorizing(store)?;
        let authorizing = authorizes.mortise_plugin_authorizing();
        begin_authorize(store, &self.caller);
        let answer = authorizing.call_write(&mut *store, &self.resource).await;
        decision(store, &self.caller, answer, false)
    }
}

impl HookExport for AuthorizeWrite {
    const HOOK: Hook = Hook::AuthorizeWrite;

    fn input(&self) -> Vec<&[u8]> {
        vec![&self.resource]
    }
}

/// `authorizing.list` of a type in a tenancy.
pub(crate) struct AuthorizeList {
    pub(crate) caller: Arc<dyn Authorizer>,
    pub(crate) kind: pb::Type,
    pub(crate) within: pb::Tenancy,
}

impl Export for AuthorizeList {
    const NAME: &'static str = Hook::AuthorizeList.name();
    type Guest = HookGuest;
    type Reply = Decision;

    async fn call(self, guest: &HookGuest, store: &mut Store<State>) -> wasmtime::Result<Decision> {
        let authorizes = guest.authorizing(store)?;
        let authorizing = authorizes.mortise_plugin_authorizing();
        let within = bindings::types::Tenancy { partition: self.within.partition, namespace: self.within.namespace };
        begin_authorize(store, &self.caller);
        let answer = authorizing.call_list(&mut *store, &type_name(self.kind), &within).await;
        decision(store, &self.caller, answer, false)
    }
}

impl HookExport for AuthorizeList {
    const HOOK: Hook = Hook::AuthorizeList;

    fn input(&self) -> Vec<&[u8]> {
        vec![self.kind.kind.as_bytes(), self.within.partition.as_bytes(), self.within.namespace.as_bytes()]
    }
}

/// Lets the import `authorizer` answer for this caller.
fn begin_authorize(store: &mut Store<State>, caller: &Arc<dyn Authorizer>) {
    let state = store.data_mut();
    state.caller = Some(caller.clone());
    state.refused = None;
}

/// Reads an authorize hook's answer. `may_postpone`: whether the hook may ask for the resource.
fn decision(
    store: &mut Store<State>,
    caller: &Arc<dyn Authorizer>,
    answer: wasmtime::Result<bindings::Decision>,
    may_postpone: bool,
) -> wasmtime::Result<Decision> {
    let state = store.data_mut();
    state.caller = None;
    match answer? {
        bindings::Decision::Allow => Ok(Decision::Allow),
        bindings::Decision::Deny(reason) => {
            Ok(Decision::Deny(denied(caller.caller(), &reason, state.refused.take()).into()))
        }
        bindings::Decision::NeedResource if may_postpone => Ok(Decision::NeedResource),
        bindings::Decision::NeedResource => {
            Err(HookFault::Answer("it answered need-resource, which only `read` by id may".into()).into())
        }
    }
}
