//! Loading: from a component's bytes to a plugin that can be called.

pub(crate) mod brought_code;
pub(crate) mod code_cache;
pub(crate) mod compile;
pub(crate) mod compiler_process;
pub(crate) mod component;
pub(crate) mod contract;
pub(crate) mod controller_engine;
pub(crate) mod grants_check;
pub(crate) mod interfaces;
pub(crate) mod loading_call;
mod machine_code;
mod needs;
pub(crate) mod settings;
pub(crate) mod settings_check;
pub(crate) mod without_imports;
