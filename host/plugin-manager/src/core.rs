//! State and limits that the manager's task, commands and loads share.
//!
//! The state is behind one lock, which is held for a step: comparing, writing a record, swapping the registry. Long
//! work (reading, compiling, comparing with stored resources) runs without it, so that no plugin waits for another;
//! when the lock is taken to apply the result, its assumptions are compared again. Transitions of one plugin wait for
//! each other ([`Turns`]).
//!
//! # Panics
//! A panic is a defect of Mortise. A panic without the lock has changed nothing: a load is rejected with `HostFault`, a
//! command answers `Internal`, and the server goes on. A panic under the lock may leave a half-done step
//! ([`StateGuard`]), and a panic of a background task would leave that task missing ([`Work::spawn`]): then the
//! manager's task ends, and with it the process, which has to be restarted.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    thread,
};

use mortise_plugin_host::Sandbox;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    options::Options,
    state::ManagerState,
    turns::{Turn, Turns},
    work::Work,
};

/// The state and limits that all work on plugins shares.
pub(crate) struct Core {
    state: Arc<Mutex<ManagerState>>,
    pub(crate) options: Arc<Options>,
    pub(crate) sandbox: Sandbox,
    pub(crate) turns: Turns,
    pub(crate) work: Work,
}

/// The locked state. A panic while it is held ends the manager.
pub(crate) struct StateGuard(OwnedMutexGuard<ManagerState>);

impl Deref for StateGuard {
    type Target = ManagerState;

    fn deref(&self) -> &ManagerState {
        &self.0
    }
}

impl DerefMut for StateGuard {
    fn deref_mut(&mut self) -> &mut ManagerState {
        &mut self.0
    }
}

impl Drop for StateGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.work.give_up();
        }
    }
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

    /// Locks the state. No transition begins or ends while it is locked; do not wait for turns or places meanwhile.
    pub(crate) async fn lock(&self) -> StateGuard {
        StateGuard(self.state.clone().lock_owned().await)
    }

    /// Waits for the turn of the plugin that a file provides; `None` if it provides none.
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
