//! Point reads.

use mortise_resource::pb;

use crate::StoreError;
use crate::engine::{
    Shared,
    tree::{keys, table::Payload},
};

/// The published resource under an id, of any incarnation and GroupVersion.
fn published(shared: &Shared, id: &pb::Id) -> Result<Option<pb::Resource>, StoreError> {
    // An id that no key can hold is the id of nothing.
    let Ok(key) = keys::resource(id) else { return Ok(None) };
    let mut torn = None;
    loop {
        let Some(value) = shared.table.get(&key)? else { return Ok(None) };
        match shared.table.payload(&key, value.clone())? {
            // A writer replaced the record between its head and its chunks: then there is another head now. A head has the
            // checksum of what it belongs to, so the same one again means that the chunks are damaged in earnest.
            Payload::Torn if torn.as_ref() != Some(&value) => torn = Some(value),
            payload => return shared.table.decoder().decode(&key, &payload).map(Some),
        }
    }
}

/// As [`Backend::read`](crate::Backend::read).
pub(crate) fn read(shared: &Shared, id: &pb::Id) -> Result<pb::Resource, StoreError> {
    let stored = published(shared, id)?.ok_or(StoreError::NotFound)?;
    let found = stored.id.as_ref().ok_or(StoreError::NotFound)?;
    if !id.uid.is_empty() && id.uid != found.uid {
        return Err(StoreError::NotFound);
    }
    let requested = group_version(id);
    if requested != group_version(found) {
        let requested = requested.to_owned();
        return Err(StoreError::GroupVersionMismatch { requested, stored: Box::new(stored) });
    }
    Ok(stored)
}

fn group_version(id: &pb::Id) -> &str {
    id.r#type.as_ref().map_or("", |t| t.group_version.as_str())
}
