//! Calls of a plugin's exports, in fresh instances for hooks and in warm ones for controllers.

pub(crate) mod decision_cache;
pub(crate) mod instrumented_call;
pub(crate) mod session;
pub(crate) mod warm_instance;
