//! Check of a resource that a hook answered.

use mortise_resource::{FieldFault, meta, pb};
use prost::Message as _;

use super::server_meta;
use crate::registry::ResourceType;

/// The reason why the result of `mutate` cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnusableResult {
    #[error("not a hashicorp.consul.resource.Resource: {0}")]
    NoResource(#[source] prost::DecodeError),
    #[error("it changed {0}; mutate may change data, metadata and meta.lifecycle.block_deletion only")]
    Changed(&'static str),
    #[error("it changed the type of data to {0:?}")]
    WrongType(String),
    #[error("its data is not a {message}: {fault}")]
    BadData {
        message: String,
        #[source]
        fault: FieldFault,
    },
}

/// Decodes the result of `mutate`, and checks that it changed data, metadata and `meta.lifecycle.block_deletion` only.
pub(super) fn accept(kind: &ResourceType, before: &pb::Resource, bytes: &[u8]) -> Result<pb::Resource, UnusableResult> {
    let mut after = pb::Resource::decode(bytes).map_err(UnusableResult::NoResource)?;
    // A guest may not know these fields, and lose them.
    after.schema_version = before.schema_version;
    let blocks = after.meta.take().and_then(|meta| meta.lifecycle).map(|lifecycle| lifecycle.block_deletion);
    after.meta.clone_from(&before.meta);
    if let Some(blocks) = blocks {
        server_meta::set_block(&mut after, blocks);
    }
    for (field, same) in [
        ("id", after.id == before.id),
        ("owner", after.owner == before.owner),
        ("version", after.version == before.version),
        ("generation", after.generation == before.generation),
        ("status", after.status == before.status),
        (
            "metadata.deletionTimestamp",
            after.metadata.get(meta::DELETION_TIMESTAMP) == before.metadata.get(meta::DELETION_TIMESTAMP),
        ),
    ] {
        if !same {
            return Err(UnusableResult::Changed(field));
        }
    }
    if let Some(data) = &after.data {
        let schema = &kind.schema;
        if !schema.accepts_url(&data.type_url) {
            return Err(UnusableResult::WrongType(data.type_url.clone()));
        }
        schema.check(&data.value).map_err(|fault| {
            let message = schema.message().full_name().to_owned();
            UnusableResult::BadData { message, fault }
        })?;
    }
    Ok(after)
}
