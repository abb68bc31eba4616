//! The messages that paths go through.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MessageDescriptor, ReflectMessage as _};

/// Number of the field `data` of a resource.
pub(crate) const DATA: u32 = 7;

/// The message of a resource. It is compiled in, so decoding cannot fail; a message without fields would take its
/// place, and no path would resolve.
static RESOURCE: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(mortise_resource::DESCRIPTORS).ok();
    let found = pool.and_then(|pool| pool.get_message_by_name("hashicorp.consul.resource.Resource"));
    found.unwrap_or_else(|| ().descriptor())
});

/// The descriptors that a query is compiled against: the message of resources, and the message of the type's `data`.
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema {
    data: Option<MessageDescriptor>,
}

impl Schema {
    /// Makes the schema of a type. Without a message, paths into `data` are rejected.
    #[must_use]
    pub fn new(data: Option<MessageDescriptor>) -> Self {
        Self { data }
    }

    /// Message of the type's `data`.
    #[must_use]
    pub fn data(&self) -> Option<&MessageDescriptor> {
        self.data.as_ref()
    }

    pub(crate) fn resource() -> &'static MessageDescriptor {
        &RESOURCE
    }
}
