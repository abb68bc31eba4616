//! The exports of controllers.

use wasmtime::Store;

use super::{ControllerGuest, Export, HookExport, missing};
use crate::{bindings, hook::Hook, host::state::State};

/// `controlling.reconcile` of an encoded id.
pub(crate) struct Reconcile {
    pub(crate) controller: String,
    pub(crate) id: Vec<u8>,
}

impl Export for Reconcile {
    const NAME: &'static str = Hook::Reconcile.name();
    type Guest = ControllerGuest;
    type Reply = Result<bindings::Outcome, String>;

    async fn call(self, guest: &ControllerGuest, store: &mut Store<State>) -> wasmtime::Result<Self::Reply> {
        let guest = guest.controlling.as_ref().ok_or_else(missing)?;
        guest.mortise_plugin_controlling().call_reconcile(store, &self.controller, &self.id).await
    }
}

impl HookExport for Reconcile {
    const HOOK: Hook = Hook::Reconcile;

    fn input(&self) -> Vec<&[u8]> {
        vec![self.controller.as_bytes(), &self.id]
    }
}

/// `mapping.map` of an encoded resource that changed.
pub(crate) struct Map {
    pub(crate) controller: String,
    pub(crate) changed: Vec<u8>,
}

impl Export for Map {
    const NAME: &'static str = Hook::Map.name();
    type Guest = ControllerGuest;
    type Reply = Result<Vec<Vec<u8>>, String>;

    async fn call(self, guest: &ControllerGuest, store: &mut Store<State>) -> wasmtime::Result<Self::Reply> {
        let guest = guest.mapping.as_ref().ok_or_else(missing)?;
        guest.mortise_plugin_mapping().call_map(store, &self.controller, &self.changed).await
    }
}

impl HookExport for Map {
    const HOOK: Hook = Hook::Map;

    fn input(&self) -> Vec<&[u8]> {
        vec![self.controller.as_bytes(), &self.changed]
    }
}

/// `initializing.initialize` of a controller.
pub(crate) struct Initialize {
    pub(crate) controller: String,
}

impl Export for Initialize {
    const NAME: &'static str = Hook::Initialize.name();
    type Guest = ControllerGuest;
    type Reply = Result<(), String>;

    async fn call(self, guest: &ControllerGuest, store: &mut Store<State>) -> wasmtime::Result<Self::Reply> {
        let guest = guest.initializing.as_ref().ok_or_else(missing)?;
        guest.mortise_plugin_initializing().call_initialize(store, &self.controller).await
    }
}

impl HookExport for Initialize {
    const HOOK: Hook = Hook::Initialize;

    fn input(&self) -> Vec<&[u8]> {
        vec![self.controller.as_bytes()]
    }
}
