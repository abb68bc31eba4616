//! A load on an operator's word: the one way of enable, install, rollback and changed settings to a component.
//!
//! The plugin's turn is held from before the request is made until its result is shown.

use mortise_resource::{Error, pb};

use super::precondition;
use crate::{
    core::{Core, StateGuard},
    load::{
        dry_run::DryLoad,
        request::{LoadRefusal, LoadRequest, Loaded},
        stage::Failure,
    },
    turns::Turn,
    work::LoadPermit,
};

/// The right to load a component of a plugin, with the locked state to make the request from.
pub(crate) struct OperatorLoad {
    pub(crate) state: StateGuard,
    turn: Turn,
    place: LoadPermit,
}

/// The result of a load, with the locked state to show it in.
pub(crate) struct EndedLoad {
    pub(crate) state: StateGuard,
    pub(crate) request: LoadRequest,
    pub(crate) outcome: Result<Loaded, LoadRefusal>,
    pub(crate) _turn: Option<Turn>,
}

impl OperatorLoad {
    /// Waits for the plugin's turn and for a place among the loads.
    pub(crate) async fn begin(core: &Core, plugin: &str) -> Self {
        let turn = core.turns.take(plugin).await;
        let place = core.work.place().await;
        Self { state: core.lock().await, turn, place }
    }

    /// Takes the component through every stage, without the lock.
    pub(crate) async fn run(self, core: &Core, request: LoadRequest) -> EndedLoad {
        let Self { state, turn, place } = self;
        drop(state);
        let mut turn = Some(turn);
        let outcome = core.load(&request, &mut turn, place).await;
        EndedLoad { state: core.lock().await, request, outcome, _turn: turn }
    }

    /// Makes the checks of every stage, without the lock and without a change.
    pub(crate) async fn try_run(self, core: &Core, request: &LoadRequest) -> Result<DryLoad, Failure> {
        let Self { state, turn: _turn, place: _place } = self;
        drop(state);
        core.try_load(request).await
    }
}

impl EndedLoad {
    /// The plugin's resource after a load of a component that the server had. A refusal is shown there first.
    pub(crate) async fn answer(mut self, plugin: &str) -> Result<pb::Resource, Error> {
        let state = &mut self.state;
        let Err(LoadRefusal { failure, .. }) = self.outcome else {
            // After a rollback, the fault of the source's content no longer matters.
            if let Some(file) = state.files.get_mut(&self.request.source) {
                file.clear_rejection();
            }
            return state.answer(plugin);
        };
        state.failed(plugin, failure.clone(), Some(self.request.digest)).await;
        if state.managed(plugin).is_disabled() {
            let more = format!("; enabling it failed, {}: {}", failure.reason, failure.message);
            state.disabled(plugin, &more).await;
        }
        Err(precondition(failure.into_error().message))
    }
}
