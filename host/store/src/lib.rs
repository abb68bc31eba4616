//! Storage of resources: the contract, and the engine behind it.
//!
//! - [`backend`]: what every store guarantees.
//! - [`error`]: what can go wrong.

pub mod backend;
pub mod error;

pub use backend::{
    Backend, Batch, Consistency, ExpectedId, Expectation, Mutation, Query, TypeKey, Watch, WatchEvent,
};
pub use error::StoreError;
