//! Bytes of a resource as limits count them.

use mortise_resource::{EncodedResource, meta, pb, resource_meta};
use prost::{Message as _, encoding};

/// Returns the bytes of a resource as limits count them: encoded, without parts that no client can make shorter
/// (version, the server's part of `meta`, records of its references) and without the deletion mark, which must fit even
/// onto a resource at the limit.
#[must_use]
pub fn limited_size(resource: &pb::Resource) -> usize {
    let mark = resource.metadata.get(meta::DELETION_TIMESTAMP);
    if mark.is_some() && meta::finalizers(&resource.metadata).contains(meta::REFERENCES_FINALIZER) {
        // The server sets this finalizer together with the mark.
        let mut without = resource.clone();
        meta::remove_finalizer(&mut without.metadata, meta::REFERENCES_FINALIZER);
        if !meta::has_finalizers(&without.metadata) {
            without.metadata.remove(meta::FINALIZERS);
        }
        return limited_size(&without);
    }
    let meta = resource.meta.as_deref().map_or(0, resource_meta::server_part_bytes);
    let kept_by_server = meta + encoding::message::encoded_len_repeated(1002, &resource.references);
    limited(resource.encoded_len() - kept_by_server, &resource.version, mark.map(String::as_str))
}

/// [`limited_size`] of an encoded resource.
#[must_use]
pub(crate) fn limited_size_encoded(resource: &EncodedResource) -> usize {
    if resource.deletion_mark().is_some()
        && let Ok(resource) = resource.decode()
    {
        return limited_size(&resource);
    }
    let meta = resource.decode_meta().ok().flatten();
    let kept_by_server = meta.as_ref().map_or(0, resource_meta::server_part_bytes) + resource.references_bytes();
    limited(resource.bytes().len().saturating_sub(kept_by_server), resource.version(), resource.deletion_mark())
}

fn limited(size: usize, version: &str, mark: Option<&str>) -> usize {
    // Each entry of a map is a message with a tag and a length, its key, and its value.
    const MAP_ENTRY_BYTES: usize = 6;
    // Longest text that counts as a mark, a point in time; anything longer counts as the client's content.
    const MAX_MARK_BYTES: usize = 40;
    let version = if version.is_empty() { 0 } else { version.len() + 2 };
    let mark = mark.filter(|value| value.len() <= MAX_MARK_BYTES);
    let mark = mark.map_or(0, |value| meta::DELETION_TIMESTAMP.len() + value.len() + MAP_ENTRY_BYTES);
    size.saturating_sub(version + mark)
}
