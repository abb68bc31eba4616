//! Values of the protocol, exact: types, unknowns with refinements, numbers of any size; as MessagePack and as JSON.
//!
//! # Limits
//! Types and values are at most [`MAX_DEPTH`] deep, numbers have at most [`number::MAX_DIGITS`] digits. The size of a
//! message bounds the number of values.

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

/// Most levels of types and values.
pub const MAX_DEPTH: usize = 64;
