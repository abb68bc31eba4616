//! Calls of a plugin's exports, in fresh instances for hooks and in warm ones for controllers.

pub(crate) mod answer;
pub(crate) mod decision_cache;
pub(crate) mod export;
pub(crate) mod hook_instance;
pub(crate) mod hook_slots;
pub(crate) mod instance;
pub(crate) mod instrumented_call;
pub(crate) mod warm_instance;
