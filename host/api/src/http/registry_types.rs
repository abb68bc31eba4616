//! The types of the registry, for messages that have resources of any type.

use std::sync::Arc;

use mortise_resource::pb;
use mortise_service::registry::Registry;
use mortise_text::Types;
use prost_reflect::MessageDescriptor;

/// The registered types. Keeps their plugins while it exists.
#[derive(Clone)]
pub(super) struct RegistryTypes(pub(super) Arc<Registry>);

impl Types for RegistryTypes {
    fn message(&self, ty: &pb::Type) -> Option<MessageDescriptor> {
        self.0.get(ty).map(|known| known.schema.message().clone())
    }

    fn named(&self, _: &str) -> Vec<pb::Type> {
        Vec::new()
    }

    fn message_named(&self, full_name: &str) -> Option<MessageDescriptor> {
        self.0.pools().find_map(|pool| pool.get_message_by_name(full_name))
    }
}
