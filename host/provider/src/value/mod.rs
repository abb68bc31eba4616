//! Values of the protocol, exact: types, unknowns with refinements, numbers of any size; as MessagePack and as JSON.
//!
//! # Limits
//! Types and values are at most [`DEPTH`] deep, numbers have at most [`number::MAX_DIGITS`] digits. What is encoded in how
//! many bytes is bounded by the message that it came in.

pub mod json;
pub mod msgpack;
pub mod number;
pub mod refinements;
mod types;
mod values;

pub use number::Number;
pub use refinements::Refinements;
pub use types::{Type, TypeError};
pub use values::{PathText, Step, Value, ValueError};

/// How deep types and values may be.
pub const DEPTH: usize = 64;
