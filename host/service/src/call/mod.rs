//! One call: its caller and origin, its rates and its record, its share of what is scarce, and the errors of the store.

pub(crate) mod audit;
pub(crate) mod caller;
pub(crate) mod caller_counts;
pub(crate) mod fair;
pub(crate) mod origin;
pub(crate) mod request_id;
pub(crate) mod retry;
pub(crate) mod ruled_caller;
pub(crate) mod store_fault;
