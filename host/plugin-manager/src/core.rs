//! What the manager's task, commands and loads share.
//!
//! The state is behind one lock, which is held for a step: comparing, writing a record, swapping the registry. What
//! takes long (reading, compiling, comparing with what is stored) runs without it, so that no plugin waits for another;
//! what it was computed for is compared again when the lock is taken to apply it. Transitions of one plugin wait for
//! each other ([`Turns`]).

use std::sync::Arc;

use mortise_plugin_host::Sandbox;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    options::Options,
    state::ManagerState,
    turns::{Turn, Turns},
    work::Work,
};

/// Shared by everything that changes plugins.
pub(crate) struct Core {
    state: Arc<Mutex<ManagerState>>,
    pub(crate) options: Arc<Options>,
    pub(crate) sandbox: Sandbox,
    pub(crate) turns: Turns,
    pub(crate) work: Work,
}

impl Core {
    pub(crate) fn new(state: ManagerState) -> Arc<Self> {
        Arc::new(Self {
            options: state.options.clone(),
            sandbox: state.sandbox.clone(),
            turns: Turns::default(),
            work: state.work.clone(),
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// The state. No transition begins or ends while it is held; turns and places are waited for without it.
    pub(crate) async fn lock(&self) -> OwnedMutexGuard<ManagerState> {
        self.state.clone().lock_owned().await
    }

    /// The turn of the plugin that a file provides; none when it provides none.
    pub(crate) async fn turn_of_file(&self, file: &str) -> Option<Turn> {
        loop {
            let plugin = self.lock().await.files.get(file).and_then(|known| known.provides.clone())?;
            let turn = self.turns.take(&plugin).await;
            let provides = self.lock().await.files.get(file).and_then(|known| known.provides.clone());
            if provides.is_some_and(|now| now == plugin) {
                return Some(turn);
            }
        }
    }
}
