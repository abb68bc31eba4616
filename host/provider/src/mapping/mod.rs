//! A plugin's messages in the terms of the protocol: what their fields are as attributes, when two values are the same,
//! and how the server's values and the user's spelling go together.

mod conform;
mod function;
mod message;
mod options;
mod same;
mod shape;
mod undo;

pub use conform::{Divergences, conform};
pub use function::{argument, function_type, result};
pub use message::{from_data, steps, to_data};
pub use options::{FieldOptions, Options};
pub use same::same;
pub(crate) use shape::attribute_name;
pub use shape::{Attribute, Flags, Leaf, Object, Presence, Shape, ShapeError};
pub use undo::undo;
