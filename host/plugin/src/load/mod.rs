//! Loading: from a component's bytes to a plugin that can be called.

pub(crate) mod code_cache;
mod compile;
pub(crate) mod component;
pub(crate) mod contract;
pub(crate) mod controller_engine;
pub(crate) mod grants_check;
pub(crate) mod interfaces;
pub(crate) mod loading_call;
mod needs;
pub(crate) mod settings;
pub(crate) mod settings_check;
pub(crate) mod without_imports;
