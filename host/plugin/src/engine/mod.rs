//! Engines, the pool of instances, stores with every limit set, and the threads of low priority.

pub(crate) mod configuration;
pub(crate) mod low_priority;
pub(crate) mod pool;
pub(crate) mod store;
pub(crate) mod ticker;
