//! The states that core keeps of resources.
//!
//! `request` makes a request from a configuration, `observed` a state from a stored resource. Core keeps bytes beside
//! each state that the user does not see (`private`): the server's values where the state has the user's spelling, and
//! a change that must come first (`pending`). Core's form of values that are only written is not the provider's own
//! (`write_only`). Labels, annotations and tags are owned key by key (`notes`), except for keys of controllers
//! (`controller_keys`).

mod controller_keys;
mod notes;
mod observed;
mod pending;
mod private;
mod request;
mod write_only;

pub(crate) use controller_keys::CONTROLLER_KEYS;
pub use controller_keys::ControllerKeys;
pub use notes::{Notes, all_labels};
pub use observed::{Observed, data_source_state, id_text, list_entry, metadata, state};
pub use pending::{Origin, Pending};
pub use private::Private;
pub use request::{Defaults, has_unplaced_owner, known_id, owner_units, request, resource_id, tenancy_of};
pub use write_only::{hidden, revealed_config, revealed_plan, revealed_prior, shown_path, without_hidden};

use crate::{mapping::Leaf, mapping::Shape};

/// The shape of metadata.
#[must_use]
pub fn metadata_shape() -> Shape {
    Shape::Map(Box::new(Shape::Leaf(Leaf::String)))
}
