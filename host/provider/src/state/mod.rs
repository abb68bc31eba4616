//! Resources and the states that core keeps of them.

mod observed;
mod pending;
mod private;
mod request;

pub use observed::{StateError, data_source_state, id_text, list_entry, metadata, state};
pub use pending::{Origin, Pending};
pub use private::Private;
pub use request::{Defaults, place_of, request, resource_id};

use crate::{mapping::Leaf, mapping::Shape};

/// The shape of metadata.
#[must_use]
pub fn metadata_shape() -> Shape {
    Shape::Map(Box::new(Shape::Leaf(Leaf::String)))
}
