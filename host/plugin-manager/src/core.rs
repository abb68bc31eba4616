//! What the manager's task, commands and loads share.
//!
//! The state is behind one lock, which is held for a step: comparing, writing a record, swapping the registry. What
//! takes long (reading, compiling, comparing with what is stored) runs without it, so that no plugin waits for another;
//! what it was computed for is compared again when the lock is taken to apply it. Transitions of one plugin wait for
//! each other ([`Turns`]).
//!
//! # Panics
//! What panics is a defect of ours. Without the lock nothing was changed: a load is refused with `HostFault`, a command
//! answers `Internal`, and the server goes on. Under the lock a step may have been done by half ([`StateGuard`]), and
//! what runs by itself would be missing from then on ([`Work::spawn`]): the manager's task ends then, and with it the
//! process, to be started again.

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

/// Shared by everything that changes plugins.
pub(crate) struct Core {
    state: Arc<Mutex<ManagerState>>,
    pub(crate) options: Arc<Options>,
    pub(crate) sandbox: Sandbox,
    pub(crate) turns: Turns,
    pub(crate) work: Work,
}

/// The state, while it is held. A panic meanwhile ends the manager.
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

    /// The state. No transition begins or ends while it is held; turns and places are waited for without it.
    pub(crate) async fn lock(&self) -> StateGuard {
        StateGuard(self.state.clone().lock_owned().await)
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
