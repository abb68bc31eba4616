//! A plugin's messages in the protocol's terms: their fields as attributes (`shape`, `options`, `secrets`,
//! `companion`), values in both directions (`message`), the equality of values (`equality`), the combination of the
//! server's values with the user's spelling in plans (`conform`) and in reads (`undo`), and the arguments and results
//! of functions (`function`).

mod companion;
mod conform;
mod equality;
mod function;
mod message;
mod name;
mod options;
mod secrets;
mod shape;
mod undo;

pub use conform::{Divergences, conform};
pub use equality::are_equal;
pub use function::{argument, function_type, result};
pub use message::{from_data, steps, to_data};
pub(crate) use name::attribute_name;
pub use options::{FieldOptions, Options};
#[cfg(test)]
pub(crate) use shape::tests::object as shape_of;
pub use shape::{Attribute, Flags, Leaf, Object, Presence, Shape, ShapeError};
pub use undo::undo;
