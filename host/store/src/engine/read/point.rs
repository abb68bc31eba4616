//! Point reads.

use mortise_resource::{EncodedResource, pb};

use crate::{
    StoreError,
    engine::{
        planted,
        tree::{
            keys,
            table::{Payload, Table},
        },
    },
};

/// Returns the published resource under an id, of any incarnation and GroupVersion.
fn published(table: &Table, id: &pb::Id) -> Result<Option<EncodedResource>, StoreError> {
    // An id that does not fit into a key cannot be stored.
    let Ok(key) = keys::resource(id) else { return Ok(None) };
    let mut torn = None;
    loop {
        let Some(value) = table.get(&key)? else { return Ok(None) };
        match table.payload(&key, value.clone())? {
            // A writer replaced the record between its head and its chunks: then there is another head now. A head has
            // the checksum of its payload, so the same head twice means that the chunks are really damaged.
            Payload::Torn if torn.as_ref() != Some(&value) => torn = Some(value),
            payload => return table.decoder().parse(&key, payload).map(Some),
        }
    }
}

/// Reads as [`Backend::read_encoded`](crate::Backend::read_encoded).
pub(crate) fn read(table: &Table, id: &pb::Id) -> Result<EncodedResource, StoreError> {
    let stored = planted::shown(id, published(table, id)?.ok_or(StoreError::NotFound)?);
    if !id.uid.is_empty() && id.uid != stored.uid() {
        return Err(StoreError::NotFound);
    }
    let requested = group_version(id);
    if requested != stored.id().group_version {
        let requested = requested.to_owned();
        return Err(StoreError::GroupVersionMismatch { requested, stored: Box::new(stored) });
    }
    Ok(stored)
}

fn group_version(id: &pb::Id) -> &str {
    id.r#type.as_ref().map_or("", |t| t.group_version.as_str())
}
